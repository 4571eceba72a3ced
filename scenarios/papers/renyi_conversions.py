"""Conversions from Renyi divergences to (epsilon, delta) that papers state at one order.

Curves of Renyi bounds (`audit.curves.RenyiCurve`) use the tightest of them at the best order.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from audit import validate


def _check(alpha: float, divergence: float, delta: float) -> None:
    validate.above_one(alpha=alpha)
    validate.nonnegative(divergence=divergence)
    validate.open_unit(delta=delta)


def lemma_2_5(*, alpha: float, divergence: float, delta: float) -> float:
    """Return epsilon = D + log(1/delta)/(alpha - 1) (Mironov 2017, Proposition 3)."""
    _check(alpha, divergence, delta)
    return divergence - math.log(delta) / (alpha - 1)


def balle(*, alpha: float, divergence: float, delta: float) -> float:
    """Return epsilon = D + log(1 - 1/alpha) - (log delta + log alpha)/(alpha - 1), at least 0.

    Balle et al. (2020, Theorem 21). Never above `lemma_2_5`.
    """
    _check(alpha, divergence, delta)
    spent = (math.log(delta) + math.log(alpha)) / (alpha - 1)
    return max(divergence + math.log1p(-1 / alpha) - spent, 0.0)


def bun_steinke_delta(*, rho: float, epsilon: float) -> float:
    """Return delta for D_alpha <= alpha rho at every order (Bun and Steinke 2016, Lemma 3.6).

    e^(-(epsilon - rho)^2/(4 rho)) min{1, sqrt(pi rho), 1/(1 + x), 2/(1 + x + sqrt((1 + x)^2 +
    4/(pi rho)))} with x = (epsilon - rho)/(2 rho), for epsilon >= rho; 1 below.
    """
    validate.positive(rho=rho)
    validate.nonnegative(epsilon=epsilon)
    if epsilon < rho:
        return 1.0
    over = 1 + (epsilon - rho) / (2 * rho)
    factor = min(
        1.0,
        math.sqrt(math.pi * rho),
        1 / over,
        2 / (over + math.sqrt(over**2 + 4 / (math.pi * rho))),
    )
    return math.exp(-((epsilon - rho) ** 2) / (4 * rho)) * factor


def bun_steinke(*, rho: float, delta: float) -> float:
    """Return the epsilon at which `bun_steinke_delta` equals ``delta``."""
    validate.positive(rho=rho)
    validate.open_unit(delta=delta)
    high = rho + 2 * math.sqrt(-rho * math.log(delta))  # the factor is at most 1
    return float(brentq(lambda e: bun_steinke_delta(rho=rho, epsilon=e) - delta, 0.0, high))
