"""The measures of units: information, statistics, the attacker."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from tools.train.units_attacker import attack, mel_statistics, unit_statistics
from tools.train.units_metrics import mfcc_features, mutual_information


def test_mutual_information_of_known_tables():
    phones = np.repeat(np.arange(4, dtype=np.int16), 100)
    perfect = mutual_information(phones, phones + 10)
    assert perfect == pytest.approx({"pnmi": 1.0, "phone_purity": 1.0, "unit_purity": 1.0})
    none = mutual_information(phones, np.tile(np.arange(4, dtype=np.int16), 100))
    assert none == pytest.approx({"pnmi": 0.0, "phone_purity": 0.25, "unit_purity": 0.25})
    half = mutual_information(phones, phones // 2)  # two phones a unit: one of two bits
    assert half == pytest.approx({"pnmi": 0.5, "phone_purity": 0.5, "unit_purity": 1.0})


def test_unit_statistics_are_roots_of_frequencies():
    vector = unit_statistics([0, 1, 1, 0], 2)
    assert vector == pytest.approx(np.sqrt([1 / 2, 1 / 2, 0, 1 / 3, 1 / 3, 1 / 3]))
    assert not unit_statistics([], 2).any()


def test_feature_shapes():
    samples = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) * 0.05
    assert mel_statistics(samples).shape == (192,)
    assert mfcc_features(samples).shape == (98, 39)
    assert np.isfinite(mfcc_features(np.zeros(200, np.float32))).all()


def test_attacker_finds_speakers_who_differ_and_none_who_do_not():
    rng = np.random.default_rng(0)

    def population(count, spread):
        centres = rng.normal(0, spread, (count, 12))
        names = np.repeat([f"s{i}" for i in range(count)], 12)
        return np.repeat(centres, 12, axis=0) + rng.normal(0, 1, (12 * count, 12)), names.tolist()

    train, train_names = population(30, 3)
    test, test_names = population(8, 3)
    found = attack(train, train_names, test, test_names)
    assert found.eer < 0.05
    assert (found.n_target, found.n_nontarget, found.speakers) == (8 * 9, 8 * 9 * 7, 8)
    test, test_names = population(8, 0)
    assert attack(train, train_names, test, test_names).eer > 0.35


def test_attacker_needs_two_speakers():
    vectors = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match="two"):
        attack(vectors, ["a"] * 10 + ["b"] * 10, vectors, ["c"] * 20)
