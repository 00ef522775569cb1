"""The error of this study."""

from voiceid.errors import VoiceIdError


class StudyError(VoiceIdError):
    """Data or options from which no honest number can come; the message says what is wrong and what to do."""
