"""Liang et al. (2026): sampled batches on a bounded domain, without convexity.

The formulas are those of the authors' code for their Figure 1, which names them Theorem 3.4, and
agree with the orders of magnitude in a summary of the paper; its text could not be read. The
paper's C is the bound on a record's gradient and D the diameter of the domain. (A summary calls D
the radius, which would make the claims larger where D enters; the first term has no D.)
"""

from __future__ import annotations

import math

from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD


def composed_rate(mechanism: NoisySGD) -> float:
    """Return the first term of Theorem 3.4 over alpha: 2 C^2 T/(n b sigma^2)."""
    return mechanism.steps * mechanism.sampling_rate / (2 * mechanism.noise_multiplier**2)


def saturated_rate(mechanism: NoisySGD) -> float:
    """Return the second term of Theorem 3.4 over alpha, at the best split of the noise.

    The least value of p/x + q/(1 - x) over x in (0, 1) is (sqrt(p) + sqrt(q))^2.
    """
    assert mechanism.smoothness is not None  # an assumption of the entries
    assert mechanism.diameter is not None
    growth = 1 + mechanism.constant_step_size * mechanism.smoothness
    apart = growth * mechanism.diameter / mechanism.step_std
    record = math.sqrt(mechanism.sampling_rate) / mechanism.noise_multiplier
    return (apart + record) ** 2 / 2


@bound("liang26.theorem_3_4")
def theorem_3_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Claim a convergent Renyi divergence for smooth losses and sampled batches (Theorem 3.4).

    The first term is the divergence of one step that holds the record, times the probability b/n
    that it does. Renyi divergences of order above 1 are not convex, so averaging them over the
    batches is no bound. At one step with n = 8, b = 2, C = 2, sigma = 4 and order 16 it claims .5;
    a record at +C against -C, with the others at -C, has .60823, and at order 32 2.5703 against 1.
    """
    return RenyiCurve.linear(min(composed_rate(mechanism), saturated_rate(mechanism)))


@bound("liang26.theorem_3_4_saturated")
def theorem_3_4_saturated(mechanism: NoisySGD) -> PrivacyCurve:
    r"""Claim the second term of Theorem 3.4 alone, for any number of steps.

    The share of the record is averaged over the batches here, too. With n = 50, b = 5, C = 1,
    eta = .1, sigma = .04, M = 1 and D = .012, the others at -C push into the wall in every step; a
    batch that holds the record pushes less, and order 2 has 80.33 after 5 or 20 steps against the
    41.76 claimed.
    """
    return RenyiCurve.linear(saturated_rate(mechanism))


@bound("liang26.theorem_3_4_corrected")
def theorem_3_4_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the domain, for the batch that tells most.

    Let both runs draw the same indices. Given the last batch and two iterates of the domain, the
    noiseless updates are at most so far apart: clipping is a projection onto a ball, so clipped
    gradients of an M-smooth loss are M-Lipschitz, too, and one record of the batch differs by at
    most S. Tradeoff functions are jointly convex, so the bound holds for the mixture over batches
    and iterates.
    """
    assert mechanism.smoothness is not None  # an assumption of the entry
    assert mechanism.diameter is not None
    growth = 1 + mechanism.constant_step_size * mechanism.smoothness
    apart = growth * mechanism.diameter / mechanism.step_std
    return GaussianCurve(apart + 1 / mechanism.noise_multiplier)
