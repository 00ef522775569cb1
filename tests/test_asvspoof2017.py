"""The recipe benchmark: honest folds, and the floors of the plain features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.train.asvspoof2017 import (
    PAPER_BLOCKS,
    PLAIN,
    Part,
    configuration_folds,
    fit,
    load,
    rate,
    select,
    speaker_folds,
)


@pytest.fixture(scope="module")
def folder(reference: Path) -> Path:
    return reference / "void-asvspoof2017"


@pytest.fixture(scope="module")
def train(folder: Path) -> Part:
    return load(folder, "train")


def test_features_and_protocol_fit_each_other(train, folder) -> None:
    dev = load(folder, "dev")
    assert train.features.shape == (3014, 97) and dev.features.shape == (1710, 97)
    assert (train.genuine.sum(), dev.genuine.sum()) == (1507, 760)
    assert not set(train.speaker) & set(dev.speaker)
    assert set(train.configuration[train.genuine]) == {"-"}


def test_configuration_folds_share_neither_speaker_nor_configuration(train) -> None:
    folds = configuration_folds(train)
    assert len({name for name, _, _ in folds}) == 2
    for name, known, held in folds:
        assert not set(train.speaker[known]) & set(train.speaker[held])
        assert name not in train.configuration[known]
        assert set(train.configuration[held]) == {name, "-"}


def test_speaker_folds_cover_every_row_once(train) -> None:
    folds = speaker_folds(train)
    assert (np.sum([held for _, _, held in folds], axis=0) == 1).all()
    assert all(not set(train.speaker[known]) & set(train.speaker[held]) for _, known, held in folds)


def test_lpcc_beside_all_beats_one_plain_machine_on_unseen_replay(train, folder) -> None:
    dev = load(folder, "dev")
    committee = ((("lpcc",), 10.0, 0.3), (PAPER_BLOCKS, 3.0, 1.0))
    plain, paired = (rate(fit(r, train.features, train.genuine)(dev.features), dev.genuine) for r in (PLAIN, committee))
    assert paired < 0.20 < plain


def test_selection_prefers_what_works() -> None:
    rng = np.random.default_rng(0)
    genuine = np.arange(600) % 2 == 0
    features = rng.standard_normal((600, 97))
    features[:, 37:49] += genuine[:, None]
    speaker = np.array([f"s{i // 2 % 6}" for i in range(600)])
    configuration = np.where(genuine, "-", np.where(np.arange(600) % 4 == 1, "a", "b"))
    part = Part(features, genuine, speaker, configuration)
    (machine,) = select(part, (("lpcc",),))
    assert machine[0] == ("lpcc",)
    assert rate(fit((machine,), features, genuine)(features), genuine) < 0.1


def test_missing_or_mismatched_files_are_refused(folder, tmp_path) -> None:
    with pytest.raises(SystemExit, match="VOICEID_REFERENCE"):
        load(tmp_path, "train")
    np.save(tmp_path / "feature_label_dev.npy", np.zeros((3, 98)))
    (tmp_path / "protocol_dev.txt").write_text("D_1 genuine M1 S1 - - -\n")
    with pytest.raises(SystemExit, match="do not fit"):
        load(tmp_path, "dev")
