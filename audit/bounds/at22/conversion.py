"""Conversion from Renyi to (epsilon, delta): Altschuler and Talwar (2022), and tighter ones.

Curves of Renyi bounds (`audit.curves.RenyiCurve`) use the tightest of these at the best order.
Lemma 2.5 serves for comparison with published numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.at22.fixed_batches import b_1
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.tails import TailCurve
from audit.mechanism import NoisySGD

Array = NDArray[np.float64]


def _check(alpha: float, divergence: float, delta: float) -> None:
    validate.above_one(alpha=alpha)
    validate.nonnegative(divergence=divergence)
    validate.open_unit(delta=delta)


def lemma_2_5(*, alpha: float, divergence: float, delta: float) -> float:
    """Return epsilon = D + log(1/delta)/(alpha - 1) (Mironov 2017, Proposition 3).

    Parameters
    ----------
    alpha, divergence : float
        A Renyi order above 1, and the divergence of this order in nats.
    delta : float
        A number in (0, 1).

    Returns
    -------
    float
        Upper bound on epsilon, in nats.

    Examples
    --------
    >>> from audit.bounds.at22 import lemma_2_5
    >>> round(lemma_2_5(alpha=9.0, divergence=0.5, delta=1e-5), 4)
    1.9391
    """
    _check(alpha, divergence, delta)
    return divergence - math.log(delta) / (alpha - 1)


def balle(*, alpha: float, divergence: float, delta: float) -> float:
    """Return epsilon = D + log(1 - 1/alpha) - (log delta + log alpha)/(alpha - 1), at least 0.

    Balle et al. (2020, Theorem 21). Never above `lemma_2_5`.

    Parameters
    ----------
    alpha, divergence : float
        A Renyi order above 1, and the divergence of this order in nats.
    delta : float
        A number in (0, 1).

    Returns
    -------
    float
        Upper bound on epsilon, in nats.

    Examples
    --------
    >>> from audit.bounds.at22 import balle
    >>> round(balle(alpha=9.0, divergence=0.5, delta=1e-5), 4)
    1.5467
    """
    _check(alpha, divergence, delta)
    spent = (math.log(delta) + math.log(alpha)) / (alpha - 1)
    return max(divergence + math.log1p(-1 / alpha) - spent, 0.0)


def bun_steinke_delta(*, rho: float, epsilon: float) -> float:
    """Return delta for D_alpha <= alpha rho at every order (Bun and Steinke 2016, Lemma 3.6).

    e^(-(epsilon - rho)^2/(4 rho)) min{1, sqrt(pi rho), 1/(1 + x), 2/(1 + x + sqrt((1 + x)^2 +
    4/(pi rho)))} with x = (epsilon - rho)/(2 rho), for epsilon >= rho; 1 below.

    Parameters
    ----------
    rho : float
        Bound D_alpha <= alpha rho at every order; above 0.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        Upper bound on delta.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from audit.bounds.at22 import bun_steinke_delta
    >>> bun_steinke_delta(rho=0.1, epsilon=0.05)
    1.0
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
    """Return the epsilon at which `bun_steinke_delta` equals ``delta``.

    Parameters
    ----------
    rho : float
        Bound D_alpha <= alpha rho at every order; above 0.
    delta : float
        A number in (0, 1).

    Returns
    -------
    float
        Upper bound on epsilon, in nats.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from audit.bounds.at22 import bun_steinke, bun_steinke_delta
    >>> epsilon = bun_steinke(rho=0.1, delta=1e-5)
    >>> abs(bun_steinke_delta(rho=0.1, epsilon=epsilon) / 1e-5 - 1) < 1e-6
    True
    """
    validate.positive(rho=rho)
    validate.open_unit(delta=delta)
    low, high = 0.0, rho + 2 * math.sqrt(-rho * math.log(delta))  # the factor is at most 1
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        above = bun_steinke_delta(rho=rho, epsilon=middle) > delta
        low, high = (middle, high) if above else (low, middle)
    return high


@bound("at22.conversion")
def conversion(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound (B.1) converted by Lemma 2.5 at the best order: rho + 2 sqrt(rho log(1/delta)).

    Never below ``at22.b_1``, which converts the same divergences alpha rho tightly.
    """
    rho = float(b_1(mechanism).renyi(2.0)) / 2
    if rho == 0:
        return TailCurve.gaussian(0.0, rho=0.0)

    def epsilon_at(delta: Array) -> Array:
        return np.asarray(rho + 2 * np.sqrt(-rho * np.log(delta)))

    def delta_at(epsilon: Array) -> Array:
        over = np.minimum(np.maximum(epsilon - rho, 0.0) / (2 * math.sqrt(rho)), 1e100)
        return np.asarray(np.exp(-np.square(over)))

    return TailCurve(epsilon_at, delta_at, rho=rho)
