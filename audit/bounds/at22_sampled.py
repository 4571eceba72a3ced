"""Altschuler and Talwar (2022): bounds for batches drawn without replacement (paper 000).

S_alpha(q, sigma) of Definition 2.10 is D(N(0, sigma^2) || mixture) as printed. A mechanism needs
both orders, and the other one, D(mixture || N(0, sigma^2)), is never smaller (Mironov, Talwar and
Zhang 2019, Theorem 5). The entries that print Definition 2.10's order are refuted by one step;
those named ``both_orders`` take the larger one. The differing record takes the place of another
one in its batch, so 2L stands for the distance of any two records' gradients, in both relations.
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
from audit.bounds.assumptions import (
    LAST_ITERATE,
    ROUNDING,
    WITHOUT_REPLACEMENT,
    Assumption,
)
from audit.bounds.at22 import cite
from audit.bounds.bsa24_shared import family_sensitivity
from audit.bounds.costly import CostlyRenyiCurve
from audit.bounds.registry import Entry, Status
from audit.bounds.sampled_gaussian import sampled_gaussian_renyi
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD, Order

Array = NDArray[np.float64]

PRINTED = Order.REVERSE  # D(base || mixture), Definition 2.10
LARGER = Order.FORWARD  # D(mixture || base), never smaller

_FINE = 5  # steps between two ratios at which S_alpha is computed
_ROUNDS = ((1.0, 17), (0.3, 7), (0.06, 7), (0.015, 5))  # distance of the ratios, and how many
ORDERS = (1e-4, 1e4)  # the range of alpha - 1 in which conversions look for the best order


def relative_noise(mechanism: NoisySGD) -> float:
    """Return b sigma/(2L), the noise of the batch's gradient for sensitivity 1."""
    return mechanism.batch_size * mechanism.noise_std / family_sensitivity(mechanism)


def renyi_curve(divergence: Callable[[Array], Array]) -> RenyiCurve:
    """Return the curve of divergences that are costly to compute, one integral an order."""
    return CostlyRenyiCurve(divergence, search=ORDERS, points=61, refinements=4)


