"""Settings: nested frozen dataclasses, read from TOML, every key and type checked."""

from __future__ import annotations

import dataclasses
import math
import os
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from voiceid.errors import SettingsError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """What an utterance must offer to be judged."""

    min_net_speech: float = 1.0
    """Seconds of speech without pauses."""
    min_speech_dbfs: float = -55.0
    """RMS level of the speech as captured."""
    min_snr_db: float = 3.0
    """Estimated signal-to-noise ratio."""
    max_clipped: float = 0.01
    """Fraction of samples in flat runs at full scale."""


@dataclass(frozen=True, slots=True)
class EnrolmentSettings:
    """What a template must rest on."""

    min_utterances: int = 3
    min_net_speech: float = 8.0
    """Seconds of speech over all accepted utterances."""
    same_speaker_llr: float = 0.0
    """Least log-likelihood ratio of an utterance against those before it; verification asks for more than this."""
    similar_user_llr: float = 0.0
    """Warn when another enrolled user scores above this log-likelihood ratio."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which card fills each role: a card's name among the shipped models, or a path to a card."""

    identity: str = "identity-pi"
    spoofing: str = "spoofing-pi"
    liveness: str = "liveness"
    fusion: str = "fusion"
    units: str = "units"
    threads: int = 1
    """ONNX Runtime threads a session; more than one only helps an otherwise idle machine."""
    operating_point: Literal["convenience", "balanced", "strict"] = "balanced"


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where state lives."""

    vault: Path = field(default_factory=lambda: _state_home() / "voiceid")
    """Folder (0700) of encrypted templates, credentials and counters."""
    device_key: Path | None = None
    """File of 32 random bytes; by default ``device.key`` inside the vault folder, made at the first enrolment."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the agent."""

    quality: QualitySettings = QualitySettings()
    enrolment: EnrolmentSettings = EnrolmentSettings()
    models: ModelSettings = ModelSettings()
    paths: PathSettings = field(default_factory=PathSettings)


def default_config_path() -> Path:
    """``$VOICEID_CONFIG``, else ``$XDG_CONFIG_HOME/voiceid/config.toml``, else ``/etc/voiceid/config.toml``."""
    if configured := os.environ.get("VOICEID_CONFIG"):
        return Path(configured)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "voiceid" / "config.toml"
    system = Path("/etc/voiceid/config.toml")
    return system if system.exists() and not home.exists() else home


def load_settings(path: Path | None = None) -> Settings:
    """Read settings; without ``path``, from :func:`default_config_path`, which may be absent.

    Raises:
        SettingsError: the file is missing (when named), not TOML, has an unknown key, or a value of the wrong type.
    """
    explicit = path is not None
    path = path or default_config_path()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if explicit or os.environ.get("VOICEID_CONFIG"):
            raise SettingsError(f"{path}: no such configuration file") from None
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({error})") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    settings: Settings = from_table(Settings, table, where=str(path), error=SettingsError)
    _check_ranges(settings, str(path))
    return settings


def from_table(cls: type[T], table: Any, *, where: str, error: type[Exception]) -> T:
    """Build dataclass ``cls`` from a decoded TOML or JSON table; unknown, missing and mistyped keys raise ``error``."""
    if not isinstance(table, dict):
        raise error(f"{where}: expected a table, found {type(table).__name__}")
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(table) - set(fields)):
        raise error(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(fields))}")
    hints = typing.get_type_hints(cls)
    required = {
        n for n, f in fields.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if missing := sorted(required - set(table)):
        raise error(f"{where}: missing key {missing[0]!r}")
    values = {name: _convert(hints[name], value, f"{where}: {name}", error) for name, value in table.items()}
    return cls(**values)


def _convert(hint: Any, value: Any, where: str, error: type[Exception]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where, error)
    if origin is Literal:
        if value not in arguments:
            raise error(f"{where} is {value!r}; use one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(arguments[0], item, f"{where}[{i}]", error) for i, item in enumerate(value))
    if origin is list and isinstance(value, list):
        return [_convert(arguments[0], item, f"{where}[{i}]", error) for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {str(k): _convert(arguments[1], item, f"{where}.{k}", error) for k, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_table(typing.cast(type, hint), value, where=where, error=error)
    if hint is float and isinstance(value, float) and math.isnan(value):
        raise error(f"{where} is not a number")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        try:
            return Path(value).expanduser()
        except RuntimeError:
            raise error(f"{where} is {value!r}; there is no such home folder") from None
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise error(f"{where} is {value!r}; expected {getattr(hint, '__name__', hint)}")


def _check_ranges(settings: Settings, where: str) -> None:
    checks = (
        (settings.quality.min_net_speech >= 0.5, "quality: min_net_speech must be at least 0.5 s"),
        (0 <= settings.quality.max_clipped <= 1, "quality: max_clipped must lie between 0 and 1"),
        (settings.enrolment.min_utterances >= 1, "enrolment: min_utterances must be at least 1"),
        (1 <= settings.models.threads <= 64, "models: threads must lie between 1 and 64"),
    )
    for good, message in checks:
        if not good:
            raise SettingsError(f"{where}: {message}")


def _state_home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
