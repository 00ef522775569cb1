"""The units model that ships: streaming, shapes, failure paths."""

from dataclasses import replace

import numpy as np
import pytest

from voiceid.audio import prepare, read_waveform
from voiceid.errors import ModelError
from voiceid.models.store import find_model
from voiceid.units.codebook import CODEBOOKS, codebook_hash
from voiceid.units.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def model():
    return find_model("units", "units")


@pytest.fixture(scope="module")
def tokenizer(model):
    return Tokenizer(model)


@pytest.fixture(scope="module")
def samples(speech):
    return prepare(read_waveform(speech)).samples[:56_123]


@pytest.mark.parametrize("piece", [1_601, 3_200, 7_777, 48_000])
def test_streaming_gives_the_units_of_one_pass(tokenizer, samples, piece):
    stream = tokenizer.stream(100)
    parts = [stream.push(samples[i : i + piece]) for i in range(0, len(samples), piece)]
    streamed = np.concatenate([*parts, stream.finish()])
    np.testing.assert_array_equal(streamed, tokenizer.encode(samples, 100))


def test_streaming_in_random_pieces_down_to_one_sample(tokenizer, samples):
    rng = np.random.default_rng(0)
    stream, parts, start = tokenizer.stream(200), [], 0
    while start < len(samples):
        size = int(rng.choice([0, 1, 7, 160, 999, 6000]))
        parts.append(stream.push(samples[start : start + size]))
        start += size
    np.testing.assert_array_equal(np.concatenate([*parts, stream.finish()]), tokenizer.encode(samples, 200))


@pytest.mark.parametrize("codebook", CODEBOOKS)
def test_one_unit_a_frame_within_the_codebook(tokenizer, samples, codebook):
    units = tokenizer.encode(samples, codebook)
    assert units.dtype == np.int16
    assert len(units) == len(samples) // 160
    assert units.min() >= 0 and units.max() < codebook
    assert len(set(units.tolist())) > 15


def test_all_codebooks_at_once_are_the_same_units(tokenizer, samples):
    for codebook, units in tokenizer.encode_all(samples).items():
        np.testing.assert_array_equal(units, tokenizer.encode(samples, codebook))


@pytest.mark.parametrize("length", [0, 1, 159, 160, 161, 464, 3_200, 3_360])
def test_any_length_is_taken(tokenizer, samples, length):
    assert len(tokenizer.encode(samples[:length])) == length // 160


def test_a_unit_depends_on_nothing_after_its_lookahead(tokenizer, samples):
    heard = 32_000
    altered = samples.copy()
    altered[heard:] = np.random.default_rng(0).standard_normal(len(samples) - heard).astype(np.float32) * 0.1
    certain = (heard - round(tokenizer.lookahead_seconds * 16_000)) // 160 + 1
    before, after = tokenizer.encode(samples), tokenizer.encode(altered)
    np.testing.assert_array_equal(before[:certain], after[:certain])
    assert (before != after).any()


def test_units_arrive_within_lookahead_and_one_block(tokenizer, samples):
    stream, given = tokenizer.stream(), 0
    for i in range(0, len(samples), 160):
        given += len(stream.push(samples[i : i + 160]))
        heard = (min(i + 160, len(samples))) / 16_000
        assert given / 100 >= heard - tokenizer.lookahead_seconds - tokenizer.block_seconds - 0.01


def test_codebook_hash_is_the_cards(tokenizer):
    assert tokenizer.codebook_hash(100) == codebook_hash(tokenizer.card.parameters["identity"], 100)


def test_unknown_codebook_and_two_dimensions_are_refused(tokenizer):
    with pytest.raises(ValueError, match="64"):
        tokenizer.encode(np.zeros(1600, np.float32), 64)
    with pytest.raises(ValueError, match=r"\(1, 1600\)"):
        tokenizer.encode(np.zeros((1, 1600), np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_frames": 7}, "states differ from its block_frames"),
        ({"identity": "abc"}, "card 'units': parameters: identity is 'abc'; it must be a SHA-256"),
        ({"lookahead_frames": None}, "lookahead_frames is None; expected int"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(model, change, message):
    altered = replace(model, card=replace(model.card, parameters={**model.card.parameters, **change}))
    with pytest.raises(ModelError, match=message):
        Tokenizer(altered)


def test_a_card_without_parameters_is_refused(model):
    with pytest.raises(ModelError, match="block_frames"):
        Tokenizer(replace(model, card=replace(model.card, parameters={})))


def test_silence_before_speech_changes_little_of_what_is_heard_in_it(tokenizer, samples):
    plain = tokenizer.encode(samples)
    later = tokenizer.encode(np.concatenate((np.zeros(48_000, np.float32), samples)))[300:]
    assert (later == plain).mean() > 0.9


def test_the_units_of_a_short_piece_are_mostly_those_of_the_whole(tokenizer, samples):
    whole = tokenizer.encode(samples)
    piece = tokenizer.encode(samples[24_000:40_000])
    assert (piece == whole[150:250]).mean() > 0.5
