"""Cells of a pair of laws: merged below, split above."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.curves.enclosure import Enclosure
from audit.curves.finite_pair import FinitePair

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of the outcomes of a pair, with the masses and the range of losses of each cell.

    A cell merged into one outcome loses information: a post-processing of the pair. A cell split
    into two outcomes with the smallest and the largest loss, which keep its two masses, gains
    information: of all laws on the cell with losses in this range, the split is the extreme one in
    the convex order, so that the pair is a post-processing of the split one (Blackwell 1953).
    """

    log_p: Array  # computed log masses of each cell, shape (n,)
    log_q: Array
    low: Array  # bounds on log p - log q within each; may be infinite
    high: Array
    error_p: Array  # bounds on the errors of the log masses
    error_q: Array
    log_lost_p: float = -np.inf  # logs of bounds on the masses that are in no cell
    log_lost_q: float = -np.inf

    @property
    def reversed(self) -> Cells:
        """The same cells in the other order of the pair."""
        return Cells(
            self.log_q,
            self.log_p,
            -self.high,
            -self.low,
            self.error_q,
            self.error_p,
            self.log_lost_q,
            self.log_lost_p,
        )

    @property
    def without_errors(self) -> Cells:
        """The same cells, with the computed masses and losses taken as exact."""
        error, none = self.error_p + self.error_q, np.zeros(self.log_p.size)
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (self.low + self.high)
        low, high = np.fmin(self.low + error, middle), np.fmax(self.high - error, middle)
        return replace(self, low=low, high=high, error_p=none, error_q=none)

    def part(self, chosen: slice | NDArray[np.bool_]) -> Cells:
        """Return some of the cells, without what is in none."""
        return Cells(
            self.log_p[chosen],
            self.log_q[chosen],
            self.low[chosen],
            self.high[chosen],
            self.error_p[chosen],
            self.error_q[chosen],
        )

    def merged(self, *, complement: bool = False) -> FinitePair:
        """Return the lower pair: one outcome a cell, with the least of P and the most of Q.

        Divergences of the true pair are at least those of this one, up to the lost mass of Q.
        """
        sign = 1 if complement else -1
        return FinitePair.of(self.log_p + sign * self.error_p, self.log_q + self.error_q)

    def split(self, *, complement: bool = False) -> FinitePair:
        """Return the upper pair: two outcomes a cell, with the most of P and the least of Q.

        The lost mass of P is an outcome that Q does not have.
        """
        log_p = self.log_p + (-1 if complement else 1) * self.error_p
        with np.errstate(invalid="ignore"):
            # errors of masses do not widen the range of the ratio, where P has any
            log_q = np.fmax(self.log_q - self.error_q, log_p - self.high)
            mean = np.where(log_p == -np.inf, -np.inf, log_p - log_q)
        mean = np.where(np.isnan(mean), -np.inf, mean)  # no mass of either law
        low, high = np.minimum(self.low, mean), np.maximum(self.high, mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            # of P, the share at the high end; of Q, the share at the low one
            width = np.log(-np.expm1(low - high))
            share_p = np.log(-np.expm1(low - mean)) - width
            share_q = np.log(-np.expm1(mean - high)) - width
            one = ~(low < high)
            up_p = np.where(one, log_p, log_p + share_p)
            down_q = np.where(one, -np.inf, log_q + share_q)
            up_q = np.where(one, log_q, up_p - high)
            down_p = np.where(one, -np.inf, down_q + low)
        high = np.where(one, mean, high)
        low, lost = np.where(one, mean, low), np.array([self.log_lost_p])
        nothing = np.array([-np.inf])
        loss = np.concatenate([low, high, [np.inf]])
        up = np.concatenate([np.where(np.isnan(down_p), -np.inf, down_p), up_p, lost])
        down = np.concatenate([down_q, np.where(np.isnan(up_q), -np.inf, up_q), nothing])
        kept = (up > -np.inf) | (down > -np.inf)
        return FinitePair(loss[kept], up[kept], down[kept])

    def enclosure(self, *, complement: bool = False) -> Enclosure:
        """Return both pairs."""
        return Enclosure(
            self.merged(complement=complement),
            self.split(complement=complement),
            self.log_lost_p,
            self.log_lost_q,
        )
