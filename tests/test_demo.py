"""The demo's building blocks: voices, attacks and cases. The demo itself runs by ``make demo``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tools.demo.attacks import WAKE_WORD_SECONDS, copy_synthesis, replay, splice
from tools.demo.cases import commands_needed, make_cases
from tools.demo.voices import (
    COMMAND_SECONDS,
    MAX_SECONDS,
    Clip,
    Voice,
    VoicesError,
    commands,
    folder_voices,
    net_speech,
)
from voiceid.audio import prepare, read_waveform
from voiceid.features.mel import log_mel
from voiceid.types import SAMPLE_RATE, Outcome, Source, Waveform


@pytest.fixture(scope="module")
def command(speech: Path) -> np.ndarray:
    """About 3 s of one speaker."""
    return read_waveform(speech).samples[: int(3.2 * SAMPLE_RATE)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_copy_synthesis_keeps_the_words_but_not_the_waveform(command, rng):
    copy = copy_synthesis(command, rng)
    original_mel, copied_mel = log_mel(command).ravel(), log_mel(copy).ravel()
    assert copy.shape == command.shape and copy.dtype == np.float32
    assert np.corrcoef(original_mel, copied_mel)[0, 1] > 0.9
    assert abs(np.corrcoef(command, copy)[0, 1]) < 0.5


def test_replay_is_the_same_speech_through_another_channel(command, rng):
    heard = replay(command, rng)
    assert heard.shape == command.shape and heard.dtype == np.float32
    difference = log_mel(heard) - log_mel(command)
    assert np.corrcoef(log_mel(heard).ravel(), log_mel(command).ravel())[0, 1] > 0.5
    assert np.ptp(difference.mean(axis=0)) > 1.0


def test_attacks_are_repeatable_and_leave_their_input_alone(command):
    before = command.copy()
    for attack in (copy_synthesis, replay):
        first, second = (attack(command, np.random.default_rng(3)) for _ in range(2))
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(command, before)


def test_splice_begins_with_one_person_and_goes_on_with_the_other_at_one_level(command):
    other = np.roll(command[::-1] * 0.1, 100).astype(np.float32)
    both = splice(command, other)
    first, second = (prepare(Waveform(part, Source.FILE)).samples for part in (command, other))
    seam = int(WAKE_WORD_SECONDS * SAMPLE_RATE)
    np.testing.assert_array_equal(both[: seam - 200], first[: seam - 200])
    np.testing.assert_array_equal(both[seam + 200 :], second[280:])
    levels = [np.sqrt(np.mean(part**2)) for part in (both[:seam], both[seam:])]
    assert 20 * abs(np.log10(levels[0] / levels[1])) < 6


def test_commands_take_long_recordings_first_and_join_short_ones(command):
    long = np.tile(command, 4)
    short = command[: int(1.6 * SAMPLE_RATE)]
    found = list(commands([Clip("a", short), Clip("b", long), Clip("c", short), Clip("d", short)]))
    assert found[0].name == "b"
    assert len(found[0].samples) == int(MAX_SECONDS * SAMPLE_RATE)
    assert found[1].name.startswith("a+c")
    assert all(net_speech(clip.samples) >= COMMAND_SECONDS for clip in found)


def test_folder_voices_reads_one_person_a_folder(tmp_path, command):
    for person in ("zoe", "adam"):
        (tmp_path / person).mkdir()
        for index in range(2):
            soundfile.write(tmp_path / person / f"{index}.wav", np.tile(command, 2), SAMPLE_RATE)
        (tmp_path / person / "notes.txt").write_text("not audio")
    voices = folder_voices(tmp_path, 2)
    assert [voice.name for voice in voices] == ["adam", "zoe"]
    assert [clip.name for clip in voices[0].clips] == ["0", "1"]


def test_folder_voices_say_what_is_missing(tmp_path, command):
    with pytest.raises(VoicesError, match="absent: no such folder"):
        folder_voices(tmp_path / "absent", 1)
    with pytest.raises(VoicesError, match="at least two people"):
        folder_voices(tmp_path, 1)
    for person in ("a", "b"):
        (tmp_path / person).mkdir()
        soundfile.write(tmp_path / person / "one.wav", np.tile(command, 2), SAMPLE_RATE)
    with pytest.raises(VoicesError, match=r"a: speech for 1 commands .* 5 are needed"):
        folder_voices(tmp_path, 5)


def test_cases_cover_the_outcomes_and_are_the_same_every_time(command):
    def people():
        count = commands_needed(1)
        clips = tuple(Clip(str(index), np.roll(command, 100 * index)) for index in range(count))
        return Voice("owner", clips), (Voice("other", clips[::-1]),)

    first, second = (make_cases(*people(), 1) for _ in range(2))
    assert {case.expected for case in first} == set(Outcome) - {Outcome.LOCKED_OUT, Outcome.NOT_ENROLLED}
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.recordings[0].samples, two.recordings[0].samples)
