"""Normal mixtures with increasing log-likelihood ratio: one step on Poisson batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from audit.curves import Order
from audit.dominating.grid import GridPair, united
from audit.numerics.arrays import Array
from audit.numerics.normal import panel_error
from audit.numerics.panels import gauss_legendre

Tails = tuple[float, float]

_UNIT = 2.0**-53
_MAX_TAIL, _MIN_TAIL = 1e-26, 1e-290  # neglected mass of all steps, on each side
MAX_LOSS = 640.0  # keeps e^loss and its inverse normal floating-point numbers
UNDERFLOW = 1e-290  # smaller masses of cells may have few digits
# Gauss-Legendre nodes of a cell of width w around x, for cells with w and |x| w of at most this.
_RULES = ((3, 0.01, 0.01), (5, 0.2, 0.2), (12, 0.5, 4.0))


@dataclass(frozen=True)
class MixturePair:
    """Mixture (1-q) N(0, z^2) + q N(a, z^2) against its mirror image or N(0, z^2).

    The log-likelihood ratio increases in x.

    rate: Sampling rate q, in (0, 1]; 1 for a one-sided pair only.
    noise: Standard deviation z, above 0.
    mean: Distance a of the means, above 0.
    two_sided: Whether the second law is the mirror image of the first instead of N(0, z^2).
    skipping_rate: 1 - q, where it has more digits than 1 - ``rate``: q may be a rounded quotient.
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
        """Return the masses under P and Q between successive edges, relatively accurate.

        Edges are along the first axis.
        """
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
            width = high - low
            steep = np.maximum(np.abs(low), np.abs(high)) * width
        result = np.empty(low.shape)
        rest = np.ones(low.shape, dtype=np.bool_)
        for count, widest, steepest in _RULES:
            chosen = rest & (width < widest) & (steep < steepest)
            rest &= ~chosen
            nodes, weights = gauss_legendre(count)
            start, half = low[chosen], 0.5 * width[chosen]
            total = np.zeros(half.shape)
            for node, weight in zip(nodes, weights, strict=True):
                total += weight * np.exp(-0.5 * (start + half * (1 + node)) ** 2)
            result[chosen] = total * half / math.sqrt(2 * math.pi)
        # both ends on the side of the smaller tail
        a = np.where(low[rest] > 0, -high[rest], low[rest])
        b = np.where(low[rest] > 0, -low[rest], high[rest])
        result[rest] = ndtr(b) - ndtr(a)
        return result

    def rounding(self, log_tails: Tails) -> float:
        """Return a bound on the relative error of masses and of their ratio.

        Of exponents x^2/2 and a x/z^2, several times, of sums, products and probabilities, and of
        the quadrature.
        """
        return float(self.rounding_within(math.sqrt(-2 * min(log_tails)) + 4))

    def rounding_within(self, reach: ArrayLike) -> Array:
        """Return the same for edges at most ``reach`` deviations from 0 and the mean."""
        units = 64 + 8 * np.multiply(reach, np.add(reach, self.mean / self.noise))
        return np.asarray(units * _UNIT + max(panel_error(*rule) for rule in _RULES))

    def ratio_error(self, log_tails: Tails) -> tuple[float, float] | None:
        """Return bounds on the error of losses, as in `GridPair`.

        Only the share of the shifted normal in P has the error of its masses. That share is at most
        L + q for losses L >= 0 and at most q below, where L >= log(1 - q).
        """
        if self.two_sided or self.rate == 1:
            return None
        least = self.rate - self.log_skipped
        rounding = self.rounding(log_tails)
        return 2 * rounding * least + 16 * _UNIT, 2 * rounding

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

    def losses(self, log_tails: Tails) -> tuple[float, float]:
        """Return the losses beyond which both laws have masses of at most e^log_tails."""
        left, right = (_reach(log) for log in log_tails)
        least = -self.mean if self.two_sided else 0.0
        low, high = self.loss(np.array([least - left * self.noise, self.mean + right * self.noise]))
        return float(low), float(high)

    def counts(self, losses: Array, tilt: float, order: Order) -> Array:
        """Return how many losses x are expected beyond each of ``losses`` but the last.

        Those are positive and increasing; both signs of x count, each with weight e^(tilt x).
        """
        total = np.zeros(losses.size - 1)
        for sign in (1, -1):
            edges = self.place(sign * losses)
            p, q = (np.maximum(one, 0.0) for one in self.masses(edges[::sign]))
            masses = (p if order is Order.FORWARD else q)[::sign]
            steep = tilt if (sign > 0) == (order is Order.FORWARD) else -tilt
            with np.errstate(divide="ignore"):
                logs = np.log(masses) + np.maximum(steep * losses[:-1], steep * losses[1:])
            total += np.cumsum(np.exp(np.minimum(logs, 600.0))[::-1])[::-1]
        return total

    def grid_pairs(
        self, width: float, log_tails: Tails, inner: int = 0, outer: int | None = None
    ) -> tuple[GridPair, GridPair]:
        """Return a pair on a grid that this one dominates, and one that dominates it.

        Losses beyond which the masses are at most e^log_tails need no cells of their own.
        """
        low, high = np.clip(self.losses(log_tails), -MAX_LOSS, MAX_LOSS)
        first, last = math.floor(low / width), math.ceil(high / width)
        least, most = (first, last) if outer is None else (max(first, -outer), min(last, outer))
        ranges = [(least, -inner), (inner, most)] if inner else [(least, most)]
        rest = width, log_tails, ranges, (first, last)
        return self._on_grid(False, *rest), self._on_grid(True, *rest)

    def above_zero(self, above: bool, width: float, log_tails: Tails) -> GridPair:
        """Return the outcomes of positive loss of one of the pairs of `grid_pairs`.

        A dominating pair has all such losses, however large.
        """
        reach = self.losses(log_tails)[1]
        last = math.ceil((reach if above else min(reach, MAX_LOSS)) / width)
        return self._on_grid(above, width, log_tails, [(0, last)], (-last, last))

    def _on_grid(
        self,
        above: bool,
        width: float,
        log_tails: Tails,
        ranges: Sequence[tuple[int, int]],
        ends: tuple[int, int],
    ) -> GridPair:
        make = self._split if above else self._merged
        parts = [
            make(width, start, stop, (start == ends[0], stop == ends[1]))
            for start, stop in ranges
            if start < stop
        ]
        errors = self.rounding(log_tails), self.ratio_error(log_tails)
        return united(above, width, parts, *errors)

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
        # cells that underflow or overflow under one law are dropped under both, which is an event
        losses = (start + np.arange(q.size)) * width
        kept = (np.minimum(p, q) > UNDERFLOW) & (losses <= 1.1 * MAX_LOSS)
        p, q = np.where(kept, p, 0.0), np.where(kept, q, 0.0)
        lifted = q * np.exp(np.where(kept, losses, 0.0))
        return GridPair(False, width, start, p, lifted)

    def _split(self, width: float, start: int, stop: int, ends: tuple[bool, bool]) -> GridPair:
        """Return the pair that splits the outcomes between two grid points over both.

        Outcomes beyond the ends are split between the ends and losses of plus and minus infinity.
        """
        points = np.asarray(np.arange(start, stop + 1) * width, dtype=np.float64)
        edges = self.place(points)
        p, q = self.masses(edges)
        right = points[:-1] >= 0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = p / q * np.exp(-points[:-1])
            # shares of P right of 0, and of Q left of it; a law that underflows loses its mass
            of_p = np.where(q > UNDERFLOW, (1 - 1 / ratio) / -math.expm1(-width), 1.0)
            of_q = np.where(p > UNDERFLOW, (ratio - 1) / math.expm1(min(width, MAX_LOSS)), 0.0)
        share = np.clip(np.where(right, of_p, of_q), 0.0, 1.0)
        whole = np.where(right, p, q)
        up, down = whole * share, whole * (1 - share)
        grow = np.exp(np.minimum(points, 0.0))
        masses = np.append(np.where(right, down, down * grow[:-1]), 0.0)
        masses[1:] += np.where(right, up, up * grow[1:])
        below, above = self._tails(edges)
        lowest = math.exp(points[0])
        low = min(below[0], below[1] * lowest) if ends[0] else 0.0
        # where e^loss would overflow, Q loses that mass
        bounded = ends[1] and points[-1] <= MAX_LOSS
        high = above[1] * math.exp(points[-1]) if bounded else 0.0
        masses[0] += low
        masses[-1] += high
        p_only = max(above[0] - high, 0.0) if ends[1] else 0.0
        q_only = max(below[1] - low / lowest, 0.0) if ends[0] else 0.0
        return GridPair(True, width, start, masses, masses, p_only, q_only)


def log_tails(steps: int, delta: float = 1.0, order: Order = Order.FORWARD) -> Tails:
    """Return the logs of the masses of one step that may be neglected on the left and the right.

    A delta of one order depends on the losses of one side.
    """
    small = max(min(1e-6 * delta, _MAX_TAIL), _MIN_TAIL)
    left, right = (math.log(tail) - math.log(steps) for tail in (_MAX_TAIL, small))
    return (left, right) if order is Order.FORWARD else (right, left)


def _reach(log_tail: float) -> float:
    """Return how many deviations away a normal law has a mass of at most e^log_tail."""
    reach = 1.0
    while log_ndtr(-reach) > log_tail:
        reach += 0.25
    return reach
