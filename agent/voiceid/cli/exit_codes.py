"""The exit codes of ``voiceid``: a contract between the command line and the scripts that call it."""

from __future__ import annotations

from enum import IntEnum, unique

from voiceid.errors import (
    AudioDeviceError,
    AudioError,
    BackupError,
    ClockError,
    CodebookError,
    CredentialError,
    EnrolmentError,
    EnvelopeError,
    GrammarError,
    MissingPackageError,
    ModelError,
    NoSpeechError,
    PinError,
    ServiceError,
    SettingsError,
    UnknownUserError,
    VaultError,
)


@unique
class ExitCode(IntEnum):
    """What a run of ``voiceid`` came to: 10 to 19 are decisions, 20 to 29 errors, 30 and up the rest."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    ACCEPTED = 0, "accepted, or the command succeeded"
    INTERNAL = 1, "a fault in voiceid itself"
    USAGE = 2, "wrong command, option or argument"

    REJECTED = 10, "not the target speaker; for identify: unknown, or not clearly one user"
    SPOOF = 11, "artificial speech"
    REPLAY = 12, "speech that is not live"
    INCONSISTENT = 13, "speaker or authenticity changes inside the utterance"
    INCONCLUSIVE = 14, "too short, quiet, clipped, silent or noisy: try again"
    NOT_ENROLLED = 15, "no such user is enrolled"
    LOCKED_OUT = 16, "too many failures"
    NOT_UNDERSTOOD = 17, "no command of the grammar was understood"

    AUDIO = 20, "audio that cannot be read or must not be processed"
    DEVICE = 21, "no usable microphone"
    MODEL = 22, "a model is missing, damaged or of another shape"
    SETTINGS = 23, "the configuration is wrong"
    ENROLMENT = 24, "an incomplete or mixed enrolment, or an unusable user name"
    VAULT = 25, "the vault cannot be read or written"
    CREDENTIAL = 26, "a credential that is unknown, revoked or belongs elsewhere"
    ENVELOPE = 27, "an envelope that is malformed or refused"
    SYSTEM = 28, "the system refused: disk full, no permission, no memory, wrong clock"

    MISSING_PACKAGE = 29, "an optional package is not installed"

    CHECK_FAILED = 30, "doctor found a problem"
    DECLINED = 31, "not confirmed"
    SERVICE = 32, "the daemon cannot be reached, cannot start, or refused the request"
    PIN = 33, "a PIN that cannot be used, set or cleared"
    BACKUP = 34, "a backup that cannot be made, read or restored"
    GRAMMAR = 35, "a command grammar that is missing or malformed"
    CODEBOOK = 36, "units of another codebook than the model was trained on"
    INTERRUPTED = 130, "interrupted from the keyboard"
    CLOSED_PIPE = 141, "nobody reads standard output any more, as after 'head'"


_OF_ERROR: dict[type[BaseException], ExitCode] = {
    AudioDeviceError: ExitCode.DEVICE,
    NoSpeechError: ExitCode.INCONCLUSIVE,
    AudioError: ExitCode.AUDIO,
    ModelError: ExitCode.MODEL,
    SettingsError: ExitCode.SETTINGS,
    UnknownUserError: ExitCode.NOT_ENROLLED,
    EnrolmentError: ExitCode.ENROLMENT,
    VaultError: ExitCode.VAULT,
    BackupError: ExitCode.BACKUP,
    CredentialError: ExitCode.CREDENTIAL,
    EnvelopeError: ExitCode.ENVELOPE,
    MissingPackageError: ExitCode.MISSING_PACKAGE,
    ClockError: ExitCode.SYSTEM,
    PinError: ExitCode.PIN,
    GrammarError: ExitCode.GRAMMAR,
    CodebookError: ExitCode.CODEBOOK,
    ServiceError: ExitCode.SERVICE,
    OSError: ExitCode.SYSTEM,
    MemoryError: ExitCode.SYSTEM,
    KeyboardInterrupt: ExitCode.INTERRUPTED,
}


def code_of_error(error: BaseException) -> ExitCode:
    """The exit code of an error: that of its nearest known class."""
    return next((_OF_ERROR[cls] for cls in type(error).__mro__ if cls in _OF_ERROR), ExitCode.INTERNAL)


def code_of_outcome(outcome: str) -> ExitCode:
    """The exit code of a decision's outcome (:class:`voiceid.types.Outcome`)."""
    return ExitCode[outcome.upper()]
