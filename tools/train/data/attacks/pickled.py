"""Tensors of modules that PyTorch pickled whole, by their names. Nothing in such a file is imported or run."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def tensors_of(path: Path) -> dict[str, Tensor]:
    """Parameters and buffers of the module in ``path``, as its own `state_dict` would name them.

    Raises:
        pickle.UnpicklingError: the file holds something else.
    """
    with zipfile.ZipFile(path) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        with archive.open(f"{folder}/data.pkl") as file:
            module = _Reader(file, archive, folder).load()
    if not isinstance(module, _Unknown):
        raise pickle.UnpicklingError(f"{path} holds a {type(module).__name__}, not a module")
    return dict(_named(module, ""))


class _Unknown:
    """Stands for whatever class the file names: holds its state, does nothing."""

    state: dict[str, Any]

    def __init__(self, *arguments: object) -> None:
        self.state = {}

    def __call__(self, *arguments: object) -> _Unknown:
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state


def _named(module: _Unknown, prefix: str) -> Iterator[tuple[str, Tensor]]:
    for kind in ("_parameters", "_buffers"):
        for name, tensor in module.state.get(kind, {}).items():
            if isinstance(tensor, Tensor):
                yield prefix + name, tensor
    for name, child in module.state.get("_modules", {}).items():
        yield from _named(child, f"{prefix}{name}.")


def _tensor(storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *rest: object) -> Tensor:
    return storage.as_strided(size, stride, offset)


def _parameter(tensor: Tensor, *rest: object) -> Tensor:
    return tensor


TYPES = {"FloatStorage": torch.float32, "LongStorage": torch.int64}
KNOWN: dict[tuple[str, str], Callable[..., object]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if name in TYPES:
            return TYPES[name]
        return KNOWN.get((module, name), _Unknown)

    def persistent_load(self, reference: tuple[Any, ...]) -> Tensor:
        _, dtype, key, *_ = reference
        return torch.frombuffer(bytearray(self._archive.read(f"{self._folder}/data/{key}")), dtype=dtype)
