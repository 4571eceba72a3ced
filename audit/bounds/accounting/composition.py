"""Numerical composition of sampled Gaussian steps, C_p(G(mu))^k, and one Gaussian mechanism.

The method is that of Google's dp-accounting library (privacy loss distributions on a grid, the
pessimistic connect-the-dots discretisation of Doroshenko et al. 2022, Fourier transforms). The
library's discretisation takes second differences of the whole profile, which leaves masses of
1e-16/interval where there are none, and its readout overflows above epsilon = 709; both matter at
the settings of the papers (thousands of steps, epsilon in the thousands). Here the symmetry of the
pair gives the left half from the right one, masses and tails are kept in scaled form, and a second,
optimistic grid brackets the result. Tests compare the two implementations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from audit import validate
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
_NEGLIGIBLE = 1e-30  # modulus of a transform: masses lose less by it than they round
_SHORT = 1 << 12  # transforms of this size fit a cache
_POWERS = np.geomspace(1e-3, 1e3, 60)  # of Chernoff bounds, times the spread
_EXPECTED = 38  # place of the best power, near 8; a lower one where the tail is heavy
_SMOOTH = 1 / 16  # part of the frequencies that describes a smooth law
_MANY = 1 << 16  # points whose exponentials are worth avoiding
_EXPONENT = 50.0  # largest exponent of a weight
_GRID_ERROR = 1e-6  # target for epsilon, relative to the spread of the composed loss

# Curves in use, since several bounds on one mechanism contain the same composition.
_CURVES: WeakValueDictionary[tuple[object, ...], PLDCurve] = WeakValueDictionary()


@dataclass(frozen=True)
class HalfGrid:
    """Masses of a symmetric pair under P at the grid points 0, 1, ... and at minus those points."""

    right: Array
    left: Array
    infinite_mass: float

    def wrapped(self, size: int) -> Array:
        """Return the masses at the residues of the grid points modulo ``size``."""
        result = np.zeros(size)
        index = np.arange(self.right.size)
        np.add.at(result, index % size, self.right)
        np.add.at(result, -index % size, self.left)
        return result

    def cumulants(self, interval: float) -> tuple[float, float]:
        """Return the mean and the variance of the loss."""
        losses = interval * np.arange(self.right.size)
        mean = float(np.sum((self.right - self.left) * losses))
        return mean, float(np.sum((self.right + self.left) * losses**2)) - mean**2

    @cached_property
    def _logs(self) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            return np.log(self.right), np.log(self.left)

    def log_moment(self, power: float, interval: float) -> float:
        """Return log of the sum of mass * e^(power * loss)."""
        if self.right.size > _MANY:
            rate = power * interval
            return float(np.logaddexp(_log_sum(self.right, rate), _log_sum(self.left, -rate)))
        exponent = power * interval * np.arange(self.right.size)
        right, left = self._logs
        terms = np.concatenate([right + exponent, left - exponent])
        top = float(np.max(terms))
        with np.errstate(under="ignore"):
            return top + math.log(float(np.sum(np.exp(terms - top))))


def _log_sum(masses: Array, rate: float) -> float:
    """Return the log of the sum of masses[k] e^(rate k), by blocks with bounded weights."""
    block = int(min(masses.size, _SHORT, max(_EXPONENT / max(abs(rate), 1e-300), 1)))
    rows = -(-masses.size // block)
    padded = np.zeros(rows * block)
    padded[: masses.size] = masses
    sums = padded.reshape(rows, block) @ np.exp(rate * np.arange(block))
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(np.log(sums) + rate * block * np.arange(rows)))


def pessimistic_grid(step: PrivacyCurve, interval: float, points: int) -> HalfGrid:
    """Spread the losses of a symmetric pair over their two neighbouring grid points.

    Both laws keep their masses, so the result dominates ``step`` (Doroshenko et al. 2022,
    Algorithm 1): its profile connects those of ``step`` at the grid points by lines in e^epsilon.
    Losses above the last of the ``points + 1`` grid points become infinite.
    """
    profile = np.asarray(step.delta(interval * np.arange(points + 1)))
    drop = -np.diff(np.minimum.accumulate(profile))
    shrink, gap = math.exp(-interval), -math.expm1(-interval)
    right = np.zeros(points + 1)
    right[1:-1] = np.maximum(drop[:-1] - shrink * drop[1:], 0.0) / gap
    right[-1] = drop[-1] / gap
    left = right * np.exp(-interval * np.arange(points + 1))
    infinite = float(profile[-1])
    right[0] = max(1 - infinite - float(np.sum(right) + np.sum(left)), 0.0)
    left[0] = 0.0
    return HalfGrid(right, left, infinite)


def optimistic_grid(step: SubsampledGaussian, interval: float, points: int) -> HalfGrid:
    """Merge the losses of one step in cells of three grid intervals: ``step`` dominates the result.

    A merged cell has one loss, log of its mass under P over its mass under Q, which is then split
    over the two adjacent grid points. Merging loses more than splitting adds back as long as the
    cell below the upper point has an average loss of at most the lower one, or the mirror image of
    that; a cell where neither holds is rounded down, by adding mass to Q.
    """
    cells = max(points // 3, 1)
    edges = np.asarray(interval * (3 * np.arange(cells + 1) + 1.5), dtype=np.float64)
    log_p, log_q = (np.append(tail, -np.inf) for tail in step.log_tails(edges))
    p, loss = _cell(log_p[:-1], log_q[:-1], log_p[1:], log_q[1:])
    middle = max(1 - math.exp(log_p[0]) - math.exp(log_q[0]), 0.0)
    kept = (p > 0) & np.isfinite(loss) & (loss > 0)
    p, loss = p[kept], loss[kept]
    first = np.floor(loss / interval).astype(int)
    low = first * interval
    # sub-cells below the upper point, and above the lower point
    upper_tails, lower_tails = step.log_tails(low + interval), step.log_tails(low)
    ends = (log_p[:-1][kept], log_q[:-1][kept]), (log_p[1:][kept], log_q[1:][kept])
    _, below = _cell(*ends[0], *upper_tails)
    _, above = _cell(*lower_tails, *ends[1])
    with np.errstate(invalid="ignore"):
        sound = ((below <= low) | (above >= low + interval)) & (first < points)
    share = np.clip(np.expm1(low - loss) / math.expm1(-interval), 0, 1)
    p_high = np.where(sound, p * share, 0.0)
    p_low = p - p_high
    # the mirror image of rounding down is rounding up, away from 0
    q_high = np.where(sound, p_high * np.exp(-low - interval), p * np.exp(-loss))
    q_low = np.where(sound, p_low * np.exp(-low), 0.0)
    size = int(np.max(first, initial=0)) + 2
    # the open last cell comes down to the last point, and its mirror image is left out, which
    # lowers P: far losses would spoil the tail bounds
    q_high[first >= points] = 0.0
    right = np.bincount(np.minimum(first, points), p_low, size)
    right += np.bincount(first + 1, p_high, size)
    left = np.bincount(first, q_low, size) + np.bincount(first + 1, q_high, size)
    right[0] += middle + left[0]
    left[0] = 0.0
    return HalfGrid(np.asarray(right, np.float64), np.asarray(left, np.float64), 0.0)


def _cell(low_p: Array, low_q: Array, high_p: Array, high_q: Array) -> tuple[Array, Array]:
    """Return the mass under P between two tails, and the log of its ratio to the mass under Q."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_p = low_p + np.log(-np.expm1(high_p - low_p))
        log_q = low_q + np.log(-np.expm1(high_q - low_q))
        return np.nan_to_num(np.exp(log_p), nan=0.0), log_p - log_q


