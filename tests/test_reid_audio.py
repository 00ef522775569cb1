"""Preparing recordings, finding silence, embeddings and other representations."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tools.studies.errors import StudyError
from tools.studies.reidentification.__main__ import main
from tools.studies.reidentification.emitted import REPRESENTATIONS, Emitted, sequence_statistics
from tools.studies.reidentification.preprocess import PreprocessOptions, process, trim_ends
from tools.studies.reidentification.silence import SilenceOptions, cut, find_speech
from voiceid.audio import read_waveform
from voiceid.types import SAMPLE_RATE
from voiceid.units.privacy import PrivacyProfile

OPTIONS = SilenceOptions()
CORPUS = Path(os.environ.get("VOICEID_CORPUS", ""))
SPEECH = CORPUS / "ls-fakebob-originals"
needs_speech = pytest.mark.skipif(not SPEECH.is_dir(), reason="set VOICEID_CORPUS to a corpus with speech")


def tone(seconds, frequency=1000.0, level=0.3):
    return (level * np.sin(2 * np.pi * frequency * np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE)).astype(
        np.float32
    )


def hum(seconds):
    """Loud, but without energy between 300 and 3000 Hz."""
    return tone(seconds, 100.0, 0.5)


def silence(seconds):
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def seconds(stretches):
    return [(round(s.start / SAMPLE_RATE, 1), round(s.stop / SAMPLE_RATE, 1)) for s in stretches]


def test_speech_is_found_by_its_band_and_the_last_stretch_stays():
    samples = np.concatenate((hum(1), tone(1.5), hum(1), tone(2)))
    assert seconds(find_speech(samples, OPTIONS)) == [(1.0, 2.5), (3.5, 5.5)]
    first, last = cut(samples, OPTIONS, split=True)
    assert len(last) / SAMPLE_RATE == pytest.approx(2, abs=0.05)
    (joined,) = cut(samples, OPTIONS, split=False)
    assert len(joined) == len(first) + len(last)


def test_short_gaps_are_filled_and_short_speech_dropped_at_the_end_too():
    assert seconds(find_speech(np.concatenate((tone(1), hum(0.4), tone(1))), OPTIONS)) == [(0.0, 2.4)]
    assert seconds(find_speech(np.concatenate((tone(1), hum(1), tone(0.4))), OPTIONS)) == [(0.0, 1.0)]


@pytest.mark.parametrize("samples", [silence(2), hum(2), silence(0), silence(0.01)])
def test_without_speech_there_is_nothing(samples):
    assert find_speech(samples, OPTIONS) == []
    assert cut(samples, OPTIONS, split=False) == []


def test_the_ends_are_trimmed_in_steps_of_10_ms():
    samples = np.concatenate((silence(0.25), tone(1), 0.01 * tone(0.5)))
    assert len(trim_ends(samples, -30.0)) == SAMPLE_RATE
    assert len(trim_ends(samples, -80.0)) == round(1.5 * SAMPLE_RATE)
    assert len(trim_ends(silence(1), -30.0)) == 0


def test_recordings_are_normalised_to_their_peak():
    (piece,) = process(0.01 * tone(1), PreprocessOptions())
    assert np.abs(piece).max() == pytest.approx(10 ** (-0.1 / 20), rel=1e-3)
    assert process(silence(1), PreprocessOptions()) == []


def write(path, samples, rate=SAMPLE_RATE):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate)


def test_the_command_prepares_what_it_can_and_names_the_rest(tmp_path, capsys):
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a" / "1.wav", np.column_stack((tone(1), tone(1)))[::2], SAMPLE_RATE // 2)
    write(source / "b" / "2.flac", np.concatenate((silence(0.5), tone(1))))
    write(source / "b" / "3.wav", silence(1))
    (source / "b" / "4.wav").write_bytes(b"")
    command = ["preprocess", "-i", str(source), "-o", str(target), "--skip_features", "--workers", "1"]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert "3.wav: holds only silence" in err
    assert "4.wav" in err
    assert sorted(p.relative_to(target).as_posix() for p in target.rglob("*.wav")) == ["a/1.wav", "b/2.wav"]
    assert read_waveform(target / "b" / "2.wav").seconds == pytest.approx(1, abs=0.02)
    times = {p: p.stat().st_mtime_ns for p in target.rglob("*.wav")}
    assert main(command) == 1
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert main([*command, "-t", "-50"]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_a_list_of_files_and_splitting(tmp_path, capsys):
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "1.wav", np.concatenate((tone(1), hum(1), tone(1))))
    write(source / "2.wav", tone(1))
    (tmp_path / "list.txt").write_text("1.wav\n\n")
    command = ["preprocess", "-i", str(source), "-o", str(target), "--skip_features", "--workers", "1"]
    assert main([*command, "--to_process", str(tmp_path / "list.txt"), "--remove_all", "--split"]) == 0
    assert sorted(p.name for p in target.glob("*.wav")) == ["1_0.wav", "1_1.wav"]
    (tmp_path / "list.txt").write_text("9.wav\n")
    assert main([*command, "--to_process", str(tmp_path / "list.txt")]) == 2
    assert "9.wav is no file" in capsys.readouterr().err
    assert main([*command, "--split"]) == 2
    assert "add --remove_all" in capsys.readouterr().err
    write(source / "2.flac", tone(1))
    assert main(command) == 2
    assert "two recordings have the name" in capsys.readouterr().err


def test_silence_of_one_file(tmp_path, capsys):
    write(tmp_path / "a.wav", np.concatenate((tone(1), hum(1), tone(0.45))))
    command = ["silence", "-f", "a.wav", "-i", str(tmp_path), "-p", str(tmp_path)]
    assert main(command) == 0
    assert read_waveform(tmp_path / "a_combined.wav").seconds == pytest.approx(1.45, abs=0.05)
    assert main([*command, "-mv", "500", "--split"]) == 0
    assert [p.name for p in sorted(tmp_path.glob("a_[0-9].wav"))] == ["a_0.wav"]
    assert main([*command, "-t", "1.5"]) == 2
    assert "no speech found" in capsys.readouterr().err


@needs_speech
def test_embeddings_of_speech_are_made_once_and_by_one_model(tmp_path, capsys):
    samples = read_waveform(min(SPEECH.rglob("*.flac"))).samples[: 3 * SAMPLE_RATE]
    write(tmp_path / "in" / "p" / "1.wav", samples)
    write(tmp_path / "in" / "p" / "2.wav", samples[: SAMPLE_RATE // 10])
    command = ["embed", "-i", str(tmp_path / "in"), "-s", str(tmp_path / "out"), "--workers", "1"]
    assert main(command) == 1
    assert "2.wav" in capsys.readouterr().err
    (vector,) = (tmp_path / "out").rglob("*.npy")
    assert np.linalg.norm(np.load(vector)) == pytest.approx(1, abs=1e-5)
    made = vector.stat().st_mtime_ns
    main(command)
    assert vector.stat().st_mtime_ns == made
    assert main([*command, "--ecapa", str(tmp_path)]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_ecapa_without_weights_is_named(tmp_path, capsys):
    write(tmp_path / "in" / "1.wav", tone(1))
    command = ["embed", "-i", str(tmp_path / "in"), "-s", str(tmp_path / "out"), "--workers", "1"]
    assert main([*command, "--ecapa", str(tmp_path / "nothing")]) == 2
    assert "no hyperparams.yaml" in capsys.readouterr().err


@needs_speech
def test_units_are_what_a_profile_shares():
    waveform = read_waveform(min(SPEECH.rglob("*.flac")))
    plain, timed = (Emitted(name).load()(waveform) for name in ("units-50", "units-50-durations"))
    assert len(plain) == 50 + 50**2 + 1
    assert len(timed) == 2 * 50 + 50**2 + 1
    np.testing.assert_array_equal(plain[: 50 + 50**2], timed[: 50 + 50**2])
    assert np.diagonal(plain[50:-1].reshape(50, 50)).max() == 0  # merged runs have no equal neighbours


def test_statistics_of_a_sequence():
    shared = PrivacyProfile(50, durations=True).apply([3, 3, 4, 4, 4, 3])
    found = sequence_statistics(shared)
    assert found[3] == pytest.approx(np.sqrt(2 / 3))
    assert found[50 + 50**2 + 3] == pytest.approx((np.log(2) + np.log(1)) / 2)
    assert found[50 + 50**2 + 4] == pytest.approx(np.log(3))
    assert found[-1] == pytest.approx(np.log(4))
    assert np.isfinite(sequence_statistics(PrivacyProfile(50).apply([]))).all()


def test_unknown_representations_are_named():
    with pytest.raises(StudyError, match="use one of mel, units-50"):
        Emitted("units-51").load()
    assert len(REPRESENTATIONS) == 10
