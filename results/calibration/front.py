"""The level of a correction that counts the thresholds left on the Pareto front of the data.

jax-privacy 2.0 (`auditing.Bonferroni`) keeps the thresholds at vertices of the upper hull of the
empirical ROC curve, and divides the error by their number. That number is known only after looking
at the data, and is about the logarithm of the number of thresholds tried. Here the laws are
identical, and the held-in scores are so many that their law is known; each audit draws the held-out
scores.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FrontCell:
    """So many audits of identical laws; a pure function of its fields."""

    held_out: int
    error: float
    repeats: int
    package: str = ""

    @property
    def key(self) -> str:
        """A file name."""
        return f"front_{self.held_out}_{self.error:g}_{self.repeats}"


def front_cells(repeats: int) -> list[FrontCell]:
    """All cells."""
    return [FrontCell(size, error, repeats) for size in (30, 100, 1000) for error in (0.05, 0.01)]


def first_values(cell: FrontCell) -> list[float]:
    """Return the first excesses, which `run` stores."""
    return [_audit(cell, number)[0] for number in range(min(5, cell.repeats))]


def run(cell: FrontCell) -> dict[str, Any]:
    """Count the audits that certify an epsilon above 0."""
    clock = time.process_time()
    found = [_audit(cell, number) for number in range(cell.repeats)]
    return {
        "held_out": cell.held_out,
        "error": cell.error,
        "repeats": cell.repeats,
        "wrong": sum(epsilon > 0 for epsilon, _ in found),
        "thresholds": float(np.mean([count for _, count in found])),
        "first_values": [epsilon for epsilon, _ in found[:5]],
        "seconds": time.process_time() - clock,
    }


def _audit(cell: FrontCell, number: int) -> tuple[float, int]:
    """Return the largest log(TPR / FPR limit) on the front, at least 0, and its thresholds."""
    seed = [number, cell.held_out, zlib.crc32(b"front")]
    rates = np.sort(np.random.default_rng(seed).random(cell.held_out))  # of both laws, at scores
    false = np.arange(cell.held_out, dtype=np.float64)  # held-out scores beyond each
    kept = upper_hull(
        np.append(0, np.append(false, cell.held_out)), np.append(0, np.append(rates, 1))
    )
    inner = kept[(kept > 0) & (kept <= cell.held_out)] - 1
    limit = betaincinv(
        false[inner] + 1, cell.held_out - false[inner], 1 - cell.error / 2 / kept.size
    )
    return float(np.max(np.log(rates[inner] / limit), initial=0.0)), kept.size


def upper_hull(x: Array, y: Array) -> NDArray[np.intp]:
    """Return the vertices of the upper hull of points with ascending x, the two ends too."""
    kept = np.arange(x.size)
    while kept.size > 2:
        dx, dy = np.diff(x[kept]), np.diff(y[kept])
        inside = dy[:-1] * dx[1:] <= dy[1:] * dx[:-1]
        if not np.any(inside):
            break
        kept = kept[np.concatenate([[True], ~inside, [True]])]
    return kept
