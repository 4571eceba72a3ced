"""Panels on which a step's integral is computed by quadrature, with a proven relative error.

Let p be the density before a step, a mixture of normals of standard deviations of at least s0, and
let the step apply a map u and add N(0, s^2) noise. The density after it is the integral over the
domain of F(y) = p(y) phi((z - u(y))/s)/s. Panels have their ends at the kinks of u, so that F is
analytic around each of them if u is continued from the panel. The error of quadrature on a panel is
that of `audit.numerics.panels.log_panel_error`, with M the maximum of |F| on an ellipse with
half-axes a and b. With F* the maximum of F on the domain, M/F* <= e^growth, where the growth adds
up:

- b^2/2s0^2, since |p(y + it)| <= e^(t^2/2s0^2) p(y);
- (b B1)^2/2s^2 + R b^2 B2/2s, with bounds B1 and B2 on the derivatives of u on the ellipse:
  u(y + it) is u(y) but for t B1 in all, and for t^2 B2/2 in its real part;
- beyond a kink at a distance r, R e/s with e = |continued u - u|;
- beyond a wall, for each unit of length, d/s0^2 if maps move points past it by d at most, and
  R B1/s; where the map has the slope a >= 0 up to the wall, only a max(u(end) - end, 0)/s^2 instead
  of R B1/s. Where a line is cut and maps are piecewise linear, nothing: F* is then the maximum on
  the line, and the integral that of the line, of which the mass beyond the cut is lost.

The integral is at least L F*: within t of a maximum, F falls by no more than the factor
e^-(R t/s0 + t^2/2s0^2 + R w/s + w^2/2s^2), with w the largest change of u over t. So the relative
error of a step is at most the sum over panels of their bounds over L. Everything is positive, so
that errors of steps add up (to first order, which the bounds hold for as they are far below 1).

Here R bounds |z - u(y)|/s and the slope of log p times s0. Where one of them is larger, the normals
that lead there have a mass of at most e^(-R^2/2): by the inequality of Donsker and Varadhan, the
mean of half their squared distances is at most -log(p s0 sqrt(2 pi)). That is counted as lost mass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.constructions.holder import HolderUpdate
from audit.constructions.process import Process
from audit.constructions.updates import (
    Affine,
    PiecewiseLinear,
    PolynomialUpdate,
    PowerUpdate,
    UpdateMap,
)
from audit.numerics.arrays import Array
from audit.numerics.panels import Panels, ellipse, log_panel_error

# R of the theorem: far beyond the noise that is followed.
REACH = 90.0
# Nodes of a panel that are tried where maps are smooth, and where panels are graded towards kinks.
_SMOOTH_ORDERS, _KINKED_ORDERS = (32,), (16, 24)
# Relative error of one step that panels are refined to, below its rounding, and nodes for each
# deviation that are tried.
_GOAL, _DENSITIES = 2.0**-52, (4.5, 4.8, 5.1, 5.4, 5.7, 6.0, 7.0, 8.0)
_MAX_ROUNDS, _MAX_NODES = 80, 1e6
_RHOS = np.geomspace(1.3, 60.0, 32)
_SAMPLES = 4097  # samples of a function of which nothing else is known


@dataclass(frozen=True, eq=False)
class StepPanels:
    """Panels, and the relative error of a step's quadrature on them."""

    panels: Panels
    error: float  # bound for one step
    proven: bool  # whether it is: not for maps of which only values are known


