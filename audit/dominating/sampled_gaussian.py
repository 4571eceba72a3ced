"""Renyi divergences of the sampled Gaussian mechanism, in both orders.

The pair is a Gaussian and the same Gaussian with one component moved away:

    base = N(0, sigma^2),    mixture = (1 - q) N(0, sigma^2) + q N(1, sigma^2).

Altschuler and Talwar (2022, Definition 2.10) print D(base || mixture); the formula that Mironov,
Talwar and Zhang (2019, Section 3.3) compute, and libraries with them, is D(mixture || base). A
mechanism is Renyi private only if both are bounded. For batches without replacement and
replace-one neighbours the pair is another one: see `audit.bounds.accounting.subsampling`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.curves import Order
from audit.numerics.panels import gauss_legendre

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ORDER = 16  # nodes of a panel
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_REACH = 12.0  # where a normal density has decreased by e^-72
_WIDTH = 2.0  # width of a panel where only normal densities vary
_AROUND = np.arange(-_REACH, _REACH + _WIDTH, _WIDTH)
_TURN = 40.0  # log ratio of the mixture's parts beyond which one is negligible
_NEGLIGIBLE = 45.0  # values below e^-45 of the largest are dropped
_STEEP = 10.0  # change of the logarithm that 16 nodes integrate to the last digit
_APART = 1000.0  # distance at which the two parts of a mixture do not overlap
_FAR = 1e7  # from the centre, where the log density is known to 0.01 only
_LARGEST_EXPONENT = 600.0  # beyond, w is q e^x to the last digit
_SERIES = tuple(range(15, 2, -1))
_TOGETHER = 128  # pairs of an order and a noise at a time, which bounds the memory


def sampled_gaussian_renyi(
    alpha: ArrayLike, rate: float, sigma: ArrayLike, order: Order | None = None
) -> float | Array:
    """Return the Renyi divergence of the sampled Gaussian mechanism.

    With w = 1 - q + q e^((2x - 1)/(2 sigma^2)) the likelihood ratio of the mixture, the
    divergences are log E[w^alpha]/(alpha - 1) and log E[w^(1 - alpha)]/(alpha - 1), the mean under
    the base. As E[w] = 1, the moment is 1 + E[g] with g = w^p - 1 - p (w - 1) >= 0, which is
    integrated on the logarithmic scale: nothing cancels and nothing overflows, however close to 0
    or infinity the divergence is. Relative error below 1e-10 for sigma from 0.01 to 1000, rates
    from 1e-8 to 1 and orders from 1.001 to 1e4.
    """
    orders = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
    validate.closed_unit(rate=rate)
    if np.ndim(sigma) == 0:
        validate.positive(sigma=sigma)
    noises = validate.array_in(0, np.inf, open_ends=True, sigma=sigma)
    asked = (Order.FORWARD, Order.REVERSE) if order is None else (order,)
    for one in asked:
        validate.instance(Order, order=one)
    orders, noises = np.broadcast_arrays(orders, noises)
    pairs = orders.ravel(), 1 / noises.ravel()
    values = np.max([_divergences(*pairs, float(rate), one) for one in asked], axis=0)
    return float(values[0]) if orders.ndim == 0 else np.reshape(values, orders.shape)


def _divergences(alpha: Array, mu: Array, rate: float, order: Order) -> Array:
    with np.errstate(over="ignore"):
        unsampled = alpha * mu / 2 * mu
    if rate in (0, 1):
        return unsampled if rate else np.zeros_like(unsampled)
    result = unsampled.copy()
    inside = (unsampled > 0) & np.isfinite(unsampled)
    apart = inside & (mu > _APART)
    if order is Order.REVERSE:
        # under the base w is 1 - q
        result[apart] = np.minimum(unsampled[apart], -math.log1p(-rate))
        inside &= ~apart
    else:
        result[apart] = _of_separate_parts(alpha[apart], mu[apart], rate)
        # so far out the moment is that of the moved part alone
        alone = inside & ~apart & (alpha * mu > _FAR) & (unsampled > _FAR - math.log(rate))
        result[alone] = unsampled[alone] + alpha[alone] / (alpha[alone] - 1) * math.log(rate)
        inside &= ~(apart | alone)
    left = np.flatnonzero(inside)
    for start in range(0, left.size, _TOGETHER):
        part = left[start : start + _TOGETHER]
        power = alpha[part] if order is Order.FORWARD else 1 - alpha[part]
        log_mean = _Excess(power, mu[part], rate).log_means()
        value = np.logaddexp(0.0, log_mean) / (alpha[part] - 1)
        # quasi-convexity, and w >= 1 - q: both are exact, so they only remove rounding
        ceiling = math.inf if order is Order.FORWARD else -math.log1p(-rate)
        result[part] = np.minimum(np.minimum(value, unsampled[part]), ceiling)
    return result


def _of_separate_parts(alpha: Array, mu: Array, rate: float) -> Array:
    """D(mixture || base) where the two parts of the mixture do not overlap.

    E[w^alpha] = (1 - q)^alpha + q^alpha e^(alpha (alpha - 1) mu^2/2), of which 1 is taken off in
    both terms together.
    """
    gap = alpha - 1
    exponent = gap * (math.log(rate) + alpha * mu / 2 * mu)
    stays = (1 - rate) * np.expm1(gap * math.log1p(-rate))
    near = np.log1p(stays + rate * np.expm1(np.minimum(exponent, 30.0)))
    far = math.log(rate) + exponent  # the rest is e^-30 of it, and below it
    sampled = np.where(exponent < 30, near, np.logaddexp(far, alpha * math.log1p(-rate)))
    return np.asarray(np.minimum(sampled / gap, alpha * mu / 2 * mu))


@dataclass(frozen=True)
class _Excess:
    """E[g] with g = w^p - 1 - p (w - 1), for many powers p and shifts mu = 1/sigma at once.

    The powers are orders alpha, or all of them 1 - alpha. Panels of all pairs lie in one flat
    array; ``owner`` says to which pair each belongs.
    """

    power: Array
    mu: Array
    rate: float

    def log_means(self) -> Array:
        """Return log E[g] of each pair."""
        low, high, owner, top = self._panels()
        half, (nodes, weights) = 0.5 * (high - low), gauss_legendre(_ORDER)
        heights = self._heights((low + half)[:, None] + half[:, None] * nodes, owner)
        sums = half * (np.exp(heights - top[owner, None]) @ weights)
        totals = np.bincount(owner, sums, self.mu.size)
        # a failed search must not give a small mean; infinity selects the bound without sampling
        with np.errstate(divide="ignore"):
            return np.where(totals > 0, top + np.log(totals), np.inf)

    def _heights(self, x: Array, owner: Index) -> Array:
        """Log of g times the normal density at points x, shape (len(owner), k)."""
        power, mu = (np.repeat(part[owner], x.shape[1]) for part in (self.power, self.mu))
        flat = x.ravel()
        heights = _log_excess(flat, power, self.rate, mu) - 0.5 * flat * flat - _LOG_SQRT_TWO_PI
        return heights.reshape(x.shape)

    def _edges(self) -> Array:
        """Return where to look: around every centre of a Gaussian, and where the mixture turns.

        Away from the turn the integrand is a sum of Gaussians of width 1 around 0 (from 1), mu
        (from w), 2 mu (from the square of w - 1) and p mu (from w^p). The turn, where both parts of
        w matter, has the scale 1/mu; it begins where p (w - 1) is of order 1. Sorted, one row for
        each pair; what another edge makes superfluous is put where w = 1 and g vanishes.
        """
        mu = self.mu[:, None]
        centres = np.concatenate([0 * mu, mu, 2 * mu, self.power[:, None] * mu], axis=1)
        middle = mu / 2
        around = centres[:, :, None] + _AROUND
        for place in range(1, 4):  # a centre next to another one
            near = np.abs(centres[:, :place] - centres[:, place, None]) < 0.25 * _WIDTH
            around[np.any(near, axis=1), place] = np.nan
        start, stop = centres.min(axis=1) - _REACH, centres.max(axis=1) + _REACH
        equal = self.mu / 2 + math.log((1 - self.rate) / self.rate) / self.mu
        spread = (_TURN + np.log1p(np.abs(self.power))) / self.mu
        low, high = np.maximum(start, equal - spread), np.minimum(stop, equal + spread)
        width = np.minimum(_WIDTH, 1 / self.mu)
        count = np.where(low < high, np.ceil((high - low) / width), 0.0)
        steps = np.arange(int(count.max()) + 1)
        share = np.minimum(steps, count[:, None]) / np.maximum(count, 1.0)[:, None]
        turn = low[:, None] + (high - low)[:, None] * share
        inside = np.min(np.abs(turn[:, :, None] - centres[:, None, :]), axis=2) < _REACH
        turn = np.where((count == 0)[:, None] | (inside & (width == _WIDTH)[:, None]), np.nan, turn)
        edges = np.concatenate([around.reshape(mu.size, -1), turn, middle], axis=1)
        return np.sort(np.where(np.isnan(edges), middle, edges), axis=1)

    def _panels(self) -> tuple[Array, Array, Index, Array]:
        """Return the panels that matter, cut until the integrand is tame on each.

        Their ends and owners, and the greatest height of each pair that was met.
        """
        edges = self._edges()
        pairs = np.arange(self.mu.size)
        heights = self._heights(edges, pairs)
        top = heights.max(axis=1)
        owner = np.repeat(pairs, edges.shape[1] - 1)
        ends = (edges[:, :-1], edges[:, 1:], heights[:, :-1], heights[:, 1:])
        low, high, left, right = (part.ravel() for part in ends)
        wide = low < high
        low, high, left, right = (part[wide] for part in (low, high, left, right))
        owner = owner[wide]
        done: list[tuple[Array, Array, Index]] = []
        for _ in range(40):
            middle = 0.5 * (low + high)
            between = self._heights(middle[:, None], owner)[:, 0]
            np.maximum.at(top, owner, between)
            highest = np.maximum(left, right)
            keep = np.maximum(highest, between) > top[owner] - _NEGLIGIBLE
            # the integrand vanishes at one edge, which is no reason to cut there
            with np.errstate(invalid="ignore"):
                tame = np.abs(highest - between) < _STEEP
                tame &= np.isinf(left) | np.isinf(right) | (np.abs(left - right) < 2 * _STEEP)
            tame |= high - low <= 1e-12 * np.abs(middle)
            finished, cut = keep & tame, keep & ~tame
            done.append((low[finished], high[finished], owner[finished]))
            if not np.any(cut):
                break
            middle, between = middle[cut], between[cut]
            low, high = np.append(low[cut], middle), np.append(middle, high[cut])
            left, right = np.append(left[cut], between), np.append(between, right[cut])
            owner = np.append(owner[cut], owner[cut])
        else:
            done.append((low, high, owner))
        lows, highs, owners = zip(*done, strict=True)
        return np.concatenate(lows), np.concatenate(highs), np.concatenate(owners), top


def _log_excess(x: Array, power: Array, rate: float, mu: Array) -> Array:
    """Return log(w^p - 1 - p (w - 1)) at x, with w the likelihood ratio there."""
    exponent = mu * (x - mu / 2)
    shift = rate * np.expm1(np.minimum(exponent, _LARGEST_EXPONENT))  # w - 1
    loss = np.log1p(shift)
    beyond = exponent > _LARGEST_EXPONENT
    loss[beyond] = math.log(rate) + exponent[beyond]
    return log_excess(loss, shift, power)


def log_excess(loss: Array, shift: Array, power: Array) -> Array:
    """Return log(w^p - 1 - p (w - 1)), p above 1 or below 0, from log w and w - 1."""
    tiny = np.abs(shift) * np.maximum(np.abs(power), 2.0) < 0.1
    result = np.empty_like(loss)
    result[tiny] = _series(shift[tiny], power[tiny])
    result[~tiny] = _far_from_one(loss[~tiny], shift[~tiny], power[~tiny])
    return result


def _series(shift: Array, power: Array) -> Array:
    """Log of the binomial series from its square on."""
    series = np.zeros_like(shift)
    for k in _SERIES:
        series = (power - k + 1) / k * shift * (1 + series)
    with np.errstate(divide="ignore"):
        square = 2 * np.log(np.abs(shift)) + np.log(np.abs(power) / 2 * np.abs(power - 1))
    return np.asarray(square + np.log1p(series))


def _far_from_one(loss: Array, shift: Array, power: Array) -> Array:
    """Log of w^p - 1 - p (w - 1) from log w, and from w - 1 where w^p is large and p < 0."""
    positive = bool(np.all(power > 0))
    gap = power - 1 if positive else -power
    raised = gap * loss if positive else -gap * loss
    rest = gap * -np.expm1(-loss)  # gap (w - 1)/w
    large = raised >= 30
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        inner = np.expm1(np.minimum(raised, 30.0))
        inner = inner - rest if positive else inner * np.exp(-loss) + rest
        result = np.log(np.maximum(inner, 0.0))
        # w < 1 where a negative power makes it large, and w - 1 is the shift
        less = -(1 + rest[large]) if positive else gap[large] * shift[large] - 1
        far = raised[large] + np.log1p(less * np.exp(-raised[large]))
    result[large] = far if positive else far - loss[large]
    return result + loss
