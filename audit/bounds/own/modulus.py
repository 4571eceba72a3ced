"""Bound `own.modulus`: shifts that couple two runs whose updates have any modulus of continuity.

The updates satisfy |phi(x) - phi(y)| <= w(|x - y|), with w(0) = 0 and w nondecreasing; w may jump
at 0. In a step that uses the record the two updates differ by at most v at every point.

Theorem. Let the runs be at most z_0 = d apart before the last k steps, and let x_1, ..., x_k >= 0
be such that

    z_i = min(max(w_i(z_(i-1)) + v_i - x_i, 0), D)

ends with z_k = 0. Then the tradeoff function of the last iterates is at least G(mu) with
mu^2 = sum of x_i^2/s^2.

Proof (after Bok, Su and Altschuler 2024, Theorem 3.3). Couple the runs before the last k steps such
that |X_0 - X'_0| <= d, and let Y_0 = X_0. If Y_(i-1) and X'_(i-1) are at most z_(i-1) apart,
phi_i(Y_(i-1)) and phi'_i(X'_(i-1)) are at most w_i(z_(i-1)) + v_i apart. So a vector xi of length
at most x_i, a function of these two points, brings the first to within max(w_i + v_i - x_i, 0) of
the second. Let Y_i = Pi(phi_i(Y_(i-1)) + xi + s Z'_i) with the noise Z'_i of X'_i. Projections do
not increase distances and D bounds all, so that |Y_i - X'_i| <= z_i; and Y_k = X'_k. Given the
point y before it, the step of X is the projection of N(phi_i(y), s^2 I), and that of Y the
projection of a mixture of N(phi_i(y) + xi, s^2 I) over xi, which is independent of Z'_i. With each
component the former has a tradeoff function of at least G(x_i/s), and so has the mixture, as
knowing xi can only help to tell them apart. Hence T(X_i, Y_i) is at least the composition of
T(X_(i-1), Y_(i-1)) with G(x_i/s), and T(X_0, Y_0) is the identity. QED

The shift is made, and paid for, before the projection. The conditions are the same with the
datasets exchanged, so both orders of a pair are covered.

Moduli, with eta the step size and K a bound on the gradient of a record:

- Convex losses. The mean gradient g of a batch is monotone, and
  |x - y - eta (g(x) - g(y))|^2 = |x - y|^2 - 2 eta <dg, x - y> + eta^2 |dg|^2 with |dg| <= 2K. So
  w(z) = sqrt(z^2 + h) with h = 4 eta^2 K^2. If gradients are Hoelder continuous with constant H and
  order p on the whole space (a thin domain alone would not suffice),
  <dg, x - y> >= 2p/(1 + p) H^(-1/p) |dg|^(1 + 1/p): minimise
  f(u) <= f(y) + <g(y), u - y> + H |u - y|^(1 + p)/(1 + p) less <g(x), u> over u, where
  f(u) - <g(x), u> is least at x, and add both orders. Then h is the maximum of
  eta^2 u^2 - 4 eta p/(1 + p) H^(-1/p) u^(1 + 1/p) over u <= 2K, which is finite for p < 1 without
  any K, and 4 eta^2 K^2 (1 - 2/(eta H)) for p = 1 and eta H > 2.
- Convex M-smooth losses: max(|1 - eta m|, |1 - eta M|) z, for every step size.
- Any losses, and clipped gradients: z + 2 eta K, z + eta H z^p and (1 + eta M) z. Clipping is a
  projection, which keeps Hoelder constants.

The least of those that hold is a modulus. For convex losses without smoothness the first cannot be
improved in two or more dimensions: the maximum of two affine functions whose gradients have length
K, are opposite, and are orthogonal to x - y, attains it. In a step with the record at most 2K is
replaced, and only a share (b - 1)/b of eta moves the others, so that w may be that of the smaller
step size. No step separates two iterates by more than 2 eta K.

The shifts. From d = 0 all uses of the record may be composed, z_i = 0, at v^2/s^2 each; where other
steps follow, v is shifted away over the cycle. Otherwise the distance grows until some step, is
shifted away until it is 0, and the uses of the record that remain are composed. Where z_i > 0, the
least sum satisfies x_i = x_(i+1) w'(z_i), so that the distance before the last shift determines all
others; it is searched. For w(z) = sqrt(z^2 + h) the positive part of w(z_(i-1)) + v_i - z_i is
convex in the z_i, so that there are no other minima. For w(z) = c z with c <= 1 the optimum is that
of `own.parallel_moves`, which is taken.

On full batches, as long as h/z and v are small, the distance grows by h/(2z) + v a step. The
cheapest shifts are twice that, so that from D they cost about

    mu^2 = (2 h log(D/sqrt(h)) + 4 v D)/s^2,   h/s^2 = 4 K^2/sigma^2,

however long the run is. Epsilon of convex losses that are not smooth stays bounded on a bounded
domain.

Rounding. Whatever shifts are found, the distances are computed again from d, rounded upward, and
the last shift takes what is left: the result is the cost of feasible shifts.
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
