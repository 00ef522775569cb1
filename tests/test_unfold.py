"""An exported identity network becomes trainable again: the same function, its batch normalisations alive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tools.train.export.identity import OPSET, export_network, store_in_half
from tools.train.int8 import quantise
from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from tools.train.unfold import read_weights, unfold
from tools.train.widen import widened

SHAPE = Shape((4, 6, 8, 10), 12, normalise_input=True, deviation=True)


def trained(seed: int = 0) -> DeepSpeaker:
    """A network whose normalisations have seen something."""
    torch.manual_seed(seed)
    network = DeepSpeaker(SHAPE)
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.2, 0.4)
    for _ in range(3):
        network(torch.randn(8, 120, 64, 1))
    return network.eval()


@pytest.mark.parametrize("half", [False, True])
def test_unfolded_network_is_the_same_function_and_trainable(tmp_path: Path, half: bool) -> None:
    original, path = trained(), tmp_path / "network.onnx"
    export_network([original], path)
    if half:
        store_in_half(path)
    features = torch.randn(16, 120, 64, 1)
    copy = DeepSpeaker(SHAPE)
    unfold(copy, path, features)
    other = torch.randn(4, 97, 64, 1)
    with torch.inference_mode():
        torch.testing.assert_close(copy.eval()(other), original(other), atol=3e-3 if half else 1e-5, rtol=0)
        torch.testing.assert_close(copy.train()(features), copy.eval()(features), atol=3e-3, rtol=0)


def test_a_committee_in_integers_unfolds_member_by_member(tmp_path: Path) -> None:
    features = torch.randn(16, 120, 64, 1)
    wide = widened(trained(), (4, 8, 8, 12))
    members, path = [wide, trained(seed=1)], tmp_path / "network.onnx"
    export_network(members, path)
    quantise(path, [{"features": f[None].numpy(), "stretches": np.array([[0, 8]])} for f in features])
    store_in_half(path)
    assert [weights.shape for weights in read_weights(path)] == [wide.shape, SHAPE]
    for number, member in enumerate(members):
        for chosen in (number, None):  # None: the first of that shape
            copy = DeepSpeaker(member.shape)
            unfold(copy, path, features, chosen)
            with torch.inference_mode():
                cosine = torch.nn.functional.cosine_similarity(copy.eval()(features), member(features))
            assert 0.99 < cosine.min() < 1


def test_a_graph_of_features_alone_unfolds_too(tmp_path: Path) -> None:
    original, path = trained(), tmp_path / "network.onnx"
    features = torch.randn(16, 120, 64, 1)
    torch.onnx.export(original, (features,), str(path), opset_version=OPSET, dynamo=False)
    copy = DeepSpeaker(SHAPE)
    unfold(copy, path, features)
    with torch.inference_mode():
        torch.testing.assert_close(copy.eval()(features), original(features), atol=1e-5, rtol=0)


def test_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    export_network([trained()], path)
    other = DeepSpeaker(Shape((4, 6, 8, 12), 12, normalise_input=True, deviation=True))
    with pytest.raises(SystemExit, match="not an exported deep speaker"):
        unfold(other, path, torch.randn(2, 60, 64, 1))
