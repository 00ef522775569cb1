"""The fusion data: the three judges' scores of the same clips, genuine and attacked, against enrolled speakers.

Each speaker of a split is enrolled from three utterances. Crops of the others are tried as they are and as a live
recording in a simulated room; copied by a synthesizer; replayed; and replayed after copying. Every clip meets its own
speaker's template and another's, so that the scores of one trial belong together.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.evaluation.judging import load_judge
from tools.evaluation.memory import cache_folder
from tools.evaluation.selection import identifier
from tools.evaluation.trials import enrolment_order
from tools.train.data.attacks.systems import DEV_SYSTEMS
from tools.train.data.corpus import TRAIN_LICENCES, Item, Split, read_index
from tools.train.data.replay import Bank, load_bank, simulate_live, simulate_replay
from voiceid.audio import prepare, read_waveform
from voiceid.errors import ModelError
from voiceid.scoring.owner import Baseline, shift_of
from voiceid.types import SAMPLE_RATE, Samples, Source, Utterance, Waveform

SECONDS = (2.0, 6.0)
"""Length of a tried command, before trimming to the speech."""
ENROLLED = 3
MIN_UTTERANCES = 5
MAX_UTTERANCES: dict[Split, int] = {"dev": 40, "test": 12}
"""Tried utterances a speaker, so that none dominates; there are few development speakers."""
SAME_RECORDINGS = ("libritts-yourtts-gt", "ls-fakebob-originals")
"""Sets that hold the recordings of ls-test-clean again."""
DETECTORS = ("spoofing", "liveness")
JUDGES = ("identity", *DETECTORS)


@dataclass(frozen=True, slots=True)
class FusionTrial:
    """One clip against one template: ``llr`` of identity, spoofing and liveness.

    ``attack`` is "none", "spoof", "replay" or "replayed-spoof"; ``system`` names the copying system or loudspeaker;
    ``speaker`` is the enrolled one, ``source`` the one whose voice the clip holds or claims.
    """

    llr: tuple[float, float, float]
    speaker: str
    source: str
    attack: str
    system: str

    @property
    def target(self) -> bool:
        return self.speaker == self.source

    @property
    def authentic(self) -> bool:
        """Only the enrolled speaker, live, is authentic."""
        return self.target and self.attack == "none"

    @property
    def scenario(self) -> str:
        """What is wrong with the trial: one of the paper's input scenarios."""
        return f"{'target' if self.target else 'nontarget'}/{self.attack}"


