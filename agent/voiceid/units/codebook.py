"""The codebooks, and the hash that pins units to the model that made them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from voiceid.errors import CodebookError
from voiceid.tables import Digest

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


@dataclass(frozen=True, slots=True)
class CodebookPin:
    """The units that a model was trained on, as parameters of its card."""

    codebook: int
    codebook_hash: Annotated[str, Digest()]

    def check(self, codebook: int, pinned: bytes, *, model: str) -> None:
        """Refuse units of ``codebook`` whose hash is ``pinned`` where the card ``model`` would take them for others.

        Raises:
            CodebookError: they are not those that it was trained on.
        """
        if (codebook, pinned.hex()) != (self.codebook, self.codebook_hash):
            raise CodebookError(
                f"units of codebook {codebook} with hash {pinned.hex()[:16]}..., but {model!r} was trained on codebook "
                f"{self.codebook} with hash {self.codebook_hash[:16]}...: give it units of that codebook, or train a "
                "model on these"
            )
