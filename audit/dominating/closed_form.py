"""Sampled Gaussian steps in closed form: one step exactly, several from both sides.

Let P = (1-q) Q + q P', q > 0. For e^i = 1 + (e^epsilon - 1)/q and every event S

    P(S) - e^epsilon Q(S) = q (P'(S) - e^i Q(S)),
    Q(S) - e^epsilon P(S) = q e^(epsilon + j) (Q(S) - e^-j P'(S)),   e^j = 1 + (e^-epsilon - 1)/q,

by inserting P (the first is Balle, Barthe and Gaboardi 2018, Theorem 2). So the deltas of (P, Q)
follow from those of (P', Q). In the first order delta is 1 - e^epsilon if e^i <= 0, and in the
second one it is 0 if e^j <= 0: the largest loss is L = -log(1-q).

One step has Q = N(0, 1) and P' = N(mu, 1). T steps with rates q_t have Q = N(0, I), and the same
form with L the sum of all L_t: P' is the law given that some step is sampled, the mixture over the
nonempty sets A of sampled steps of laws with means mu_t on A. Each is at most as far from Q as
N(|mu|, 1) from N(0, 1), with |mu|^2 the sum of all mu_t^2, so by convexity the delta of (P', Q) is
at most that of a Gaussian mechanism. The T steps are at least as far apart as any one of them (data
processing).

If the steps are two-sided, P = (1-q) R + q P' and Q = (1-q) R + q Q' with P' and Q' paired by sets,
and for epsilon >= 0 delta(epsilon) is at most q times that of (P', Q'). The same holds for batches
without replacement, coupled to differ in one place, whoever the others are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NoReturn

from audit.curves import Order
from audit.curves.brackets import TINY, Bracket, broken
from audit.numerics.normal import log_gaussian_delta_bracket
from audit.numerics.roots import certified_crossing

_UNIT = 2.0**-53


class ClosedForm(ABC):
    """Bounds from both sides on the privacy of a pair, with every rounding counted."""

    @abstractmethod
    def log_delta(self, epsilon: float, order: Order, side: int) -> float:
        """Return the lower (0) or upper (1) end of log delta at ``epsilon`` >= 0; -inf for 0."""

    @abstractmethod
    def largest(self, order: Order) -> float:
        """Return an upper bound on the largest loss."""

    def delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        """Return a bracket of delta at any ``epsilon``."""
        if epsilon < 0:
            # P(S) - e^eps Q(S) = 1 - e^eps + e^eps (Q - e^-eps P)(complement of S)
            low, high = self.delta_bracket(-epsilon, order.other)
            rest, scale = -math.expm1(epsilon), math.exp(epsilon)
            low, high = rest + scale * low, rest + scale * high
            return max(low * (1 - 8 * _UNIT), 0.0), min(high * (1 + 8 * _UNIT), 1.0)
        low, high = (self.log_delta(epsilon, order, side) for side in (0, 1))
        if math.isinf(high):
            return 0.0, 0.0
        return max(math.exp(low) - TINY, 0.0), min(math.exp(high) + TINY, 1.0)

    @lru_cache(maxsize=128)  # noqa: B019 grids of one curve ask again; forms are small
    def epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        """Return a bracket of the least epsilon >= 0 at ``delta`` > 0."""
        goal, start = math.log(delta), min(1.0, self.largest(order))

        def end(side: int) -> float:
            return certified_crossing(
                lambda epsilon: max(self.log_delta(epsilon, order, side) - goal, -1e6),
                start,
                above=side == 1,
            )

        return end(0), end(1)


@dataclass(frozen=True)
class SampledGaussian(ClosedForm):
    """(1-q) N(0, 1) + q N(mu, 1) against N(0, 1).

    mu: Distance of the means, a quotient and a root or a sum of squares: within eight units.
    largest_loss: L = -log(1 - q), the largest loss of the second law; infinite for q = 1.
    error: Bound on the relative error of L.
    """

    mu: float
    largest_loss: float
    error: float = 8 * _UNIT

    @cached_property
    def rate(self) -> float:
        """Rate q: with the error of L, at most, and two units."""
        return -math.expm1(-self.largest_loss)

    @cached_property
    def log_rate(self) -> float:
        """Log of q: with the error of L, and units of itself and of 1."""
        loss = self.largest_loss
        return math.log(self.rate) if loss < 1 else math.log1p(-math.exp(-loss))

    def log_delta(self, epsilon: float, order: Order, side: int) -> float:
        """Return the lower (0) or upper (1) end of log delta at ``epsilon`` >= 0."""
        factor = self.log_rate
        if order is Order.FORWARD:
            inner = self._inner(epsilon)[1 - side]
        else:
            outer = self._inner(-epsilon)[side]
            factor, inner = factor + epsilon + outer, -outer
        if math.isinf(inner):
            return -math.inf
        sign = 2 * side - 1
        # delta rises with mu
        value = log_gaussian_delta_bracket(inner, self.mu * (1 + sign * 8 * _UNIT))[side]
        # a sum of at most four terms, and the error of the log of q
        size = 4 + abs(epsilon) + 3 * abs(self.log_rate) + abs(inner) + abs(value)
        found = factor + value + sign * (self.error + 4 * _UNIT * size)
        return min(found, 0.0) if side else found

    def _inner(self, epsilon: float) -> Bracket:
        """Return a bracket of log(1 + (e^epsilon - 1)/q); -inf if there is no logarithm."""
        loss, log_rate = self.largest_loss, self.log_rate
        if math.isinf(loss):
            return epsilon, epsilon
        if epsilon > 1:
            value = epsilon - log_rate + math.log1p(-math.exp(-epsilon - loss))
            return _around(value, self.error + 8 * _UNIT * (epsilon + abs(log_rate) + 1))
        grown = math.expm1(epsilon) / self.rate
        if grown > -0.5:
            # log(1 + g) moves by 2 |log(1 + g)| for a relative error of g, at most
            value = math.log1p(grown)
            return _around(value, (16 * _UNIT + 2 * self.error) * abs(value))
        # near the least loss, -L, what counts is the distance
        distance = epsilon + loss
        error = self.error * loss + 4 * _UNIT * (loss - epsilon)
        ends = []
        for sign in (-1, 1):
            least = distance + sign * error
            if least <= 0:
                ends.append(-math.inf)
                continue
            # log(e^least - 1)
            value = math.log(-math.expm1(-least)) + least - loss - log_rate
            slip = error + self.error + 8 * _UNIT * (1 + abs(value) + loss + abs(log_rate))
            ends.append(value + sign * slip)
        return ends[0], ends[1]

    def largest(self, order: Order) -> float:
        """Return an upper bound on the largest loss."""
        return math.inf if order is Order.FORWARD else self.largest_loss * (1 + self.error)


@dataclass(frozen=True)
class DeltaLimits(ClosedForm):
    """Proven bounds on the deltas of several steps, with which brackets are compared.

    merged: From which delta of all steps follows an upper bound.
    single: Kinds of steps whose delta is a lower bound; none if they are two-sided.
    two_sided: Whether some steps are two-sided.
    subject: The steps, for messages.
    """

    merged: SampledGaussian
    single: tuple[SampledGaussian, ...]
    two_sided: bool
    subject: str

    @classmethod
    def unsampled(cls, mu: float, subject: str) -> DeltaLimits:
        """Return the limits of steps that are at most a Gaussian mechanism, given the batches."""
        return cls(SampledGaussian(mu, math.inf), (), False, subject)

    @classmethod
    def of(cls, parts: Sequence[DeltaLimits]) -> DeltaLimits:
        """Return the limits of independent runs together."""
        merged = SampledGaussian(
            math.hypot(*(part.merged.mu for part in parts)),
            math.fsum(part.merged.largest_loss for part in parts),
            max(part.merged.error for part in parts) + 2 * _UNIT,
        )
        single = tuple(one for part in parts for one in part.single)
        subject = " and ".join(part.subject for part in parts)
        return cls(merged, single, any(part.two_sided for part in parts), subject)

    def log_delta(self, epsilon: float, order: Order, side: int) -> float:
        """Return the lower (0) or upper (1) bound on log delta at ``epsilon`` >= 0."""
        if not side:
            found = (one.log_delta(epsilon, order, 0) for one in self.single)
            return max(found, default=-math.inf)
        if self.two_sided:
            whole = SampledGaussian(self.merged.mu, math.inf)
            return self.merged.log_rate + whole.log_delta(epsilon, order, 1) + 8 * _UNIT
        return self.merged.log_delta(epsilon, order, 1)

    def largest(self, order: Order) -> float:
        """Return an upper bound on the largest loss."""
        return math.inf if self.two_sided else self.merged.largest(order)

    def check_epsilon(self, delta: float, bracket: Bracket, order: Order) -> None:
        """Raise `BracketError` if a bracket of epsilon at ``delta`` contradicts the bounds."""
        low, high = bracket
        most = self.largest(order)
        if delta > 0 and low > 0:
            # epsilon is at least low only if delta there is at least this one
            inside = math.isfinite(low) and low <= most
            if not inside or self.log_delta(low, order, 1) < math.log(delta):
                most = self.epsilon_bracket(delta, order)[1]
        least = 0.0
        if math.isfinite(high) and self.single:
            goal = math.log(delta) if delta else -math.inf
            if self.log_delta(high, order, 0) > goal:
                least = self.epsilon_bracket(delta, order)[0] if delta else self.largest(order)
        if low > most or high < least:
            self._fail(f"epsilon at delta {delta:g}", bracket, order, (least, most))

    def check_delta(self, epsilon: float, bracket: Bracket, order: Order) -> None:
        """Raise `BracketError` if a bracket of delta at ``epsilon`` contradicts the bounds."""
        least, most = self.delta_bracket(epsilon, order)
        if bracket[0] > most or bracket[1] < least:
            self._fail(f"delta at epsilon {epsilon:g}", bracket, order, (least, most))

    def _fail(self, quantity: str, bracket: Bracket, order: Order, proven: Bracket) -> NoReturn:
        requirement = f"ends on the right sides of the proven {proven[0]!r} and {proven[1]!r}"
        raise broken(f"{quantity} of {self.subject}", bracket, order, requirement)


def _around(value: float, error: float) -> Bracket:
    return value - error, value + error
