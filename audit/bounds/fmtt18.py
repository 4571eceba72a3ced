"""Feldman, Mironov, Talwar and Thakurta (2018), "Privacy Amplification by Iteration".

The paper's update is the package's with b = 1: one record a step. Its 2L is the sensitivity of the
differing record, S = `NoisySGD.sensitivity`: 2L for replace-one, L for zero-out.

Stop-PNSGD releases the iterate after T steps, with T uniform on 1..n and hidden. A record after T
is not used; otherwise Theorem 23 bounds the run of T steps.

For the statements in (epsilon, delta) the paper gives the noise for a target; here the claimed
epsilon follows from the mechanism's noise. The classical calibration of the Gaussian mechanism is
proven for epsilon < 1 and false "for every epsilon", and with it Lemma 27, Theorems 29 and 30 and
Corollary 34. The corrected entries convert the Gaussian pair exactly.
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
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import RenyiCurve
from audit.curves.tails import TailCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

# ------------------------------------------------------------------------------- Renyi divergences


_EXACT_TERMS = 512  # leading terms of a sum over n that are added exactly


def one_step(mechanism: NoisySGD) -> float:
    """Return S/sigma, the distance of one step's two Gaussians in units of the noise."""
    return mechanism.sensitivity / mechanism.noise_std


def _steps_from(mechanism: NoisySGD, index: int | None) -> int:
    """Return n + 1 - t for record t, counted from 1: by default the last, least protected one."""
    return 1 if index is None else mechanism.dataset_size + 1 - checked_index(mechanism, index)


@bound("fmtt18.theorem_1")
def theorem_1(mechanism: NoisySGD, *, distance: float | None = None) -> PrivacyCurve:
    """Claim of the introduction for two starts (Theorem 1, informal); the distance lacks a square.

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

    Equality for identity maps wherever z_t >= 0 does not bind.

    shifts, allocations: As for ``at22.proposition_2_17``.
    """
    return original_amplification(mechanism, shifts, allocations)


