"""Conversions between Renyi divergences, (epsilon, delta) and tradeoff functions.

Which conversions are exact:

- tradeoff function <-> privacy profile delta(epsilon), in both orders: exact (Dong, Roth and Su
  2022, Proposition 2.12). Finitely many points of a profile leave out what lies between them
  (`audit.curves.duality.tradeoff_from_profile`).
- profile or tradeoff function -> Renyi divergences: exact (`renyi_from_profile`).
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
from audit.curves.base import Order, PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.numerics.panels import gauss_legendre

Array = NDArray[np.float64]

_POINTS, _ROUNDS, _UNIT = 33, 12, 2.0**-53
_UNDERFLOW, _NEARLY = -700.0, -500.0  # logs of a delta that underflows, and of one safely before
_FARTHEST = 1e6  # epsilon up to which a profile is integrated
_NODES, _WEIGHTS = gauss_legendre(20)


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


def renyi_from_profile(curve: PrivacyCurve, alpha: float, order: Order = Order.FORWARD) -> float:
    """Return the Renyi divergence of a privacy profile, to quadrature accuracy.

    e^((a-1) D) = 1 + a (a-1) times the integral over epsilon > 0 of e^((a-1) epsilon)
    delta(epsilon) + e^(-a epsilon) delta'(epsilon), with delta' the profile of the other order
    (Sason and Verdu 2016).
    """
    validate.above_one(alpha=alpha)
    validate.instance(PrivacyCurve, curve=curve)
    gap = alpha - 1
    # A profile does not increase, so delta at the end gives a lower bound of the integral; a
    # profile with a floor, such as a computed bound, would be integrated up to the end in vain.
    left = float(np.max(np.asarray(curve.delta(np.array([_FARTHEST]), order))))
    if left > 0 and math.log(left) + gap * _FARTHEST > 0:
        return math.inf
    log_terms: list[Array] = []
    width, start, top, last = 0.05, 0.0, -np.inf, 0.0
    while start < _FARTHEST:
        epsilon = start + width * 0.5 * (1 + _NODES)
        weights = np.log(0.5 * width * _WEIGHTS)
        with np.errstate(divide="ignore"):
            log_delta = np.log(np.asarray(curve.delta(epsilon, order)))
            forward = log_delta + gap * epsilon
            backward = np.log(np.asarray(curve.delta(epsilon, order.other))) - alpha * epsilon
        terms = np.logaddexp(forward, backward) + weights
        log_terms.append(terms)
        largest = float(np.max(terms))
        top = max(top, largest)
        if np.min(log_delta) < _UNDERFLOW and last < _NEARLY and largest > top - 25:
            raise ValueError(
                f"alpha must be smaller: the profile underflows before {start:.4g}, where it "
                f"still matters, got {alpha!r}"
            )
        last = float(np.min(log_delta))
        if largest < top - 50:
            break
        start, width = start + width, min(width * 1.2, 0.5)
    else:
        return math.inf
    total = np.concatenate(log_terms)
    log_sum = top + math.log(float(np.sum(np.exp(total - top)))) if top > -np.inf else -np.inf
    log_excess = math.log(alpha * gap) + log_sum
    return float(np.logaddexp(0.0, log_excess)) / gap
