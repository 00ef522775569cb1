"""Export of a rank-transformed SVM to ONNX, checked against its NumPy form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from tools.train.rank_svm import RankSvm

OPSET = 17
TOLERANCE = 1e-4
"""Largest difference of a score that passes."""


def graph(model: RankSvm) -> onnx.ModelProto:
    """``features`` (batch, d) float32 to ``score`` (batch, 1) float32.

    The rank transform is a sum over its intervals: value_0 + sum_k slope_k (clamp(x, knot_k, knot_k+1) - knot_k).
    Columns of weight 0 are left out. Support vectors are stored in half precision; the arithmetic is double, since a
    sum over thousands of kernels would lose four digits in single.
    """
    used = np.flatnonzero(model.weights)
    knots, values = model.transform.knots[:, used], model.transform.values[:, used] * model.weights[used]
    width = np.diff(knots, axis=0)
    slope = np.divide(np.diff(values, axis=0), width, out=np.zeros_like(width), where=width > 0)
    support = model.support[:, used]
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: ArrayLike, kind: type = np.float64) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def node(operator: str, *inputs: str, output: str, **attributes: int) -> str:
        nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    columns = node("Gather", "features", constant("used", used, np.int64), output="columns", axis=1)
    double = node("Cast", columns, output="double", to=TensorProto.DOUBLE)
    wide = node("Unsqueeze", double, constant("one", [1], np.int64), output="wide")
    above = node("Max", wide, constant("lower", knots[:-1]), output="above")
    inside = node("Min", above, constant("upper", knots[1:]), output="inside")
    part = node("Sub", inside, "lower", output="part")
    rise = node("Mul", part, constant("slope", slope), output="rise")
    risen = node("ReduceSum", rise, "one", output="risen", keepdims=0)
    ranks = node("Add", risen, constant("first", values[0]), output="ranks")
    norm = node("ReduceSumSquare", ranks, output="norm", axes=[1], keepdims=1)  # type: ignore[arg-type]
    stored = constant("support", support.T, np.float16)
    cross = node("MatMul", ranks, node("Cast", stored, output="vectors", to=TensorProto.DOUBLE), output="cross")
    twice = node("Mul", cross, constant("two_gamma", 2 * model.gamma), output="twice")
    own = node("Mul", norm, constant("gamma", model.gamma), output="own")
    difference = node("Sub", twice, own, output="difference")
    squares = constant("squares", model.gamma * (support**2).sum(axis=1))
    exponent = node("Sub", difference, squares, output="exponent")
    kernel = node("Exp", exponent, output="kernel")
    weighted = node("MatMul", kernel, constant("dual", model.dual[:, None]), output="weighted")
    total = node("Add", weighted, constant("bias", [model.bias]), output="total")
    node("Cast", total, output="score", to=TensorProto.FLOAT)
    size = len(model.weights)
    built = helper.make_graph(
        nodes,
        "liveness",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", size])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 1])],
        constants,
    )
    proto = helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="voiceid")
    proto.ir_version = 8
    onnx.checker.check_model(proto)
    return proto


def export(checkpoint: Path, output: Path, *, seed: int = 0) -> float:
    """Write the ``.npz`` of :class:`RankSvm` as ONNX.

    Returns the largest absolute difference of scores between ONNX Runtime (float32) and NumPy (float64) over features
    drawn between the outermost knots and a little beyond.

    Raises:
        SystemExit: the checkpoint cannot be used, or the difference exceeds 1e-4.
    """
    model = RankSvm.load(checkpoint)
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph(model), str(output))
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    probe = probe_features(model, np.random.default_rng(seed))
    scores = session.run(["score"], {"features": probe})[0][:, 0]
    error = float(np.abs(scores - model(probe)).max())
    if error > TOLERANCE:
        raise SystemExit(
            f"{output}: scores differ by {error:.1e} from the checkpoint's; at most {TOLERANCE:.0e} passes"
        )
    return error


def probe_features(model: RankSvm, rng: np.random.Generator, *, count: int = 512) -> np.ndarray:
    """Plausible features (count, d): random places between knots around the ranks of random support vectors."""
    knots = model.transform.knots
    place = rng.integers(0, len(knots) - 1, (count, knots.shape[1]))
    part = rng.random((count, knots.shape[1]))
    low, high = np.take_along_axis(knots, place, axis=0), np.take_along_axis(knots, place + 1, axis=0)
    spread = low + part * (high - low)
    spread[: count // 8] += rng.normal(0, 1, (count // 8, knots.shape[1])) * np.ptp(knots, axis=0)
    return spread.astype(np.float32)
