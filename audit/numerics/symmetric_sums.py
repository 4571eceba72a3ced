"""Elementary symmetric polynomials of independent variables, averaged over groups of outcomes.

Let e_j be the j-th elementary symmetric polynomial of independent nonnegative variables. Those of
two sets of variables combine as e_j = sum over i of e_i e'_(j-i). So the means of e_0, ..., e_k on
groups of outcomes of each set give those on pairs of groups, and means of a union of groups are
sums. Averaging is all that is lost: by Jensen's inequality E f(e_k) is at most its true value for
convex f, whatever the groups are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.numerics.arrays import Array, Integers
from audit.numerics.normal import log_interval, log_interval_error

_UNIT_ROUNDOFF = 2.0**-53
# Standard deviations, beyond which normal outcomes are one group; groups of one variable.
_REACH, _BASE_GROUPS = 12.0, 200
# Measured to be about best: rows of groups by e_1 for each root of their number, and the power of
# the density that the number of groups follows. Small powers serve tails.
_ROWS, _POWER = 8.0, 0.12
_ROW_BINS, _COLUMN_BINS = 4000, 400


@dataclass(frozen=True, eq=False)
class SymmetricSums:
    """Groups of outcomes of several independent variables.

    moments: Of each group: E[e_j; group], shape (k + 1, groups); e_0 = 1 gives probabilities.
    rounding: Bound on the relative error of ``moments``.
    """

    moments: Array
    rounding: float

    @classmethod
    def of_lognormal(cls, scale: float, mean: float, order: int) -> SymmetricSums:
        """Return groups of one variable mean * exp(scale N - scale^2/2), N standard normal."""
        inner = np.linspace(-_REACH, _REACH + scale, _BASE_GROUPS - 1)
        low, high = np.append(-math.inf, inner), np.append(inner, math.inf)
        ends = (low, high), (low - scale, high - scale)
        logs = [log_interval(a, b) for a, b in ends]
        moved = 2 * _UNIT_ROUNDOFF * (_REACH + 2 * scale)  # rounding of a difference
        errors = [log_interval_error(a, b, moved) for a, b in ends]
        moments = np.zeros((order + 1, _BASE_GROUPS))
        moments[0], moments[1] = np.exp(logs[0]), mean * np.exp(logs[1])
        return cls(moments, float(np.max(errors)) + 8 * _UNIT_ROUNDOFF)

    def plus(self, other: SymmetricSums, groups: int) -> SymmetricSums:
        """Return those of the variables of both, in at most about ``groups`` groups."""
        order = len(self.moments) - 1
        pairs = np.zeros((order + 1, self.moments.shape[1] * other.moments.shape[1]))
        for j in range(order + 1):
            for i in range(j + 1):
                pairs[j] += np.multiply.outer(self.moments[i], other.moments[j - i]).ravel()
        group = _groups(pairs, groups)
        merged = np.stack([np.bincount(group, moment).astype(np.float64) for moment in pairs])
        terms = int(np.bincount(group).max()) + order + 3
        filled = merged[0] > 0  # products below the range of doubles are lost
        rounding = self.rounding + other.rounding + terms * _UNIT_ROUNDOFF
        return SymmetricSums(merged[:, filled], rounding)

    def times(self, count: int, groups: int) -> SymmetricSums:
        """Return those of ``count`` independent copies of the variables."""
        power, total = self, None
        while True:
            if count % 2:
                total = power if total is None else total.plus(power, groups)
            count //= 2
            if not count:
                assert total is not None  # the last bit is set
                return total
            power = power.plus(power, groups)


def _groups(moments: Array, groups: int) -> Integers:
    """Put outcomes of similar e_1 and e_j/e_1^j into groups, more of them where outcomes are.

    j is k, or the number of variables if that is smaller.
    """
    j = int(np.flatnonzero(moments.any(axis=1))[-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.nan_to_num(np.log(moments[1] / moments[0]), neginf=0.0)
        last = np.nan_to_num(np.log(moments[j] / moments[0]) - j * first)
    weights = sum(moment / max(float(moment.sum()), 1e-300) for moment in moments[[0, 1, j]])
    count = min(math.ceil(_ROWS * math.sqrt(groups)), groups)
    least, most = float(first.min()), float(first.max())
    scale = _ROW_BINS / (most - least) if most > least else 0.0
    place = np.minimum((first - least) * scale, _ROW_BINS - 1).astype(np.int64)
    share = np.cumsum(np.bincount(place, weights, _ROW_BINS) ** _POWER)
    row = np.minimum(share / share[-1] * count, count - 1).astype(np.int64)[place]
    low, high = np.full(count, math.inf), np.full(count, -math.inf)
    np.minimum.at(low, row, last)
    np.maximum.at(high, row, last)
    width = np.where(high > low, high - low, 1.0)
    column = np.minimum((last - low[row]) / width[row] * _COLUMN_BINS, _COLUMN_BINS - 1)
    place = row * _COLUMN_BINS + column.astype(np.int64)
    density = np.bincount(place, weights, count * _COLUMN_BINS).reshape(count, -1) ** _POWER
    share = np.cumsum(density, axis=1)
    spread = share[:, -1] * np.sqrt(width)
    columns = np.maximum(1, np.round((groups - count) * spread / spread.sum()))
    column = share.ravel()[place] / share[row, -1] * columns[row]
    column = np.minimum(column, columns[row] - 1).astype(np.int64)
    return np.asarray(np.unique(row * groups + column, return_inverse=True)[1])
