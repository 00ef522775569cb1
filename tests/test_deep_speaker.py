"""The ResCNN against a slow NumPy rendering of the Keras original, its weights, and its export."""

from pathlib import Path

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from scipy.signal import correlate

from tools.train.export.identity import export, export_network, parity_error, store_in_half
from tools.train.int8 import quantise
from tools.train.networks.deep_speaker import ORIGINAL, DeepSpeaker, Shape, StretchEmbedder, load_keras

CHANNELS = (2, 3, 4, 6)
SMALL = Shape(CHANNELS, embedding=5)


def keras_layers(rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Random weights by the layer names of philipperemy/deep-speaker, narrow."""
    layers: dict[str, dict[str, np.ndarray]] = {}

    def convolution(name: str, size: int, inputs: int, outputs: int) -> None:
        layers[name] = {
            "kernel": rng.normal(0, 0.4, (size, size, inputs, outputs)),
            "bias": rng.normal(0, 0.2, outputs),
        }
        layers[f"{name}_bn"] = {
            "gamma": rng.uniform(0.5, 1.5, outputs),
            "beta": rng.normal(0, 0.3, outputs),
            "moving_mean": rng.normal(0, 0.3, outputs),
            "moving_variance": rng.uniform(0.5, 2, outputs),
        }

    previous = 1
    for stage, width in enumerate(CHANNELS, start=1):
        convolution(f"conv{width}-s", 5, previous, width)
        for block in range(3):
            convolution(f"res{stage}_{block}_branch_2a", 3, width, width)
            convolution(f"res{stage}_{block}_branch_2b", 3, width, width)
        previous = width
    layers["affine"] = {"kernel": rng.normal(0, 0.2, (4 * previous, 5)), "bias": rng.normal(0, 0.2, 5)}
    return layers


def write_h5(path: Path, layers: dict[str, dict[str, np.ndarray]], group: str = "") -> Path:
    with h5py.File(path, "w") as file:
        root = file.create_group(group) if group else file
        for layer, variables in layers.items():
            for name, array in variables.items():
                root[f"{layer}/{layer}/{name}:0"] = array.astype(np.float32)
        root.create_group("clipped_relu_0")
    return path


def same_convolution(x: np.ndarray, weights: dict[str, np.ndarray], stride: int) -> np.ndarray:
    """TensorFlow's SAME convolution of x (T, F, C), by its documented padding formula."""
    kernel = weights["kernel"]
    size = kernel.shape[0]
    pads = []
    for length in x.shape[:2]:
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        pads.append((total // 2, total - total // 2))
    x = np.pad(x, (*pads, (0, 0)))
    maps = [correlate(x, kernel[..., o], mode="valid")[::stride, ::stride, 0] for o in range(kernel.shape[3])]
    return np.stack(maps, axis=-1) + weights["bias"]


def slow_network(layers: dict[str, dict[str, np.ndarray]], features: np.ndarray) -> np.ndarray:
    def unit(x: np.ndarray, name: str, stride: int = 1) -> np.ndarray:
        norm = layers[f"{name}_bn"]
        y = same_convolution(x, layers[name], stride)
        y = (y - norm["moving_mean"]) / np.sqrt(norm["moving_variance"] + 1e-3) * norm["gamma"] + norm["beta"]
        return np.clip(y, 0, 20)

    x = features
    for stage, width in enumerate(CHANNELS, start=1):
        x = unit(x, f"conv{width}-s", 2)
        for block in range(3):
            name = f"res{stage}_{block}_branch_2"
            x = np.clip(unit(unit(x, name + "a"), name + "b") + x, 0, 20)
    pooled = x.reshape(len(x), -1).mean(axis=0)
    embedding = pooled @ layers["affine"]["kernel"] + layers["affine"]["bias"]
    return embedding / np.linalg.norm(embedding)


@pytest.fixture
def layers() -> dict[str, dict[str, np.ndarray]]:
    return keras_layers(np.random.default_rng(3))


@pytest.mark.parametrize("group", ["", "model_weights"])
def test_keras_weights_give_the_original_at_any_length(tmp_path, layers, group):
    network = load_keras(write_h5(tmp_path / "checkpoint.h5", layers, group))
    assert network.shape == SMALL
    for frames in (16, 33, 61, 80):
        features = np.random.default_rng(frames).normal(size=(frames, 64, 1))
        with torch.inference_mode():
            actual = network(torch.from_numpy(features[None]).float())[0].numpy()
        np.testing.assert_allclose(actual, slow_network(layers, features), atol=2e-5)


def test_softmax_head_is_left_out(tmp_path, layers):
    layers["dense"] = {"kernel": np.zeros((5, 9)), "bias": np.zeros(9)}
    assert load_keras(write_h5(tmp_path / "softmax.h5", layers)).affine.out_features == 5


def test_damaged_keras_weights_are_refused(tmp_path, layers):
    incomplete = {name: v for name, v in layers.items() if name != "res2_1_branch_2b"}
    with pytest.raises(SystemExit, match="'kernel' of layer 'res2_1_branch_2b'"):
        load_keras(write_h5(tmp_path / "a.h5", incomplete))
    with pytest.raises(SystemExit, match="no layer 'affine'"):
        load_keras(write_h5(tmp_path / "b.h5", {n: v for n, v in layers.items() if n != "affine"}))
    layers["conv3-s"]["kernel"] = layers["conv3-s"]["kernel"][:4]
    with pytest.raises(SystemExit, match="not a deep speaker ResCNN"):
        load_keras(write_h5(tmp_path / "c.h5", layers))


def test_original_shape():
    network = DeepSpeaker(ORIGINAL)
    assert sum(p.numel() for p in network.parameters()) == 24_172_288
    assert network.stages(torch.zeros(1, 1, 160, 64)).shape == (1, 512, 10, 4)


def test_input_normalisation_ignores_a_constant_channel():
    network = DeepSpeaker(Shape(CHANNELS, 5, normalise_input=True, deviation=True)).eval()
    features, colour = torch.randn(1, 90, 64, 1), torch.randn(1, 1, 64, 1)
    with torch.inference_mode():
        torch.testing.assert_close(network(features), network(features + colour), atol=1e-4, rtol=0)


def test_export_keeps_parity_at_every_length(tmp_path, layers):
    output = tmp_path / "network.onnx"
    assert export(write_h5(tmp_path / "checkpoint.h5", layers), output) < 1e-5
    model = onnx.load(output)
    strided = [n for n in model.graph.node if any(a.name == "strides" and list(a.ints) == [2, 2] for a in n.attribute)]
    assert len(strided) == 4
    assert all(any(a.name == "auto_pad" and a.s == b"SAME_UPPER" for a in n.attribute) for n in strided)


def test_half_precision_storage(tmp_path):
    torch.manual_seed(0)
    network = DeepSpeaker(Shape((4, 8, 16, 32), 16, normalise_input=True, deviation=True)).eval()
    output = tmp_path / "network.onnx"
    export_network([network], output)
    full = output.stat().st_size
    store_in_half(output)
    assert output.stat().st_size < 0.65 * full
    assert 0 < parity_error([network], output) < 5e-3
    inputs = {"features": np.ones((1, 77, 64, 1), "f4"), "stretches": np.array([[0, 5], [1, 2]])}
    (embeddings,) = onnxruntime.InferenceSession(str(output)).run(None, inputs)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), [1, 1], atol=1e-5)


def test_integers_keep_embeddings_and_take_a_quarter_of_the_space(tmp_path):
    torch.manual_seed(0)
    network = DeepSpeaker(Shape((8, 16, 32, 64), 16, normalise_input=True, deviation=True))
    speech = [torch.randn(4, 160, 64, 1).cumsum(dim=1) / 4 for _ in range(8)]
    for features in speech:
        network.train()(features)
    output = tmp_path / "network.onnx"
    export_network([network.eval()], output)
    full = output.stat().st_size
    quantise(output, [{"features": f[:1].numpy(), "stretches": np.array([[0, 10]])} for f in speech[:-1]])
    store_in_half(output)
    assert output.stat().st_size < 0.4 * full
    features = speech[-1][:1].numpy()
    (embedding,) = onnxruntime.InferenceSession(str(output)).run(
        None, {"features": features, "stretches": np.array([[0, 10]])}
    )
    with torch.inference_mode():
        expected = network(torch.from_numpy(features)).numpy()
    assert 0.99 < (embedding @ expected.T).item() < 0.999999
    assert 0 < parity_error([network], output, [features]) < 0.05


def test_weights_of_another_kind_are_refused(tmp_path, layers):
    with pytest.raises(SystemExit, match="weights is 'int4'; use float32, float16 or int8"):
        export(write_h5(tmp_path / "checkpoint.h5", layers), tmp_path / "network.onnx", weights="int4")


@pytest.mark.parametrize("deviation", [False, True])
def test_stretches_are_pooled_from_their_own_frames(deviation):
    torch.manual_seed(0)
    network = DeepSpeaker(Shape(CHANNELS, 5, normalise_input=True, deviation=deviation)).eval()
    features = torch.randn(1, 150, 64, 1)
    with torch.inference_mode():
        frames = network.frames(features)[0]
        assert frames.shape == (10, CHANNELS[-1] * 4)
        embeddings = StretchEmbedder(network)(features, torch.tensor([[0, 10], [3, 8], [9, 10]]))
        torch.testing.assert_close(embeddings[:1], network(features), atol=1e-5, rtol=0)
        for embedding, part in zip(embeddings[1:], (frames[3:8], frames[9:]), strict=True):
            own = network.pool(part.mean(dim=0)[None], part.var(dim=0, correction=0)[None])[0]
            torch.testing.assert_close(embedding, own, atol=1e-5, rtol=0)
