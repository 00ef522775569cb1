"""Export the units role: CPC encoder and codebooks as one ONNX graph from a block of samples to unit ids."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from tools.train.networks.cpc import CPC, load_checkpoint
from tools.train.networks.mel_encoder import HOP, RECEPTIVE
from tools.train.networks.phone_space import PhoneSpace

BLOCK_FRAMES = 20
"""Frames a run of the graph, 200 ms."""


class Tokens(nn.Module):
    """Samples (1, n) and the state to ids (T,) of each codebook and the next state.

    The state is the context network's, and that of ``space`` where units are told apart in a space of their own.
    ``codebooks`` maps k to the weight (k, dimensions) and bias (k,) of the score whose largest is the nearest centroid.
    """

    def __init__(
        self, model: CPC, codebooks: dict[int, tuple[Tensor, Tensor]], space: PhoneSpace | None = None
    ) -> None:
        super().__init__()
        self.model, self.space = model, space
        self.sizes = tuple(sorted(codebooks))
        self.state_names = (*model.gAR.STATE, *(space.STATE if space else ()))
        self.scores = nn.ModuleList(nn.Linear(codebooks[k][0].shape[1], k) for k in self.sizes)
        for k, layer in zip(self.sizes, self.scores, strict=True):
            layer.weight.data, layer.bias.data = (part.float().clone() for part in codebooks[k])

    def start(self) -> tuple[Tensor, ...]:
        """State at the start of one stream."""
        return (*self.model.gAR.start(), *(self.space.start() if self.space else ()))

    def forward(self, waveform: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        first = len(self.model.gAR.STATE)
        vectors, _, after = self.model(waveform, state[:first], padded=False)
        if self.space is not None:
            vectors, voice = self.space(vectors, state[first:])
            after = (*after, *voice)
        return (*(layer(vectors[0]).argmax(-1) for layer in self.scores), *after)


def load_tokens(checkpoint: Path) -> Tokens:
    """Read a checkpoint of ``tools.train.codebook``.

    Raises:
        ValueError: it holds no codebooks.
    """
    model, saved = load_checkpoint(checkpoint)
    if "codebooks" not in saved:
        raise ValueError(f"{checkpoint}: an encoder without codebooks; run tools.train.codebook on it first")
    space = PhoneSpace(**saved["space"]) if saved.get("space") else None
    return Tokens(model, {int(k): (t["weight"], t["bias"]) for k, t in saved["codebooks"].items()}, space).eval()


def identity(tokens: Tokens) -> str:
    """Hex SHA-256 over every weight, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tokens.state_dict().items()):
        digest.update(name.encode() + b"\0" + tensor.float().numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def export(checkpoint: Path, output: Path, *, block_frames: int | str = BLOCK_FRAMES) -> float:
    """Write ``output`` from a checkpoint that holds an encoder and codebooks, for blocks of ``block_frames``.

    Returns the largest deviation of the state from torch, over the ends of ten blocks of a stream.

    Raises:
        ValueError: the checkpoint holds no codebooks, or the ids differ between torch and ONNX Runtime.
    """
    block = int(block_frames)
    tokens = load_tokens(checkpoint)
    state = list(tokens.start())
    names = list(tokens.state_names)
    waveform = torch.zeros(1, RECEPTIVE + (block - 1) * HOP)
    ids = [f"units_{k}" for k in tokens.sizes]
    torch.onnx.export(
        tokens,
        (waveform, *state),
        str(output),
        input_names=["waveform", *names],
        output_names=[*ids, *(f"{name}_out" for name in names)],
        opset_version=17,
        dynamo=False,
    )
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    mine = [part.numpy() for part in state]
    worst, equal, total = 0.0, 0, 0
    for _ in range(10):
        noise = 0.05 * torch.randn(waveform.shape, generator=generator)
        with torch.no_grad():
            expected = [part.numpy() for part in tokens(noise, *state)]
        found = session.run(None, {"waveform": noise.numpy(), **dict(zip(names, mine, strict=True))})
        state, mine = [torch.from_numpy(part) for part in expected[len(ids) :]], found[len(ids) :]
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in zip(expected[len(ids) :], mine, strict=True)))
        equal += sum(int((a == b).sum()) for a, b in zip(expected[: len(ids)], found[: len(ids)], strict=True))
        total += len(ids) * block
    if equal < 0.99 * total:
        raise ValueError(f"{output}: only {equal} of {total} ids agree with torch (output deviates by {worst:.1e})")
    return worst
