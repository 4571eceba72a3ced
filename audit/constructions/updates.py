"""Noiseless updates of a one-dimensional state."""

from __future__ import annotations

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.numerics.arrays import Array

_FAR, _RUNGS = 1024.0, 16.0  # first of the additional breakpoints in deviations, and their ratio
_MUCH = 8.0  # times: values beside a state that are larger are not interpolated
_MAX_EXPONENT = 16.0  # largest exponent: |x|^16 is finite for every plausible state


class UpdateMap(ABC):
    """Noiseless update x -> phi(x) of a one-dimensional state; hashable."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map is not smooth."""
        return ()


@dataclass(frozen=True)
class Affine(UpdateMap):
    """Update x -> slope x + shift.

    Parameters
    ----------
    shift : float, default: 0.0
        Displacement of the state.
    slope : float, default: 1.0
        Factor of the state.

    Raises
    ------
    ValueError
        If a number is not finite.
    """

    shift: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        validate.finite(shift=self.shift, slope=self.slope)

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        return self.slope * x + self.shift


@dataclass(frozen=True)
class Mapped(UpdateMap):
    """Update by any vectorised function of the state.

    Parameters
    ----------
    function : callable
        Maps an array of states, shape ``(k,)``, to an array of the same shape. Smooth between the
        kinks.
    kink_points : tuple of float, optional
        Points where the function is not smooth.
    """

    function: Callable[[Array], Array]
    kink_points: tuple[float, ...] = ()

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        return self.function(x)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map is not smooth."""
        return self.kink_points


@dataclass(frozen=True)
class PiecewiseLinear(UpdateMap):
    """Continuous piecewise linear function through ``(points[i], values[i])``.

    Serves as an update and as the gradient of a loss.
    """

    points: tuple[float, ...]  #: Breakpoints, ascending; at least one.
    values: tuple[float, ...]  #: Values at the breakpoints.
    slopes: tuple[float, float]  #: Slopes left of the first and right of the last breakpoint.

    shorthands: ClassVar[Mapping[str, Any]] = MappingProxyType({"": float})

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        """Expand a number to the constant function."""
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            return {"points": [0.0], "values": [plain], "slopes": [0.0, 0.0]}
        return plain

    def __post_init__(self) -> None:
        for name in ("points", "values", "slopes"):
            numbers = tuple(float(number) for number in getattr(self, name))
            if not all(map(math.isfinite, numbers)):
                validate.finite(**{f"{name}_{i}": number for i, number in enumerate(numbers)})
            object.__setattr__(self, name, numbers)
        if not self.points or len(self.points) != len(self.values) or len(self.slopes) != 2:
            raise ValueError(
                "points and values must be one or more pairs, and slopes two, "
                f"got {len(self.points)}, {len(self.values)} and {len(self.slopes)}"
            )
        if any(a >= b for a, b in itertools.pairwise(self.points)):
            raise ValueError(f"points must ascend, got {self.points}")

    @staticmethod
    def constant(value: float) -> PiecewiseLinear:
        """Return a constant function."""
        return PiecewiseLinear((0.0,), (value,), (0.0, 0.0))

    @staticmethod
    def linear(slope: float) -> PiecewiseLinear:
        """Return the linear function ``slope x``."""
        return PiecewiseLinear((0.0,), (0.0,), (slope, slope))

    @staticmethod
    def clipped(slope: float, centre: float, cap: float) -> PiecewiseLinear:
        """Return ``slope (x - centre)`` clipped to [-cap, cap]: the gradient of a Huber loss."""
        validate.positive(slope=slope, cap=cap)
        reach = cap / slope
        return PiecewiseLinear((centre - reach, centre + reach), (-cap, cap), (0.0, 0.0))

    @staticmethod
    def total(lines: Iterable[tuple[float, PiecewiseLinear]]) -> PiecewiseLinear:
        """Return the weighted sum of functions."""
        weighted = tuple(lines)
        points = np.array(sorted({x for _, line in weighted for x in line.points}))
        values = np.sum([weight * line.at(points) for weight, line in weighted], axis=0)
        left = math.fsum(weight * line.slopes[0] for weight, line in weighted)
        right = math.fsum(weight * line.slopes[1] for weight, line in weighted)
        return PiecewiseLinear(tuple(points.tolist()), tuple(values.tolist()), (left, right))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        return np.array(self.points), np.array(self.values)

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        states = np.asarray(x, dtype=np.float64)
        result = np.interp(states, *self._table)
        left, right = self.slopes
        if left:
            result = result + left * np.minimum(states - self.points[0], 0.0)
        if right:
            result = result + right * np.maximum(states - self.points[-1], 0.0)
        return np.asarray(result)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map is not smooth."""
        return self.points

    @property
    def is_straight(self) -> bool:
        """True for an affine function."""
        return len(self.points) == 1 and self.slopes[0] == self.slopes[1]

    def at(self, x: Array) -> Array:
        """Return the values, rounded once where those beside a state are much larger than its own.

        Interpolation would have the rounding errors of the larger ones.
        """
        result = self(x)
        for i, k in enumerate(np.searchsorted(self.points, x).tolist()):
            ends = slice(max(k - 1, 0), k + 1)
            if max(map(abs, self.values[ends])) <= _MUCH * abs(result[i]):
                continue
            p, *others = map(Fraction, self.points[ends])
            u, *values = map(Fraction, self.values[ends])
            slope = Fraction(self.slopes[min(k, 1)])
            if others:
                slope = (values[0] - u) / (others[0] - p)
            result[i] = float(u + slope * (Fraction(float(x[i])) - p))
        return result

    def slope_range(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
        """Return the least and the largest slope between ``low`` and ``high``."""
        ends = [-math.inf, *self.points, math.inf]
        met = [self.slope_of(a, b)[0] for a, b in itertools.pairwise(ends) if a < high and b > low]
        return min(met), max(met)

    def slope_of(self, a: float, b: float) -> tuple[float, float]:
        """Return the slope between two neighbouring points, and what rounding of values adds."""
        k = bisect.bisect_right(self.points, a)
        if k in (0, len(self.points)):
            return self.slopes[min(k, 1)], 0.0
        (p, q), (u, v) = self.points[k - 1 : k + 1], self.values[k - 1 : k + 1]
        return (v - u) / (q - p), 2.0**-50 * max(abs(u), abs(v)) / (q - p)

    def value_range(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the largest value between ``low`` and ``high``."""
        bends = zip(self.points, self.values, strict=True)
        values = [value for x, value in bends if low <= x <= high]
        for end, slope, sign in ((low, self.slopes[0], -1.0), (high, self.slopes[1], 1.0)):
            if math.isfinite(end):
                values.append(float(self(np.array(end))))
            elif slope:
                values.append(sign * slope * math.inf)
        return min(values), max(values)


@dataclass(frozen=True)
class Staircase(UpdateMap):
    """Update to ``values[i]`` for x from ``edges[i]`` up to ``edges[i + 1]``: gradients with jumps.

    Beyond the outer edges x moves toward them by ``stride``, the reach of a clipped gradient.
    """

    edges: tuple[float, ...]
    values: tuple[float, ...]
    stride: float

    def __post_init__(self) -> None:
        validate.nonnegative(stride=self.stride)
        for name in ("edges", "values"):
            numbers = np.array(getattr(self, name), dtype=np.float64)
            if not np.isfinite(numbers).all():
                raise validate.fail(name, "finite numbers", getattr(self, name))
        if len(self.edges) != len(self.values) + 1 or not self.values:
            raise ValueError(
                "values must be one for each interval between edges, "
                f"got {len(self.edges)} edges and {len(self.values)} values"
            )
        if any(a >= b for a, b in itertools.pairwise(self.edges)):
            raise ValueError("edges must ascend, got two that do not")

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        states = np.asarray(x, dtype=np.float64)
        index = np.searchsorted(self.edges, states, side="right") - 1
        inside = np.array(self.values)[np.clip(index, 0, len(self.values) - 1)]
        outside = np.where(index < 0, states + self.stride, states - self.stride)
        within = (index >= 0) & (index < len(self.values))
        return np.asarray(np.where(within, inside, outside))

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map jumps."""
        return self.edges


@dataclass(frozen=True)
class PolynomialUpdate:
    """Update to the sum of ``coefficients[k] (x - centre)^k``; a function for `Mapped`."""

    coefficients: tuple[float, ...]
    centre: float = 0.0

    def __post_init__(self) -> None:
        validate.finite(centre=self.centre)
        if not self.coefficients:
            raise validate.fail("coefficients", "one or more numbers", self.coefficients)
        validate.finite(**{f"coefficients_{k}": c for k, c in enumerate(self.coefficients)})

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        return np.asarray(np.polynomial.polynomial.polyval(x - self.centre, self.coefficients))


@dataclass(frozen=True)
class PowerUpdate:
    """Update x -> slope x + shift - pull sign(x - centre) |x - centre|^order; for `Mapped`.

    The last term is the gradient of the loss |x - centre|^(1 + order) / (1 + order).
    """

    pull: float
    order: float
    centre: float = 0.0
    shift: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        validate.finite(pull=self.pull, centre=self.centre, shift=self.shift, slope=self.slope)
        validate.positive(order=self.order)
        if self.order > _MAX_EXPONENT:
            raise validate.fail("order", f"in (0, {_MAX_EXPONENT:g}]", self.order)

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        t = x - self.centre
        return np.asarray(
            self.slope * x + self.shift - self.pull * np.sign(t) * np.abs(t) ** self.order
        )


def gradient_step(
    lines: Sequence[tuple[float, PiecewiseLinear]],
    record: Sequence[tuple[float, PiecewiseLinear]] = (),
    shift: float = 0.0,
    *,
    std: float,
) -> UpdateMap:
    """Return the update x -> x + shift + sum of weight * line(x), affine if possible.

    The differing record's part, ``record`` and ``shift``, is rounded towards 0 at each breakpoint,
    so that rounding moves no state farther than the record may. Values between two breakpoints have
    the rounding error of these, so that far ones, in deviations ``std`` of the noise, get others
    between them.
    """
    weighted = (*lines, *record)
    left, right = (math.fsum(weight * line.slopes[k] for weight, line in weighted) for k in (0, 1))
    if all(line.is_straight for _, line in weighted):
        moved = math.fsum(
            weight * (line.values[0] - line.slopes[0] * line.points[0]) for weight, line in weighted
        )
        return Affine(shift + moved, 1 + left)
    bends = {x for _, line in weighted for x in line.points}
    rung, farthest = _FAR * std, max(map(abs, bends))
    while rung < farthest:
        bends |= {-rung, rung}
        rung *= _RUNGS
    points = np.array(sorted(bends))
    others = points + np.sum([weight * line.at(points) for weight, line in lines], axis=0)
    own = shift + np.sum([weight * line.at(points) for weight, line in record], axis=0)
    values = others + own
    values = np.where(np.abs(values - others) > np.abs(own), np.nextafter(values, others), values)
    return PiecewiseLinear(tuple(points.tolist()), tuple(values.tolist()), (1 + left, 1 + right))
