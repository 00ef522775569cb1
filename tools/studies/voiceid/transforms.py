"""Voice transformations by name: what a user might send instead of their own voice."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tools.evaluation.audio import UnfitError
from tools.studies.errors import StudyError
from tools.studies.profiles import PROFILES
from tools.studies.voiceid import mcadams
from tools.studies.voiceid.systems import COPIES, TEXT_TO_SPEECH, speak
from tools.studies.voiceid.unit_voice import UnitVoice
from tools.train.data.attacks import world
from voiceid.audio import prepare
from voiceid.types import Samples, Source, Waveform
from voiceid.units.privacy import PrivacyProfile
from voiceid.units.tokenizer import Tokenizer

SEMITONES, STRETCH = 4.0, 1.15
"""How far pitch and formants are moved, up or down."""
MCADAMS = (0.5, 0.9)
"""Range of the coefficient, drawn for each recording."""

Transform = Callable[[Samples, str, np.random.Generator], Samples]
"""From a recording and its words to other speech."""


def anonymise(samples: Samples, _text: str, random: np.random.Generator) -> Samples:
    """McAdams coefficient."""
    return mcadams.anonymise(samples, float(random.uniform(*MCADAMS)))


def move_pitch(samples: Samples, _text: str, random: np.random.Generator) -> Samples:
    """Pitch up or down by WORLD."""
    return world.shifted(samples, float(random.choice([-SEMITONES, SEMITONES])), 1.0)


def move_formants(samples: Samples, _text: str, random: np.random.Generator) -> Samples:
    """Formants up or down by WORLD."""
    return world.shifted(samples, 0.0, float(random.choice([1 / STRETCH, STRETCH])))


def move_both(samples: Samples, _text: str, random: np.random.Generator) -> Samples:
    """Pitch and formants, both up or both down, by WORLD."""
    sign = random.choice([-1, 1])
    return world.shifted(samples, float(sign * SEMITONES), float(STRETCH**sign))


def say_again(_samples: Samples, text: str, random: np.random.Generator) -> Samples:
    """The same words by a synthetic voice."""
    if not text:
        raise UnfitError("no transcript")
    return speak(text, random)


SIGNAL: dict[str, Transform] = {
    "mcadams": anonymise,
    "world-pitch": move_pitch,
    "world-formants": move_formants,
    "world-pitch-formants": move_both,
    TEXT_TO_SPEECH: say_again,
}


def check_names(names: Iterable[str]) -> None:
    """Raise :class:`StudyError` for a transformation that does not exist."""
    known = [*SIGNAL, *PROFILES, *COPIES]
    if unknown := [name for name in names if name not in known]:
        raise StudyError(f"transforms: no transformation {unknown[0]!r}; use one of {', '.join(known)}")


def load_transform(name: str, load_units: Callable[[int], tuple[Tokenizer, UnitVoice]]) -> Transform:
    """The transformation ``name``; ``load_units`` gives the tokenizer and the voice of a codebook."""
    if name in SIGNAL:
        return SIGNAL[name]
    if name in COPIES:
        return lambda samples, _text, random: COPIES[name](samples, random)
    profile = PROFILES[name]
    tokenizer, voice = load_units(profile.codebook)
    return lambda samples, _text, random: _through_units(samples, profile, tokenizer, voice, random)


def _through_units(
    samples: Samples, profile: PrivacyProfile, tokenizer: Tokenizer, voice: UnitVoice, random: np.random.Generator
) -> Samples:
    speech = prepare(Waveform(samples, Source.FILE)).samples
    units = tokenizer.encode(speech, profile.codebook)
    if not len(units):
        raise UnfitError("no speech")
    return voice.speak(profile.apply(units.tolist()), random)
