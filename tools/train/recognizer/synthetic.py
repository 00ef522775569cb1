"""Synthetic commands and sentences: ``python -m tools.train.recognizer.synthetic SYSTEM``.

Systems: Kokoro (its voices and blends of them), hibari (a small network of one Kokoro voice, many times faster), the
English voices of RHVoice and Pico, flite and espeak-ng (both to be installed: Debian packages ``flite`` and
``espeak-ng``). Some voices speak for the development
split alone, others for the test split alone. Speech rests in the cache as 16 kHz FLAC beside an ``index.jsonl``; a run
goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from tqdm import tqdm

from tools.train.data.attacks import engine as engines
from tools.train.data.attacks import pico, rhvoice
from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.hibari import synthesizer as hibari_network
from tools.train.data.attacks.kokoro import NATIVE_RATE, Kokoro, Voice, blend
from tools.train.data.attacks.texts import MAX_CHARACTERS
from tools.train.data.corpus import Split, read_index
from tools.train.recognizer.files import cache_folder
from tools.train.recognizer.sentences import Command, draw
from voiceid.types import SAMPLE_RATE, Samples
from voiceid.understanding.grammar import load_grammar, shipped_grammars

HELD_OUT: dict[str, Split] = {
    "af-sarah": "dev",
    "am-adam": "dev",
    "af-bella": "test",
    "am-michael": "test",
    "bf-emma": "test",
    "bm-george": "test",
    "rms": "test",
}
"""Voices that never train."""
FLITE_VOICES = ("slt", "awb", "kal16", "rms")
ESPEAK_VARIANTS = ("m1", "m3", "m7", "f2", "f3", "f5", "Andy", "Gene", "Annie", "Mario", "linda", "steph")
ESPEAK_ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029")
BLENDS = 150
SHARES = {"train": (0.55, 0.3), "dev": (0.4, 0.6), "test": (0.0, 1.0)}
"""Shares of coffee orders and of commands of the other grammars; the rest are sentences of training transcripts."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One recording; ``grammar`` is empty where no grammar made the text."""

    file: str
    system: str
    voice: str
    split: Split
    text: str
    grammar: str
    intent: str
    slots: dict[str, str]


Speak = Callable[[str, float], Samples]
"""From text and speed to samples at 16 kHz."""


def spoken(split: Split) -> list[tuple[Path, Spoken]]:
    """Everything that was synthesised for ``split``, of all systems."""
    found = []
    for index in sorted(cache_folder("synthetic").glob("*/index.jsonl")):
        rows = [Spoken(**json.loads(line)) for line in index.read_text("utf-8").splitlines()]
        found += [(index.parent / row.file, row) for row in rows if row.split == split]
    return found


def texts(split: Split, rng: np.random.Generator) -> Iterator[tuple[str, Command]]:
    """Grammars ('' for none) and what to say, without end."""
    grammars = {name: load_grammar(name) for name in shipped_grammars()}
    others = [name for name in grammars if name != "coffee"]
    sentences = sorted(
        {
            item.text.strip().lower()
            for item in read_index()
            if item.split == "train" and item.speaker.startswith("ls") and 15 <= len(item.text) <= MAX_CHARACTERS
        }
    )
    coffee, other = SHARES[split]
    while True:
        kind = rng.random()
        if kind < coffee + other:
            name = "coffee" if kind < coffee else others[int(rng.integers(len(others)))]
            yield name, draw(grammars[name], rng)
        else:
            yield "", Command(sentences[int(rng.integers(len(sentences)))], "", {})


def kokoro(split: Split, rng: np.random.Generator) -> dict[str, Speak]:
    """Kokoro's voices of ``split``; for training also blends of them."""
    synthesizer = Kokoro(attack_folder("kokoro-model"))
    voices = [voice for voice in synthesizer.voices() if HELD_OUT.get(voice.name, "train") == split]
    if split == "train":
        mixed = [blend(voices, rng) for _ in range(BLENDS)]
        voices += [Voice(f"{voice.name}-{i}", voice.table) for i, voice in enumerate(mixed)]

    def speaker(voice: Voice) -> Speak:
        return lambda text, speed: soxr.resample(
            synthesizer.synthesize(sentence(text), voice, speed), NATIVE_RATE, SAMPLE_RATE
        )

    return {voice.name: speaker(voice) for voice in voices}


def hibari(split: Split, rng: np.random.Generator) -> dict[str, Speak]:
    """hibari's one voice, for training."""
    if split != "train":
        return {}
    synthesizer = hibari_network()
    return {
        "heart": lambda text, speed: soxr.resample(synthesizer(sentence(text), speed=speed), NATIVE_RATE, SAMPLE_RATE)
    }