def step_panels(processes: Sequence[Process], lower: float, upper: float) -> StepPanels:
    """Return panels between two ends for the steps of processes on one domain."""
    steps = list(dict.fromkeys(itertools.chain(*(p.distinct_steps() for p in processes))))
    kernels = list(dict.fromkeys((phi, step.noise_std) for step in steps for phi in step.maps))
    narrowest = min(step.noise_std for step in steps)
    walls = (math.isfinite(processes[0].lower), math.isfinite(processes[0].upper))
    bounds = [_MapBounds.of(phi, lower, upper, walls) for phi, _ in kernels]
    moved = max(bound.past for bound in bounds)
    domain = _Domain(lower, upper, narrowest, moved, walls)
    widths = [
        bound.least_width(std, domain) for bound, (_, std) in zip(bounds, kernels, strict=True)
    ]
    kinks = tuple(sorted({k for phi, _ in kernels for k in _kinks(phi) if lower < k < upper}))
    size = (upper - lower) / narrowest * _DENSITIES[0]
    if size > _MAX_NODES:
        raise ValueError(
            f"noise_std must be larger for a computed law: the domain [{lower:g}, {upper:g}] would "
            f"take {size:.3g} nodes, got a step with {narrowest:g}"
        )

    def divided(order: int) -> tuple[Panels, Array]:
        def errors(left: Array, right: Array) -> Array:
            own = [
                bound.errors(left, right, order, std, domain) / width
                for bound, (_, std), width in zip(bounds, kernels, widths, strict=True)
            ]
            return np.asarray(np.max(own, axis=0))

        def equal(density: float) -> Array:
            return Panels.covering(lower, upper, order / density * narrowest, order, kinks).edges

        return _divided(errors, map(equal, _DENSITIES), order)

    found = [divided(order) for order in (_KINKED_ORDERS if kinks else _SMOOTH_ORDERS)]
    panels, error = min(found, key=lambda each: each[0].nodes.size)
    return StepPanels(panels, float(error.sum()), all(bound.proven for bound in bounds))


def _divided(
    errors: Callable[[Array, Array], Array], equal: Iterable[Array], order: int
) -> tuple[Panels, Array]:
    """Return panels with few enough errors, and the error of each.

    Equal ones as wide as suffices, for which translations share the blocks of their operators. If
    none do, as wide as suffices for most, bisected where they do not.
    """
    most: tuple[Array, Array] | None = None
    for edges in equal:
        error = errors(edges[:-1], edges[1:])
        if error.sum() <= _GOAL:
            break
        if most is None and np.median(error) <= _GOAL / error.size:
            most = edges, error
    else:
        edges, error = most or (edges, error)
    for _ in range(_MAX_ROUNDS):
        left, right = edges[:-1], edges[1:]
        middle = 0.5 * (left + right)
        cut = (error > _GOAL / error.size) & (middle > left) & (middle < right)
        count = int(np.count_nonzero(cut))
        if float(error.sum()) <= _GOAL or not count or (edges.size + count) * order > _MAX_NODES:
            break
        halves = errors(left[cut], middle[cut]), errors(middle[cut], right[cut])
        edges = np.sort(np.concatenate([edges, middle[cut]]))
        error = np.repeat(error, 1 + cut)
        error[np.repeat(cut, 1 + cut)] = np.stack(halves, axis=1).ravel()
    return Panels(edges, order), error


@dataclass(frozen=True)
class _Domain:
    lower: float
    upper: float
    narrowest: float
    past: float
    walls: tuple[bool, bool]


