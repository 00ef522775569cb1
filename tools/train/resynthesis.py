"""Train the resynthesis of units: from the units of readers to their spectral envelopes and voicing.

Several voices teach the network what may be said with a unit; one of them (``--voice``), or their mean, is fixed at
the export. The model belongs to one codebook of one units model, whose hash its card states.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch.nn import functional as F
from tqdm import tqdm

from tools.train.cards import write_card
from tools.train.data.corpus import Item
from tools.train.networks.mel_encoder import HOP, MelEncoder
from tools.train.networks.unit_voice import FixedVoice, UnitVoice
from tools.train.periodicity import periodicity
from tools.train.units_card import LICENCES
from tools.train.units_data import Speech, load_speech, training_items
from tools.train.units_frames import log_mel
from voiceid.models.card import Card, TrainingData
from voiceid.models.store import find_model
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.units.tokenizer import Tokenizer

SEGMENT = 200
"""Frames of one training example."""
RATE = 4e-3
"""Peak learning rate."""
Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reading:
    """Units (T,), log-mel energies (T, bands) and voicing (T,) in [0, 1] of one utterance of voice ``voice``."""

    voice: int
    units: NDArray[np.int64]
    mel: Matrix
    voicing: Matrix


def voicing(samples: Samples) -> Matrix:
    """How periodic each frame is, (n // 160,): the highest autocorrelation at a voice's periods; 0 at 0.3, 1 at 0.7."""
    relative, loud = periodicity(samples)
    height = relative.max(axis=1, initial=0.0)
    result: Matrix = (np.clip((height - 0.3) / 0.4, 0, 1) * loud).astype(np.float32)
    return result


def chosen_speech(arguments: argparse.Namespace) -> tuple[list[Item], Speech]:
    """Random utterances of the chosen sets, ``minutes`` in all."""
    items = training_items()
    speech = load_speech(items, arguments.cache)
    order = np.random.default_rng(arguments.seed).permutation(
        [i for i, x in enumerate(items) if x.set in arguments.sets]
    )
    ends = np.cumsum([items[i].seconds for i in order])
    wanted = order[: int(np.searchsorted(ends, 60 * arguments.minutes)) + 1].tolist()
    return [items[i] for i in wanted], speech.select(wanted)


def readings(items: list[Item], speech: Speech, tokenizer: Tokenizer, codebook: int) -> tuple[list[Reading], list[str]]:
    """Every utterance of a named reader, and the readers' names by number."""
    names: dict[str, int] = {}
    found, encoder = [], MelEncoder(1)
    for i, item in enumerate(tqdm(items, desc="read", unit="utterance")):
        samples = speech.utterance(i)
        if item.speaker and len(samples) >= SEGMENT * HOP:
            units = tokenizer.encode(samples, codebook).astype(np.int64)
            voice = names.setdefault(item.speaker, len(names))
            found.append(Reading(voice, units, log_mel(encoder, samples), voicing(samples)))
    return found, list(names)


def train(found: list[Reading], voices: int, codebook: int, updates: int, seed: int) -> UnitVoice:
    """Fit the network to random segments: mean absolute error of the logarithms, cross-entropy of the voicing."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = UnitVoice(codebook, voices)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    weights = np.array([len(one.units) for one in found], np.float64)
    chances = weights / weights.sum()
    average: dict[str, float] = {}
    progress = tqdm(range(updates), desc="train", unit="update")
    for update in progress:
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (update + 1) / 30, (updates - update) / (0.5 * updates))
        chosen = [found[i] for i in rng.choice(len(found), 16, p=chances)]
        starts = [int(rng.integers(len(one.units) - SEGMENT + 1)) for one in chosen]
        units, mel, voiced = (
            torch.from_numpy(
                np.stack([getattr(one, name)[s : s + SEGMENT] for one, s in zip(chosen, starts, strict=True)])
            )
            for name in ("units", "mel", "voicing")
        )
        with torch.autocast("cpu", torch.bfloat16):
            spectrum, logits = network(units, torch.tensor([one.voice for one in chosen]))
        error = (spectrum.float() - mel).abs().mean()
        doubt = F.binary_cross_entropy_with_logits(logits.float(), voiced)
        optimizer.zero_grad()
        (error + doubt).backward()
        optimizer.step()
        for name, value in (("mel", float(error.detach())), ("voicing", float(doubt.detach()))):
            average[name] = 0.98 * average.get(name, value) + 0.02 * value
        progress.set_postfix({name: f"{value:.3f}" for name, value in average.items()}, refresh=False)
    return network.eval()


def export(fixed: FixedVoice, output: Path) -> float:
    """Write ``output``; returns the largest relative deviation of the amplitudes from torch."""
    units = torch.randint(fixed.trained.options["codebook"], (1, 173), generator=torch.Generator().manual_seed(0))
    torch.onnx.export(
        fixed.eval(),
        (units,),
        str(output),
        input_names=["units"],
        output_names=["gain", "voicing"],
        dynamic_axes={"units": {1: "frames"}, "gain": {1: "frames"}, "voicing": {1: "frames"}},
        opset_version=17,
        dynamo=False,
    )
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = fixed(units[:, :97])[0].numpy()
    found = session.run(["gain"], {"units": units[:, :97].numpy()})[0]
    return float((np.abs(found - expected) / expected).max())


def main() -> None:
    """Train, export and write ``resynthesis.onnx`` and its card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the model goes, such as models/")
    parser.add_argument("--cache", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--units", default="units", help="card of the units: a name or a path")
    parser.add_argument("--codebook", type=int, default=100)
    parser.add_argument("--sets", nargs="+", default=["ls-train100-3spk"])
    parser.add_argument("--minutes", type=float, default=24.0, help="of speech to learn from")
    parser.add_argument("--voice", default="ls26", help="a reader of the training speech, or their mean")
    parser.add_argument("--pitch", type=float, default=120.0, help="Hz")
    parser.add_argument("--contrast", type=float, default=1.3, help="of envelopes; 1 leaves them as learnt")
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--metrics", type=Path, help="JSON of tools.train.resynthesis_metrics")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer(find_model(arguments.units, "units"))
    pin = tokenizer.codebook_hash(arguments.codebook).hex()
    items, speech = chosen_speech(arguments)
    state = arguments.cache / f"resynthesis-{pin[:12]}-{arguments.updates}-{arguments.seed}.pt"
    if not state.exists():
        found, names = readings(items, speech, tokenizer, arguments.codebook)
        network = train(found, len(names), arguments.codebook, arguments.updates, arguments.seed)
        torch.save({"options": network.options, "voices": names, "state": network.state_dict()}, state)
    saved = torch.load(state, weights_only=True)
    network = UnitVoice(**saved["options"])
    network.load_state_dict(saved["state"])
    table = network.voice.weight.detach()
    voice = table.mean(0) if arguments.voice == "mean" else table[saved["voices"].index(arguments.voice)]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        file = Path(scratch) / "resynthesis.onnx"
        error = export(FixedVoice(network, voice.clone(), arguments.contrast), file)
        file.replace(arguments.folder / "resynthesis.onnx")
    minutes: dict[str, float] = defaultdict(float)
    for item in items:
        minutes[item.set] += item.seconds / 60
    card = Card(
        schema=1,
        name="resynthesis",
        role="resynthesis",
        version="1.1",
        description=(
            f"Units of codebook {arguments.codebook} to spectral envelopes (residual convolutions, "
            f"{arguments.updates} updates on {len(saved['voices'])} readers), for a vocoder of pulses and noise at one "
            f"pitch. Voice: {arguments.voice}. Belongs to one units model; no part of the pipeline."
        ),
        file="resynthesis.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=SAMPLE_RATE,
        frontend="units",
        level_dbfs=-26.0,
        min_seconds=0.01,
        window_seconds=None,
        calibration=None,
        thresholds={},
        training_data=[TrainingData(n, LICENCES[n], f"{total:.0f} min") for n, total in sorted(minutes.items())],
        metrics={
            **(json.loads(arguments.metrics.read_text("utf-8")) if arguments.metrics else {}),
            "parity_max_relative_error": error,
        },
        command=(
            f"python -m tools.train.resynthesis models --cache CACHE --codebook {arguments.codebook} "
            f"--minutes {arguments.minutes:g} --voice {arguments.voice} --pitch {arguments.pitch:g} "
            f"--contrast {arguments.contrast:g} "
            f"--updates {arguments.updates}"
        ),
        licence="MIT",
        parameters={
            "codebook": arguments.codebook,
            "codebook_hash": pin,
            "pitch": arguments.pitch,
            "voiced_below": 4000.0,
        },
    )
    print(f"{write_card(card, arguments.folder)}: parity {error:.1e}")


if __name__ == "__main__":
    main()
