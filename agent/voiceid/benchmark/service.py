"""What the resident daemon costs and how fast it answers, measured from outside, on real speech in real time."""

from __future__ import annotations

import importlib.util
import queue
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voiceid import __version__
from voiceid.audio import read_waveform
from voiceid.benchmark.feeder import Feeder
from voiceid.benchmark.machine import Machine, describe_machine
from voiceid.benchmark.served import Served, Usage
from voiceid.benchmark.speech import collect_speech
from voiceid.errors import ServiceError
from voiceid.service.client import Client
from voiceid.settings import ActivationSettings, Settings
from voiceid.types import Samples

SCHEMA = 1
COMMAND_SECONDS = 3.0
IDLE_SECONDS, QUICK_IDLE_SECONDS = 30.0, 5.0
COMMANDS, QUICK_COMMANDS = 20, 3
CLAIMS, QUICK_CLAIMS = 1500, 200
CLAIMS_A_CONNECTION = 40
"""Fewer messages than one connection may send at once: the daemon is measured, not its limit on messages."""
SOAK_PAUSE = 5.0
"""Seconds between two commands of a soak."""
WARM_UP = 0.2
"""Share of a soak before its slopes are taken."""
USER = "benchmark"
_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds."""

    p50_ms: float
    p95_ms: float
    most_ms: float


@dataclass(frozen=True, slots=True)
class Listening:
    """The daemon with nobody speaking; None where the system has no /proc."""

    activation: str
    seconds: float
    cpu_share: float | None
    """Of one core."""
    rss_mib: float | None


@dataclass(frozen=True, slots=True)
class Answering:
    """``verify`` on commands of three seconds, spoken in real time."""

    commands: int
    answers: dict[str, int]
    to_first_event: Spread
    """From the client's call to ``listening``."""
    to_endpoint: Spread
    """From the last word to the endpoint: the silence that ends an utterance, and the VAD's hang-over."""
    to_answer: Spread
    """From the endpoint to the answer."""
    cpu_ms: float | None
    """Processor time of the daemon for one command, listening to it included."""
    waited_ms: float | None
    """Time that its threads stood still meanwhile because other programs had the processor, added up."""


@dataclass(frozen=True, slots=True)
class Soak:
    """A daemon in use for long; slopes after the first fifth, by least squares, over hours of audio."""

    minutes: float
    """Of audio."""
    speed: float
    """Seconds of audio a second."""
    commands: int
    answers: dict[str, int]
    rss_mib: tuple[float, ...]
    """At ten moments from the first to the last."""
    rss_slope_mib_per_hour: float
    rss_growth_mib: float
    """Most resident memory after the first fifth, less that at its end."""
    descriptors_first: int
    descriptors_last: int
    descriptors_slope_per_hour: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """Everything measured."""

    schema: int
    version: str
    machine: Machine
    caveat: str
    listening: Listening
    answering: Answering
    claims_per_second: float
    """Claims and releases, one after the other."""
    peak_rss_mib: float | None
    frames: int
    frames_dropped: int
    """Of 30 ms, which the reader did not take within two seconds."""
    longest_wait_ms: float
    """Audio that waited for the reader at most."""
    soak: Soak | None


def run_service_benchmark(
    settings: Settings,
    files: Sequence[Path],
    *,
    quick: bool = False,
    minutes: float = 0.0,
    speed: float = 1.0,
    on_step: Callable[[str], None] = lambda _: None,
) -> ServiceReport:
    """Measure a daemon of its own; ``on_step`` hears what comes next, four times, five with a soak.

    The soak lasts ``minutes`` of audio, which comes ``speed`` times faster than real time.

    Raises:
        AudioError: no speech to measure on.
        ServiceError: the daemon does not start.
        RemoteError: it does not take the speech for an enrolment: other recordings are needed.
    """
    machine = describe_machine()
    commands = QUICK_COMMANDS if quick else COMMANDS
    speech = collect_speech(files, commands * COMMAND_SECONDS).reshape(commands, -1)
    kind = "wake_word" if _has_wake_word() else "voice"
    on_step("starting a daemon")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voiceid-benchmark-")))
        served = Served(folder, settings.models, activation=kind)
        feeder = stack.enter_context(Feeder(served.pipe))
        stack.enter_context(served)
        client = stack.enter_context(served.client())
        enrol(client, files)
        on_step("listening to silence")
        listening = _listen(served, kind, QUICK_IDLE_SECONDS if quick else IDLE_SECONDS)
        on_step(f"{commands} commands")
        answering = _answer(served, feeder, client, list(speech))
        on_step("claims")
        rate = _claim(served, QUICK_CLAIMS if quick else CLAIMS)
        soak = None
        if minutes:
            on_step(f"{minutes:g} minutes of use")
            feeder.speed = speed
            soak = run_soak(served, feeder, client, list(speech), minutes)
        usage = served.usage()
        return ServiceReport(
            SCHEMA,
            __version__,
            machine,
            _caveat(machine),
            listening,
            answering,
            rate,
            usage.peak_rss_mib if usage else None,
            feeder.frames,
            feeder.dropped,
            feeder.waiting * 1e3,
            soak,
        )


def enrol(client: Client, files: Sequence[Path]) -> None:
    """Enrol :data:`USER` with what is said in ``files``.

    Raises:
        RemoteError: it is not enough, or not one person's.
    """
    recordings = [read_waveform(file).samples for file in files[:12]]
    if len(recordings) < 3:  # one long recording will do
        recordings = list(collect_speech(files, 18.0).reshape(3, -1))
    client.hand_over(recordings)
    client.call("enrol", user=USER, audio=True)
    client.call("release")


