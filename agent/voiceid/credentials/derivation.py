"""The private key of a credential, derived when it is needed and never stored.

PRK = HMAC-SHA256(credential sub-key, each field prefixed by its length); 48 bytes of HKDF-Expand (RFC 5869); reduced to
[1, n-1] as FIPS 186-5 A.2.1 does with extra bits. The voice gates the key, the device key gives it its strength.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

VERSION = 1
INFO = b"voiceid-credential-key-v1"

_EXPANDED_BYTES = 48
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def length_prefixed(*fields: bytes) -> bytes:
    """``fields`` joined, each after its length as 4 bytes big-endian: no two lists of fields give the same bytes."""
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def derive_private_key(
    subkey: bytes, *, rp_id: str, user_handle: bytes, salt: bytes, frozen_features: bytes
) -> ec.EllipticCurvePrivateKey:
    """The P-256 key of one credential; equal arguments give an equal key, any other argument an unrelated one.

    Args:
        subkey: the 32-byte ``credential`` sub-key of the device key.
        rp_id: the relying party's id, a domain.
        user_handle: the user's handle at that relying party.
        salt: the random salt of the credential.
        frozen_features: the identity features frozen at enrolment.
    """
    mac = HMAC(subkey, SHA256())
    mac.update(length_prefixed(bytes([VERSION]), rp_id.encode(), user_handle, salt, frozen_features))
    expanded = HKDFExpand(algorithm=SHA256(), length=_EXPANDED_BYTES, info=INFO).derive(mac.finalize())
    scalar = int.from_bytes(expanded, "big") % (_P256_ORDER - 1) + 1
    return ec.derive_private_key(scalar, ec.SECP256R1())
