"""The identity judge on a small untrained network: lengths, normalisation by the cohort, damaged files."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.adversarial_helpers import identity_draft
from tools.train import identity_card
from tools.train.cards import write_card
from tools.train.export.identity import export_network
from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError, ModelError
from voiceid.features.mel import log_mel
from voiceid.models.card import Card, read_card
from voiceid.models.store import find_model, verify_model
from voiceid.scoring.identity import IdentityModel

COHORT = "small.cohort.npy"
RNG = np.random.default_rng(2)
SECONDS = 3.0
"""Of speech behind an embedding, where it does not matter."""
NOISE = (0.05 * RNG.standard_normal(48_000)).astype(np.float32)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def network() -> DeepSpeaker:
    torch.manual_seed(1)
    return DeepSpeaker(Shape((2, 3, 4, 6), 16, normalise_input=True, deviation=True)).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, network: DeepSpeaker) -> Path:
    folder = tmp_path_factory.mktemp("models")
    export_network([network], folder / "small.onnx")
    np.save(folder / COHORT, unit(RNG.normal(size=(40, 16))).astype(np.float16))
    return folder


@pytest.fixture(scope="module")
def card(folder: Path) -> Card:
    return read_card(write_card(identity_draft("small"), folder))


def with_cohort(card: Card, folder: Path, cohort: np.ndarray, **parameters: int) -> IdentityModel:
    np.save(folder / COHORT, cohort)
    path = write_card(replace(card, assets={COHORT: ""}, parameters=parameters), folder)
    return IdentityModel(verify_model(read_card(path), folder))


def test_embeds_any_length_as_torch_does(card, folder, network, speech):
    model = IdentityModel(verify_model(card, folder))
    samples = prepare(read_waveform(speech)).net_speech()
    for length in (8_000, 16_000, 17_777, 32_161, len(samples)):
        embedding = model.embed(samples[:length])
        assert embedding.shape == (16,)
        assert embedding.dtype == np.float32
        assert np.linalg.norm(embedding) == pytest.approx(1, abs=1e-5)
        with torch.inference_mode():
            expected = network(torch.from_numpy(log_mel(samples[:length]))[None, :, :, None])[0].numpy()
        np.testing.assert_allclose(embedding, expected, atol=1e-5)


def test_too_short_is_refused(card, folder):
    with pytest.raises(AudioError, match=r"0\.50 s of speech; model 'small' needs 0\.5 s"):
        IdentityModel(verify_model(card, folder)).embed(NOISE[:7_999])


def test_embeds_stretches_in_one_pass_as_torch_pools_them(card, folder, network):
    model = IdentityModel(verify_model(card, folder))
    stretches = np.array([[0, 48_000], [0, 17_920], [25_600, 48_000], [8_000, 32_000]])
    embeddings = model.embed_stretches(NOISE, stretches)
    with torch.inference_mode():
        frames = network.frames(torch.from_numpy(log_mel(NOISE))[None, :, :, None])
        assert frames.shape[1] == 19
        parts = [frames[:, a:b] for a, b in ((0, 19), (0, 7), (10, 19), (3, 13))]
        expected = [network.pool(part.mean(dim=1), part.var(dim=1, correction=0))[0].numpy() for part in parts]
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)
    np.testing.assert_allclose(embeddings[0], model.embed(NOISE), atol=1e-6)


def test_too_short_a_stretch_is_refused(card, folder):
    with pytest.raises(AudioError, match=r"0\.25 s of speech; model 'small' needs 0\.5 s"):
        IdentityModel(verify_model(card, folder)).embed_stretches(NOISE, np.array([[0, 48_000], [4_000, 8_000]]))


def test_inputs_of_no_identity_model_are_refused(card, folder):
    for inputs in ({"stretches": ["stretches", 2]}, {**card.inputs, "speaker": [1]}):
        with pytest.raises(ModelError, match="an identity model has one input, 'stretches' where"):
            IdentityModel(verify_model(replace(card, inputs=inputs), folder))


def test_without_cohort_the_score_is_the_cosine(card, folder):
    model = IdentityModel(verify_model(card, folder))
    a, b = unit(RNG.normal(size=(2, 16)))
    assert model.score(a, b, SECONDS) == pytest.approx(float(a @ b), abs=1e-6)
    assert model.score(a, a, SECONDS) == pytest.approx(1, abs=1e-6)


def test_adaptive_s_norm(card, folder):
    cohort = unit(RNG.normal(size=(40, 16))).astype(np.float16)
    model = with_cohort(card, folder, cohort, cohort_top=10)
    a, b = unit(RNG.normal(size=(2, 16)))
    members = unit(cohort.astype(np.float64))
    sides = [sorted(float(m @ side) for m in members)[-10:] for side in (a, b)]
    expected = np.mean([(float(a @ b) - np.mean(top)) / np.std(top) for top in sides])
    assert model.score(a, b, SECONDS) == pytest.approx(expected, abs=1e-4)
    assert model.score(a, b, SECONDS) == pytest.approx(model.score(b, a, SECONDS), abs=1e-5)


def test_a_speaker_whose_utterances_are_alike_has_a_higher_threshold(card, folder):
    likeness = {"share": 0.5, "usual": 0.6, "least": 0.2, "most": 0.9}
    model = IdentityModel(verify_model(replace(card, parameters={"likeness": likeness}), folder))
    first, second, tried = unit(RNG.normal(size=(3, 16)))
    cosine = float(unit(first + second) @ tried)
    assert model.score(np.stack([first, first]), tried, SECONDS) == pytest.approx(
        float(first @ tried) - 0.5 * (0.9 - 0.6), abs=1e-5
    )
    assert model.score(np.stack([first, -first + 0.1 * second]), tried, SECONDS) > model.score(first, tried, SECONDS)
    found = min(max(float(first @ second), 0.2), 0.9)
    assert model.score(np.stack([first, second]), tried, SECONDS) == pytest.approx(
        cosine - 0.5 * (found - 0.6), abs=1e-5
    )
    assert model.score(first, tried, SECONDS) == pytest.approx(float(first @ tried), abs=1e-6)


def test_more_speech_than_usual_has_a_higher_threshold(card, folder):
    duration = {"slope": 0.5, "usual": 3.0, "least": 1.5, "most": 12.0}
    model = IdentityModel(verify_model(replace(card, parameters={"duration": duration}), folder))
    enrolled, tried = unit(RNG.normal(size=(2, 16)))
    cosine = float(enrolled @ tried)
    assert model.score(enrolled, tried, 3.0) == pytest.approx(cosine, abs=1e-6)
    assert model.score(enrolled, tried, 6.0) == pytest.approx(cosine - 0.5 * np.log(2), abs=1e-6)
    assert model.score(enrolled, tried, 1.5) == pytest.approx(cosine + 0.5 * np.log(2), abs=1e-6)
    assert model.score(enrolled, tried, 0.5) == model.score(enrolled, tried, 1.5)
    assert model.score(enrolled, tried, 60.0) == model.score(enrolled, tried, 12.0)


def test_a_card_is_left_as_it_was_where_its_calibration_fails(card, folder, monkeypatch):
    path = folder / "small.json"
    monkeypatch.setattr(identity_card, "NAME", "small")
    monkeypatch.setattr(sys, "argv", ["identity_card", "--folder", str(folder)])
    monkeypatch.delenv("VOICEID_CORPUS", raising=False)
    duration = {"slope": 0.5, "usual": 3.0, "least": 1.5, "most": 12.0}
    before = write_card(replace(card, parameters={"duration": duration}), folder).read_bytes()
    with pytest.raises(SystemExit, match="VOICEID_CORPUS"):
        identity_card.main()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "parameters",
    [
        {"duration": {"slope": -0.5, "usual": 3.0, "least": 1.5, "most": 12.0}},
        {"duration": {"slope": 0.5, "usual": 0.0, "least": 1.5, "most": 12.0}},
        {"duration": {"slope": 0.5, "usual": 3.0, "least": 12.0, "most": 1.5}},
        {"duration": {"slope": 0.5, "usual": 3.0, "least": 1.5, "most": float("inf")}},
        {"duration": [0.5]},
        {"likeness": {"share": 1.0}},
        {"likeness": {}},
        {"likeness": 0},
        {"likeness": {"share": 0.5, "usual": 1.0, "least": 2.0, "most": 1.0}},
        {"likeness": {"share": 0.5, "usual": float("inf"), "least": 0.0, "most": 1.0}},
        {"likeness": {"share": 2.0, "usual": 1.0, "least": 0.0, "most": 1.0}},
        {"cohort_top": "x"},
        {"cohort_top": None},
    ],
)
def test_parameters_of_another_shape_are_refused(card, folder, parameters):
    with pytest.raises(ModelError, match=r"likeness|duration|cohort_top"):
        IdentityModel(verify_model(replace(card, parameters=parameters), folder))


def test_cohort_smaller_than_the_top(card, folder):
    model = with_cohort(card, folder, unit(RNG.normal(size=(5, 16))), cohort_top=100)
    a, b = unit(RNG.normal(size=(2, 16)))
    assert np.isfinite(model.score(a, b, SECONDS))


@pytest.mark.parametrize(
    "cohort", [np.ones((4, 15), "f4"), np.ones(16, "f4"), np.ones((4, 16), "i4"), np.ones((1, 16), "f4")]
)
def test_cohort_of_another_shape_is_refused(card, folder, cohort):
    with pytest.raises(ModelError, match=r"expected floats \(N, 16\)"):
        with_cohort(card, folder, cohort)


def test_cohort_with_pickled_objects_or_garbage_is_refused(card, folder):
    with pytest.raises(ModelError, match="not a readable cohort"):
        with_cohort(card, folder, np.array([{"a": 1}, None], dtype=object))
    (folder / COHORT).write_bytes(b"\x93NUMPY garbage")
    path = write_card(replace(card, assets={COHORT: ""}), folder)
    with pytest.raises(ModelError, match="not a readable cohort"):
        IdentityModel(verify_model(read_card(path), folder))


def test_unknown_front_end_is_refused(card, folder):
    with pytest.raises(ModelError, match="front end 'void-97'; identity knows log-mel, deep-speaker-fbank"):
        IdentityModel(verify_model(replace(card, frontend="void-97"), folder))


def test_shipped_model_tells_speakers_apart(corpus):
    """Utterances of one speaker lie closer than those of two; all four speakers are in no training set."""
    model = IdentityModel(find_model("identity-pi", "identity"))
    calibrate = model.card.calibration
    assert calibrate is not None
    speakers = ("ls121", "ls672", "ls908", "ls1089")
    clips = [clip for name in speakers for clip in sorted((corpus / "ls-test-clean" / name).iterdir())[:3]]
    embeddings = [model.embed(prepare(read_waveform(clip)).net_speech()) for clip in clips]
    llr = np.array([[calibrate(model.score(a, b, SECONDS)) for b in embeddings] for a in embeddings])
    speaker = np.repeat(np.arange(len(speakers)), 3)
    same = speaker[:, None] == speaker
    trial = np.triu(np.ones_like(same), 1)
    target, nontarget = llr[same & trial], llr[~same & trial]
    assert target.mean() > nontarget.mean() + 1
    assert np.mean(target[:, None] > nontarget) > 0.75
    assert np.mean(nontarget < model.card.threshold("balanced")) > 0.9, "one in a hundred is expected to pass"
    np.testing.assert_allclose(llr, llr.T, atol=1e-4)