@dataclass(frozen=True, eq=False)
class _MapBounds:
    """Properties of a map that the theorem uses, and whether all of them are proven.

    ``steepest`` is its largest slope within the domain, for piecewise linear maps also beyond the
    cut of a line, and infinite for a power below 1; ``spread`` the largest difference of two
    slopes; ``past`` the largest distance by which it moves points past an end of the domain.
    """

    phi: UpdateMap
    kinks: Array
    steepest: float
    spread: float
    past: float
    proven: bool

    @classmethod
    def of(cls, phi: UpdateMap, lower: float, upper: float, walls: tuple[bool, bool]) -> _MapBounds:
        linear = isinstance(phi, Affine | PiecewiseLinear)
        low = -math.inf if linear and not walls[0] else lower
        high = math.inf if linear and not walls[1] else upper
        kinks = np.array([k for k in _kinks(phi) if low < k < high])
        proven, function = True, _formula(phi)
        spread = 0.0
        if isinstance(phi, PiecewiseLinear):
            least, most = phi.slope_range(low, high)
            steepest, spread = max(abs(least), abs(most)), most - least
        elif isinstance(function, PolynomialUpdate | PowerUpdate):
            half = 0.5 * (upper - lower)
            steepest = float(_derivatives(function, np.array(lower + half), half, 0.0)[0])
        else:
            x = np.linspace(lower, upper, _SAMPLES)
            slopes = np.diff(phi(x)) / np.diff(x)
            steepest = 2 * float(np.max(np.abs(slopes)))
            spread, proven = 2 * float(np.ptp(slopes)), False
        places = np.concatenate([np.linspace(lower, upper, 257), kinks])
        places = places[(lower <= places) & (places <= upper)]
        image = phi(places)
        # between the places of other maps than piecewise linear ones, by their slope
        room = 0.0 if linear else float(_modulus(phi, (upper - lower) / 512, steepest))
        past = max(lower - float(image.min()), float(image.max()) - upper, 0.0) + room
        return cls(phi, kinks, steepest, spread, past, proven)

    def errors(self, left: Array, right: Array, order: int, std: float, domain: _Domain) -> Array:
        """Bound the error of each panel over the maximum of the integrand."""
        h, middle = (right - left)[:, None], 0.5 * (right + left)[:, None]
        a, b = ellipse(h, _RHOS)
        first, second = self._derivatives(middle, h, a, b)
        inner = domain.narrowest
        with np.errstate(over="ignore", invalid="ignore"):
            growth = b**2 / (2 * inner**2) + (b * first) ** 2 / (2 * std**2)
            growth = growth + REACH * b**2 * second / (2 * std)
            growth = growth + REACH * self._deviations(middle, a) / std
            for side, end in ((-1, domain.lower), (1, domain.upper)):
                over = np.maximum(a + side * (middle - end), 0.0)
                growth = growth + over * self._end_rate(side, end, std, middle, first, domain)
            logs = log_panel_error(order, h, _RHOS, growth)
            logs = np.where(np.isnan(logs), np.inf, logs)
        # whatever the integrand, both the integral and the sum are below its maximum times h
        return np.asarray(np.exp(np.minimum(logs.min(axis=1), np.log(2 * h[:, 0]))))

    def _derivatives(self, middle: Array, h: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """Bound the first and the second derivative of the continued map on the ellipses."""
        function = _formula(self.phi)
        if isinstance(self.phi, PiecewiseLinear):
            slopes = np.abs(_slope_at(self.phi, middle))
            return np.broadcast_to(slopes, a.shape), np.zeros(a.shape)
        if isinstance(function, PolynomialUpdate | PowerUpdate):
            return _derivatives(function, middle, a, b)
        x = np.linspace(float(middle[0, 0] - h[0, 0]), float(middle[-1, 0] + h[-1, 0]), _SAMPLES)
        bends = np.diff(self.phi(x), 2) / (x[1] - x[0]) ** 2
        local = np.array(
            [
                np.max(np.abs(bends[(x[1:-1] > m - w) & (x[1:-1] < m + w)]), initial=0.0)
                for m, w in zip(middle[:, 0], h[:, 0], strict=True)
            ]
        )
        return np.full(a.shape, self.steepest), np.broadcast_to(2 * local[:, None], a.shape)

    def _deviations(self, middle: Array, a: Array) -> Array:
        """Bound the distance of the continued map from the map, on the ellipses' real parts."""
        if self.kinks.size == 0:
            return np.zeros(a.shape)
        at = np.searchsorted(self.kinks, middle[:, 0])
        outer = np.concatenate([[-np.inf], self.kinks, [np.inf]])
        left, right = outer[at][:, None], outer[at + 1][:, None]
        over = np.maximum(np.maximum(left - (middle - a), (middle + a) - right), 0.0)
        function = _formula(self.phi)
        if isinstance(function, PowerUpdate):
            return np.asarray(2 * abs(function.pull) * over**function.order)
        return np.asarray(self.spread * over)

    def _end_rate(
        self, side: int, end: float, std: float, middle: Array, first: Array, domain: _Domain
    ) -> Array:
        """Bound the slope of the log of the integrand beyond an end, outward, for each panel."""
        linear = isinstance(self.phi, Affine | PiecewiseLinear)
        wall = domain.walls[0 if side < 0 else 1]
        if linear and not wall:
            return np.zeros(middle.shape)
        inner = domain.past / domain.narrowest**2
        rate = inner + REACH * first / std
        if not (linear and wall):
            return rate
        assert isinstance(self.phi, Affine | PiecewiseLinear)
        slope = self.phi.slope if isinstance(self.phi, Affine) else _slope_at(self.phi, middle)
        # up to the end the map is a line with the panel's slope
        straight = np.all(side * (self.kinks - middle) <= 0, axis=1, keepdims=True)
        inward = max(-side * (float(self.phi(np.array(end))) - end), 0.0)
        affine = inner + slope * inward / std**2
        return np.where(straight & (slope >= 0), affine, rate)

    def least_width(self, std: float, domain: _Domain) -> float:
        """Lower bound L on the integral over the maximum of the integrand."""
        inner = domain.narrowest
        t = np.geomspace(1e-6 * inner, 0.5 * (domain.upper - domain.lower), 400)
        change = _modulus(self.phi, t, self.steepest)
        fall = REACH * t / inner + t**2 / (2 * inner**2)
        fall = fall + REACH * change / std + change**2 / (2 * std**2)
        # the integrand falls with t: at least its values at the right ends of intervals
        return float(np.sum(np.diff(t, prepend=0.0) * np.exp(-fall)))


def _kinks(phi: UpdateMap) -> tuple[float, ...]:
    """Return where a map is not analytic: its kinks, and where the sign of a power changes."""
    function = _formula(phi)
    if isinstance(function, PowerUpdate) and function.order % 2 != 1:
        return tuple(sorted({*phi.kinks, function.centre}))
    return phi.kinks


def _formula(phi: UpdateMap) -> object:
    """Return the function of a map; a power with the same bounds for a Hoelder gradient."""
    if isinstance(phi, Affine):
        return PolynomialUpdate((phi.shift, phi.slope))
    if isinstance(phi, HolderUpdate):
        return PowerUpdate(phi.weight, phi.order, shift=phi.shift)
    return getattr(phi, "function", None)


def _slope_at(phi: PiecewiseLinear, x: Array) -> Array:
    """Return the slopes of the pieces that hold points."""
    points, values = np.array(phi.points), np.array(phi.values)
    inner = np.diff(values) / np.diff(points)
    slopes = np.concatenate([phi.slopes[:1], inner, phi.slopes[1:]])
    return np.asarray(slopes[np.searchsorted(points, x)])


def _modulus(phi: UpdateMap, t: Array | float, steepest: float) -> Array:
    """Bound the change of a map over a distance."""
    function = _formula(phi)
    if isinstance(function, PowerUpdate) and function.order < 1:
        t = np.asarray(t)
        return abs(function.slope) * t + 2 * abs(function.pull) * t**function.order
    return np.asarray(steepest * np.asarray(t))


def _derivatives(
    function: PolynomialUpdate | PowerUpdate, middle: Array, a: Array | float, b: Array | float
) -> tuple[Array, Array]:
    """Bound two derivatives within distances ``a`` along the line and ``b`` across of points."""
    apart = np.abs(middle - function.centre)
    near, far = apart - a, apart + a + b
    if isinstance(function, PolynomialUpdate):
        parts = (np.polynomial.polynomial.polyder(function.coefficients, k) for k in (1, 2))
        first, second = (np.polynomial.polynomial.polyval(far, np.abs(part)) for part in parts)
        return np.asarray(first), np.asarray(second)
    order, pull = function.order, abs(function.pull)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one, two = ((far if order >= k else near) for k in (1, 2))
        first = abs(function.slope) + pull * order * np.maximum(one, 0.0) ** (order - 1)
        second = pull * order * abs(order - 1) * np.maximum(two, 0.0) ** (order - 2)
    inside = (near > 0) | float(order).is_integer()
    second = np.where(order == 1, 0.0, second)
    return np.where(inside, first, np.inf), np.where(inside, second, np.inf)
