"""Matrix mechanisms: Gaussian noise that is correlated between steps (DP-FTRL, banded noise).

A run of T steps with gradients g_1, ..., g_T releases C G + Z, or its functions such as
G + C^+ Z; the rows of G are the gradients, C is the strategy and Z is white noise. A record that
takes part in the steps of a set p moves C G by sum_{i in p} u_i C e_i for vectors |u_i| <= 1 (in
units of its sensitivity), so the mechanism is mu-GDP, and no better, with

    mu = sup_p S(p)/z,  S(p)^2 = sup_u sum_{i, j in p} X_ij <u_i, u_j>,  X = C^T C,

z the noise multiplier. For lower-triangular C this holds for adaptive gradients, too (Denisov et
al. 2022). Where X_ij >= 0 on p, S(p)^2 is the sum of these entries; in general it is between the
best signs and the sum of absolute values. A larger set of steps never has a smaller S, because
S(p)^2 is convex in each u_i.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import GaussianCurve
from audit.numerics.arrays import Array
from audit.numerics.display import ShortRepr

_UNIT, _TINY = 2.0**-53, 1e-300  # roundoff; and room for products that underflow
_MAX_PATTERNS = 20_000  # sets of steps that are tried one by one


class Pattern(enum.Enum):
    """Sets of steps in which one record may take part.

    Attributes
    ----------
    SINGLE
        One step.
    FIXED_ORDER
        Every b-th step from any of the first b on: epochs of b steps in the same order.
    SEPARATED
        Any steps that are at least b apart.
    """

    SINGLE = "single"
    FIXED_ORDER = "fixed order"
    SEPARATED = "separated"


@dataclass(frozen=True)
class Participation:
    """Number of participations of a record, and their steps.

    Parameters
    ----------
    pattern : Pattern
        The sets of steps.
    separation : int, default: 1
        The least distance b of two of its steps; 1 for single participation.
    most : int, optional
        Largest number k of its steps. None: as many as there is room for.

    Raises
    ------
    ValueError
        If a number is below 1.
    """

    pattern: Pattern
    separation: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        validate.instance(Pattern, pattern=self.pattern)
        validate.integer(1, separation=self.separation)
        if self.most is not None:
            validate.integer(1, most=self.most)

    @classmethod
    def single(cls) -> Participation:
        """Return participation in one step.

        Returns
        -------
        Participation
            Any one step.
        """
        return cls(Pattern.SINGLE)

    def times(self, steps: int) -> int:
        """Return the largest number of steps that one record takes part in.

        Parameters
        ----------
        steps : int
            Number of steps of the run.

        Returns
        -------
        int
            At least 1.
        """
        if self.pattern is Pattern.SINGLE:
            return 1
        room = -(-steps // self.separation)
        return room if self.most is None else min(room, self.most)


@dataclass(frozen=True)
class Sensitivity:
    """Bracket of the largest distance of two runs, in units of one gradient's sensitivity."""

    low: float  #: Lower end.
    high: float  #: Upper end, equal up to rounding where the sensitivity is known exactly.


