"""A wider ResCNN that begins with the function of a trained narrower one (Net2Net: Chen et al., arXiv 1511.05641).

The narrow weights are the first channels of the wide ones. Further channels begin at random and hear everything, but
nothing of the narrow network hears them yet, and the last layer does not count them: embeddings are the same.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from tools.train.networks.deep_speaker import BANDS, DOWNSAMPLING, DeepSpeaker

Channels = tuple[int, int, int, int]


def widened(network: DeepSpeaker, channels: Channels) -> DeepSpeaker:
    """``network`` with at least as many ``channels``, giving the same embeddings.

    Raises:
        SystemExit: a stage of ``network`` has more channels.
    """
    narrow = network.shape.channels
    if any(before > after for before, after in zip(narrow, channels, strict=True)):
        raise SystemExit(f"a network of {narrow} channels cannot start one of {channels}; ask for at least as many")
    wide = DeepSpeaker(replace(network.shape, channels=channels))
    weights, state = network.state_dict(), wide.state_dict()
    for name, tensor in weights.items():
        if name == "affine.weight":
            _place_columns(state[name], tensor, narrow[-1], channels[-1])
        elif tensor.dim() == 4:
            outputs, inputs = tensor.shape[:2]
            state[name][:outputs] = 0
            state[name][:outputs, :inputs] = tensor
        else:
            state[name].view(-1)[: tensor.numel()] = tensor
    wide.load_state_dict(state)
    return wide.train(network.training)


def _place_columns(wide: Tensor, narrow: Tensor, before: int, after: int) -> None:
    """Columns are (mean and, where it is pooled, deviation) x bands x channels; those of new channels become zero."""
    bands = BANDS // DOWNSAMPLING
    wide.zero_()
    wide.view(len(wide), -1, bands, after)[..., :before] = narrow.view(len(narrow), -1, bands, before)
