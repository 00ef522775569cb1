"""PLDA, open-set scores and thresholds of the re-identification study, against SpeechBrain's where it is there."""

import importlib.machinery
import importlib.util
import sys
import types

import numpy as np
import pytest

from tools.studies.errors import StudyError
from tools.studies.reidentification import peer
from tools.studies.reidentification.openset import summarise
from tools.studies.reidentification.plda import train_plda
from tools.studies.reidentification.scan import score_all
from tools.studies.reidentification.thresholds import (
    RELAXED,
    STRICT,
    ThresholdOptions,
    average_thresholds,
    equal_error,
    least_cost,
)
from voiceid.errors import MissingPackageError

DIMENSIONS, RANK = 12, 5


def population(seed=0, speakers=40):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(DIMENSIONS, DIMENSIONS))
    counts = rng.integers(1, 6, speakers)
    names = np.repeat([f"s{i:02d}" for i in range(speakers)], counts)
    voices = np.repeat(rng.normal(size=(speakers, DIMENSIONS)) @ mixing, counts, axis=0)
    return voices + 2 * rng.normal(size=voices.shape) + 7, [str(name) for name in names]


@pytest.mark.parametrize("p_known", [0.0, 0.3, 1.0])
def test_training_and_scores_agree_with_speechbrain(p_known):
    try:
        speechbrain = peer.load_peer()
    except MissingPackageError as missing:
        pytest.skip(str(missing))
    vectors, names = population()
    theirs = peer.train(speechbrain, vectors, names, RANK, 10)
    ours = train_plda(vectors, names, rank=RANK)
    assert np.abs(ours.loadings @ ours.loadings.T - theirs.loadings @ theirs.loadings.T).max() < 1e-6
    assert np.abs(ours.residual - theirs.residual).max() < 1e-6

    known, unknown = vectors[:25] + 0.5, vectors[10:28] - 0.5
    expected = peer.scores(speechbrain, theirs, known, unknown, p_known)
    assert np.abs(score_all(ours.project(known), ours.project(unknown), p_known) - expected).max() < 1e-6


@pytest.fixture
def speechbrain_metrics(monkeypatch):
    pytest.importorskip("torch")
    if importlib.util.find_spec("speechbrain") is None:
        pytest.skip("speechbrain is not installed (pip install speechbrain)")
    if importlib.util.find_spec("torchaudio") is None:
        absent = types.ModuleType("torchaudio")  # imported by speechbrain, used by nothing that is called here
        absent.__spec__, absent.__version__ = importlib.machinery.ModuleSpec("torchaudio", None), "0.0"
        monkeypatch.setitem(sys.modules, "torchaudio", absent)
    from speechbrain.utils import metric_stats

    return metric_stats


def test_thresholds_agree_with_speechbrain(speechbrain_metrics):
    import torch

    for seed in range(20):
        rng = np.random.default_rng(seed)
        genuine, false = rng.normal(2, 1, rng.integers(1, 40)), rng.normal(0, 1, rng.integers(1, 300))
        tensors = torch.tensor(genuine), torch.tensor(false)
        assert equal_error(genuine, false) == pytest.approx(speechbrain_metrics.EER(*tensors), abs=1e-6)
        for costs in (STRICT, RELAXED):
            expected = speechbrain_metrics.minDCF(*tensors, costs.c_miss, costs.c_fa, costs.p_target)
            assert least_cost(genuine, false, costs) == pytest.approx(expected, abs=1e-6)


def test_score_is_the_likelihood_ratio_of_the_two_gaussians():
    from scipy.stats import multivariate_normal

    vectors, names = population()
    plda = train_plda(vectors, names, rank=RANK)
    between = plda.loadings @ plda.loadings.T
    total = between + plda.residual
    together = np.block([[total, between], [between, total]])
    apart = np.block([[total, 0 * between], [0 * between, total]])
    pair = np.concatenate((vectors[0], vectors[1]))
    centre = np.concatenate((plda.mean, plda.mean))
    expected = multivariate_normal.logpdf(pair, centre, together) - multivariate_normal.logpdf(pair, centre, apart)
    score = plda.project(vectors[:1]).scores(plda.project(vectors[1:2]))[0, 0]
    assert score == pytest.approx(expected, abs=1e-8)


