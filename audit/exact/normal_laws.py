"""The closed form: affine maps and no walls leave the iterate Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from audit.constructions.process import Path, Process, Segment
from audit.constructions.updates import Affine
from audit.curves import Order
from audit.curves.bracketed import BracketedCurve, MuBracket
from audit.curves.brackets import Bracket
from audit.curves.gaussian import GaussianCurve
from audit.exact.law import Law
from audit.exact.tables import UNIT
from audit.numerics.normal import gaussian_delta_bracket, normal_tail_bracket

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NormalLaw(Law):
    """Normal law, of which mean and deviation are rounded numbers: see ``slip``."""

    @classmethod
    def at(cls, mean: float, std: float, slip: float = 0.0) -> NormalLaw:
        """Return N(mean, std^2)."""
        one = np.array([mean]), np.array([std]), np.zeros(1)
        return cls(*one, exact_means=True, slip=slip)

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.means[0])

    @property
    def std(self) -> float:
        """The standard deviation."""
        return self.narrowest


@dataclass(frozen=True)
class GaussianPairCurve(GaussianCurve, BracketedCurve):
    """Exact curve of two normal laws of equal variance; ``mu`` is their distance."""

    first: NormalLaw
    second: NormalLaw
    _cause: ClassVar[str] = "rounding"

    @property
    def _mu_range(self) -> tuple[float, float]:
        error = 8 * UNIT * self.mu + (1 + self.mu) * (self.first.slip + self.second.slip)
        return max(self.mu - error, 0.0), self.mu + error

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        least, most = self._mu_range
        if delta == 0:  # any two different normal laws have an unbounded ratio
            return math.inf if least > 0 else 0.0, math.inf if most > 0 else 0.0

        def reached(epsilon: float) -> bool:
            return epsilon <= 0 or _delta(epsilon, least)[0] >= delta

        def missed(epsilon: float) -> bool:
            return _delta(epsilon, most)[1] <= delta

        low = _proven(GaussianCurve(least).epsilon(delta), -1, reached)
        high = _proven(GaussianCurve(most).epsilon(delta), 1, missed)
        return max(low, 0.0), high

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        least, most = self._mu_range
        return _delta(epsilon, least)[0], _delta(epsilon, most)[1]

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        least, most = (alpha * mu * mu / 2 for mu in self._mu_range)
        return least * (1 - 4 * UNIT), most * (1 + 4 * UNIT)

    def _power_bracket(self, alpha: float, order: Order) -> Bracket:
        return gaussian_power_bracket(self._mu_range, alpha)

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu for which the pair is mu-GDP: the distance."""
        return MuBracket(*self._mu_range, 0.0)


def _delta(epsilon: float, mu: float) -> Bracket:
    low, high = gaussian_delta_bracket(np.array(epsilon), np.array(mu))
    return float(low), float(high)


def _proven(value: float, side: int, holds: Callable[[float], bool]) -> float:
    """Return a number near a value, on one side of it, of which a condition is proven, or inf."""
    step = 4 * UNIT * max(abs(value), 1e-3)
    while math.isfinite(value) and not holds(value):
        value, step = value + side * step, 2 * step
    return value


def gaussian_power_bracket(mu: tuple[float, float], alpha: float) -> tuple[float, float]:
    """Return bounds on 1 - beta of N(0, 1) against N(m, 1), for every m of an interval ``mu``.

    The test is a threshold; of one whose type I error is certainly smaller, or larger, the power
    is, too.
    """
    near = -float(ndtri(alpha))
    above = _proven(near, 1, lambda x: normal_tail_bracket(x)[1] <= alpha)
    below = _proven(near, -1, lambda x: normal_tail_bracket(x)[0] >= alpha)
    slips = (4 * UNIT * (abs(x) + m) for x, m in zip((above, below), mu, strict=True))
    far, near = next(slips) + above - mu[0], below - mu[1] - next(slips)
    return normal_tail_bracket(far)[0], min(normal_tail_bracket(near)[1], 1.0)


@dataclass(frozen=True)
class _Motion:
    """x -> slope x + shift + N(0, variance).

    ``size`` is the sum of the absolute values of all that ``shift`` sums up. Rounding errors, in
    units of the last place: ``depth`` bounds that of ``shift`` relative to ``size`` and that of
    ``variance``, ``slope_depth`` that of ``slope``.
    """

    slope: float = 1.0
    shift: float = 0.0
    variance: float = 0.0
    size: float = 0.0
    depth: int = 0
    slope_depth: int = 0

    def then(self, other: _Motion) -> _Motion:
        exact = abs(other.slope) == 1
        return _Motion(
            other.slope * self.slope,
            other.slope * self.shift + other.shift,
            other.slope * other.slope * self.variance + other.variance,
            abs(other.slope) * self.size + other.size,
            1 + max(self.depth + (0 if exact else 3 + 2 * other.slope_depth), other.depth),
            0 if exact and abs(self.slope) == 1 else 1 + self.slope_depth + other.slope_depth,
        )

    def power(self, times: int) -> _Motion:
        result, square = _Motion(), self
        while times:
            if times & 1:
                result = result.then(square)
            square = square.then(square)
            times >>= 1
        return result


def normal_law(process: Process) -> NormalLaw | None:
    """Return the law of the last iterate if it is certainly normal, else None.

    It is if the domain is unbounded and every step has one affine map, with the same effect along
    every path.
    """
    if not (math.isinf(process.lower) and math.isinf(process.upper)):
        return None
    for step in process.distinct_steps():
        if len(set(step.maps)) > 1 or not isinstance(step.maps[0], Affine):
            return None
    first, *others = (_path_law(process.start, path) for path in process.paths)
    for other in others:
        apart = abs(other.mean - first.mean) / first.std + abs(other.std / first.std - 1)
        if apart > 2 * (first.slip + other.slip):
            return None
    return first


def gaussian_pair(first: NormalLaw, second: NormalLaw) -> GaussianPairCurve | None:
    """Return the curve of two normal laws if their variances agree, else None."""
    if abs(first.std / second.std - 1) > first.slip + second.slip + 2 * UNIT:
        return None
    return GaussianPairCurve(abs(first.mean - second.mean) / first.std, first, second)


def _path_law(start: float, path: Path) -> NormalLaw:
    motion = _Motion()
    for segment in path.segments:
        motion = motion.then(_segment_motion(segment))
    mean, std = motion.slope * start + motion.shift, math.sqrt(motion.variance)
    if not (math.isfinite(mean) and math.isfinite(std)):
        raise ValueError(f"slope must not let the iterate overflow, got a mean of {mean}")
    size = abs(motion.slope * start) + motion.size
    depth = 4 + motion.depth + motion.slope_depth
    return NormalLaw.at(mean, std, depth * UNIT * (1 + size / std))


def _segment_motion(segment: Segment) -> _Motion:
    period = _Motion()
    for step in segment.steps:
        phi = step.maps[0]
        assert isinstance(phi, Affine)  # checked by normal_law
        period = period.then(_Motion(phi.slope, phi.shift, step.noise_std**2, abs(phi.shift)))
    return period.power(segment.times)
