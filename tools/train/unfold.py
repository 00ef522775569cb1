"""From an exported identity network back to one that can be trained on.

Export folds each batch normalisation into the convolution before it. To undo that, one pass of real features measures
what each convolution gives, and its normalisation is set to undo itself: the same function, trainable again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from tools.train.networks.deep_speaker import BANDS, DOWNSAMPLING, DeepSpeaker, Shape

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Weight and bias."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one network in a file: (weight, bias) of each convolution in order, and of the last layer."""

    convolutions: list[Layer]
    affine: Layer

    @property
    def shape(self) -> Shape:
        """The ResCNN's, taken to be one of ours: input normalised."""
        stages = [len(weight) for weight, _ in self.convolutions if weight.shape[2:] == (5, 5)]
        embedding, inputs = self.affine[0].shape
        deviation = inputs == 2 * stages[-1] * BANDS // DOWNSAMPLING
        return Shape((stages[0], stages[1], stages[2], stages[3]), embedding, normalise_input=True, deviation=deviation)


def read_weights(exported: Path) -> list[Weights]:
    """The networks of an exported file, of which a committee has several.

    Raises:
        SystemExit: it holds no deep speaker ResCNN.
    """
    found: dict[str, list[tuple[str, Layer]]] = {}
    for name, kind, layer in _layers_of(onnx.load(exported).graph):
        member = re.match(r"/members\.\d+/", name)
        found.setdefault(member[0] if member else "", []).append((kind, layer))
    networks = []
    for _, layers in sorted(found.items()):
        convolutions = [layer for kind, layer in layers if kind == "Conv"]
        affine = [layer for kind, layer in layers if kind != "Conv"]
        stages = [weight for weight, _ in convolutions if weight.shape[2:] == (5, 5)]
        if len(stages) != 4 or not affine:
            raise SystemExit(f"{exported}: not an exported deep speaker ResCNN")
        networks.append(Weights(convolutions, affine[0]))
    return networks


def unfold(network: DeepSpeaker, exported: Path, features: Tensor, member: int | None = None) -> None:
    """Load the weights of ``exported`` into ``network`` of the same shape, measuring on ``features`` (b, t, 64, 1).

    Of a committee the ``member`` of that number, or the first of this shape.

    Raises:
        SystemExit: the file holds other layers than the network.
    """
    layers = _layers(network)
    shapes = [tuple(convolution.weight.shape) for convolution, _ in layers]
    networks = read_weights(exported)
    fitting = [
        weights
        for weights in (networks if member is None else [networks[member]])
        if shapes == [weight.shape for weight, _ in weights.convolutions]
    ]
    if not fitting:
        raise SystemExit(f"{exported}: not an exported deep speaker ResCNN of channels {network.shape.channels}")
    hooks = []
    with torch.no_grad():
        for (convolution, norm), (weight, bias) in zip(layers, fitting[0].convolutions, strict=True):
            convolution.weight.copy_(torch.from_numpy(weight))
            convolution.bias.zero_()  # type: ignore[union-attr]
            hooks.append(convolution.register_forward_hook(_undone(norm, torch.from_numpy(bias))))
        network.affine.weight.copy_(torch.from_numpy(fitting[0].affine[0]))
        network.affine.bias.copy_(torch.from_numpy(fitting[0].affine[1]))
        network.eval()(features)
    for hook in hooks:
        hook.remove()


def _undone(norm: nn.BatchNorm2d, bias: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    """A hook on a convolution: makes ``norm`` add ``bias`` to what it is given and change nothing else."""

    def measure(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> None:
        mean, variance = output.mean(dim=(0, 2, 3)), output.var(dim=(0, 2, 3))
        norm.running_mean.copy_(mean)  # type: ignore[union-attr]
        norm.running_var.copy_(variance)  # type: ignore[union-attr]
        norm.weight.copy_(torch.sqrt(variance + norm.eps))
        norm.bias.copy_(bias + mean)

    return measure


def _layers(network: DeepSpeaker) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Convolutions and their normalisations in the order in which they run."""
    modules = list(network.modules())
    convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
    norms = [module for module in modules if isinstance(module, nn.BatchNorm2d)]
    return list(zip(convolutions, norms, strict=True))


def _layers_of(graph: onnx.GraphProto) -> list[tuple[str, str, Layer]]:
    """(name, operator, weight and bias) of every node that has these, in order."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if not all(name in stored for name in node.input):
            continue
        if node.op_type == "Cast":
            stored[node.output[0]] = stored[node.input[0]].astype(np.float32)
        elif node.op_type == "DequantizeLinear":
            stored[node.output[0]] = _dequantised(*(stored[name] for name in node.input))
    found = []
    for node in graph.node:
        weights = [stored[name].astype(np.float32) for name in node.input[1:] if name in stored]
        if node.op_type in ("Conv", "Gemm", "MatMul") and len(weights) == 2:
            found.append((node.name, node.op_type, (weights[0], weights[1])))
    return found


def _dequantised(integers: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any]) -> NDArray[np.float32]:
    """Integers (channels, ...) as floats; ``scale`` and ``zero`` are of all or of each channel."""
    shape = (-1,) + (1,) * (integers.ndim - 1)
    floats: NDArray[np.float32] = (integers.astype(np.float32) - zero.reshape(shape)) * scale.reshape(shape)
    return floats
