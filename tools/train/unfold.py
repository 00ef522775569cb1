"""From an exported identity network back to one that can be trained on.

Export folds each batch normalisation into the convolution before it. To undo that, one pass of real features measures
what each convolution gives, and its normalisation is set to undo itself: the same function, trainable again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from tools.train.networks.deep_speaker import DeepSpeaker


def unfold(network: DeepSpeaker, exported: Path, features: Tensor) -> None:
    """Load the weights of ``exported`` into ``network`` of the same shape, measuring on ``features`` (b, t, 64, 1).

    Raises:
        SystemExit: the file holds other layers than the network.
    """
    tensors = _tensors(onnx.load(exported).graph)
    layers = _layers(network)
    convolutions = [inputs for kind, inputs in tensors if kind == "Conv"]
    affine = next((inputs for kind, inputs in tensors if kind in ("Gemm", "MatMul")), None)
    shapes = [tuple(convolution.weight.shape) for convolution, _ in layers]
    if affine is None or shapes != [weight.shape for weight, _ in convolutions]:
        raise SystemExit(f"{exported}: not an exported deep speaker ResCNN of channels {network.shape.channels}")
    hooks = []
    with torch.no_grad():
        for (convolution, norm), (weight, bias) in zip(layers, convolutions, strict=True):
            convolution.weight.copy_(torch.from_numpy(weight))
            convolution.bias.zero_()  # type: ignore[union-attr]
            hooks.append(convolution.register_forward_hook(_undone(norm, torch.from_numpy(bias))))
        network.affine.weight.copy_(torch.from_numpy(affine[0]))
        network.affine.bias.copy_(torch.from_numpy(affine[1]))
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


def _tensors(graph: onnx.GraphProto) -> list[tuple[str, list[NDArray[np.float32]]]]:
    """(operator, its weights as float32) of every node that has two of them, in order."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    stored |= {
        node.output[0]: stored[node.input[0]]
        for node in graph.node
        if node.op_type == "Cast" and node.input[0] in stored
    }
    found = []
    for node in graph.node:
        weights = [stored[name].astype(np.float32) for name in node.input[1:] if name in stored]
        if node.op_type in ("Conv", "Gemm", "MatMul") and len(weights) == 2:
            found.append((node.op_type, weights))
    return found
