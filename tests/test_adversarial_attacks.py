"""Adversarial samples: the front end and the models in torch, the attacks, and the transforms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tests.adversarial_helpers import NARROW, write_identity
from tools.studies.adversarial.bim import Deception, bim, pgd, snr_db, steps_for
from tools.studies.adversarial.frontend import Cut, KaldiBank, LogMel
from tools.studies.adversarial.models import SpeakerModel, load_model
from tools.studies.adversarial.speech import Pcm, read_utterance, to_pcm
from tools.studies.adversarial.transforms import fingerprint, load_transform
from tools.studies.errors import StudyError
from tools.train.teachers.campplus import kaldi_fbank
from voiceid.audio import prepare
from voiceid.errors import AudioError, ModelError
from voiceid.features.mel import log_mel
from voiceid.models.store import find_model
from voiceid.scoring.identity import IdentityModel
from voiceid.types import SAMPLE_RATE, Samples, Source, Waveform


def voice(seconds: float = 1.5, pitch: float = 140.0, seed: int = 0) -> Samples:
    """Harmonics in syllables: what the speech detector takes for speech."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    tone = sum(np.sin(2 * np.pi * pitch * k * time + rng.uniform(0, 6)) / k for k in range(1, 25))
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 3 * time)
    return (0.05 * tone * syllables + 0.001 * rng.standard_normal(len(time))).astype(np.float32)


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_identity(tmp_path_factory.mktemp("card"))


@pytest.fixture(scope="module")
def model(card: Path) -> SpeakerModel:
    return load_model(str(card))


@pytest.fixture(scope="module")
def pcm() -> Pcm:
    return to_pcm(voice())


@pytest.fixture(scope="module")
def reference(model: SpeakerModel) -> torch.Tensor:
    """Another voice's embedding."""
    return model(torch.from_numpy(voice(pitch=210.0, seed=1))[None])[0]


def deception(model: SpeakerModel, reference: torch.Tensor, pcm: Pcm, *, target: bool) -> Deception:
    return Deception(model, reference, Cut.of((pcm / 32_768).astype(np.float32)), target)


def score(objective: Deception, pcm: Pcm) -> float:
    with torch.no_grad():
        return float(objective(torch.from_numpy((pcm / 32_768).astype(np.float32))))


def test_the_cut_is_the_agents_own() -> None:
    samples = np.concatenate([np.zeros(8_000, np.float32), voice(), np.zeros(6_000, np.float32), voice(1.0)]) + 0.01
    samples[:4_000] += 1e-4
    waveform = Waveform(samples.astype(np.float32), Source.FILE)
    utterance = prepare(waveform)
    cut = Cut.of(waveform.samples)
    levelled = cut.level(torch.from_numpy(waveform.samples))
    np.testing.assert_allclose(levelled.numpy(), utterance.samples, atol=1e-6)
    np.testing.assert_allclose(cut.net_speech(levelled).numpy(), utterance.net_speech(), atol=1e-6)


def test_a_recording_without_speech_is_taken_whole() -> None:
    assert Cut.of(np.zeros(5_000, np.float32)) == Cut(0, 5_000, ((0, 5_000),))


def test_filter_banks_are_those_of_the_agent_and_of_kaldi() -> None:
    samples = prepare(Waveform(voice(), Source.FILE)).samples
    ours = LogMel()(torch.from_numpy(samples)[None])[0].numpy()
    np.testing.assert_allclose(ours, log_mel(samples), atol=1e-3)
    pytest.importorskip("kaldi_native_fbank")
    kaldi = KaldiBank()(torch.from_numpy(samples)[None])[0].numpy()
    np.testing.assert_allclose(kaldi, kaldi_fbank(samples), atol=5e-3)


def test_a_card_becomes_a_differentiable_model(card: Path, model: SpeakerModel) -> None:
    samples = voice()
    ours = model(torch.from_numpy(samples)[None])[0].numpy()
    np.testing.assert_allclose(ours, IdentityModel(find_model(str(card), "identity")).embed(samples), atol=1e-4)


def test_the_shipped_model_is_deceived(corpus: Path) -> None:
    victim, impostor = (sorted((corpus / "ls-test-clean" / name).glob("*.flac"))[0] for name in ("ls121", "ls260"))
    judge = IdentityModel(find_model("identity-pi", "identity"))
    reference = judge.embed(read_utterance(victim)[1].net_speech())
    waveform, utterance = read_utterance(impostor)
    genuine = to_pcm(waveform.samples)
    model = load_model("identity-pi")
    objective = Deception(model, torch.from_numpy(reference), Cut.of(waveform.samples), target=False)
    attacked = Waveform((bim(objective, genuine, (8.0,), 1.0)[8.0] / 32_768).astype(np.float32), Source.FILE)
    before, after = (float(reference @ judge.embed(one.net_speech())) for one in (utterance, prepare(attacked)))
    assert after > before + 0.1