@dataclass(frozen=True, slots=True)
class Spoken:
    """One command: moments on the monotonic clock."""

    answer: str
    called: float
    listening: float
    said: float
    endpoint: float
    answered: float


def speak(client: Client, feeder: Feeder, command: Samples) -> Spoken:
    """Ask for a verification and say ``command`` once the daemon listens.

    Raises:
        ServiceError: the utterance was not heard from beginning to end.
    """
    moments: dict[str, float] = {}

    def hear(name: str, params: dict[str, str]) -> None:
        moments[params["stage"]] = time.monotonic()
        if params["stage"] == "listening":
            feeder.say(command)

    called = time.monotonic()
    result = client.call("verify", hear, user=USER, purpose="a benchmark", challenge=secrets.token_bytes(16))
    answered = time.monotonic()
    client.call("lockout.reset", user=USER)  # else five denials in a row would end the measurement
    try:
        said = feeder.said(_LIMIT)
    except queue.Empty:
        raise ServiceError("the daemon stopped reading its microphone") from None
    if "judging" not in moments:
        raise ServiceError(f"verify: answered {result['answer']} before anything was judged")
    return Spoken(result["answer"], called, moments["listening"], said, moments["judging"], answered)


def _listen(served: Served, kind: str, seconds: float) -> Listening:
    before = served.usage()
    time.sleep(seconds)
    after = served.usage()
    if before is None or after is None:
        return Listening(kind, seconds, None, None)
    share = (after.cpu_seconds - before.cpu_seconds) / (after.at - before.at)
    return Listening(kind, seconds, share, after.rss_mib)


def _answer(served: Served, feeder: Feeder, client: Client, commands: Sequence[Samples]) -> Answering:
    speak(client, feeder, commands[0])  # warms up
    before = served.usage()
    spoken = [speak(client, feeder, command) for command in commands]
    after = served.usage()
    cpu = waited = None
    if before and after:
        cpu = (after.cpu_seconds - before.cpu_seconds) / len(spoken) * 1e3
        waited = (after.waited_seconds - before.waited_seconds) / len(spoken) * 1e3
    return Answering(
        len(spoken),
        dict(Counter(one.answer for one in spoken)),
        _spread([one.listening - one.called for one in spoken]),
        _spread([one.endpoint - one.said for one in spoken]),
        _spread([one.answered - one.endpoint for one in spoken]),
        cpu,
        waited,
    )


def _claim(served: Served, count: int) -> float:
    seconds = 0.0
    for first in range(0, count, CLAIMS_A_CONNECTION):
        with served.client() as client:
            began = time.monotonic()
            for _ in range(min(CLAIMS_A_CONNECTION, count - first)):
                client.call("claim")
                client.call("release")
            seconds += time.monotonic() - began
    return count / seconds


def run_soak(
    served: Served, feeder: Feeder, client: Client, commands: Sequence[Samples], minutes: float
) -> Soak | None:
    """Speak ``commands`` over and over for ``minutes`` of audio and watch what the daemon uses; None without /proc."""
    if (first := served.usage()) is None:
        return None
    samples = [first]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            if (usage := served.usage()) is not None:
                samples.append(usage)

    watcher = threading.Thread(target=watch, name="watcher", daemon=True)
    watcher.start()
    answers: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes / feeder.speed
    try:
        while time.monotonic() < end:
            answers[speak(client, feeder, commands[answers.total() % len(commands)]).answer] += 1
            time.sleep(SOAK_PAUSE / feeder.speed)
    finally:
        done.set()
        watcher.join()
    if (last := served.usage()) is not None:
        samples.append(last)  # with the first, enough for a slope, however short the soak
    return _soak(samples, minutes, feeder.speed, answers)


def _soak(samples: Sequence[Usage], minutes: float, speed: float, answers: Counter[str]) -> Soak:
    warm = samples[round(WARM_UP * len(samples)) :]
    hours = [usage.at * speed / 3600 for usage in warm]
    rss, descriptors = [usage.rss_mib for usage in warm], [float(usage.descriptors) for usage in warm]
    picked = np.linspace(0, len(samples) - 1, 10).round().astype(int)
    return Soak(
        minutes,
        speed,
        answers.total(),
        dict(answers),
        tuple(round(samples[at].rss_mib, 1) for at in picked),
        _slope(hours, rss),
        max(rss) - rss[0],
        samples[0].descriptors,
        samples[-1].descriptors,
        _slope(hours, descriptors),
        (samples[-1].cpu_seconds - samples[0].cpu_seconds) / (samples[-1].at - samples[0].at),
    )


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.asarray(x) - x[0], y, 1)[0])


def _spread(seconds: Sequence[float]) -> Spread:
    p50, p95, most = np.percentile(np.asarray(seconds) * 1e3, [50, 95, 100])
    return Spread(float(p50), float(p95), float(most))


def _has_wake_word() -> bool:
    engine = {"micro": "pymicro_wakeword", "open": "pyopen_wakeword"}[ActivationSettings().engine]
    return importlib.util.find_spec(engine) is not None


def _caveat(machine: Machine) -> str:
    where = f"on {machine.cpu} ({machine.cores} cores)"
    if not machine.is_pi_4:
        where += ", which is no Raspberry Pi 4B: expect other figures there"
    busy = machine.load is not None and machine.load > machine.cores / 2
    disturbed = f"; load {machine.load} before the start: other programs slowed this down" if busy else ""
    return f"measured {where}; audio came through a pipe, not from a sound card{disturbed}"
