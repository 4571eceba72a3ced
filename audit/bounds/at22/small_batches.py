"""Altschuler and Talwar (2022): batches drawn without replacement.

S_alpha(q, sigma) of Definition 2.10 is D(N(0, sigma^2) || mixture) as printed. A mechanism needs
both orders, and the other one, D(mixture || N(0, sigma^2)), is never smaller (Mironov, Talwar and
Zhang 2019, Theorem 5). The entries that print Definition 2.10's order are refuted by one step;
those named ``both_orders`` take the larger one. The differing record takes the place of another
one in its batch, so 2L bounds the distance of any two records' gradients, in both relations.

The bounds of Appendices B.2 and B.3 and of section 5.3 spend a part of the noise on sampling and
the rest on iteration. As printed they use one order of S_alpha only and are refuted; with both
orders they are unproven.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from audit import validate
from audit.bounds.accounting.update import family_sensitivity
from audit.bounds.assumptions import ROUNDING, Assumption, constant_step_size
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import CostlyRenyiCurve, RenyiCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

PRINTED = Order.REVERSE  # D(base || mixture), Definition 2.10
LARGER = Order.FORWARD  # D(mixture || base), never smaller

_FINE = 5  # interpolated points between two ratios at which S_alpha is computed
_ROUNDS = ((1.0, 17), (0.3, 7), (0.06, 7), (0.015, 5))  # distance and number of the ratios
ORDERS = (1e-4, 1e4)  # range of alpha - 1 in which conversions look for the best order


def relative_noise(mechanism: NoisySGD) -> float:
    """Return b sigma/(2L), the noise of a batch's gradient for sensitivity 1."""
    return mechanism.batch_size * mechanism.noise_std / family_sensitivity(mechanism)


BALL = Assumption(
    "gradients bounded by L, and no bound below 2L on their differences",
    lambda m: (
        m.gradient_bound is not None
        and 2 * m.gradient_bound <= family_sensitivity(m) * (1 + ROUNDING)
    ),
    lambda m: f"lipschitz={m.lipschitz} and gradient_sensitivity={m.gradient_sensitivity}",
)


def renyi_curve(divergence: Callable[[Array], Array]) -> RenyiCurve:
    """Return the curve of divergences that cost one integral per order."""
    return CostlyRenyiCurve(divergence, search=ORDERS, points=61, refinements=4)


