"""Normal mixtures with increasing log-likelihood ratio: one step on Poisson batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from audit.curves import Order
from audit.dominating.grid import GridPair
from audit.dominating.sampled_gaussian import log_excess

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_LOG_TAIL = math.log(1e-26)  # neglected mass of all steps under P, on each side
_REACH = 13.0  # where a normal density has decreased by e^-84
_MOST_POINTS = 10**6
_LARGEST_EXPONENT = 600.0
_NARROW, _WIDE = 5, 12  # Gauss-Legendre nodes of a cell
_QUADRATURE = {n: np.polynomial.legendre.leggauss(n) for n in (_NARROW, _WIDE)}


@dataclass(frozen=True)
class MixturePair:
    """Mixture (1-q) N(0, z^2) + q N(a, z^2) against its mirror image or N(0, z^2).

    The log-likelihood ratio increases in x.

    Parameters
    ----------
    rate : float
        Sampling rate q, in (0, 1]; 1 for a one-sided pair only.
    noise : float
        Standard deviation z, above 0.
    mean : float
        Distance a of the means, above 0.
    two_sided : bool
        Whether the second law is the mirror image of the first instead of N(0, z^2).
    skipping_rate : float, optional
        1 - q, where it has more digits than 1 - ``rate``: q may be a rounded quotient near 1.
    """

    rate: float
    noise: float
    mean: float
    two_sided: bool
    skipping_rate: float | None = None

    @property
    def skipped(self) -> float:
        """Probability 1 - q."""
        return 1 - self.rate if self.skipping_rate is None else self.skipping_rate

    @property
    def log_skipped(self) -> float:
        """Log of 1 - q, relatively accurate."""
        if self.rate == 1:
            return -math.inf
        return math.log1p(-self.rate) if self.rate < 0.5 else math.log(self.skipped)

    def loss(self, x: Array) -> Array:
        """Return log dP/dQ at x."""
        up = self._log_ratio(x)
        return up - self._log_ratio(-x) if self.two_sided else up

    def _log_ratio(self, x: Array) -> Array:
        """Return log of 1 - q + q e^((a x - a^2/2)/z^2)."""
        exponent = self.mean * (x - self.mean / 2) / self.noise**2
        if self.rate == 1:
            return exponent
        near = np.log1p(self.rate * np.expm1(np.minimum(exponent, 1.0)))
        far = np.logaddexp(math.log(self.rate) + exponent, self.log_skipped)
        # on the left 1 - q would be lost in rounding
        right = -1.0 if self.rate > 0.5 else -math.inf
        return np.where((exponent < 1) & (exponent > right), near, far)

    def place(self, loss: Array) -> Array:
        """Return the x with log-likelihood ratio ``loss``; minus infinity below its range."""
        if self.two_sided:
            size = np.abs(loss)
            # c y^2 + (1-q) (1 - r) y - r c = 0 for y = e^(a x/z^2), c = q e^(-a^2/(2 z^2))
            log_c = math.log(self.rate) - self.mean**2 / (2 * self.noise**2)
            with np.errstate(divide="ignore"):
                log_rise = size + np.log(-np.expm1(-size)) + self.log_skipped
            log_root = np.logaddexp(2 * log_rise, math.log(4) + 2 * log_c + size) / 2
            log_y = np.logaddexp(log_rise, log_root) - math.log(2) - log_c
            return np.copysign(log_y * self.noise**2 / self.mean, loss)
        if self.rate == 1:
            return loss * self.noise**2 / self.mean + self.mean / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            small = np.log1p(np.expm1(np.minimum(loss, 1.0)) / self.rate)
            large = np.maximum(loss, 1.0)
            far = large - math.log(self.rate) + np.log1p(-self.skipped * np.exp(-large))
            exponent = np.where(loss < 1, small, far)
            # near the least loss, what counts is the distance
            left = np.minimum(loss, -0.5) - self.log_skipped
            odds = self.log_skipped - math.log(self.rate)
            exponent = np.where(loss < -0.5, np.log(np.expm1(left)) + odds, exponent)
        exponent = np.where(np.isnan(exponent), -np.inf, exponent)
        return exponent * self.noise**2 / self.mean + self.mean / 2

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Return the masses under P and Q between successive edges, relatively accurate."""
        zero, up = (self._normal(edges - mean) for mean in (0.0, self.mean))
        p = self.skipped * zero + self.rate * up
        if not self.two_sided:
            return p, zero
        return p, self.skipped * zero + self.rate * self._normal(edges + self.mean)

    def _normal(self, edges: Array) -> Array:
        """Return the mass of N(0, z^2) between successive edges."""
        x = edges / self.noise
        low, high = x[:-1], x[1:]
        with np.errstate(invalid="ignore"):
            steep = np.maximum(np.abs(low), np.abs(high)) * (high - low)
            narrow, wide = steep < 0.2, (steep >= 0.2) & (high - low < 0.5) & (steep < 4)
        result = np.empty(low.shape)
        for chosen, count in ((narrow, _NARROW), (wide, _WIDE)):
            nodes, weights = _QUADRATURE[count]
            half = 0.5 * (high[chosen] - low[chosen])
            total = np.zeros(half.shape)
            for node, weight in zip(nodes, weights, strict=True):
                total += weight * np.exp(-0.5 * (low[chosen] + half * (1 + node)) ** 2)
            result[chosen] = total * half / math.sqrt(2 * math.pi)
        rest = ~(narrow | wide)
        # both ends on the side of the smaller tail
        a = np.where(low[rest] > 0, -high[rest], low[rest])
        b = np.where(low[rest] > 0, -low[rest], high[rest])
        result[rest] = ndtr(b) - ndtr(a)
        return result

    @property
    def rounding(self) -> float:
        """Return a bound on the relative error of masses and of their ratio."""
        reach = math.sqrt(-2 * _LOG_TAIL) + 4
        steepness = reach * (reach + self.mean / self.noise)
        return (64 + 8 * steepness) * _UNIT

    @property
    def ratio_error(self) -> tuple[float, float] | None:
        """Return bounds on the error of losses, as in `GridPair`.

        Only the share of the shifted normal in P has the error of its masses. That share is at most
        L + q for losses L >= 0 and at most q below, where L >= log(1 - q).
        """
        if self.two_sided or self.rate == 1:
            return None
        least = self.rate - self.log_skipped
        return 2 * self.rounding * least + 16 * _UNIT, 2 * self.rounding

    def spread(self) -> float:
        """Return the approximate standard deviation of the loss, the smaller of both orders."""
        grid = np.linspace(-9, 9, 721)
        weights = np.exp(-0.5 * grid**2) / np.exp(-0.5 * grid**2).sum()
        zero, up = (self.loss(mean + self.noise * grid) for mean in (0.0, self.mean))

        def deviation(losses: Array, weights: Array) -> float:
            return math.sqrt(float(weights @ (losses - weights @ losses) ** 2))

        both = np.concatenate([self.skipped * weights, self.rate * weights])
        first = deviation(np.concatenate([zero, up]), both)
        return first if self.two_sided else min(first, deviation(zero, weights))

    def log_moment(self, order: float) -> float:
        """Return log of the integral of P^order Q^(1 - order), (order - 1) D_order.

        The excess of w^order over its tangent at w = dP/dQ = 1 is integrated under Q on panels
        that resolve both mixtures.
        """
        scale, apart = self.noise, self.mean / self.noise
        low, high = -apart - _REACH, max(order, 1.0) * apart + _REACH
        count = math.ceil((high - low) / min(1.0, 1 / apart))
        if count * _WIDE > _MOST_POINTS:
            return math.inf
        nodes, weights = _QUADRATURE[_WIDE]
        half = 0.5 * (high - low) / count
        centres = low + half * (2 * np.arange(count) + 1)
        x = scale * (centres[:, None] + half * nodes).ravel()
        other = self._log_ratio(-x) if self.two_sided else np.zeros_like(x)
        # w^order - 1 - order (w - 1) is order - 1 at w = 0, to the last digit
        loss = np.maximum(self._log_ratio(x) - other, -_LARGEST_EXPONENT)
        shift = np.expm1(np.minimum(loss, _LARGEST_EXPONENT))
        heights = log_excess(loss, shift, np.full_like(x, order)) - 0.5 * (x / scale) ** 2 + other
        top = float(np.max(heights))
        total = float(np.exp(heights - top) @ np.tile(half * weights, count))
        return float(np.logaddexp(0.0, top + math.log(total / math.sqrt(2 * math.pi))))

    def ends(self, steps: int) -> tuple[float, float]:
        """Return the x beyond which all steps together have negligible mass, under either law."""
        log_tail = _LOG_TAIL - math.log(steps)
        reach = 1.0
        while log_ndtr(-reach) > log_tail:
            reach += 0.25
        least = -self.mean if self.two_sided else 0.0
        return least - reach * self.noise, self.mean + reach * self.noise

    def counts(self, losses: Array, tilt: float, order: Order) -> Array:
        """Return how many losses are expected beyond each but the last, under a tilt; see `Run`."""
        total = np.zeros(losses.size - 1)
        for sign in (1, -1):
            edges = self.place(sign * losses)
            p, q = (np.maximum(one, 0.0) for one in self.masses(edges[::sign]))
            masses = (p if order is Order.FORWARD else q)[::sign]
            positive = (sign > 0) == (order is Order.FORWARD)
            total += tilted_counts(masses, losses, tilt if positive else -tilt)
        return total

    def grid_pairs(
        self, width: float, steps: int, inner: int = 0, outer: int | None = None
    ) -> tuple[GridPair, GridPair]:
        """Return a pair on a grid that this one dominates, and one that dominates it."""
        low, high = self.loss(np.array(self.ends(steps)))
        first, last = math.floor(low / width), math.ceil(high / width)
        least, most = (first, last) if outer is None else (max(first, -outer), min(last, outer))
        ranges = [(least, most)]
        if inner:
            ranges = [(least, -inner), (inner, most)]
        lower, upper = [], []
        for start, stop in ranges:
            if start < stop:
                ends = start == first, stop == last
                lower.append(self._merged(width, start, stop, ends))
                upper.append(self._split(width, start, stop, ends))
        return self._united(False, width, lower), self._united(True, width, upper)

    def _tails(self, edges: Array) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the masses under P and Q below the first and above the last edge."""
        p, q = self.masses(np.array([-np.inf, edges[0], edges[-1], np.inf]))
        return (float(p[0]), float(q[0])), (float(p[2]), float(q[2]))

    def _merged(self, width: float, start: int, stop: int, ends: tuple[bool, bool]) -> GridPair:
        """Return the pair whose cells merge the outcomes between midpoints of the grid.

        The outer cells begin and end at a grid point; the outermost ones include everything beyond.
        """
        halves = np.arange(start, stop, dtype=float) + 0.5
        points = np.append(np.append(float(start), halves), float(stop))
        edges = self.place(np.asarray(points * width, dtype=np.float64))
        p, q = self.masses(edges)
        for end, tail, there in zip((0, -1), self._tails(edges), ends, strict=True):
            if there:
                p[end] += tail[0]
                q[end] += tail[1]
        lifted = q * np.exp((start + np.arange(q.size)) * width)
        return GridPair(False, width, start, p, lifted)

    def _split(self, width: float, start: int, stop: int, ends: tuple[bool, bool]) -> GridPair:
        """Return the pair that splits the outcomes between two grid points over both.

        Outcomes beyond the ends are split between the ends and losses of plus and minus infinity.
        """
        points = np.asarray(np.arange(start, stop + 1) * width, dtype=np.float64)
        edges = self.place(points)
        p, q = self.masses(edges)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (p / q * np.exp(-points[:-1]) - 1) / math.expm1(width)
        up = q * np.where(q > 0, np.clip(share, 0.0, 1.0), 0.0)
        masses = np.append(q - up, 0.0)
        masses[1:] += up
        masses *= np.exp(points)
        below, above = self._tails(edges)
        lowest, highest = math.exp(points[0]), math.exp(points[-1])
        low = min(below[0], below[1] * lowest) if ends[0] else 0.0
        high = above[1] * highest if ends[1] else 0.0
        masses[0] += low
        masses[-1] += high
        return GridPair(
            True,
            width,
            start,
            masses,
            masses,
            p_only=max(above[0] - high, 0.0) if ends[1] else 0.0,
            q_only=max(below[1] - low / lowest, 0.0) if ends[0] else 0.0,
        )

    def _united(self, above: bool, width: float, pairs: Sequence[GridPair]) -> GridPair:
        """Return one pair with the cells of several, which may be empty."""
        first = pairs[0].first if pairs else 0
        last = max((pair.first + pair.p.size for pair in pairs), default=0)
        p, lifted = np.zeros(last - first), np.zeros(last - first)
        for pair in pairs:
            place = slice(pair.first - first, pair.first - first + pair.p.size)
            p[place] += pair.p
            lifted[place] += pair.lifted
        return GridPair(
            above,
            width,
            first,
            p,
            lifted,
            p_only=sum(pair.p_only for pair in pairs),
            q_only=sum(pair.q_only for pair in pairs),
            rounding=self.rounding,
            ratio_error=self.ratio_error,
        )


def tilted_counts(masses: Array, edges: Array, tilt: float) -> Array:
    """Return the sums of masses from each edge on, weighted by e^(tilt * edge)."""
    steep = np.maximum(tilt * edges[:-1], tilt * edges[1:])
    with np.errstate(divide="ignore"):
        logs = np.log(masses) + steep
    return np.cumsum(np.exp(np.minimum(logs, 600.0))[::-1])[::-1]
