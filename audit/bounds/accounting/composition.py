"""Numerical composition of sampled Gaussian steps, C_p(G(mu))^k, and one Gaussian mechanism.

The method is that of Google's dp-accounting library: privacy loss distributions on a grid, rounded
up (`audit.bounds.accounting.grids`), and Fourier transforms. Masses and tails are kept in scaled
form, since epsilon is in the thousands at settings of the papers, where the library's readout
overflows. A second grid, rounded down, brackets the result. Many steps are composed in stages, on
grids that get coarser (Ghazi et al. 2022). Tests compare the two implementations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.accounting.grids import (
    HalfGrid,
    optimistic_grid,
    pessimistic_grid,
    rounded_up,
)
from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.minimum import MinimumCurve
from audit.curves.pld import CERTIFIED_FLOOR, LossDistribution, PLDCurve
from audit.curves.renyi import RenyiCurve

Array = NDArray[np.float64]

LARGEST_COMPOSITION = 10**7
"""Beyond this many steps rounding is too large, and Renyi divergences are used."""

_TAIL = 1e-15  # mass that may lie outside the window, on each side
_LOG_TAIL = -math.log(_TAIL)
_LARGEST_GRID = 1 << 20
_SMALLEST_GRID = 1 << 12
_COARSE_GRID = 1 << 13  # for the moments that determine the window
_NEGLIGIBLE = 1e-20  # modulus of a transform: masses lose less by it than they round
_SHORT = 1 << 12  # transforms of this size fit a cache
_POWERS = np.geomspace(1e-3, 1e3, 60)  # of Chernoff bounds, times the spread
_EXPECTED = 38  # place of the best power, near 8; a lower one where the tail is heavy
_SMOOTH = 1 / 16  # part of the frequencies that describes a smooth law
_IN_STAGES = 1 << 10  # steps from which a composition takes stages
_FIRST_STAGE = 1 << 8  # steps of the first stage, at least
_FAST_SIZES = 2**20 * 3**6 * 5**4  # sizes of fast transforms divide this
_LARGEST_EXPONENT = 30.0  # of the rounding of a stage, in later bounds on far losses
_LARGEST_RISE = 0.1  # of the log moments that bound far losses, by rounding to a grid
_MOST_ROUNDING = 4  # times that of one grid
_LARGE_GRID = 1 << 17  # points from which stages save time
_SMALLEST_GAP, _PER_DECADE = 1e-6, 20  # alpha - 1, and how many orders
_GRID_ERROR = 1e-6  # target for epsilon, relative to the spread of the composed loss

# Curves in use, since several bounds on one mechanism contain the same composition.
_CURVES: WeakValueDictionary[tuple[object, ...], PLDCurve] = WeakValueDictionary()


_Part = tuple[HalfGrid, int]  # a law, and how often it is composed


@dataclass(frozen=True)
class _Window:
    """Range of losses of a composition, and the powers that prove it."""

    low: float
    high: float
    low_power: float
    high_power: float
    mean: float
    spread: float


def _window(
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float = 0.0,
    beside: SubsampledGaussian | None = None,
    copies: int = 1,
) -> _Window:
    """Return Chernoff bounds on the composed loss S, from the moments of a coarse grid.

    The grid is truncated where the remaining mass no longer matters: sampled losses have such heavy
    tails that the moments of the full law would give windows thousands of times too wide.
    `_outside` verifies the window on the final grid. For a law that is composed ``copies`` times
    the tails are smaller by this factor.
    """
    log_tail = _LOG_TAIL + math.log(copies)
    parts = [(step, times)] if beside is None else [(step, times), (beside, 1)]
    coarse = []
    mean, variance = gaussian_mu**2 / 2, gaussian_mu**2
    for law, count in parts:
        interval = _reach(law, count * copies) / _COARSE_GRID
        grid = pessimistic_grid(law, interval, _COARSE_GRID)
        once = grid.cumulants(interval)
        mean, variance = mean + count * once[0], variance + count * once[1]
        coarse.append((grid, interval, count))
    spread = math.sqrt(variance)

    def log_moment(power: float) -> float:
        extra = power * (power + 1) * gaussian_mu**2 / 2
        return extra + sum(n * grid.log_moment(power, width) for grid, width, n in coarse)

    powers = (_POWERS / spread).tolist()
    high, high_power = _lowest(lambda t: (log_moment(t) + log_tail) / t, powers)
    low, low_power = _lowest(lambda t: (log_moment(-t) + log_tail) / t, powers)
    return _Window(-low, high, low_power, high_power, mean, spread)


def _lowest(bound: Callable[[float], float], powers: Sequence[float]) -> tuple[float, float]:
    """Return the least Chernoff bound and its power, by bisection.

    For a convex log moment K, (K(t) + c)/t falls and then rises in t: the sign of its slope is
    that of t K'(t) - K(t) - c, which rises. Every power gives a valid bound.
    """
    at = functools.cache(lambda place: bound(powers[place]))

    def rises(place: int) -> bool:
        return at(place) <= at(place + 1)

    low, high = 0, len(powers) - 1
    middle, stride = min(_EXPECTED, high - 1), 1
    while low < high:
        if rises(middle):
            high = middle
            middle = max(middle - stride, (low + high) // 2)
        else:
            low = middle + 1
            middle = min(middle + stride, (low + high) // 2)
        stride *= 2
    return at(low), powers[low]


def _fold(parts: Sequence[_Part], first: int, size: int) -> tuple[Array, float]:
    """Return the masses at ``size`` grid points from ``first``, and the clipped mass."""
    (change, times), *others = [(law.transform_change(size), count) for law, count in parts]
    # the law of many steps is smooth, so that most of its transform is negligible
    large = np.flatnonzero(_squared(change) > _NEGLIGIBLE ** (2 / times))
    if others:
        with np.errstate(divide="ignore"):
            logs = times * np.log(_squared(change[large]))
            logs += sum(count * np.log(_squared(z[large])) for z, count in others)
        large = large[logs > 2 * math.log(_NEGLIGIBLE)]
    transform = np.zeros(int(np.max(large, initial=0)) + 1, dtype=np.complex128)
    transform[large] = _power(change[large], times)
    for z, count in others:
        transform[large] *= _power(z[large], count)
    masses = np.roll(_inverse(transform, size), -(first % size))
    clipped = -float(np.sum(np.minimum(masses, 0.0)))
    return np.maximum(masses, 0.0, out=masses), clipped


def _inverse(transform: NDArray[np.complex128], size: int) -> Array:
    """Return ``irfft(transform, size)``, in half the time if the transform is short."""
    rows = size // _SHORT
    if rows < 2 or 2 * transform.size > _SHORT:
        return np.asarray(np.fft.irfft(transform, size))
    # every rows-th value, from some one on, is a value of a short transform with shifted phases
    phases = np.outer(np.arange(rows), np.arange(transform.size)) * (2j * math.pi / size)
    return np.asarray(np.fft.irfft(transform / rows * np.exp(phases), _SHORT).T.ravel())


def _squared(change: NDArray[np.complex128]) -> Array:
    """Return the squared modulus of ``1 + change``."""
    square, imag = change.real + 1.0, change.imag.copy()
    square *= square  # in place: transforms are long
    imag *= imag
    square += imag
    return np.asarray(square)


def _power(change: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return ``(1 + change) ** exponent``, by logarithms."""
    if exponent == 1:
        return 1 + change
    real, imag = 1 + change.real, change.imag
    square = _squared(change)
    with np.errstate(divide="ignore"):
        # near 1 the sum above has lost digits
        near = np.log1p(np.maximum(change.real * (1 + real) + imag**2, -1.0))
        log_modulus = 0.5 * np.where(square > 0.25, near, np.log(square))
    result = np.exp(exponent * log_modulus) * np.exp(1j * (exponent * np.arctan2(imag, real)))
    return np.asarray(result)


