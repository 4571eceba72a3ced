"""Feldman, Mironov, Talwar and Thakurta (2018): the statements in (epsilon, delta).

The paper gives the noise for a target; here the claimed epsilon follows from the mechanism's noise.
The classical calibration of the Gaussian mechanism is proven for epsilon < 1 and false "for every
epsilon", and with it Lemma 27, Theorems 29 and 30 and Corollary 34. The corrected entries convert
the Gaussian pair exactly. S is the sensitivity: 2L for replace-one, L for zero-out.
"""

from __future__ import annotations

import math

import numpy as np

from audit import validate
from audit.bounds.fmtt18.renyi import harmonic, index_or_last, one_step
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.tails import TailCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array


@bound("fmtt18.lemma_27")
def lemma_27(mechanism: NoisySGD) -> PrivacyCurve:
    """Local privacy of one step as printed (Lemma 27): alpha S^2/(2 sigma^2), and a DP part.

    The DP part, S sqrt(2 ln(1.25/delta))/sigma, is claimed for every epsilon and delta, but holds
    only below 1. A record is used in one step, and what follows is post-processing, so the claim
    holds for every release.
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
    left = mechanism.dataset_size + 1 - index_or_last(mechanism, index)
    return _classical(one_step(mechanism) / math.sqrt(left))


@bound("fmtt18.theorem_30_corrected")
def theorem_30_corrected(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Per-person privacy of Skip-PNSGD, exactly: two Gaussians at S/(sigma sqrt(n - t + 1)).

    Amplification by iteration holds for tradeoff functions too (Bok, Su and Altschuler 2024,
    Theorem 3.3, with the shifts of Theorem 23), and a privacy profile is convex in the pair, which
    settles the random skip. Options as in `theorem_30`.
    """
    left = mechanism.dataset_size + 1 - index_or_last(mechanism, index)
    return GaussianCurve(one_step(mechanism) / math.sqrt(left))


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
    """Skip-PNSGD that ends with m public records; epsilons above 1 are not claimed.

    Options as in `corollary_31`.
    """
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
