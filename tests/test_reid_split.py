"""Splitting data sets into known and unknown speakers."""

import csv

import numpy as np
import pytest

from tools.studies.errors import StudyError
from tools.studies.reidentification.__main__ import main
from tools.studies.reidentification.layouts import Recording, find_recordings
from tools.studies.reidentification.split import Sizes, SplitOptions, split
from tools.studies.reidentification.tasks import TaskFilter, Tasks, read_tasks


def vox(folder, speakers, videos=3, files=2, first=0):
    for speaker in range(first, first + speakers):
        for video in range(videos):
            for file in range(files):
                path = folder / f"id{speaker:03d}" / f"v{video}" / f"{file:05d}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, np.zeros(2))
    return folder


def people(count, videos=3, files=2, data_type="vox", start=0):
    from pathlib import Path

    return [
        Recording(Path(f"/{data_type}/s{s}/v{v}/{f}.npy"), f"s{s}", f"v{v}", "", data_type)
        for s in range(start, start + count)
        for v in range(videos)
        for f in range(files)
    ]


def sides(rows):
    return ({row.speaker for row in rows if row.train}, {row.speaker for row in rows if row.test})


def test_sizes_and_overlap_are_as_asked():
    rows = split([(people(20), Sizes(12, 6, 3))], SplitOptions(seed=4))
    known, unknown = sides(rows)
    assert (len(known), len(unknown), len(known & unknown)) == (12, 6, 3)
    assert not any(row.train and row.test for row in rows)
    assert sum(row.test for row in rows) == 6


def test_overlapping_speakers_keep_one_video_apart():
    recordings = people(8)
    rows = split([(recordings, Sizes(5, 5, 5))], SplitOptions(videos=("all", "1", "1"), all_files=True, seed=1))
    video = {r.path: r.video for r in recordings}
    for speaker in sides(rows)[1]:
        trained = {video[row.path] for row in rows if row.speaker == speaker and row.train}
        tested = {video[row.path] for row in rows if row.speaker == speaker and row.test}
        assert (len(trained), len(tested)) == (2, 1)
        assert not trained & tested


def test_half_of_the_videos_are_different_ones():
    recordings = people(6, videos=8, files=1)
    rows = split([(recordings, Sizes(6))], SplitOptions(videos=("half", "1", "1")))
    per_speaker = [len({r.path for r in rows if r.speaker == f"s{i}"}) for i in range(6)]
    assert per_speaker == [4] * 6


def test_the_same_seed_gives_the_same_split_in_any_order_of_files():
    recordings = people(15)
    shuffled = sorted(recordings, key=lambda r: r.path.name)
    one, same = (split([(r, Sizes(8, 4, 2))], SplitOptions(seed=9)) for r in (recordings, recordings))
    other = split([(recordings, Sizes(8, 4, 2))], SplitOptions(seed=10))
    assert one == same
    assert one != other
    assert sides(split([(shuffled, Sizes(8, 4, 2))], SplitOptions(seed=9))) == sides(one)


def test_each_file_of_an_unknown_speaker_can_be_an_unknown_speaker():
    rows = split([(people(5), Sizes(3, 2, 1))], SplitOptions(files=2, separate=True, videos=("all", "all", "all")))
    tested = [row for row in rows if row.test]
    assert len({row.test_id for row in tested}) == len(tested) == 4
    assert all(row.test_id.rsplit("-", 1)[0] == row.speaker for row in tested)


def test_several_data_sets_keep_their_own_sizes():
    data = [(people(10, data_type="vox"), Sizes(6, 2, 1)), (people(5, data_type="vox-test", start=50), Sizes(0, 3, 0))]
    known, unknown = sides(split(data, SplitOptions()))
    assert (len(known), len(unknown), len(known & unknown)) == (6, 5, 1)


@pytest.mark.parametrize(
    ("sizes", "videos", "message"),
    [
        (Sizes(5, 2, 3), 3, "3 overlapping speakers of 5 known and 2 unknown"),
        (Sizes(9, 9, 9), 3, "9 speakers wanted in both parts, but only 6"),
        (Sizes(4, 4, 1), 3, "speakers wanted"),
        (Sizes(2, 1, 1), 1, "1 speakers wanted in both parts, but only 0"),
    ],
)
def test_more_speakers_than_there_are(sizes, videos, message):
    with pytest.raises(StudyError, match=message):
        split([(people(6, videos=videos), sizes)], SplitOptions())


def test_a_speaker_of_two_data_sets_is_refused():
    with pytest.raises(StudyError, match="'s0' occurs in two data sets"):
        split([(people(3), Sizes(2)), (people(3, data_type="other"), Sizes(0, 1))], SplitOptions())


@pytest.mark.parametrize(
    ("patterns", "task", "passes"),
    [
        (("s-*",), "s-physician", True),
        (("s-*",), "S-Physician", True),
        (("s-*", "-s-physician"), "s-physician", False),
        (("s-*", "-s-physician"), "s-market", True),
        (("vowel-*",), "vowel", True),
        (("vowel-*",), "vowels-high", False),
        (("s-market", "s-physician"), "s-physician", True),
        (("-amr-*",), "smr", True),
        (("-amr-*",), "amr-pa", False),
        ((), "anything", True),
    ],
)
def test_task_patterns(patterns, task, passes):
    assert TaskFilter(patterns)(task) is passes


