"""Detection metrics against closed forms, brute force and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve

from tools.train.metrics import (
    ADcfCosts,
    a_dcf,
    apcer_at_bpcer,
    bootstrap_ci,
    cllr,
    eer,
    eer_threshold,
    fit_calibration,
    min_dcf,
    operating_curve,
    threshold_at_bpcer,
    wilson_interval,
)


@pytest.fixture
def gaussians() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(2, 1, 4000), rng.normal(0, 1, 6000)


def test_eer_of_gaussians_is_the_closed_form(gaussians) -> None:
    assert eer(*gaussians) == pytest.approx(norm.cdf(-1.0), abs=0.006)


def test_eer_agrees_with_interpolated_roc(gaussians) -> None:
    positives, negatives = (np.round(g, 1) for g in gaussians)  # ties on purpose
    labels = np.concatenate((np.ones(positives.size), np.zeros(negatives.size)))
    fpr, tpr, _ = roc_curve(labels, np.concatenate((positives, negatives)), drop_intermediate=False)
    grid = np.linspace(0, 1, 200_001)
    miss = np.interp(grid, fpr, 1 - tpr)
    assert eer(positives, negatives) == pytest.approx(grid[np.argmin(np.abs(miss - grid))], abs=1e-5)


@pytest.mark.parametrize(
    ("positives", "negatives", "expected"),
    [([2, 3], [0, 1], 0.0), ([0, 1], [2, 3], 1.0), ([1, 1], [1, 1], 0.5), ([1.0], [0.0], 0.0), ([1, 3], [0, 2], 0.5)],
)
def test_eer_of_small_cases(positives, negatives, expected) -> None:
    assert eer(positives, negatives) == pytest.approx(expected)


def test_eer_threshold_balances_the_errors(gaussians) -> None:
    positives, negatives = gaussians
    threshold = eer_threshold(positives, negatives)
    assert (positives < threshold).mean() == pytest.approx((negatives >= threshold).mean(), abs=1e-3)


def test_operating_curve_runs_from_accept_all_to_reject_all(gaussians) -> None:
    curve = operating_curve(*gaussians)
    assert (curve.miss[0], curve.false_alarm[0], curve.miss[-1], curve.false_alarm[-1]) == (0, 1, 1, 0)
    assert (np.diff(curve.miss) >= 0).all() and (np.diff(curve.false_alarm) <= 0).all()


@pytest.mark.parametrize("bpcer", [0.0, 0.005, 0.01, 0.015, 0.05])
def test_threshold_keeps_the_promised_bpcer(gaussians, bpcer) -> None:
    positives, negatives = gaussians
    threshold = threshold_at_bpcer(positives, bpcer)
    assert (positives < threshold).mean() <= bpcer
    assert (positives < np.nextafter(threshold, np.inf)).mean() > bpcer
    assert apcer_at_bpcer(positives, negatives, bpcer) == (negatives >= threshold).mean()


def test_min_dcf_is_the_brute_force_minimum(gaussians) -> None:
    positives, negatives = gaussians[0][:300], gaussians[1][:300]
    costs = [
        0.05 * (positives < t).mean() + 3 * 0.95 * (negatives >= t).mean()
        for t in np.concatenate((positives, negatives, [np.inf]))
    ]
    expected = min(costs) / min(0.05, 3 * 0.95)
    assert min_dcf(positives, negatives, prior=0.05, c_fa=3) == pytest.approx(expected)
    assert min_dcf(negatives - 9, positives) == 1.0


def test_a_dcf_weighs_both_false_alarms() -> None:
    rng = np.random.default_rng(1)
    target, nontarget, spoof = rng.normal(3, 1, 300), rng.normal(0, 1, 400), rng.normal(1, 1, 200)
    grid = np.concatenate((target, nontarget, spoof, [np.inf]))
    brute = [0.9 * (target < t).mean() + 0.5 * (nontarget >= t).mean() + 1.0 * (spoof >= t).mean() for t in grid]
    assert a_dcf(target, nontarget, spoof) == pytest.approx(min(brute) / 0.9)
    at = 0.9 * (target < 1.5).mean() + 0.5 * (nontarget >= 1.5).mean() + (spoof >= 1.5).mean()
    assert a_dcf(target, nontarget, spoof, threshold=1.5) == pytest.approx(at / 0.9)
    assert a_dcf(target, nontarget, spoof, costs=ADcfCosts(spoof=0.0)) < a_dcf(target, nontarget, spoof)


def test_calibration_recovers_the_true_llr(gaussians) -> None:
    positives, negatives = gaussians
    scale, offset = fit_calibration(positives, negatives)  # true LLR of N(2,1) against N(0,1) is 2x - 2
    assert (scale, offset) == (pytest.approx(2, abs=0.15), pytest.approx(-2, abs=0.15))
    assert cllr(scale * positives + offset, scale * negatives + offset) < cllr(positives, negatives) < 1


def test_calibration_agrees_with_scikit_learn(gaussians) -> None:
    positives, negatives = gaussians
    scores = np.concatenate((positives, negatives))
    model = LogisticRegression(C=1e6, class_weight="balanced", tol=1e-8).fit(
        scores[:, None], np.r_[np.ones(positives.size), np.zeros(negatives.size)]
    )
    scale, offset = fit_calibration(positives, negatives, ridge=1e-9)
    assert (scale, offset) == (pytest.approx(model.coef_[0, 0], rel=1e-3), pytest.approx(model.intercept_[0], rel=1e-3))


def test_calibration_of_separable_and_constant_scores_is_finite() -> None:
    assert np.isfinite(fit_calibration([5.0, 6.0], [1.0, 2.0])).all()
    assert fit_calibration([1.0, 1.0], [1.0]) == (pytest.approx(0), pytest.approx(0, abs=1e-6))


def test_cllr_of_no_information_is_one() -> None:
    assert cllr([0, 0], [0]) == pytest.approx(1.0)


def test_wilson_interval_agrees_with_scipy() -> None:
    expected = binomtest(3, 50).proportion_ci(method="wilson")
    assert wilson_interval(3, 50) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_bootstrap_over_speakers_is_wider_than_over_trials() -> None:
    rng = np.random.default_rng(2)
    speakers = np.repeat([f"s{i}" for i in range(20)], 50)
    shift = np.repeat(rng.normal(0, 1, 20), 50)
    positives, negatives = 2 + shift + rng.normal(0, 0.3, 1000), shift + rng.normal(0, 0.3, 1000)
    by_speaker = bootstrap_ci(eer, (positives, negatives), (speakers, speakers), rounds=100)
    by_trial = bootstrap_ci(eer, (positives, negatives), rounds=100)
    assert by_speaker[0] <= eer(positives, negatives) <= by_speaker[1]
    assert by_speaker[1] - by_speaker[0] > 2 * (by_trial[1] - by_trial[0])


@pytest.mark.parametrize("call", [lambda: eer([], [1]), lambda: eer([1], [np.nan]), lambda: wilson_interval(0, 0)])
def test_metrics_without_trials_or_with_nan_are_refused(call) -> None:
    with pytest.raises(ValueError, match=r"trial|NaN"):
        call()


def test_bootstrap_refuses_groups_of_another_length() -> None:
    with pytest.raises(ValueError, match="one group"):
        bootstrap_ci(eer, ([1.0, 2.0], [0.0]), (["a"], ["b"]))