@dataclass(frozen=True, eq=False)
class MatrixMechanism(ShortRepr):
    """Gaussian mechanism C G + Z over a run, with white noise Z.

    Parameters
    ----------
    strategy : ndarray
        Strategy matrix C, one column a step. The identity is DP-SGD; the rows of tree aggregation
        are its nodes.
    noise_multiplier : float
        Standard deviation z of Z over the sensitivity of one gradient.
    participation : Participation
        Steps in which one record may take part.

    Raises
    ------
    ValueError
        If the matrix is not a finite, two-dimensional array, or the noise is not positive.

    Examples
    --------
    >>> epochs = Participation(Pattern.FIXED_ORDER, separation=2)
    >>> low, high = MatrixMechanism(np.eye(6), 1.5, epochs).mu_bracket()
    >>> round(low, 6), round(high, 6)
    (1.154701, 1.154701)
    """

    strategy: Array
    noise_multiplier: float
    participation: Participation

    def __post_init__(self) -> None:
        matrix = np.array(self.strategy, dtype=np.float64)
        if matrix.ndim != 2 or not matrix.size or not np.all(np.isfinite(matrix)):
            raise ValueError(f"strategy must be a finite matrix, got shape {matrix.shape}")
        validate.positive(noise_multiplier=self.noise_multiplier)
        matrix.flags.writeable = False
        object.__setattr__(self, "strategy", matrix)

    @property
    def steps(self) -> int:
        """Number of steps T."""
        return int(self.strategy.shape[1])

    @cached_property
    def _exponent(self) -> int:
        """Power of 2 of the largest entry, which is divided out: no square underflows."""
        return math.frexp(float(np.max(np.abs(self.strategy))))[1]

    @cached_property
    def _gram(self) -> Array:
        scaled = np.ldexp(self.strategy, -self._exponent)
        return np.asarray(scaled.T @ scaled)

    @cached_property
    def _slips(self) -> Array:
        """Bounds on the rounding of the entries of X: sums of as many products as C has rows."""
        sizes = np.abs(np.ldexp(self.strategy, -self._exponent))
        units = 2 * self.strategy.shape[0] + 8
        return np.asarray(_UNIT * units * (sizes.T @ sizes) + _TINY)

    def sensitivity(self) -> Sensitivity:
        """Return how far one record moves C G.

        Exact for single participation; for a fixed order and non-negative X; for separated steps
        where columns of C that are b or more apart are orthogonal (banded strategies), where C is
        lower-triangular Toeplitz with non-negative, non-increasing entries, or where X is
        non-negative and there are at most 20,000 sets of steps.

        Returns
        -------
        Sensitivity
            Its bracket.

        Notes
        -----
        For Toeplitz C the worst set is 0, b, 2b, ... (Kalinin and Lampert 2024, Theorem 2): with
        column entries c_0 >= c_1 >= ... >= 0, X_ij = sum_{s <= T-1-j} c_s c_{s+j-i} for i <= j
        decreases in j - i and, at a fixed distance, in j; and the m-th steps and distances of any
        other set are no smaller. For banded C all X_ij of two different steps of a set vanish, and
        a dynamic program finds the largest sum of X_ii.

        Otherwise the upper end is the largest sum over a set of the largest row sums of |X| over
        sets (Choquette-Choo et al. 2023, Algorithm 4), and the lower end is the best set found.
        """
        participation, gram = self.participation, self._gram
        if participation.pattern is Pattern.SINGLE:
            own, slips = np.diag(gram), np.diag(self._slips)
            return self._squared(float(np.max(own - slips)), float(np.max(own + slips)))
        if participation.pattern is Pattern.FIXED_ORDER:
            return self._over(self._chains())
        steps = np.arange(self.steps)
        apart = np.abs(np.subtract.outer(steps, steps)) >= participation.separation
        if np.all(np.abs(gram[apart]) <= self._slips[apart]):  # orthogonal columns, to rounding
            best = largest_sum(np.diag(gram) + np.diag(self._slips), participation)
            slip = float(np.max(np.diag(self._slips))) + float(
                np.max(self._slips[apart], initial=0)
            )
            slip = 2 * participation.times(self.steps) ** 2 * slip
            return self._squared(best - slip, best + slip)
        if self._decreasing():
            first = np.arange(participation.times(self.steps)) * participation.separation
            return self._over(iter([first]))
        gap, times = participation.separation, participation.times(self.steps)
        counts = (math.comb(self.steps - (k - 1) * (gap - 1), k) for k in range(1, times + 1))
        if sum(counts) <= _MAX_PATTERNS:
            return self._over(self._sets())
        most = np.abs(gram) + self._slips
        bound = largest_sum(
            np.array([largest_sum(row, participation) for row in most]), participation
        )
        low = self._over(self._chains()).low
        return Sensitivity(low, self._squared(0.0, bound * (1 + 4 * _UNIT * self.steps)).high)

    def mu_bracket(self) -> tuple[float, float]:
        """Return the ends of the Gaussian parameter: the sensitivity over the noise multiplier.

        Returns
        -------
        tuple of float
            Lower and upper end.
        """
        found, z = self.sensitivity(), self.noise_multiplier
        return found.low / z * (1 - 2 * _UNIT), found.high / z * (1 + 2 * _UNIT)

    def curve(self) -> GaussianCurve:
        """Return the privacy curve of the whole run, at the upper end of the bracket.

        Returns
        -------
        GaussianCurve
            The curve of all releases.
        """
        return GaussianCurve(self.mu_bracket()[1])

    def _chains(self) -> Iterator[NDArray[np.intp]]:
        """Yield the longest sets of steps that are exactly b apart."""
        gap, times = self.participation.separation, self.participation.times(self.steps)
        span = (times - 1) * gap
        for first in range(max(gap, self.steps - span)):
            yield np.arange(first, min(first + span + 1, self.steps), gap)

    def _sets(self) -> Iterator[NDArray[np.intp]]:
        """Yield every set of ``times`` separated steps, and all smaller ones."""
        gap, times = self.participation.separation, self.participation.times(self.steps)
        for count in range(1, times + 1):
            room = self.steps - (count - 1) * (gap - 1)
            for chosen in itertools.combinations(range(room), count):
                yield np.array(chosen) + np.arange(count) * (gap - 1)

    def _over(self, sets: Iterator[NDArray[np.intp]]) -> Sensitivity:
        low = high = 0.0
        for chosen in sets:
            part = self._gram[np.ix_(chosen, chosen)]
            total = float(np.sum(np.abs(part)))
            # rounding of the entries, and of a sum of all of them
            slip = float(np.sum(self._slips[np.ix_(chosen, chosen)]))
            slip += _UNIT * (part.size + 8) * total
            high = max(high, total + slip)
            signs = np.ones(chosen.size)
            if np.any(part < 0):
                signs = _good_signs(part)
            low = max(low, float(signs @ part @ signs) - slip)
        return self._squared(low, high)

    def _squared(self, low: float, high: float) -> Sensitivity:
        """Return the sensitivity whose square, without the power of 2, is in a range."""
        ends = math.sqrt(max(low, 0.0)) * (1 - 4 * _UNIT), math.sqrt(high) * (1 + 4 * _UNIT)
        low, high = (math.ldexp(end, self._exponent) for end in ends)
        return Sensitivity(math.nextafter(low, 0.0), math.nextafter(high, math.inf))

    def _decreasing(self) -> bool:
        matrix = self.strategy
        if matrix.shape[0] != self.steps or np.any(np.triu(matrix, 1)):
            return False
        first = matrix[:, 0]
        toeplitz = all(
            np.array_equal(matrix[step:, step], first[: self.steps - step])
            for step in range(self.steps)
        )
        return toeplitz and bool(np.all(first >= 0) and np.all(np.diff(first) <= 0))


