"""From splits to results: one run, sweeps, whole studies, figures, workers."""

import csv
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tools.studies.cluster import open_workers
from tools.studies.errors import StudyError
from tools.studies.reidentification.__main__ import main
from tools.studies.reidentification.config import Sweep
from tools.studies.reidentification.reidentify import PldaOptions
from tools.studies.reidentification.silence import write_audio
from tools.studies.reidentification.split import SplitOptions
from tools.studies.reidentification.sweep import Runs, design, sweep
from tools.studies.reidentification.synthetic import Population, Session, synthetic_pool

SMALL = Population(dimensions=10, rank=6, spread=3.0)
FAST = PldaOptions(plda_rank=6, run_threshold=10, subset=15)
FLAGS = ["-p", "6", "-r", "10", "-s", "15"]


@pytest.fixture
def vectors(tmp_path):
    """Embeddings of 30 people, 3 recordings each, as SPEAKER/FILE."""
    for session in range(3):
        for i, vector in enumerate(SMALL.recordings(0, 30, session)):
            path = tmp_path / "vectors" / f"p-{i:02d}" / f"{session}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, vector.astype(np.float32)[None])
    return tmp_path / "vectors"


@pytest.fixture
def chosen(vectors, tmp_path):
    command = ["split", "-i", str(vectors), "-o", str(tmp_path), "-d", "people", "-t", "people"]
    assert main([*command, "-x", "20", "-y", "10", "-n", "4"]) == 0
    return tmp_path / "people_tr20_all_te10_1_o4_s.csv"


def plda(chosen, folder, *options):
    return main(["plda", "-d", str(chosen), "-o", str(folder), "-e", str(folder), *FLAGS, *options])


def test_results_have_the_schema_and_names_of_the_study(chosen, tmp_path):
    assert plda(chosen, tmp_path / "out", "-n", "4") == 0
    stem = "both_people_tr20_all_te10_1_o4_s_r10_s15"
    data, metrics = (json.loads((tmp_path / "out" / f"{stem}{kind}.json").read_text()) for kind in ("data", "metrics"))
    assert set(metrics) == {"precision", "confusion_matrix", "recall", "mcc", "fscore", "accuracy", "fp_rate"}
    assert all(set(values) == {"eer", "mindcf"} for values in metrics.values())
    (ta, fr), (fa, tr) = metrics["confusion_matrix"]["mindcf"]
    assert (ta + fr, ta + fr + fa + tr) == (4, 200)
    assert {"actual_labels", "predicted_labels", "train_speakers", "test_speakers", "plda_scores", "args"} <= set(data)
    assert set(data["average_th"]) == set(data["threshold_list"]) == set(data["predicted_labels"]) == {"eer", "mindcf"}
    assert np.shape(data["actual_labels"]) == np.shape(data["plda_scores"][0]["scores"]) == (20, 10)
    assert np.sum(np.array(data["actual_labels"]) & np.array(data["predicted_labels"]["mindcf"])) == ta
    assert len(data["eer"]) == len(data["min_dcf"]) == 10 - data["args"][0]["skipped_runs"]
    assert data["train_speakers"][0].startswith("p-")  # a hyphen in a name does not cut it short
    with (tmp_path / "out" / "experiments.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["mindcf_threshold"]) == data["average_th"]["mindcf"]


def test_the_same_seed_gives_the_same_results_and_one_line_a_run(chosen, tmp_path):
    name = "both_people_tr20_all_te10_1_o4_s_r10_s15data.json"
    assert plda(chosen, tmp_path / "a") == plda(chosen, tmp_path / "a") == plda(chosen, tmp_path / "b") == 0
    assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()
    assert len((tmp_path / "a" / "experiments.csv").read_text().splitlines()) == 2
    assert plda(chosen, tmp_path / "c", "--seed", "1") == 0
    assert (tmp_path / "a" / name).read_text() != (tmp_path / "c" / name).read_text()


def test_one_threshold_or_a_manual_one(chosen, tmp_path):
    assert plda(chosen, tmp_path, "-th", "2.5") == plda(chosen, tmp_path, "-t", "mindcf", "--relaxed") == 0
    manual, relaxed = (
        json.loads((tmp_path / f"{kind}_people_tr20_all_te10_1_o4_s_r10_s15data.json").read_text())
        for kind in ("manual", "mindcf")
    )
    assert manual["average_th"] == 2.5
    assert "threshold_list" not in manual
    assert np.isscalar(relaxed["avg_calc"])
    assert relaxed["args"][0]["p_target"] == 0.1
    assert (tmp_path / "manual_th_experiments.csv").exists()
    assert main(["metrics", "-d", str(tmp_path), "-t", "manual", "-e", "manual*data.json"]) == 0


def test_metrics_reads_what_plda_wrote_with_the_matrix_inside_or_beside(chosen, tmp_path, monkeypatch):
    from tools.studies.reidentification import reidentify

    assert plda(chosen, tmp_path / "inside") == 0
    monkeypatch.setattr(reidentify, "JSON_CELLS", 10)
    assert plda(chosen, tmp_path / "beside") == 0
    assert len(list((tmp_path / "beside").glob("*.npy"))) == 4
    counts = []
    for folder in ("inside", "beside"):
        assert main(["metrics", "-d", str(tmp_path / folder), "-n", "4"]) == 0
        table = (tmp_path / folder / "4_known_overlap_counts_mindcf.csv").read_text()
        counts.append(table.replace(folder, ""))
    assert counts[0] == counts[1]


def changed(chosen, change):
    lines = chosen.read_text().splitlines()
    chosen.write_text("\n".join(change(lines)) + "\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [line.replace("speaker_id", "who") for line in lines], "no column 'speaker_id'"),
        (lambda lines: [*lines, lines[1]], "occurs twice"),
        (lambda lines: [lines[0], lines[1].replace("True", "maybe"), *lines[2:]], "train is 'maybe'"),
        (lambda lines: [line for line in lines if ",False,True," not in line], "no rows with test True"),
        (lambda lines: [lines[0], lines[1].replace(".npy", ".gone"), *lines[2:]], "not a readable embedding"),
        (lambda lines: [lines[0], ",".join((lines[1].split(",")[0], "", *lines[1].split(",")[2:])), *lines[2:]],
         "line 2: no speaker_id"),
    ],
)  # fmt: skip
def test_splits_with_faults(chosen, tmp_path, capsys, change, message):
    changed(chosen, change)
    assert plda(chosen, tmp_path / "out") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: np.save(path, np.full(10, np.nan)), "holds NaN or infinity"),
        (lambda path: path.write_bytes(b""), "not a readable embedding"),
        (lambda path: np.save(path, np.zeros((2, 10))), "expected one embedding"),
        (lambda path: np.save(path, np.zeros(7)), "use one model"),
        (lambda path: np.save(path, np.array([{}], dtype=object)), "not a readable embedding"),
    ],
)
def test_embeddings_with_faults(chosen, tmp_path, capsys, spoil, message):
    spoil(Path(chosen.read_text().splitlines()[5].split(",")[0]))
    assert plda(chosen, tmp_path / "out") == 2
    assert message in capsys.readouterr().err


