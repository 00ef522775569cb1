"""Statistics over time of every level of an encoder, as one wide feature vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GROUPS = 16
"""Frequency groups of the convolutional levels."""
BAND_GROUPS = 64
"""Frequency groups of the spectrogram."""


def statistics_size(channels: tuple[int, ...]) -> int:
    """Length of the vector for convolutional levels of so many ``channels``."""
    return 3 * BAND_GROUPS + 2 * GROUPS * sum(channels)


class LevelStatistics(nn.Module):
    """Mean and deviation over time of each channel and frequency group; of the spectrogram, how much it varies.

    Takes the normalised spectrogram (b, 1, 256, t) and the outputs (b, c, f, t') of the levels above, f a multiple of
    16; gives (b, :func:`statistics_size`). Of the spectrogram: deviation over time, mean absolute difference from
    frame to frame, and from bin to bin.
    """

    def forward(self, bands: Tensor, levels: list[Tensor]) -> Tensor:
        spectrum = bands.squeeze(1)
        steps = (spectrum[:, :, 1:] - spectrum[:, :, :-1]).abs().mean(dim=2)
        slopes = F.pad((spectrum[:, 1:] - spectrum[:, :-1]).abs().mean(dim=2), (0, 1))
        parts = [self._grouped(part, BAND_GROUPS) for part in (_deviation(spectrum), steps, slopes)]
        for level in levels:
            parts += [self._grouped(part, GROUPS).flatten(1) for part in (level.mean(dim=3), _deviation(level))]
        return torch.cat(parts, dim=1)

    @staticmethod
    def _grouped(values: Tensor, groups: int) -> Tensor:
        """Mean over equal groups of the last dimension."""
        return values.unflatten(-1, (groups, values.shape[-1] // groups)).mean(dim=-1)


def _deviation(values: Tensor) -> Tensor:
    centred = values - values.mean(dim=-1, keepdim=True)
    return (centred.square().mean(dim=-1) + 1e-4).sqrt()