@dataclass(frozen=True)
class _Window:
    """Range of losses of a composition, and the powers that prove it."""

    low: float
    high: float
    low_power: float
    high_power: float
    spread: float


def _window(
    step: SubsampledGaussian, times: int, gaussian_mu: float, beside: SubsampledGaussian | None
) -> _Window:
    """Return Chernoff bounds on the composed loss S, from the moments of a coarse grid.

    The grid is truncated where the remaining mass no longer matters: sampled losses have such heavy
    tails that the moments of the full law would give windows thousands of times too wide.
    `_outside` verifies the window on the final grid.
    """
    parts = [(step, times)] if beside is None else [(step, times), (beside, 1)]
    coarse = []
    variance = gaussian_mu**2
    for law, count in parts:
        interval = _reach(law, count) / _COARSE_GRID
        grid = pessimistic_grid(law, interval, _COARSE_GRID)
        variance += count * grid.cumulants(interval)[1]
        coarse.append((grid, interval, count))
    spread = math.sqrt(variance)

    def log_moment(power: float) -> float:
        extra = power * (power + 1) * gaussian_mu**2 / 2
        return extra + sum(n * grid.log_moment(power, width) for grid, width, n in coarse)

    powers = (_POWERS / spread).tolist()
    high, high_power = _lowest(lambda t: (log_moment(t) + _LOG_TAIL) / t, powers)
    low, low_power = _lowest(lambda t: (log_moment(-t) + _LOG_TAIL) / t, powers)
    return _Window(-low, high, low_power, high_power, spread)


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


