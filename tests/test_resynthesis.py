"""Units as speech: the model that ships, the vocoder, and whom it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile
from cli_helpers import voiceid

from voiceid.audio import prepare, read_waveform
from voiceid.cli.exit_codes import ExitCode
from voiceid.errors import CodebookError, ModelError
from voiceid.models.store import find_model
from voiceid.units.resynthesis import Resynthesizer
from voiceid.units.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def model():
    return find_model("resynthesis", "resynthesis")


@pytest.fixture(scope="module")
def resynthesizer(model):
    return Resynthesizer(model)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(find_model("units", "units"))


@pytest.fixture(scope="module")
def units(tokenizer, resynthesizer, speech):
    return tokenizer.encode(prepare(read_waveform(speech)).samples, resynthesizer.codebook)


def envelope(samples):
    return np.sqrt(np.square(samples[: len(samples) // 800 * 800].reshape(-1, 800)).mean(axis=1))


def test_speech_comes_at_the_rate_and_level_of_all_speech(resynthesizer, units):
    sound = resynthesizer(units)
    assert sound.dtype == np.float32 and len(sound) == 160 * len(units)
    assert np.sqrt(np.mean(np.square(sound))) == pytest.approx(0.05, rel=0.05)
    np.testing.assert_array_equal(sound, resynthesizer(units))
    assert not len(resynthesizer(units[:0]))


def test_loudness_follows_the_speech(resynthesizer, units, speech):
    original = prepare(read_waveform(speech)).samples
    sound = resynthesizer(units)
    pair = [np.log(envelope(part[: len(sound)]) + 1e-3) for part in (original, sound)]
    assert np.corrcoef(*pair)[0, 1] > 0.5


def test_the_pitch_is_the_cards_whoever_speaks(resynthesizer, units):
    sound = resynthesizer(units)
    loudest = int(envelope(sound).argmax()) * 800
    part = sound[max(0, loudest - 800) : loudest + 1600]
    correlation = np.correlate(part, part, "full")[len(part) - 1 :]
    period = 80 + int(correlation[80:200].argmax())
    assert 16_000 / period == pytest.approx(resynthesizer.card.parameters["pitch"], rel=0.03)


def test_units_of_another_model_are_refused(resynthesizer, tokenizer, model):
    resynthesizer.check(tokenizer)
    parameters = {**model.card.parameters, "codebook_hash": "00" * 32}
    other = Resynthesizer(replace(model, card=replace(model.card, parameters=parameters)))
    with pytest.raises(CodebookError, match="'resynthesis' was trained on codebook 100 with hash 0000"):
        other.check(tokenizer)


@pytest.mark.parametrize("change", [{"codebook": None}, {"codebook_hash": "xyz"}, {"pitch": None}])
def test_a_card_that_does_not_fit_is_refused(model, change):
    altered = replace(model, card=replace(model.card, parameters={**model.card.parameters, **change}))
    with pytest.raises(ModelError, match=f"card 'resynthesis': parameters: {next(iter(change))} is"):
        Resynthesizer(altered)


def test_the_command_writes_what_the_units_say(speech, tmp_path):
    out = tmp_path / "again.wav"
    table = voiceid("units", speech, "--resynthesize", out, "--force", "--json").json
    again = read_waveform(out)
    assert table["resynthesized"] == str(out)
    assert len(again.samples) == 160 * len(table["units"])
    assert np.abs(again.samples).max() > 0.05


def test_the_command_writes_what_the_suffix_promises(speech, tmp_path):
    for name, kind in (("again.flac", "FLAC"), ("AGAIN.WAV", "WAV")):
        assert voiceid("units", speech, "--resynthesize", tmp_path / name, "--force").code is ExitCode.ACCEPTED
        found = soundfile.info(tmp_path / name)
        assert (found.format, found.subtype, found.samplerate) == (kind, "PCM_16", 16_000)


@pytest.mark.parametrize(("name", "kind"), [("x.mp3", "as .mp3"), ("x.ogg", "as .ogg"), ("x", "without a suffix")])
def test_the_command_refuses_suffixes_that_it_cannot_write(tmp_path, monkeypatch, name, kind):
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path))
    out = tmp_path / name
    ran = voiceid("units", tmp_path / "missing.wav", "--resynthesize", out, "--json")
    assert ran.code is ExitCode.USAGE and not out.exists(), "before recording or models are looked at"
    assert ran.error["message"] == f"{out} cannot be written {kind}; use .wav or .flac"


def test_the_command_writes_nothing_for_another_codebook_or_into_no_folder(speech, tmp_path):
    out = tmp_path / "again.wav"
    refused = voiceid("units", speech, "--resynthesize", out, "--codebook", "50", "--force")
    assert refused.code is ExitCode.USAGE and "--resynthesize speaks units of codebook 100, not 50" in refused.err
    assert not out.exists()
    assert voiceid("units", speech, "--resynthesize", tmp_path / "none" / "x.wav").code is not ExitCode.ACCEPTED
