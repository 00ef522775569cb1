"""Word error rates of resynthesised against original speech of unseen readers, by a recogniser that knows neither."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tools.studies.voiceid.recognisers import load_recogniser, normalised
from tools.train.metrics import bootstrap_ci
from tools.train.units_data import transcribed_items
from voiceid.audio import prepare, read_waveform
from voiceid.models.store import find_model
from voiceid.units.resynthesis import Resynthesizer
from voiceid.units.tokenizer import Tokenizer


def measure(units: str, resynthesis: str, split: str, count: int, seed: int, recogniser: str) -> dict[str, Any]:
    """Word errors over ``count`` random utterances; intervals by bootstrap over speakers."""
    import jiwer  # the extra [train]

    tokenizer = Tokenizer(find_model(units, "units"))
    resynthesizer = Resynthesizer(find_model(resynthesis, "resynthesis"))
    resynthesizer.check(tokenizer)
    hear = load_recogniser(recogniser)
    items = transcribed_items(split)  # type: ignore[arg-type]
    chosen = [items[i] for i in np.random.default_rng(seed).permutation(len(items))[:count]]
    errors: dict[str, list[int]] = {"original": [], "resynthesised": []}
    words, speakers = [], []
    for item in tqdm(chosen, desc="words", unit="utterance"):
        samples = prepare(read_waveform(item.path)).samples
        again = resynthesizer(tokenizer.encode(samples, resynthesizer.codebook))
        text = normalised(item.text)
        for name, sound in (("original", samples), ("resynthesised", again)):
            heard = jiwer.process_words(text, normalised(hear(sound)))
            errors[name].append(heard.substitutions + heard.deletions + heard.insertions)
        words.append(len(text.split()))
        speakers.append(item.speaker)
    result: dict[str, Any] = {
        "recogniser": recogniser,
        "split": split,
        "utterances": len(chosen),
        "words": sum(words),
        "speakers": len(set(speakers)),
    }
    for name, wrong in errors.items():
        shares = np.array(wrong, float), np.array(words, float)
        interval = bootstrap_ci(lambda w, n: float(w.sum() / n.sum()), shares, [speakers, speakers])
        result[name] = {"wer": sum(wrong) / sum(words), "errors": sum(wrong), "ci95": list(interval)}
    return result


def main() -> None:
    """Write the word error rates as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--units", default="units", help="card of the units")
    parser.add_argument("--resynthesis", default="resynthesis", help="card of the resynthesis")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--count", type=int, default=100, help="utterances")
    parser.add_argument("--recogniser", default="whisper-tiny.en")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    result = measure(
        arguments.units, arguments.resynthesis, arguments.split, arguments.count, arguments.seed, arguments.recogniser
    )
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
