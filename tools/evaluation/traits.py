"""What units tell of who speaks beside the identity: attackers that learn whether a voice is high or low, and the
language spoken, from units, and the same attackers on mel features.

No index here tells a speaker's sex. A *high* or *low* voice, by the median fundamental frequency that was measured on
the speech itself, stands in for it; voices between are left out. Languages differ in their recordings too, so that an
attacker on the language may tell the recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.groups import language
from tools.train.data.corpus import Item
from tools.train.metrics import bootstrap_ci, eer
from tools.train.periodicity import pitch
from tools.train.units_attacker import direction, mel_statistics, unit_statistics
from voiceid.types import Samples
from voiceid.units.privacy import PrivacyProfile
from voiceid.units.tokenizer import Tokenizer

LOW_BELOW, HIGH_FROM = 145.0, 175.0
"""Hz."""
HEIGHT, LANGUAGE = "high voice", "language"
MIN_SPEAKERS = 2
"""Of each class, in training and in the test."""
Spoken = Sequence[tuple[Item, Samples]]
Vectors = NDArray[np.float64]


def heights(speech: Spoken) -> dict[str, bool]:
    """Whether a speaker's voice is high, by the median of the utterances; speakers between are left out."""
    found: dict[str, list[float]] = {}
    for item, samples in speech:
        found.setdefault(item.speaker, []).append(pitch(samples))
    medians = {speaker: float(np.nanmedian(hertz)) for speaker, hertz in found.items() if not np.isnan(hertz).all()}
    return {name: hertz >= HIGH_FROM for name, hertz in medians.items() if hertz >= HIGH_FROM or hertz < LOW_BELOW}


def foreign(speech: Spoken) -> dict[str, bool]:
    """Whether a speaker speaks Portuguese and not English, where it is known which."""
    spoken = {item.speaker: language(item) for item, _ in speech}
    return {name: tongue == "Portuguese" for name, tongue in spoken.items() if tongue in ("English", "Portuguese")}


def attack_traits(tokenizer: Tokenizer, training: Spoken, test: Spoken) -> dict[str, Any]:
    """By trait: the attacker's figures on units of the default profile and on mel (``units``, ``mel``), or a note."""
    profile = PrivacyProfile()

    def units(samples: Samples) -> Vectors:
        heard = profile.apply(tokenizer.encode(samples, profile.codebook).tolist()).units
        return unit_statistics(heard, profile.codebook)

    kinds: Mapping[str, Callable[[Samples], Vectors]] = {"units": units, "mel": mel_statistics}
    vectors = {
        kind: tuple(np.stack([of(samples) for _, samples in part]) for part in (training, test))
        for kind, of in kinds.items()
    }
    result: dict[str, Any] = {}
    for trait, label in ((HEIGHT, heights), (LANGUAGE, foreign)):
        known = [(label(part), [item.speaker for item, _ in part]) for part in (training, test)]
        counts = [[list(labels.values()).count(value) for value in (True, False)] for labels, _ in known]
        if min(min(pair) for pair in counts) < MIN_SPEAKERS:
            result[trait] = {"note": f"speakers of each class: {counts[0]} in training, {counts[1]} in the test"}
        else:
            result[trait] = {kind: attack(*vectors[kind], *known) for kind in kinds}
    return result


def attack(
    training: Vectors,
    test: Vectors,
    known: tuple[dict[str, bool], list[str]],
    tried: tuple[dict[str, bool], list[str]],
) -> dict[str, Any]:
    """Equal error rate of telling the speakers for whom ``tried`` says True, one trial an utterance, with its interval
    (bootstrap over speakers). ``known`` and ``tried`` are the labels of speakers, and who speaks each row."""
    labels, speakers = known
    rows = [i for i, name in enumerate(speakers) if name in labels]
    judge = direction(training[rows], [labels[speakers[i]] for i in rows])
    labels, speakers = tried
    rows = [i for i, name in enumerate(speakers) if name in labels]
    scores = judge(test[rows])
    yes = np.array([labels[speakers[i]] for i in rows])
    names = np.array([speakers[i] for i in rows])
    interval = bootstrap_ci(eer, (scores[yes], scores[~yes]), (names[yes], names[~yes]))
    return {
        "eer": eer(scores[yes], scores[~yes]),
        "ci95": list(interval),
        "n_target": int(yes.sum()),
        "n_nontarget": int((~yes).sum()),
        "speakers": [len(set(names[yes])), len(set(names[~yes]))],
        "training_speakers": [list(known[0].values()).count(value) for value in (True, False)],
    }
