"""Bok, Su and Altschuler (2024), section 5: Langevin Monte Carlo and exponential mechanisms.

Full-batch Noisy-SGD with F = (1/n) sum f_i is Langevin Monte Carlo for the potential beta F, with
inverse temperature beta = 2/(eta sigma^2) and step h = eta/beta: the paper's setting is n = 1 and
sigma = sqrt(2/eta), where beta = 1 and h = eta. Its L (Proposition 5.1, the Lipschitz constant of
F - F') is beta S/n here; its 2L of Corollary 5.4 is the same. As h falls at a fixed beta, the
stationary law becomes the exponential mechanism, of density proportional to exp(-beta F): that is
what ``release=EXPONENTIAL_MECHANISM`` means, and only beta, n and the losses matter for it.
"""

from __future__ import annotations

import math

from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.pure import PureCurve
from audit.mechanism import NoisySGD, Release


def inverse_temperature(mechanism: NoisySGD) -> float:
    """Return the inverse temperature, beta = 2/(eta sigma^2)."""
    return 2 / mechanism.constant_step_size / mechanism.noise_std / mechanism.noise_std


def _difference(mechanism: NoisySGD) -> float:
    """Return the Lipschitz constant of beta (F - F')."""
    return inverse_temperature(mechanism) * mechanism.sensitivity / mechanism.dataset_size


@bound("bsa24.proposition_5_1")
def proposition_5_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly log-concave targets, at any time (Proposition 5.1): the limit of Theorem 4.2."""
    m = inverse_temperature(mechanism) * mechanism.strong_convexity
    loss = mechanism.constant_step_size * mechanism.strong_convexity
    return GaussianCurve(math.sqrt((2 - loss) / 2 / m) * _difference(mechanism))


@bound("bsa24.corollary_5_2")
def corollary_5_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly log-concave targets in their limits (Corollary 5.2).

    The first statement, on the stationary law of Langevin Monte Carlo, for the last iterate, and
    the second for the exponential mechanism.
    """
    if mechanism.release is Release.LAST_ITERATE:
        return proposition_5_1(mechanism)
    m = inverse_temperature(mechanism) * mechanism.strong_convexity
    return GaussianCurve(_difference(mechanism) / math.sqrt(m))


@bound("bsa24.corollary_5_4")
def corollary_5_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Log-concave targets on a bounded domain (Corollary 5.4).

    The first statement for the exponential mechanism. The second, on the stationary law of
    projected Langevin Monte Carlo, also bounds every earlier iterate, because it is the limit of
    Theorem 4.3, and composition is better below the threshold of that theorem.

    The paper requires K to contain the unit ball. This is no restriction: scaling space by r
    preserves L D and eta L^2, and with them both sides.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    difference = _difference(mechanism)
    square = 2 * difference * mechanism.diameter
    if mechanism.release is Release.LAST_ITERATE:
        step = mechanism.constant_step_size / inverse_temperature(mechanism)
        square += step * difference**2 / 2
    return GaussianCurve(math.sqrt(square))


@bound("bsa24.mcsherry_talwar")
def mcsherry_talwar(mechanism: NoisySGD) -> PrivacyCurve:
    """Every exponential mechanism (section 5.2): beta (F - F') varies by at most beta S D/n."""
    assert mechanism.diameter is not None  # an assumption of the entry
    return PureCurve(_difference(mechanism) * mechanism.diameter)
