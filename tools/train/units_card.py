"""Export a units checkpoint to ``units.onnx`` and write its card, with the figures measured on it."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from tools.train.cards import write_card
from tools.train.export.units import BLOCK_FRAMES, export, identity, load_tokens
from tools.train.networks.cpc import load_checkpoint
from tools.train.networks.mel_encoder import HOP, LEFT, RECEPTIVE
from tools.train.units_data import training_items
from voiceid.models.card import Card, TrainingData
from voiceid.types import SAMPLE_RATE

LICENCES = {
    "ls-test-clean": "CC BY 4.0",
    "ls-train100-1utt": "CC BY 4.0",
    "ls-train100-3spk": "CC BY 4.0",
    "ls-fakebob-originals": "CC BY 4.0",
    "libritts-yourtts-gt": "CC BY 4.0",
    "mls-pt-yourtts-gt": "CC BY 4.0",
    "commonvoice-yourtts-gt": "CC0",
    "speech-commands": "CC BY 4.0",
    "fsdd": "CC BY-SA 4.0",
    "picovoice-wakewords": "Apache-2.0",
    "precise-community": "public domain",
}


def training_data() -> list[TrainingData]:
    """The training speech by set, with licence and amount."""
    seconds: dict[str, float] = defaultdict(float)
    for item in training_items():
        seconds[item.set] += item.seconds
    return [TrainingData(name, LICENCES[name], f"{total / 60:.0f} min") for name, total in sorted(seconds.items())]


def describe(saved: dict[str, Any], options: dict[str, Any]) -> str:
    """What the model is, in words."""
    shape = (
        f"a log-mel front end and causal convolutions (width {options['context']})"
        if options["front"] == "mel"
        else f"width {options['width']}, {options['layers']} LSTM layers"
    )
    guided = (
        f"The context network was also trained to name, {saved['lookahead']} frames late, the phone of a forced "
        "alignment (pocketsphinx, on transcribed training speech)"
        + (", and what a teacher on Whisper tiny.en's encoder hears in all training speech" if saved["taught"] else "")
        + ", while voice and channel were changed: phonetic guidance beside the contrastive loss, not plain CPC."
        if saved["guided"]
        else "Plain CPC, no labels."
    )
    space = (
        "square roots of the probabilities of phones (a linear layer, fitted to the forced alignments), after what the "
        "voice adds to all phones alike, followed through the utterance, has been taken off"
        if saved.get("space")
        else "context vectors under one global standardisation"
    )
    return (
        f"CPC encoder ({shape}, {saved['update']} updates) and "
        f"k-means codebooks of 50, 100 and 200 units on {space}. {guided}"
    )


def commands(saved: dict[str, Any]) -> str:
    """The commands that make the model."""
    teacher = " --teacher TEACHER" if saved["taught"] else ""
    return (
        "python -m tools.train.phones LABELS --cache CACHE --sets ls-test-clean ls-train100-3spk ls-fakebob-originals; "
        + ("python -m tools.train.phone_teacher TEACHER --cache CACHE --phones LABELS; " if teacher else "")
        + f"python -m tools.train.units FOLDER --cache CACHE --guidance LABELS{teacher} --contrast 0.1 "
        f"--contrast-groups 1 --windows 2 --updates {saved['update']}; "
        "python -m tools.train.codebook FOLDER/checkpoint.pt UNITS --cache CACHE"
        + (" --phones LABELS; " if saved.get("space") else "; ")
        + "python -m tools.train.units_card UNITS models"
    )


def main() -> None:
    """Write ``units.onnx`` and ``units.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="of tools.train.codebook")
    parser.add_argument("folder", type=Path, help="where the model goes, such as models/")
    parser.add_argument("--metrics", type=Path, help="JSON of tools.train.units_metrics")
    parser.add_argument("--version", default="1.0")
    arguments = parser.parse_args()
    model, saved = load_checkpoint(arguments.checkpoint)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        file = Path(scratch) / "units.onnx"
        error = export(arguments.checkpoint, file)
        file.replace(arguments.folder / "units.onnx")
    heard = RECEPTIVE - LEFT + (HOP if model.options["front"] == "mel" else 0)  # of two frames a step, the first waits
    metrics = json.loads(arguments.metrics.read_text("utf-8")) if arguments.metrics else {}
    card = Card(
        schema=1,
        name="units",
        role="units",
        version=arguments.version,
        description=describe(saved, model.options),
        file="units.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend="waveform",
        level_dbfs=-26.0,
        min_seconds=0.01,
        window_seconds=None,
        calibration=None,
        thresholds={},
        training_data=training_data(),
        metrics={**metrics, "parity_max_error": error},
        command=commands(saved),
        licence="MIT",
        parameters={
            "codebooks": [50, 100, 200],
            "frame_rate": 100,
            "block_frames": BLOCK_FRAMES,
            "lookahead_frames": saved["lookahead"],
            "lookahead_seconds": (saved["lookahead"] * HOP + heard) / SAMPLE_RATE,
            "identity": identity(load_tokens(arguments.checkpoint)),
        },
    )
    print(f"{write_card(card, arguments.folder)}: parity {error:.1e}")


if __name__ == "__main__":
    main()
