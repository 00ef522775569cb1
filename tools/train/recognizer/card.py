"""Export a checkpoint to ``words.onnx``, calibrate its confidence and write its card and language model.

Confidence tells commands of a grammar from everything else: development commands by voices that never train against
commands of the other grammars and sentences of development readers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from tools.train import metrics
from tools.train.cards import write_card
from tools.train.export.words import export
from tools.train.networks.words import WordNetwork, load_network
from tools.train.recognizer.data import Recording, merged, plain, prepared, sources, units_of
from tools.train.recognizer.sentences import draw
from tools.train.recognizer.synthetic import spoken
from tools.train.units_card import LICENCES
from voiceid.models.card import Calibration, Card, Threshold, TrainingData
from voiceid.models.store import VerifiedModel, find_model
from voiceid.understanding.decoder import Decoder, Match
from voiceid.understanding.grammar import load_grammar, shipped_grammars
from voiceid.understanding.language import LanguageModel
from voiceid.understanding.understand import confidence_in
from voiceid.units.tokenizer import Tokenizer

SENTENCES = 60
"""Sentences of development readers."""
COMMANDS = 400
"""Sentences of each grammar that the language model reads, beside all transcripts."""
FALSE_COMMANDS = {"convenience": 0.1, "balanced": 0.05, "strict": 0.01}
SYNTHETIC_LICENCES = {
    "kokoro": "Apache-2.0",
    "hibari": "Apache-2.0",
    "rhvoice": "LGPL-2.1+",
    "pico": "Apache-2.0",
    "flite": "BSD-like",
    "espeak": "GPL-3.0 (the program; not its speech)",
}


def trials(network: WordNetwork, model: VerifiedModel, codebook: int) -> tuple[list[Match], list[Match]]:
    """Development commands and sentences, decoded by every grammar: those of the grammar, and all others."""
    rows = spoken("dev")
    commands = prepared("dev-commands", [Recording(p, plain(r.text), "synthetic") for p, r in rows], augmented=True)
    grammars = [row.grammar for _, row in rows for _ in range(len(commands.texts) // len(rows))]
    read = sources("dev", {})["ls-test-clean"]
    sentences = prepared("dev-sentences", read[:: max(1, len(read) // SENTENCES)], augmented=False)
    tokenizer, identity = Tokenizer(model), str(model.card.parameters["identity"])
    heard = [(g, u) for g, u in zip(grammars, units_of(commands, tokenizer, identity, codebook), strict=True) if g]
    heard += [("", units) for units in units_of(sentences, tokenizer, identity, codebook)]
    decoders = {name: Decoder(load_grammar(name)) for name in shipped_grammars()}
    result: tuple[list[Match], list[Match]] = ([], [])
    for grammar, units in tqdm(heard, desc="calibrate"):
        with torch.no_grad():
            posteriors = network(torch.from_numpy(merged(units)[0].astype(np.int64))[None])[0].numpy()
        for name, decoder in decoders.items():
            match = decoder.decode(posteriors)
            if match is not None:
                result[name != grammar].append(match)
    return result


def calibrate(
    commands: list[Match], others: list[Match], *, rehearsal: bool = False
) -> tuple[Calibration, dict[str, Threshold]]:
    """From fit to log-odds, and the confidences at which few other utterances pass for commands.

    A network that knows nothing is refused, but in a ``rehearsal``.
    """
    scale, offset = metrics.fit_calibration([m.fit for m in commands], [m.fit for m in others])
    if scale <= 0 and not rehearsal:
        raise SystemExit("commands fit their grammar no better than other speech does: train for longer")
    calibration = Calibration(
        scale, offset, f"{len(commands)} development commands and {len(others)} other utterances, synthetic and read"
    )
    right, wrong = (np.array([confidence_in(m, calibration) for m in part]) for part in (commands, others))
    thresholds = {}
    for point, share in FALSE_COMMANDS.items():
        value = float(np.quantile(wrong, 1 - share))
        thresholds[point] = Threshold(
            value,
            f"{share:.0%} of {len(wrong)} other utterances pass for a command, {np.mean(right < value):.1%} of "
            f"{len(right)} commands are not understood (development)",
        )
    return calibration, thresholds


def language_model(transcripts: dict[str, str]) -> LanguageModel:
    """Letters of all training transcripts and of sentences of every grammar."""
    texts = [row.text for rows in sources("train", transcripts).values() for row in rows if row.kind == "read"]
    rng = np.random.default_rng(0)
    for name in shipped_grammars():
        grammar = load_grammar(name)
        texts += [draw(grammar, rng).text for _ in range(COMMANDS)]
    return LanguageModel.learn(texts)


def training_data(sets: dict[str, int]) -> list[TrainingData]:
    """The training speech by set, with licence and amount."""
    return [
        TrainingData(
            name, LICENCES.get(name) or SYNTHETIC_LICENCES[name.split("-")[0]], f"{count} augmented utterances"
        )
        for name, count in sorted(sets.items())
    ]


def main() -> None:
    """Write ``words.onnx``, ``words-language.npz`` and ``words.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="of tools.train.recognizer.training, on units")
    parser.add_argument("folder", type=Path, help="where the model goes, such as models/")
    parser.add_argument("--units-card", default="units", help="the unit model that it was trained on")
    parser.add_argument("--transcripts", type=Path, help="texts made by tools.train.transcripts")
    parser.add_argument("--metrics", type=Path, help="JSON of 'tools/evaluate.py words'")
    parser.add_argument("--version", default="1.0")
    parser.add_argument("--rehearsal", action="store_true", help="let a network pass that knows nothing")
    arguments = parser.parse_args()
    saved = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)
    network = load_network(saved)
    if network.options["features"] != "units":
        raise SystemExit(f"{arguments.checkpoint}: a network on mel; only one on units can be shipped")
    codebook = int(network.options["inputs"])
    carried = saved["arguments"].get("start_from", "None") != "None"
    units = find_model(arguments.units_card, "units")
    transcripts = json.loads(arguments.transcripts.read_text("utf-8")) if arguments.transcripts else {}
    calibration, thresholds = calibrate(*trials(network, units, codebook), rehearsal=arguments.rehearsal)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        error = export(network, Path(scratch) / "words.onnx")
        language_model(transcripts).write(Path(scratch) / "words-language.npz")
        for name in ("words.onnx", "words-language.npz"):
            (Path(scratch) / name).replace(arguments.folder / name)
    measured = json.loads(arguments.metrics.read_text("utf-8")) if arguments.metrics else {}
    card = Card(
        schema=1,
        name="words",
        role="words",
        version=arguments.version,
        description=(
            f"Convolutions and a bidirectional GRU under CTC, from merged units of codebook {codebook} to letters "
            f"({saved['update']} updates, {saved['epochs']:.1f} epochs of {sum(saved['sets'].values())} augmented "
            f"utterances{', begun with an earlier recogniser' if carried else ''}); "
            "phones of a forced alignment (pocketsphinx, on training speech) guided its convolutions. "
            "For service providers: no device uses it."
        ),
        file="words.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16_000,
        frontend="units",
        level_dbfs=None,
        min_seconds=0.1,
        window_seconds=None,
        calibration=calibration,
        thresholds=thresholds,
        training_data=training_data(saved["sets"]),
        metrics={key: measured[key] for key in ("wer", "intents") if key in measured} | {"parity_max_error": error},
        command=(
            "python -m tools.train.recognizer.synthetic SYSTEM (hibari, rhvoice, pico, flite, espeak, kokoro); "
            f"python -m tools.train.recognizer.training FOLDER --features units{' --start-from START' * carried}; "
            "python -m tools.train.recognizer.card FOLDER/checkpoint.pt models"
        ),
        licence="MIT",
        parameters={
            "codebook": codebook,
            "codebook_hash": Tokenizer(units).codebook_hash(codebook).hex(),
            "units_sha256": units.card.sha256,
        },
        assets={"words-language.npz": ""},
    )
    print(f"{write_card(card, arguments.folder)}: parity {error:.1e}")


if __name__ == "__main__":
    main()
