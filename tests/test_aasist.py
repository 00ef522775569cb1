"""AASIST: official weights, the light sibling, their layers and their export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional as F

from tools import export_onnx
from tools.train.export.spoofing import export, load_checkpoint, parity
from tools.train.networks.aasist import SAMPLES, SHAPES, Aasist, load_official
from tools.train.networks.filterbank import LogSpectrogram, PhaseSpectrogram, SincBank
from tools.train.networks.graph import GraphAttention, GraphPool
from tools.train.spoofing import begin_with, masked
from voiceid.audio import prepare, read_waveform
from voiceid.types import SAMPLE_RATE


@pytest.fixture(scope="module")
def official_light(reference: Path) -> Aasist:
    return load_official(torch.load(reference / "aasist" / "AASIST-L.pth", map_location="cpu", weights_only=True))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("light") / "last.pt"
    torch.save({"shape": "light", "average": Aasist(SHAPES["light"]).state_dict()}, path)
    return path


@pytest.mark.parametrize(("name", "parameters"), [("AASIST-L", 85_306), ("AASIST", 297_866)])
def test_official_weights_load_strictly_and_fill_every_parameter(reference: Path, name: str, parameters: int) -> None:
    model = load_official(torch.load(reference / "aasist" / f"{name}.pth", map_location="cpu", weights_only=True))
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_encoder_has_the_documented_shape(official_light: Aasist) -> None:
    with torch.inference_mode():
        bands = official_light.conv_time(torch.randn(1, SAMPLES) * 0.05)
        encoded = official_light.encoder(F.max_pool2d(bands.unsqueeze(1).abs(), 3))
    assert bands.shape == (1, 70, 64_472)
    assert encoded.shape == (1, 24, 23, 29)


def test_official_weights_tell_people_from_formant_synthesis(official_light: Aasist, corpus: Path) -> None:
    real = sorted((corpus / "ls-test-clean" / "ls121").glob("*.flac"))[:2]
    fake = sorted((corpus / "tts-engines").glob("*/*espeak*.flac"))[:2]
    windows = [np.resize(prepare(read_waveform(path)).samples, SAMPLES) for path in (*real, *fake)]
    with torch.inference_mode():
        logits = official_light(torch.from_numpy(np.stack(windows)))[:, 1]
    assert len(fake) == 2
    assert logits[:2].min() > logits[2:].max()


def test_first_norm_of_later_blocks_is_discarded(official_light: Aasist) -> None:
    block = official_light.encoder[1][0]
    x = torch.randn(1, 32, 23, 30)
    with torch.inference_mode():
        before = block(x)
        block.bn1.weight.mul_(5)
        after = block(x)
        block.bn1.weight.div_(5)
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def test_sinc_filters_pass_their_own_band() -> None:
    bank = SincBank().bank.squeeze(1).numpy()
    response = np.abs(np.fft.rfft(bank, 8_192))
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8_000 / 700), 71) / 2595) - 1)
    peaks = response[30:].argmax(1) * 16_000 / 8_192
    # Low filters are narrower than the main lobe of 129 taps, so that only wide ones peak inside their edges.
    assert np.all((peaks > edges[30:-1] - 60) & (peaks < edges[31:] + 60))


def test_log_spectrogram_ignores_gain_and_equals_its_exported_form(monkeypatch: pytest.MonkeyPatch) -> None:
    front_end = LogSpectrogram()
    waveform = torch.randn(2, 16_000, generator=torch.Generator().manual_seed(1))
    by_fft = front_end(waveform)
    assert by_fft.shape == (2, 256, 98)
    # Single bins come close to zero power, where the floor counts and float32 does not tell the two forms apart.
    assert (front_end(3 * waveform) - by_fft).abs().mean() < 1e-3
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    assert (front_end(waveform) - by_fft).abs().mean() < 1e-4


def test_graph_attention_against_loops_over_nodes() -> None:
    torch.manual_seed(2)
    layer = GraphAttention(6, 5, temperature=2.0, dropout=0.2).eval()
    nodes = torch.randn(1, 4, 6)
    rows = []
    with torch.inference_mode():
        for i in range(4):
            scores = [torch.tanh(layer.att_proj(nodes[0, i] * nodes[0, j])) @ layer.att_weight for j in range(4)]
            weights = torch.softmax(torch.cat(scores) / 2.0, dim=0)
            gathered = sum(w * nodes[0, j] for j, w in enumerate(weights))
            rows.append(layer.proj_with_att(gathered) + layer.proj_without_att(nodes[0, i]))
        expected = F.selu(layer.bn(torch.stack(rows)))
        torch.testing.assert_close(layer(nodes)[0], expected)


def test_graph_pool_keeps_the_best_nodes_in_order_of_score() -> None:
    pool = GraphPool(0.5, 1, dropout=0.0).eval()
    with torch.inference_mode():
        pool.proj.weight.fill_(1.0)
        pool.proj.bias.zero_()
        kept = pool(torch.tensor([[[0.1], [3.0], [-2.0], [1.0], [0.5]]]))
    expected = torch.tensor([3.0, 1.0]) * torch.sigmoid(torch.tensor([3.0, 1.0]))
    torch.testing.assert_close(kept[0, :, 0], expected)


def test_export_of_the_light_sibling_matches_torch(checkpoint: Path, tmp_path: Path) -> None:
    output = tmp_path / "light.onnx"
    assert export(checkpoint, output) < 1e-4
    assert output.stat().st_size < 2_000_000


def test_a_committee_is_the_mean_of_its_members_from_one_file(checkpoint: Path, tmp_path: Path) -> None:
    phase = tmp_path / "phase.pt"
    torch.save({"shape": "phase", "average": Aasist(SHAPES["phase"]).state_dict()}, phase)
    output = tmp_path / "committee.onnx"
    assert export(checkpoint, output, phase) < 1e-4
    waveform = (np.random.default_rng(0).standard_normal((2, SAMPLES)) * 0.05).astype(np.float32)
    (actual,) = onnxruntime.InferenceSession(output).run(["logits"], {"waveform": waveform})
    with torch.inference_mode():
        members = [load_checkpoint(path)(torch.from_numpy(waveform)) for path in (checkpoint, phase)]
    np.testing.assert_allclose(actual, (members[0] + members[1]) / 2, atol=1e-4)


def test_phase_of_a_tone_gives_its_frequency_and_of_a_click_its_place() -> None:
    front_end = PhaseSpectrogram()
    time = torch.arange(SAMPLES) / SAMPLE_RATE
    bins = front_end(0.1 * torch.sin(2 * torch.pi * 1_003 * time)[None])[0]
    nearest, spacing = 31, SAMPLE_RATE / front_end.size
    cosine, sine = bins[1:3, nearest, 50]
    advance = torch.atan2(sine, cosine) / (2 * torch.pi * front_end.hop / SAMPLE_RATE)
    assert (nearest + 1) * spacing + float(advance) == pytest.approx(1_003, abs=0.1)

    def delay(sample: int) -> float:
        """Samples from the centre of frame 50 to a click, by the phase from one bin to the next."""
        click = torch.zeros(1, SAMPLES)
        click[0, 50 * front_end.hop + sample] = 1.0
        cosine, sine = front_end(click)[0, 3:, 100, 50]
        return float(-torch.atan2(sine, cosine)) * front_end.size / (2 * torch.pi)

    assert delay(200) == pytest.approx(0, abs=0.01)
    assert delay(260) == pytest.approx(60, abs=0.01)
    level = LogSpectrogram()(torch.randn(1, SAMPLES) * 0.1)
    assert PhaseSpectrogram()(torch.zeros(1, SAMPLES)).abs().max() == 0 and level.shape[1:] == bins.shape[1:]


def test_the_phase_shape_can_begin_with_the_light_one() -> None:
    torch.manual_seed(2)
    light, phase = (Aasist(SHAPES[shape]).eval() for shape in ("light", "phase"))
    light.first_bn.running_var.fill_(4.0)
    begin_with(phase, light.state_dict())
    waveform = torch.randn(2, SAMPLES) * 0.05
    with torch.inference_mode():
        torch.testing.assert_close(phase(waveform), light(waveform), atol=1e-5, rtol=0)
    with pytest.raises(RuntimeError):
        begin_with(Aasist(SHAPES["AASIST-L"]), light.state_dict())


def test_a_mask_takes_the_same_of_all_channels() -> None:
    bands = torch.ones(8, 5, 64, 100)
    kept = masked(bands, np.random.default_rng(0))
    assert torch.equal(kept, kept[:, :1].expand_as(kept))
    assert torch.equal(kept[:, 0], masked(bands[:, 0], np.random.default_rng(0)))
    assert 0.1 < float(1 - kept.mean()) < 0.6


def test_export_of_official_weights_matches_torch(reference: Path, tmp_path: Path) -> None:
    export_onnx.main(["spoofing", str(reference / "aasist" / "AASIST-L.pth"), "-o", str(tmp_path / "l.onnx")])
    assert (tmp_path / "l.onnx").stat().st_size < 1_000_000


def test_parity_notices_other_weights(checkpoint: Path, tmp_path: Path) -> None:
    output = tmp_path / "light.onnx"
    export(checkpoint, output)
    model = load_checkpoint(checkpoint)
    with torch.no_grad():
        model.out_layer.bias.add_(0.01)
    assert parity(model, output) == pytest.approx(0.01, abs=1e-4)


def test_checkpoints_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pth"
    damaged.write_bytes(b"not a checkpoint")
    other = tmp_path / "other.pth"
    torch.save({"encoder.2.0.conv1.weight": torch.zeros(24, 32, 2, 3)}, other)
    for path, message in ((tmp_path / "none.pth", "no such"), (damaged, "plain tensors"), (other, "not the weights")):
        with pytest.raises(SystemExit, match=message):
            load_checkpoint(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["telepathy", "x.pt"], "invalid choice"),
        (["spoofing", "missing.pt"], "no such checkpoint"),
        (["spoofing", "pyproject.toml", "-o", "model.txt"], "must end in .onnx"),
        (["spoofing", "pyproject.toml", "--set", "colour=red"], "no option 'colour'"),
        (["spoofing", "pyproject.toml", "--set", "colour"], "NAME=VALUE"),
    ],
)
def test_dispatcher_explains_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        export_onnx.main(arguments)
    assert message in capsys.readouterr().err
