"""Deep speaker's ResCNN (Li et al., arXiv 1705.02304; shaped as in philipperemy/deep-speaker), at any width.

Four stages, each a 5x5 convolution of stride 2 with "SAME" padding and three identity blocks; activations are clipped
to [0, 20]; then the mean over time, an affine layer and the unit sphere. The original has channels (64, 128, 256, 512),
takes :func:`voiceid.features.mel.deep_speaker_fbank` and gives 512 dimensions; its ``.h5`` weights load with
:func:`load_keras`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BANDS = 64
DOWNSAMPLING = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """What distinguishes one ResCNN from another.

    ``normalise_input``: subtract the mean over time of each band (for log-mel input). ``deviation``: pool the standard
    deviation over time beside the mean. The original has neither.
    """

    channels: tuple[int, int, int, int] = (64, 128, 256, 512)
    embedding: int = 512
    normalise_input: bool = False
    deviation: bool = False


ORIGINAL = Shape()


class SamePad(torch.autograd.Function):
    """Stands for TensorFlow's padding when exporting, so that no traced length is frozen into the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.conv2d(_pad_same(x), weight, bias, stride=2)

    @staticmethod
    def symbolic(g: Any, x: Any, weight: Any, bias: Any) -> Any:
        size = weight.type().sizes()[2:]
        return g.op("Conv", x, weight, bias, kernel_shape_i=size, strides_i=[2, 2], auto_pad_s="SAME_UPPER")


def _pad_same(x: Tensor) -> Tensor:
    """For 5x5 and stride 2: even sizes get 1 before and 2 after, odd sizes 2 and 2."""
    time, bands = x.shape[2:]
    return functional.pad(x, (1 + bands % 2, 2, 1 + time % 2, 2))


class SameConv2d(nn.Conv2d):
    """5x5 convolution of stride 2 with TensorFlow's "SAME" padding for every length."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, kernel_size=5, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        if torch.onnx.is_in_onnx_export():
            exported: Tensor = SamePad.apply(x, self.weight, self.bias)
            return exported
        return functional.conv2d(_pad_same(x), self.weight, self.bias, stride=2)


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.1)


class IdentityBlock(nn.Module):
    """Two 3x3 convolutions; the clip before the sum is the original's."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = _batch_norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = _batch_norm(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.hardtanh(self.norm1(self.conv1(x)), 0, 20)
        y = functional.hardtanh(self.norm2(self.conv2(y)), 0, 20)
        return functional.hardtanh(x + y, 0, 20)


class Stage(nn.Module):
    """Halves time and bands, then three identity blocks."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = SameConv2d(inputs, outputs)
        self.norm = _batch_norm(outputs)
        self.blocks = nn.Sequential(*(IdentityBlock(outputs) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.blocks(functional.hardtanh(self.norm(self.conv(x)), 0, 20))
        return y


class DeepSpeaker(nn.Module):
    """Features (B, T, 64, 1) to embeddings (B, d) of unit norm; any T >= 1."""

    def __init__(self, shape: Shape = ORIGINAL) -> None:
        super().__init__()
        self.shape = shape
        widths = (1, *shape.channels)
        self.stages = nn.Sequential(*(Stage(a, b) for a, b in pairwise(widths)))
        pooled = shape.channels[-1] * BANDS // DOWNSAMPLING
        self.affine = nn.Linear(pooled * (2 if shape.deviation else 1), shape.embedding)

    def forward(self, x: Tensor) -> Tensor:
        y = self.frames(x)
        mean = y.mean(dim=1)
        return self.pool(mean, (y - mean[:, None]).square().mean(dim=1))

    def frames(self, x: Tensor) -> Tensor:
        """What is pooled: (B, ceil(T / 16), channels * 4)."""
        if self.shape.normalise_input:
            x = x - x.mean(dim=1, keepdim=True)
        y: Tensor = self.stages(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).flatten(2)
        return y

    def pool(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Embeddings (B, d) of the frames' ``mean`` and ``variance`` over time, both (B, channels * 4)."""
        if self.shape.deviation:
            mean = torch.cat([mean, torch.sqrt(variance + 1e-5)], dim=1)
        return functional.normalize(self.affine(mean), dim=1)


