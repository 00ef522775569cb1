"""Export an identity network to ONNX: a checkpoint of ours (``.pt``) or the original deep speaker's (``.h5``)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor
from torch.nn import functional

from tools.train.data.corpus import read_index
from tools.train.identity import load_network
from tools.train.int8 import quantise
from tools.train.networks.deep_speaker import BANDS, DOWNSAMPLING, Committee, DeepSpeaker, StretchEmbedder, load_keras
from voiceid.audio import prepare, read_waveform
from voiceid.features.mel import deep_speaker_fbank, log_mel
from voiceid.types import SAMPLE_RATE, Samples

Features = NDArray[np.float32]

OPSET = 17
FRAMES = (50, 98, 160, 161, 299, 498)
"""Lengths at which the exported model is compared with torch: even and odd, 0.5 to 5 s."""
FEATURES, STRETCHES, OUTPUT = "features", "stretches", "embedding"


def export(checkpoint: Path, output: Path, *others: Path, weights: str = "float32") -> float:
    """Write ``output``, a graph as :func:`export_network` makes it; returns the largest error.

    With ``others``, checkpoints of the same teacher, they are read as a committee.

    ``weights``: "float32"; "float16" to store them in half the space (they are computed with in 32 bits); or "int8" for
    convolutions in integers (:mod:`tools.train.int8`), whose ranges are measured on training speech. The error
    is the largest difference of any embedding component from torch's, over the lengths ``FRAMES`` and in stretches; on
    noise, or with "int8" on speech.

    Raises:
        SystemExit: ``weights`` is none of them.
    """
    if weights not in ("float32", "float16", "int8"):
        raise SystemExit(f"weights is {weights!r}; use float32, float16 or int8")
    keras = checkpoint.suffix == ".h5"
    networks = [load_keras(path) if path.suffix == ".h5" else load_network(path)[0] for path in (checkpoint, *others)]
    export_network(networks, output)
    if weights == "float32":
        return parity_error(networks, output)
    spoken = None
    if weights == "int8":
        spoken = speech_features(deep_speaker_fbank if keras else log_mel)
        quantise(output, [{FEATURES: f, STRETCHES: np.array([[0, frames_pooled(f)]])} for f in spoken[len(FRAMES) :]])
        spoken = [features[:, :length] for features, length in zip(spoken, FRAMES, strict=False)]
    store_in_half(output)
    return parity_error(networks, output, spoken)


def speech_features(front_end: Callable[[Samples], Features], count: int = 100 + len(FRAMES)) -> list[Features]:
    """Features (1, t, 64, 1) of ``count`` training utterances of at most 5 s."""
    items = [item for item in read_index() if item.split == "train" and item.kind == "bonafide" and item.seconds >= 2]
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    spoken = [prepare(read_waveform(items[i].path)).samples[: 5 * SAMPLE_RATE] for i in chosen]
    spoken.sort(key=len, reverse=True)
    return [front_end(samples)[None, ..., None] for samples in spoken]


def frames_pooled(features: Features) -> int:
    """How many frames the network pools of ``features`` (1, t, 64, 1)."""
    return -(-features.shape[1] // DOWNSAMPLING)


def export_network(networks: Sequence[DeepSpeaker], output: Path) -> None:
    """Trace the committee of ``networks`` to ``output``.

    Its inputs are features (1, frames, 64, 1) and stretches (s, 2), its output embedding (s, d).

    A stretch is from one and up to another pooled frame, of which there is one for 16 frames (0.16 s) and their rest.
    """
    networks = [network.to(memory_format=torch.contiguous_format) for network in networks]
    traced = StretchEmbedder(networks[0]) if len(networks) == 1 else Committee(networks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            traced.eval(),
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


def parity_error(networks: Sequence[DeepSpeaker], path: Path, inputs: list[Features] | None = None) -> float:
    """Largest absolute difference between torch's and ONNX Runtime's embeddings of ``inputs``, by default noise.

    Each input (1, t, 64, 1) is compared as a whole and in stretches, which torch pools from their frames alone.
    """
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    if inputs is None:
        rng = np.random.default_rng(0)
        inputs = [rng.normal(size=(1, frames, BANDS, 1)).astype(np.float32) for frames in FRAMES]
    worst = 0.0
    for features in inputs:
        count = frames_pooled(features)
        half = count // 2
        stretches = np.array([(0, count), (0, half), (half, count), (1, count - 1)])
        with torch.inference_mode():
            members = [_embeddings(network, torch.from_numpy(features), stretches) for network in networks]
            expected = functional.normalize(torch.stack(members).sum(dim=0), dim=1).numpy()
        (actual,) = session.run([OUTPUT], {FEATURES: features, STRETCHES: stretches})
        worst = max(worst, float(np.abs(actual - expected).max()))
    return worst


def _embeddings(network: DeepSpeaker, features: Tensor, stretches: NDArray[np.int64]) -> Tensor:
    """Of each of ``stretches`` (s, 2) by the frames in it; the first is the whole."""
    y = network.frames(features)
    parts = [y[:, start:end] for start, end in stretches[1:]]
    pooled = [network.pool(part.mean(dim=1), part.var(dim=1, correction=0)) for part in parts]
    return torch.cat([network(features), *pooled])
