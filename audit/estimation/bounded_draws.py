"""Confidence limits for the mean of independent draws in [0, largest], by betting.

Let x_1, ..., x_n be independent draws in [0, 1] of mean mu, and s a stake that was fixed before
they were seen. If m >= mu and s m <= 1, the capital prod(1 + s (x_i - m)) is nonnegative and has
expectation at most 1, so it reaches 1 / error with probability at most ``error`` (Markov). It falls
with m: the largest m that it refutes is a lower confidence limit of mu. An upper limit is the
smallest m refuted by prod(1 - s (x_i - m)), which is nonnegative for s <= 1. The best stake is
about sqrt(2 log(1 / error) / (n variance)); limits then have the width of a normal approximation,
and they are far below 1 / n if draws are rarely positive (Waudby-Smith and Ramdas 2024, Section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.numerics.roots import bracketed_root

Array = NDArray[np.float64]

_STAKES = 0.98 * 0.7 ** np.arange(40.0)  # candidates, as multiples of the largest stake
_ROUNDING = 1 + 1e-9  # of a sum of logarithms, taken against the limit
_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class BoundedDraws:
    """Independent draws of a nonnegative variable that is known to be at most ``largest``."""

    values: Array
    largest: float  # no draw can exceed it; it must be proven, not observed

    def __post_init__(self) -> None:
        validate.positive(largest=self.largest)
        values = validate.real_sample(values=self.values)
        if np.min(values) < 0 or np.max(values) > self.largest * (1 + 1e-9):
            worst = float(np.max(values) if np.min(values) >= 0 else np.min(values))
            raise validate.fail("values", f"in [0, {self.largest!r}]", worst)
        object.__setattr__(self, "values", values)

    def stakes(self, total: int, error: float) -> Stakes:
        """Return the stakes predicted to be best for ``total`` draws that are not among these."""
        repeats = total / self.values.size
        lower = [_limit(self._scaled, stake, error, repeats) for stake in _STAKES / self._typical]
        upper = [_limit(self._scaled, -stake, error, repeats) for stake in _STAKES]
        return Stakes(
            float(_STAKES[np.argmax(lower)] / self._typical), float(_STAKES[np.argmin(upper)])
        )

    def mean_lower(self, stakes: Stakes, error: float) -> float:
        """Return a limit that exceeds the mean with probability at most ``error``.

        The stakes must be fixed before these draws are seen.
        """
        validate.open_unit(error=error)
        return self.largest * _limit(self._scaled, stakes.lower, error, 1.0)

    def mean_upper(self, stakes: Stakes, error: float) -> float:
        """Return a limit that falls below the mean with probability at most ``error``.

        The stakes must be fixed before these draws are seen.
        """
        validate.open_unit(error=error)
        return self.largest * _limit(self._scaled, -stakes.upper, error, 1.0)

    @property
    def _scaled(self) -> Array:
        return np.minimum(self.values / self.largest, 1.0)

    @property
    def _typical(self) -> float:
        """The scaled mean, or the share of one draw if it is 0."""
        return max(float(np.mean(self._scaled)), 1 / self.values.size)


@dataclass(frozen=True)
class Stakes:
    """Stakes of the bets against small and against large means, for draws scaled to [0, 1]."""

    lower: float  # stake of the lower limit, positive
    upper: float  # stake of the upper limit, in (0, 1)

    def __post_init__(self) -> None:
        validate.positive(lower=self.lower)
        validate.open_unit(upper=self.upper)


def _limit(x: Array, stake: float, error: float, repeats: float) -> float:
    """Return the last mean that the bet refutes, from below if the stake is positive.

    A negative stake bets against large means. ``repeats`` scales the number of draws.
    """
    needed = _ROUNDING * math.log(1 / error) / repeats

    def missing(m: float) -> float:
        return needed - float(np.sum(np.log1p(stake * (x - m))))

    refuted, outside = (0.0, min(1.0, (1 - 1e-9) / stake)) if stake > 0 else (1.0, 0.0)
    if missing(refuted) >= 0:
        return refuted
    if missing(outside) < 0:
        return outside
    root = bracketed_root(missing, refuted, outside, xtol=_SMALLEST)
    while missing(root) > 0:
        root *= 1 - 1e-12 if stake > 0 else 1 + 1e-12
    return root
