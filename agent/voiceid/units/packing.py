"""Units as compact bytes and back: one canonical encoding, a strict parser.

Layout: one byte of format version (high 4 bits) and flags (bit 0: runs merged, bit 1: durations), one byte of codebook
size, four bytes of unit count (big-endian), then a bit string, zero-padded to a whole byte: each unit in
ceil(log2(codebook)) bits, followed, with durations, by its run length in frames as an Elias gamma code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from voiceid.errors import EnvelopeError
from voiceid.units.codebook import CODEBOOKS, FRAME_RATE

FORMAT = 1
MERGED, DURATIONS = 1, 2
MAX_FRAMES = 120 * FRAME_RATE
"""The longest utterance, 120 s."""
MAX_BYTES = 32_768
"""No valid sequence is longer."""
_HEADER = struct.Struct(">BBI")


@dataclass(frozen=True, slots=True)
class UnitSequence:
    """Units as shared: ids in [0, codebook); with ``merged``, no two neighbours are equal.

    ``durations`` (frames of 10 ms a run, each at least 1) only together with ``merged``.
    """

    codebook: int
    units: tuple[int, ...]
    merged: bool
    durations: tuple[int, ...] | None = None

    def frames(self) -> tuple[int, ...]:
        """One id a run, or one id a frame where that is known."""
        if self.durations is None:
            return self.units
        return tuple(unit for unit, count in zip(self.units, self.durations, strict=True) for _ in range(count))


def merge_runs(units: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the runs of equal units, and their lengths in frames."""
    runs = [(int(unit), sum(1 for _ in group)) for unit, group in groupby(units)]
    return tuple(unit for unit, _ in runs), tuple(length for _, length in runs)


def pack(sequence: UnitSequence) -> bytes:
    """Encode ``sequence``.

    Raises:
        ValueError: it breaks the rules that :class:`UnitSequence` states, or is longer than ``MAX_FRAMES``.
    """
    if fault := _fault(sequence):
        raise ValueError(fault)
    width = unit_bits(sequence.codebook)
    lengths = sequence.durations
    codes = [
        f"{unit:0{width}b}" + (_gamma(lengths[i]) if lengths is not None else "")
        for i, unit in enumerate(sequence.units)
    ]
    bits = "".join(codes)
    bits += "0" * (-len(bits) % 8)
    flags = MERGED * sequence.merged | DURATIONS * (lengths is not None)
    header = _HEADER.pack(FORMAT << 4 | flags, sequence.codebook, len(sequence.units))
    return header + (int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b"")


def unpack(data: bytes) -> UnitSequence:
    """Decode what :func:`pack` made; exactly one byte string stands for each sequence.

    Raises:
        EnvelopeError: too long, truncated, trailing bytes or bits, unknown format or codebook, or an impossible id.
    """
    if not _HEADER.size <= len(data) <= MAX_BYTES:
        raise EnvelopeError(f"packed units of {len(data)} bytes; expected {_HEADER.size} to {MAX_BYTES}")
    first, codebook, count = _HEADER.unpack_from(data)
    if first >> 4 != FORMAT or first & 0b1100:
        raise EnvelopeError(f"packed units of format byte {first:#04x}; this version reads format {FORMAT}")
    if codebook not in CODEBOOKS:
        raise EnvelopeError(f"packed units of codebook {codebook}; known are {', '.join(map(str, CODEBOOKS))}")
    if count > MAX_FRAMES:
        raise EnvelopeError(f"{count} packed units; at most {MAX_FRAMES}")
    reader = _BitReader(data[_HEADER.size :])
    width = unit_bits(codebook)
    units, durations = [], []
    for _ in range(count):
        units.append(reader.number(width))
        if first & DURATIONS:
            durations.append(reader.gamma())
    reader.finish()
    sequence = UnitSequence(
        codebook, tuple(units), bool(first & MERGED), tuple(durations) if first & DURATIONS else None
    )
    if fault := _fault(sequence):
        raise EnvelopeError(f"packed units: {fault}")
    return sequence


def unit_bits(codebook: int) -> int:
    """Bits of one id: 6, 7 or 8."""
    return (codebook - 1).bit_length()


def bits_per_second(sequence: UnitSequence, seconds: float) -> float:
    """Packed size of ``sequence`` without its header, over the ``seconds`` of audio it stands for."""
    return 8 * (len(pack(sequence)) - _HEADER.size) / seconds


def _fault(sequence: UnitSequence) -> str | None:
    units, durations = sequence.units, sequence.durations
    if sequence.codebook not in CODEBOOKS:
        return f"codebook {sequence.codebook!r}; use one of {', '.join(map(str, CODEBOOKS))}"
    if any(not 0 <= unit < sequence.codebook for unit in units):
        return f"a unit lies outside 0 to {sequence.codebook - 1}"
    if sequence.merged and any(a == b for a, b in pairwise(units)):
        return "merged units repeat"
    if durations is not None and (not sequence.merged or len(durations) != len(units) or min(durations, default=1) < 1):
        return "durations need merged units and one length of at least 1 each"
    if (len(units) if durations is None else sum(durations)) > MAX_FRAMES:
        return f"longer than {MAX_FRAMES} frames"
    return None


def _gamma(number: int) -> str:
    return "0" * (number.bit_length() - 1) + f"{number:b}"


class _BitReader:
    def __init__(self, data: bytes) -> None:
        self._bits = "".join(f"{byte:08b}" for byte in data)
        self._at = 0

    def number(self, width: int) -> int:
        end = self._at + width
        if end > len(self._bits):
            raise EnvelopeError("packed units end in the middle of a unit")
        value = int(self._bits[self._at : end], 2)
        self._at = end
        return value

    def gamma(self) -> int:
        start = self._bits.find("1", self._at, self._at + MAX_FRAMES.bit_length())
        if start < 0:
            raise EnvelopeError("packed units hold a run longer than any utterance")
        zeros, self._at = start - self._at, start
        return self.number(zeros + 1)

    def finish(self) -> None:
        rest = self._bits[self._at :]
        if len(rest) >= 8 or "1" in rest:
            raise EnvelopeError("packed units are followed by further bits")
