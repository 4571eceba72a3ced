"""One side of a pair of laws (P, Q), on a grid of privacy losses.

A pair *dominates* (P, Q) if its delta(epsilon) is at least that of (P, Q) for every real epsilon,
which covers both orders (Zhu, Dong and Wang 2022, Definition 7). Merging outcomes is
post-processing and gives a pair that (P, Q) dominates. Splitting an outcome into two of other
losses, keeping both its probabilities, is undone by merging and gives a pair that dominates (P, Q);
between the two nearest points of a grid it is the "connect the dots" rule of Doroshenko et al.
(2022). Either changes the pair by the square of the grid's interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.numerics.arrays import Array, Flags
from audit.numerics.display import ShortRepr

UNIT_ROUNDOFF = 2.0**-53
# Largest loss for which masses under the other law are normal floating-point numbers.
_MAX_LOSS = 640.0


@dataclass(frozen=True, eq=False)
class GridPair(ShortRepr):
    """Pair of laws on a grid of losses that dominates a pair (P, Q), or that (P, Q) dominates.

    Cell i stands for an outcome of loss log(P/Q) near i times ``interval``.

    Parameters
    ----------
    above : bool
        Whether the pair dominates (P, Q). If so, its losses are exact multiples of the interval.
    interval : float
        Distance between grid points, in nats.
    first : int
        Index of the first cell.
    p : ndarray
        Probability of each cell under P, shape ``(cells,)``.
    lifted : ndarray
        Probability of each cell under Q, times e^(index * interval): equal to ``p`` if ``above``.
    p_only, q_only : float, default: 0.0
        Probability under one law of outcomes that the other does not have.
    rounding : float, default: 0.0
        Bound on the relative error of ``p``, ``lifted``, ``p_only`` and ``q_only``.
    ratio_error : tuple of (float, float), optional
        Bounds (a, b) on the error of the total loss L of T cells: T a + b |L|. Defaults to what the
        rounding implies.

    Examples
    --------
    >>> import numpy as np
    >>> pair = dominating(np.log([0.75, 0.25]), np.log([0.25, 0.75]), 0.5)
    >>> pair.first, pair.losses
    (-3, array([-1.5, -1. , -0.5,  0. ,  0.5,  1. ,  1.5]))
    """

    above: bool
    interval: float
    first: int
    p: Array
    lifted: Array
    p_only: float = 0.0
    q_only: float = 0.0
    rounding: float = 0.0
    ratio_error: tuple[float, float] | None = None

    @property
    def loss_errors(self) -> tuple[float, float]:
        """Bounds on a cell's loss error: the part that does not grow, and that of the loss."""
        return self.ratio_error or (2 * self.rounding + 4 * UNIT_ROUNDOFF, 0.0)

    @property
    def losses(self) -> Array:
        """Grid points of the cells, in nats, shape ``(cells,)``."""
        return np.arange(self.first, self.first + self.p.size, dtype=float) * self.interval

    @classmethod
    def nothing(cls, above: bool, interval: float) -> GridPair:
        """Return a pair of equal laws: one outcome of loss 0."""
        return cls(above, interval, 0, np.ones(1), np.ones(1))

    def swapped(self) -> GridPair:
        """Return the pair (Q, P)."""
        losses = self.losses
        # by halves, since masses underflow where e^-loss overflows
        grow = np.exp(np.minimum(-losses / 2, 700.0))
        p, q = (mass * grow * grow for mass in (self.p, self.lifted))
        # losses, their exponentials and products are rounded
        units = 6 + float(np.abs(losses).max(initial=0.0))
        rounding = self.rounding + units * UNIT_ROUNDOFF
        cells = self.above, self.interval, 1 - self.first - self.p.size, q[::-1], p[::-1]
        return GridPair(*cells, self.q_only, self.p_only, rounding, self.ratio_error)


def dominated(log_p: Array, log_q: Array, interval: float, *, rounding: float = 0.0) -> GridPair:
    """Return a pair that two laws on finitely many outcomes dominate.

    Outcomes whose losses round to the same grid point are merged.
    """
    both, p_only, q_only = _split_singular(log_p, log_q)
    loss = log_p[both] - log_q[both]
    index = np.round(loss / interval).astype(np.int64)
    first = int(index.min())
    place = index - first
    p = _binned(place, np.exp(log_p[both]))
    lifted = _binned(place, np.exp(log_q[both] + index * interval))
    return GridPair(False, interval, first, p, lifted, p_only, q_only, rounding + _sums(log_p))


