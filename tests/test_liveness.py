"""The liveness judge: the shipped model on real speech, real replays and bad cards."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tools.train.cards import write_card
from voiceid.audio import prepare, read_waveform
from voiceid.errors import ModelError
from voiceid.features.dynamics import band_dynamics
from voiceid.features.void import void_features
from voiceid.models.card import read_card
from voiceid.models.store import find_model, verify_model
from voiceid.scoring.liveness import LivenessModel, void_and_dynamics


@pytest.fixture(scope="module")
def model() -> LivenessModel:
    return LivenessModel(find_model("liveness", "liveness"))


def write_linear(folder: Path, size: int, *, frontend: str, output: str = "score") -> Path:
    """A card whose model is the sum of ``size`` features."""
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["features", "axes"], [output])],
        "sum",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", size])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "sum.onnx")
    shipped = find_model("liveness", "liveness").card
    draft = dataclasses.replace(shipped, name="sum", file="sum.onnx", frontend=frontend)
    return write_card(draft, folder)


def load(card: Path) -> LivenessModel:
    return LivenessModel(verify_model(read_card(card), card.parent))


def test_the_shipped_card_is_complete(model) -> None:
    card = model.card
    assert card.calibration is not None and card.calibration.scale > 0
    values = [card.thresholds[point].value for point in ("convenience", "balanced", "strict")]
    assert values == sorted(values)
    folder = find_model("liveness", "liveness").folder
    assert (folder / card.file).stat().st_size < 2.5e6
    assert min(card.metrics["n_bonafide"], card.metrics["n_spoof"]) >= 200


def test_clean_real_speech_passes(model, speech) -> None:
    utterance = prepare(read_waveform(speech))
    calibration = model.card.calibration
    assert calibration is not None
    assert calibration(model.score(utterance.samples)) >= model.card.threshold("balanced")


def test_real_replays_score_below_the_speech_they_were_made_of(model, corpus) -> None:
    def score(path: Path) -> float:
        return model.score(prepare(read_waveform(path)).samples[: 6 * 16_000])

    replays = [score(p) for name in ("replay-voices", "replay-fakebob-ota") for p in (corpus / name).rglob("*.flac")]
    live = [score(sorted((corpus / "ls-test-clean" / s).iterdir())[0]) for s in ("ls121", "ls237", "ls260", "ls908")]
    assert np.median(replays) < min(live)


@pytest.mark.parametrize(
    ("frontend", "expected"), [("void-97", void_features), ("void-97+dynamics-128", void_and_dynamics)]
)
def test_the_card_chooses_the_front_end(tmp_path, speech, frontend, expected) -> None:
    samples = prepare(read_waveform(speech)).samples
    card = write_linear(tmp_path, len(expected(samples)), frontend=frontend)
    assert load(card).score(samples) == pytest.approx(float(expected(samples).sum()), rel=1e-4)


def test_void_comes_first(speech) -> None:
    samples = prepare(read_waveform(speech)).samples
    joined = void_and_dynamics(samples)
    assert np.array_equal(joined[:97], void_features(samples))
    assert np.array_equal(joined[97:], band_dynamics(samples))


@pytest.mark.parametrize("samples", [np.zeros(16_000), np.full(16_000, 0.2), np.zeros(1)])
def test_powerless_audio_gets_a_finite_score(model, samples) -> None:
    assert np.isfinite(model.score(samples.astype(np.float32)))


def test_no_audio_is_refused(model) -> None:
    with pytest.raises(ValueError, match="no samples"):
        model.score(np.zeros(0, np.float32))


@pytest.mark.parametrize(
    ("size", "frontend", "output", "message"),
    [
        (97, "waveform", "score", "liveness offers void-97"),
        (98, "void-97", "score", "takes 98 features"),
        (97, "void-97", "logit", "needs 'features' to 'score'"),
    ],
)
def test_cards_that_do_not_fit_are_refused(tmp_path, size, frontend, output, message) -> None:
    with pytest.raises(ModelError, match=message):
        load(write_linear(tmp_path, size, frontend=frontend, output=output))


def test_an_altered_model_is_refused(tmp_path) -> None:
    shipped = find_model("liveness", "liveness")
    shutil.copy(shipped.onnx, tmp_path)
    data = bytearray((tmp_path / shipped.card.file).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / shipped.card.file).write_bytes(data)
    with pytest.raises(ModelError, match="sha256"):
        verify_model(shipped.card, tmp_path)
