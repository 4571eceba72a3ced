"""Feldman, Mironov, Talwar and Thakurta (2018): the statements on Renyi divergences.

The paper's update is the package's with b = 1: one record a step. Its 2L is the sensitivity of the
differing record, S = `NoisySGD.sensitivity`: 2L for replace-one, L for zero-out.

Stop-PNSGD releases the iterate after T steps, with T uniform on 1..n and hidden. A record after T
is not used; otherwise Theorem 23 bounds the run of T steps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import digamma, expi

from audit import validate
from audit.bounds.accounting.iteration import original_amplification
from audit.bounds.accounting.update import checked_index
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

_SUMMED = 512  # leading terms of a sum over n that are added exactly


def one_step(mechanism: NoisySGD) -> float:
    """Return S/sigma, the distance of one step's two Gaussians in units of the noise."""
    return mechanism.sensitivity / mechanism.noise_std


def index_or_last(mechanism: NoisySGD, index: int | None) -> int:
    """Return the index of the record, from 1; defaults to the last, least protected one."""
    return mechanism.dataset_size if index is None else checked_index(mechanism, index)


@bound("fmtt18.theorem_1")
def theorem_1(mechanism: NoisySGD, *, distance: float | None = None) -> PrivacyCurve:
    """Return the claim of the introduction for two starts (Theorem 1, informal).

    For iterates that share their maps. The distance should be squared, as in Theorem 22.

    distance: Distance d of the starts. Default: eta S, by which the first record's gradient can
        separate the two runs, so that the claim covers the first record of one pass.
    """
    apart = mechanism.constant_step_size * mechanism.sensitivity if distance is None else distance
    validate.nonnegative(distance=apart)
    return RenyiCurve.linear(apart / (2 * mechanism.steps * mechanism.step_std**2))


@bound("fmtt18.theorem_22")
def theorem_22(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
) -> PrivacyCurve:
    """Privacy amplification by iteration (Theorem 22), for Gaussian noise.

    With s_1 the distance of two starts it is Theorem 1 with the square that is missing there.
    Equality for identity maps wherever z_t >= 0 does not bind.

    shifts, allocations: As for ``at22.proposition_2_17``.
    """
    return original_amplification(mechanism, shifts, allocations)


@bound("fmtt18.theorem_23")
def theorem_23(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """One pass over the records (Theorem 23).

    index: Record t, counted from 1. Default: n, the least protected record.
    """
    left = mechanism.dataset_size + 1 - index_or_last(mechanism, index)
    return RenyiCurve.linear(one_step(mechanism) ** 2 / (2 * left))


@bound("fmtt18.theorem_35")
def theorem_35(mechanism: NoisySGD) -> PrivacyCurve:
    """N passes over n records in fixed order (Theorem 35).

    ``at22.eq_5_4`` has any number of passes, any batch size, and the sum before it is rounded up.
    """
    return RenyiCurve.linear(one_step(mechanism) ** 2)


def harmonic(n: int) -> float:
    """Return the harmonic number H_n = 1 + 1/2 + ... + 1/n."""
    return float(digamma(n + 1) + np.euler_gamma)


def _largest_order(mechanism: NoisySGD) -> float:
    """Return the largest alpha with sigma >= S sqrt(alpha (alpha - 1)/2)."""
    return (1 + math.sqrt(1 + 8 / one_step(mechanism) ** 2)) / 2 * (1 + 1e-12)


def _stop_curve(mechanism: NoisySGD, mean_steps: float) -> RenyiCurve:
    rho = one_step(mechanism) ** 2 * mean_steps / mechanism.dataset_size
    return RenyiCurve(functools.partial(np.multiply, rho), highest=_largest_order(mechanism))


@bound("fmtt18.lemma_25")
def lemma_25(mechanism: NoisySGD) -> PrivacyCurve:
    """Weak convexity of Renyi divergences (Lemma 25), applied to Stop-PNSGD.

    The proof of Theorem 26 with the c that there is rounded up to 1.
    """
    half = one_step(mechanism) ** 2 / 2
    mean = half * harmonic(mechanism.dataset_size) / mechanism.dataset_size

    def divergence(alpha: Array) -> Array:
        return (1 + (alpha - 1) * alpha * half) * alpha * mean

    return RenyiCurve(divergence, highest=_largest_order(mechanism))


@bound("fmtt18.theorem_26")
def theorem_26(mechanism: NoisySGD) -> PrivacyCurve:
    """Return the printed bound for Stop-PNSGD (Theorem 26).

    The sum of 1/k that its proof bounds by ln n is the harmonic number H_n.
    """
    return _stop_curve(mechanism, math.log(mechanism.dataset_size))


@bound("fmtt18.theorem_26_corrected")
def theorem_26_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """Stop-PNSGD with H_n in place of ln n: alpha S^2 H_n/(n sigma^2), orders as printed."""
    return _stop_curve(mechanism, harmonic(mechanism.dataset_size))


@bound("fmtt18.theorem_26_sharper")
def theorem_26_sharper(mechanism: NoisySGD) -> PrivacyCurve:
    """Stop-PNSGD without Lemma 25, for every sigma and order.

    The stopping time is revealed, and every run is bounded by Theorem 23. Terms beyond 512 are
    summed by an integral that is not below them (the summand is convex in j).
    """
    n, half = mechanism.dataset_size, one_step(mechanism) ** 2 / 2
    terms = min(n, _SUMMED)
    j = np.arange(1.0, terms + 1)

    def divergence(alpha: Array) -> Array:
        scale = alpha * (alpha - 1) * half
        # 1 + E[e^x - 1] keeps its accuracy where the divergence is small
        excess = _log_sum_expm1(scale, j)
        if n > terms:
            excess = np.logaddexp(excess, _log_tail(scale, terms, n))
        total = np.logaddexp(0.0, excess - math.log(n))
        # at most the unmixed bound, despite rounding
        return np.minimum(total / (alpha - 1), alpha * half)

    return RenyiCurve(divergence, points=101)


def _log_sum_expm1(scale: Array, j: Array) -> Array:
    """Return the log of the sum over j of e^(scale/j) - 1, for each scale; the first j is 1."""
    result = np.empty_like(scale)
    near = scale < 30
    with np.errstate(divide="ignore"):
        result[near] = np.log(np.expm1(scale[near, None] / j).sum(axis=1))
    far = scale[~near]
    rest = np.exp(far[:, None] * (1 / j - 1)).sum(axis=1) - j.size * np.exp(-far)
    result[~near] = far + np.log(rest)
    return result


def _log_expm1(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        small = np.log(np.expm1(np.minimum(x, 30.0)))
    return np.where(x < 30, small, x + np.log1p(-np.exp(-np.maximum(x, 30.0))))


def _log_tail(scale: Array, after: int, n: int) -> Array:
    """Return the log of an upper bound on the sum over after < j <= n of e^(scale/j) - 1."""
    low, high = after + 0.5, n + 0.5
    crude = math.log(n - after) + _log_expm1(scale / (after + 1))
    with np.errstate(all="ignore"):
        if_small = scale * math.log(high / low) * (1 + scale / low)  # e^x - 1 <= x + x^2, x <= 1
        parts = [x * np.expm1(scale / x) - scale * expi(scale / x) for x in (high, low)]
        exact = np.where(scale / low < 1e-6, if_small, parts[0] - parts[1])
        fine = np.where(np.isfinite(exact) & (exact > 0), np.log(exact), np.inf)
    return np.minimum(crude, fine)