def flite(split: Split, rng: np.random.Generator) -> dict[str, Speak]:
    """flite's voices of ``split``."""

    def arguments(voice: str, text: str, speed: float) -> list[str]:
        return ["-voice", voice, "--setf", f"duration_stretch={1 / speed:.2f}", "-t", text, "-o"]

    names = [voice for voice in FLITE_VOICES if HELD_OUT.get(voice, "train") == split]
    return {voice: _program("flite", partial(arguments, voice)) for voice in names}


def espeak(split: Split, rng: np.random.Generator) -> dict[str, Speak]:
    """espeak-ng's accents in several variants, for training."""

    def arguments(voice: str, text: str, speed: float) -> list[str]:
        return ["-v", voice, "-s", f"{round(160 * speed)}", text, "-w"]

    names = [f"{accent}+{variant}" for accent in ESPEAK_ACCENTS for variant in ESPEAK_VARIANTS]
    return {name: _program("espeak-ng", partial(arguments, name)) for name in names} if split == "train" else {}


def engine(voices: Callable[[], list[engines.Voice]], split: Split, rng: np.random.Generator) -> dict[str, Speak]:
    """The English ones of ``voices``, for training."""

    def speak(say: Callable[[str, float], engines.Speech], text: str, speed: float) -> Samples:
        samples, rate = say(sentence(text), speed)
        return np.asarray(soxr.resample(samples, rate, SAMPLE_RATE), np.float32)

    return {v.name: partial(speak, v.say) for v in voices() if v.alphabet is None} if split == "train" else {}


SYSTEMS = {
    "kokoro": kokoro,
    "hibari": hibari,
    "rhvoice": partial(engine, rhvoice.voices),
    "pico": partial(engine, pico.voices),
    "flite": flite,
    "espeak": espeak,
}


def sentence(text: str) -> str:
    """``text`` as networks were trained to read it."""
    capital = text[:1].upper() + text[1:].replace(" i ", " I ").replace(" i'", " I'")
    return capital + ("?" if text.startswith(("can", "may", "could", "how", "what")) else ".")


def _program(name: str, arguments: Callable[[str, float], list[str]]) -> Speak:
    if shutil.which(name) is None:
        raise SystemExit(f"{name} is not installed: sudo apt install {name}")

    def speak(text: str, speed: float) -> Samples:
        with tempfile.NamedTemporaryFile(suffix=".wav") as file:
            subprocess.run([name, *arguments(text, speed), file.name], check=True, capture_output=True)
            samples, rate = soundfile.read(file.name, dtype="float32")
        return np.asarray(soxr.resample(samples, rate, SAMPLE_RATE), np.float32)

    return speak


def generate(system: str, split: Split, count: int, seed: int) -> Path:
    """Have ``system`` say ``count`` texts for ``split``; resumable, the same texts and voices on every run."""
    folder = cache_folder("synthetic") / f"{system}-{split}"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, *f"{system}-{split}".encode()])
    voices = SYSTEMS[system](split, rng)
    if not voices:
        raise SystemExit(f"{system} has no voice for the split {split}")
    names, source = list(voices), texts(split, rng)
    index = folder / "index.jsonl"
    known = index.read_text("utf-8").count("\n") if index.exists() else 0
    with index.open("a", encoding="utf-8") as lines:
        for number in tqdm(range(count), desc=folder.name):
            voice = names[int(rng.integers(len(names)))]
            grammar, command = next(source)
            speed = float(rng.uniform(0.8, 1.25))
            if number < known:
                continue
            samples = voices[voice](command.text, speed)
            samples = samples * (0.5 / max(float(np.abs(samples).max()), 1e-4))
            row = Spoken(
                f"{number:05d}.flac", system, voice, split, command.text, grammar, command.intent, command.slots
            )
            soundfile.write(folder / row.file, samples, SAMPLE_RATE)
            lines.write(json.dumps(asdict(row)) + "\n")
            lines.flush()
    return folder


def main(arguments: list[str] | None = None) -> None:
    """Synthesise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=sorted(SYSTEMS))
    parser.add_argument("--split", choices=("train", "dev", "test"), default="train")
    parser.add_argument("--count", type=int, default=600, help="recordings (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options: Any = parser.parse_args(arguments)
    generate(options.system, options.split, options.count, options.seed)


if __name__ == "__main__":
    main()