def _fold(
    step: HalfGrid, extras: list[HalfGrid], times: int, first: int, size: int
) -> tuple[Array, float]:
    """Return the masses at ``size`` grid points from ``first``, and the clipped mass."""
    base = np.fft.rfft(step.wrapped(size))
    # the law of many steps is smooth, so that most of its transform is negligible
    smallest = _NEGLIGIBLE ** (2 / times)
    large = np.flatnonzero(base.real**2 + base.imag**2 > smallest)
    transform = np.zeros(int(np.max(large, initial=0)) + 1, dtype=base.dtype)
    transform[large] = _power(base[large], times)
    for extra in extras:
        transform *= np.fft.rfft(extra.wrapped(size))[: transform.size]
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


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return ``base ** exponent``, by repeated squaring: a fraction of NumPy's time.

    The relative error is at most ``exponent`` times that of a product.
    """
    result, square = None, base
    while True:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if not exponent:
            return base if result is None else result
        square = square * square


def _outside(
    step: HalfGrid, extras: list[HalfGrid], times: int, interval: float, window: _Window
) -> float:
    """Bound the mass of the composed grid outside the window, by Chernoff."""
    total = 0.0
    ends = ((window.high_power, window.high), (-window.low_power, window.low))
    for power, end in ends:
        moment = times * step.log_moment(power, interval)
        moment += sum(extra.log_moment(power, interval) for extra in extras)
        total += math.exp(min(moment - power * end, 0.0))
    return total


def _reach(law: SubsampledGaussian, times: int) -> float:
    """Return the loss above which ``times`` times the remaining mass is below the tail."""
    smallest = 1e-3 * law.rate * law.mu  # where even delta(0) is below the tail
    return max(float(law.epsilon(min(_TAIL / times, 0.5))), smallest)


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
            step_points=math.ceil(_reach(step, times) / interval) + 1,
            extra_points=tuple(math.ceil(_reach(law, 1) / interval) + 1 for law in extras),
        )


def compose(
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float = 0.0,
    *,
    beside: SubsampledGaussian | None = None,
    largest_grid: int = _LARGEST_GRID,
) -> PrivacyCurve:
    """Return an upper bound on C_p(G(mu))^times composed with G(gaussian_mu) and ``beside``.

    Parameters
    ----------
    step : SubsampledGaussian
        One sampled step, C_p(G(mu)).
    times : int
        Number of compositions, at least 1.
    gaussian_mu : float, default: 0.0
        Parameter of an additional Gaussian mechanism; 0 for none.
    beside : SubsampledGaussian, optional
        One additional sampled step with other parameters.
    largest_grid : int, optional
        Largest number of grid points. The interval is chosen for an accuracy of 1e-6 in epsilon, or
        as this allows.

    Returns
    -------
    PrivacyCurve
        Exact if a closed form exists (p = 1, or one step alone); otherwise a `PLDCurve` whose
        `PLDCurve.epsilon_bracket` contains the true value. Beyond ``LARGEST_COMPOSITION`` steps,
        and if single losses are hundreds of times larger than the spread of the composed ones
        (Gaussian parameters above about 100), the better of the Renyi divergences and the
        composition without sampling: an upper bound without a lower one.

    Raises
    ------
    ValueError
        If ``times`` is not an integer of at least 1, or ``gaussian_mu`` is negative.

    Examples
    --------
    >>> from audit.bounds.accounting import SubsampledGaussian, compose
    >>> round(compose(SubsampledGaussian(0.05, 1.0), 100).epsilon(1e-5), 3)
    3.849
    """
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
    moments = RenyiCurve(
        functools.partial(
            _divergence, step=step, times=times, gaussian_mu=gaussian_mu, beside=beside
        ),
        search=(1e-6, 1e6),
        points=241,
        refinements=0,
    )
    gaussian = SubsampledGaussian(1.0, gaussian_mu) if gaussian_mu > 0 else None
    if times <= LARGEST_COMPOSITION:
        extras = [law for law in (gaussian, beside) if law is not None]
        key = (step, times, gaussian, beside, largest_grid)
        known = _CURVES.get(key)
        if known is not None:
            return known
        grid = _Grid.choose(step, times, gaussian, beside, largest_grid)
        if max(grid.step_points, *grid.extra_points, 0) <= 4 * grid.size:
            return _CURVES.setdefault(key, _compose_on_grid(step, times, extras, grid, moments))
    return MinimumCurve((moments, unsampled), ("Renyi divergences", "without sampling"))


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

    Parameters
    ----------
    step : SubsampledGaussian
        One sampled step.
    shortest, longest : int
        Numbers of compositions, at least 1.
    size : int
        Number of grid points.
    gaussian : callable, optional
        Parameter of the additional Gaussian mechanism, by the number of compositions.
    beside : SubsampledGaussian, optional
        One additional sampled step.

    Returns
    -------
    callable
        Maps a number of compositions and a delta to epsilon.
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
    points = [math.ceil(_reach(law, count) / interval) + 1 for law, count in laws]
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
        transform = _power(base, times) * np.exp(-variance / 2 * frequencies * (frequencies + 1j))
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
    # a transform of modulus near 1 has an error of some units in the last place, times the power
    transform_error = 4 * np.finfo(float).eps * (times + 64)
    upper, _, above = _folded(step, times, laws, grid, pessimistic_grid)
    rounding = transform_error + above
    return PLDCurve(
        upper=upper,
        rounding=rounding,
        moments=moments,
        lower=functools.partial(_lower_twin, step, times, laws, grid, transform_error),
        floor=max(CERTIFIED_FLOOR, 10 * rounding),
    )


def _lower_twin(
    step: SubsampledGaussian,
    times: int,
    laws: list[SubsampledGaussian],
    grid: _Grid,
    transform_error: float,
) -> tuple[LossDistribution, float]:
    """Return the law with losses rounded down, and the error of its probabilities."""
    law, clipped, outside = _folded(step, times, laws, grid, optimistic_grid)
    return law, transform_error + clipped + outside


def _folded(
    step: SubsampledGaussian,
    times: int,
    laws: list[SubsampledGaussian],
    grid: _Grid,
    discretise: Callable[..., HalfGrid],
) -> tuple[LossDistribution, float, float]:
    """Return the composed law on the grid, the mass clipped from it and the mass outside."""
    one = discretise(step, grid.interval, grid.step_points)
    extras = [
        discretise(law, grid.interval, points)
        for law, points in zip(laws, grid.extra_points, strict=True)
    ]
    infinite = -math.expm1(times * math.log1p(-one.infinite_mass))
    infinite += sum(extra.infinite_mass for extra in extras)
    masses, clipped = _fold(one, extras, times, grid.first, grid.size)
    outside = _outside(one, extras, times, grid.interval, grid.window)
    return LossDistribution(grid.interval, grid.first, masses, infinite), clipped, outside
