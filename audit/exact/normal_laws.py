"""The closed form: affine maps and no walls leave the iterate Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.constructions.process import Path, Process
from audit.constructions.updates import Affine
from audit.curves.gaussian import NormalPairCurve
from audit.exact.law import UNIT, Law


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
class GaussianPairCurve(NormalPairCurve):
    """Exact curve of two normal laws of equal variance; ``mu`` is their distance."""

    first: NormalLaw
    second: NormalLaw

    @property
    def _slip(self) -> float:
        return self.first.slip + self.second.slip


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
        period = _Motion()
        for step in segment.steps:
            phi = step.maps[0]
            assert isinstance(phi, Affine)  # checked by normal_law
            period = period.then(_Motion(phi.slope, phi.shift, step.noise_std**2, abs(phi.shift)))
        motion = motion.then(period.power(segment.times))
    mean, std = motion.slope * start + motion.shift, math.sqrt(motion.variance)
    if not (math.isfinite(mean) and math.isfinite(std)):
        raise ValueError(f"slope must not let the iterate overflow, got a mean of {mean}")
    size = abs(motion.slope * start) + motion.size
    depth = 4 + motion.depth + motion.slope_depth
    return NormalLaw.at(mean, std, depth * UNIT * (1 + size / std))
