"""Whether this machine is ready for voiceid, check by check, each with what to do."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path

from voiceid.audio.capture_state import MICROPHONE_PROBLEM, WELL
from voiceid.errors import ClockError, CredentialError, NoDeviceError, VoiceIdError
from voiceid.places import FOLDER, problem_of
from voiceid.service.sockets import client_socket
from voiceid.settings import ModelSettings, Settings, default_config_path, load_settings
from voiceid.wall_clock import show_moment, unix_seconds

MIN_FREE_MIB = 20
ADVISED_FREE_MIB = 200
MIN_MEMORY_MIB = 250
ADVISED_MEMORY_MIB = 500
_WITHOUT_MICROPHONE = "audio files work without"
BUILD_TIME = 1_750_000_000
"""Unix seconds (June 2025): a clock before it was never set."""


@unique
class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    """Works, with limits."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; ``advice`` says what to do, where there is something to do."""

    name: str
    status: Status
    detail: str
    advice: str = ""


def run_checks(config: Path | None = None, vault: Path | None = None) -> tuple[Check, ...]:
    """All checks, of the configuration at ``config`` and the vault at ``vault`` (default: the configured ones)."""
    settings, configuration = _configuration(config)
    folder = vault or settings.paths.vault
    key = settings.paths.device_key or folder / "device.key"
    of_daemon = vault is None and client_socket(settings.service) is not None
    checks: dict[str, Callable[[], Check]] = {
        "python": _python,
        "configuration": lambda: configuration,
        "models": lambda: _models(settings),
        "portaudio": _portaudio,
        "microphone": lambda: _microphones(settings),
        "sound access": _sound_access,
        "sound server": _sound_server,
        "wake word": lambda: _wake_word(settings),
        "vault": lambda: _closed("vault", folder, of_daemon) or _vault(folder),
        "device key": lambda: _closed("device key", key, of_daemon) or _device_key(folder, key),
        "records": lambda: _closed("records", folder, of_daemon) or _records(folder, key, settings.models),
        "daemon": lambda: _daemon(settings),
        "clock": _clock,
        "disk": lambda: _disk(folder),
        "memory": _memory,
    }
    return tuple(_made(name, check) for name, check in checks.items())


def _made(name: str, check: Callable[[], Check]) -> Check:
    """What ``check`` finds, also where the system does not even let it look."""
    try:
        return check()
    except (OSError, VoiceIdError) as error:
        return Check(name, Status.FAIL, str(error), "name a path that can exist and that this user may see")


def _python() -> Check:
    detail = f"{platform.python_version()} on {platform.machine()}, {platform.system()}"
    if sys.maxsize <= 2**32:
        return Check("python", Status.FAIL, f"{detail}, 32-bit", "install a 64-bit system: the models need one")
    return Check("python", Status.OK, detail)


def _configuration(path: Path | None) -> tuple[Settings, Check]:
    where = path or default_config_path()
    try:
        settings = load_settings(path)
    except VoiceIdError as error:
        return Settings(), Check("configuration", Status.FAIL, str(error), f"correct or remove {where}")
    return settings, Check("configuration", Status.OK, str(where) if where.exists() else f"defaults (no {where})")


def _models(settings: Settings) -> Check:
    try:
        from voiceid.pipeline import Pipeline

        start = time.perf_counter()
        Pipeline.load(settings)
    except VoiceIdError as error:
        return Check("models", Status.FAIL, str(error), _models_advice(settings))
    return Check("models", Status.OK, f"verified and loaded in {time.perf_counter() - start:.1f} s")


def _models_advice(settings: Settings) -> str:
    """What to do about models, by where they come from."""
    if os.environ.get("VOICEID_MODELS"):
        return "VOICEID_MODELS says where the models are: correct or unset it"
    if settings.models != ModelSettings():
        return "[models] in the configuration names other models than the shipped ones: correct or remove it"
    return "reinstall voiceid: its own models are missing or damaged"


def _portaudio() -> Check:
    try:
        import sounddevice
    except (OSError, ImportError) as error:
        return Check("portaudio", Status.WARN, str(error), "for --microphone: sudo apt install libportaudio2")
    return Check("portaudio", Status.OK, sounddevice.get_portaudio_version()[1].split(",")[0])


def _microphones(settings: Settings) -> Check:
    from voiceid.audio.device import choose
    from voiceid.audio.microphone import list_microphones

    wanted = settings.capture.device
    try:
        found = list_microphones()
        chosen = choose(found, wanted)
    except NoDeviceError as error:
        advice = "correct [capture] device, or connect it" if wanted else _WITHOUT_MICROPHONE
        return Check("microphone", Status.WARN, str(error), advice)
    except VoiceIdError as error:
        return Check("microphone", Status.WARN, str(error), _WITHOUT_MICROPHONE)
    names = "; ".join(f"{m.name} ({m.rate} Hz)" for m in found)
    return Check("microphone", Status.OK, f"uses {chosen.name!r} of: {names}")


