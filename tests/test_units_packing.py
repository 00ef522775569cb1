"""Packing of units: one canonical encoding, strict parsing."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceid.errors import EnvelopeError, VoiceIdError
from voiceid.units.codebook import CODEBOOKS, codebook_hash
from voiceid.units.packing import MAX_BYTES, MAX_FRAMES, UnitSequence, bits_per_second, merge_runs, pack, unpack
from voiceid.units.privacy import PrivacyProfile


@st.composite
def frames_and_profiles(draw):
    codebook = draw(st.sampled_from(CODEBOOKS))
    merge = draw(st.booleans())
    profile = PrivacyProfile(codebook, merge, merge and draw(st.booleans()))
    runs = draw(st.lists(st.tuples(st.integers(0, codebook - 1), st.integers(1, 40)), max_size=60))
    return [unit for unit, length in runs for _ in range(length)], profile


@given(frames_and_profiles())
def test_round_trip_and_what_each_profile_keeps(case):
    frames, profile = case
    sequence = profile.apply(frames)
    assert unpack(pack(sequence)) == sequence
    if profile.durations or not profile.merge_runs:
        assert list(sequence.frames()) == frames
    else:
        assert sequence.durations is None
        assert sequence.units == merge_runs(frames)[0]


@given(st.binary(max_size=80))
@settings(max_examples=300)
def test_whatever_parses_is_canonical(data):
    try:
        sequence = unpack(bytes([0x10 | (data[0] & 3) if data else 0x13, 100, 0, 0, 0]) + data)
    except EnvelopeError:
        return
    assert pack(sequence) == bytes([0x10 | (data[0] & 3) if data else 0x13, 100, 0, 0, 0]) + data


def test_known_bytes():
    sequence = PrivacyProfile(codebook=50).apply([3, 3, 3, 49, 49, 3])
    assert sequence == UnitSequence(50, (3, 49, 3), merged=True)
    # header: format 1 merged, codebook 50, three units; 000011 110001 000011 and six zero bits
    assert pack(sequence) == bytes([0x11, 50, 0, 0, 0, 3, 0b00001111, 0b00010000, 0b11000000])


def test_durations_are_gamma_coded():
    packed = pack(PrivacyProfile(50, durations=True).apply([3] * 5))
    assert packed == bytes([0x13, 50, 0, 0, 0, 1, 0b00001100, 0b10100000])  # 000011 then gamma(5) = 00101


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x11\x32\0\0\0",
        b"\x21\x32\0\0\0\0",
        b"\x15\x32\0\0\0\0",
        b"\x11\x33\0\0\0\0",
        b"\x11\x32\0\0\0\x02\x0f",
        b"\x11\x32\0\0\0\x00\x00",
        b"\x11\x32\0\0\0\x01\x0d",
        b"\x11\x32\0\0\0\x01\xfc",
        b"\x11\x32\0\0\0\x02\x0c\x30",
        b"\x12\x32\0\0\0\x01\x0e\x80",
        b"\x11\x32\xff\xff\xff\xff",
        b"\x13\x32\0\0\0\x01\x0c\0\0\0\0\x80",
        b"\x11\x32\0\0\0\x01\x0c" + bytes(MAX_BYTES),
    ],
    ids=[
        "empty",
        "short header",
        "newer format",
        "unknown flag",
        "unknown codebook",
        "truncated",
        "trailing byte",
        "padding bit set",
        "id out of range",
        "merged units repeat",
        "durations of unmerged units",
        "impossible count",
        "impossible run",
        "too long",
    ],
)
def test_malformed_bytes_are_refused(data):
    with pytest.raises(EnvelopeError):
        unpack(data)


def test_every_flipped_bit_gives_another_sequence_or_an_error():
    packed = pack(PrivacyProfile(100, durations=True).apply([1, 1, 2, 99, 99, 99, 4]))
    original = unpack(packed)
    for bit in range(8 * len(packed)):
        altered = bytearray(packed)
        altered[bit // 8] ^= 1 << bit % 8
        try:
            assert unpack(bytes(altered)) != original
        except EnvelopeError:
            continue


@pytest.mark.parametrize(
    "sequence",
    [
        UnitSequence(60, (1,), merged=False),
        UnitSequence(50, (50,), merged=False),
        UnitSequence(50, (-1,), merged=False),
        UnitSequence(50, (1, 1), merged=True),
        UnitSequence(50, (1,), merged=False, durations=(2,)),
        UnitSequence(50, (1, 2), merged=True, durations=(2,)),
        UnitSequence(50, (1,), merged=True, durations=(0,)),
        UnitSequence(50, (1,), merged=True, durations=(MAX_FRAMES + 1,)),
    ],
)
def test_impossible_sequences_are_not_packed(sequence):
    with pytest.raises(ValueError, match=r"\w"):
        pack(sequence)


def test_longest_utterance_fits_the_size_cap():
    frames = [i % 2 for i in range(MAX_FRAMES)]
    for profile in (PrivacyProfile(200, merge_runs=False), PrivacyProfile(200, durations=True)):
        packed = pack(profile.apply(frames))
        assert len(packed) <= MAX_BYTES
        assert len(unpack(packed).units) == MAX_FRAMES


def test_bits_per_second_counts_the_bit_string():
    assert bits_per_second(UnitSequence(100, tuple(range(80)), merged=True), 2.0) == 7 * 80 / 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"codebook": 64}, "64"),
        ({"codebook": "100"}, "codebook"),
        ({"durations": True, "merge_runs": False}, "merge_runs"),
        ({"durations": 1}, "durations"),
        ({"speed": 2}, "speed"),
    ],
)
def test_bad_profiles_say_what_is_wrong(table, message):
    with pytest.raises(VoiceIdError, match=message):
        PrivacyProfile.from_dict(table)


def test_profile_default_and_dict_round_trip():
    assert PrivacyProfile() == PrivacyProfile(codebook=100, merge_runs=True, durations=False)
    for profile in (PrivacyProfile(), PrivacyProfile(50, durations=True), PrivacyProfile(200, merge_runs=False)):
        assert PrivacyProfile.from_dict(profile.to_dict()) == profile


def test_codebook_hash_depends_on_model_and_size():
    hashes = {codebook_hash(identity * 32, k) for identity in ("00", "01") for k in CODEBOOKS}
    assert len(hashes) == 6
    assert {len(value) for value in hashes} == {32}
    for bad in (("00", 100), ("00" * 32, 64)):
        with pytest.raises(ValueError, match=r"codebook|bytes"):
            codebook_hash(*bad)


def test_relying_parties_need_no_onnxruntime():
    code = "import sys, voiceid.units.packing, voiceid.units.privacy; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