def test_a_copy_of_a_known_recording_among_the_unknown_is_found(chosen, tmp_path, capsys):
    lines = [line.split(",") for line in chosen.read_text().splitlines()]
    known, unknown = (next(Path(row[0]) for row in lines if row[column] == "True") for column in (2, 3))
    unknown.write_bytes(known.read_bytes())
    assert plda(chosen, tmp_path / "out") == 2
    assert "hold the same embedding" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-n", "5"], "has 4 overlapping speakers, not 5"),
        (["-s", "100"], "choose 2 to 20"),
        (["-p", "11"], "PLDA rank 11"),
        (["-pk", "1.5"], "p_known is 1.5"),
        (["--dimensions", "50"], "50 dimensions; the known embeddings span 10"),
    ],
)
def test_options_that_do_not_fit_the_data(chosen, tmp_path, capsys, options, message):
    assert plda(chosen, tmp_path / "out", *options) == 2
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return synthetic_pool(SMALL, 80, 3, tmp_path_factory.mktemp("pool"))


def test_an_interrupted_sweep_goes_on_where_it_was(pool, tmp_path):
    cells = design(Sweep("train-2-1", (20, 40), (12,), 3))
    whole = sweep(cells, 2, Runs(pool, SplitOptions(), FAST, tmp_path / "whole"))

    def interrupted(function, jobs):
        for job in jobs[:3]:
            yield function(job)
        raise KeyboardInterrupt

    job = Runs(pool, SplitOptions(), FAST, tmp_path / "parts")
    with pytest.raises(KeyboardInterrupt):
        sweep(cells, 2, job, interrupted)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts" / "runs").iterdir()}
    assert len(kept) == 3
    assert sweep(cells, 2, job) == whole
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    other = sweep(cells, 2, Runs(pool, SplitOptions(), PldaOptions(6, run_threshold=11, subset=15), tmp_path / "parts"))
    assert other != whole


