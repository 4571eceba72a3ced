"""Bound `own.modulus`: shifts that couple two runs whose updates have any modulus of continuity.

The updates satisfy |phi(x) - phi(y)| <= w(|x - y|), with w(0) = 0 and w nondecreasing; w may jump
at 0. By Theorem 9 of "Our own theorems" in the documentation, shifts x_i >= 0 for which

    z_i = min(max(w_i(z_(i-1)) + v_i - x_i, 0), D)

ends with 0 give the tradeoff function G(mu), mu^2 = sum of x_i^2/s^2. Whatever shifts are found
(`audit.bounds.own.modulus_shifts`), the distances are computed again, rounded upward, and the last
shift takes what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.bounds.assumptions import (
    CONTRACTIVE_STEPS,
    CONVEX,
    ROUNDING,
    UNCLIPPED,
    Assumption,
    constant_step_size,
)
from audit.bounds.own.parallel_moves import least_mu
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD

_HUGE = 300.0  # logarithm


@dataclass(frozen=True)
class Modulus:
    """Modulus w(z) = min(factor z, z + jump, z + scale z^order, sqrt(z^2 + square)), w(0) = 0.

    factor, jump, scale, square: Nonnegative numbers; infinite where a part is not known.
    order: Hoelder order, in (0, 1].

    Examples
    --------
    >>> Modulus(square=9.0)(4.0)
    5.0
    >>> Modulus(factor=1.5, jump=1.0)(0.0)
    0.0
    """

    factor: float = math.inf
    jump: float = math.inf
    scale: float = math.inf
    square: float = math.inf
    order: float = 1.0

    @property
    def parts(self) -> tuple[float, float, float, float, float]:
        """The numbers, in the order of the fields."""
        return (self.factor, self.jump, self.scale, self.square, self.order)

    @property
    def known(self) -> bool:
        """True if w is finite."""
        return min(self.factor, self.jump, self.scale, self.square) < math.inf

    def __call__(self, z: float) -> float:
        """Return w(z)."""
        if z <= 0:
            return 0.0
        least = min(self.factor * z, z + self.jump, math.sqrt(z * z + self.square))
        return min(least, z + self.scale * z**self.order) if self.scale < math.inf else least


def whole_gradient(mechanism: NoisySGD) -> float:
    """Return a bound on a record's gradient with its regulariser; infinite if there is none.

    A regulariser, which the Lipschitz constant leaves out, is assumed for strongly convex losses
    only.
    """
    m = mechanism
    bound = m.gradient_bound if m.strong_convexity == 0 else m.clip_norm
    return math.inf if bound is None else bound


def modulus_of(mechanism: NoisySGD, share: float = 1.0) -> Modulus:
    """Return the modulus of the update that a share of a batch makes."""
    m = mechanism
    if share == 0:
        return Modulus(1.0)
    eta = m.constant_step_size * share
    largest = 2 * whole_gradient(m)
    convex = m.convex and UNCLIPPED.holds(m)
    factor = scale = square = math.inf
    order = 1.0
    if m.smoothness is not None:
        factor = 1 + eta * m.smoothness
        if convex:
            factor = max(abs(1 - eta * m.strong_convexity), abs(1 - eta * m.smoothness))
            if CONTRACTIVE_STEPS.holds(m):
                factor = min(factor, 1.0)
    hoelder = [(m.smoothness, 1.0)] if m.smoothness is not None else []
    if m.holder is not None:
        hoelder.append(m.holder)
        if m.holder[1] > 0:
            scale, order = eta * m.holder[0], m.holder[1]
        else:
            largest = min(largest, m.holder[0])
    if convex:
        square = min([(eta * largest) ** 2, *(_excess(eta, largest, *pair) for pair in hoelder)])
    return Modulus(factor, eta * largest, scale, square * (1 + ROUNDING), order)


def _excess(eta: float, largest: float, constant: float, order: float) -> float:
    """Return the largest eta^2 u^2 - 4 eta p/(1+p) H^(-1/p) u^(1+1/p) over u <= ``largest``."""
    if constant == 0:
        return 0.0
    if order == 1:
        surplus = 1 - 2 / (eta * constant) + 4e-16
        return (eta * largest) ** 2 * surplus if surplus > 0 else 0.0
    # logarithm of the u that is best without a limit
    top = (order * math.log(eta / 2) + math.log(constant)) / (1 - order)
    size = min(math.log(largest), top)
    if size > _HUGE:
        return math.inf
    lost = 0.0
    if order > 0:
        lost = 2 * order / (1 + order) * math.exp((size - top) * (1 / order - 1))
    most = eta**2 * math.exp(2 * size) * (1 - lost)
    return float(most * (1 + ROUNDING / (1 - order)))


MODULUS = Assumption(
    "a bound on how far an update takes two points apart: smooth losses, Hoelder gradients or "
    "bounded gradients without a regulariser",
    lambda m: constant_step_size(m) and modulus_of(m).known,
    lambda m: (
        f"smoothness={m.smoothness!r}, holder={m.holder!r}, lipschitz={m.lipschitz!r}, "
        f"clip_norm={m.clip_norm!r} and strong_convexity={m.strong_convexity!r}"
    ),
)


@bound("own.modulus", modulus=MODULUS)
def modulus(mechanism: NoisySGD) -> PrivacyCurve:
    """Return G(mu) with a small mu of shifts for the modulus of the mechanism's updates.

    Losses may be non-smooth, have Hoelder gradients, be smooth with any step size, or have clipped
    gradients, convex or not. For convex smooth losses and eta <= 2/M it is `own.parallel_moves`.
    """
    if all(one.holds(mechanism) for one in (CONVEX, UNCLIPPED, CONTRACTIVE_STEPS)):
        return GaussianCurve(least_mu(WorstRun.of(mechanism)))
    from audit.bounds.own.modulus_shifts import shifts_curve  # compiled loops are slow to import

    return shifts_curve(mechanism)
