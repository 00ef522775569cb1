"""Settings: nested frozen dataclasses, read from TOML, every key, type and range checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from voiceid.credentials.rp_id import is_rp_id
from voiceid.errors import SettingsError
from voiceid.file_kind import FileKind, this_is
from voiceid.regular_file import read_regular
from voiceid.tables import Between, Named, from_table, read_toml

MAX_CONFIG = 1 << 16
"""Bytes of a configuration file, of which a full one has a sixteenth: time goes by the square of its dotted keys."""

MAX_RECORDINGS = 20
"""Utterances after which an enrolment gives up."""

LogLikelihoodRatio = Annotated[float, Between(-100, 100)]
CardReference = Annotated[str, Named()]
NamedPath = Annotated[Path, Named()]
Uid = Annotated[int, Between(0, 2**32 - 2)]


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

    min_utterances: Annotated[int, Between(1, MAX_RECORDINGS)] = 3
    """Accepted utterances; each enrolment takes up to 20."""
    min_net_speech: Annotated[float, Between(1, 600)] = 8.0
    """Seconds of speech over all accepted utterances."""
    same_speaker_llr: LogLikelihoodRatio = 0.0
    """Least log-likelihood ratio of an utterance against those before it; verification asks for more than this."""
    similar_user_llr: LogLikelihoodRatio = 0.0
    """Warn when another enrolled user scores above this log-likelihood ratio."""


@dataclass(frozen=True, slots=True)
class IdentificationSettings:
    """Finding out who of the enrolled speaks."""

    least_lead: Annotated[float, Between(0, 100)] = 2.0
    """How far the identity score (log-likelihood ratio) of the best match must lie above that of every other user who
    would pass too; with less they cannot be told apart, and none of them is named."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which card fills each role: a card's name among the shipped models, or a path to a card."""

    identity: CardReference = "identity-pi"
    """Who speaks."""
    spoofing: CardReference = "spoofing-pi"
    """Whether it is artificial."""
    liveness: CardReference = "liveness"
    """Whether it comes from a loudspeaker."""
    fusion: CardReference = "fusion"
    """The VoiceID score from the judges' scores."""
    units: CardReference = "units"
    """Speech as discrete units."""
    resynthesis: CardReference = "resynthesis"
    """Units as speech in one fixed voice; loaded only when a command asks for it."""
    guard: CardReference | None = None
    """Whether noise was added that deceives the identity model: ``guard``, the shipped card, or another one; by default
    nobody asks, as it costs time and refuses some owners."""
    former: tuple[CardReference, ...] = ()
    """Identity cards that were in use before: after a change they recognise users whose template is renewed."""
    threads: Annotated[int, Between(1, 64)] = 1
    """ONNX Runtime threads a session; more than one only helps an otherwise idle machine."""
    operating_point: Literal["convenience", "balanced", "strict"] = "balanced"
    """Which of the cards' thresholds count: ``strict`` accepts fewer strangers and refuses the owner more often."""


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where state lives."""

    vault: NamedPath = field(default_factory=lambda: _state_home() / "voiceid")
    """Folder (0700) of encrypted templates, credentials and counters; by default ``voiceid`` in ``$XDG_STATE_HOME``,
    else in ``~/.local/state``."""
    device_key: NamedPath | None = None
    """File of 32 random bytes; by default ``device.key`` inside the vault folder, made at the first enrolment."""


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """The one microphone and how patiently it is listened to; times in seconds."""

    device: Annotated[str, Named()] | None = None
    """Part of the microphone's name, or a pattern with ``*`` and ``?``, in any case; by default the system's own."""
    history: Annotated[float, Between(0.5, 30)] = 3.0
    """Audio kept from before the activation."""
    queue: Annotated[float, Between(0.5, 60)] = 5.0
    """Audio that may wait for a busy reader before the oldest is dropped."""
    lost_after: Annotated[float, Between(0.5, 60)] = 2.0
    """Time without any audio after which the device counts as lost."""
    silent_after: Annotated[float, Between(1, 600)] = 10.0
    """Time of digital silence after which the device counts as silent."""
    reopen_first: Annotated[float, Between(0.1, 10)] = 0.5
    """Pause before the first attempt to reopen a device; it doubles with every attempt."""
    reopen_longest: Annotated[float, Between(10, 600)] = 30.0
    """The longest such pause."""


@dataclass(frozen=True, slots=True)
class ActivationSettings:
    """What makes the agent listen, and when an utterance is over; times in seconds."""

    kind: Literal["wake_word", "push_to_talk", "voice", "file"] = "push_to_talk"
    """A wake word, a client's call, any speech, or a recording (``file``: for tests and demonstrations)."""
    engine: Literal["micro", "open"] = "micro"
    """The wake word engine: ``micro`` (pymicro-wakeword) or ``open`` (pyopen-wakeword)."""
    wake_word: Annotated[str, Named()] = "alexa"
    """A word that the engine knows."""
    wake_threshold: Annotated[float, Between(0, 1)] | None = None
    """Least probability of the wake word; by default the one that comes with it."""
    file: NamedPath | None = None
    """Recording or named pipe (mono, 16 kHz, 16-bit) that takes the microphone's place; kind ``file`` needs it, the
    others hear their wake word or speech in a pipe. Whatever is signed of it says ``file``."""
    end_silence: Annotated[float, Between(0.2, 5)] = 0.8
    """Time without speech after which an utterance is over."""
    min_speech: Annotated[float, Between(0.1, 5)] = 0.3
    """Speech after the activation that makes an utterance; less is a cough."""
    start_timeout: Annotated[float, Between(1, 60)] = 5.0
    """Time from the activation within which that much speech must have been heard."""
    max_seconds: Annotated[float, Between(1, 60)] = 15.0
    """The longest utterance, from the activation on."""