def _outside(parts: Sequence[_Part], interval: float, window: _Window) -> float:
    """Bound the mass of the composed grid outside the window, by Chernoff."""
    total = 0.0
    ends = ((window.high_power, window.high), (-window.low_power, window.low))
    for power, end in ends:
        moment = sum(count * law.log_moment(power, interval) for law, count in parts)
        total += math.exp(min(moment - power * end, 0.0))
    return total


def _reach(law: SubsampledGaussian, times: int) -> float:
    """Return the loss above which ``times`` times the remaining mass is below the tail."""
    smallest = 1e-3 * law.rate * law.mu  # where even delta(0) is below the tail
    return max(float(law.epsilon(min(_TAIL / times, 0.5))), smallest)


def _points(law: SubsampledGaussian, times: int, interval: float) -> int:
    """Return the number of grid points up to there."""
    return math.ceil(_reach(law, times) / interval) + 1


@dataclass(frozen=True)
class _Grid:
    """Grid of a composition: ``size`` points, the first at ``first * interval``."""

    window: _Window
    interval: float
    first: int
    size: int
    step_points: int
    extra_points: tuple[int, ...]

    @classmethod
    def choose(
        cls,
        step: SubsampledGaussian,
        times: int,
        gaussian: SubsampledGaussian | None,
        beside: SubsampledGaussian | None,
        largest: int,
    ) -> _Grid:
        """Choose the interval from the spread and the range of the composed loss."""
        window = _window(step, times, gaussian.mu if gaussian else 0.0, beside)
        extras = [law for law in (gaussian, beside) if law is not None]
        # spreading losses over the grid raises their mean by about times * interval^2 / 12, and
        # their variance by twice that
        wanted = min(
            math.sqrt(12 * _GRID_ERROR * window.spread / times),
            math.sqrt(6 * _GRID_ERROR / times) * window.spread,
        )
        width = window.high - window.low
        points = min(max(width / max(wanted, 1e-300), _SMALLEST_GRID), largest)
        size = 1 << math.ceil(math.log2(points))
        interval = width / (size - 4)
        return cls(
            window=window,
            interval=interval,
            first=math.floor(window.low / interval),
            size=size,
            step_points=_points(step, times, interval),
            extra_points=tuple(_points(law, 1, interval) for law in extras),
        )


