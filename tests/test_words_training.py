"""Training data and training of the recogniser, on little of both."""

from __future__ import annotations

import json
from pathlib import Path as File

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("torch")

import torch

from tools.train.export.words import export
from tools.train.networks.words import FRAMES_A_STEP, WordNetwork
from tools.train.recognizer import training
from tools.train.recognizer.card import calibrate
from tools.train.recognizer.data import Example, mel_of, merged, plain
from tools.train.recognizer.guidance import envelope, laid_on
from tools.train.recognizer.measures import edits, word_errors
from tools.train.recognizer.synthetic import HELD_OUT, generate, sentence, spoken
from tools.train.recognizer.training import Batches, disturbed, parser, phones_at_frames, train
from voiceid.understanding.alphabet import LABELS
from voiceid.understanding.decoder import Match, Path

RNG = np.random.default_rng(0)


def test_texts_become_plain_words() -> None:
    assert plain("Hey, it’s  ‘Mister’ O'Neil!") == "hey it's mister o'neil"
    assert plain("at 7 o'clock") == "" and plain("...") == ""


def test_word_errors_are_the_fewest_edits() -> None:
    assert word_errors("a cat sat down", "the cat sat") == (2, 4)
    assert word_errors("one", "") == (1, 1) and word_errors("one", "one two three") == (2, 1)
    assert edits("kitten", "sitting") == 3


def test_phones_follow_the_envelope_of_an_augmented_utterance() -> None:
    rng = np.random.default_rng(3)
    clean = np.repeat(rng.uniform(0.01, 0.3, 100), 160) * rng.standard_normal(16_000)
    labels = np.arange(100, dtype=np.int16)
    heard = clean[160 * 7 :] + 0.01 * rng.standard_normal(16_000 - 160 * 7)
    found = laid_on(labels, envelope(clean), envelope(heard))
    assert found is not None and found.tolist() == list(range(7, 100))
    longer = np.concatenate((0.001 * rng.standard_normal(160 * 5), clean))
    later = laid_on(labels, envelope(clean), envelope(longer))
    assert later is not None and later.tolist() == [-1] * 5 + list(range(100))
    assert laid_on(labels, envelope(clean), envelope(rng.standard_normal(16_000))) is None


def test_phones_of_inputs_become_those_of_frames() -> None:
    assert phones_at_frames(torch.tensor([[1, 2, 3, 4]]), 3, 6).tolist() == [[1, 2, 3, 4, -1, -1]]
    assert phones_at_frames(torch.arange(16)[None], 8, 6).tolist() == [[1, 4, 6, 9, 12, 14]]


def test_sentences_are_written_as_a_network_reads_them() -> None:
    assert sentence("can i have a mocha") == "Can I have a mocha?" and sentence("brew a mocha") == "Brew a mocha."


@pytest.mark.parametrize(("features", "inputs"), [("units", 100), ("mel", 40)])
def test_frames_are_what_the_network_gives(features: str, inputs: int) -> None:
    network = WordNetwork(features, inputs, 24, 16, phones=40).eval()  # type: ignore[arg-type]
    for length in (1, 2, 8, 9, 60):
        heard = torch.zeros(2, length, dtype=torch.long) if features == "units" else torch.zeros(2, length, inputs)
        letters, phones = network.both(heard)
        frames = int(network.frames(torch.tensor([length]))[0])
        assert letters.shape == (2, frames, LABELS) and frames % FRAMES_A_STEP == 0
        assert phones is not None and phones.shape == (2, frames, 40)
        assert torch.allclose(letters.exp().sum(-1), torch.ones(2, frames), atol=1e-5)


def test_the_export_agrees_with_torch(tmp_path: File) -> None:
    torch.manual_seed(0)
    network = WordNetwork("units", 50, 24, 16, phones=40)
    assert export(network, tmp_path / "words.onnx") < 1e-4
    session = onnxruntime.InferenceSession(str(tmp_path / "words.onnx"), providers=["CPUExecutionProvider"])
    assert [(node.name, node.shape) for node in session.get_outputs()] == [("letters", [1, "frames", LABELS])]


def test_disturbance_keeps_units_within_the_alphabet_and_mel_in_shape() -> None:
    units = Example(RNG.integers(0, 100, 400).astype(np.int16), "", np.arange(400, dtype=np.int16))
    heard, phones = disturbed(units, 100, np.random.default_rng(1))
    assert heard.dtype == torch.int64 and 300 < len(heard) < 400 and int(heard.max()) == 100
    same = [int(units.heard[phone]) == int(unit) for unit, phone in zip(heard, phones, strict=True)]
    assert 0.85 < np.mean(same) < 1  # phones stay with their units
    assert torch.equal(heard, disturbed(units, 100, np.random.default_rng(1))[0])
    mel = mel_of(RNG.standard_normal(16_000).astype(np.float32) * 0.05)
    assert mel.shape == (98, 40) and abs(float(mel.mean())) < 2
    changed, unknown = disturbed(Example(mel, ""), 40, np.random.default_rng(1))
    assert changed.shape == (98, 40) and not np.allclose(changed.numpy(), mel) and set(unknown.tolist()) == {-1}