def test_models_that_cannot_be_attacked_say_why(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="deep-speaker-fbank"):
        load_model(str(write_identity(tmp_path / "other", frontend="deep-speaker-fbank")))
    with pytest.raises(StudyError, match="has a cosine of"):
        # The card's network does not subtract the mean over time, as the rebuilt one does.
        load_model(str(write_identity(tmp_path / "raw", shape=replace(NARROW, normalise_input=False))))
    with pytest.raises(ModelError, match="no such model card"):
        load_model(str(tmp_path / "absent.json"))


@pytest.mark.parametrize("target", [True, False])
def test_bim_moves_the_score_within_each_budget(
    model: SpeakerModel, reference: torch.Tensor, pcm: Pcm, target: bool
) -> None:
    objective = deception(model, reference, pcm, target=target)
    found = bim(objective, pcm, (2.0, 5.0, 4.5), alpha=1.0)
    scores = [score(objective, pcm), *(score(objective, found[epsilon]) for epsilon in (2.0, 4.5, 5.0))]
    assert scores[0] < scores[1] < scores[3]
    for epsilon, attacked in found.items():
        assert attacked.dtype == np.int16
        assert 0 < np.abs(attacked.astype(int) - pcm).max() <= epsilon
    np.testing.assert_array_equal(found[2.0], bim(objective, pcm, (2.0,), alpha=1.0)[2.0])


def test_bim_stays_in_range_at_full_scale(model: SpeakerModel, reference: torch.Tensor) -> None:
    loud = np.where(voice() > 0, 32_767, -32_768).astype(np.int16)
    attacked = bim(deception(model, reference, loud, target=False), loud, (3.0,), alpha=1.0)[3.0]
    assert np.abs(attacked.astype(int) - loud).max() <= 3


def test_pgd_starts_at_random_and_keeps_its_budget(model: SpeakerModel, reference: torch.Tensor, pcm: Pcm) -> None:
    objective = deception(model, reference, pcm, target=False)
    first, again, other = (pgd(objective, pcm, 4.0, 1.0, 4, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert np.abs(first.astype(int) - pcm).max() <= 4
    assert score(objective, first) > score(objective, pcm)


def test_steps_are_those_of_the_study() -> None:
    assert [steps_for(epsilon, 1.0) for epsilon in (5.0, 20.0)] == [5, 20]
    assert [steps_for(5.0, 3.0), steps_for(0.3, 0.1)] == [2, 3]


def test_the_adaptive_attack_moves_both_scores(model: SpeakerModel, reference: torch.Tensor, pcm: Pcm) -> None:
    plain = deception(model, reference, pcm, target=False)
    adaptive = replace(plain, transform=load_transform("lowpass-2000"))
    blind, knowing = (bim(objective, pcm, (8.0,), 1.0)[8.0] for objective in (plain, adaptive))
    assert score(adaptive, knowing) > score(adaptive, blind)


def test_snr_is_that_of_the_perturbation() -> None:
    original = np.full(1_000, 1_000, np.int16)
    assert snr_db(original, original + 10) == pytest.approx(40)
    assert snr_db(original, original) == np.inf


def test_pcm_is_rounded_and_clamped() -> None:
    samples = np.array([1.5, -1.5, 0.4 / 32_768, 0.6 / 32_768], np.float32)
    np.testing.assert_array_equal(to_pcm(samples), [32_767, -32_768, 0, 1])


@pytest.mark.parametrize("name", ["gl-lin", "gl-mel", "lowpass-3000", "quantise-8"])
def test_copies_are_like_what_they_copy_and_pass_gradients(name: str) -> None:
    utterance = torch.from_numpy(voice(0.5)).requires_grad_()
    copy = load_transform(name)(utterance)
    assert copy.shape == utterance.shape
    copy.square().sum().backward()
    assert utterance.grad is not None and utterance.grad.abs().sum() > 0
    with torch.no_grad():
        again, spectra = load_transform(name)(utterance), []
        for samples in (utterance, copy):
            spectra.append(torch.stft(samples, 512, window=torch.hann_window(512), return_complex=True).abs()[:60])
    torch.testing.assert_close(again, copy.detach())
    assert torch.corrcoef(torch.stack([s.flatten() for s in spectra]))[0, 1] > 0.8
    assert not torch.equal(copy, utterance)


def test_a_low_pass_takes_what_lies_above() -> None:
    time = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
    low, high = (torch.sin(2 * torch.pi * hertz * time) for hertz in (500, 5_000))
    through = load_transform("lowpass-3000")(low + high)
    torch.testing.assert_close(through[500:-500], low[500:-500], atol=0.01, rtol=0)


@pytest.mark.parametrize("name", ["gl-mels", "lowpass-", "lowpass-9000", "quantise-1", "vocoder-none"])
def test_unknown_transforms_are_refused(name: str) -> None:
    with pytest.raises(StudyError, match=name):
        load_transform(name)


def test_a_vocoder_must_be_trained_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_CACHE", str(tmp_path))
    with pytest.raises(StudyError, match=r"tools\.train\.data\.attacks\.vocoder spectral-256 first"):
        fingerprint("vocoder-spectral-256")


def test_recordings_without_speech_are_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "silence.wav", np.zeros(SAMPLE_RATE), SAMPLE_RATE)
    with pytest.raises(AudioError, match=r"0\.00 s of speech"):
        read_utterance(tmp_path / "silence.wav")
