"""Neural vocoders: they give the waveform its length back, learn real speech, and resume where they stopped."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from tools.train.data.attacks import vocoder
from tools.train.networks import vocoders
from tools.train.networks.discriminators import Discriminators, fooling_loss, judging_loss
from voiceid.audio import prepare, read_waveform
from voiceid.types import Samples

SMALL = {
    "upsampling": vocoders.VocoderShape("upsampling", 256, 1024, 80, 8_000.0, 32, (8, 8, 4)),
    "spectral": vocoders.VocoderShape("spectral", 160, 640, 100, 8_000.0, 32, (1, 1)),
    "parallel": vocoders.VocoderShape("parallel", 200, 800, 80, 7_600.0, 8, (5, 5, 8), 80.0),
}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    monkeypatch.setattr(vocoder, "SHAPES", SMALL)
    vocoder.load_vocoder.cache_clear()


@pytest.fixture(scope="module")
def utterance(speech: Path) -> Samples:
    return prepare(read_waveform(speech)).samples[:32_000]


@pytest.mark.parametrize("name", sorted(vocoders.SHAPES))
def test_every_shape_gives_a_waveform_as_long_as_its_frames(name: str) -> None:
    shape = dataclasses.replace(vocoders.SHAPES[name], width=16)
    mel = vocoders.MelSpectrogram(shape)(torch.randn(2, vocoder.SEGMENT) * 0.05)
    assert mel.shape == (2, shape.bands, 1 + vocoder.SEGMENT // shape.hop)
    waveform = vocoders.generator(shape)(mel)
    assert vocoder.SEGMENT <= waveform.shape[1] <= vocoder.SEGMENT + shape.hop


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(SMALL))
def test_training_resumes_and_copies_speech(name: str, utterance: Samples) -> None:
    first = vocoder.Trainer(name, 10, 2)
    before = first._learn(np.stack([utterance[: vocoder.SEGMENT]] * 2))["spectral"]
    first.run(utterance)
    second = vocoder.Trainer(name, 12, 2)
    assert second.step == 10
    after = second._learn(np.stack([utterance[: vocoder.SEGMENT]] * 2))
    assert after["spectral"] < before
    assert {"judge", "fooling"} <= set(after)
    copy = vocoder.copier(name)(utterance, np.random.default_rng(0))
    assert copy.shape == utterance.shape
    assert copy.dtype == np.float32
    assert np.isfinite(copy).all()


@pytest.mark.usefixtures("small")
def test_an_untrained_vocoder_says_what_to_run(utterance: Samples) -> None:
    with pytest.raises(SystemExit, match=r"run python -m tools\.train\.data\.attacks\.vocoder spectral"):
        vocoder.copier("spectral")(utterance, np.random.default_rng(0))


def test_discriminators_learn_to_tell_noise_from_speech(utterance: Samples) -> None:
    torch.manual_seed(0)
    judges = Discriminators()
    speech = torch.from_numpy(utterance[8_000:16_000])[None]
    noise = torch.randn_like(speech) * speech.std()
    optimiser = torch.optim.Adam(judges.parameters(), 1e-3)
    losses = []
    for _ in range(6):
        loss = judging_loss(judges(noise), judges(speech))
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < losses[0]
    assert fooling_loss(judges(speech), judges(speech)) < fooling_loss(judges(noise), judges(speech))
