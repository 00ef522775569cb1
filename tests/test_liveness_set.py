"""The liveness data: paired rows of the right speakers, reproducible, stored without loss of meaning."""

from __future__ import annotations

import numpy as np
import pytest

from tools.train.data import liveness_set
from tools.train.data.corpus import read_index
from tools.train.data.liveness_set import RECORDED, Utterances, build, pair, read_shard, shards
from tools.train.data.replay import Bank
from tools.train.liveness_tables import simulated
from voiceid.audio.level import SPEECH_DBFS

BANK = Bank("dev", noises=(), rooms=(), cabinets=())


@pytest.fixture(scope="module")
def utterances(corpus) -> Utterances:
    return Utterances(read_index(corpus / "index.csv"), "dev")


def test_only_speakers_of_the_split_are_drawn(utterances, corpus) -> None:
    speakers = {i.speaker for i in read_index(corpus / "index.csv") if i.split == "dev" and i.kind == "bonafide"}
    for index in range(20):
        samples, speaker, _ = utterances.draw(np.random.default_rng(index))
        assert speaker in speakers and 0 < len(samples) <= 6 * 16_000


def test_a_pair_is_reproducible_and_prepared(utterances) -> None:
    rows = [row for seed in range(6) for row in pair(utterances, BANK, np.random.default_rng(seed))]
    again = [row for seed in range(6) for row in pair(utterances, BANK, np.random.default_rng(seed))]
    assert {row.live for row in rows} == {True, False}
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(rows, again, strict=True))
    assert {row.scene == RECORDED for row in rows if row.live} == {True, False}
    for row in rows:
        assert (row.scene[0] == "-") == row.live
        level = 20 * np.log10(np.sqrt(np.mean(row.samples.astype(np.float64) ** 2)))
        assert SPEECH_DBFS - 10 < level < SPEECH_DBFS + 1


def test_shards_are_written_once_and_read_back(corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    monkeypatch.setattr(liveness_set, "SHARD", 2)
    build("dev", 3)
    paths = shards("dev")
    assert [p.name for p in paths] == ["dev-0-000.npz", "dev-0-001.npz"]
    before = [p.stat().st_mtime_ns for p in paths]
    build("dev", 3)
    assert [p.stat().st_mtime_ns for p in paths] == before
    rows = [row for path in paths for row in read_shard(path)]
    table = simulated("dev")
    assert len(table) == len(rows) and table.features.shape == (len(rows), 225)
    assert table.live.tolist() == [row.live for row in rows]
    assert np.array_equal(simulated("dev").features, table.features)


def test_missing_data_says_what_to_run(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    with pytest.raises(SystemExit, match="liveness_set --split test"):
        shards("test")
