"""Refit the last layers of a light spoofing model in closed form.

``python -m tools.train.spoofing_refit [RUN]`` replaces both linear read-outs of RUN's averaged weights by one weighted
ridge regression on labels +-1 over all training windows, its penalty chosen on the development shards, and writes
``refit.pt``. Stochastic steps leave the wide read-out noisy; the exact solution costs seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tools.train.data.attacks.cache import spoofing_cache
from tools.train.networks.aasist import SHAPES, Aasist
from tools.train.spoofing import Windows, augmented, error_rates, save

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Relative to the mean squared length of a feature vector."""


@torch.no_grad()
def features(model: Aasist, windows: Windows, seed: int | None) -> NDArray[np.float32]:
    """Both read-outs of every window, (n, 160 + statistics); with ``seed``, of an augmented version of it."""
    parts = []
    for first in tqdm(range(0, len(windows), 16), desc="read-outs", mininterval=5):
        batch = [windows[i] for i in range(first, min(first + 16, len(windows)))]
        if seed is not None:
            batch = [augmented(w, len(w), np.random.default_rng((seed, first, i))) for i, w in enumerate(batch)]
        graph, statistics = model.readouts(model.conv_time(torch.from_numpy(np.stack(batch))))
        if statistics is None:
            raise SystemExit("only the light shape has a read-out to refit")
        parts.append(torch.cat((graph, statistics), dim=1).numpy())
    return np.concatenate(parts)


def ridge(
    x: NDArray[np.float64], labels: NDArray[np.int64], weights: NDArray[np.float64], penalty: float
) -> NDArray[np.float64]:
    """Weights (d,) of the ridge regression on targets +-1, in its dual form since d exceeds n. No intercept."""
    root = np.sqrt(weights / weights.mean())[:, None]
    scaled, target = x * root, (2.0 * labels - 1) * root[:, 0]
    gram = scaled @ scaled.T
    dual = scipy.linalg.solve(gram + penalty * np.trace(gram) / len(gram) * np.eye(len(gram)), target, assume_a="pos")
    solution: NDArray[np.float64] = scaled.T @ dual
    return solution


def refit(run: Path, copies: int) -> dict[str, float]:
    """Refit, write ``refit.pt``; returns the development EERs of the chosen penalty."""
    state = torch.load(run / "last.pt", map_location="cpu", weights_only=True)
    model = Aasist(SHAPES[state["shape"]])
    model.load_state_dict(state["average"])
    model.eval()
    train, dev = Windows("train"), Windows("dev")
    x = np.concatenate([features(model, train, None if copy == 0 else copy) for copy in range(copies)])
    labels, weights = np.tile(train.labels, copies), np.tile(train.weights, copies)
    share = weights / weights.sum()
    mean = share @ x
    deviation = np.sqrt(share @ (x - mean) ** 2) + 1e-3
    x = ((x - mean) / deviation).astype(np.float64)
    held_out = (features(model, dev, None) - mean) / deviation
    best: tuple[float, NDArray[np.float64], dict[str, float]] | None = None
    for penalty in PENALTIES:
        solution = ridge(x, labels, weights, penalty)
        rates = error_rates(held_out @ solution, dev.rows)
        print(f"penalty {penalty}: dev EER " + ", ".join(f"{k} {v:.1%}" for k, v in rates.items()))
        if best is None or rates["all"] < best[2]["all"]:
            best = penalty, solution, rates
    if best is None:
        raise SystemExit("no penalty to choose from")
    slope = torch.from_numpy(best[1] / deviation).float()
    offset = -float(best[1] @ (mean / deviation))
    graph_size = model.out_layer.in_features
    with torch.no_grad():
        for layer, part in ((model.out_layer, slope[:graph_size]), (model.statistics_layer, slope[graph_size:])):
            layer.weight.copy_(torch.stack((-part, part)) / 2)
            layer.bias.zero_()
        model.out_layer.bias.copy_(torch.tensor([-offset, offset]) / 2)
    save(run / "refit.pt", {"shape": state["shape"], "step": state["step"], "average": model.state_dict()})
    return best[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=spoofing_cache() / "light", help="default: %(default)s")
    parser.add_argument("--copies", type=int, default=1, help="times each window counts, augmented behind the first")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    refit(arguments.run, arguments.copies)


if __name__ == "__main__":
    main()
