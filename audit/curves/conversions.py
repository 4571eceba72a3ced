"""Conversions between Renyi divergences, (epsilon, delta) and tradeoff functions.

Which conversions are exact:

- tradeoff function <-> privacy profile delta(epsilon), in both orders: exact (Dong, Roth and Su
  2022, Proposition 2.12). Finitely many points of a profile leave out what lies between them
  (`audit.curves.duality.tradeoff_from_profile`).
- profile or tradeoff function -> Renyi divergences: exact (Sason and Verdu 2016).
- Renyi divergences -> (epsilon, delta) or a tradeoff function: a bound, even from all orders, since
  many pairs have the same bound on every D_alpha. From one order `asoodeh_epsilon` is exact; the
  conversion that curves use is within 1e-4 of it for small delta (`best_epsilon`).
- one (epsilon, delta) with delta > 0 -> Renyi divergences: impossible, as the divergence may be
  infinite. (epsilon, 0) is exact (`audit.curves.PureCurve`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves.renyi import RenyiCurve

Array = NDArray[np.float64]

_POINTS, _ROUNDS, _UNIT = 33, 12, 2.0**-53


def _check(alpha: float, divergence: float, delta: float) -> None:
    validate.above_one(alpha=alpha)
    validate.nonnegative(divergence=divergence)
    validate.open_unit(delta=delta)


def best_epsilon(curve: RenyiCurve, delta: float) -> float:
    """Return the smallest epsilon of the known conversions of Renyi bounds.

    These are `RenyiCurve.epsilon` (Mironov 2017; Balle et al. 2020; at the best order) and
    `asoodeh_epsilon` on a grid of orders. The second is better where delta is large: by 12% for
    D_alpha = alpha/800 at delta = 0.01, by nothing to four digits at 1e-5. It takes some hundred
    times longer, so curves do not use it.
    """
    validate.instance(RenyiCurve, curve=curve)
    validate.open_unit(delta=delta)
    best = float(curve.epsilon(delta))
    low, high = max(curve.lowest - 1, 1e-2), min(curve.highest - 1, 1e6)
    for alpha in 1 + np.geomspace(min(low, high), high, 60):
        divergence = float(curve.renyi(float(alpha)))
        if math.isfinite(divergence):
            best = min(best, asoodeh_epsilon(float(alpha), divergence, delta))
    return best


def asoodeh_epsilon(alpha: float, divergence: float, delta: float) -> float:
    """Return the exact epsilon at delta implied by one Renyi order (Asoodeh et al. 2021).

    By data processing every event has probabilities p = P(S) and q = Q(S) with p^a q^(1-a) +
    (1-p)^a (1-q)^(1-a) <= e^((a-1) D), and two-point laws attain equality. So epsilon is the
    largest log((p - delta)/q), with q the least that p allows; it is quasi-concave in p. On the
    interval that holds the largest one it is at most log(p - delta) at its right end less log q at
    its left one.
    """
    _check(alpha, divergence, delta)
    if divergence == 0:
        return 0.0
    low, high = math.log(delta) + 1e-12, 0.0
    for _ in range(_ROUNDS):
        log_p = np.linspace(low, high, _POINTS)
        p = np.exp(log_p)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(np.maximum(p - delta, 0.0)) - _least_log_q(alpha, divergence, log_p)
        place = int(np.argmax(value))
        low, high = log_p[max(place - 1, 0)], log_p[min(place + 1, _POINTS - 1)]
    least = float(_least_log_q(alpha, divergence, np.array([low]))[0])
    best = math.log(max(math.exp(high) - delta, delta * _UNIT)) - least
    # without the complementary event: Balle et al. 2020, Theorem 21
    gap = alpha - 1
    simple = divergence - math.log1p(1 / gap) - (math.log(delta) + math.log(alpha)) / gap
    # comparisons of values err by their rounding, and so does each logarithm
    rounding = _UNIT * (64 + 16 * abs(least) + 16 * abs(math.log(delta)))
    return max(min(best + rounding, simple), 0.0)


def _least_log_q(alpha: float, divergence: float, log_p: Array) -> Array:
    """Return the log of the least Q(S) of an event with P(S) = p, rounded down."""
    limit = (alpha - 1) * divergence
    with np.errstate(divide="ignore"):
        log_rest = np.log(-np.expm1(log_p))
    # the first term alone must not exceed the limit
    low = (alpha * log_p - limit) / (alpha - 1) - 1e-15
    high = log_p.copy()
    for _ in range(60):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            other = alpha * log_rest - (alpha - 1) * np.log(-np.expm1(middle))
        other = np.where(np.isneginf(log_rest), -np.inf, other)
        above = np.logaddexp(alpha * log_p - (alpha - 1) * middle, other) > limit
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(low)