def test_runs_take_the_phone_in_their_middle() -> None:
    units = np.array([5, 5, 5, 7, 5, 5], np.int16)
    ids, phones = merged(units, np.array([0, 1, 2, 3, 4, 5], np.int16))
    assert (ids.tolist(), phones.tolist()) == ([5, 7, 5], [1, 3, 5])
    assert merged(units)[1] is None


def test_batches_hold_every_example_once_an_epoch() -> None:
    batches = Batches([Example(np.zeros(n, np.int16), "a cat") for n in range(10, 90)], 300, 0)
    for epoch in (0, 1):
        drawn = batches.epoch(epoch)
        assert sorted(len(one.heard) for batch in drawn for one in batch) == list(range(10, 90))
        assert all(len(batch) * min(len(one.heard) for one in batch) <= 300 for batch in drawn)
    longest = [max(len(one.heard) for one in batch) for batch in batches.epoch(0)]
    assert longest[0] < longest[-1]


def test_training_learns_resumes_and_stops(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"cat": [5, 9, 13, 17], "dog": [30, 34, 38, 42], "bed": [60, 64, 68, 72]}

    def few(split: str, **_: object) -> list[tuple[str, list[Example]]]:
        rng = np.random.default_rng(len(split))
        found = []
        for _ in range(60 if split == "train" else 6):
            said = [str(word) for word in rng.choice(list(words), 2)]
            units = [unit for word in said for sound in words[word] for unit in (sound, sound + 1, sound + 2)]
            found.append(Example(np.array(units, np.int16), " ".join(said)))
        return [("toy", found)]

    monkeypatch.setattr(training, "examples", few)
    options = ["--width", "48", "--recurrent", "32", "--seconds", "8", "--rate", "4e-3", "--no-bf16"]
    train(parser().parse_args([str(tmp_path), "--epochs", "2", *options]))
    first = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    train(parser().parse_args([str(tmp_path), "--epochs", "45", *options]))
    history = json.loads((tmp_path / "history.json").read_text("utf-8"))
    assert history[0]["wer"]["toy"] > 0.5 and history[-1]["wer"]["toy"] < 0.2
    last = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert len(history) == 45 and last["update"] * 2 == first["update"] * 45 and last["sets"] == {"toy": 60}


def test_confidence_is_calibrated_between_commands_and_others() -> None:
    rng = np.random.default_rng(0)

    def matches(fit: float, count: int) -> list[Match]:
        path = Path("order", {}, "brew", 0.0)
        return [Match(path, -50.0, -100 * float(f), 100) for f in rng.normal(fit, 0.05, count)]

    calibration, thresholds = calibrate(matches(-0.2, 40), matches(-0.5, 200))
    assert calibration(-0.2) > 0 > calibration(-0.5) and "40 development commands" in calibration.calibration_set
    values = [thresholds[point].value for point in ("convenience", "balanced", "strict")]
    assert 0 < values[0] < values[1] < values[2] < 1
    assert thresholds["balanced"].operating_point.startswith(
        "5% of 200 other utterances pass for a command, 0.0% of 40"
    )


def test_commands_that_fit_no_better_than_others_cannot_be_calibrated() -> None:
    path = Path("order", {}, "brew", 0.0)
    worse, better = ([Match(path, -50.0, 100 * fit, 100) for fit in fits] for fits in ((0.6, 0.7), (0.1, 0.2)))
    with pytest.raises(SystemExit, match="train for longer"):
        calibrate(worse, better)


def test_synthetic_speech_resumes_and_keeps_voices_apart(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    if shutil.which("espeak-ng") is None:
        pytest.skip("needs espeak-ng")
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    monkeypatch.setattr("tools.train.recognizer.synthetic.SHARES", {"train": (0.6, 0.4)})
    monkeypatch.setattr("tools.train.recognizer.synthetic.read_index", list)
    generate("espeak", "train", 2, 0)
    before = spoken("train")
    generate("espeak", "train", 4, 0)
    after = spoken("train")
    assert after[:2] == before and len(after) == 4 and all(path.stat().st_size > 1000 for path, _ in after)
    assert all(row.grammar and row.intent and row.voice not in HELD_OUT for _, row in after) and not spoken("test")
    with pytest.raises(SystemExit, match="no voice for the split test"):
        generate("espeak", "test", 1, 0)
