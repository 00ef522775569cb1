"""Networks in the format of TensorFlow Lite, run by PyPI's ``ai-edge-litert`` (Apache-2.0), fetched into the cache.

Older files hold operations of TensorFlow's that this program lacks; it has its own of the same kind by now.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.train.data.attacks.wheels import module_of_package

PACKAGE = "ai-edge-litert==2.3.0"
DEPENDENCIES = ("backports.strenum==1.2.8", "flatbuffers==25.12.19")
FILE_IDENTIFIER = b"TFL3"
SEED = 1
"""Of the random numbers that some networks draw."""


class LiteNetwork:
    """The network in a file; its inputs take the shapes of what it is given."""

    def __init__(self, path: Path) -> None:
        content = _without_tensorflow(path.read_bytes())
        self._interpreter: Any = _module("interpreter").Interpreter(model_content=content, num_threads=1)

    def __call__(self, *inputs: NDArray[Any], output: int = 0) -> NDArray[np.float32]:
        """The network's ``output``, by its place.

        Raises:
            RuntimeError: it cannot compute with inputs of these shapes.
        """
        details = self._interpreter.get_input_details()
        for detail, value in zip(details, inputs, strict=True):
            self._interpreter.resize_tensor_input(detail["index"], value.shape)
        self._interpreter.allocate_tensors()
        for detail, value in zip(details, inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], value)
        self._interpreter.invoke()
        place = self._interpreter.get_output_details()[output]["index"]
        return np.array(self._interpreter.get_tensor(place), np.float32)


def _without_tensorflow(content: bytes) -> bytes:
    """A file's content with TensorFlow's own operations replaced by those of the same kind that need none of it."""
    schema = _module("schema_py_generated")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    kinds, options = schema.BuiltinOperator, schema.BuiltinOptions
    replacements = {
        b"FlexAll": (kinds.REDUCE_ALL, options.ReducerOptions, schema.ReducerOptionsT()),
        b"FlexRandomUniform": (kinds.RANDOM_UNIFORM, options.RandomOptions, schema.RandomOptionsT(seed=SEED)),
    }
    for operator in (operator for graph in model.subgraphs for operator in graph.operators):
        name = model.operatorCodes[operator.opcodeIndex].customCode
        if name in replacements:
            _, operator.builtinOptionsType, operator.builtinOptions = replacements[name]
            operator.customOptions = None
    for code in model.operatorCodes:
        if code.customCode in replacements:
            code.builtinCode, *_ = replacements[code.customCode]
            code.deprecatedBuiltinCode = kinds.PLACEHOLDER_FOR_GREATER_OP_CODES
            code.customCode = None
    builder = importlib.import_module("flatbuffers").Builder()
    builder.Finish(model.Pack(builder), file_identifier=FILE_IDENTIFIER)
    return bytes(builder.Output())


def _module(name: str) -> ModuleType:
    return module_of_package(
        PACKAGE,
        f"ai_edge_litert.{name}",
        "litert-package",
        needs="it has wheels for Linux and macOS with Python 3.10 to 3.14",
        dependencies=DEPENDENCIES,
    )
