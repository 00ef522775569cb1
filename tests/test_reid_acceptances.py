"""Counting acceptances, in one matrix and in parts, and the metrics command."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from tools.studies.errors import StudyError
from tools.studies.reidentification.__main__ import main
from tools.studies.reidentification.acceptances import People, accept
from tools.studies.reidentification.plda import Plda
from tools.studies.reidentification.scan import Held, Trials, scan, score_all
from tools.studies.results import write_json

PEOPLE = People.named(["a", "b", "c"], ["b", "x", "a", "y"])
SCORES = np.array([[1.0, 6.0, 9.0, 0.0], [7.0, 5.5, 2.0, 0.0], [8.0, 0.0, 5.0, 0.0]])


def matrix(counts):
    return counts.matrix()


def test_counts_of_all_of_the_best_and_of_as_many_as_overlap():
    found = accept(SCORES, 5.0, PEOPLE)
    assert matrix(found.counts()) == [[2, 0], [3, 7]]  # 9 and 7 are genuine; 8, 6, 5.5 are not; 5 is not above 5
    assert matrix(found.rank1()) == [[1, 1], [2, 8]]  # of b's column the false 8 is best
    assert matrix(found.best(2)) == [[1, 1], [1, 9]]
    assert matrix(found.best(0)) == [[0, 2], [0, 10]]
    assert matrix(found.best(100)) == [[2, 0], [4, 6]]  # what reaches the threshold, 5 included, and no more
    assert found.false_by_overlap() == (2, 1)


def test_nothing_reaches_the_threshold():
    found = accept(SCORES, 100.0, PEOPLE)
    assert matrix(found.counts()) == matrix(found.rank1()) == matrix(found.best(5)) == [[0, 2], [0, 10]]
    assert np.isnan(found.counts().precision)


def model(seed=0, dimensions=8, rank=5):
    rng = np.random.default_rng(seed)
    return Plda(rng.normal(size=dimensions), 2 * rng.normal(size=(dimensions, rank)), np.eye(dimensions))


@pytest.mark.parametrize("block", [1, 50, 1000, 10**6])
@pytest.mark.parametrize("p_known", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_parts_give_what_the_whole_matrix_gives(block, p_known, precision):
    rng, plda = np.random.default_rng(5), model()
    voices = 3 * rng.normal(size=(70, 8))
    known, unknown = voices[:50] + rng.normal(size=(50, 8)), voices[40:] + rng.normal(size=(30, 8))
    people = People(np.arange(50), np.arange(40, 70))
    scores = score_all(plda.project(known), plda.project(unknown), p_known)
    on_a_score = float(np.sort(scores, axis=None)[-40]) - 1e-9  # nearer than 32 bits can tell
    thresholds = [float(np.quantile(scores, q)) for q in (0.5, 0.99)] + [on_a_score]
    trials = Trials(plda, Held(known), Held(unknown), p_known, block, precision)
    for found, threshold in zip(scan(trials, thresholds, people), thresholds, strict=True):
        expected = accept(scores, threshold, people)
        assert matrix(found.counts()) == matrix(expected.counts())
        assert matrix(found.rank1()) == matrix(expected.rank1())
        assert matrix(found.best(10)) == matrix(expected.best(10))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9 if precision is np.float64 else 1e-4)
    assert len(found) == 40


def test_scores_too_large_for_32_bits_are_refused():
    rng, plda = np.random.default_rng(5), model()
    voices = 500 * rng.normal(size=(30, 8))
    people = People(np.arange(30), np.arange(30))
    trials = Trials(plda, Held(voices), Held(voices + rng.normal(size=(30, 8))), 0.0, precision=np.float32)
    with pytest.raises(StudyError, match="too large for that precision; use 64 bits"):
        scan(trials, [0.0], people)
    assert scan(replace(trials, precision=np.float64), [0.0], people)[0].counts().true_acceptances == 30


def test_parts_may_come_in_any_order():
    rng, plda = np.random.default_rng(6), model()
    known, unknown = rng.normal(size=(40, 8)), rng.normal(size=(20, 8))
    people = People(np.arange(40), np.arange(20))
    trials = Trials(plda, Held(known), Held(unknown), 1.0, 40)
    backwards = scan(trials, [0.0], people, lambda function, items: iter([function(i) for i in reversed(list(items))]))
    assert matrix(backwards[0].counts()) == matrix(scan(trials, [0.0], people)[0].counts())


def test_embeddings_that_are_not_numbers_are_no_acceptances():
    known, unknown = np.zeros((4, 8)), np.zeros((3, 8))
    unknown[1, 2] = np.nan
    with pytest.raises(StudyError, match="1 unknown speakers have scores that are not numbers"):
        scan(Trials(model(), Held(known), Held(unknown), 1.0), [0.0], People(np.arange(4), np.arange(3)))
    with pytest.raises(StudyError, match="3 unknown embeddings for 4 and 2 people"):
        scan(Trials(model(), Held(known), Held(unknown), 1.0), [0.0], People(np.arange(4), np.arange(2)))


def data_file(path, **changes):
    known, unknown = ["a", "b", "c"], ["b", "x", "a", "y"]
    content = {
        "actual_labels": [[k == u for u in unknown] for k in known],
        "predicted_labels": {"eer": [], "mindcf": []},
        "train_speakers": known,
        "test_speakers": unknown,
        "plda_scores": [{"scores": SCORES[::-1].tolist(), "modelset": known[::-1], "segset": unknown}],
        "average_th": {"eer": 0.5, "mindcf": 5.0},
    }
    write_json(path, content | changes)
    return path


def rows_of(path):
    with path.open() as file:
        return [{k: v for k, v in row.items() if k != "files"} for row in csv.DictReader(file)]


def test_the_command_writes_the_three_tables(tmp_path):
    data_file(tmp_path / "both_v_tr3_r5_s2data.json")
    (tmp_path / "both_v_tr3_r5_s2metrics.json").write_text("{}")
    assert main(["metrics", "-d", tmp_path.name, "-r", str(tmp_path.parent), "-n", "2"]) == 0
    assert rows_of(tmp_path / "rank1_counts_mindcf.csv") == [
        {"TA": "1", "FA": "2", "TR": "8", "FR": "1", "prec": str(1 / 3)}
    ]
    assert rows_of(tmp_path / "2_known_overlap_counts_mindcf.csv") == [
        {"TA": "1", "FA": "1", "TR": "9", "FR": "1", "prec": "0.5"}
    ]
    assert rows_of(tmp_path / "non_overlap_acceptances_mindcf.csv") == [
        {"total_matches": "5", "total_FA": "3", "FA_non_overlap": "2", "FA_overlap": "1"}
    ]


def test_files_are_chosen_by_wildcards_or_by_a_regular_expression(tmp_path):
    for size in (1000, 4000, 7205):
        data_file(tmp_path / f"both_v_tr{size}_r5_s2data.json")
    command = ["metrics", "-d", str(tmp_path), "-c", "rank1"]
    for chosen, count in ((["-e", "*tr4*data.json"], 1), (["-E", r"both_v_tr(1000|7205)_.*data\.json"], 2)):
        assert main([*command, *chosen]) == 0
        assert len(rows_of(tmp_path / "rank1_counts_mindcf.csv")) == count


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, ["-t", "eer_only"], "not a data file with a threshold of kind 'eer_only'"),
        ({"average_th": {"eer": 1.0}}, [], "not a data file with a threshold of kind 'mindcf'"),
        ({"test_speakers": ["b", "x", "a"]}, [], "labels of shape"),
        ({"train_speakers": ["a", "b", "z"]}, [], "not a data file"),
        ({"plda_scores": [{"scores": [[1.0]], "modelset": ["a"], "segset": ["b"]}]}, [], "not a data file"),
        ({}, ["-e", "nothing*"], "no file matches 'nothing*'"),
        ({}, ["-E", "(("], "is not a regular expression"),
        ({}, ["-n", "-1"], "known overlap -1"),
    ],
)
def test_results_that_cannot_be_counted(tmp_path, capsys, changes, options, message):
    data_file(tmp_path / "a_data.json", **changes)
    assert main(["metrics", "-d", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err


def test_scores_that_are_null_or_files_cut_short(tmp_path, capsys):
    path = data_file(tmp_path / "a_data.json")
    content = json.loads(path.read_text())
    content["plda_scores"][0]["scores"][0][0] = None
    write_json(path, content)
    assert main(["metrics", "-d", str(tmp_path)]) == 2
    assert "1 scores are not finite" in capsys.readouterr().err
    path.write_text(path.read_text()[:200])
    assert main(["metrics", "-d", str(tmp_path)]) == 2
    assert "not a readable result file" in capsys.readouterr().err


def test_scale_measures_a_population_that_is_made_as_it_is_scored(tmp_path, capsys):
    command = ["scale", "--known", "300", "--unknown", "80", "--overlap", "20", "--dimension", "12", "--rank", "8"]
    command += ["--spread", "12", "-r", "20", "-s", "50", "--workers", "1", "--json", str(tmp_path / "a.json")]
    assert main([*command, "--block", "1000"]) == main(command) == 0
    (ta, fr), (fa, tr) = json.loads((tmp_path / "a.json").read_text())["confusion_matrix"]
    assert (ta + fr, ta + fr + fa + tr) == (20, 24_000)
    assert ta + fa > 0
    matrices = capsys.readouterr().out.split('"confusion_matrix": ')[1:]
    assert matrices[0].split('"threshold_seconds"')[0] == matrices[1].split('"threshold_seconds"')[0]
    assert main([*command, "--overlap", "90"]) == 2
    assert "90 overlapping of 300 known and 80 unknown" in capsys.readouterr().err
