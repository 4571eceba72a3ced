"""Boninsegna (paper 003), sections IV and V and the appendix: accounting in Renyi divergences.

The moments accountant, composition, and two published bounds on a sampled step. They speak about
the release of every iterate and hold for the last one by post-processing. Amplification by Poisson
sampling (IV, A.1) compares a record with its absence, which is zero-out here. Theorem IV.2 has no
constants and is no bound.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from audit.bounds.assumptions import LAST_ITERATE, WITHOUT_REPLACEMENT
from audit.bounds.bsa24_shared import family_sensitivity
from audit.bounds.costly import CostlyRenyiCurve
from audit.bounds.registry import Entry, Status
from audit.bounds.sampled_gaussian import sampled_gaussian_renyi
from audit.bounds.survey_shared import (
    FIXED_BATCHES,
    FULL_OR_POISSON,
    LARGE_NOISE,
    LOW_RATE,
    POISSON_ZERO_OUT,
    cite,
    noise_multiplier,
)
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD

Array = NDArray[np.float64]

_LARGEST_ORDER = 10_000  # to which subsampled moments are summed up


def _sampled_divergence(alpha: Array, rate: float, noise: float, times: int) -> Array:
    return np.asarray(sampled_gaussian_renyi(alpha, rate, noise)) * times


def moments_accountant(mechanism: NoisySGD) -> PrivacyCurve:
    """Add up the log moments of the steps: the moments accountant (Theorem IV.1).

    The moments are those of the sampled Gaussian mechanism, the larger of both orders, at every
    real order. The curve converts to epsilon and delta at least as well as the theorem's tail
    bound, which is `tail_bound`.
    """
    noise, rate = noise_multiplier(mechanism), mechanism.sampling_rate
    if rate == 1:
        return RenyiCurve.linear(mechanism.steps / (2 * noise**2))
    divergence = functools.partial(
        _sampled_divergence, rate=rate, noise=noise, times=mechanism.steps
    )
    return CostlyRenyiCurve(divergence, search=(1e-4, 1e4), points=101, refinements=8)


def tail_bound(curve: PrivacyCurve, epsilon: float) -> float:
    """Return the delta of Theorem IV.1: the least exp(lambda (D_(lambda+1) - epsilon)).

    Over 601 values of lambda, spaced evenly on the logarithmic scale from 1e-4 to 1e4; at most 1.
    """
    moments = np.geomspace(1e-4, 1e4, 601)
    logs = moments * (np.asarray(curve.renyi(moments + 1)) - epsilon)
    return float(np.exp(np.minimum(np.min(logs), 0.0)))


def rdp_composition(mechanism: NoisySGD) -> PrivacyCurve:
    """Adaptive composition of Gaussian mechanisms (Propositions V.1, V.3 and V.4).

    D_alpha <= k alpha/(2 sigma^2) with k the number of steps that meet the record: all for full
    batches, at most ceil(T b/n) in a fixed cycle.
    """
    count = mechanism.dataset_size // mechanism.batch_size
    met = -(-mechanism.steps // count)
    return RenyiCurve.linear(met / (2 * noise_multiplier(mechanism) ** 2))


def _mtz19_divergence(alpha: Array, rate: float, noise: float, times: int) -> Array:
    log_noise = math.log(noise)
    gap = np.log1p(1 / (rate * (alpha - 1)))
    first = alpha <= noise**2 * gap / 2 - 2 * log_noise
    top = noise**2 * gap**2 / 2 - math.log(5) - 2 * log_noise
    second = alpha * (gap + np.log(rate * alpha) + 1 / (2 * noise**2)) <= top
    value = times * 2 * rate**2 * alpha / noise**2
    return np.where(first & second, value, np.inf)


def sampled_gaussian_mtz19(mechanism: NoisySGD) -> PrivacyCurve:
    """Poisson batches (Theorem A.1, of Mironov, Talwar and Zhang 2019): 2 q^2 alpha/sigma^2 a step.

    For q <= 1/5, sigma >= 4 and the orders alpha that the theorem allows; infinite at others.
    """
    divergence = functools.partial(
        _mtz19_divergence,
        rate=mechanism.sampling_rate,
        noise=noise_multiplier(mechanism),
        times=mechanism.steps,
    )
    return RenyiCurve(divergence)


@functools.lru_cache(maxsize=1 << 14)
def _wbk19_log_moment(order: int, rate: float, mu: float) -> float:
    """(order - 1) times the bound of Theorem 9 of Wang, Balle and Kasiviswanathan (2019)."""
    if order == 1:
        return 0.0
    j = np.arange(2, order + 1, dtype=np.float64)
    log_binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    logs = j * math.log(rate) + log_binomial + j * (j - 1) * mu**2 / 2 + math.log(2)
    # the term j = 2 may take 4 (e^D_2 - 1) instead of 2 e^D_2, with D_2 = mu^2
    small = math.log(4) + (math.log(math.expm1(mu**2) or 5e-324) if mu**2 < 1 else mu**2)
    logs[0] = min(logs[0], 2 * math.log(rate) + log_binomial[0] + small)
    return float(np.logaddexp(0.0, logsumexp(logs)))


def _wbk19_divergence(alpha: ArrayLike, rate: float, mu: float, times: int) -> Array:
    orders = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    unsampled = orders * mu**2 / 2
    result = unsampled.copy()
    if rate < 1:
        for place, order in enumerate(orders):
            if order <= _LARGEST_ORDER:
                low = math.floor(order)
                part = order - low
                # log moments are convex in the order
                moment = (1 - part) * _wbk19_log_moment(low, rate, mu)
                if part > 0:
                    moment += part * _wbk19_log_moment(low + 1, rate, mu)
                result[place] = min(moment / (order - 1), unsampled[place])
    return result * times


def subsampled_rdp_wbk19(mechanism: NoisySGD) -> PrivacyCurve:
    """Batches drawn without replacement (Theorem 9 of Wang, Balle and Kasiviswanathan 2019).

    For whole orders, with D_j = j mu^2/2 and mu = S/(b sigma), a step has 1/(alpha - 1) times

        log(1 + q^2 C(alpha, 2) min(4 (e^D_2 - 1), 2 e^D_2)
              + sum over j >= 3 of 2 q^j C(alpha, j) e^((j - 1) D_j)),

    for other orders the interpolated moment (their Corollary 10), and never more than without
    sampling, which also serves orders above 10^4. S is the sensitivity of the family, 2L in both
    relations: the differing record takes the place of another one.
    """
    divergence = functools.partial(
        _wbk19_divergence,
        rate=mechanism.sampling_rate,
        mu=family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std),
        times=mechanism.steps,
    )
    return CostlyRenyiCurve(divergence, search=(1e-3, 1e4), points=161, refinements=6)


ENTRIES = (
    Entry(
        id="survey.moments_accountant",
        cite=cite("Theorem IV.1"),
        statement=(
            "full or Poisson batches, moments accountant: alpha(lambda) = T lambda D_(lambda+1) "
            "of the sampled Gaussian, delta = min exp(alpha(lambda) - lambda eps)"
        ),
        assumptions=(FULL_OR_POISSON, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=moments_accountant,
    ),
    Entry(
        id="survey.rdp_composition",
        cite=cite("Propositions V.1 and V.4"),
        statement=(
            "fixed batches, Renyi: D_alpha <= k alpha/(2 sigma^2), k the number of steps that meet "
            "the record"
        ),
        assumptions=(FIXED_BATCHES, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=rdp_composition,
    ),
    Entry(
        id="survey.sampled_gaussian_mtz19",
        cite=cite("Theorem A.1, after Mironov, Talwar and Zhang (2019)"),
        statement=(
            "Poisson batches, q <= 1/5, sigma >= 4, Renyi: D_alpha <= 2 T q^2 alpha/sigma^2 for "
            "alpha <= sigma^2 L/2 - 2 log sigma and alpha <= (sigma^2 L^2/2 - log 5 - 2 log sigma)"
            "/(L + log(q alpha) + 1/(2 sigma^2)), L = log(1 + 1/(q (alpha - 1)))"
        ),
        assumptions=(POISSON_ZERO_OUT, LOW_RATE, LARGE_NOISE, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=sampled_gaussian_mtz19,
    ),
    Entry(
        id="survey.subsampled_rdp_wbk19",
        cite=cite("Section V.A, after Wang, Balle and Kasiviswanathan (2019), Theorem 9"),
        statement=(
            "batches drawn without replacement, Renyi, T times: log(1 + q^2 C(alpha,2) "
            "min(4(e^D_2 - 1), 2e^D_2) + sum_(j>=3) 2 q^j C(alpha,j) e^((j-1) D_j))/(alpha-1)"
        ),
        assumptions=(WITHOUT_REPLACEMENT, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=subsampled_rdp_wbk19,
    ),
)
