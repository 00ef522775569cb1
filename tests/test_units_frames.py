"""What is known of every frame, and the parts of the resynthesis that are trained."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tools.train.networks.mel_encoder import BANDS, MelEncoder  # noqa: E402
from tools.train.networks.unit_voice import FixedVoice, UnitVoice  # noqa: E402
from tools.train.phone_teacher import Teacher, on_grid, posteriors  # noqa: E402
from tools.train.phones import PHONES  # noqa: E402
from tools.train.resynthesis import export, voicing  # noqa: E402
from tools.train.units_data import Speech, merge_phones  # noqa: E402
from tools.train.units_frames import load_frames, log_mel  # noqa: E402


@pytest.fixture
def speech():
    rng = np.random.default_rng(0)
    lengths = [1000, 90, 3205]
    samples = (rng.standard_normal(sum(lengths)) * 1000).astype(np.int16)
    return Speech(("a", "b", "c"), samples, np.cumsum([0, *lengths]))


def test_frames_know_their_utterance_and_place(speech, tmp_path):
    frames = load_frames(speech, tmp_path)
    assert frames.starts.tolist() == [0, 6, 6, 26] and frames.mel.shape == (26, BANDS)
    assert frames.places[:6].tolist() == [0, 1, 2, 3, 4, 5] and frames.places[6] == (1090 + 80) // 160
    whole = log_mel(MelEncoder(1), speech.utterance(2))
    np.testing.assert_allclose(frames.mel[6:], whole, atol=0.02)
    np.testing.assert_array_equal(load_frames(speech, tmp_path).mel, frames.mel)


def test_labels_and_teacher_are_taken_half_and_half(speech, tmp_path):
    frames = load_frames(speech, tmp_path)
    phones = [np.array([3, 3, 4], np.int16), None, None]
    alone = frames.wanted(phones, None)
    assert alone.sum() == 3 and alone[2, 4] == 1 and not alone[6:].any()
    teacher = np.zeros((28, len(PHONES)), np.float16)
    teacher[:, 7] = 1
    both = frames.wanted(phones, teacher)
    assert both[0, 3] == both[0, 7] == 0.5 and (both[3:, 7] == 1).all()


def test_later_label_files_win():
    one, two = np.zeros(2, np.int16), np.ones(2, np.int16)
    merged = merge_phones([[one, one, None], [None, two, None]])
    assert merged[0] is one and merged[1] is two and merged[2] is None


def test_the_teacher_speaks_of_every_frame_whatever_the_cut(speech):
    torch.manual_seed(0)
    features = np.random.default_rng(0).standard_normal((3100, 384)).astype(np.float16)
    teacher = Teacher(16).eval()
    found = posteriors(teacher, features)
    assert found.shape == (6200, len(PHONES))
    np.testing.assert_allclose(found.astype(np.float32).sum(axis=1), 1, atol=0.01)
    with torch.no_grad():
        whole = teacher(torch.from_numpy(features).float()[None])[0].softmax(-1).numpy()
    np.testing.assert_allclose(found, whole, atol=2e-3)
    labels = on_grid(speech, [np.full(6, 5, np.int16), None, None], 28)
    assert labels.tolist() == [5] * 6 + [-1] * 22


def test_voicing_of_a_hum_of_noise_and_of_silence():
    time = np.arange(16_000) / 16_000
    hum = sum(np.sin(2 * np.pi * 130 * k * time) / k for k in range(1, 9)).astype(np.float32) * 0.05
    noise = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) * 0.05
    assert voicing(hum)[5:-5].min() > 0.9
    assert voicing(noise).mean() < 0.3
    assert voicing(hum * 1e-4).max() == 0


def test_a_fixed_voice_is_exported_as_it_is(tmp_path):
    torch.manual_seed(0)
    network = UnitVoice(50, 3, width=16).eval()
    voice = network.voice.weight[2].detach().clone()
    assert export(FixedVoice(network, voice, 1.3), tmp_path / "voice.onnx") < 1e-3


def test_a_flat_spectrum_gives_a_gain_of_one():
    network = UnitVoice(50, 1, width=16).eval()
    fixed = FixedVoice(network, network.voice.weight[0].detach().clone(), 1.0)
    noise = torch.randn(1, 160_465, generator=torch.Generator().manual_seed(0))
    level = MelEncoder(1).log_mel(noise)[0].exp().mean(0).log()
    gain = torch.exp(0.5 * ((level - fixed.density) @ fixed.spread))
    torch.testing.assert_close(gain[3:245], torch.ones(242), atol=0.1, rtol=0)
