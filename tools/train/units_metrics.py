"""Measure a units model: phones in its units beside MFCC + k-means, bit rate, and a speaker attacker beside mel.

Phone-normalised mutual information is I(phone; unit) / H(phone) over 10 ms frames of forced alignments, silence
included (Hsu et al. 2021); phone purity is the share of frames whose phone is their unit's most frequent one.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from tqdm import tqdm

from tools.train.data.corpus import Item, read_index
from tools.train.phones import PHONES, Aligner
from tools.train.units_attacker import attack, mel_statistics, unit_statistics
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError
from voiceid.features.mfcc import mfcc
from voiceid.models.card import read_card
from voiceid.models.store import verify_model
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.codebook import CODEBOOKS
from voiceid.units.packing import bits_per_second
from voiceid.units.privacy import PrivacyProfile
from voiceid.units.tokenizer import Tokenizer

BACKGROUND_SETS = ("ls-train100-1utt", "ls-train100-3spk", "ls-test-clean", "libritts-yourtts-gt")
BACKGROUND_SECONDS = 30.0
"""Of each training speaker, cut into pieces of ``PIECE`` seconds."""
PIECE = 3.0
Labels = NDArray[np.int16]


def mutual_information(phones: Labels, units: Labels) -> dict[str, float]:
    """Phone-normalised mutual information, phone purity and unit purity of paired frames."""
    joint = np.zeros((len(PHONES), int(units.max()) + 1))
    np.add.at(joint, (phones, units), 1)
    joint /= joint.sum()
    phone, unit = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    filled = joint > 0
    information = float((joint[filled] * np.log(joint[filled] / (phone @ unit)[filled])).sum())
    entropy = float(-(phone[phone > 0] * np.log(phone[phone > 0])).sum())
    return {
        "pnmi": information / entropy,
        "phone_purity": float(joint.max(axis=0).sum()),
        "unit_purity": float(joint.max(axis=1).sum()),
    }


def mfcc_features(samples: Samples) -> NDArray[np.float32]:
    """13 MFCCs with first and second differences, (T, 39): what the baseline clusters."""
    base = mfcc(samples, 13)
    slope = np.gradient(base, axis=0) if len(base) > 1 else np.zeros_like(base)
    curve = np.gradient(slope, axis=0) if len(base) > 1 else np.zeros_like(base)
    return np.concatenate((base, slope, curve), axis=1).astype(np.float32)


def evaluate_units(
    items: Sequence[Item],
    card_path: Path,
    *,
    background: Sequence[Item] | None = None,
    phone_utterances: int = 200,
    seed: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Measure the card at ``card_path`` on ``items``.

    ``background`` (default: LibriSpeech readers of the training split) trains the baseline's k-means and the attacker;
    phones are measured on up to ``phone_utterances`` transcribed items. Keys: ``eer``, ``ci95``, ``n_target``,
    ``n_nontarget`` of the attacker on the default profile (absent, with ``note``, where ``items`` name too few
    speakers); ``attacker`` and ``by`` (codebook) with all figures; ``mel`` the same attacker on mel.
    """
    tokenizer = Tokenizer(verify_model(read_card(card_path), card_path.parent))
    rng = np.random.default_rng(seed)
    training = background_pieces(list(background) if background is not None else None, rng, progress)
    speech = prepared_items(items, progress)
    encoded = [tokenizer.encode_all(samples) for _, samples in tqdm(speech, desc="units", disable=not progress)]
    units = {k: [one[k] for one in encoded] for k in CODEBOOKS}
    seconds = sum(len(samples) for _, samples in speech) / SAMPLE_RATE
    by: dict[str, dict[str, Any]] = {str(k): _rates(units[k], k, seconds) for k in CODEBOOKS}
    phones = _phones(speech, phone_utterances, rng, progress)
    if phones:
        baseline = np.concatenate([mfcc_features(s) for _, s in training])
        mean, deviation = baseline.mean(axis=0), baseline.std(axis=0)
        baseline = (baseline - mean) / deviation
        for k in CODEBOOKS:
            centres = MiniBatchKMeans(k, batch_size=8192, n_init=3, random_state=seed).fit(baseline)
            mine, theirs, labels = [], [], []
            for i, aligned in phones.items():
                other = centres.predict((mfcc_features(speech[i][1]) - mean) / deviation)
                length = min(len(aligned), len(other), len(units[k][i]))
                mine.append(units[k][i][:length])
                theirs.append(other[:length].astype(np.int16))
                labels.append(aligned[:length])
            joined = np.concatenate(labels)
            by[str(k)]["phones"] = mutual_information(joined, np.concatenate(mine))
            by[str(k)]["phones_mfcc"] = mutual_information(joined, np.concatenate(theirs))
    result: dict[str, Any] = {
        "utterances": len(speech),
        "seconds": seconds,
        "phone_utterances": len(phones),
        "phone_frames": sum(len(aligned) for aligned in phones.values()),
        "by": by,
    }
    return result | _attacks(tokenizer, training, speech, units, by, seed)


