"""ONNX Runtime sessions: thread count and spinning set on purpose, names and shapes checked at start-up."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from voiceid.errors import ModelError
from voiceid.models.store import VerifiedModel


class Session:
    """A verified model, ready to run on the CPU."""

    def __init__(self, model: VerifiedModel, *, threads: int = 1) -> None:
        """Load ``model``.

        Raises:
            ModelError: not a valid ONNX file, or inputs and outputs differ from the card's.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        self.card = model.card
        try:
            self._session = onnxruntime.InferenceSession(str(model.onnx), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises classes of its own that share no public base
            raise ModelError(f"{model.onnx}: not a loadable ONNX model ({error}); reinstall it") from error
        _check_names(model, "inputs", self._session.get_inputs(), self.card.inputs)
        _check_names(model, "outputs", self._session.get_outputs(), self.card.outputs)

    def run(self, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run on named inputs; returns every output by name."""
        names = list(self.card.outputs)
        return dict(zip(names, self._session.run(names, inputs), strict=True))


def _check_names(model: VerifiedModel, kind: str, actual: list[Any], expected: dict[str, list[Any]]) -> None:
    found = {node.name: list(node.shape) for node in actual}
    if set(found) != set(expected):
        raise ModelError(f"{model.onnx}: {kind} are {sorted(found)}, the card says {sorted(expected)}")
    for name, shape in expected.items():
        fits = len(shape) == len(found[name]) and all(
            not isinstance(a, int) or not isinstance(b, int) or a == b for a, b in zip(shape, found[name], strict=True)
        )
        if not fits:
            raise ModelError(f"{model.onnx}: {kind[:-1]} {name!r} has shape {found[name]}, the card says {shape}")


def as_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    """Contiguous float32, as ONNX Runtime wants it."""
    return np.ascontiguousarray(array, dtype=np.float32)