def test_open_set_scores_survive_large_scores_and_ties():
    scores = np.array([[900.0, 5.0, -800.0], [2.0, 5.0, -801.0], [1.0, 1.0, -802.0]])
    normalised = summarise(scores).normalise(scores, 1.0)
    others = np.log((np.exp(2.0) + np.exp(1.0)) / 2)
    assert normalised[0, 0] == pytest.approx(900 - others)
    assert normalised[1, 0] == pytest.approx(2.0 - 900 + np.log(2))
    assert normalised[0, 1] == normalised[1, 1] == pytest.approx(5 - np.log((np.exp(5.0) + np.exp(1.0)) / 2))
    assert np.isfinite(normalised).all()


def test_summaries_of_parts_merge_to_the_summary_of_all():
    scores = np.random.default_rng(1).normal(0, 20, (30, 7))
    merged = summarise(scores[:11]).merge(summarise(scores[11:20], 11)).merge(summarise(scores[20:], 20))
    whole = summarise(scores)
    assert (merged.row == whole.row).all()
    assert merged.known == 30
    np.testing.assert_allclose(merged.rest, whole.rest, rtol=1e-12)


def test_thresholds_are_reproducible_and_count_runs_without_a_common_speaker():
    vectors, names = population()
    plda = train_plda(vectors, names, rank=RANK)
    options = ThresholdOptions(runs=30, subset=4)
    first, again = (average_thresholds(plda, vectors, names, options, np.random.default_rng(3)) for _ in range(2))
    assert first == again
    assert 0 < first.skipped < 30
    assert len(first.eer.thresholds) == 30 - first.skipped


def test_one_recording_is_never_tried_against_itself():
    vectors, names = population(speakers=12)
    plda = train_plda(vectors, names, rank=RANK)
    once = [i for i, name in enumerate(names) if names.count(name) == 1]
    alone, of = vectors[once], [names[i] for i in once]
    with pytest.raises(StudyError, match="none of 5 threshold runs"):
        average_thresholds(plda, alone, of, ThresholdOptions(5, len(of)), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, n: (np.where(np.arange(len(x))[:, None] == 3, np.nan, x), n), "1 of .* hold NaN"),
        (lambda x, n: (x, [f"p{i}" for i in range(len(n))]), "every training speaker has one recording"),
        (lambda x, n: (x, ["same"] * len(n)), "1 training speakers"),
        (lambda x, n: (np.column_stack((x, x[:, 0])), n), "is singular"),
        (lambda x, n: (x[:8], n[:8]), "is singular"),
        (lambda x, n: (x, n[1:]), "one row each"),
        (lambda x, n: (x[:, :3], n), "PLDA rank 5"),
    ],
)
def test_what_cannot_be_trained_is_named(change, message):
    with pytest.raises(StudyError, match=message):
        train_plda(*change(*population()), rank=RANK)


def test_a_subset_larger_than_the_speakers_is_refused():
    vectors, names = population()
    plda = train_plda(vectors, names, rank=RANK)
    with pytest.raises(StudyError, match="choose 2 to 40"):
        average_thresholds(plda, vectors, names, ThresholdOptions(5, 100), np.random.default_rng(0))


def test_one_known_speaker_has_no_open_set_score():
    with pytest.raises(StudyError, match="one known speaker only"):
        summarise(np.ones((1, 3))).normalise(np.ones((1, 3)), 1.0)
    assert summarise(np.ones((1, 3))).normalise(np.ones((1, 3)), 0.0).tolist() == [[1.0, 1.0, 1.0]]


def test_scores_that_are_not_numbers_give_no_threshold():
    with pytest.raises(StudyError, match="genuine scores"):
        equal_error([], [1.0])
    with pytest.raises(StudyError, match="false scores"):
        least_cost([1.0], [np.nan])