@dataclass(frozen=True, slots=True)
class RelyingPartyKeys:
    """Annotates a table whose keys are relying party ids."""

    def problem(self, table: dict[str, object]) -> str | None:
        """What is wrong with a key of ``table``, None if nothing is."""
        return None if all(map(is_rp_id, table)) else "must have domains in lower case for keys, as shop.example.org"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The resident daemon."""

    socket: NamedPath | None = None
    """Where it listens; by default ``voiceid.sock`` in ``/run/voiceid`` or in the session's runtime folder."""
    admins: tuple[Uid, ...] = ()
    """Uids that may do everything, beside root and the daemon's own."""
    relying_parties: Annotated[dict[str, list[Uid]], RelyingPartyKeys()] = field(default_factory=dict)
    """For each relying party id, the uids that may ask on its behalf; admins may for all."""
    max_clients: Annotated[int, Between(16, 4096)] = 256
    """Open connections; one uid that is no admin gets half of them. Each may take up to half a MiB."""
    claim_idle: Annotated[float, Between(1, 300)] = 10.0
    """Seconds without use after which a claim of the microphone ends that no wake word was armed with."""
    metrics_file: NamedPath | None = None
    """Prometheus text, mode 0640; by default ``metrics.prom`` beside the socket."""
    metrics_port: Annotated[int, Between(1024, 65535)] | None = None
    """Also serve the metrics on this TCP port of 127.0.0.1, to every user of this machine."""
    log_names: bool = False
    """Write user names into the log; otherwise a pseudonym for each."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the agent."""

    quality: QualitySettings = QualitySettings()
    enrolment: EnrolmentSettings = EnrolmentSettings()
    identification: IdentificationSettings = IdentificationSettings()
    models: ModelSettings = ModelSettings()
    capture: CaptureSettings = CaptureSettings()
    activation: ActivationSettings = ActivationSettings()
    paths: PathSettings = field(default_factory=PathSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)


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
        SettingsError: the file is missing (when named), not TOML, has an unknown key, a value of the wrong type or
            out of its range, or values that cannot go together.
    """
    explicit = path is not None
    path = path or default_config_path()
    try:
        data = read_regular(path, MAX_CONFIG)
        if other := this_is(data, FileKind.CONFIGURATION):
            raise SettingsError(f"{path}: not a configuration{other}")
        text = data.decode("utf-8")
    except FileNotFoundError:
        if explicit or os.environ.get("VOICEID_CONFIG"):
            raise SettingsError(f"{path}: no such configuration file") from None
        return Settings()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: cannot be read as UTF-8 ({error})") from error
    try:
        table = read_toml(text)
    except ValueError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    settings = from_table(Settings, table, where=str(path), error=SettingsError)
    if conflict := next(_conflicts(settings), None):
        raise SettingsError(f"{path}: {conflict}")
    return settings


def _conflicts(settings: Settings) -> Iterator[str]:
    """Settings that are possible each by itself, but not together, and what to do."""
    activation, quality, enrolment = settings.activation, settings.quality, settings.enrolment
    paths, service = settings.paths, settings.service
    if activation.kind == "file" and activation.file is None:
        yield (
            "activation: kind 'file' needs file, the recording or pipe that takes the microphone's place; "
            "name one, or choose another kind"
        )
    for name, most in (("min_speech", "start_timeout"), ("min_speech", "max_seconds"), ("end_silence", "max_seconds")):
        value, limit = getattr(activation, name), getattr(activation, most)
        if value >= limit:
            yield f"activation: {name} is {value:g}, but must be less than {most}, which is {limit:g}"
    longest = activation.max_seconds
    if quality.min_net_speech > longest:
        yield (
            f"quality: min_net_speech is {quality.min_net_speech:g}, but no utterance is longer than "
            f"{longest:g} s ([activation] max_seconds): lower the one or raise the other"
        )
    if enrolment.min_net_speech > MAX_RECORDINGS * longest:
        yield (
            f"enrolment: min_net_speech is {enrolment.min_net_speech:g}, but the {MAX_RECORDINGS} utterances of an "
            f"enrolment have at most {longest:g} s each ([activation] max_seconds): lower the one or raise the other"
        )
    if paths.device_key == paths.vault:
        yield f"paths: device_key and vault are both {paths.vault}; the one is a file, the other a folder"
    if service.socket is not None and service.socket == service.metrics_file:
        yield f"service: socket and metrics_file are both {service.socket}; choose different ones"


def _state_home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