def compose(
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float = 0.0,
    *,
    beside: SubsampledGaussian | None = None,
    largest_grid: int = _LARGEST_GRID,
) -> PrivacyCurve:
    """Return an upper bound on C_p(G(mu))^times composed with G(gaussian_mu) and ``beside``."""
    validate.integer(1, times=times)
    validate.nonnegative(gaussian_mu=gaussian_mu)
    if beside is not None and (beside.rate == 1 or beside == step):
        # a Gaussian mechanism, or one step more
        if beside == step:
            return compose(step, times + 1, gaussian_mu, largest_grid=largest_grid)
        both = math.hypot(gaussian_mu, beside.mu)
        return compose(step, times, both, largest_grid=largest_grid)
    besides = 0.0 if beside is None else beside.mu
    unsampled = GaussianCurve(math.hypot(math.sqrt(times) * step.mu, gaussian_mu, besides))
    if step.rate == 1 and beside is None:
        return unsampled
    if times == 1 and gaussian_mu == 0 and beside is None:
        return step
    # the best order for a delta above e^-500000 is below 1000 deviations of the loss: high orders
    # cost most, where a step is weak
    weakest = math.hypot(step.rate * math.sqrt(times) * step.mu, gaussian_mu)
    highest = _PER_DECADE * math.log10(1e3 / max(weakest, 1e-9) / _SMALLEST_GAP)
    highest = math.ceil(min(max(highest, 1), _PER_DECADE * 12))
    moments = RenyiCurve(
        functools.partial(
            _divergence, step=step, times=times, gaussian_mu=gaussian_mu, beside=beside
        ),
        search=(_SMALLEST_GAP, _SMALLEST_GAP * 10 ** (highest / _PER_DECADE)),
        points=highest + 1,
        refinements=0,
    )
    gaussian = SubsampledGaussian(1.0, gaussian_mu) if gaussian_mu > 0 else None
    if times <= LARGEST_COMPOSITION:
        extras = [law for law in (gaussian, beside) if law is not None]
        step = _with_48_bits(step)
        key = (step, times, gaussian, beside, largest_grid)
        known = _CURVES.get(key)
        if known is not None:
            return known
        grid = _Grid.choose(step, times, gaussian, beside, largest_grid)
        if max(grid.step_points, *grid.extra_points, 0) <= 4 * grid.size:
            return _CURVES.setdefault(key, _compose_on_grid(step, times, extras, grid, moments))
    return MinimumCurve((moments, unsampled), ("Renyi divergences", "without sampling"))


def _with_48_bits(step: SubsampledGaussian) -> SubsampledGaussian:
    """Return the step with its parameter rounded up to 48 bits.

    Bounds compute it in different orders; their compositions are then one.
    """
    mantissa, exponent = math.frexp(step.mu)
    return replace(step, mu=math.ldexp(math.ceil(mantissa * 2.0**48) / 2.0**48, exponent))