def test_runs_of_a_sweep_differ_and_hold_what_they_should(pool, tmp_path):
    rows = sweep(
        design(Sweep("full-train-1", (20, 40), (12,), full_overlap=True)), 2, Runs(pool, SplitOptions(), FAST, tmp_path)
    )
    assert [row["num_overlap"] for row in rows] == ["12"] * 4
    assert len({row["mindcf_threshold"] for row in rows}) == 4
    assert all(sum(json.loads(row["mindcf_confusion"])[0]) == 12 for row in rows)


def test_false_acceptances_grow_with_comparisons_and_true_ones_stay(tmp_path):
    pool = synthetic_pool(Population(dimensions=10, rank=6, spread=2.5), 1500, 2, tmp_path)
    options = PldaOptions(plda_rank=6, run_threshold=20, subset=60, th=4.0)
    rows = sweep(design(Sweep("test-1", (200,), (20, 1000), 20)), 3, Runs(pool, SplitOptions(), options, tmp_path))
    counts = [json.loads(row["manual_confusion"]) for row in rows]
    few, many = counts[:3], counts[3:]
    assert sum(c[1][0] for c in many) > 10 * sum(c[1][0] for c in few) > 0
    assert sum(c[0][0] for c in many) == pytest.approx(sum(c[0][0] for c in few), rel=0.3)


def test_a_session_reads_the_same_people_in_any_portion():
    whole = SMALL.recordings(1000, 60, 2)
    session = Session(SMALL, 1000, 60, 2)
    np.testing.assert_allclose(session.read(slice(20, 45)), whole[20:45], atol=1e-12)
    np.testing.assert_allclose(session.read(np.array([7, 31])), whole[[7, 31]], atol=1e-12)
    assert not np.allclose(whole, SMALL.recordings(1000, 60, 1))


STUDY = """
output = "{output}"
{start}
[plda]
plda_rank = 6
run_threshold = 10
subset = 15
[[sweeps]]
experiment = "train-2-1"
known = [16, 24]
unknown = [6]
overlap = 2
runs = 2
[[sweeps]]
experiment = "full-train-1"
known = [20]
unknown = [6]
full_overlap = true
runs = 2
"""


def test_one_file_runs_a_study_from_embeddings_to_figures(vectors, tmp_path, capsys):
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(output=tmp_path / "out", start=f'embeddings = "{vectors}"'))
    assert main(["run", str(file)]) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert set(summary["experiments"]["train-2-1"]["averages"]) == {"16 x 6 (2), all", "24 x 6 (2), all"}
    assert {p.name for p in (tmp_path / "out" / "figures").iterdir()} == {
        f"figure{n}.{kind}" for n in (2, 3, 4) for kind in ("png", "svg")
    }
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "runs").iterdir()}
    assert main(["run", str(file)]) == 0
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert len(kept) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output = 1\n", "output is 1; expected Path"),
        (STUDY.format(output="x", start=""), "starts from nothing"),
        (STUDY.format(output="x", start='embeddings = "a"\nrecordings = "b"'), "starts from recordings and embeddings"),
        (STUDY.format(output="x", start='embeddings = "a"').replace("full-train-1", "train-2-1"), "experiment of its"),
        (STUDY.format(output="x", start='embeddings = "a"').replace("plda_rank", "rank"), "unknown key 'rank'"),
        ("output = [", "cannot be read as TOML"),
    ],
)
def test_studies_with_faults(tmp_path, capsys, text, message):
    (tmp_path / "study.toml").write_text(text)
    assert main(["run", str(tmp_path / "study.toml")]) == 2
    assert message in capsys.readouterr().err


def test_figures_without_data_are_named(tmp_path, capsys):
    table = tmp_path / "runs.csv"
    header = "experiment,num_train,num_test,num_overlap,test_type,mindcf_confusion,mindcf_threshold\n"
    table.write_text(header + 'mine,10,4,2,1,"[[1 1] [1 37]]",3\n')
    assert main(["plot", str(table), "-o", str(tmp_path)]) == 2
    assert "no figure has data in experiments mine" in capsys.readouterr().err


def fall_once(job):
    marker, number = job
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def ignores_interrupts(_):
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_killed_worker_costs_nothing_but_time(tmp_path):
    pytest.importorskip("distributed", reason="Dask distributed is not installed")
    with open_workers(workers=2, memory="1GiB") as run:
        assert sorted(run(fall_once, [(tmp_path / "fell", i) for i in range(12)])) == [i**2 for i in range(12)]
        assert all(run(ignores_interrupts, range(8)))  # of the new worker too
    assert (tmp_path / "fell").exists()