@dataclass(frozen=True, slots=True)
class Clip:
    """An utterance that is going to be tried: what the detectors see, and its net speech for the identity judge."""

    samples: Samples
    net_speech: Samples
    attack: str
    system: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A speaker as enrolled: ``embeddings`` float32 (n, d), and what the detectors score of those utterances."""

    embeddings: NDArray[np.float32]
    baselines: tuple[Baseline, ...]


class Bench:
    """The three judges of the shipped (or named) cards, their results remembered."""

    def __init__(self, cards: dict[str, str] | None = None) -> None:
        """Load the judges.

        Raises:
            ModelError: one is missing or has no calibration.
        """
        cards = cards or {}
        self.judges = {role: load_judge(role, cards.get(role)) for role in JUDGES}  # type: ignore[arg-type]
        for role, judge in self.judges.items():
            if judge.card.calibration is None:
                raise ModelError(
                    f"card {judge.card.name!r} has no calibration; fusion needs log-likelihood ratios: fit it ({role})"
                )

    def embed(self, net_speech: Samples) -> NDArray[np.float32]:
        embedding: NDArray[np.float32] = self.judges["identity"].embed(net_speech)
        return embedding

    def enrol(self, utterances: Sequence[Utterance]) -> Reference:
        """What an enrolment from ``utterances`` leaves."""
        embeddings = np.stack([self.embed(utterance.net_speech()) for utterance in utterances])
        found = []
        for role in DETECTORS:
            judge = self.judges[role]
            mean = float(np.mean([judge.score(utterance.samples) for utterance in utterances]))
            found.append(Baseline.of(judge.card, mean, len(utterances)))
        return Reference(embeddings, tuple(found))

    def llr(self, role: str, raw: float, baselines: Sequence[Baseline] = ()) -> float:
        """Calibrated score, relative to the owner of ``baselines`` where the card of ``role`` says how."""
        judge = self.judges[role]
        shift = shift_of(judge.card, judge.owner, baselines) if role in DETECTORS else None
        return float(judge.card.calibration(raw)) - (shift or 0.0)

    def trials(self, clip: Clip, source: str, references: dict[str, Reference]) -> Iterator[FusionTrial]:
        """Score ``clip`` once and try it against every one of ``references``."""
        embedding, seconds = self.embed(clip.net_speech), len(clip.net_speech) / SAMPLE_RATE
        raw = {role: self.judges[role].score(clip.samples) for role in DETECTORS}
        for name, reference in references.items():
            identity = self.llr("identity", self.judges["identity"].score(reference.embeddings, embedding, seconds))
            spoofing, liveness = (self.llr(role, raw[role], reference.baselines) for role in DETECTORS)
            llr = (identity, spoofing, liveness)
            if not np.isfinite(llr).all():
                raise ValueError(f"a judge's score is not finite: {dict(zip(JUDGES, llr, strict=True))} for {source}")
            yield FusionTrial(llr, name, source, clip.attack, clip.system)


def build(split: Split, bench: Bench, *, seed: int = 0, strangers: int = 1) -> list[FusionTrial]:
    """All trials of the speakers of ``split``, each clip on its own template and those of ``strangers`` others.

    The same seed gives the same audio.
    """
    items = read_index()
    queues = speakers_of(items, split, seed)
    references = {
        name: bench.enrol([prepare(read_waveform(item.path)) for item in own[:ENROLLED]])
        for name, own in queues.items()
    }
    trials: list[FusionTrial] = []
    for index, (name, clips) in enumerate(clips_of_split(items, split, queues, seed)):
        rng = np.random.default_rng([seed, index])
        others = [other for other in references if other != name]
        for clip in clips:
            drawn = rng.permutation(len(others))[:strangers]
            trials += bench.trials(clip, name, {who: references[who] for who in (name, *(others[i] for i in drawn))})
    return trials


def clips_of_split(
    items: list[Item], split: Split, queues: dict[str, list[Item]], seed: int
) -> Iterator[tuple[str, list[Clip]]]:
    """Speaker and clips of every tried recording; made once and kept, since simulation takes longer than scoring."""
    folder = cache_folder().parent / "fusion" / f"{split}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    bank = load_bank(items, split)
    work = [(name, item) for name, own in queues.items() for item in own[ENROLLED : ENROLLED + MAX_UTTERANCES[split]]]
    for name, item in tqdm(work, desc=f"fusion {split}", unit="utterance", mininterval=5):
        path = folder / f"{name}-{item.path.stem}.npz"
        if not path.exists():
            rng = np.random.default_rng([seed, zlib.crc32(identifier(item).encode())])
            _write(path, list(clips_of(item, bank, rng)))
        yield name, _read(path)


def clips_of(item: Item, bank: Bank, rng: np.random.Generator) -> Iterator[Clip]:
    """The variants of one recording that the agent would judge; those that its quality gate refuses are left out."""
    samples = read_waveform(item.path).samples
    length = min(len(samples), int(rng.uniform(*SECONDS) * SAMPLE_RATE))
    start = int(rng.integers(0, len(samples) - length + 1))
    speech = samples[start : start + length]
    system = sorted(DEV_SYSTEMS)[int(rng.integers(len(DEV_SYSTEMS)))]
    copy = DEV_SYSTEMS[system](speech, rng)
    replay, replayed_copy = simulate_replay(speech, bank, rng), simulate_replay(copy, bank, rng)
    variants: tuple[tuple[Samples, str, str], ...] = (
        (speech, "none", "as recorded"),
        (simulate_live(speech, bank, rng).samples, "none", "simulated room"),
        (copy, "spoof", system),
        (simulate_live(copy, bank, rng).samples, "spoof", system),
        (replay.samples, "replay", replay.scene.split("/")[0]),
        (replayed_copy.samples, "replayed-spoof", f"{system} by {replayed_copy.scene.split('/')[0]}"),
    )
    for audio, attack, name in variants:
        utterance = prepare(Waveform(audio, Source.FILE))
        if utterance.quality.usable:
            yield Clip(utterance.samples, utterance.net_speech(), attack, name)


def _write(path: Path, clips: list[Clip]) -> None:
    arrays = {
        f"{what}{i}": np.round(audio * 32767).astype(np.int16)
        for i, clip in enumerate(clips)
        for what, audio in (("samples", clip.samples), ("speech", clip.net_speech))
    }
    partial = path.with_name(f".{path.name}")
    np.savez(partial, attack=np.array([c.attack for c in clips]), system=np.array([c.system for c in clips]), **arrays)
    partial.replace(path)


def _read(path: Path) -> list[Clip]:
    with np.load(path, allow_pickle=False) as table:
        labels = zip(table["attack"], table["system"], strict=True)
        return [
            Clip(table[f"samples{i}"] / np.float32(32767), table[f"speech{i}"] / np.float32(32767), str(a), str(s))
            for i, (a, s) in enumerate(labels)
        ]


def speakers_of(items: list[Item], split: Split, seed: int) -> dict[str, list[Item]]:
    """Speakers of ``split`` with enough recordings that are long enough to be commands, those to enrol first."""
    speakers: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        fits = item.kind == "bonafide" and item.licence_class in TRAIN_LICENCES and item.seconds >= SECONDS[0]
        if fits and item.speaker and item.split == split and item.set not in SAME_RECORDINGS:
            speakers[item.speaker].append(item)
    return {n: enrolment_order(own, seed) for n, own in sorted(speakers.items()) if len(own) >= MIN_UTTERANCES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("dev", "test"), required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    items = read_index()
    for _ in clips_of_split(
        items, arguments.split, speakers_of(items, arguments.split, arguments.seed), arguments.seed
    ):
        pass


if __name__ == "__main__":
    main()
