"""Bok, Su and Altschuler (2024), section 3: shifted interpolation with any shifts.

Lemmas 3.1 and 3.2 unroll one step of two processes; Theorem 3.3 composes the steps. All distances
are those of the iterate: a shift s = eta S/n, noise eta sigma.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit import validate
from audit.bounds.accounting.update import checked_tau, contraction_gap
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD
from audit.numerics.roots import last_integer


class _Crossing:
    """Cost of m steps that end an interpolation from a distance z.

    The least sum of squares of a_{t-m+1}, ..., a_t with z_t = 0, where z_k = c z_{k-1} + s - a_k,
    is taken at a_k = theta c^(t-k):

        (c^m z + s (1 + c + ... + c^(m-1)))^2 / (1 + c^2 + ... + c^(2(m-1))).

    For c <= 1 every z_k is then at least 0, which the theorem needs; for c > 1 if theta >= s.
    """

    def __init__(self, shift: float, gap: float) -> None:
        self.shift, self.gap = shift, gap
        self.rate = math.inf if gap == 1 else -math.log1p(-gap)  # log(1/c)

    def _sums(self, length: int) -> tuple[float, float, float]:
        """Return c^m and the sums of c^j and c^(2j), j < m; times c^-m, c^-m, c^-2m if c > 1."""
        if self.gap == 0:
            return 1.0, float(length), float(length)
        gap, rate = self.gap, self.rate
        if gap < 0:  # sums over i = 1..m of c^-i, and of c^-2i
            first = math.expm1(rate * length) / gap
            return 1.0, first, math.expm1(2 * rate * length) / (gap * (2 - gap))
        left = math.exp(-rate * length)
        total = -math.expm1(-rate * length) / gap
        return left, total, -math.expm1(-2 * rate * length) / (gap * (2 - gap))

    def distance(self, steps: int, diameter: float | None) -> float:
        """Return a bound on the distance of two processes with a common start after ``steps``."""
        limit = math.inf if diameter is None else diameter
        if steps == 0:
            return 0.0
        _, total, _ = self._sums(steps)
        log_growth = -self.rate * steps if self.gap < 0 else 0.0
        if log_growth > 700:
            return limit
        return min(limit, self.shift * total * math.exp(log_growth))

    def square(self, length: int, distance: float) -> float:
        """Return the sum of squares of the a_k, if it is feasible."""
        left, total, squares = self._sums(length)
        return (left * distance + self.shift * total) ** 2 / squares

    def feasible(self, length: int, distance: float) -> bool:
        """Return whether no z_k is negative."""
        if self.gap >= 0:
            return True
        left, total, squares = self._sums(length)
        log_last = math.log(left * distance + self.shift * total) - math.log(squares)
        return log_last + self.rate * length >= math.log(self.shift) - 1e-12

    def turning_point(self, diameter: float) -> float:
        """Return the real m at which crossing the domain costs least; infinite if there is none."""
        if self.gap == 0:
            return diameter / self.shift
        fall = diameter * self.gap / self.shift  # 1 - c^m
        if fall >= 1 or math.isinf(self.rate):
            return math.inf
        return -math.log1p(-fall) / self.rate

    def best(self, tau: int, steps: int, diameter: float | None) -> float:
        """Return the least sum of squares over interpolations that begin at ``tau`` or later."""
        squares = [self.shift**2 * steps] if tau == 0 else []  # all lambda_k = 1: composition
        longest = steps - tau
        lengths = {longest}
        if diameter is not None:
            turn = min(self.turning_point(diameter), float(longest))
            lengths |= {max(math.floor(turn), 1), min(math.ceil(turn), longest)}
        for length in lengths:
            distance = self.distance(steps - length, diameter)
            if math.isfinite(distance):
                squares.append(self._from(length, distance))
        return min(squares, default=math.inf)

    def _from(self, length: int, distance: float) -> float:
        if self.feasible(length, distance):
            return self.square(length, distance)
        # c > 1: the a_k fall to s, and stay there (lambda_k = 1) once the processes have met
        last = last_integer(lambda count: self.feasible(count, distance), 1, length)
        return self.square(last, distance) + (length - last) * self.shift**2


def _given_shifts(
    crossing: _Crossing, contraction: float, distance: float, mechanism: NoisySGD, shifts: object
) -> float:
    """Return the sum of squares of a_k for given shifts lambda_k."""
    lambdas = validate.array_in(0, 1, open_ends=False, shifts=shifts)  # type: ignore[arg-type]
    if lambdas.ndim != 1 or lambdas.size == 0 or lambdas[-1] != 1:
        last = float(lambdas.flat[-1]) if lambdas.size else None
        raise ValueError(
            f"shifts must be one number a step and end with 1, got {last!r} at the end"
        )
    limit = math.inf if mechanism.diameter is None else mechanism.diameter
    total = 0.0
    for value in lambdas:
        reached = contraction * distance + crossing.shift
        total += float(value) ** 2 * reached**2 if value else 0.0
        distance = min((1 - float(value)) * reached, limit) if value < 1 else 0.0
    return total


@bound("bsa24.theorem_3_3")
def theorem_3_3(
    mechanism: NoisySGD, *, tau: int | None = None, shifts: Sequence[float] | None = None
) -> PrivacyCurve:
    """Return G((1/(eta sigma)) sqrt(sum over k > tau of a_k^2)) (Theorem 3.3).

    a_k = lambda_k (c z_{k-1} + s) with s = eta S/n, c the Lipschitz constant of an update, and z_k
    a bound on the distance of the processes X and X~. Here z_tau is the largest distance of two
    processes with a common start, s (1 + c + ... + c^(tau-1)), and at most D on a bounded domain;
    then z_k = (1 - lambda_k)(c z_{k-1} + s). Projections are contractive and post-processing.
    Without convexity c = 1 + eta M.

    The default is the optimum over tau and all shifts: composition, or a_k proportional to
    c^(t-k). It is Theorem 4.2 for strongly convex losses on an unconstrained domain, and never
    above Theorem 4.3 on a bounded one.

    tau: Intermediate time, 0 to t - 1. Shifts of 0 only postpone it, so without ``shifts`` the
        optimum over this and all later times is taken.
    shifts: Values lambda_{tau+1}, ..., lambda_t, each in [0, 1], the last one 1. Their number
        determines tau.
    """
    steps = mechanism.steps
    gap = contraction_gap(mechanism)
    ratio = mechanism.sensitivity / mechanism.dataset_size
    crossing = _Crossing(mechanism.constant_step_size * ratio, gap)
    if tau is not None:
        checked_tau(steps, tau)
    if shifts is not None:
        count = int(np.size(np.asarray(shifts, dtype=object)))
        start = steps - count if tau is None else tau
        if count != steps - start or start < 0:
            wanted = f"{steps - tau} numbers" if tau is not None else f"at most {steps} numbers"
            raise ValueError(f"shifts must have {wanted}, got {count}")
        distance = crossing.distance(start, mechanism.diameter)
        square = _given_shifts(crossing, 1 - gap, distance, mechanism, shifts)
    else:
        square = crossing.best(tau or 0, steps, mechanism.diameter)
        if square == crossing.shift**2 * steps:
            return GaussianCurve(ratio / mechanism.noise_std * math.sqrt(steps))
    if not math.isfinite(square):
        raise ValueError(
            f"tau must be 0 if nothing bounds the distance of the processes, got {tau!r}"
        )
    return GaussianCurve(math.sqrt(square) / mechanism.step_std)