@bound("fmtt18.theorem_23")
def theorem_23(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """One pass over the records (Theorem 23).

    index: Record t, counted from 1. Default: n, the least protected record.
    """
    return RenyiCurve.linear(one_step(mechanism) ** 2 / (2 * _steps_from(mechanism, index)))


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
    """Stop-PNSGD as printed (Theorem 26): its proof bounds the harmonic number H_n by ln n."""
    return _stop_curve(mechanism, math.log(mechanism.dataset_size))


@bound("fmtt18.theorem_26_corrected")
def theorem_26_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """Stop-PNSGD with H_n in place of ln n, for the orders as printed."""
    return _stop_curve(mechanism, harmonic(mechanism.dataset_size))


@bound("fmtt18.theorem_26_sharper")
def theorem_26_sharper(mechanism: NoisySGD) -> PrivacyCurve:
    """Stop-PNSGD without Lemma 25, for every sigma and order: each stopped run by Theorem 23.

    Terms beyond 512 are summed by an integral that is not below them (the summand is convex in j).
    """
    n, half = mechanism.dataset_size, one_step(mechanism) ** 2 / 2
    terms = min(n, _EXACT_TERMS)
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


# ------------------------------------------------------------------------------- epsilon and delta


@bound("fmtt18.lemma_27")
def lemma_27(mechanism: NoisySGD) -> PrivacyCurve:
    """Local privacy of one step as printed (Lemma 27).

    The DP part is claimed for every epsilon and delta, but holds only below 1. A record is used in
    one step, and what follows is post-processing, so the claim holds for every release.
    """
    return _classical(one_step(mechanism))


def _classical(mu: float, limit: float = math.inf) -> TailCurve:
    """Return epsilon = mu sqrt(2 ln(1.25/delta)), with the Gaussian Renyi divergences."""
    return TailCurve.gaussian(mu * math.sqrt(2), factor=1.25, limit=limit, rho=mu**2 / 2)


@bound("fmtt18.lemma_27_corrected")
def lemma_27_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """Local privacy of one step, converted exactly: two Gaussians at distance S/sigma."""
    return GaussianCurve(one_step(mechanism))


@bound("fmtt18.theorem_30")
def theorem_30(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Per-person privacy of Skip-PNSGD as printed (Theorem 30).

    index: Record t, counted from 1. Default: n, the least protected record.
    """
    return _classical(one_step(mechanism) / math.sqrt(_steps_from(mechanism, index)))


@bound("fmtt18.theorem_30_corrected")
def theorem_30_corrected(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Per-person privacy of Skip-PNSGD, converted exactly; options as in `theorem_30`.

    Amplification by iteration holds for tradeoff functions too (Bok, Su and Altschuler 2024,
    Theorem 3.3), and a privacy profile is convex in the pair, which settles the random skip.
    """
    return GaussianCurve(one_step(mechanism) / math.sqrt(_steps_from(mechanism, index)))


def _public(mechanism: NoisySGD, public: int) -> int:
    validate.integer(0, public=public)
    if public >= mechanism.dataset_size:
        raise ValueError(
            f"public must be below dataset_size ({mechanism.dataset_size}), got {public!r}"
        )
    return public


@bound("fmtt18.corollary_31")
def corollary_31(mechanism: NoisySGD, *, public: int = 0) -> PrivacyCurve:
    """Skip-PNSGD that ends with public records, as printed (Corollary 31).

    For sigma the paper has 2L sqrt(ln(1.25/delta))/m/epsilon, where m should be under the root and
    a 2 is missing.

    public: Number m of public records, 0 to n - 1. For 0 nothing is claimed, and epsilon is
        infinite.
    """
    m = _public(mechanism, public)
    scale = one_step(mechanism) / m if m else math.inf
    return TailCurve.gaussian(scale, factor=1.25)


@bound("fmtt18.corollary_31_corrected")
def corollary_31_corrected(mechanism: NoisySGD, *, public: int = 0) -> PrivacyCurve:
    """Corollary 31 for epsilons up to 1; options as in `corollary_31`."""
    m = _public(mechanism, public)
    scale = one_step(mechanism) * math.sqrt(2 / m) if m else math.inf
    return TailCurve.gaussian(scale, factor=1.25, limit=1.0)


def _tasks(mechanism: NoisySGD, tasks: int, mean_steps: float) -> TailCurve:
    """Return epsilon = 2 S sqrt(q ln(1/delta))/sigma < 1, q = max{2 k mean/n, 2 ln(1/delta)}."""
    validate.integer(1, tasks=tasks)
    scale, least = 2 * one_step(mechanism), 2 * tasks * mean_steps / mechanism.dataset_size

    def epsilon_at(delta: Array) -> Array:
        log = -np.log(np.minimum(delta, 0.5))  # what holds at 1/2 holds above
        return np.asarray(scale * np.sqrt(np.maximum(least, 2 * log) * log))

    def delta_at(epsilon: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            square = np.square(np.minimum(epsilon / scale, 1e100))
            by_tasks = square / least if least > 0 else np.full_like(square, np.inf)
        claimed = np.exp(-np.minimum(by_tasks, np.sqrt(square / 2)))
        return np.where(claimed <= 0.5, claimed, 1.0)

    return TailCurve(epsilon_at, delta_at, limit=1.0)


@bound("fmtt18.theorem_32")
def theorem_32(mechanism: NoisySGD, *, tasks: int = 1) -> PrivacyCurve:
    """K tasks by Stop-PNSGD on one dataset, as printed (Theorem 32).

    For delta up to 1/2. Refuted through the ln n of Theorem 26.

    tasks: Number k of tasks, all of whose outputs are released.
    """
    return _tasks(mechanism, tasks, math.log(mechanism.dataset_size))


@bound("fmtt18.theorem_32_corrected")
def theorem_32_corrected(mechanism: NoisySGD, *, tasks: int = 1) -> PrivacyCurve:
    """K tasks by Stop-PNSGD with H_n for ln n; options as in `theorem_32`."""
    return _tasks(mechanism, tasks, harmonic(mechanism.dataset_size))
