"""The space in which units are told apart: which phones are likely, after what the voice adds has been taken off.

What a speaker adds to every phone alike is followed through the utterance: the mean difference between the vectors
heard so far and those usual for the phones that they seem to be, shrunk towards none while little was heard; and then
once more, from what is left. Nothing is known of what comes, so that a stream gives the units of one pass; silence
counts nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PRIOR = 50.0
"""Frames of speech after which half of what a voice adds is taken off."""


class PhoneSpace(nn.Module):
    """Context vectors (1, T, dimensions) to square roots of the probabilities of phones (1, T, phones), of which the
    first is silence. The state is, of each round, the sum of the differences so far and the frames of speech in it."""

    STATE = ("voice",)

    def __init__(self, weight: Tensor, bias: Tensor, usual: Tensor) -> None:
        """``weight`` (phones, dimensions) and ``bias`` name phones; ``usual`` (rounds, phones, dimensions) are the
        means of those of a round."""
        super().__init__()
        for name, tensor in (("weight", weight), ("bias", bias), ("usual", usual)):
            self.register_buffer(name, tensor.float().clone())

    def start(self) -> tuple[Tensor, ...]:
        """State at the start of one stream."""
        rounds, _, dimensions = self.usual.shape
        return (torch.zeros(1, rounds * (dimensions + 1)),)

    def likely(self, context: Tensor) -> Tensor:
        """Probabilities of phones."""
        return F.linear(context, self.weight, self.bias).softmax(-1)

    def moved(self, context: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The context vectors without what the voice adds, and the state."""
        after = []
        size = self.usual.shape[2] + 1
        for i in range(self.usual.shape[0]):
            usual, before = self.usual[i], state[0][:, i * size : (i + 1) * size]
            likely = self.likely(context)
            speech = 1 - likely[..., :1]
            heard = torch.cat(((context - likely @ usual) * speech, speech), dim=-1)
            total = heard.cumsum(1) + before[:, None]
            context = context - total[..., :-1] / (total[..., -1:] + PRIOR)
            after.append(total[:, -1])
        return context, (torch.cat(after, dim=1) if after else state[0],)

    def forward(self, context: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        context, state = self.moved(context, state)
        return self.likely(context).sqrt(), state