def _sound_access() -> Check:
    from voiceid.audio.permissions import ACCESS_ADVICE, capture_devices, forbidden_devices

    devices, forbidden = capture_devices(), forbidden_devices()
    if not devices:
        return Check("sound access", Status.OK, "no sound card of its own on this machine")
    if forbidden:
        detail = f"no right to use {', '.join(map(str, forbidden))}"
        return Check("sound access", Status.WARN, detail, f"{ACCESS_ADVICE}; a service needs SupplementaryGroups=audio")
    return Check("sound access", Status.OK, f"{len(devices)} capture devices may be used")


def _sound_server() -> Check:
    from voiceid.audio.permissions import capture_devices, forbidden_devices
    from voiceid.audio.sound_server import reachable_servers, server_sockets

    if found := reachable_servers():
        return Check("sound server", Status.OK, f"{' and '.join(found)} can be reached")
    if platform.system() != "Linux":
        return Check("sound server", Status.OK, "not needed on this system")
    sockets = server_sockets()
    where = ", ".join(map(str, sockets.values()))
    detail = f"none at {where}" if sockets else "no user session (XDG_RUNTIME_DIR is not set)"
    if set(capture_devices()) - set(forbidden_devices()):
        return Check("sound server", Status.OK, f"{detail}; ALSA devices are used directly")
    advice = (
        "in a user's session: systemctl --user start pipewire pipewire-pulse; a system service needs an ALSA device"
    )
    return Check("sound server", Status.WARN, detail, advice)


def _wake_word(settings: Settings) -> Check:
    activation = settings.activation
    if activation.kind != "wake_word":
        return Check("wake word", Status.OK, f"not used (activation by {activation.kind.replace('_', ' ')})")
    from voiceid.activation.engines import make_engine

    try:
        make_engine(activation.engine, activation.wake_word)
    except VoiceIdError as error:
        return Check("wake word", Status.FAIL, str(error), "pip install 'voiceid[wakeword]', or correct [activation]")
    return Check("wake word", Status.OK, f"{activation.wake_word!r} by engine {activation.engine!r}")


def _closed(name: str, path: Path, of_daemon: bool) -> Check | None:
    """The check of what is at ``path`` where that is another user's, as the daemon's is for its clients; else None.

    It may be as sound as can be: this user is not meant to know. ``of_daemon`` where a daemon's socket is there.
    """
    owner = _owner_elsewhere(path)
    if owner is None:
        return None
    detail = f"{path}: closed to you, of uid {owner}"
    if of_daemon:
        return Check(name, Status.OK, f"{detail}, as it should be for a client of the daemon")
    advice = "if it is the daemon's, that is as it should be: start it (systemctl start voiceid); else use --vault"
    return Check(name, Status.WARN, detail, advice)


def _owner_elsewhere(path: Path) -> int | None:
    """The uid of another user who keeps ``path``, or a folder above it, to themselves; None where this one may look."""
    for place in (*reversed(path.parents), path):
        try:
            status = place.stat()
        except OSError:
            return None
        may_look = os.access(place, os.R_OK | os.X_OK if place.is_dir() else os.R_OK)
        if status.st_uid != os.geteuid() and not (may_look if place == path else os.access(place, os.X_OK)):
            return status.st_uid
    return None


def _vault(folder: Path) -> Check:
    if problem := problem_of(folder, FOLDER):
        return Check("vault", Status.FAIL, problem, "correct [paths] vault or --vault")
    if not folder.exists():
        parent = next(p for p in folder.parents if os.access(p, os.F_OK))
        if os.access(parent, os.W_OK):
            return Check("vault", Status.OK, f"{folder}: none yet; the first enrolment makes it")
        return Check("vault", Status.FAIL, f"{folder}: cannot be made", f"make {parent} writable or use --vault")
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if os.geteuid() not in (0, status.st_uid) and status.st_uid != 0:
        return Check(
            "vault", Status.FAIL, f"{folder}: belongs to uid {status.st_uid}", "name a vault of your own with --vault"
        )
    if mode & 0o077:
        return Check("vault", Status.FAIL, f"{folder}: others have access (mode {mode:04o})", f"chmod 700 {folder}")
    if not os.access(folder, os.W_OK):
        return Check("vault", Status.FAIL, f"{folder}: read-only", "make it writable: counters must be stored")
    return Check("vault", Status.OK, f"{folder} (mode {mode:04o})")