@bound("at22.sampled_gaussian", ball=BALL)
def sampled_gaussian(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of sampled Gaussians: T S_alpha(b/n, b sigma/(2L)), the larger of both orders.

    The first branch of (B.2). Given the other records of the batch, one step is a pair of mixtures
    (1 - q) N(0) + q N(z) and (1 - q) N(0) + q N(z') with z, z' and z - z' differences of gradients
    of length at most L, over b sigma; most distinguishable for z' = 0. If only differences of
    gradients are bounded, by S, three gradients on a triangle of sides S are easier to distinguish
    (at q = 1/20 and S/(b sigma) = 1, order 2: .004592 against .004287), so the entry requires L.
    Neither convexity nor smoothness nor a constant step size is used.
    """
    rate, sigma, steps = mechanism.sampling_rate, relative_noise(mechanism), mechanism.steps

    def divergence(alpha: Array) -> Array:
        return steps * np.asarray(sampled_gaussian_renyi(alpha, rate, sigma, LARGER))

    return renyi_curve(divergence)


@functools.lru_cache(maxsize=1024)  # evaluated by the assumption and by the bound
def largest_order(rate: float, sigma: float) -> float:
    """Return alpha*(q, sigma), the largest order that Lemma 2.12 covers; 1 if there is none.

    The largest alpha with alpha <= M sigma^2/2 - log sigma^2 and
    alpha <= (M^2 sigma^2/2 - log(5 sigma^2))/(M + log(q alpha) + 1/(2 sigma^2)), where
    M = log(1 + 1/(q (alpha - 1))).
    """
    validate.open_unit(rate=rate)
    validate.positive(sigma=sigma)
    square = sigma**2

    def covered(gap: Array) -> NDArray[np.bool_]:
        alpha, m = 1 + gap, np.log1p(1 / (rate * gap))
        first = alpha <= m * square / 2 - math.log(square)
        # M + log(q alpha) = log(q alpha + alpha/(alpha - 1)) is positive
        below = np.log(rate * alpha + alpha / gap) + 1 / (2 * square)
        return np.asarray(first & (alpha * below <= m**2 * square / 2 - math.log(5 * square)))

    grid = np.geomspace(1e-9, 1e12, 2101)
    inside = np.flatnonzero(covered(grid))
    if inside.size == 0:
        return 1.0
    low = float(grid[inside[-1]])
    high = float(grid[min(inside[-1] + 1, grid.size - 1)])
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if covered(np.array([middle]))[0] else (low, middle)
    return 1 + low


def _largest_order_of(m: NoisySGD) -> float:
    return largest_order(m.sampling_rate, relative_noise(m))


LEMMA_RANGE = Assumption(
    "b/n < 1/5 and b sigma/(2L) >= 4, with an order above 1 covered",
    lambda m: m.sampling_rate < 0.2 and relative_noise(m) >= 4 and _largest_order_of(m) > 1,
    lambda m: f"b/n={m.sampling_rate:g} and b sigma/(2L)={relative_noise(m):g}",
)


@bound("at22.lemma_2_12", lemma_range=LEMMA_RANGE)
def lemma_2_12(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition by the bound S_alpha(q, sigma) <= 2 alpha q^2/sigma^2 (Lemma 2.12)."""
    rho = 2 * (mechanism.sampling_rate / relative_noise(mechanism)) ** 2 * mechanism.steps
    return RenyiCurve(
        functools.partial(np.multiply, rho), highest=_largest_order_of(mechanism), points=301
    )


@dataclass(frozen=True)
class SplitNoise:
    """Bounds of (B.2), (B.3) and (5.7), which split the noise between sampling and iteration.

    (R + 1) S_alpha(q, sigma_2) + alpha K(R)/(2 sigma_1^2), smallest over splits
    sigma_1^2 + sigma_2^2 = sigma^2 and lengths R in 1..T - 1, K the cost of forgetting a distance D
    within R steps. Any split and length is valid, so the search needs no certificate.

    mechanism: Public parameters of the run.
    order: Order of S_alpha.
    best_length: Maps S_alpha and alpha/(2 sigma_1^2), one per order, and T - 1 to candidate
        lengths: one row per order, or one for all.
    cost: Returns K at an array of lengths.
    composed: Whether T S_alpha(q, sigma) is a branch.
    split: Given ratio sigma_1^2/sigma^2.
    length: Given length R.
    """

    mechanism: NoisySGD
    order: Order
    best_length: Callable[[Array, Array, int], Array]
    cost: Callable[[Array], Array]
    composed: bool = True
    split: float | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        most = self.mechanism.steps - 1
        if self.split is not None:
            validate.open_unit(split=self.split)
        if self.length is not None:
            validate.integer(1, length=self.length)
            if self.length > most:
                raise ValueError(f"length must be at most steps - 1 ({most}), got {self.length!r}")

    def __call__(self, alpha: Array) -> Array:
        """Return the bound at each order."""
        by_hand = self.split is not None or self.length is not None
        best = np.full(alpha.shape, np.inf)
        if self.composed and not by_hand:
            best = self.mechanism.steps * self._step(alpha, np.ones_like(alpha))
        if self.mechanism.steps == 1:
            return best
        if self.split is not None:
            return self._split_at(alpha, np.full(alpha.shape, 1 - self.split))
        return np.asarray(np.minimum(best, self._best_split(alpha)))

    def _best_split(self, alpha: Array) -> Array:
        """Return the bound at a good split for each order.

        The log of the parts' ratio is searched: first all of it, for lengths are whole numbers and
        make several valleys, then twice around the best. Between the ratios where S_alpha was
        computed it is interpolated, to find where to look; only bounds where it was computed count.
        """
        centre, best = np.zeros_like(alpha), np.full(alpha.shape, np.inf)
        for spacing, count in _ROUNDS:
            logs = centre[:, None] + spacing * (np.arange(count) - (count - 1) / 2)
            steps = self._step(np.broadcast_to(alpha[:, None], logs.shape), expit(logs))
            best = np.minimum(best, self._bounds(alpha, expit(logs), steps).min(axis=1))
            places, weights = _cubic(count)
            with np.errstate(divide="ignore"):
                known = np.clip(np.log(steps), -700, 700)
            # S_alpha falls as its share of the noise grows: no more and no less in each cell
            left, right = np.floor(places).astype(np.intp), np.ceil(places).astype(np.intp)
            between = np.exp(np.clip(known @ weights.T, known[:, right], known[:, left]))
            fine = logs[:, :1] + spacing * places
            promised = self._bounds(alpha, expit(fine), between)
            centre = _lowest_place(promised) * (spacing / _FINE) + logs[:, 0]
        return np.asarray(np.minimum(best, self._split_at(alpha, expit(centre))))

    def _step(self, alpha: Array, share: Array) -> Array:
        m = self.mechanism
        noise = relative_noise(m) * np.sqrt(share)
        return np.asarray(sampled_gaussian_renyi(alpha, m.sampling_rate, noise, self.order))

    def _split_at(self, alpha: Array, share: Array) -> Array:
        """Return the bound where sampling gets ``share`` of the variance, for each order."""
        return self._bound(alpha, share, self._step(alpha, share))

    def _bounds(self, alpha: Array, shares: Array, steps: Array) -> Array:
        """Return the bound at many splits for each order, shape (orders, splits)."""
        # of step sizes that change, thousands of lengths are tried for each split
        at_once = shares.shape[1] if constant_step_size(self.mechanism) else 1
        parts = [
            self._bound(alpha[:, None], shares[:, k : k + at_once], steps[:, k : k + at_once])
            for k in range(0, shares.shape[1], at_once)
        ]
        return np.concatenate(parts, axis=1)

    def _bound(self, alpha: Array, share: Array, step: Array) -> Array:
        m = self.mechanism
        weight = alpha / (2 * (1 - share)) / m.noise_std / m.noise_std
        if self.length is not None:
            lengths = np.array([float(self.length)])
        else:
            lengths = self.best_length(step, weight, m.steps - 1)
        with np.errstate(over="ignore"):
            bounds = (lengths + 1) * step[..., None] + weight[..., None] * self.cost(lengths)
        return np.asarray(bounds.min(axis=-1))


def _cubic(count: int) -> tuple[Array, Array]:
    """Return points that divide the cells between 0, ..., count - 1, and interpolation weights.

    The weights, shape ``(places, count)``, are those of the cubics through the four nearest nodes.
    """
    places = np.arange((count - 1) * _FINE + 1) / _FINE
    first = np.clip(np.floor(places) - 1, 0, count - 4).astype(np.intp)
    t = places - first
    near = (
        -(t - 1) * (t - 2) * (t - 3) / 6,
        t * (t - 2) * (t - 3) / 2,
        -t * (t - 1) * (t - 3) / 2,
        t * (t - 1) * (t - 2) / 6,
    )
    weights = np.zeros((places.size, count))
    for k, column in enumerate(near):
        weights[np.arange(places.size), first + k] = column
    return places, weights


def _lowest_place(values: Array) -> Array:
    """Return the index of the least value of each row, or the vertex of the parabola through it."""
    rows, last = np.arange(values.shape[0]), values.shape[1] - 1
    place = np.argmin(values, axis=1)
    before, here, after = (values[rows, np.clip(place + k, 0, last)] for k in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        move = 0.5 * (before - after) / (before - 2 * here + after)
    inside = (place > 0) & (place < last) & np.isfinite(move)
    return np.asarray(place + np.where(inside, move, 0.0))


def _around(best: Array, most: int) -> Array:
    """Return the integers in 1..most on either side of each number, along a last axis."""
    inside = np.clip(best, 1.0, float(most))
    return np.stack([np.floor(inside), np.ceil(inside)], axis=-1)


def _convex_length(step: Array, weight: Array, most: int, square: float) -> Array:
    """Return the best lengths R if R costs R step + weight square/R."""
    with np.errstate(divide="ignore", over="ignore"):
        return _around(np.sqrt(weight * square / step), most)


def _convex(
    mechanism: NoisySGD, order: Order, split: float | None, length: int | None
) -> RenyiCurve:
    assert mechanism.diameter is not None  # an assumption of the entries
    square = (mechanism.diameter / mechanism.constant_step_size) ** 2

    best_length = functools.partial(_convex_length, square=square)
    return renyi_curve(
        SplitNoise(mechanism, order, best_length, lambda r: square / r, split=split, length=length)
    )


def _strongly_convex(
    mechanism: NoisySGD, order: Order, split: float | None, length: int | None
) -> RenyiCurve:
    assert mechanism.diameter is not None  # an assumption of the entries
    c = mechanism.contraction
    rate = -2 * math.log(c) if c > 0 else math.inf
    square = (mechanism.diameter / mechanism.constant_step_size) ** 2 * (1 - c) * (1 + c)

    def cost(lengths: Array) -> Array:
        if math.isinf(rate):
            return np.zeros_like(lengths)
        return np.asarray(square / np.expm1(np.minimum(rate * lengths, 700.0)))

    def best_length(step: Array, weight: Array, most: int) -> Array:
        if math.isinf(rate):
            return np.ones(1)
        # the root of y/(y - 1)^2 = Q/(K rate), y = e^(rate R)
        with np.errstate(divide="ignore", over="ignore"):
            root = np.sqrt(weight * square * rate / step)
        return _around(2 * np.arcsinh(root / 2) / rate, most)

    return renyi_curve(SplitNoise(mechanism, order, best_length, cost, split=split, length=length))


@bound("at22.b_2")
def b_2(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Small batches, convex losses, as printed (Appendix B.2, equation (B.2)).

    S is S(b/n, b sigma/(2L)) in Definition 2.10's order, Q = S(b/n, b sigma_2/(2L)), and sigma_1^2
    + sigma_2^2 = sigma^2.

    split: Ratio sigma_1^2/sigma^2, in (0, 1). Default: the best.
    length: Length T~, 1 to T - 1. Default: the best. If a split or a length is given, only the
        second branch is returned.
    """
    return _convex(mechanism, PRINTED, split, length)


@bound("at22.b_2_both_orders")
def b_2_both_orders(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (B.2) with the larger order of S_alpha; options as in `b_2`.

    The first branch holds (`sampled_gaussian`). The second is unproven: conditioning on the shifted
    noise changes the law of the batch, so the two processes do not share their maps.
    """
    return _convex(mechanism, LARGER, split, length)


@bound("at22.b_3")
def b_3(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Small batches, strongly convex losses, as printed (Appendix B.3, equation (B.3)).

    c is (kappa - 1)/(kappa + 1) at the paper's step size 2/(M + m). The best T~ follows from 1 -
    c^2 where the paper's formula for it prints (1 - c)^2. Options as in `b_2`.
    """
    return _strongly_convex(mechanism, PRINTED, split, length)


@bound("at22.b_3_both_orders")
def b_3_both_orders(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (B.3) with the larger order of S_alpha; unproven as `b_2_both_orders` is."""
    return _strongly_convex(mechanism, LARGER, split, length)


def _schedule(
    mechanism: NoisySGD, proper: bool, split: float | None, length: int | None
) -> RenyiCurve:
    assert mechanism.diameter is not None  # an assumption of the entries
    most, square = max(mechanism.steps - 1, 1), mechanism.diameter**2
    # without a known optimum: all small lengths, then ever sparser ones
    sparse = np.round(np.geomspace(1, most, 2000))
    tried = (np.arange(1.0, most + 1) if most <= 2000 else np.unique(sparse))[None, :]
    best_length: Callable[[Array, Array, int], Array]
    if constant_step_size(mechanism):
        scaled = square / mechanism.constant_step_size**2
        best_length = functools.partial(_convex_length, square=scaled)

        def cost(r: Array) -> Array:
            return scaled / r
    else:
        etas = mechanism.step_sizes[:0:-1]  # the last T - 1, backwards
        sums, squares = np.cumsum(etas), np.cumsum(etas**2)

        def best_length(step: Array, weight: Array, most: int) -> Array:
            return tried

        def cost(r: Array) -> Array:
            k = r.astype(np.int64) - 1
            return np.asarray(square / squares[k] if proper else square * r / sums[k] ** 2)

    return renyi_curve(
        SplitNoise(
            mechanism,
            LARGER,
            best_length,
            cost,
            composed=False,
            split=split,
            length=length,
        )
    )


@bound("at22.eq_5_7")
def eq_5_7(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Step-size schedules (equation (5.7)), with the larger order of S_alpha.

    The paper's "proper choice" of a_t proportional to eta_t. Unproven as `b_2_both_orders` is.
    Options as in `b_2`, ``length`` being R = T - tau - 1.
    """
    return _schedule(mechanism, False, split, length)


@bound("at22.eq_5_7_corrected")
def eq_5_7_corrected(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (5.7) with the best a_t, proportional to eta_t^2.

    By the inequality of Cauchy and Schwarz never above `eq_5_7`, and unproven like it.
    """
    return _schedule(mechanism, True, split, length)
