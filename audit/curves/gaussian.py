"""N(0, 1) against N(mu, 1), in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.bracketed import BracketedCurve, MuBracket
from audit.curves.brackets import Bracket
from audit.numerics.arrays import Array
from audit.numerics.normal import (
    gaussian_delta,
    gaussian_delta_bracket,
    log_density,
    log_gaussian_delta_bracket,
    mills_difference,
    mills_ratio,
    normal_tail_bracket,
)

_MAX_STEPS = 60
_DIGITS = 2.0**-50
_UNIT = 2.0**-53


@dataclass(frozen=True)
class GaussianCurve(PrivacyCurve):
    """Curve of N(0, 1) against N(mu, 1): mu-GDP (Dong, Roth and Su 2022).

    ``epsilon`` and ``delta`` are inverses of each other to a relative error of 1e-10 in delta, for
    mu from 1e-6 to 40 and delta from 1e-12.

    Parameters
    ----------
    mu : float
        Distance of the means in standard deviations, at least 0; 0 is perfect privacy.

    Raises
    ------
    ValueError
        If ``mu`` is negative or not finite.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> round(GaussianCurve(1.0).epsilon(1e-5), 4)
    4.3772
    """

    mu: float

    def __post_init__(self) -> None:
        validate.nonnegative(mu=self.mu)

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values; true by reflection."""
        return True

    def _delta(self, epsilon: Array, order: Order) -> Array:
        if self.mu == 0:
            return -np.expm1(np.minimum(epsilon, 0.0))
        return gaussian_delta(epsilon, np.array(self.mu))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        if self.mu == 0:
            return np.zeros_like(delta)
        mu = self.mu
        # delta(epsilon) <= Phi(-x) with x = epsilon/mu - mu/2 gives an upper bound on the root
        nothing = math.erf(mu / math.sqrt(8)) <= delta
        epsilon = np.where(nothing, 0.0, np.maximum(mu * (mu / 2 - ndtri(delta)), 0.0))
        target = np.log(delta)
        widths = np.full_like(epsilon, mu)
        for _ in range(_MAX_STEPS):
            # x is below -9 only where nothing is left to find
            x = np.maximum(epsilon / mu - mu / 2, -30.0)
            # delta = phi(x) (M(x) - M(x + mu)), minus its derivative phi(x) M(x + mu)
            part = mills_difference(x, widths)
            with np.errstate(divide="ignore", invalid="ignore"):
                log_delta = log_density(x) + np.log(part)
                if mu >= 1 and np.any(x < -5):  # where delta is near 1 logarithms cancel
                    log_delta = np.log(gaussian_delta(epsilon, widths))
                step = (target - log_delta) * part / mills_ratio(x + mu)
                step = np.where(nothing | (part == 0), 0.0, step)
            # log delta is concave, so its tangents lead to points where delta is not above
            epsilon = np.maximum(epsilon - step, 0.0)
            if np.all(np.abs(step) <= _DIGITS * epsilon):
                break
        return epsilon * (1 + _DIGITS)

    def _pure_epsilon(self, order: Order) -> float:
        return 0.0 if self.mu == 0 else math.inf

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(ndtr(-ndtri(alpha) - self.mu))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return alpha * (self.mu * self.mu / 2)


@dataclass(frozen=True)
class NormalPairCurve(GaussianCurve, BracketedCurve):
    """Exact curve of two normal laws of one variance, at the distance ``mu`` within eight units."""

    _cause: ClassVar[str] = "rounding"

    @property
    def _slip(self) -> float:
        """Bound on the errors of the distance beside its rounding, over 1 + mu."""
        return 0.0

    @property
    def _mu_range(self) -> tuple[float, float]:
        error = 8 * _UNIT * self.mu + (1 + self.mu) * self._slip
        return max(self.mu - error, 0.0), self.mu + error

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        least, most = self._mu_range
        if delta == 0:  # any two different normal laws have an unbounded ratio
            return math.inf if least > 0 else 0.0, math.inf if most > 0 else 0.0

        goal = math.log(delta)

        def reached(epsilon: float) -> bool:
            return epsilon <= 0 or _log_delta(epsilon, least)[0] >= goal * (1 - 2 * _UNIT)

        def missed(epsilon: float) -> bool:
            return _log_delta(epsilon, most)[1] <= goal * (1 + 2 * _UNIT)

        low = _proven(GaussianCurve(least).epsilon(delta), -1, reached)
        high = _proven(GaussianCurve(most).epsilon(delta), 1, missed)
        return max(low, 0.0), high

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        least, most = self._mu_range
        return _delta(epsilon, least)[0], _delta(epsilon, most)[1]

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        least, most = (alpha * mu * mu / 2 for mu in self._mu_range)
        return least * (1 - 4 * _UNIT), most * (1 + 4 * _UNIT)

    def _power_bracket(self, alpha: float, order: Order) -> Bracket:
        return gaussian_power_bracket(self._mu_range, alpha)

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu for which the pair is mu-GDP: the distance."""
        return MuBracket(*self._mu_range, 0.0)


def gaussian_power_bracket(mu: tuple[float, float], alpha: float) -> Bracket:
    """Return bounds on 1 - beta of N(0, 1) against N(m, 1), for every m of an interval ``mu``.

    The test is a threshold; of one whose type I error is certainly smaller, or larger, the power
    is, too.
    """
    near = -float(ndtri(alpha))
    above = _proven(near, 1, lambda x: normal_tail_bracket(x)[1] <= alpha)
    below = _proven(near, -1, lambda x: normal_tail_bracket(x)[0] >= alpha)
    slips = (4 * _UNIT * (abs(x) + m) for x, m in zip((above, below), mu, strict=True))
    far, near = next(slips) + above - mu[0], below - mu[1] - next(slips)
    return normal_tail_bracket(far)[0], min(normal_tail_bracket(near)[1], 1.0)


def _delta(epsilon: float, mu: float) -> Bracket:
    if epsilon < 0:  # 1 - e^epsilon + e^epsilon times delta at -epsilon
        shrink, least = math.exp(epsilon), -math.expm1(epsilon)
        low, high = (least + shrink * end for end in _delta(-epsilon, mu))
        return low * (1 - 8 * _UNIT), min(high * (1 + 8 * _UNIT), 1.0)
    ends = gaussian_delta_bracket(np.array(epsilon), np.array(mu))
    return float(ends[0]), float(ends[1])


def _log_delta(epsilon: float, mu: float) -> Bracket:
    return log_gaussian_delta_bracket(epsilon, mu) if mu else (-math.inf, -math.inf)


def _proven(value: float, side: int, holds: Callable[[float], bool]) -> float:
    """Return a number near a value, on one side of it, of which a condition is proven, or inf."""
    step = 2 * _UNIT * max(abs(value), 1e-290)
    while math.isfinite(value) and not holds(value):
        value, step = value + side * step, 2 * step
    return value
