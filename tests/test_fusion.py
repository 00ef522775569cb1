"""The fusion: the exported graph, the runtime model, and the training's guarantees."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tools.train.cards import write_card
from tools.train.data.fusion_set import FusionTrial
from tools.train.export.fusion import export
from tools.train.fusion import Table, rates, train
from tools.train.fusion_svm import CLIP, FusionSvm, fit, largest_fall, normalise, scenario_weights
from voiceid.errors import ModelError
from voiceid.models.card import SCHEMA, Card, Threshold
from voiceid.models.store import VerifiedModel, find_model, shipped_folder
from voiceid.scoring.fusion import FusionModel

MACHINE = FusionSvm(np.array([0.5, 0.4, 0.3]), 0.9, scale=2.5, offset=0.1)


def calibrated_scores(rng: np.random.Generator, good: bool, size: int, separation: float = 6.0) -> np.ndarray:
    """Scores of a perfectly calibrated judge: normal with variance twice the mean."""
    return rng.normal(separation if good else -separation, np.sqrt(2 * separation), size)


def make_trials(seed: int = 0) -> list[FusionTrial]:
    rng = np.random.default_rng(seed)
    trials = []
    for speaker in (f"s{i}" for i in range(8)):
        for attack in ("none", "spoof", "replay"):
            for source in (speaker, "stranger"):
                columns = (
                    calibrated_scores(rng, source == speaker, 30),
                    calibrated_scores(rng, attack != "spoof", 30),
                    calibrated_scores(rng, attack != "replay", 30),
                )
                llrs = np.stack(columns, axis=1).tolist()
                trials += [FusionTrial((a, b, c), speaker, source, attack, "system") for a, b, c in llrs]
    return trials


@pytest.fixture
def card(tmp_path: Path) -> Card:
    """A card beside the exported :data:`MACHINE`."""
    MACHINE.save(tmp_path / "fusion.npz")
    assert export(tmp_path / "fusion.npz", tmp_path / "fusion.onnx") < 1e-6
    half = Threshold(0.5, "even odds")
    made = Card(
        schema=SCHEMA,
        name="fusion",
        role="fusion",
        version="0",
        description="",
        file="fusion.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend="llr-3",
        level_dbfs=None,
        min_seconds=1.0,
        window_seconds=None,
        calibration=None,
        thresholds={"balanced": half},
        training_data=[],
        metrics={},
        command="",
        licence="MIT",
    )
    write_card(made, tmp_path)
    return made


def model_in(folder: Path) -> FusionModel:
    return FusionModel(find_model(str(folder / "fusion.json"), "fusion"))


def test_runtime_agrees_with_the_svm(card: Card, tmp_path: Path) -> None:
    model = model_in(tmp_path)
    for llr in np.random.default_rng(1).uniform(-15, 15, (50, 3)):
        assert model.probability(*llr) == pytest.approx(float(MACHINE(llr[None])[0]), abs=1e-5)


def test_batches_are_scored_row_by_row(card: Card, tmp_path: Path) -> None:
    session = onnxruntime.InferenceSession(str(tmp_path / "fusion.onnx"), providers=["CPUExecutionProvider"])
    llr = np.random.default_rng(2).normal(0, 5, (7, 3)).astype(np.float32)
    (together,) = session.run(None, {"llr": llr})
    assert together.shape == (7, 1)
    assert np.allclose(together[:, 0], MACHINE(llr), atol=1e-5)


@pytest.mark.parametrize("absurd", [1e30, float("inf")])
def test_one_absurd_score_buys_nothing(card: Card, tmp_path: Path, absurd: float) -> None:
    model = model_in(tmp_path)
    assert model.probability(absurd, -CLIP, 3.0) == pytest.approx(model.probability(CLIP, -CLIP, 3.0), abs=1e-6)
    assert model.probability(absurd, -CLIP, absurd) < 0.5
    assert model.probability(-absurd, CLIP, CLIP) < 0.5


def test_a_score_that_is_not_a_number_is_refused(card: Card, tmp_path: Path) -> None:
    model = model_in(tmp_path)
    for position in range(3):
        llr = [9.0, 9.0, 9.0]
        llr[position] = float("nan")
        assert model.probability(*llr) == 0.0


def test_cards_of_another_shape_are_refused(card: Card, tmp_path: Path) -> None:
    model = find_model(str(tmp_path / "fusion.json"), "fusion")
    for change in ({"frontend": "void-97"}, {"inputs": {"llr": ["batch", 4]}}, {"outputs": {"score": ["batch", 1]}}):
        with pytest.raises(ModelError, match="fusion"):
            FusionModel(VerifiedModel(dataclasses.replace(model.card, **change), model.folder))


def test_training_is_monotone_and_separates() -> None:
    table = Table.of(make_trials())
    machine, held_out, chosen = train(table)
    assert (machine.weights > 0).all()
    assert largest_fall(machine) == 0
    # The judges err in 4 % each: owners pass all three, everyone else fails at least one.
    found = rates(table, held_out, 0.5)
    assert found["frr"] < 0.1
    assert max(v for name, v in found.items() if name.startswith("accepted")) < 0.25
    assert 0 < chosen["min_a_dcf"] < 0.6


def test_a_judge_that_contradicts_the_labels_gets_no_weight() -> None:
    table = Table.of(make_trials())
    swapped = table.llr * np.array([1, 1, -1])
    weights = scenario_weights(list(table.scenarios), table.authentic)
    machine = fit(swapped, table.authentic, weights, cost=0.1)
    assert machine.weights[2] == 0
    assert (machine.weights[:2] > 0).all()
    with pytest.raises(ValueError, match="swapped"):
        fit(-table.llr, table.authentic, weights, cost=0.1)


def test_a_falling_machine_is_noticed() -> None:
    assert largest_fall(FusionSvm(np.array([0.5, -0.4, 0.3]), 0.9)) > 0.01


def test_scenarios_share_half_the_weight() -> None:
    table = Table.of(make_trials()[:-17])
    weights = scenario_weights(list(table.scenarios), table.authentic)
    assert weights.mean() == pytest.approx(1)
    assert weights[table.authentic].sum() == pytest.approx(len(weights) / 2)
    shares = [weights[table.scenarios == name].sum() for name in set(table.scenarios[~table.authentic])]
    assert np.ptp(shares) == pytest.approx(0, abs=1e-9)


def test_common_scale_is_a_log_probability() -> None:
    assert normalise([[0.0, 50.0, -50.0]])[0] == pytest.approx([-np.log(2), 0.0, -CLIP], abs=1e-3)


def test_shipped_card_is_monotone() -> None:
    if not (shipped_folder() / "fusion.json").is_file():
        pytest.skip("no fusion model is built")
    model = FusionModel(find_model("fusion", "fusion"))
    axis = np.linspace(-1.2 * CLIP, 1.2 * CLIP, 13)
    cube = np.array([[[model.probability(a, b, c) for c in axis] for b in axis] for a in axis])
    for side in range(3):
        assert np.diff(cube, axis=side).min() >= -1e-6
    assert model.probability(CLIP, CLIP, CLIP) > model.card.threshold("strict") > model.card.threshold("convenience")
