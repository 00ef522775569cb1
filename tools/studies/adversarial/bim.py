"""The attacks: the basic iterative method (Kurakin et al., 2017) and projected gradient descent (Madry et al., 2018).

Everything is at int16 scale, as in the study: budgets and steps are in units of the least significant bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tools.studies.adversarial.frontend import Cut
from tools.studies.adversarial.models import SpeakerModel
from tools.studies.adversarial.speech import FULL_SCALE, Pcm
from tools.studies.adversarial.transforms import Transform

Objective = Callable[[Tensor], Tensor]
"""What an attack raises: a recording (n,) in [-1, 1] to a scalar."""


@dataclass(frozen=True, slots=True)
class Deception:
    """The score of a recording against ``reference`` (d,): to be lowered where it is the same person, else raised.

    ``transform``: the adversary knows it, and moves the score before and after it together: whichever lags is what
    counts, so that the two end close to each other.
    """

    model: SpeakerModel
    reference: Tensor
    cut: Cut
    target: bool
    transform: Transform | None = None

    def __call__(self, recording: Tensor) -> Tensor:
        utterance = self.cut.level(recording)
        heard = [utterance] if self.transform is None else [utterance, self.transform(utterance)]
        scores = torch.stack([F.cosine_similarity(self._embed(one), self.reference, dim=0) for one in heard])
        return -scores.max() if self.target else scores.min()

    def _embed(self, utterance: Tensor) -> Tensor:
        embedding: Tensor = self.model(self.cut.net_speech(utterance)[None])[0]
        return embedding


def steps_for(epsilon: float, alpha: float) -> int:
    """The study's number of iterations: K = ceil(epsilon / alpha)."""
    return math.ceil(epsilon / alpha - 1e-9)


def bim(objective: Objective, pcm: Pcm, epsilons: Sequence[float], alpha: float) -> dict[float, Pcm]:
    """The adversarial recording of ``pcm`` (n,) for each budget in ``epsilons``, after ceil(epsilon / alpha) steps.

    No step but the last can reach its budget, so that all budgets lie on one way, each clipped where it stops.
    """
    original = torch.from_numpy(pcm.astype(np.float32))
    noise = torch.zeros_like(original)
    stops = {epsilon: steps_for(epsilon, alpha) for epsilon in epsilons}
    found: dict[float, Pcm] = {}
    for step in range(1, max(stops.values()) + 1):
        noise = _in_range(original, noise + alpha * _sign(objective, original + noise))
        found |= {epsilon: _finish(original, noise, epsilon) for epsilon, stop in stops.items() if stop == step}
    return found


def pgd(objective: Objective, pcm: Pcm, epsilon: float, alpha: float, steps: int, random: np.random.Generator) -> Pcm:
    """The adversarial recording of ``pcm`` (n,) after ``steps`` from a random start within ``epsilon``."""
    original = torch.from_numpy(pcm.astype(np.float32))
    start = random.uniform(-epsilon, epsilon, len(pcm)).astype(np.float32)
    noise = _in_range(original, torch.from_numpy(start))
    for _ in range(steps):
        moved = (noise + alpha * _sign(objective, original + noise)).clamp(-epsilon, epsilon)
        noise = _in_range(original, moved)
    return _finish(original, noise, epsilon)


def snr_db(original: Pcm, attacked: Pcm) -> float:
    """Power of the recording over that of the perturbation, in dB; infinite without one."""
    signal = original.astype(np.float64)
    noise = attacked.astype(np.float64) - signal
    power = float(np.square(noise).sum())
    return 10 * math.log10(float(np.square(signal).sum()) / power) if power else math.inf


def _sign(objective: Objective, recording: Tensor) -> Tensor:
    point = (recording / FULL_SCALE).requires_grad_()
    (gradient,) = torch.autograd.grad(objective(point), point)
    return gradient.sign()


def _in_range(original: Tensor, noise: Tensor) -> Tensor:
    """``noise`` as far as the sum stays in int16."""
    return (original + noise).clamp(-FULL_SCALE, FULL_SCALE - 1) - original


def _finish(original: Tensor, noise: Tensor, epsilon: float) -> Pcm:
    """The int16 recording; rounding does not pass the budget."""
    most = math.floor(epsilon)
    attacked: Pcm = (original + noise.round().clamp(-most, most)).numpy().astype(np.int16)
    return attacked
