"""Every error that voiceid raises on purpose.

Each message says what is wrong, with which value, and what to do about it; :class:`VoiceIdError` catches them all.
"""


class VoiceIdError(Exception):
    """Base of all voiceid errors."""


class AudioError(VoiceIdError):
    """Audio that cannot be read or must not be processed (corrupt, empty, not finite, too long)."""


class NoSpeechError(AudioError):
    """Nobody spoke while somebody was listened to: to be asked again."""


class AudioDeviceError(AudioError):
    """A microphone that cannot be used, or no sound system at all."""


class NoDeviceError(AudioDeviceError):
    """There is no microphone, or none of the wanted name."""


class DeviceBusyError(AudioDeviceError):
    """Another program holds the microphone."""


class DeviceAccessError(AudioDeviceError):
    """This process may not use the microphone."""


class DeviceLostError(AudioDeviceError):
    """A microphone that was open delivers nothing more: unplugged, suspended, or its sound server ended."""


class SettingsError(VoiceIdError):
    """A configuration file with unknown keys, wrong types or impossible values."""


class ModelError(VoiceIdError):
    """A model or its card that is missing, damaged or of another shape than announced."""


class EnrolmentError(VoiceIdError):
    """An enrolment that cannot be completed, or a user name that cannot be used."""


class UnknownUserError(EnrolmentError):
    """The user is not enrolled on this device."""


class VaultError(VoiceIdError):
    """The vault cannot be read or written: damaged, from a newer version, wrong device key, disk full."""


class BackupError(VoiceIdError):
    """A backup that cannot be made, read or restored: damaged, newer, wrong passphrase, or at odds with the vault."""


class CredentialError(VoiceIdError):
    """A credential that is unknown, revoked, damaged, or belongs to another relying party or user."""


class EnvelopeError(VoiceIdError):
    """An envelope that is malformed, altered, replayed, or not meant for this relying party."""


class ClockError(VoiceIdError):
    """The device's clock shows a time that can be neither stored nor signed."""


class ServiceError(VoiceIdError):
    """The daemon cannot be reached, cannot start, or refused a request."""


class PinError(VoiceIdError):
    """A PIN that cannot be used, or cannot be set or cleared like this."""


class MissingPackageError(VoiceIdError):
    """An optional package that a command needs is not installed."""


class GrammarError(VoiceIdError):
    """A command grammar that is missing or malformed."""


class CodebookError(VoiceIdError):
    """Units of another codebook than the model was trained on that is to take them."""
