"""Contrastive predictive coding of speech (van den Oord et al. 2018) in the form of Riviere et al. 2020 (CPC_audio).

Layer names follow CPC_audio, so that its published encoder weights load: ``gEncoder.conv0 .. conv4``,
``gEncoder.batchNorm0 .. 4`` (a channel norm), ``gAR.baseNet`` (an LSTM). One frame is 160 samples (100 Hz).
A second shape of the same method needs less speech and time to learn: a fixed log-mel front end for the first
convolutions, and causal convolutions for the LSTM (as in wav2vec: Schneider et al., Interspeech 2019).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.train.networks.mel_encoder import MelEncoder

Front = Literal["convolutions", "mel"]
State = tuple[Tensor, ...]

KERNELS, STRIDES, PADDINGS = (10, 8, 4, 4, 4), (5, 4, 2, 2, 2), (3, 2, 1, 1, 1)
SPREAD = 64
"""Dimensions of a context vector of the convolutional context network."""

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
    """The context network, a unidirectional LSTM: (B, T, width) to (B, T, context)."""

    STATE = ("hidden", "cell")
    delay = 0

    def __init__(self, width: int, context: int, layers: int = 1) -> None:
        super().__init__()
        self.baseNet = nn.LSTM(width, context, layers, batch_first=True)
        self.dimensions = context

    def start(self) -> State:
        """State at the start of one stream."""
        zeros = torch.zeros(self.baseNet.num_layers, 1, self.baseNet.hidden_size)
        return zeros, zeros.clone()

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        output: tuple[Tensor, State] = self.baseNet(x, state)
        return output


class ConvolutionalContext(nn.Module):
    """A context network of causal convolutions: (B, T, width) to (B, T, ``SPREAD``), for even T.

    The first layer halves the rate; a linear layer spreads each step's output over its two frames, both of which have
    then heard the second. In use, not in training, a vector is the mean of ``SMOOTH`` frames, ``delay`` frames late:
    units change half as often and say more of the phones. The state is what the layers remember, laid end to end.
    """

    STATE = ("past",)
    SHAPES = ((8, 2, 1), (3, 1, 2), (3, 1, 4))
    """Kernel, stride and dilation of each layer."""
    SMOOTH = 5
    delay = SMOOTH // 2

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        sizes = [width] + [context] * (len(self.SHAPES) - 1)
        self.layers = nn.ModuleList(
            nn.Linear(size * kernel, context) for size, (kernel, _, _) in zip(sizes, self.SHAPES, strict=True)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(context) for _ in sizes)
        self.spread = nn.Linear(context, 2 * SPREAD)
        self.dimensions = SPREAD
        lengths = [(kernel - 1) * dilation + 1 - stride for kernel, stride, dilation in self.SHAPES]
        self.memory = [*zip(lengths, sizes, strict=True), (self.SMOOTH - 1, SPREAD)]

    def start(self) -> State:
        """State at the start of one stream."""
        return (torch.zeros(1, sum(length * size for length, size in self.memory)),)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        batch, frames, _ = x.shape
        past = (self.start() if state is None else state)[0].expand(batch, -1)
        parts = past.split([length * size for length, size in self.memory], dim=1)
        remembered = []
        for layer, norm, (kernel, stride, dilation), (length, size), part in zip(
            self.layers, self.norms, self.SHAPES, self.memory[:-1], parts[:-1], strict=True
        ):
            heard = torch.cat((part.reshape(batch, length, size), x), dim=1)
            remembered.append(heard[:, -length:].reshape(batch, -1))
            steps = x.shape[1] // stride
            taps = [heard[:, k * dilation :][:, : (steps - 1) * stride + 1 : stride] for k in range(kernel)]
            y = layer(torch.cat(taps, dim=2))
            y = F.relu(norm(y.flatten(0, 1)).reshape(y.shape))
            x = y if stride > 1 else x + y
        context = self.spread(x).reshape(batch, frames, SPREAD)
        heard = torch.cat((parts[-1].reshape(batch, -1, SPREAD), context), dim=1)
        remembered.append(heard[:, 1 - self.SMOOTH :].reshape(batch, -1))
        if not self.training:
            context = torch.stack([heard[:, i : i + frames] for i in range(self.SMOOTH)]).mean(0)
        return context, (torch.cat(remembered, dim=1),)


class CPC(nn.Module):
    """Encoder and context network: those of the original (width 256, one or two LSTM layers), or with front ``mel`` the
    second shape."""

    def __init__(
        self, width: int = 256, context: int | None = None, layers: int = 1, front: Front = "convolutions"
    ) -> None:
        super().__init__()
        context = context or width
        self.options = {"width": width, "context": context, "layers": layers, "front": front}
        self.gEncoder = MelEncoder(width) if front == "mel" else Encoder(width)
        self.gAR = ConvolutionalContext(width, context) if front == "mel" else Autoregressor(width, context, layers)

    def forward(
        self, samples: Tensor, state: State | None = None, *, padded: bool = True
    ) -> tuple[Tensor, Tensor, State]:
        """(B, samples) to context (B, T, dimensions), encoding (B, T, width) and the context network's state."""
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
    if "gEncoder.conv0.weight" in state and "gAR.baseNet.weight_hh_l0" in state:
        layers = sum(name.startswith("gAR.baseNet.weight_hh_l") for name in state)
        model = CPC(state["gEncoder.conv0.weight"].shape[0], state["gAR.baseNet.weight_hh_l0"].shape[1], layers)
    elif "gEncoder.project.weight" in state and "gAR.layers.0.weight" in state:
        model = CPC(state["gEncoder.project.weight"].shape[0], state["gAR.layers.0.weight"].shape[0], 1, "mel")
    else:
        raise ValueError(f"{path}: no CPC encoder (gEncoder.conv0.weight, gAR.baseNet.weight_hh_l0) in this checkpoint")
    model.load_state_dict({name: tensor for name, tensor in state.items() if name in model.state_dict()})
    return model.eval(), checkpoint
