"""The study's own tables, recomputed."""

import json
import math
import os
from pathlib import Path

import pytest

from tools.studies.errors import StudyError
from tools.studies.reidentification.__main__ import main
from tools.studies.reidentification.check import SEARCH_SPACES, check, differences
from tools.studies.reidentification.counts import Counts
from tools.studies.reidentification.tables import averages, correlate, read_runs, select

STUDY = Path(os.environ.get("VOICEID_REFERENCE", "")) / "reid-study"
needs_study = pytest.mark.skipif(not STUDY.is_dir(), reason="set VOICEID_REFERENCE to the folder with reid-study")


@pytest.fixture(scope="module")
def tables():
    return tuple(read_runs(STUDY / f"output_{name}.csv") for name in ("vox", "mayo"))


@needs_study
def test_every_measure_of_every_run_follows_from_its_counts(tables):
    runs = [run for table in tables for run in table]
    assert len(runs) == 780
    wrong = {run.cells["output_data"]: found for run in runs if (found := differences(run))}
    overflowed = [r.cells["output_data"] for r in runs if r.overlap == r.unknown == 1000]
    assert sorted(wrong) == sorted(overflowed)  # the study multiplied four counts in 64 bits there
    assert all(list(found) == ["mcc"] and found["mcc"].startswith("nan printed") for found in wrong.values())


@needs_study
def test_published_ratios_and_correlations_come_out(tables):
    vox, mayo = tables
    result = check(vox, mayo)
    ratios = {size: result["sizes"][size]["FA/TA"] for size in ("163000", "3000000", "6000000")}
    assert ratios == pytest.approx({"163000": 0.023, "3000000": 1.01, "6000000": 1.41}, abs=0.005)
    correlation = {name: (round(c["r"], 2), c["runs"]) for name, c in result["correlation"].items()}
    assert correlation == {
        "four search spaces of figure 2c, 50 runs each": (0.69, 200),
        "six sizes, 50 runs each": (0.71, 300),
        "six sizes and the earlier runs": (0.68, 330),
    }
    cross = {task: round(v["FA/TA"], 2) for task, v in result["tasks"]["across-default"].items()}
    assert cross == {
        "amr": 8.0, "grandfather": 1.09, "pool": 2.56, "s-physician": 0.54, "smr": 0.86, "vowel": 98.5, "w": 0.72
    }  # fmt: skip
    within = {task: round(v["FA/TA"], 2) for task, v in result["tasks"]["within-default"].items()}
    assert within["vowel"] == 0.39
    assert within["amr"] == 1.17


@needs_study
def test_p_values_are_those_of_the_paper(tables):
    shown = select(tables[0], "train-2-1", "test-1", comparisons=SEARCH_SPACES)
    found = correlate(shown, lambda run: run.comparisons, lambda run: run.counts.false_acceptances)
    assert found.p < 0.001
    assert {size: a["runs"] for size, a in averages(shown).items()} == dict.fromkeys(SEARCH_SPACES, 50)


@needs_study
def test_metrics_file_of_the_study_is_reproduced():
    published = json.loads((STUDY / "v_tr1000_all_te163_1_o5_s_r500_s100metrics.json").read_text())
    for kind in ("eer", "mindcf"):
        (ta, fr), (fa, tr) = published["confusion_matrix"][kind]
        measures = Counts(ta, fr, fa, tr).measures()
        assert measures.pop("confusion_matrix") == published["confusion_matrix"][kind]
        expected = {name: published[name][kind] for name in measures}
        assert measures == pytest.approx(expected, nan_ok=True, rel=1e-12)


@needs_study
def test_check_command_writes_what_it_finds(tmp_path, capsys):
    assert main(["check", str(STUDY), "--json", str(tmp_path / "check.json")]) == 0
    written = json.loads((tmp_path / "check.json").read_text())
    assert (written["runs"], written["runs_that_differ"], written["mcc_printed_nan"]) == (780, 20, 20)
    assert json.loads(capsys.readouterr().out) == written


def test_a_changed_count_is_found(tmp_path):
    path = tmp_path / "runs.csv"
    columns = "experiment,num_train,num_test,num_overlap,test_type,mindcf_confusion,mindcf_threshold,"
    columns += "mindcf_fp_rate,mindcf_precision,mindcf_recall,mindcf_mcc,mindcf_fscore,mindcf_accuracy\n"
    good = 'a,10,4,2,1,"[[1 1] [1 37]]",3.5,0.026315789,0.5,0.5,0.473684211,0.5,0.95\n'
    path.write_text(columns + good + good.replace("[1 37]", "[2 36]"), "utf-8")
    first, second = read_runs(path)
    assert not differences(first)
    assert {"fp_rate", "precision", "accuracy"} <= set(differences(second))


def test_measures_without_a_denominator_are_undefined():
    counts = Counts(0, 5, 0, 995)
    assert math.isnan(counts.precision)
    assert math.isnan(counts.correlation)
    assert math.isnan(counts.f_score())
    assert counts.recall == 0


@pytest.mark.parametrize("text", ["[[1 2] [3]]", "[[1 2] [3 -4]]", "[[1.5 2] [3 4]]", "nan", ""])
def test_what_is_no_matrix_of_counts_is_refused(text):
    with pytest.raises(StudyError, match="expected four counts"):
        Counts.parse(text)


def test_missing_columns_and_bad_values_are_named(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("experiment,num_train\na,1\n", "utf-8")
    with pytest.raises(StudyError, match="no column 'num_test'"):
        read_runs(path)
    path.write_text(
        "experiment,num_train,num_test,num_overlap,test_type,mindcf_confusion,mindcf_threshold\n"
        'a,ten,4,2,1,"[[1 1] [1 37]]",3\n',
        "utf-8",
    )
    with pytest.raises(StudyError, match=r"run 1: .*'ten'"):
        read_runs(path)
    path.write_text("", "utf-8")
    with pytest.raises(StudyError, match="has no rows"):
        read_runs(path)


def test_too_few_or_constant_runs_have_no_correlation(tmp_path):
    assert math.isnan(correlate([], lambda run: run.known, lambda run: run.unknown).r)
