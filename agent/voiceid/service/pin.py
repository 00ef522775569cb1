"""PINs as Argon2id hashes (RFC 9106) in the PHC form."""

from __future__ import annotations

import itertools
import secrets
import unicodedata

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from voiceid.errors import PinError
from voiceid.service.fields import MAX_PIN, MIN_PIN

MEMORY_KIB, ITERATIONS, LANES = 19 * 1024, 2, 1
"""OWASP's least for Argon2id; a Raspberry Pi with 1 GB takes it."""
_SALT_BYTES, _HASH_BYTES = 16, 32


class PresentPinError(PinError):
    """The present PIN must be given to change it."""


class UnverifiedError(PinError):
    """Nothing shows that this is the person of the enrolment: a PIN or an admin must."""


def hash_pin(pin: str) -> str:
    """The PHC string of ``pin``.

    Raises:
        PinError: too short, too long, one character repeated, or a run as 1234.
    """
    check_length(pin)
    pin = _normal(pin)
    steps = {ord(b) - ord(a) for a, b in itertools.pairwise(pin)}
    if steps in ({0}, {1}, {-1}):
        raise PinError("this PIN is one character repeated or counts up or down; choose another")
    salt = secrets.token_bytes(_SALT_BYTES)
    kdf = Argon2id(salt=salt, length=_HASH_BYTES, iterations=ITERATIONS, lanes=LANES, memory_cost=MEMORY_KIB)
    return kdf.derive_phc_encoded(pin.encode())


def check_length(pin: str) -> None:
    """Insist on a length that a PIN may have, as it is typed and as it is hashed.

    Raises:
        PinError: too short or too long.
    """
    for length in (len(pin), len(_normal(pin))):
        if not MIN_PIN <= length <= MAX_PIN:
            raise PinError(f"the PIN has {length} characters; {MIN_PIN} to {MAX_PIN} are needed")


def is_pin(pin: str, phc: str) -> bool:
    """Whether ``phc`` is the hash of ``pin``."""
    try:
        Argon2id.verify_phc_encoded(_normal(pin).encode(), phc)
    except InvalidKey:
        return False
    return True


def _normal(pin: str) -> str:
    return unicodedata.normalize("NFKC", pin)
