"""Export an identity network to ONNX: a checkpoint of ours (``.pt``) or the original deep speaker's (``.h5``)."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper

from tools.train.identity import load_network
from tools.train.networks.deep_speaker import BANDS, DOWNSAMPLING, DeepSpeaker, StretchEmbedder, load_keras

OPSET = 17
FRAMES = (50, 98, 160, 161, 299, 498)
"""Lengths at which the exported model is compared with torch: even and odd, 0.5 to 5 s."""
FEATURES, STRETCHES, OUTPUT = "features", "stretches", "embedding"


def export(checkpoint: Path, output: Path, *, weights: str = "float32") -> float:
    """Write ``output``, a graph as :func:`export_network` makes it; returns the largest error.

    ``weights``: "float32", or "float16" to store them in half the space (they are computed with in 32 bits). The error
    is the largest difference of any embedding component from torch's, over the lengths ``FRAMES`` and in stretches.

    Raises:
        SystemExit: ``weights`` is neither.
    """
    if weights not in ("float32", "float16"):
        raise SystemExit(f"weights is {weights!r}; use float32 or float16")
    network = load_keras(checkpoint) if checkpoint.suffix == ".h5" else load_network(checkpoint)[0]
    export_network(network, output)
    if weights == "float16":
        store_in_half(output)
    return parity_error(network, output)


def export_network(network: DeepSpeaker, output: Path) -> None:
    """Trace ``network`` to ``output``: features (1, frames, 64, 1) and stretches (s, 2) to embedding (s, d).

    A stretch is from one and up to another pooled frame, of which there is one for 16 frames (0.16 s) and their rest.
    """
    network = network.to(memory_format=torch.contiguous_format)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            StretchEmbedder(network).eval(),
            (torch.zeros(1, 160, BANDS, 1), torch.tensor([[0, 10], [2, 8]])),
            str(output),
            opset_version=OPSET,
            dynamo=False,
            input_names=[FEATURES, STRETCHES],
            output_names=[OUTPUT],
            dynamic_axes={FEATURES: {1: "frames"}, STRETCHES: {0: "stretches"}, OUTPUT: {0: "stretches"}},
        )


def store_in_half(path: Path, least: int = 64) -> None:
    """Rewrite every float32 weight of at least ``least`` elements as float16 behind a cast, folded when loaded."""
    model = onnx.load(path)
    graph = model.graph
    casts = []
    for tensor in list(graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < least:
            continue
        stored = f"{tensor.name}_half"
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float16), stored))
        casts.append(helper.make_node("Cast", [stored], [tensor.name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def parity_error(network: DeepSpeaker, path: Path) -> float:
    """Largest absolute difference between torch's and ONNX Runtime's embeddings over ``FRAMES``.

    Each length is compared as a whole and in stretches, which torch pools from their frames alone.
    """
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    worst = 0.0
    for frames in FRAMES:
        features = rng.normal(size=(1, frames, BANDS, 1)).astype(np.float32)
        count = -(-frames // DOWNSAMPLING)
        half = count // 2
        stretches = np.array([(0, count), (0, half), (half, count), (1, count - 1)])
        with torch.inference_mode():
            y = network.frames(torch.from_numpy(features))
            parts = [y[:, start:end] for start, end in stretches[1:]]
            pooled = [network.pool(part.mean(dim=1), part.var(dim=1, correction=0)) for part in parts]
            expected = torch.cat([network(torch.from_numpy(features)), *pooled]).numpy()
        (actual,) = session.run([OUTPUT], {FEATURES: features, STRETCHES: stretches})
        worst = max(worst, float(np.abs(actual - expected).max()))
    return worst
