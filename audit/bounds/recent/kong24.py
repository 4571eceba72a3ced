"""Kong and Ribero (2024): the last step of cyclic batches with weakly convex losses."""

from __future__ import annotations

import math

from audit.bounds.assumptions import ROUNDING, Assumption
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD


def weak_convexity(mechanism: NoisySGD) -> float:
    """Return the m for which the losses plus (m/2) |x|^2 are convex."""
    assert mechanism.smoothness is not None  # an assumption of the entry
    return 0.0 if mechanism.convex else mechanism.smoothness


SHORT_STEPS = Assumption(
    "eta <= 1/(M + m) with M the smoothness and m the weak convexity",
    lambda m: (
        m.smoothness is not None
        and m.constant_step_size * (m.smoothness + weak_convexity(m)) <= 1 + ROUNDING
    ),
    lambda m: f"step_size={m.step_size!r}, smoothness={m.smoothness!r} and convex={m.convex}",
)


@bound("kong24.theorem_2_2", short_steps=SHORT_STEPS)
def theorem_2_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the domain (Theorem 2.2).

    It holds for steps of at most 1/(M+m). The Hessian of a batch's loss has eigenvalues h in [-m,
    M], and max((1 + eta m)^2, (1 - eta M)^2) <= 1 + 2 eta m + eta m^2/(M+m) = C^2. So two iterates
    of the domain are at most C D + eta S/b apart after the last noiseless update, and the normal
    noise of that step hides such a distance, given any values of the two iterates. The Renyi
    divergence of mixtures with shared weights is at most the largest of the components'.

    Only the abstract and two restatements of the paper could be read. Both restatements give this
    formula; the range of the step sizes is that of the proof above.
    """
    assert mechanism.smoothness is not None  # an assumption of the entry
    assert mechanism.diameter is not None
    eta, weak = mechanism.constant_step_size, weak_convexity(mechanism)
    growth = math.sqrt(1 + 2 * eta * weak * (1 + weak / (2 * (mechanism.smoothness + weak))))
    moved = eta * mechanism.sensitivity / mechanism.batch_size
    apart = mechanism.diameter * growth + moved
    return RenyiCurve.linear((apart / mechanism.step_std) ** 2 / 2)