def _attacks(
    tokenizer: Tokenizer,
    training: list[tuple[Item, Samples]],
    speech: list[tuple[Item, Samples]],
    units: dict[int, list[Labels]],
    by: dict[str, dict[str, Any]],
    seed: int,
) -> dict[str, Any]:
    named = [i for i, (item, samples) in enumerate(speech) if item.speaker and len(samples) >= SAMPLE_RATE]
    speakers = [speech[i][0].speaker for i in named]
    known = [item.speaker for item, _ in training]
    heard = [tokenizer.encode_all(samples) for _, samples in training]
    try:
        for k in CODEBOOKS:
            profile = PrivacyProfile(k)
            fit = np.stack([unit_statistics(profile.apply(one[k]).units, k) for one in heard])
            test = np.stack([unit_statistics(profile.apply(units[k][i]).units, k) for i in named])
            by[str(k)]["attacker"] = attack(fit, known, test, speakers, seed=seed).to_dict()
        fit = np.stack([mel_statistics(samples) for _, samples in training])
        mel = attack(fit, known, np.stack([mel_statistics(speech[i][1]) for i in named]), speakers, seed=seed)
    except ValueError as error:
        return {"note": f"no speaker attack: {error}"}
    default = by[str(PrivacyProfile().codebook)]["attacker"]
    return {name: default[name] for name in ("eer", "ci95", "n_target", "n_nontarget")} | {"mel": mel.to_dict()}


def background_pieces(items: list[Item] | None, rng: np.random.Generator, progress: bool) -> list[tuple[Item, Samples]]:
    """Pieces of ``PIECE`` seconds, ``BACKGROUND_SECONDS`` a speaker, of ``items``: by default training readers."""
    if items is None:
        items = [i for i in read_index() if i.split == "train" and i.kind == "bonafide" and i.set in BACKGROUND_SETS]
    taken: dict[str, float] = {}
    pieces: list[tuple[Item, Samples]] = []
    for i in tqdm(rng.permutation(len(items)), desc="background", disable=not progress):
        item = items[i]
        if not item.speaker or taken.get(item.speaker, 0.0) >= BACKGROUND_SECONDS:
            continue
        for _, samples in prepared_items([item], progress=False):
            taken[item.speaker] = taken.get(item.speaker, 0.0) + len(samples) / SAMPLE_RATE
            count = max(1, round(len(samples) / SAMPLE_RATE / PIECE))
            pieces.extend((item, part) for part in np.array_split(samples, count))
    return pieces


def prepared_items(items: Sequence[Item], progress: bool) -> list[tuple[Item, Samples]]:
    found = []
    for item in tqdm(items, desc="prepare", disable=not progress):
        try:
            found.append((item, prepare(read_waveform(item.path)).samples))
        except AudioError:
            continue
    return found


def _rates(units: list[Labels], codebook: int, seconds: float) -> dict[str, Any]:
    profile = PrivacyProfile(codebook)
    sequences = [profile.apply(u) for u in units]
    raw = [PrivacyProfile(codebook, merge_runs=False).apply(u) for u in units]
    timed = [PrivacyProfile(codebook, durations=True).apply(u) for u in units]
    return {
        "runs_per_second": sum(len(s.units) for s in sequences) / seconds,
        "bits_per_second": sum(bits_per_second(s, 1.0) for s in sequences) / seconds,
        "bits_per_second_with_durations": sum(bits_per_second(s, 1.0) for s in timed) / seconds,
        "bits_per_second_unmerged": sum(bits_per_second(s, 1.0) for s in raw) / seconds,
        "units_used": len(set(np.concatenate(units).tolist())),
    }


def _phones(
    speech: list[tuple[Item, Samples]], count: int, rng: np.random.Generator, progress: bool
) -> dict[int, Labels]:
    texts = [i for i, (item, _) in enumerate(speech) if len(item.text.split()) > 3]
    if not texts:
        return {}
    aligner, found = Aligner(), {}
    chosen = rng.permutation(texts)[:count].tolist()
    for i in tqdm(chosen, desc="align", disable=not progress):
        item, samples = speech[i]
        if (labels := aligner(samples, item.text)) is not None:
            found[i] = labels
    return found


def main() -> None:
    """Measure a units card on read speech of the development or test split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("card", type=Path)
    parser.add_argument("output", type=Path, help="JSON")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--sets", nargs="+", default=["ls-test-clean"])
    parser.add_argument("--phone-utterances", type=int, default=200)
    parser.add_argument("--per-speaker", type=int, default=1000, help="utterances of each speaker at most")
    arguments = parser.parse_args()
    items, taken = [], Counter[str]()
    for item in read_index():
        if item.split == arguments.split and item.kind == "bonafide" and item.set in arguments.sets:
            taken[item.speaker] += 1
            if taken[item.speaker] <= arguments.per_speaker:
                items.append(item)
    result = evaluate_units(items, arguments.card, phone_utterances=arguments.phone_utterances)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
