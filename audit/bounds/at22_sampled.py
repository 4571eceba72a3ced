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
from scipy.optimize import minimize_scalar

from audit import validate
from audit.bounds.assumptions import (
    WITHOUT_REPLACEMENT,
    Assumption,
)
from audit.bounds.at22 import cite
from audit.bounds.bsa24_shared import family_sensitivity
from audit.bounds.registry import Entry, Status
from audit.bounds.sampled_gaussian import sampled_gaussian_renyi
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD, Order

Array = NDArray[np.float64]

PRINTED = Order.REVERSE  # D(base || mixture), Definition 2.10
LARGER = Order.FORWARD  # D(mixture || base), never smaller

ORDERS = (1e-4, 1e4)  # the range of alpha - 1 in which conversions look for the best order


def relative_noise(mechanism: NoisySGD) -> float:
    """Return b sigma/(2L), the noise of the batch's gradient for sensitivity 1."""
    return mechanism.batch_size * mechanism.noise_std / family_sensitivity(mechanism)


def renyi_curve(divergence: Callable[[Array], Array]) -> RenyiCurve:
    """Return the curve of divergences that are costly to compute, one integral an order."""
    return RenyiCurve(divergence, search=ORDERS, points=61, refinements=4)


def sampled_gaussian(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of sampled Gaussians: T S_alpha(b/n, b sigma/(2L)), the larger of both orders.

    The first branch of (B.2). Given the other records of the batch, one step is a pair of mixtures
    (1 - q) N(0) + q N(z) and (1 - q) N(0) + q N(z') with z, z' and z - z' of length at most
    2L/(b sigma), which is most distinguishable where z' = 0. Neither convexity nor smoothness nor a
    constant step size is used.
    """
    rate, sigma, steps = mechanism.sampling_rate, relative_noise(mechanism), mechanism.steps

    def divergence(alpha: Array) -> Array:
        return steps * np.asarray(sampled_gaussian_renyi(alpha, rate, sigma, LARGER))

    return renyi_curve(divergence)


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
        low, high = (middle, high) if covered(np.array([middle]))[0] else (low, middle)
    return 1 + low


def _largest_order_of(m: NoisySGD) -> float:
    return largest_order(m.sampling_rate, relative_noise(m))


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
        Maps S_alpha, alpha/(2 sigma_1^2) and T - 1 to lengths among which the best is.
    cost
        K at an array of lengths.
    composed
        Whether T S_alpha(q, sigma) is a branch.
    split, length
        sigma_1^2/sigma^2 and R where they are chosen by hand.
    """

    mechanism: NoisySGD
    order: Order
    best_length: Callable[[float, float, int], Array]
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
        return np.array([self._at(float(a)) for a in alpha])

    def _step(self, alpha: float, share: float) -> float:
        m = self.mechanism
        noise = relative_noise(m) * math.sqrt(share)
        return float(sampled_gaussian_renyi(alpha, m.sampling_rate, noise, self.order))

    def _at(self, alpha: float) -> float:
        by_hand = self.split is not None or self.length is not None
        values = []
        if self.composed and not by_hand:
            values.append(self.mechanism.steps * self._step(alpha, 1.0))
        if self.mechanism.steps > 1:
            if self.split is not None:
                values.append(self._split_at(alpha, 1 - self.split))
            else:
                found = minimize_scalar(
                    lambda share: self._split_at(alpha, float(share)),
                    bounds=(1e-3, 1 - 1e-3),
                    method="bounded",
                    options={"xatol": 2e-3},
                )
                values.append(float(found.fun))
        return min(values, default=math.inf)

    def _split_at(self, alpha: float, share: float) -> float:
        """Return the bound where sampling gets ``share`` of the variance."""
        m = self.mechanism
        step = self._step(alpha, share)
        weight = alpha / (2 * (1 - share)) / m.noise_std / m.noise_std
        if self.length is not None:
            lengths = np.array([float(self.length)])
        else:
            lengths = self.best_length(step, weight, m.steps - 1)
        with np.errstate(over="ignore"):
            return float(np.min((lengths + 1) * step + weight * self.cost(lengths)))


ENTRIES = (
    Entry(
        id="at22.sampled_gaussian",
        cite=cite("Definition 2.10 and Lemmas 2.8 and 2.11"),
        statement=(
            "batches without replacement, composition, Renyi: D_alpha <= T S_alpha(b/n, "
            "b sigma/(2L)), the larger of both orders of S_alpha"
        ),
        assumptions=(WITHOUT_REPLACEMENT,),
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
        assumptions=(WITHOUT_REPLACEMENT, LEMMA_RANGE),
        status=Status.AS_PRINTED,
        function=lemma_2_12,
    ),
)
