"""Settings: nested frozen dataclasses, read from TOML, every key, type and range checked."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from voiceid.errors import SettingsError
from voiceid.regular_file import read_regular
from voiceid.tables import Between, Named, from_table

MAX_CONFIG = 1 << 20
"""Bytes of a configuration file; a full one is a thousandth of it."""

LogLikelihoodRatio = Annotated[float, Between(-100, 100)]
CardReference = Annotated[str, Named()]
NamedPath = Annotated[Path, Named()]


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """What an utterance must offer to be judged."""

    min_net_speech: Annotated[float, Between(0.5, 60)] = 1.0
    """Seconds of speech without pauses."""
    min_speech_dbfs: Annotated[float, Between(-120, 0)] = -55.0
    """RMS level of the speech as captured."""
    min_snr_db: Annotated[float, Between(0, 60)] = 3.0
    """Estimated signal-to-noise ratio."""
    max_clipped: Annotated[float, Between(0, 1)] = 0.01
    """Fraction of samples in flat runs at full scale."""


@dataclass(frozen=True, slots=True)
class EnrolmentSettings:
    """What a template must rest on."""

    min_utterances: Annotated[int, Between(1, 100)] = 3
    min_net_speech: Annotated[float, Between(1, 600)] = 8.0
    """Seconds of speech over all accepted utterances."""
    same_speaker_llr: LogLikelihoodRatio = 0.0
    """Least log-likelihood ratio of an utterance against those before it; verification asks for more than this."""
    similar_user_llr: LogLikelihoodRatio = 0.0
    """Warn when another enrolled user scores above this log-likelihood ratio."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which card fills each role: a card's name among the shipped models, or a path to a card."""

    identity: CardReference = "identity-pi"
    spoofing: CardReference = "spoofing-pi"
    liveness: CardReference = "liveness"
    fusion: CardReference = "fusion"
    units: CardReference = "units"
    threads: Annotated[int, Between(1, 64)] = 1
    """ONNX Runtime threads a session; more than one only helps an otherwise idle machine."""
    operating_point: Literal["convenience", "balanced", "strict"] = "balanced"


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where state lives."""

    vault: NamedPath = field(default_factory=lambda: _state_home() / "voiceid")
    """Folder (0700) of encrypted templates, credentials and counters."""
    device_key: NamedPath | None = None
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
        SettingsError: the file is missing (when named), not TOML, has an unknown key, or a value of the wrong
            type or out of its range.
    """
    explicit = path is not None
    path = path or default_config_path()
    try:
        text = read_regular(path, MAX_CONFIG).decode("utf-8")
    except FileNotFoundError:
        if explicit or os.environ.get("VOICEID_CONFIG"):
            raise SettingsError(f"{path}: no such configuration file") from None
        return Settings()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: cannot be read as UTF-8 ({error})") from error
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    return from_table(Settings, table, where=str(path), error=SettingsError)


def _state_home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
