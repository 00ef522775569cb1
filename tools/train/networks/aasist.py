"""AASIST: spoofing detection from the waveform with graph attention over frequency and time.

Jung et al., "AASIST: Audio Anti-Spoofing using Integrated Spectro-Temporal Graph Attention Networks", ICASSP 2022
(arXiv 2110.01200). Attribute names follow the official checkpoints, so that they load with ``strict=True``; so do the
quirks that their weights depend on, each named where it occurs. The light shape keeps the graph back end, replaces the
front end by a log spectrogram, a strided stem and fewer residual blocks, and adds a linear read-out of statistics over
time of every level, which learns from far less data than the graph does. The phase shape is the light one that also
sees how the phase moves; the two are read as a committee.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.train.networks.filterbank import LogSpectrogram, PhaseSpectrogram, SincBank
from tools.train.networks.graph import GraphAttention, GraphPool, HeterogeneousGraphAttention
from tools.train.networks.statistics import LevelStatistics, statistics_size

SAMPLES = 64_600
"""Fixed input length (4.04 s at 16 kHz): scores shift with length, and top-k counts freeze when traced."""


Block = tuple[int, int, int, int]
FrontEnd = Literal["sinc", "log-spectrogram", "phase-spectrogram"]


@dataclass(frozen=True)
class AasistShape:
    """The sizes of one member of the family.

    ``blocks`` are (channels in, channels out, pooling over frequency, over time) of the residual encoder; ``pools``
    the fractions of nodes kept by the spectral pool, the temporal pool and all pools behind them; ``temperatures``
    those of the spectral, the temporal and the heterogeneous attentions. ``dropout`` scales the official rates.
    """

    front_end: FrontEnd
    blocks: tuple[Block, ...]
    graph_dims: tuple[int, int]
    pools: tuple[float, float, float]
    temperatures: tuple[float, float, float]
    spectral_nodes: int
    dropout: float = 1.0


def _official_blocks(width: int) -> tuple[Block, ...]:
    channels = (1, 32, 32, width, width, width, width)
    return tuple((before, after, 1, 3) for before, after in pairwise(channels))


def _light(front_end: FrontEnd) -> AasistShape:
    blocks, dims = ((16, 16, 2, 2), (16, 32, 2, 2), (32, 48, 1, 1)), (48, 32)
    return AasistShape(front_end, blocks, dims, (0.5, 0.5, 0.5), (2.0, 2.0, 100.0), 16, dropout=0.25)


SHAPES: dict[str, AasistShape] = {
    "AASIST": AasistShape("sinc", _official_blocks(64), (64, 32), (0.5, 0.7, 0.5), (2.0, 2.0, 100.0), 23),
    "AASIST-L": AasistShape("sinc", _official_blocks(24), (24, 32), (0.4, 0.5, 0.7), (2.0, 2.0, 100.0), 23),
    "light": _light("log-spectrogram"),
    "phase": _light("phase-spectrogram"),
}


class ResidualBlock(nn.Module):
    """Two 2x3 convolutions with a skip, then max pooling: (b, in, f, t) to (b, out, f // p, t // q).

    Quirk: blocks behind the first hold a ``bn1`` whose result the official forward pass throws away; it is kept for its
    weights and never run.
    """

    def __init__(
        self, channels_in: int, channels_out: int, pool_frequency: int, pool_time: int, *, first: bool
    ) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, (2, 3), padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, (2, 3), padding=(0, 1))
        if channels_in != channels_out:
            self.conv_downsample = nn.Conv2d(channels_in, channels_out, (1, 3), padding=(0, 1))
        self.pooling = (pool_frequency, pool_time)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.conv_downsample(x) if hasattr(self, "conv_downsample") else x
        y = self.conv2(F.selu(self.bn2(self.conv1(x))))
        return F.max_pool2d(y + skip, self.pooling)


class Aasist(nn.Module):
    """Waveform to bona fide evidence: float32 (b, 64600) to logits (b, 2), spoof first and bona fide second."""

    def __init__(self, shape: AasistShape) -> None:
        super().__init__()
        dim, graph_dim = shape.graph_dims
        self.dropout = shape.dropout
        self.sinc = shape.front_end == "sinc"
        self.phase = shape.front_end == "phase-spectrogram"
        self.conv_time = SincBank() if self.sinc else PhaseSpectrogram() if self.phase else LogSpectrogram()
        heard_channels = PhaseSpectrogram.CHANNELS if self.phase else 1
        self.first_bn = nn.BatchNorm2d(heard_channels)
        if not self.sinc:
            channels = shape.blocks[0][0]
            self.stem = nn.Sequential(
                nn.Conv2d(heard_channels, channels, (7, 5), stride=(4, 4), padding=(3, 2)),
                nn.BatchNorm2d(channels),
                nn.SELU(),
            )
            size = statistics_size((channels, *(block[1] for block in shape.blocks)))
            self.level_statistics = LevelStatistics()
            self.statistics_norm = nn.BatchNorm1d(size, affine=False)
            self.statistics_layer = nn.Linear(size, 2)
            nn.init.zeros_(self.statistics_layer.weight)
        # The extra Sequential level is that of the official checkpoints' names.
        self.encoder = nn.Sequential(
            *(nn.Sequential(ResidualBlock(*block, first=i == 0)) for i, block in enumerate(shape.blocks))
        )
        self.pos_S = nn.Parameter(torch.randn(1, shape.spectral_nodes, dim))
        self.master1 = nn.Parameter(torch.randn(1, 1, dim))
        self.master2 = nn.Parameter(torch.randn(1, 1, dim))
        spectral, temporal, heterogeneous = shape.temperatures
        self.GAT_layer_S = GraphAttention(dim, dim, spectral, 0.2 * shape.dropout)
        self.GAT_layer_T = GraphAttention(dim, dim, temporal, 0.2 * shape.dropout)
        self.HtrgGAT_layer_ST11 = HeterogeneousGraphAttention(dim, graph_dim, heterogeneous, 0.2 * shape.dropout)
        self.HtrgGAT_layer_ST12 = HeterogeneousGraphAttention(graph_dim, graph_dim, heterogeneous, 0.2 * shape.dropout)
        self.HtrgGAT_layer_ST21 = HeterogeneousGraphAttention(dim, graph_dim, heterogeneous, 0.2 * shape.dropout)
        self.HtrgGAT_layer_ST22 = HeterogeneousGraphAttention(graph_dim, graph_dim, heterogeneous, 0.2 * shape.dropout)
        # Quirk: all four inner pools share the third ratio.
        keep_spectral, keep_temporal, keep = shape.pools
        self.pool_S = GraphPool(keep_spectral, dim, 0.3 * shape.dropout)
        self.pool_T = GraphPool(keep_temporal, dim, 0.3 * shape.dropout)
        self.pool_hS1 = GraphPool(keep, graph_dim, 0.3 * shape.dropout)
        self.pool_hT1 = GraphPool(keep, graph_dim, 0.3 * shape.dropout)
        self.pool_hS2 = GraphPool(keep, graph_dim, 0.3 * shape.dropout)
        self.pool_hT2 = GraphPool(keep, graph_dim, 0.3 * shape.dropout)
        self.out_layer = nn.Linear(5 * graph_dim, 2)

    def forward(self, waveform: Tensor) -> Tensor:
        return self.classify(self.conv_time(waveform))

    def classify(self, bands: Tensor) -> Tensor:
        """Logits (b, 2) from the front end's output, (b, bands, frames) or (b, channels, bands, frames), so that
        training can mask bands and frames."""
        graph, statistics = self.readouts(bands)
        logits: Tensor = self.out_layer(F.dropout(graph, 0.5 * self.dropout, self.training))
        return logits if statistics is None else logits + self.statistics_layer(statistics)

    def readouts(self, bands: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the last layers see: the graph's (b, 160) and, of the light shape, the normalised statistics (b, n)."""
        if self.sinc:
            bands = F.selu(self.first_bn(F.max_pool2d(bands.unsqueeze(1).abs(), 3)))
            return self.embed(self.encoder(bands)), None
        bands = self.first_bn(bands if self.phase else bands.unsqueeze(1))
        levels = [self.stem(bands)]
        for block in self.encoder:
            levels.append(block(levels[-1]))
        return self.embed(levels[-1]), self.statistics_norm(self.level_statistics(bands[:, :1], levels))

    def embed(self, encoded: Tensor) -> Tensor:
        """The graph read-out before the last layer: (b, channels, frequency nodes, time nodes) to (b, 160)."""
        spectral = encoded.abs().amax(dim=3).transpose(1, 2) + self.pos_S
        temporal = encoded.abs().amax(dim=2).transpose(1, 2)
        spectral = self.pool_S(self.GAT_layer_S(spectral))
        temporal = self.pool_T(self.GAT_layer_T(temporal))
        branches = (
            self._branch(
                temporal,
                spectral,
                self.master1,
                self.HtrgGAT_layer_ST11,
                self.HtrgGAT_layer_ST12,
                self.pool_hT1,
                self.pool_hS1,
            ),
            self._branch(
                temporal,
                spectral,
                self.master2,
                self.HtrgGAT_layer_ST21,
                self.HtrgGAT_layer_ST22,
                self.pool_hT2,
                self.pool_hS2,
            ),
        )
        times, spectra, masters = (torch.maximum(a, b) for a, b in zip(*branches, strict=True))
        readout = (times.abs().amax(1), times.mean(1), spectra.abs().amax(1), spectra.mean(1), masters.squeeze(1))
        return torch.cat(readout, dim=1)

    def _branch(
        self,
        temporal: Tensor,
        spectral: Tensor,
        master: Tensor,
        first: HeterogeneousGraphAttention,
        second: HeterogeneousGraphAttention,
        pool_temporal: GraphPool,
        pool_spectral: GraphPool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        master = master.expand(temporal.shape[0], -1, -1)
        temporal, spectral, master = first(temporal, spectral, master)
        spectral, temporal = pool_spectral(spectral), pool_temporal(temporal)
        delta_t, delta_s, delta_m = second(temporal, spectral, master)
        drop = [
            F.dropout(x, 0.2 * self.dropout, self.training)
            for x in (temporal + delta_t, spectral + delta_s, master + delta_m)
        ]
        return drop[0], drop[1], drop[2]


class Committee(nn.Module):
    """The mean of the logits of ``members`` of light shapes, for which the spectrogram is computed once."""

    def __init__(self, members: list[Aasist]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, waveform: Tensor) -> Tensor:
        members = [member for member in self.members if isinstance(member, Aasist)]
        richest = max(members, key=lambda member: member.phase)
        bands = richest.conv_time(waveform)
        levels = bands[:, 0] if richest.phase else bands
        return torch.stack([member.classify(bands if member.phase else levels) for member in members]).mean(dim=0)


def load_official(checkpoint: dict[str, Tensor]) -> Aasist:
    """The model of an official state dict, in evaluation mode; the width of the second block group tells which shape.

    Raises:
        RuntimeError: names or shapes of the weights differ.
    """
    wide = checkpoint["encoder.2.0.conv1.weight"].shape[0] == 64
    model = Aasist(SHAPES["AASIST" if wide else "AASIST-L"])
    model.load_state_dict(checkpoint, strict=True)
    return model.eval()
