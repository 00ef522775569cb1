"""The rank-transformed SVM: against scikit-learn, and exported to ONNX against itself."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from sklearn.preprocessing import QuantileTransformer
from sklearn.svm import SVC

from tools.train.export.liveness import export, graph, probe_features
from tools.train.metrics import eer
from tools.train.rank_svm import Committee, Member, RankSvm, RankTransform, block_weights, half


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    positive = rng.random(600) < 0.5
    features = np.exp(rng.normal(size=(600, 20)) + 0.5 * positive[:, None]).astype(np.float32)
    features[:, 3] = rng.integers(0, 4, 600)  # discrete
    features[:, 4] = 7.0  # constant
    return features, positive


@pytest.fixture(scope="module")
def committee(data) -> Committee:
    some = np.where(np.arange(20) == 9, 0.0, 0.7)
    return Committee.fit(*data, [Member(some, 3.0, 0.5), Member((some > 0) * (np.arange(20) < 5.0), 10.0, 0.3)])


@pytest.fixture(scope="module")
def model(data) -> RankSvm:
    return RankSvm.fit(*data, weights=np.where(np.arange(20) == 9, 0.0, 0.7), c=3.0, gamma=0.05)


def test_rank_transform_agrees_with_scikit_learn_between_its_knots(data) -> None:
    features, _ = data
    theirs = QuantileTransformer(n_quantiles=600, output_distribution="normal").fit_transform(features)
    ours = RankTransform.fit(features)(features)
    inside = np.abs(theirs) < 2.0
    continuous = np.setdiff1d(np.arange(20), [3, 4])
    assert np.abs(ours - theirs)[:, continuous][inside[:, continuous]].max() < 0.15


def test_rank_transform_keeps_order_bounds_and_constants(data) -> None:
    transform = RankTransform.fit(data[0])
    ranks = transform(np.sort(data[0], axis=0))
    assert (np.diff(ranks, axis=0) >= 0).all()
    assert np.abs(transform(data[0] * 1e6 - 1e5)).max() < 2.6
    assert np.ptp(ranks[:, 4]) == 0


def test_scores_are_those_of_scikit_learn(data, model) -> None:
    features, positive = data
    ranks = half(model.transform(features) * model.weights)
    machine = SVC(C=3.0, gamma=0.05, class_weight="balanced").fit(ranks, positive)
    fresh = np.random.default_rng(1).permutation(features, axis=0)
    expected = machine.decision_function(model.transform(fresh) * model.weights)
    assert np.abs(model(fresh) - expected).max() < 1e-6


def test_it_learns(data, model) -> None:
    features, positive = data
    scores = model(features)
    assert eer(scores[positive], scores[~positive]) < 0.2


def test_a_committee_is_the_mean_of_its_clipped_machines(committee, data) -> None:
    scores = [machine(data[0]) for machine in committee.machines]
    assert np.allclose(committee(data[0]), (np.clip(scores[0], -2, 2) + np.clip(scores[1], -2, 2)) / 2)
    assert committee.vectors == sum(len(m.support) for m in committee.machines)


def test_export_agrees_with_the_checkpoint(committee, data, tmp_path) -> None:
    committee.save(tmp_path / "m.npz")
    assert export(tmp_path / "m.npz", tmp_path / "m.onnx") < 1e-5
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    scores = session.run(None, {"features": data[0]})[0]
    assert scores.shape == (600, 1)
    assert np.abs(scores[:, 0] - committee(data[0])).max() < 1e-5


def test_columns_of_weight_zero_do_not_count(committee, data) -> None:
    changed = data[0].copy()
    changed[:, 9] = -5.0
    session = onnxruntime.InferenceSession(graph(committee).SerializeToString())
    assert np.array_equal(session.run(None, {"features": data[0]})[0], session.run(None, {"features": changed})[0])


def test_saving_and_loading_changes_nothing(committee, data, tmp_path) -> None:
    committee.save(tmp_path / "m.npz")
    assert np.array_equal(Committee.load(tmp_path / "m.npz")(data[0]), committee(data[0]))


def test_a_damaged_checkpoint_is_refused(tmp_path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "other.npz", knots=np.zeros(3))
    for name in ("bad.npz", "absent.npz", "other.npz"):
        with pytest.raises(SystemExit, match="not a liveness checkpoint"):
            Committee.load(tmp_path / name)


def test_probe_reaches_inside_and_outside_the_knots(model) -> None:
    probe = probe_features(model.transform, np.random.default_rng(0))
    assert np.isfinite(probe).all() and (probe > model.transform.knots[-1]).any()


def test_block_weights_are_squared_distances() -> None:
    weights = block_weights(5, {"a": slice(0, 2), "b": slice(2, 5)}, {"a": 4.0})
    assert weights.tolist() == [2, 2, 0, 0, 0]
