"""The CPC network: its published layer names, its geometry, its loss, and its export."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tools.train.codebook import linear, standard  # noqa: E402
from tools.train.export.units import export  # noqa: E402
from tools.train.networks.cpc import CPC, HOP, LEFT, RECEPTIVE, Criterion, load_checkpoint  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def official_state(width: int, layers: int) -> dict[str, "torch.Tensor"]:
    """Tensors named and shaped as CPC_audio's checkpoints have them."""
    generator = torch.Generator().manual_seed(1)
    state = {}
    for i, kernel in enumerate((10, 8, 4, 4, 4)):
        state[f"gEncoder.conv{i}.weight"] = torch.randn(width, width if i else 1, kernel, generator=generator) * 0.3
        state[f"gEncoder.conv{i}.bias"] = torch.randn(width, generator=generator) * 0.1
        state[f"gEncoder.batchNorm{i}.weight"] = 1 + torch.randn(1, width, 1, generator=generator) * 0.1
        state[f"gEncoder.batchNorm{i}.bias"] = torch.randn(1, width, 1, generator=generator) * 0.1
    for layer in range(layers):
        for name in ("ih", "hh"):
            state[f"gAR.baseNet.weight_{name}_l{layer}"] = torch.randn(4 * width, width, generator=generator) * 0.1
            state[f"gAR.baseNet.bias_{name}_l{layer}"] = torch.randn(4 * width, generator=generator) * 0.1
    return state


@pytest.mark.parametrize(("width", "layers", "key"), [(256, 2, "weights"), (32, 1, "gEncoder")])
def test_checkpoints_of_the_published_structure_load(tmp_path, width, layers, key):
    state = official_state(width, layers)
    path = tmp_path / "cpc.pt"
    torch.save({key: state, "config": {"hiddenEncoder": width, "nLevelsGRU": layers}}, path)
    model, _ = load_checkpoint(path)
    assert model.options == {"width": width, "context": width, "layers": layers}
    assert set(model.state_dict()) == set(state)
    samples = 0.1 * torch.randn(1, 1600, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        context, encoded, _ = model(samples)
        # the encoder again, written with torch's own padding and statistics
        x = samples[:, None]
        for i, (stride, padding) in enumerate(((5, 3), (4, 2), (2, 1), (2, 1), (2, 1))):
            layer = f"gEncoder.conv{i}"
            x = torch.conv1d(x, state[f"{layer}.weight"], state[f"{layer}.bias"], stride=stride, padding=padding)
            x = (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, keepdim=True, unbiased=True) + 1e-5)
            x = torch.relu(x * state[f"gEncoder.batchNorm{i}.weight"] + state[f"gEncoder.batchNorm{i}.bias"])
    assert context.shape == encoded.shape == (1, 10, width)
    torch.testing.assert_close(encoded, x.transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_a_checkpoint_without_cpc_is_refused(tmp_path):
    path = tmp_path / "other.pt"
    torch.save({"weights": {"linear.weight": torch.zeros(2, 2)}}, path)
    with pytest.raises(ValueError, match="no CPC encoder"):
        load_checkpoint(path)


def test_unpadded_frames_are_the_inner_padded_ones():
    model = CPC(16).eval()
    samples = 0.1 * torch.randn(1, 8000)
    with torch.no_grad():
        padded = model.gEncoder(samples[:, None])[0, :, 3:-3]
        whole = model.gEncoder(samples[:, None, 3 * HOP - LEFT :], padded=False)[0]
    assert whole.shape[1] == (8000 - 3 * HOP + LEFT - RECEPTIVE) // HOP + 1
    torch.testing.assert_close(whole[:, : padded.shape[1]], padded, atol=1e-5, rtol=1e-5)


def test_contrastive_loss_starts_at_chance_and_falls():
    torch.manual_seed(0)
    model, criterion = CPC(16), Criterion(16, 16, steps=2, negatives=31, feedforward=16)
    time = torch.arange(6400) / 16_000
    pitch = torch.tensor([[90.0], [140.0], [200.0], [260.0]])
    samples = 0.1 * torch.sin(2 * torch.pi * pitch * time + 30 * torch.sin(2 * torch.pi * 3 * time))
    optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()], 3e-3)
    losses = []
    for _ in range(20):
        context, encoded, _ = model(samples)
        loss = criterion(context, encoded, windows=2)[0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(np.log(32), abs=0.35)
    assert losses[-1] < losses[0] - 0.15


def test_linear_scores_choose_the_nearest_centroid():
    rng = np.random.default_rng(0)
    x, centroids = rng.normal(2, 3, (200, 8)).astype("f"), rng.normal(0, 1, (50, 8)).astype("f")
    matrix, offset = standard(x)
    scores = linear(matrix, offset, centroids)
    chosen = (torch.from_numpy(x) @ scores["weight"].T + scores["bias"]).argmax(1).numpy()
    distance = np.square((x @ matrix + offset)[:, None] - centroids[None]).sum(-1)
    np.testing.assert_array_equal(chosen, distance.argmin(1))


def test_export_agrees_with_torch(tmp_path):
    checkpoint, output = tmp_path / "units.pt", tmp_path / "units.onnx"
    torch.manual_seed(0)
    books = {str(k): {"weight": torch.randn(k, 32), "bias": torch.zeros(k)} for k in (50, 100, 200)}
    torch.save({"gEncoder": official_state(32, 1), "codebooks": books, "lookahead": 0}, checkpoint)
    assert export(checkpoint, output, block_frames=10) < 1e-5
    torch.save({"gEncoder": official_state(32, 1)}, checkpoint)
    with pytest.raises(ValueError, match="codebook"):
        export(checkpoint, output)