class StretchEmbedder(nn.Module):
    """Embeddings of many stretches of one utterance from one pass of its ``network``.

    Mean and variance of a stretch follow from sums up to its ends, so that a stretch costs next to nothing.
    """

    def __init__(self, network: DeepSpeaker) -> None:
        super().__init__()
        self.network = network

    def forward(self, features: Tensor, stretches: Tensor) -> Tensor:
        """Features (1, T, 64, 1), int64 ``stretches`` (s, 2) from and up to a pooled frame: embeddings (s, d)."""
        y = self.network.frames(features)[0]
        centre = y.mean(dim=0)
        centred = y - centre
        start, end = stretches[:, 0], stretches[:, 1]
        count = (end - start).to(y.dtype)[:, None]
        mean, square = (
            (sums[end] - sums[start]) / count
            for sums in (functional.pad(x, (0, 0, 1, 0)).cumsum(dim=0) for x in (centred, centred.square()))
        )
        return self.network.pool(centre + mean, (square - mean.square()).clamp(min=0))


class Committee(nn.Module):
    """The directions between those of ``members`` of one embedding space: as :class:`StretchEmbedder`."""

    def __init__(self, members: Sequence[DeepSpeaker]) -> None:
        super().__init__()
        self.members = nn.ModuleList(StretchEmbedder(member) for member in members)

    def forward(self, features: Tensor, stretches: Tensor) -> Tensor:
        """Features (1, T, 64, 1) and int64 stretches (s, 2): embeddings (s, d) of unit norm."""
        return functional.normalize(torch.stack([member(features, stretches) for member in self.members]).sum(0), dim=1)


def load_keras(path: Path) -> DeepSpeaker:
    """Read the original's Keras weights (HDF5, whole model or weights alone).

    Layers are found by name: ``conv{channels}-s`` and ``res{stage}_{block}_branch_2a|2b``, each with its batch
    normalisation ``..._bn``, for stages 1 to 4 and blocks 0 to 2, and ``affine``; a softmax head is left out.

    Raises:
        SystemExit: a layer is missing or has another shape.
    """
    with h5py.File(path, "r") as file:
        weights = _keras_weights(file.get("model_weights", file))
    if "affine" not in weights:
        raise SystemExit(f"{path}: no layer 'affine'; it has {', '.join(sorted(weights)) or 'none'}")
    channels = sorted(int(name[4:-2]) for name in weights if name.startswith("conv") and name.endswith("-s"))
    if len(channels) != 4:
        raise SystemExit(f"{path}: expected four layers 'conv<channels>-s', found {channels}")
    embedding = weights["affine"]["kernel"].shape[1]
    network = DeepSpeaker(Shape(channels=(channels[0], channels[1], channels[2], channels[3]), embedding=embedding))
    state: dict[str, Tensor] = {}
    for index, width in enumerate(channels):
        stage = f"stages.{index}"
        _take(state, weights, f"conv{width}-s", f"{stage}.conv", f"{stage}.norm")
        for block in range(3):
            for part, number in (("2a", 1), ("2b", 2)):
                prefix = f"{stage}.blocks.{block}"
                _take(
                    state,
                    weights,
                    f"res{index + 1}_{block}_branch_{part}",
                    f"{prefix}.conv{number}",
                    f"{prefix}.norm{number}",
                )
    state["affine.weight"] = torch.from_numpy(weights["affine"]["kernel"].T.copy())
    state["affine.bias"] = torch.from_numpy(weights["affine"]["bias"])
    try:
        network.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise SystemExit(f"{path}: not a deep speaker ResCNN: {error}") from error
    return network.eval()


def _take(state: dict[str, Tensor], weights: dict[str, dict[str, Any]], layer: str, conv: str, norm: str) -> None:
    names: Sequence[tuple[str, str, str]] = (
        (layer, "kernel", f"{conv}.weight"),
        (layer, "bias", f"{conv}.bias"),
        (f"{layer}_bn", "gamma", f"{norm}.weight"),
        (f"{layer}_bn", "beta", f"{norm}.bias"),
        (f"{layer}_bn", "moving_mean", f"{norm}.running_mean"),
        (f"{layer}_bn", "moving_variance", f"{norm}.running_var"),
    )
    for source, variable, target in names:
        try:
            array = weights[source][variable]
        except KeyError:
            raise SystemExit(f"no weight {variable!r} of layer {source!r}; is this a deep speaker ResCNN?") from None
        state[target] = torch.from_numpy(
            np.ascontiguousarray(array.transpose(3, 2, 0, 1) if array.ndim == 4 else array)
        )


def _keras_weights(group: Any) -> dict[str, dict[str, Any]]:
    """{layer: {variable: array}} of a Keras weight group, whatever scopes lie between."""
    found: dict[str, dict[str, Any]] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            scopes = name.split("/")
            found.setdefault(scopes[0], {})[scopes[-1].split(":")[0]] = np.asarray(node, dtype=np.float32)

    group.visititems(visit)
    return found