def test_workers_that_cannot_be(tmp_path):
    with pytest.raises(StudyError, match="at least one must work"), open_workers(workers=0):
        pass
    pytest.importorskip("distributed", reason="Dask distributed is not installed")
    with pytest.raises(StudyError, match="no Dask scheduler answers"), open_workers("tcp://127.0.0.1:1", 1):
        pass


def test_measures_without_a_threshold_are_in_the_table(pool, tmp_path):
    easy = sweep(design(Sweep("test-1", (30,), (12,), 6)), 2, Runs(pool, SplitOptions(), FAST, tmp_path))
    assert all(0 <= float(row["trial_eer"]) < 0.2 for row in easy)
    assert all(float(row["identified"]) > 0.5 for row in easy)
    (none,) = sweep(design(Sweep("test-1", (30,), (12,), 0)), 1, Runs(pool, SplitOptions(), FAST, tmp_path))
    assert none["trial_eer"] == none["identified"] == ""


@pytest.fixture
def voices(tmp_path):
    """Eight people of different pitch and timbre, four recordings each, as SPEAKER/FILE."""
    rng = np.random.default_rng(2)
    for speaker in range(8):
        base = 120 + 25 * speaker
        for take in range(4):
            times = np.arange(16000) / 16000 + rng.random()
            sound = sum(np.sin(2 * np.pi * base * k * times) / k for k in range(1, 1 + 2 * speaker + 3))
            samples = 0.1 * sound + 0.01 * rng.normal(size=len(times))
            path = tmp_path / "in" / f"p{speaker}" / f"{take}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_audio(path, samples.astype(np.float32))
    return tmp_path / "in"


def test_what_is_shared_is_compared_on_the_same_splits(voices, tmp_path, capsys):
    pytest.importorskip("sklearn")
    command = ["risk", "-i", str(voices), "-o", str(tmp_path / "out"), "--representations", "mel"]
    sizes = ["--known", "6", "--unknown", "4", "--overlap", "2", "--runs", "2", "--workers", "1"]
    command += [*sizes, "--dimensions", "4", "-p", "2", "-r", "10", "-s", "5", "--json", str(tmp_path / "risk.json")]
    assert main(command) == 0
    result = json.loads((tmp_path / "risk.json").read_text())["mel"]
    assert (result["recordings"], result["failed"], result["comparisons"]) == (32, 0, 24)
    assert result["identified"] == 1.0
    assert result["made_with"] == {"representation": "mel", "sha256": None}
    assert main([*command, "--overlap", "0"]) == 2
    assert "needs overlapping ones" in capsys.readouterr().err


RISK = """
output = "{output}"
[[corpus]]
sets = ["voices"]
per_speaker = 4
seconds = 0.9
[risk]
representations = ["mel"]
known = 6
unknown = 4
overlap = 2
runs = 2
[plda]
dimensions = 4
plda_rank = 2
run_threshold = 10
subset = 5
"""


def test_the_risk_runs_from_one_file_on_a_corpus(voices, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    rows = [f"{path.relative_to(voices)},voices,{path.parent.name},bonafide,1.0,A" for path in voices.rglob("*.wav")]
    (voices / "index.csv").write_text("\n".join(["path,set,speaker,kind,seconds,class", *rows]))
    monkeypatch.setenv("VOICEID_CORPUS", str(voices))
    path, output = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(RISK.format(output=output))
    assert main(["run", str(path)]) == 0
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["risk"]["mel"]["recordings"], summary["risk"]["mel"]["comparisons"]) == (32, 24)
    assert summary["versions"]["packages"]["numpy"] == np.__version__
    assert len(list((output / "recordings").rglob("*.wav"))) == 32
    path.write_text(RISK.format(output=output).replace("seconds = 0.9", "seconds = 0.8"))
    assert main(["run", str(path)]) == 2
    assert "holds files made with" in capsys.readouterr().err
    path.write_text(RISK.format(output=output).replace("[[corpus]]", "[synthetic]\nspeakers = 9\n[[corpus]]"))
    assert main(["run", str(path)]) == 2
    assert "starts from corpus and synthetic" in capsys.readouterr().err
    path.write_text(f'output = "{output}"\nembeddings = "x"\n[risk]\nknown = 6\nunknown = 4\n')
    assert main(["run", str(path)]) == 2
    assert "risk needs recordings, not embeddings" in capsys.readouterr().err
