"""What must never end in a traceback or a silent wrong number, in any study: faulty options, files, disks, workers."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from tools.studies.adversarial.__main__ import main as adversarial
from tools.studies.adversarial.config import read_study as read_adversarial
from tools.studies.cluster import Workers
from tools.studies.commands import status_of
from tools.studies.errors import StudyError
from tools.studies.reidentification.__main__ import main as reidentification
from tools.studies.reidentification.config import read_study as read_reidentification
from tools.studies.results import is_whole, whole_file
from tools.studies.voiceid.config import read_study as read_voiceid
from tools.studies.voiceid.transform import load_voice, voice_path

SWEEP = ["sweep", "--synthetic", "40", "--dimension", "8", "--rank", "4", "-p", "4", "-r", "5", "-s", "10"]
SWEEP += ["--known", "20", "--unknown", "6", "--overlap", "3", "--runs", "2"]


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "out/a.json"),
            2,
            "out/a.json: No space left on device; make",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "out"), 2, "out: Permission denied; name another folder"),
        (OSError("broken"), 2, "broken"),
        (MemoryError("no room for 8 TiB"), 2, "not enough memory (no room for 8 TiB)"),
        (ImportError("No module named 'jiwer'"), 2, "No module named 'jiwer'; install it"),
        (StudyError("too few speakers"), 2, "too few speakers"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_every_error_of_the_world_has_a_line_and_a_status(capsys, error, status, said):
    def work():
        raise error

    assert status_of("study run", work) == status
    assert capsys.readouterr().err.startswith(f"study run: {said}")


def test_a_fault_of_this_program_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        status_of("study run", lambda: 1 // 0)


def test_an_error_of_the_disk_names_the_file_that_was_meant(tmp_path):
    with pytest.raises(OSError, match="No space left") as found, whole_file(tmp_path / "a.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert found.value.filename == str(tmp_path / "a.json")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError) as found, whole_file(tmp_path / "file" / "a.json"):
        pass
    assert found.value.filename == str(tmp_path / "file")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--seed -1", "seed is -1; it must be at least 0"),
        ("--th nan", "th is not a number"),
        ("--th inf", "th is inf; it must be finite"),
        ("-pt 2", "p_target is 2.0; it must lie between 0 and 1"),
        ("-cf -3", "c_fa is -3.0; it must be at least 0"),
        ("--iterations 0", "iterations is 0; it must be at least 1"),
        ("--beta -1", "beta is -1.0"),
        ("--runs -2", "runs is -2"),
        ("--unknown 0", "unknown[0] is 0"),
        ("--known 20 20", "'20' is named twice"),
        ("--num_files -1", "num_files is -1"),
        ("--experiment ../up", "experiment is '../up'"),
        ("--experiment /root/up", "experiment is '/root/up'"),
        ("--synthetic 0", "speakers is 0"),
        ("--rank 9", "differ in 9 of 8 directions"),
        ("--spread nan", "spread is not a number"),
        ("--workers 2 --memory much", "a memory of 'much'"),
        ("--scheduler nowhere", "no Dask scheduler answers at nowhere"),
    ],
)
def test_impossible_options_of_a_sweep_are_told(tmp_path, capsys, options, said):
    assert reidentification([*SWEEP, "--workers", "1", "-o", str(tmp_path / "out"), *options.split()]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "runs").exists()


STARTS = {
    read_reidentification: 'output = "out"\nembeddings = "vectors"\n',
    read_adversarial: 'output = "out"\ntrials = "t.txt"\ntransforms = ["quantise-8"]\n',
    read_voiceid: 'output = "out"\n',
}
DESIGN = '[[sweeps]]\nexperiment = "a"\nknown = [20]\nunknown = [5]\n'
ATTACK = '[[attacks]]\nname = "a"\ntrials = "t.txt"\n'
LISTS = '[[lists]]\nfile = "t.txt"\nsets = ["s"]\n'


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_reidentification, DESIGN.replace("[5]", "[]"), "unknown: name at least one"),
        (read_reidentification, DESIGN.replace('"a"', '"../a"'), "experiment is '../a'"),
        (read_reidentification, DESIGN + "runs = 0\n", "runs is 0"),
        (read_reidentification, DESIGN + "[plda]\nseed = -1\n", "seed is -1"),
        (read_adversarial, ATTACK + "seed = -1\n", "seed is -1"),
        (read_adversarial, ATTACK + "epsilons = [inf]\n", "must lie between 1 and 32768"),
        (read_adversarial, ATTACK + "epsilons = []\n", "name at least one of epsilons"),
        (read_adversarial, LISTS + "limit = 0\n", "limit is 0"),
        (read_adversarial, LISTS + "max_seconds = -1\n", "max_seconds is -1"),
        (read_adversarial, LISTS + LISTS.replace("t.txt", "./t.txt"), "'t.txt' is named twice"),
        (read_voiceid, "seed = -1\n", "seed is -1"),
        (read_voiceid, "[people]\nstolen_seconds = inf\n", "stolen_seconds is inf; it must be finite"),
        (read_voiceid, "[transforms]\nnames = ['mcadams', 'mcadams']\n", "'mcadams' is named twice"),
        (read_voiceid, "[utility]\nrecognisers = ['a', 'a']\n", "'a' is named twice"),
        (read_voiceid, "[[attacks.programs]]\nname = 'a; by b'\ncommand = ['x', '{output}']\n", "name is 'a; by b'"),
    ],
)
def test_impossible_studies_are_told_before_anything_is_done(tmp_path, read, text, said):
    path = tmp_path / "study.toml"
    path.write_text(STARTS[read] + text)
    with pytest.raises(StudyError) as found:
        read(path)
    assert said in str(found.value)


@pytest.mark.parametrize("options", ["--tests 0", "--limit -1", "--enrolment 0", "--seed -1", "--max_seconds nan"])
def test_impossible_options_of_a_list_are_told(tmp_path, capsys, options):
    command = ["trials", str(tmp_path / "index.csv"), "-o", str(tmp_path / "t.txt"), "--sets", "s"]
    assert adversarial([*command, *options.split()]) == 2
    assert f"options: {options.split()[0][2:]} is" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"row": 3}', b'{"row": {}}', b"\xff"])
def test_a_damaged_run_or_matrix_is_made_anew(tmp_path, content):
    command = [*SWEEP, "--workers", "1", "-o", str(tmp_path)]
    assert reidentification(command) == 0
    table, damaged = tmp_path / "train-2-1.csv", next((tmp_path / "runs").iterdir())
    whole = table.read_text()
    for path in (damaged, next((tmp_path / "cache").iterdir())):
        path.write_bytes(content)
        damaged.unlink(missing_ok=path != damaged)
        damaged.write_bytes(content)
        table.unlink()
        assert reidentification(command) == 0
        assert table.read_text() == whole


@pytest.mark.parametrize("form", ["WAV", "FLAC"])
def test_audio_is_whole_only_if_all_of_it_is_there(tmp_path, form):
    path = tmp_path / "speech"
    assert not is_whole(path)
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 16_000), 16_000, format=form)
    data = path.read_bytes()
    assert is_whole(path)
    for share in (0, 0.01, 0.3, 0.9, 0.99):
        path.write_bytes(data[: int(share * len(data))])
        assert not is_whole(path), share


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_a_damaged_voice_of_units_is_learnt_anew(tmp_path, content):
    np.savez(voice_path(tmp_path, 50), weights=np.eye(2), bias=np.ones(2), durations=np.ones(50))
    assert load_voice(tmp_path, 50).durations.shape == (50,)
    whole = voice_path(tmp_path, 50).read_bytes()
    for damage in (content, whole[:-40]):
        voice_path(tmp_path, 50).write_bytes(damage)
        assert load_voice(tmp_path, 50) is None
    assert load_voice(tmp_path, 100) is None


def write_index(folder: Path, *rows: str) -> Path:
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
        soundfile.write(folder / name / "1.wav", np.random.default_rng(0).normal(0, 0.1, 16_000), 16_000)
    (folder / "index.csv").write_text("\n".join(("path,speaker,kind,set,seconds", *rows, "")))
    return folder / "index.csv"


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (["a/1.wav,../../up,bonafide,s,1"], "", "'../../up' contains the path separator"),
        (["a/1.wav,ada,bonafide,s,1", "b/1.wav,ada,bonafide,s,1"], "", "would both become"),
        (["a/1.wav,ada,bonafide,s,1"], "--per_speaker -1", "per_speaker is -1"),
        (["a/1.wav,ada,bonafide,s,1"], "--seconds -1", "seconds is -1"),
        (["a/1.wav,ada,bonafide,s,1"], "--seed -1", "seed is -1"),
        (["a/1.wav,ada,bonafide,t,1"], "", "no bona fide recordings of named speakers in s"),
        (["none.wav,ada,bonafide,s,many"], "", "no such audio file"),
    ],
)
def test_a_corpus_that_cannot_be_laid_out(tmp_path, capsys, rows, options, said):
    index, folder = write_index(tmp_path, *rows), tmp_path / "deep" / "out"
    assert reidentification(["corpus", str(index), "-o", str(folder), "--sets", "s", *options.split()]) == 2
    assert said in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize("columns", ["speaker,kind,set", ""])
def test_an_index_without_its_columns_is_told(tmp_path, capsys, columns):
    (tmp_path / "index.csv").write_text(f"{columns}\nada,bonafide,s\n")
    assert reidentification(["corpus", str(tmp_path / "index.csv"), "-o", str(tmp_path / "o"), "--sets", "s"]) == 2
    assert "no column path" in capsys.readouterr().err


def fall(_):
    from distributed.scheduler import KilledWorker

    raise KilledWorker(
        "fall", SimpleNamespace(address="here"), 3
    )  # what Dask makes of a task under which workers died again and again


def test_a_task_that_kills_every_worker_is_told():
    distributed = pytest.importorskip("distributed", reason="Dask distributed is not installed")
    with (
        distributed.LocalCluster(1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(StudyError, match="killed again and again"),
    ):
        list(Workers(client)(fall, [1]))