def dominating(log_p: Array, log_q: Array, interval: float, *, rounding: float = 0.0) -> GridPair:
    """Return a pair that dominates two laws on finitely many outcomes.

    Every outcome is split between the two grid points next to its loss.
    """
    both, p_only, q_only = _split_singular(log_p, log_q)
    loss = log_p[both] - log_q[both]
    if np.abs(loss).max() > _MAX_LOSS:
        raise ValueError(
            f"losses must be at most {_MAX_LOSS:g} for a dominating pair, "
            f"got {np.abs(loss).max():g}"
        )
    index = np.floor(loss / interval).astype(np.int64)
    first = int(index.min())
    rest = np.clip(loss - index * interval, 0.0, interval)
    # the share of Q at the upper point keeps P: (e^rest - 1)/(e^interval - 1)
    up = np.exp(log_p[both]) * (np.expm1(-rest) / math.expm1(-interval))
    down = np.exp(log_p[both]) * (-np.expm1(rest - interval) / -math.expm1(-interval))
    down *= np.exp(-rest)
    place = index - first
    p = _binned(np.concatenate([place, place + 1]), np.concatenate([down, up]))
    return GridPair(True, interval, first, p, p, p_only, q_only, rounding + _sums(log_p))


def united(
    above: bool,
    interval: float,
    pairs: Sequence[GridPair],
    rounding: float,
    ratio_error: tuple[float, float] | None = None,
) -> GridPair:
    """Return one pair with the cells of several on one interval, which may be empty."""
    first = min((pair.first for pair in pairs), default=0)
    size = max((pair.first + pair.p.size for pair in pairs), default=first) - first
    p, lifted = np.zeros(size), np.zeros(size)
    for pair in pairs:
        place = slice(pair.first - first, pair.first - first + pair.p.size)
        p[place] += pair.p
        lifted[place] += pair.lifted
    p_only, q_only = sum(pair.p_only for pair in pairs), sum(pair.q_only for pair in pairs)
    return GridPair(above, interval, first, p, lifted, p_only, q_only, rounding, ratio_error)


def mixed(parts: Sequence[tuple[float, float, GridPair]]) -> GridPair:
    """Return the mixture of pairs with a known component: its weight under P and Q, and the pair.

    Losses move by the log of the weights' ratio: atoms of a dominating pair are split between the
    grid points next to their new place, merged cells move by whole intervals and record P/Q.
    """
    shift, moved = 0.0, []
    for of_p, of_q, pair in parts:
        here = math.log(of_p / of_q)
        whole = math.floor(here / pair.interval) if pair.above else round(here / pair.interval)
        rest = whole * pair.interval - here
        share = math.expm1(rest) / math.expm1(-pair.interval) if pair.above else 0.0
        p = np.append((1 - share) * of_p * pair.p, 0.0)
        p[1:] += share * of_p * pair.p
        lifted = p if pair.above else np.append(of_p * math.exp(rest) * pair.lifted, 0.0)
        only = of_p * pair.p_only, of_q * pair.q_only
        first = pair.first + whole
        moved.append(GridPair(pair.above, pair.interval, first, p, lifted, *only, pair.rounding))
        shift = max(shift, abs(here))
    rounding = max(pair.rounding for pair in moved)
    rounding += UNIT_ROUNDOFF * (len(moved) + 32 + 8 * shift)
    return united(moved[0].above, moved[0].interval, moved, rounding)


def regridded(pair: GridPair, interval: float) -> GridPair:
    """Return the pair on a grid of another interval, on the same side."""
    some = pair.p + pair.lifted > 0
    with np.errstate(divide="ignore"):
        log_p = np.log(pair.p[some])
        log_q = np.log(pair.lifted[some]) - pair.losses[some]
    make = dominating if pair.above else dominated
    moved = make(log_p, log_q, interval, rounding=pair.rounding)
    # the losses are products of an index and the interval
    reach = float(np.abs(pair.losses).max())
    return replace(
        moved,
        p_only=moved.p_only + pair.p_only,
        q_only=moved.q_only + pair.q_only,
        rounding=moved.rounding + 4 * (reach + 1) * UNIT_ROUNDOFF,
    )


def _binned(place: NDArray[np.int64], weights: Array) -> Array:
    return np.bincount(place, weights=weights).astype(np.float64, copy=False)


def _split_singular(log_p: Array, log_q: Array) -> tuple[Flags, float, float]:
    """Return where both laws are positive, and the mass of each elsewhere."""
    in_p, in_q = np.isfinite(log_p), np.isfinite(log_q)
    p_only = float(np.exp(log_p[in_p & ~in_q]).sum())
    q_only = float(np.exp(log_q[in_q & ~in_p]).sum())
    return in_p & in_q, p_only, q_only


def _sums(outcomes: Array) -> float:
    """Return the relative error of sums over all outcomes, including exponentials."""
    return (outcomes.size + 16) * UNIT_ROUNDOFF
