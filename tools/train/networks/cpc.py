"""Contrastive predictive coding of speech (van den Oord et al. 2018) in the form of Riviere et al. 2020 (CPC_audio).

Layer names follow CPC_audio, so that its published encoder weights load: ``gEncoder.conv0 .. conv4``,
``gEncoder.batchNorm0 .. 4`` (a channel norm), ``gAR.baseNet`` (an LSTM). One frame is 160 samples (100 Hz).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KERNELS, STRIDES, PADDINGS = (10, 8, 4, 4, 4), (5, 4, 2, 2, 2), (3, 2, 1, 1, 1)
HOP = 160
"""Samples a frame."""
RECEPTIVE = 465
"""Samples that one frame of the encoder sees."""
LEFT = 153
"""Samples of those before the frame's first; the remaining 312 start at it."""

SPEECH_RMS = 0.05
"""Of levelled speech; first weights are scaled by its inverse, else the first biases drown the signal in the norm."""


class ChannelNorm(nn.Module):
    """Normalises each frame over its channels, with unbiased variance and an affine map: (..., C) to (..., C).

    Layer norm divides by the biased deviation; the factor between the two moves into its weight and epsilon.
    """

    def __init__(self, channels: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, channels, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        channels = self.weight.shape[1]
        ratio = (channels - 1) / channels
        weight = self.weight.view(-1) * ratio**0.5
        return F.layer_norm(x, (channels,), weight, self.bias.view(-1), self.epsilon * ratio)


class Encoder(nn.Module):
    """Five strided convolutions, each with channel norm and ReLU: (B, 1, samples) to (B, width, frames).

    With ``padded`` each layer pads its input by zeros, as in training; without, only whole receptive fields count, so
    that a stream can be cut anywhere: frames = (samples - 465) // 160 + 1.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        for i, (kernel, stride) in enumerate(zip(KERNELS, STRIDES, strict=True)):
            self.add_module(f"conv{i}", nn.Conv1d(width if i else 1, width, kernel, stride))
            self.add_module(f"batchNorm{i}", ChannelNorm(width))
        with torch.no_grad():
            self.get_submodule("conv0").weight.mul_(1 / SPEECH_RMS)

    def forward(self, samples: Tensor, *, padded: bool = True) -> Tensor:
        x = samples[:, :, None]  # two-dimensional convolutions keep channels last, which is several times faster
        for i, (stride, padding) in enumerate(zip(STRIDES, PADDINGS, strict=True)):
            convolution, norm = self.get_submodule(f"conv{i}"), self.get_submodule(f"batchNorm{i}")
            weight = convolution.weight[:, :, None].contiguous(memory_format=torch.channels_last)
            x = x.contiguous(memory_format=torch.channels_last)
            x = F.conv2d(x, weight, convolution.bias, (1, stride), (0, padding if padded else 0))
            x = F.relu(norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return x[:, :, 0]


class Autoregressor(nn.Module):
    """The context network, a unidirectional LSTM: (B, T, width) to (B, T, width)."""

    def __init__(self, width: int, context: int, layers: int = 1) -> None:
        super().__init__()
        self.baseNet = nn.LSTM(width, context, layers, batch_first=True)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output: tuple[Tensor, tuple[Tensor, Tensor]] = self.baseNet(x, state)
        return output


class CPC(nn.Module):
    """Encoder and context network. The original has width 256 and one or two LSTM layers."""

    def __init__(self, width: int = 256, context: int | None = None, layers: int = 1) -> None:
        super().__init__()
        self.options = {"width": width, "context": context or width, "layers": layers}
        self.gEncoder = Encoder(width)
        self.gAR = Autoregressor(width, context or width, layers)

    def forward(
        self, samples: Tensor, state: tuple[Tensor, Tensor] | None = None, *, padded: bool = True
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """(B, samples) to context (B, T, context), encoding (B, T, width) and the LSTM's state (layers, B, context)."""
        encoded = self.gEncoder(samples[:, None], padded=padded).transpose(1, 2)
        context, state = self.gAR(encoded, state)
        return context, encoded, state


class Criterion(nn.Module):
    """InfoNCE over ``steps`` future frames; each step is predicted by its own one-layer causal transformer.

    The score of a candidate is the mean over channels of its product with the prediction (CPC_audio). Negatives are
    drawn, for every frame anew, from the windows of the same speaker alone.
    """

    def __init__(
        self, width: int, context: int, *, steps: int = 12, negatives: int = 128, feedforward: int = 256
    ) -> None:
        super().__init__()
        self.steps, self.negatives = steps, negatives
        self.transformers = nn.ModuleList(
            nn.TransformerEncoderLayer(context, 8, feedforward, dropout=0.0, batch_first=True) for _ in range(steps)
        )
        self.project = nn.ModuleList(nn.Linear(context, width, bias=False) for _ in range(steps))

    def forward(
        self, context: Tensor, encoded: Tensor, windows: int, chosen_steps: list[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Context (B, T, c) and encoding (B, T, w), ``windows`` neighbours a speaker: loss and accuracy per step.

        ``chosen_steps`` (numbers from 0) restricts one update to some of the steps, an unbiased saving of time.
        """
        batch, length, width = encoded.shape
        frames = length - self.steps
        mask = nn.Transformer.generate_square_subsequent_mask(frames, device=context.device)
        pool = encoded.reshape(batch // windows, windows * length, width).transpose(1, 2)
        chosen = torch.randint(
            windows * length, (batch // windows, windows * frames, self.negatives), device=pool.device
        )
        losses, hits = [], []
        for k in range(self.steps) if chosen_steps is None else chosen_steps:
            predicted = self.project[k](self.transformers[k](context[:, :frames], src_mask=mask, is_causal=True))
            positive = (predicted * encoded[:, k + 1 : k + 1 + frames]).float().mean(-1)
            products = torch.bmm(predicted.reshape(batch // windows, windows * frames, width), pool).float() / width
            negative = products.gather(2, chosen).view(batch, frames, self.negatives)
            losses.append((torch.logaddexp(positive, negative.logsumexp(-1)) - positive).mean())
            hits.append((positive > negative.amax(-1)).float().mean())
        return torch.stack(losses), torch.stack(hits)


def load_checkpoint(path: Path) -> tuple[CPC, dict[str, Any]]:
    """Read a CPC checkpoint: one of this project's, or a published CPC_audio ``.pt``.

    CPC_audio stores the encoder's state under ``gEncoder`` (training) or ``weights`` (release); the widths are read
    from its tensors. Returns the model and the whole checkpoint.

    Raises:
        ValueError: the file holds no CPC encoder.
    """
    checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    state = next((checkpoint[key] for key in ("weights", "gEncoder") if key in checkpoint), checkpoint)
    state = {name.removeprefix("module."): tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}
    if "gEncoder.conv0.weight" not in state or "gAR.baseNet.weight_hh_l0" not in state:
        raise ValueError(f"{path}: no CPC encoder (gEncoder.conv0.weight, gAR.baseNet.weight_hh_l0) in this checkpoint")
    layers = sum(name.startswith("gAR.baseNet.weight_hh_l") for name in state)
    model = CPC(state["gEncoder.conv0.weight"].shape[0], state["gAR.baseNet.weight_hh_l0"].shape[1], layers)
    model.load_state_dict({name: tensor for name, tensor in state.items() if name in model.state_dict()})
    return model.eval(), checkpoint