def coarse_epsilons(
    step: SubsampledGaussian,
    shortest: int,
    longest: int,
    size: int,
    *,
    gaussian: Callable[[int], float] = lambda times: 0.0,
    beside: SubsampledGaussian | None = None,
) -> Callable[[int, float], float]:
    """Return approximate epsilons of compositions as in `compose`, to compare their lengths.

    All lengths share one grid, so that a length costs no more than a transform.
    """

    def one_by_one(times: int, delta: float) -> float:
        mu = gaussian(times)
        return compose(step, times, mu, beside=beside, largest_grid=size).epsilon(delta)

    if step.rate == 1 or longest > LARGEST_COMPOSITION:
        return one_by_one
    ends = [_window(step, k, gaussian(k), beside) for k in (shortest, longest)]
    width = max(end.high - end.low for end in ends)
    interval = width / (size - 4)
    laws = [(step, longest), *([] if beside is None else [(beside, 1)])]
    points = [_points(law, count, interval) for law, count in laws]
    if max(points) > 4 * size:
        return one_by_one
    grids = [pessimistic_grid(law, interval, n) for (law, _), n in zip(laws, points, strict=True)]
    base, *others = (np.fft.rfft(grid.wrapped(size)) for grid in grids)
    large = np.flatnonzero(base.real**2 + base.imag**2 > _NEGLIGIBLE ** (2 / shortest))
    kept = int(np.max(large, initial=0)) + 1
    frequencies = 2 * math.pi / (size * interval) * np.arange(kept)
    base = base[:kept]
    means = [grid.cumulants(interval)[0] for grid in grids]
    fine = _reach(step, longest) / _COARSE_GRID
    if kept < size * _SMOOTH and fine < interval / 4:
        # take back the mean and the variance that a step gains from its grid
        true = pessimistic_grid(step, fine, _COARSE_GRID).cumulants(fine)
        mean, variance = (a - b for a, b in zip(grids[0].cumulants(interval), true, strict=True))
        taken = base * np.exp(frequencies * (1j * mean + frequencies * variance / 2))
        if np.all(np.abs(taken) <= np.sqrt(np.abs(base)) * (1 + 1e-12)):  # a small correction
            base, means[0] = taken, true[0]

    def centre(times: int) -> float:
        return times * means[0] + gaussian(times) ** 2 / 2 + sum(means[1:])

    below = max(centre(k) - end.low for k, end in zip((shortest, longest), ends, strict=True))

    def shared(times: int, delta: float) -> float:
        variance = gaussian(times) ** 2
        transform = _power(base - 1, times) * np.exp(
            -variance / 2 * frequencies * (frequencies + 1j)
        )
        for other in others:
            transform = transform * other[:kept]
        first = math.floor((centre(times) - below) / interval)
        masses = np.roll(_inverse(transform, size), -(first % size))
        law = LossDistribution(interval, first, np.maximum(masses, 0.0))
        return float(law.epsilon(np.array([delta]))[0])

    return shared


def _divergence(
    alpha: Array,
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float,
    beside: SubsampledGaussian | None,
) -> Array:
    once = 0.0 if beside is None else beside.divergence(alpha)
    return times * step.divergence(alpha) + alpha * gaussian_mu**2 / 2 + once


def _compose_on_grid(
    step: SubsampledGaussian,
    times: int,
    laws: list[SubsampledGaussian],
    grid: _Grid,
    moments: RenyiCurve,
) -> PLDCurve:
    stages = _stages(step, times, grid)
    upper, rounding = _in_stages(step, laws, stages) if stages else (None, 0.0)
    if upper is None or rounding > _MOST_ROUNDING * _transform_error(times):
        upper, _, above = _folded(step, times, laws, grid, pessimistic_grid)
        rounding = _transform_error(times) + above
    return PLDCurve(
        upper=upper,
        rounding=rounding,
        moments=moments,
        lower=functools.partial(_lower_twin, step, times, laws, grid),
        floor=max(CERTIFIED_FLOOR, 10 * rounding),
    )


def _transform_error(times: int) -> float:
    """Return a bound on the error of masses by the rounding of transforms and powers.

    It is several times what long double arithmetic finds.
    """
    return float(np.finfo(float).eps) * (times + 256)


def _lower_twin(
    step: SubsampledGaussian, times: int, laws: list[SubsampledGaussian], grid: _Grid
) -> tuple[LossDistribution, float]:
    """Return the law with losses rounded down, and the error of its probabilities."""
    law, clipped, outside = _folded(step, times, laws, grid, optimistic_grid)
    return law, _transform_error(times) + clipped + outside


