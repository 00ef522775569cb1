"""A PulseAudio server of the tests' own, with a null sink whose monitor is the microphone: real audio in real time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest

TOOLS = ("pulseaudio", "pactl", "paplay")
STARTING = 15.0
"""Seconds that the server may take to start."""


class PulseServer:
    """Runs the server while the context is open; :attr:`environment` makes ALSA's default device lead to it."""

    def __init__(self, home: Path, *, rate: int = 16_000, channels: int = 1) -> None:
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            pytest.skip(f"{', '.join(missing)} not installed (apt: pulseaudio pulseaudio-utils libasound2-plugins)")
        runtime = home / "run"
        runtime.mkdir(mode=0o700)
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(runtime),
            "PULSE_RUNTIME_PATH": str(runtime / "pulse"),
        }
        (home / ".asoundrc").write_text("pcm.!default { type pulse }\nctl.!default { type pulse }\n")
        self._sink = f"module-null-sink sink_name=vmic rate={rate} channels={channels} format=s16le"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PulseServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, and skip the test where it does not."""
        self._process = subprocess.Popen(
            [
                *("pulseaudio", "--daemonize=no", "--exit-idle-time=-1", "-n", "--load=module-native-protocol-unix"),
                f"--load={self._sink}",
                "--load=module-remap-source master=vmic.monitor source_name=mic",
            ],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + STARTING
        while self.control("set-default-source", "mic").returncode != 0:
            if time.monotonic() > end or self._process.poll() is not None:
                self.stop()
                pytest.skip("PulseAudio does not start here")
            time.sleep(0.1)

    def unplug(self) -> None:
        """Take the microphone away."""
        for module in ("module-remap-source", "module-null-sink"):
            self.control("unload-module", module)

    def plug(self) -> None:
        """Bring it back."""
        for module in (self._sink, "module-remap-source master=vmic.monitor source_name=mic"):
            self.control("load-module", *module.split())
        self.control("set-default-source", "mic")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server, if it runs, by ``how``."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(10)
            self._process = None

    def control(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``pactl``."""
        return subprocess.run(["pactl", *arguments], env=self.environment, capture_output=True, text=True)

    def play(self, clip: Path) -> subprocess.Popen[bytes]:
        """Begin to play ``clip`` into the microphone."""
        return subprocess.Popen(["paplay", "--device=vmic", str(clip)], env=self.environment)