def sampled_gaussian(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of sampled Gaussians: T S_alpha(b/n, b sigma/(2L)), the larger of both orders.

    The first branch of (B.2). Given the other records of the batch, one step is a pair of mixtures
    (1 - q) N(0) + q N(z) and (1 - q) N(0) + q N(z') with z, z' and z - z' differences of gradients
    of length at most L, over b sigma; most distinguishable where z' = 0. Where only differences of
    gradients are bounded, by S, three gradients on a triangle of sides S are easier to tell apart
    (at q = 1/20 and S/(b sigma) = 1, order 2: .004592 against .004287), so the entry asks for L.
    Neither convexity nor smoothness nor a constant step size is used.
    """
    rate, sigma, steps = mechanism.sampling_rate, relative_noise(mechanism), mechanism.steps

    def divergence(alpha: Array) -> Array:
        return steps * np.asarray(sampled_gaussian_renyi(alpha, rate, sigma, LARGER))

    return renyi_curve(divergence)


@functools.lru_cache(maxsize=1024)  # the range of an entry asks for it, and then its value
def largest_order(rate: float, sigma: float) -> float:
    """Return alpha*(q, sigma), the largest order that Lemma 2.12 covers, or 1 if there is none.

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


BALL = Assumption(
    "gradients bounded by L, and nothing less than 2L known of their differences",
    lambda m: (
        m.gradient_bound is not None
        and 2 * m.gradient_bound <= family_sensitivity(m) * (1 + ROUNDING)
    ),
    lambda m: f"lipschitz={m.lipschitz} and gradient_sensitivity={m.gradient_sensitivity}",
)
LEMMA_RANGE = Assumption(
    "b/n < 1/5 and b sigma/(2L) >= 4, with an order above 1 covered",
    lambda m: m.sampling_rate < 0.2 and relative_noise(m) >= 4 and _largest_order_of(m) > 1,
    lambda m: f"b/n={m.sampling_rate:g} and b sigma/(2L)={relative_noise(m):g}",
)


def lemma_2_12(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition by the bound S_alpha(q, sigma) <= 2 alpha q^2/sigma^2 (Lemma 2.12).

    T times the bound at q = b/n and b sigma/(2L), for orders up to alpha*; infinite above.
    """
    rho = 2 * (mechanism.sampling_rate / relative_noise(mechanism)) ** 2 * mechanism.steps
    return RenyiCurve(
        functools.partial(np.multiply, rho), highest=_largest_order_of(mechanism), points=301
    )


@dataclass(frozen=True)
class SplitNoise:
    """The bounds of (B.2), (B.3) and (5.7): part of the noise samples, part of it iterates.

    (R + 1) S_alpha(q, sigma_2) + alpha K(R)/(2 sigma_1^2), smallest over splits
    sigma_1^2 + sigma_2^2 = sigma^2 and lengths R in 1..T - 1, K the cost of forgetting a distance D
    within R steps. Any split and length is valid, so the search needs no certificate.

    Parameters
    ----------
    mechanism
        The public parameters.
    order
        The order of S_alpha.
    best_length
        Maps S_alpha and alpha/(2 sigma_1^2), one for each order, and T - 1 to lengths among which
        the best is: one row for each order, or one for all.
    cost
        K at an array of lengths.
    composed
        Whether T S_alpha(q, sigma) is a branch.
    split, length
        sigma_1^2/sigma^2 and R where they are chosen by hand.
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
            shares = expit(logs).T
            bounds = [self._bound(alpha, *pair) for pair in zip(shares, steps.T, strict=True)]
            best = np.minimum(best, np.min(bounds, axis=0))
            places, weights = _cubic(count)
            with np.errstate(divide="ignore"):
                known = np.clip(np.log(steps), -700, 700)
            # S_alpha falls as its share of the noise grows: no more and no less in each cell
            left, right = np.floor(places).astype(np.intp), np.ceil(places).astype(np.intp)
            between = np.exp(np.clip(known @ weights.T, known[:, right], known[:, left]))
            fine = logs[:, :1] + spacing * places
            pairs = zip(expit(fine).T, between.T, strict=True)
            promised = np.stack([self._bound(alpha, *pair) for pair in pairs], axis=1)
            centre = _lowest_place(promised) * (spacing / _FINE) + logs[:, 0]
        return np.asarray(np.minimum(best, self._split_at(alpha, expit(centre))))

    def _step(self, alpha: Array, share: Array) -> Array:
        m = self.mechanism
        noise = relative_noise(m) * np.sqrt(share)
        return np.asarray(sampled_gaussian_renyi(alpha, m.sampling_rate, noise, self.order))

    def _split_at(self, alpha: Array, share: Array) -> Array:
        """Return the bound where sampling gets ``share`` of the variance, for each order."""
        return self._bound(alpha, share, self._step(alpha, share))

    def _bound(self, alpha: Array, share: Array, step: Array) -> Array:
        m = self.mechanism
        weight = alpha / (2 * (1 - share)) / m.noise_std / m.noise_std
        if self.length is not None:
            lengths = np.array([[float(self.length)]])
        else:
            lengths = self.best_length(step, weight, m.steps - 1)
        with np.errstate(over="ignore"):
            bounds = (lengths + 1) * step[:, None] + weight[:, None] * self.cost(lengths)
        return np.asarray(bounds.min(axis=1))


def _cubic(count: int) -> tuple[Array, Array]:
    """Return places that cut the cells between 0, 1, ..., count - 1, and the nodes' weights there.

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
    """Return the index of the least value of each row, or the vertex of the parabola around it."""
    rows, last = np.arange(values.shape[0]), values.shape[1] - 1
    place = np.argmin(values, axis=1)
    before, here, after = (values[rows, np.clip(place + k, 0, last)] for k in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        move = 0.5 * (before - after) / (before - 2 * here + after)
    inside = (place > 0) & (place < last) & np.isfinite(move)
    return np.asarray(place + np.where(inside, move, 0.0))


ENTRIES = (
    Entry(
        id="at22.sampled_gaussian",
        cite=cite("Definition 2.10 and Lemmas 2.8 and 2.11"),
        statement=(
            "batches without replacement, composition, Renyi: D_alpha <= T S_alpha(b/n, "
            "b sigma/(2L)), the larger of both orders of S_alpha"
        ),
        assumptions=(WITHOUT_REPLACEMENT, LAST_ITERATE, BALL),
        status=Status.CORRECTED,
        function=sampled_gaussian,
    ),
    Entry(
        id="at22.lemma_2_12",
        cite=cite("Lemma 2.12"),
        statement=(
            "batches without replacement, composition, Renyi: D_alpha <= T 2 alpha (2L/(n sigma))^2"
            " for orders up to alpha*(b/n, b sigma/(2L))"
        ),
        assumptions=(WITHOUT_REPLACEMENT, LAST_ITERATE, LEMMA_RANGE),
        status=Status.AS_PRINTED,
        function=lemma_2_12,
    ),
)
