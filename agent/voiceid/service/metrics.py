"""What is counted, in Prometheus' text format: no user, no score. Written to a file, on a port only by choice."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, start_http_server

from voiceid import __version__
from voiceid.audio.capture_state import CaptureCounters, CaptureState
from voiceid.errors import ServiceError

_MODE = 0o640
_BUCKETS = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


class Metrics:
    """The daemon's metrics. Counting takes no lock of ours and never fails."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        Gauge("voiceid_info", "Version.", ["version"], registry=registry).labels(__version__).set(1)
        self._decisions = Counter(
            "voiceid_decisions",
            "Decisions by kind of ceremony and outcome.",
            ["ceremony", "outcome"],
            registry=registry,
        )
        self._judging = Histogram(
            "voiceid_judging_seconds",
            "From the end of an utterance to its decision.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._requests = Counter(
            "voiceid_requests", "Requests by method and result.", ["method", "result"], registry=registry
        )
        self._clients = Gauge("voiceid_clients", "Open connections.", registry=registry)
        self._reloads = Counter("voiceid_reloads", "Reloads by result.", ["result"], registry=registry)
        for result in ("ok", "failed"):
            self._reloads.labels(result)  # from 0 on, or an alarm would miss the first
        self._state = Gauge("voiceid_microphone_state", "1 for the present state.", ["state"], registry=registry)
        self._entered = Gauge(
            "voiceid_microphone_entered_total", "Times each state was entered.", ["state"], registry=registry
        )
        self._frames = Gauge("voiceid_frames_total", "Frames of 30 ms that were heard.", registry=registry)
        self._dropped = Gauge("voiceid_dropped_samples_total", "Samples dropped by a slow reader.", registry=registry)
        self._overflows = Gauge("voiceid_overflows_total", "Losses before audio reached the daemon.", registry=registry)

    def decision(self, ceremony: str, outcome: str, seconds: float | None) -> None:
        """Count a decision that took ``seconds`` from the end of the utterance; None where nobody had to speak."""
        self._decisions.labels(ceremony, outcome).inc()
        if seconds is not None:
            self._judging.observe(seconds)

    def request(self, method: str, result: str, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, result).inc()

    def clients(self, count: int) -> None:
        """Say how many are connected."""
        self._clients.set(count)

    def reload(self, result: str) -> None:
        """Count a reload."""
        self._reloads.labels(result).inc()

    def microphone(self, state: str, counters: CaptureCounters | None) -> None:
        """Say how the microphone is."""
        for name in (*CaptureState, "file"):
            self._state.labels(str(name)).set(name == state)
        if counters is not None:
            self._frames.set(counters.frames)
            self._dropped.set(counters.dropped)
            self._overflows.set(counters.overflows)
            for entered, times in counters.entered.items():
                self._entered.labels(entered.value).set(times)

    def text(self) -> str:
        """Everything."""
        return generate_latest(self._registry).decode()

    def write(self, path: Path) -> None:
        """Write everything to ``path`` (0640), whole or not at all; no fsync, since it is soon written again.

        Raises:
            OSError: it cannot be written.
        """
        descriptor, name = tempfile.mkstemp(prefix=".metrics-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                os.fchmod(stream.fileno(), _MODE)
                stream.write(self.text())
            Path(name).replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def serve(self, port: int) -> None:
        """Serve everything on ``port`` of 127.0.0.1.

        Raises:
            ServiceError: the port is taken.
        """
        try:
            start_http_server(port, addr="127.0.0.1", registry=self._registry)
        except OSError as error:
            raise ServiceError(f"metrics_port {port}: {error.strerror}; choose another in [service]") from error
