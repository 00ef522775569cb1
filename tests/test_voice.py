"""What the identity network hears in parts of an utterance, in one pass and slice by slice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.adversarial_helpers import write_identity
from tests.small_models import write_models
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.models.store import find_model
from voiceid.scoring.identity import IdentityModel
from voiceid.scoring.voice import Voice, hear
from voiceid.types import SAMPLE_RATE, Quality, Segment, Source, Utterance, Waveform

QUALITY = Quality(0, 0, 0, 0, 0, 0, ())
NOISE = (0.05 * np.random.default_rng(4).standard_normal(5 * SAMPLE_RATE)).astype(np.float32)
SPEECH = (Segment(0.5, 1.5), Segment(3.0, 4.7))
"""2.7 s of net speech."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> IdentityModel:
    return IdentityModel(find_model(str(write_identity(tmp_path_factory.mktemp("narrow"))), "identity"))


@pytest.fixture(scope="module")
def slicing(tmp_path_factory: pytest.TempPathFactory) -> IdentityModel:
    """A network that takes nothing but features."""
    folder = write_models(tmp_path_factory.mktemp("small"))
    return IdentityModel(find_model(str(folder / "identity-pi.json"), "identity"))


def utterance(*speech: Segment) -> Utterance:
    return Utterance(NOISE, speech, QUALITY, Source.FILE)


def heard(model: IdentityModel, *speech: Segment) -> Voice:
    return hear(model, utterance(*speech), least_seconds=0.96, hop_seconds=0.16)


def test_boundaries_and_windows_lie_where_they_should(model: IdentityModel) -> None:
    voice = heard(model, *SPEECH)
    speech = utterance(*SPEECH).net_speech()
    boundaries = [15_360, 17_920, 20_480, 23_040, 25_600]
    assert boundaries[-1] + 2_560 > len(speech) - 15_360
    expected = model.embed_stretches(speech, np.array([[0, b] for b in boundaries] + [[b, 43_200] for b in boundaries]))
    np.testing.assert_allclose(voice.before, expected[:5], atol=1e-6)
    np.testing.assert_allclose(voice.after, expected[5:], atol=1e-6)
    np.testing.assert_allclose(voice.whole, model.embed(speech), atol=1e-6)
    windows = np.array([[0, 24_000], [8_000, 32_000], [16_000, 43_200]])
    np.testing.assert_allclose(voice.windows, model.embed_stretches(speech, windows), atol=1e-6)
    assert voice.window_seconds == (1.5, 1.5, 1.7)


def test_windows_carry_the_utterances_own_times(model: IdentityModel) -> None:
    segments = heard(model, *SPEECH).segments
    assert [(round(s.start, 3), round(s.end, 3)) for s in segments] == [(0.5, 3.5), (1.0, 4.0), (1.5, 4.7)]


def test_too_short_for_a_boundary(model: IdentityModel) -> None:
    voice = heard(model, Segment(0.0, 1.9))
    assert voice.before.shape == voice.after.shape == (0, 16)
    assert voice.windows.shape == (1, 16) and voice.window_seconds == (voice.seconds,) == (1.9,)
    assert len(heard(model, Segment(0.0, 1.92)).before) == 1
    with pytest.raises(AudioError, match=r"0\.40 s of speech"):
        heard(model, Segment(0.0, 0.4))


def test_a_network_without_stretches_hears_slices(slicing: IdentityModel) -> None:
    voice = heard(slicing, *SPEECH)
    speech = utterance(*SPEECH).net_speech()
    assert not slicing.one_pass
    np.testing.assert_array_equal(voice.before[0], slicing.embed(speech[:15_360]))
    np.testing.assert_array_equal(voice.after[-1], slicing.embed(speech[25_600:]))
    np.testing.assert_array_equal(voice.windows[1], slicing.embed(speech[8_000:32_000]))


def test_the_shipped_model_hears_a_change_of_voice(corpus: Path) -> None:
    """Two test speakers, one after the other: the sides are less alike than in the same length of one."""
    shipped = IdentityModel(find_model("identity-pi", "identity"))
    assert shipped.one_pass
    own, other = (
        prepare(read_waveform(sorted((corpus / "ls-test-clean" / name).iterdir())[0])).net_speech()[: 4 * SAMPLE_RATE]
        for name in ("ls121", "ls672")
    )

    def alike(*parts: np.ndarray) -> np.ndarray:
        speech = prepare(Waveform(np.concatenate(parts), Source.FILE))
        voice = hear(shipped, speech, least_seconds=0.96, hop_seconds=0.16)
        return np.sum(voice.before * voice.after, axis=1)

    half = 2 * SAMPLE_RATE
    assert alike(own[:half], other[:half]).min() < alike(own).min() - 0.2