def test_overlap_tasks_default_to_those_of_the_test(tmp_path):
    path = tmp_path / "tasks.txt"
    path.write_text("train s-* -s-physician\n\ntest s-physician\n")
    tasks = read_tasks(path)
    assert tasks.overlap == tasks.test == TaskFilter(("s-physician",))
    path.write_text("train s-*\ntest vowel-*\noverlap amr-*\n")
    assert read_tasks(path).overlap == TaskFilter(("amr-*",))


@pytest.mark.parametrize(
    ("text", "message"), [("train s-*\n", "no tasks for test"), ("trian s-*\ntest x\n", "line 1: starts with 'trian'")]
)
def test_task_files_with_faults(tmp_path, text, message):
    (tmp_path / "tasks.txt").write_text(text)
    with pytest.raises(StudyError, match=message):
        read_tasks(tmp_path / "tasks.txt")


def clinical(tmp_path, speakers=6):
    folder, table = tmp_path / "clinical", tmp_path / "table.csv"
    folder.mkdir()
    rows = ["file_name,speakerID,task"]
    for speaker in range(speakers):
        for i, task in enumerate(("s-market", "s-house", "s-physician", "vowel")):
            rows.append(f"r{speaker}{i},{speaker},{task}")
            np.save(folder / f"r{speaker}{i}_part.npy", np.zeros(2))
    table.write_text("\n".join(rows) + "\n")
    return folder, table


def test_tasks_of_a_clinical_data_set(tmp_path):
    folder, table = clinical(tmp_path)
    recordings = find_recordings(folder, "mayo-speech", table=table)
    tasks = Tasks(TaskFilter(("s-*", "-s-physician")), TaskFilter(("vowel-*",)), TaskFilter(("s-physician",)))
    rows = split([(recordings, Sizes(4, 3, 1))], SplitOptions(tasks=tasks))
    task = {r.path: r.task for r in recordings}
    known, unknown = sides(rows)
    assert {task[row.path] for row in rows if row.train} == {"s-market", "s-house"}
    for row in rows:
        if row.test:
            assert task[row.path] == ("s-physician" if row.speaker in known & unknown else "vowel")


def test_within_one_task_recordings_are_held_out(tmp_path):
    folder, table = clinical(tmp_path)
    recordings = find_recordings(folder, "mayo-speech", table=table)
    tasks = Tasks(TaskFilter(("s-*",)), TaskFilter(("s-*",)), TaskFilter(("s-*",)))
    rows = split([(recordings, Sizes(4, 4, 4))], SplitOptions(tasks=tasks))
    assert len({row.path for row in rows}) == len(rows) == 4 * 3


def test_the_command_names_files_as_the_study_does_and_is_reproducible(tmp_path, capsys):
    vox(tmp_path / "vox", 12)
    command = ["split", "-i", str(tmp_path / "vox"), "-d", "vox", "-t", "vox", "-x", "8", "-y", "4", "-n", "2"]
    assert main([*command, "-o", str(tmp_path / "a"), "--runs", "2"]) == 0
    assert main([*command, "-o", str(tmp_path / "b"), "--runs", "2"]) == 0
    names = ["v_tr8_all_te4_1_o2_s.csv", "v_tr8_all_te4_1_o2_s_1.csv"]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == names
    texts = [[(tmp_path / d / name).read_text() for name in names] for d in "ab"]
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1]
    with (tmp_path / "a" / names[0]).open() as file:
        first = next(csv.DictReader(file))
    assert list(first) == ["files", "speaker_id", "train", "test", "data_type", "test_id"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["-x", "8", "8"], "-x has 2 values"),
        (["-t", "vox1"], "'vox1' is not among the data sets"),
        (["-n", "5"], "5 overlapping speakers of 8 known and 4 unknown"),
        (["-d", "vox", "vox2", "-x", "8", "1"], "1 folders"),
        (["-d", "mayo-speech", "-t", "mayo-speech"], "name its description"),
    ],
)
def test_commands_that_cannot_be(tmp_path, capsys, change, message):
    vox(tmp_path / "vox", 12)
    command = ["split", "-i", str(tmp_path / "vox"), "-o", str(tmp_path), "-d", "vox", "-t", "vox"]
    assert main([*command, "-x", "8", "-y", "4", "-n", "2", *change]) == 2
    assert message in capsys.readouterr().err


def test_folders_with_faults(tmp_path):
    with pytest.raises(StudyError, match="no such folder"):
        find_recordings(tmp_path / "nowhere", "vox")
    with pytest.raises(StudyError, match=r"no \*.npy files"):
        find_recordings(tmp_path, "vox")
    np.save(tmp_path / "lost.npy", np.zeros(2))
    with pytest.raises(StudyError, match="expected SPEAKER/VIDEO/FILE"):
        find_recordings(tmp_path, "vox")
    with pytest.raises(StudyError, match="lies in no speaker's folder"):
        find_recordings(tmp_path, "generic")
    table = tmp_path / "table.csv"
    table.write_text("file_name,speakerID,task\nother,1,vowel\n")
    with pytest.raises(StudyError, match="no row for file_name 'lost'"):
        find_recordings(tmp_path, "mayo-speech", table=table)
    table.write_text("file_name,task\nlost,vowel\n")
    with pytest.raises(StudyError, match="no column 'speakerID'"):
        find_recordings(tmp_path, "mayo-speech", table=table)