def _folded(
    step: SubsampledGaussian,
    times: int,
    laws: list[SubsampledGaussian],
    grid: _Grid,
    discretise: Callable[..., HalfGrid],
) -> tuple[LossDistribution, float, float]:
    """Return the composed law on the grid, the mass clipped from it and the mass outside."""
    parts = [(discretise(step, grid.interval, grid.step_points), times)]
    parts += [
        (discretise(law, grid.interval, points), 1)
        for law, points in zip(laws, grid.extra_points, strict=True)
    ]
    masses, clipped = _fold(parts, grid.first, grid.size)
    law = LossDistribution(grid.interval, grid.first, masses, _infinite(parts))
    return law, clipped, _outside(parts, grid.interval, grid.window)


def _infinite(parts: Sequence[_Part]) -> float:
    """Return the mass at infinity of a composition."""
    return sum(-math.expm1(count * math.log1p(-law.infinite_mass)) for law, count in parts)


# --- many steps, in stages ---


@dataclass(frozen=True)
class _Stage:
    """One of the compositions that make up that of many steps.

    It composes ``laws`` copies of the law of the stage before, or of the step in the first stage,
    and ``steps`` single steps. The result is composed ``copies`` times by later stages.
    """

    laws: int
    steps: int
    copies: int
    window: _Window
    interval: float

    @property
    def first(self) -> int:
        """First grid point."""
        return math.floor(self.window.low / self.interval)

    @property
    def size(self) -> int:
        """Number of grid points, without large prime factors."""
        needed = math.ceil(self.window.high / self.interval) - self.first + 4
        rows = -(-needed // _SHORT)
        while _FAST_SIZES % rows:
            rows += 1
        return _SHORT * rows


def _stages(step: SubsampledGaussian, times: int, grid: _Grid) -> list[_Stage]:
    """Divide a composition into stages on smaller grids; return none if that saves no time.

    A grid of interval h raises the variance of each law that is rounded to it by about h^2/6, so
    that a few copies of a composition of some steps may be rounded to a coarser grid than single
    steps (Ghazi et al. 2022). All stages raise the variance alike, together a little less than
    ``grid`` does; losses near 0 are not rounded. A stage is refused if its rounding could count for
    much in the bound on the mass outside a later window, or its interval in that of its own.
    """
    if times < _IN_STAGES or grid.size < _LARGE_GRID:
        return []
    counts = [times]
    while counts[-1] >= _IN_STAGES:
        most = counts[-1] // _FIRST_STAGE
        counts.append(counts[-1] // (most if most <= _FIRST_STAGE else math.isqrt(most)))
    log_p, log_q = step.log_tails(np.array([grid.interval / 2]))
    rounded = float(np.exp(log_p[0]) + np.exp(log_q[0]))  # chance of a loss away from 0
    if times * rounded < 1:  # beside a wider law
        return []
    result: list[_Stage] = []
    copies = 1
    for count, before in zip(counts, [*counts[1:], 1], strict=True):
        laws, steps = divmod(count, before)
        all_rounded = copies * (laws * min(before * rounded, 1.0) + steps * rounded)
        share = times * rounded / (all_rounded * (len(counts) + 1))
        window = grid.window if copies == 1 else _window(step, count, copies=copies)
        far = window.high - window.mean
        if result and result[-1].window.high_power * far > _LARGEST_EXPONENT:
            return []
        stage = _Stage(laws, steps, copies, window, grid.interval * math.sqrt(share))
        power = max(window.low_power, window.high_power) * stage.interval
        if (laws + steps) * power**2 > _LARGEST_RISE:
            return []
        result.append(stage)
        copies *= laws
    return result[::-1] if sum(stage.size for stage in result) < grid.size else []


def _in_stages(
    step: SubsampledGaussian, laws: list[SubsampledGaussian], stages: list[_Stage]
) -> tuple[LossDistribution, float]:
    """Return the composed law and the error of its probabilities."""
    law, error = None, 0.0
    for stage in stages:
        width, singles, parts = stage.interval, stage.steps, []
        if law is None:
            singles += stage.laws
        else:
            parts = [(rounded_up(law, width), stage.laws)]
            error *= stage.laws
        if singles:
            points = _points(step, singles * stage.copies, width)
            parts.append((pessimistic_grid(step, width, points), singles))
        if stage is stages[-1]:
            for other in laws:
                parts.append((pessimistic_grid(other, width, _points(other, 1, width)), 1))
        masses, _ = _fold(parts, stage.first, stage.size)
        law = LossDistribution(width, stage.first, masses, _infinite(parts))
        error += _transform_error(sum(count for _, count in parts))
        error += _outside(parts, width, stage.window)
    assert law is not None
    return law, error