def _device_key(folder: Path, path: Path) -> Check:
    from voiceid.credentials.keys import load_device_key, systemd_credential

    where = systemd_credential() or path
    if not where.exists() and not (folder / "format").exists():
        return Check("device key", Status.OK, "none yet; the first enrolment makes it")
    try:
        load_device_key(path)
    except VoiceIdError as error:
        advice = (
            f"make {where} a file of 32 bytes that only this user can read"
            if where.exists()
            else "restore it from a backup: without its key a vault cannot be opened"
        )
        return Check("device key", Status.FAIL, str(error), advice)
    return Check("device key", Status.OK, f"{where}")


def _records(folder: Path, key: Path, models: ModelSettings) -> Check:
    from voiceid.credentials.keys import load_device_key
    from voiceid.enrolment.vault import Vault
    from voiceid.models.store import known_sha256

    if not Vault.exists(folder):
        return Check("records", Status.OK, "none yet")
    if folder.stat().st_mode & 0o077:  # opening it would take that sign of a leak away
        return Check("records", Status.WARN, "not looked at while others have access", "see 'vault' above")
    try:
        vault = Vault.open(folder, load_device_key(key))
        users, problems = vault.list_users(), vault.problems()
    except CredentialError as error:
        return Check("records", Status.FAIL, str(error), "see 'device key' above")
    except VoiceIdError as error:
        advice = "do as it says; where that cannot be done, restore the vault from a backup or start a new one"
        return Check("records", Status.FAIL, str(error), advice)
    if problems:
        return Check("records", Status.FAIL, "; ".join(problems), "do as each of these says")
    model = known_sha256(models.identity)
    if stale := [user.name for user in users if user.needs_renewal(model)]:
        detail = f"{len(users)} users; templates of another identity model than is in use: {', '.join(stale)}"
        return Check("records", Status.WARN, detail, "for each: voiceid users renew NAME; all credentials stay")
    return Check("records", Status.OK, f"{len(users)} users")


def _daemon(settings: Settings) -> Check:
    from voiceid.service.client import Client
    from voiceid.service.sockets import is_served

    path = client_socket(settings.service)
    try:
        if path is None:
            return Check("daemon", Status.OK, "none runs; commands work in their own process")
        if not is_served(path):
            advice = "start it (systemctl start voiceid), or remove the socket"
            return Check("daemon", Status.WARN, f"{path}: nobody listens here any more", advice)
        with Client(path, timeout=5) as client:
            status = client.call("status")
    except VoiceIdError as error:
        return Check("daemon", Status.FAIL, str(error), "see its log (journalctl -u voiceid) and the socket's group")
    detail = f"{status['version']} at {path}; microphone {status['microphone']}, {status['activation']}"
    problems = status.get("problems", [])
    told = "; ".join((detail, *problems))
    if any(not problem.startswith(MICROPHONE_PROBLEM) for problem in problems):
        return Check("daemon", Status.FAIL, told, "see 'voiceid status'")
    if status["microphone"] not in WELL:
        return Check("daemon", Status.WARN, told, f"nobody is heard until it is back; {_WITHOUT_MICROPHONE}")
    return Check("daemon", Status.OK, detail)


def _clock() -> Check:
    try:
        seconds = unix_seconds()
    except ClockError as error:
        return Check("clock", Status.FAIL, str(error), "set it: nobody can enrol or authenticate")
    now = show_moment(seconds)
    if seconds < BUILD_TIME:
        return Check("clock", Status.WARN, now, "set it (timedatectl): envelopes carry the time and may be refused")
    return Check("clock", Status.OK, now)


def _disk(folder: Path) -> Check:
    place = next(p for p in (folder, *folder.parents) if os.access(p, os.F_OK))
    free = shutil.disk_usage(place).free >> 20
    detail = f"{free} MiB free at {place}"
    if free < MIN_FREE_MIB:
        return Check("disk", Status.FAIL, detail, "free some space: a full disk loses new enrolments")
    return Check(
        "disk", Status.OK if free >= ADVISED_FREE_MIB else Status.WARN, detail, _advise(free, ADVISED_FREE_MIB)
    )


def _memory() -> Check:
    info = Path("/proc/meminfo")
    if not info.exists():
        return Check("memory", Status.OK, "not measured on this system")
    available = next(
        int(row.split()[1]) >> 10 for row in info.read_text().splitlines() if row.startswith("MemAvailable")
    )
    detail = f"{available} MiB available"
    if available < MIN_MEMORY_MIB:
        return Check("memory", Status.FAIL, detail, f"close programs: voiceid needs {MIN_MEMORY_MIB} MiB")
    status = Status.OK if available >= ADVISED_MEMORY_MIB else Status.WARN
    return Check("memory", status, detail, _advise(available, ADVISED_MEMORY_MIB))


def _advise(have: int, advised: int) -> str:
    return "" if have >= advised else f"{advised} MiB are advised"
