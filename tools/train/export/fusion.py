"""Export of the fusion SVM to ONNX, checked against its NumPy form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from tools.train.fusion_svm import CLIP, FusionSvm

OPSET = 17
TOLERANCE = 1e-4
"""Largest difference of a probability that passes."""


def graph(machine: FusionSvm) -> onnx.ModelProto:
    """``llr`` (batch, 3) float32 to ``probability`` (batch, 1) float32; clipping, scale and calibration inside."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: ArrayLike) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(operator: str, *inputs: str, output: str) -> str:
        nodes.append(helper.make_node(operator, list(inputs), [output]))
        return output

    clipped = node("Clip", "llr", constant("lowest", -CLIP), constant("highest", CLIP), output="clipped")
    doubt = node("Softplus", node("Neg", clipped, output="against"), output="doubt")
    # The calibration joins the weights, and the sign of the doubt too.
    weighted = node("MatMul", doubt, constant("weights", -machine.scale * machine.weights[:, None]), output="weighted")
    bias = constant("bias", machine.scale * machine.bias + machine.offset)
    node("Sigmoid", node("Add", weighted, bias, output="log_odds"), output="probability")
    built = helper.make_graph(
        nodes,
        "fusion",
        [helper.make_tensor_value_info("llr", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 1])],
        constants,
    )
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="voiceid")
    model.ir_version = 9
    onnx.checker.check_model(model, full_check=True)
    return model


def export(checkpoint: Path, output: Path) -> float:
    """Write ``checkpoint`` (an .npz of :class:`FusionSvm`) to ``output``; returns the largest difference.

    Raises:
        ValueError: the graph's probabilities differ by more than :data:`TOLERANCE`.
    """
    machine = FusionSvm.load(checkpoint)
    onnx.save(graph(machine), output)
    llr = np.random.default_rng(0).uniform(-1.5 * CLIP, 1.5 * CLIP, (4096, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    (probability,) = session.run(["probability"], {"llr": llr})
    error = float(np.abs(probability[:, 0] - machine(llr)).max())
    if not error <= TOLERANCE:
        raise ValueError(f"{output}: probabilities differ from the SVM by {error:.1e}, more than {TOLERANCE:.0e}")
    return error