def largest_sum(weights: Array, participation: Participation) -> float:
    """Return the largest sum of weights over one of the sets of separated steps.

    A dynamic program from the last step on (Choquette-Choo et al. 2023, Algorithm 3).
    """
    steps, gap = weights.size, participation.separation
    best = np.zeros(steps + gap)
    for _ in range(participation.times(steps)):
        taken = np.concatenate([weights + best[gap:], np.zeros(gap)])
        best = np.maximum.accumulate(taken[::-1])[::-1]
    return float(best[0])


def square_root_strategy(steps: int) -> Array:
    """Return the Toeplitz square root of the matrix of prefix sums.

    Its entries are the coefficients binom(2j, j)/4^j of (1 - x)^(-1/2) (Fichtenberger, Henzinger
    and Upadhyay 2023).

    Parameters
    ----------
    steps : int
        Number of steps T.

    Returns
    -------
    ndarray
        Lower-triangular matrix, shape ``(steps, steps)``.

    Raises
    ------
    ValueError
        If ``steps`` is below 1.

    Examples
    --------
    >>> root = square_root_strategy(4)
    >>> np.allclose(root @ root, np.tri(4))
    True
    """
    validate.integer(1, steps=steps)
    ratios = (2 * np.arange(1, steps) - 1) / (2 * np.arange(1, steps))
    column = np.concatenate([[1.0], np.cumprod(ratios)])
    lags = np.subtract.outer(np.arange(steps), np.arange(steps))
    return np.where(lags >= 0, column[np.abs(lags)], 0.0)


def tree_strategy(steps: int) -> Array:
    """Return the nodes of a binary tree over the steps, one row a node (Kairouz et al. 2021)."""
    validate.integer(1, steps=steps)
    rows, size = [], 1
    while size <= steps:
        for first in range(0, steps - size + 1, size):
            row = np.zeros(steps)
            row[first : first + size] = 1
            rows.append(row)
        size *= 2
    return np.array(rows)


def _good_signs(part: Array) -> Array:
    """Return signs of a large quadratic form: from all ones, one change after the other."""
    signs = np.ones(part.shape[0])
    while True:
        gains = -4 * signs * (part @ signs) + 4 * np.diag(part)
        place = int(np.argmax(gains))
        if gains[place] <= 0:
            return signs
        signs[place] = -signs[place]
