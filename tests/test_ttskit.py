"""Tacotron 2 of several speakers: its symbols, its network, and weights read from a pickle of which nothing is run."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tools.train.data.attacks import ttskit
from tools.train.data.attacks.babble import babble
from tools.train.data.attacks.engine import SilentError
from tools.train.data.attacks.mandarin import PINYIN
from tools.train.data.attacks.pickled import tensors_of
from tools.train.networks.tacotron import LocationAttention, Tacotron


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("touched"),)  # type: ignore[return-value]


def test_symbols_are_tsinghuas_with_the_network_s_numbers() -> None:
    said = ttskit.symbols_of("^iou4zhiii1, riii4shuei3.")
    assert " ".join(said) == "ii iu 4 - zh ix 1 - , - r iz 4 - sh ui 3 - . - ~ _"
    assert [ttskit.SYMBOLS[symbol] for symbol in ("_", "zh", "uong", "5", "!", ",")] == [0, 29, 70, 75, 128, 131]


def test_whatever_is_babbled_has_symbols() -> None:
    for seed in range(30):
        assert set(ttskit.symbols_of(babble(PINYIN, np.random.default_rng(seed)))) <= set(ttskit.SYMBOLS)


def test_a_speaker_is_the_digits_of_a_hash() -> None:
    vector = ttskit.speaker_vector("biaobei")
    assert vector.shape == (1, 32)
    assert len({tuple(ttskit.speaker_vector(name)[0].tolist()) for name in ttskit.SPEAKERS}) == 24
    assert -0.7 <= float(vector.min()) <= float(vector.max()) < 0.81


def test_tensors_of_a_pickled_module_are_those_of_its_state(tmp_path: Path) -> None:
    module = Small()
    torch.save(module, tmp_path / "small.pt")
    found, state = tensors_of(tmp_path / "small.pt"), module.state_dict()
    assert list(found) == list(state)
    assert all(torch.equal(found[name], state[name]) for name in state)


def test_nothing_in_a_pickle_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"trap.pt holds a dict, not a module"):
        tensors_of(tmp_path / "trap.pt")
    assert not (tmp_path / "touched").exists()


def test_attention_is_a_distribution_that_follows_the_key_that_answers() -> None:
    attention = LocationAttention().eval()
    keys = torch.zeros(1, 5, 64)
    keys[0, 3] = 4 * attention.energy.weight[0].sign()
    with torch.inference_mode():
        weights = attention(torch.zeros(1, 512), keys, torch.zeros(1, 2, 5))
    assert float(weights.sum()) == pytest.approx(1)
    assert int(weights.argmax()) == 3


def test_the_network_stops_at_its_gate_or_at_most_frames() -> None:
    network = Tacotron(ttskit.COUNT).eval()
    ids, speaker = torch.tensor([[4, 40, 71, 2, 1]]), ttskit.speaker_vector("Aida")
    with torch.inference_mode():
        assert network(ids, speaker, gate=0.0).shape == (1, 80, 1)
        assert network(ids, speaker, gate=1.0, most_frames=7).shape == (1, 80, 7)


def test_a_sentence_without_end_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttskit, "_tacotron", lambda: lambda *inputs, gate, most_frames: torch.zeros(1, 80, most_frames))
    with pytest.raises(SilentError, match="Aida does not come to an end"):
        ttskit._say("Aida", "melgan", "ma1", 1.0)


def test_a_sentence_is_said_at_its_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttskit, "_tacotron", lambda: lambda *inputs, gate, most_frames: torch.zeros(1, 80, 40))
    monkeypatch.setitem(ttskit.VOCODERS, "melgan", lambda: lambda mel: torch.zeros(1, 256 * mel.shape[2]))
    samples, rate = ttskit._say("Aida", "melgan", "ma1", 0.8)
    assert (samples.shape, rate) == ((256 * 50,), 22_050)
