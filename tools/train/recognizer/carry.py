"""Carry an exported recogniser over to the units of another model, as a checkpoint to start from.

``python -m tools.train.recognizer.carry OUTPUT --words CARD --from UNITS``: the weights are read from the exported
file, and what a new unit means is the mean of what the old ones mean that were heard in its place.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor
from tqdm import tqdm

from tools.train.networks.words import WordNetwork
from tools.train.units_data import READ, load_speech, training_items
from voiceid.models.store import find_model
from voiceid.units.tokenizer import Tokenizer


def unfold(exported: Path) -> WordNetwork:
    """The network of a file of tools.train.export.words, without its phone head."""
    graph = onnx.load(exported).graph
    stored = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in stored:  # equal weights are stored once
            stored[node.output[0]] = stored[node.input[0]]
    (recurrent,) = (node for node in graph.node if node.op_type == "GRU")
    (head,) = (node for node in graph.node if node.op_type == "MatMul")
    inputs, hidden, bias = (stored.pop(name) for name in recurrent.input[1:4])
    stored["head.weight"] = stored.pop(head.input[1]).T
    for direction, suffix in enumerate(("", "_reverse")):
        stored[f"context.weight_ih_l0{suffix}"] = _gates(inputs[direction])
        stored[f"context.weight_hh_l0{suffix}"] = _gates(hidden[direction])
        first, second = bias[direction].chunk(2)
        stored[f"context.bias_ih_l0{suffix}"], stored[f"context.bias_hh_l0{suffix}"] = _gates(first), _gates(second)
    network = WordNetwork("units", len(stored["front.weight"]) - 1, len(stored["down.bias"]), hidden.shape[2])
    network.load_state_dict(stored)
    return network.eval()


def _gates(weights: Tensor) -> Tensor:
    """ONNX's order of gates (update, reset, new) as PyTorch's (reset, update, new)."""
    update, reset, new = weights.chunk(3)
    return torch.cat((reset, update, new))


def together(old: Tokenizer, new: Tokenizer, codebook: int, speech: list[NDArray[np.float32]]) -> NDArray[np.float64]:
    """How often each new unit (rows) is heard where each old one (columns) is."""
    counts = np.zeros((codebook, codebook))
    for samples in tqdm(speech, desc="units", unit="utterance"):
        np.add.at(counts, (new.encode(samples, codebook), old.encode(samples, codebook)), 1)
    return counts


def translated(front: Tensor, counts: NDArray[np.float64]) -> Tensor:
    """Embeddings (units + 1, narrow) of the new units; that of the unknown one stays."""
    share = torch.from_numpy(counts / counts.sum(axis=1, keepdims=True).clip(1)).to(front)
    return torch.cat((share @ front[:-1], front[-1:]))


def main() -> None:
    """Write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--words", default="words", help="card of the recogniser, a name or a path")
    parser.add_argument("--from", dest="old", required=True, help="card of the units that it was trained on")
    parser.add_argument("--to", default="units", help="card of the units to come")
    parser.add_argument("--cache", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--utterances", type=int, default=200)
    arguments = parser.parse_args()
    model = find_model(arguments.words, "words")
    network = unfold(model.folder / model.card.file)
    items = training_items()
    speech = load_speech(items, arguments.cache)
    read = [i for i, item in enumerate(items) if item.set.startswith(READ)]
    chosen = np.random.default_rng(0).permutation(read)[: arguments.utterances]
    old, new = (Tokenizer(find_model(card, "units")) for card in (arguments.old, arguments.to))
    codebook = int(network.options["inputs"])
    counts = together(old, new, codebook, [speech.utterance(int(i)) for i in chosen])
    state: dict[str, Any] = network.state_dict()
    state["front.weight"] = translated(state["front.weight"], counts)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"network": state, "options": network.options}, arguments.output)


if __name__ == "__main__":
    main()
