"""A table of results, for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.evaluation.report import table


@dataclass(frozen=True, slots=True)
class Table:
    """``caption`` says what the figures mean and how many trials are behind them."""

    title: str
    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        return f"{self.title}\n{table(self.headers, self.rows)}\n{self.caption}"


def share(part: Mapping[str, Any]) -> str:
    """A rate with its 95 % interval in per cent, as ``tools.evaluation.report.rate`` gives it."""
    if part["rate"] is None:
        return "-"
    low, high = part["ci95"]
    return f"{100 * part['rate']:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def spread(part: Mapping[str, float]) -> str:
    """Mean and standard deviation in per cent."""
    return f"{100 * part['mean']:.2f} ± {100 * part['sd']:.2f}"
