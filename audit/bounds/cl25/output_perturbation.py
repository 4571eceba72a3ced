"""Chien and Li (2025), Figure 1: output perturbation, which considers only the last step."""

from __future__ import annotations

import math

from audit.bounds.assumptions import (
    HOLDER,
    SMOOTH,
    NotApplicable,
)
from audit.bounds.cl25.distance_tracking import (
    clip_speed,
    domain,
    excess,
    holder_modulus,
    step_shift,
)
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD


@bound("cl25.output_perturbation")
def output_perturbation(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the diameter: alpha D^2/(2 sigma^2) (Figure 1).

    It is the Gaussian mechanism whose sensitivity is D. As a bound on update (1) it is false: the
    last noiseless update differs too, and the iterates before the noise are up to c D + 2 eta K/n
    apart. With D = 2 eta K/n = 1, sigma = .3, T = 20 and drifts of +-1/2 the divergence of order 2
    is 12.88954 against the 11.111 claimed.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    return RenyiCurve.linear((mechanism.diameter / mechanism.step_std) ** 2 / 2)


def _last_distance(mechanism: NoisySGD) -> float:
    """Return a bound on the distance of two iterates before the last step's noise."""
    shift, widest = step_shift(mechanism, mechanism.dataset_size), domain(mechanism)
    reach = [widest + clip_speed(mechanism)]
    if SMOOTH.holds(mechanism):
        reach.append(widest + excess(mechanism) * widest + shift)
    if HOLDER.holds(mechanism):
        reach.append(float(holder_modulus(mechanism)(widest)) + shift)
    return min(reach)


@bound("cl25.output_perturbation_corrected")
def output_perturbation_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """G(min(c D + s, D + 2 eta K)/sigma) with s = 2 eta K/n, from the last step only.

    Given two iterates of the domain before the last step, in any coupling, the last iterates are
    projections of normal laws of equal variance whose means are at most so far apart, and tradeoff
    functions are jointly convex. c is that of Theorem 3.1; with Hoelder continuous gradients
    g(D) takes the place of c D.
    """
    distance = _last_distance(mechanism)
    if math.isinf(distance):
        raise NotApplicable(
            "cl25.output_perturbation_corrected needs steps whose effect on distances is bounded "
            f"(smoothness, or clipping), got smoothness={mechanism.smoothness}"
        )
    return GaussianCurve(distance / mechanism.step_std)
