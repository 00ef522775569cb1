"""The codebooks, and the hash that pins units to the model that made them."""

from __future__ import annotations

import hashlib

CODEBOOKS = (50, 100, 200)
"""Numbers of units to choose from."""
FRAME_RATE = 100
"""Units a second, before runs are merged."""
VERSION = b"voiceid-units-v1"


def codebook_hash(identity: str, codebook: int) -> bytes:
    """SHA-256 (32 bytes) over the format's version, the codebook's size and the model's ``identity``.

    ``identity`` is the hex digest over the encoder's and codebooks' weights that the units card states as
    ``parameters["identity"]``. Units with equal hashes mean the same sounds.

    Raises:
        ValueError: ``identity`` is not a 32-byte hex digest, or there is no such codebook.
    """
    digest = bytes.fromhex(identity)
    if len(digest) != 32:
        raise ValueError(f"identity of {len(digest)} bytes; expected the 32 of a SHA-256")
    if codebook not in CODEBOOKS:
        raise ValueError(f"codebook {codebook!r}; use one of {', '.join(map(str, CODEBOOKS))}")
    return hashlib.sha256(VERSION + b"|" + codebook.to_bytes(2, "big") + digest).digest()
