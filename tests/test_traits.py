"""How high a voice is, and attackers on what units tell of who speaks."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from tools.evaluation import traits
from tools.train.periodicity import pitch
from tools.train.units_attacker import direction


def voice(hertz, seconds=1.0):
    """A glottal train of pulses through one resonance."""
    time = np.arange(round(seconds * 16_000)) / 16_000
    pulses = np.diff(np.floor(time * hertz), prepend=0)
    ring = np.exp(-time[:400] * 400) * np.sin(2 * np.pi * 700 * time[:400])
    return (0.2 * np.convolve(pulses, ring)[: len(time)]).astype(np.float32)


@pytest.mark.parametrize("hertz", [90, 130, 220, 310])
def test_pitch_is_the_rate_of_the_pulses(hertz):
    assert pitch(voice(hertz)) == pytest.approx(hertz, rel=0.04)


def test_noise_and_silence_have_no_pitch():
    noise = 0.05 * np.random.default_rng(0).standard_normal(16_000).astype(np.float32)
    assert np.isnan(pitch(noise)) and np.isnan(pitch(np.zeros(16_000, np.float32)))


def item(speaker, note=""):
    return SimpleNamespace(speaker=speaker, note=note, language="")


def test_voices_between_high_and_low_have_no_label():
    speech = [(item(name), voice(hertz)) for name, hertz in (("a", 100), ("a", 110), ("b", 160), ("c", 230))]
    assert traits.heights(speech) == {"a": False, "c": True}


def test_languages_are_those_that_are_known():
    speech = [
        (item("ls26"), None),
        (item("mlspt1", "Portuguese"), None),
        (item("x"), None),
        (item("y", "French"), None),
    ]
    assert traits.foreign(speech) == {"ls26": False, "mlspt1": True}


def test_the_direction_points_to_the_class_named_true():
    rng = np.random.default_rng(0)
    labels = rng.random(200) < 0.2
    vectors = rng.normal(0, 1, (200, 6)) + 4 * labels[:, None]
    judge = direction(vectors, labels.tolist())
    scores = judge(np.array([[4.0] * 6, [0.0] * 6]))
    assert scores[0] > scores[1]


def population(rng, names, apart):
    labels = {name: i % 2 == 0 for i, name in enumerate(names)}
    speakers = [name for name in names for _ in range(10)]
    vectors = rng.normal(0, 1, (len(speakers), 8))
    vectors[:, 0] += apart * np.array([labels[name] for name in speakers])
    return vectors, (labels, speakers)


def test_an_attacker_tells_what_can_be_told_and_counts_its_trials():
    rng = np.random.default_rng(0)
    training, known = population(rng, [f"t{i}" for i in range(20)], 6)
    test, tried = population(rng, [f"u{i}" for i in range(6)], 6)
    tried[0].pop("u5")
    found = traits.attack(training, test, known, tried)
    assert found["eer"] < 0.05
    assert (found["n_target"], found["n_nontarget"], found["speakers"]) == (30, 20, [3, 2])
    assert found["training_speakers"] == [10, 10]
    blind, tried = population(rng, [f"u{i}" for i in range(6)], 0)
    assert traits.attack(training, blind, known, tried)["eer"] > 0.3


def test_too_few_speakers_of_a_class_are_told(monkeypatch):
    tokenizer = SimpleNamespace(encode=lambda samples, codebook: np.arange(len(samples) // 160) % 7)
    speech = [(item(f"ls{i}"), voice(100 + 100 * (i % 2))) for i in range(4)]
    found = traits.attack_traits(tokenizer, speech, speech)
    assert set(found[traits.HEIGHT]) == {"units", "mel"}
    assert found[traits.LANGUAGE]["note"] == "speakers of each class: [0, 4] in training, [0, 4] in the test"
