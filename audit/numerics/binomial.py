"""Binomial probabilities with bounds on their rounding errors.

With S the error of Stirling's formula and D(k, m) = k log(k/m) + m - k, the log probability of k
of n is S(n) - S(k) - S(n-k) - D(k, n q) - D(n-k, n (1-q)) + log(n/(2 pi k (n-k)))/2 (Loader 2000).
No large terms cancel. A relative error e of m moves D by (m - k) e only, so that the rounding of
the rates hardly counts near the mean.
"""

from __future__ import annotations

import math

import numpy as np

from audit.numerics.arrays import Array, Integers

_UNIT = 2.0**-53
# From here on S is its series, whose next term is below 2e-17. Below, each of its differences
# (n + 1/2) log(1 + 1/n) - 1 errs by three units.
_LARGE_COUNT = 16
_COEFFICIENTS = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
# Relative distance (k - m)/(k + m) within which D is a series, and its powers: the next one is
# below 1e-18 of D.
_NEAR, _POWERS = 0.1, tuple(range(3, 19, 2))
# Deviations of a tail that are summed, and terms at least; a geometric series bounds the rest.
_DEVIATIONS, _MIN_TERMS, _TINY, _RARE_MASS = 12.0, 64, 1e-300, 1e-290


def log_binomial(successes: Integers, trials: int, rate: float) -> tuple[Array, Array]:
    """Return log probabilities of numbers of successes, and bounds on their errors.

    Numbers above ``trials`` have none. The rate may be a rounded quotient.
    """
    k = np.minimum(successes, trials).astype(np.float64)
    rest = trials - k
    with np.errstate(divide="ignore", invalid="ignore"):
        own, own_error = _deviance(k, trials * rate)
        other, other_error = _deviance(rest, trials * (1 - rate))
        root = 0.5 * np.log(trials / (2 * math.pi * k * rest))
        logs = root + _stirling(np.full(1, float(trials))) - _stirling(k) - _stirling(rest)
        logs = logs - own - other
        size = 256 + 4 * np.abs(root) + 2 * (own + other)
        share = np.float64(rate) / (1 - rate)  # of the rounding of the rate, in that of 1 - rate
        moved = np.abs(k - trials * rate) * share
        errors = own_error + other_error + _UNIT * (size + moved)
        # all of the same kind: a power
        powers = {0: trials * np.log1p(-rate), trials: trials * np.log(rate)}
    for end, power in powers.items():
        logs = np.where(k == end, power, logs)
        own = 4 * abs(power) + trials * (share if end == 0 else 1)
        errors = np.where(k == end, _UNIT * own, errors)
    if trials == 0:
        logs, errors = np.zeros_like(logs), np.zeros_like(errors)
    logs = np.where(successes <= trials, logs, -np.inf)
    return logs, np.where(np.isfinite(logs), errors, 0.0)


def binomial_tails(successes: int, trials: int, rate: float) -> tuple[float, float, float]:
    """Return the probabilities of fewer and of at least ``successes``, and their relative error.

    The error is that of the larger one where the other is below 1e-290, and at most returned.
    """
    if not 0 < successes <= trials:
        return (0.0, 1.0, 0.0) if successes <= 0 else (1.0, 0.0, 0.0)
    if rate == 1:
        return 0.0, 1.0, 0.0
    mean = trials * rate
    side = 1 if successes > mean else -1  # the tail that is away from the mean is summed
    first = successes if side > 0 else successes - 1
    size = math.ceil(_DEVIATIONS * math.sqrt(mean * (1 - rate))) + _MIN_TERMS
    last = min(first + size, trials) if side > 0 else max(first - size, 0)
    k = np.arange(first, last + side, side)
    logs, errors = log_binomial(k, trials, rate)
    masses = np.exp(logs)
    total = max(math.fsum(masses.tolist()), _TINY)  # more than what underflows
    # beyond the last number, a probability is at most this share of the one before
    odds = rate / (1 - rate)
    fall = (trials - last) / (last + 1) * odds if side > 0 else last / (trials - last + 1) / odds
    slips = float(masses @ (errors + 4 * _UNIT)) + (float(masses[-1]) * fall / (1 - fall) + _TINY)
    rest = 1 - total
    if total < _RARE_MASS:
        total += slips
    error = slips / (rest if total < _RARE_MASS else min(total, rest)) + 4 * _UNIT
    return (rest, total, error) if side > 0 else (total, rest, error)


def _deviance(k: Array, mean: float) -> tuple[Array, Array]:
    """Return D(k, m), and a bound on its error for a mean with two roundings."""
    gap = k - mean
    v = gap / (k + mean)
    series = sum(v**power / power for power in _POWERS)
    near = gap * v + 2 * k * series
    log = np.log(np.where(k > 0, k / mean, 1.0))
    far = k * log - gap
    error = _UNIT * np.where(np.abs(v) < _NEAR, 16 * near, 4 * (k * np.abs(log) + np.abs(gap) + k))
    return np.where(np.abs(v) < _NEAR, near, far), error + 4 * _UNIT * np.abs(gap)


def _stirling(n: Array) -> Array:
    """Return log n! less log(sqrt(2 pi n) (n/e)^n), for n above 0."""
    large = np.maximum(n, _LARGE_COUNT)
    square = 1 / large**2
    result = np.polynomial.polynomial.polyval(square, np.array(_COEFFICIENTS)) / large
    for step in range(_LARGE_COUNT - 1, 0, -1):
        result = np.where(n <= step, result + (step + 0.5) * math.log1p(1 / step) - 1, result)
    return np.asarray(result)
