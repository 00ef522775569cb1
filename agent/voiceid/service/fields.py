"""What the methods of the daemon share: limits, access rules and fields."""

from __future__ import annotations

from voiceid.credentials.envelope import MAX_NONCE, MAX_PURPOSE, MIN_NONCE
from voiceid.enrolment.names import MAX_NAME
from voiceid.service.schema import Access, Field, Kind

MAX_CHUNK = 32_000
"""Bytes of audio in one message: one second of 16-bit samples at 16 kHz."""
MAX_HANDED_SECONDS = 240
"""Seconds of audio that a claim may hold."""
MAX_CLAIM_SECONDS = 300
MAX_HANDING_SECONDS = 60
"""Seconds that a claim lasts at most in which no wake word is waited for."""
MIN_PIN, MAX_PIN = 4, 64

ANYONE, ADMIN, OWNER = (Access.ANYONE,), (Access.ADMIN,), (Access.OWNER,)

USER = Field("user", Kind.TEXT, "user name", least=1, most=MAX_NAME)
RP = Field("relying_party", Kind.TEXT, "relying party id, as shop.example.org", least=1, most=253)
PURPOSE = Field("purpose", Kind.TEXT, "what the user is asked to confirm", least=1, most=MAX_PURPOSE)
NONCE = Field("nonce", Kind.BYTES, "fresh random bytes of the relying party", least=MIN_NONCE, most=MAX_NONCE)
AUDIO = Field(
    "audio",
    Kind.BOOLEAN,
    "judge what `audio.append` handed over instead of the microphone: source `file`",
    optional=True,
)
CREDENTIAL = Field("credential_id", Kind.BYTES, "credential id", least=1, most=1023)
PIN = Field("pin", Kind.TEXT, "the PIN", least=1, most=MAX_PIN)
ANSWER = Field("answer", Kind.TEXT, "`accepted`, `denied`, `try_again` or `locked`")
RETRY = Field(
    "retry_after",
    Kind.INTEGER,
    "with `locked`, for the owner of the enrolment: seconds of delay left, 0 where only an admin can end the lock",
    optional=True,
)
DECISION = Field("decision", Kind.TEXT, "id of the decision, as in the audit log")
DETAIL = Field("detail", Kind.OBJECT, "outcome, reasons, scores, thresholds, times, early", optional=True, admin=True)
DONE = Field("done", Kind.BOOLEAN, "true")


def optional(field: Field) -> Field:
    """``field``, which may be missing."""
    return Field(field.name, field.kind, field.text, optional=True, least=field.least, most=field.most)
