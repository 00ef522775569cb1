"""Export of a committee of rank-transformed SVMs to ONNX, checked against its NumPy form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

from tools.train.rank_svm import CLIP, Committee, RankSvm, RankTransform

OPSET = 17
TOLERANCE = 1e-4
"""Largest difference of a score that passes."""


class Builder:
    """Collects nodes and constants; every method returns the name of what it made."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: ArrayLike, kind: type = np.float64) -> str:
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype=kind), name)
        return name

    def node(self, operator: str, *inputs: str, output: str, **attributes: int | list[int]) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def graph(model: Committee) -> onnx.ModelProto:
    """``features`` (batch, d) float32 to ``score`` (batch, 1) float32.

    Support vectors are stored in half precision; the arithmetic is double, since a sum over thousands of kernels would
    lose four digits in single.
    """
    builder = Builder()
    node, constant = builder.node, builder.constant
    transform = model.machines[0].transform
    double = node("Cast", "features", output="double", to=TensorProto.DOUBLE)
    ranks = _ranks(builder, double, transform)
    clips = (constant("lowest", -CLIP), constant("highest", CLIP))
    scores = [
        node("Clip", _machine(builder, ranks, machine, f"_{index}"), *clips, output=f"clipped_{index}")
        for index, machine in enumerate(model.machines)
    ]
    total = node("Sum", *scores, output="sum")
    mean = node("Mul", total, constant("share", 1 / len(scores)), output="mean")
    node("Cast", mean, output="score", to=TensorProto.FLOAT)
    built = helper.make_graph(
        builder.nodes,
        "liveness",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", transform.knots.shape[1]])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 1])],
        list(builder.constants.values()),
    )
    proto = helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="voiceid")
    proto.ir_version = 8
    onnx.checker.check_model(proto)
    return proto


def _ranks(builder: Builder, x: str, transform: RankTransform) -> str:
    """The sum over a column's intervals: value_0 + sum_k slope_k (clamp(x, knot_k, knot_k+1) - knot_k)."""
    node, constant = builder.node, builder.constant
    knots, values = transform.knots, transform.values
    width = np.diff(knots, axis=0)
    slope = np.divide(np.diff(values, axis=0), width, out=np.zeros_like(width), where=width > 0)
    exact = constant("knots", knots, np.float32)
    double = node("Cast", exact, output="knots_double", to=TensorProto.DOUBLE)
    zero, one, last = (constant(f"index_{i}", [i], np.int64) for i in (0, 1, len(knots) - 1))
    end = constant("index_end", [len(knots)], np.int64)
    lower = node("Slice", double, zero, last, zero, output="lower")
    upper = node("Slice", double, one, end, zero, output="upper")
    wide = node("Unsqueeze", x, one, output="wide")
    inside = node("Min", node("Max", wide, lower, output="above"), upper, output="inside")
    rise = node("Mul", node("Sub", inside, lower, output="part"), constant("slope", slope), output="rise")
    risen = node("ReduceSum", rise, one, output="risen", keepdims=0)
    return node("Add", risen, constant("first", values[0]), output="ranks")


def _machine(builder: Builder, ranks: str, machine: RankSvm, tag: str) -> str:
    """One machine's score (batch, 1); columns of weight 0 are left out."""

    def node(operator: str, *inputs: str, output: str, **attributes: int | list[int]) -> str:
        return builder.node(operator, *inputs, output=output + tag, **attributes)

    def constant(name: str, value: ArrayLike, kind: type = np.float64) -> str:
        return builder.constant(name + tag, value, kind)

    used = np.flatnonzero(machine.weights)
    support = machine.support[:, used]
    own = node("Gather", ranks, constant("used", used, np.int64), output="own", axis=1)
    scaled = node("Mul", own, constant("weights", machine.weights[used]), output="scaled")
    norm = node("ReduceSumSquare", scaled, output="norm", axes=[1], keepdims=1)
    stored = constant("support", support.T, np.float16)
    vectors = node("Cast", stored, output="vectors", to=TensorProto.DOUBLE)
    product = node("MatMul", scaled, vectors, output="product")
    twice = node("Mul", product, constant("two_gamma", 2 * machine.gamma), output="twice")
    size = node("Mul", norm, constant("gamma", machine.gamma), output="size")
    squares = constant("squares", machine.gamma * (support**2).sum(axis=1))
    exponent = node("Sub", node("Sub", twice, size, output="difference"), squares, output="exponent")
    kernel = node("Exp", exponent, output="kernel")
    weighted = node("MatMul", kernel, constant("dual", machine.dual[:, None]), output="weighted")
    return node("Add", weighted, constant("bias", [machine.bias]), output="total")


def export(checkpoint: Path, output: Path, *, seed: int = 0) -> float:
    """Write the ``.npz`` of a :class:`Committee` as ONNX.

    Returns the largest absolute difference of scores between ONNX Runtime (float32) and NumPy (float64) over features
    drawn between the outermost knots and a little beyond.

    Raises:
        SystemExit: the checkpoint cannot be used, or the difference exceeds 1e-4.
    """
    model = Committee.load(checkpoint)
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph(model), str(output))
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    probe = probe_features(model.machines[0].transform, np.random.default_rng(seed))
    scores = session.run(["score"], {"features": probe})[0][:, 0]
    error = float(np.abs(scores - model(probe)).max())
    if error > TOLERANCE:
        raise SystemExit(
            f"{output}: scores differ by {error:.1e} from the checkpoint's; at most {TOLERANCE:.0e} passes"
        )
    return error


def probe_features(transform: RankTransform, rng: np.random.Generator, *, count: int = 512) -> NDArray[np.float32]:
    """Plausible features (count, d): random places between the knots, for an eighth of the rows also beyond."""
    knots = transform.knots
    place = rng.integers(0, len(knots) - 1, (count, knots.shape[1]))
    part = rng.random((count, knots.shape[1]))
    low, high = np.take_along_axis(knots, place, axis=0), np.take_along_axis(knots, place + 1, axis=0)
    spread = low + part * (high - low)
    spread[: count // 8] += rng.normal(0, 1, (count // 8, knots.shape[1])) * np.ptp(knots, axis=0)
    return spread.astype(np.float32)
