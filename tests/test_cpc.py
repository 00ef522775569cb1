"""The CPC network: its published layer names, its geometry, its loss, and its export."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tools.train.codebook import in_space, linear, phone_space, standard  # noqa: E402
from tools.train.export.units import export  # noqa: E402
from tools.train.networks.cpc import CPC, Criterion, load_checkpoint  # noqa: E402
from tools.train.networks.mel_encoder import (  # noqa: E402
    BANDS,
    FLOOR,
    HOP,
    LEFT,
    RECEPTIVE,
    MelEncoder,
    Perturber,
    triangles,
)
from tools.train.networks.phone_space import PRIOR, PhoneSpace  # noqa: E402
from tools.train.phones import PHONES  # noqa: E402


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
    assert model.options == {"width": width, "context": width, "layers": layers, "front": "convolutions"}
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


def speakers_phones(rng, offset):
    """Frames of phones 0 (silence) to 4, each about its own direction, all moved by ``offset``."""
    phones = rng.integers(0, 5, 2000)
    return 6 * np.eye(5)[phones] + offset * (phones > 0)[:, None] + rng.normal(0, 0.5, (2000, 5)), phones


def test_the_space_of_phones_takes_off_what_a_voice_adds():
    rng = np.random.default_rng(0)
    plain = [(x.astype("f"), phones.astype(np.int16)) for x, phones in (speakers_phones(rng, 0) for _ in range(3))]
    space = phone_space([x for x, _ in plain], 0, plain, 0)
    assert space.usual.shape == (2, len(PHONES), 5)
    np.testing.assert_allclose(space.usual[0, :5], 6 * np.eye(5), atol=0.1)
    offset = np.array([0, 1.5, -1.5, 1.5, -1.5])
    x, phones = speakers_phones(rng, offset)
    with torch.no_grad():
        moved = space.moved(torch.from_numpy(x.astype("f"))[None], space.start())[0][0].numpy()
    late = (phones > 0) & (np.arange(len(x)) > 1000)
    assert np.abs((moved - 6 * np.eye(5)[phones])[late].mean(axis=0)).max() < 0.25 < np.abs(offset[1])
    found = in_space(space, x.astype("f"))
    assert (found.argmax(axis=1) == phones).mean() > 0.98
    np.testing.assert_allclose(np.square(found).sum(axis=1), 1, atol=1e-4)


def test_the_space_of_phones_hears_a_stream_as_the_whole_and_nothing_in_silence():
    rng = np.random.default_rng(1)
    usual = torch.from_numpy(rng.normal(0, 1, (2, 6, 4)))
    space = PhoneSpace(torch.from_numpy(rng.normal(0, 2, (6, 4))), torch.zeros(6), usual)
    x = torch.from_numpy(rng.normal(0, 1, (1, 90, 4)).astype("f"))
    whole, _ = space(x, space.start())
    parts, state = [], space.start()
    for start in range(0, 90, 30):
        part, state = space(x[:, start : start + 30], state)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)
    deaf = PhoneSpace(torch.zeros(6, 4), torch.tensor([50.0, 0, 0, 0, 0, 0]), usual)
    silence, _ = deaf.moved(x, deaf.start())
    torch.testing.assert_close(silence, x)
    single = PhoneSpace(torch.zeros(2, 4), torch.tensor([-50.0, 0]), torch.zeros(1, 2, 4))
    moved, _ = single.moved(torch.ones(1, int(PRIOR), 4), single.start())
    torch.testing.assert_close(moved[0, -1], torch.full((4,), 0.5))


def test_the_second_shape_hears_a_stream_as_it_hears_the_whole():
    torch.manual_seed(0)
    model = CPC(16, 24, front="mel").eval()
    samples = 0.1 * torch.randn(1, LEFT + 40 * HOP + RECEPTIVE)
    blocks, state = [], None
    with torch.no_grad():
        whole, encoded, _ = model(samples[:, : RECEPTIVE + 39 * HOP], padded=False)
        for start in range(0, 40, 8):
            part = samples[:, start * HOP : start * HOP + RECEPTIVE + 7 * HOP]
            context, _, state = model(part, state, padded=False)
            blocks.append(context)
    assert whole.shape == (1, 40, model.gAR.dimensions) and encoded.shape == (1, 40, 16)
    torch.testing.assert_close(torch.cat(blocks, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_a_checkpoint_of_the_second_shape_loads(tmp_path):
    model = CPC(16, 24, front="mel")
    torch.save({"gEncoder": model.state_dict()}, tmp_path / "cpc.pt")
    loaded, _ = load_checkpoint(tmp_path / "cpc.pt")
    assert loaded.options == model.options
    torch.testing.assert_close(loaded.state_dict(), model.state_dict())


def test_log_mel_of_a_tone_and_of_silence():
    encoder = MelEncoder(4)
    time = torch.arange(RECEPTIVE + 9 * HOP) / 16_000
    tone = encoder.log_mel(0.1 * torch.sin(2 * torch.pi * 1000 * time)[None])
    assert tone.shape == (1, 10, BANDS)
    middles = (triangles().T @ torch.arange(257.0)) / triangles().sum(0) * 16_000 / 512
    assert abs(float(middles[tone[0, 5].argmax()]) - 1000) < 60
    silence = encoder.log_mel(torch.zeros(1, RECEPTIVE))
    torch.testing.assert_close(silence, torch.full((1, 1, BANDS), float(np.log(FLOOR))))


def test_perturbed_spectra_differ_and_keep_their_shape():
    spectra = torch.randn(3, 40, BANDS) - 6
    perturber = Perturber()
    one, two = (perturber(spectra, np.random.default_rng(seed)) for seed in (0, 1))
    assert one.shape == spectra.shape and torch.isfinite(one).all()
    assert not torch.allclose(one, spectra, atol=0.1) and not torch.allclose(one, two, atol=0.1)


@pytest.mark.parametrize("shape", ["convolutions", "mel", "phones"])
def test_export_agrees_with_torch(tmp_path, shape):
    checkpoint, output = tmp_path / "units.pt", tmp_path / "units.onnx"
    torch.manual_seed(0)
    space = {}
    if shape == "convolutions":
        state, dimensions = official_state(32, 1), 32
    else:
        network = CPC(32, 32, front="mel")
        state, dimensions = network.state_dict(), network.gAR.dimensions
    if shape == "phones":
        parts = torch.randn(7, dimensions), torch.randn(7), torch.randn(2, 7, dimensions)
        space, dimensions = dict(PhoneSpace(*parts).state_dict()), 7
    books = {str(k): {"weight": torch.randn(k, dimensions), "bias": torch.zeros(k)} for k in (50, 100, 200)}
    torch.save({"gEncoder": state, "codebooks": books, "space": space, "lookahead": 0}, checkpoint)
    assert export(checkpoint, output, block_frames=10) < 1e-4
    torch.save({"gEncoder": state}, checkpoint)
    with pytest.raises(ValueError, match="codebook"):
        export(checkpoint, output)
