"""Export the words role: from merged units (1, T) to log-probabilities of letters (1, frames, labels)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from tools.train.networks.words import WordNetwork
from voiceid.understanding.alphabet import LABELS


def export(network: WordNetwork, output: Path) -> float:
    """Write ``output``; the largest deviation of probabilities from torch, over units of several lengths.

    Raises:
        ValueError: ONNX Runtime and torch differ by over 0.001.
    """
    network.eval()
    network.phone_head = None
    generator = torch.Generator().manual_seed(0)
    units = torch.randint(0, network.options["inputs"], (1, 100), generator=generator)
    torch.onnx.export(
        network,
        (units,),
        str(output),
        input_names=["units"],
        output_names=["letters"],
        dynamic_axes={"units": {1: "time"}, "letters": {1: "frames"}},
        opset_version=17,
        dynamo=False,
    )
    _state_shape(output)
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    worst = 0.0
    for length in (1, 2, 50, 301):
        units = torch.randint(0, network.options["inputs"], (1, length), generator=generator)
        with torch.no_grad():
            expected = network(units).exp().numpy()
        worst = max(worst, float(np.abs(np.exp(session.run(None, {"units": units.numpy()})[0]) - expected).max()))
    if worst > 1e-3:
        raise ValueError(f"{output}: probabilities differ from torch by {worst:.1e}")
    return worst


def _state_shape(path: Path) -> None:
    """Write down the output's shape, (1, frames, labels), which the exporter does not see through."""
    model = onnx.load(path)
    sizes = model.graph.output[0].type.tensor_type.shape.dim
    for size, value in ((sizes[0], 1), (sizes[2], LABELS)):
        size.dim_value = value
    onnx.save(model, path)
