"""Bok, Su and Altschuler (2024), "Shifted Interpolation for Differential Privacy".

The paper's L is a gradient sensitivity (Definition 2.10), written S here: for full and cyclic
batches that of the differing record (`NoisySGD.sensitivity`: 2L for L-Lipschitz losses, L for
zero-out), for sampled batches that of the whole family
(`audit.bounds.accounting.family_sensitivity`). The record's batch may stand anywhere in a cycle of
l = n/b batches.

Section 5: full-batch Noisy-SGD with F = (1/n) sum f_i is Langevin Monte Carlo for the potential
beta F, with inverse temperature beta = 2/(eta sigma^2) and step h = eta/beta: the paper's setting
is n = 1 and sigma = sqrt(2/eta), where beta = 1 and h = eta. Its L (Proposition 5.1, the Lipschitz
constant of F - F') is beta S/n here; its 2L of Corollary 5.4 is the same. As h falls at a fixed
beta, the stationary law becomes the exponential mechanism, of density proportional to exp(-beta F):
that is what ``release=EXPONENTIAL_MECHANISM`` means, and only beta, n and the losses matter for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audit import validate
from audit.bounds.accounting.composition import SubsampledGaussian, coarse_epsilons, compose
from audit.bounds.accounting.iteration import cyclic_squares
from audit.bounds.accounting.shift_allocation import LipschitzShifts, Meetings, smallest
from audit.bounds.accounting.update import checked_tau, contraction_gap, family_sensitivity
from audit.bounds.assumptions import ROUNDING, Assumption, constant_step_size, domain, known
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.pure import PureCurve
from audit.curves.renyi import Orders, RenyiCurve
from audit.mechanism import NoisySGD, Release
from audit.numerics.arrays import Array
from audit.numerics.roots import last_integer

_MAX_START = 1e150  # largest distance at which an interpolation begins
_LENGTH_TOLERANCE = 1e-3  # relative accuracy of a length
_MIN_DECADE = 12
_TRADEOFF_DECADES = (2, 5)

# ------------------------------------------------------------------- shifted interpolation


def _least_square(shift: float, gap: float, steps: int, tau: int, diameter: float) -> float:
    """Return the least sum of squares of a_k over interpolations that begin at ``tau`` or later.

    These are z_k = c z_{k-1} + s - a_k with z_t = 0 and no z_k below 0, at c = 1 - ``gap``. For
    c <= 1, a_k is proportional to c^(t-k); for c > 1 the a_k fall to s and stay there
    (lambda_k = 1) once the processes met.
    """
    shifts = LipschitzShifts(Meetings(steps), shift, -gap)

    def squares(lengths: Array) -> Array:
        starts = np.minimum(shifts.grown(steps - lengths), diameter)
        if gap < 0:  # the square of a longer start would overflow
            return shifts.costs(lengths, np.where(starts < _MAX_START, starts, np.inf))
        return cyclic_squares(shift, shifts.log_contraction, 1, lengths, starts)

    least, _ = smallest(squares, steps - tau)
    return least if tau else min(least, shift**2 * steps)  # all lambda_k = 1: composition


def _given_shifts(
    shift: float, contraction: float, distance: float, mechanism: NoisySGD, shifts: object
) -> float:
    """Return the sum of squares of a_k for given shifts lambda_k."""
    lambdas = validate.array_in(0, 1, open_ends=False, shifts=shifts)  # type: ignore[arg-type]
    if lambdas.ndim != 1 or lambdas.size == 0 or lambdas[-1] != 1:
        last = float(lambdas.flat[-1]) if lambdas.size else None
        raise ValueError(
            f"shifts must be one number a step and end with 1, got {last!r} at the end"
        )
    limit, total = domain(mechanism), 0.0
    for value in lambdas:
        reached = contraction * distance + shift
        total += float(value) ** 2 * reached**2 if value else 0.0
        distance = min((1 - float(value)) * reached, limit) if value < 1 else 0.0
    return total


@bound("bsa24.theorem_3_3")
def theorem_3_3(
    mechanism: NoisySGD, *, tau: int | None = None, shifts: Sequence[float] | None = None
) -> PrivacyCurve:
    """Shifted interpolation by any shifts, the best ones by default (Theorem 3.3).

    z_tau is the largest distance of two processes with a common start, s (1 + c + ... + c^(tau-1)),
    s = eta S/n, and at most D; without convexity c = 1 + eta M. Projections are contractive and
    post-processing. The optimum is composition, or a_k proportional to c^(t-k): Theorem 4.2 for
    strongly convex losses without a domain, and never above Theorem 4.3 on one.

    tau: Intermediate time, 0 to t - 1. Shifts of 0 only postpone it, so without ``shifts`` the
        optimum over this and all later times is taken.
    shifts: Values lambda_{tau+1}, ..., lambda_t, each in [0, 1], the last one 1. Their number
        determines tau.
    """
    steps = mechanism.steps
    gap = contraction_gap(mechanism)
    ratio = mechanism.sensitivity / mechanism.dataset_size
    shift = mechanism.constant_step_size * ratio
    if tau is not None:
        checked_tau(steps, tau)
    if shifts is not None:
        count = int(np.size(np.asarray(shifts, dtype=object)))
        start = steps - count if tau is None else tau
        if count != steps - start or start < 0:
            wanted = f"{steps - tau} numbers" if tau is not None else f"at most {steps} numbers"
            raise ValueError(f"shifts must have {wanted}, got {count}")
        grown = LipschitzShifts(Meetings(steps), shift, -gap).grown(start)
        distance = min(float(grown), domain(mechanism))
        square = _given_shifts(shift, 1 - gap, distance, mechanism, shifts)
    else:
        square = _least_square(shift, gap, steps, tau or 0, domain(mechanism))
        if square == shift**2 * steps:
            return GaussianCurve(ratio / mechanism.noise_std * math.sqrt(steps))
    if not math.isfinite(square):
        raise ValueError(
            f"tau must be 0 if nothing bounds the distance of the processes, got {tau!r}"
        )
    return GaussianCurve(math.sqrt(square) / mechanism.step_std)


# ------------------------------------------------------------------- full and cyclic batches


def _crossing_time(mechanism: NoisySGD, batch: int) -> float:
    """Return D batch/(eta S), the number of shifts eta S/batch that cross the domain.

    It is rounded to an integer if it differs from one only by rounding errors: parameters in double
    precision may give 3.0000000000000004.
    """
    shift = mechanism.constant_step_size * mechanism.sensitivity / batch
    ratio = known(mechanism.diameter) / shift
    if not math.isfinite(ratio):
        return math.inf
    whole = round(ratio)
    return float(whole) if whole and abs(ratio / whole - 1) <= ROUNDING else ratio


def _crosses(count: str, needed: str, batch: str, value: Callable[[NoisySGD], float]) -> Assumption:
    """Return the assumption that so many shifts of the record's batch cross the domain."""

    def least(m: NoisySGD) -> float | None:
        if m.diameter is None or not constant_step_size(m):
            return None
        return _crossing_time(m, getattr(m, batch))

    def holds(m: NoisySGD) -> bool:
        time = least(m)
        return time is not None and value(m) >= time

    def found(m: NoisySGD) -> str:
        time, have = least(m), getattr(m, count)
        shown = f"{have:g}" if isinstance(have, float) else str(have)
        return f"{count}={shown}" + ("" if time is None else f" below {time:.6g}")

    return Assumption(f"{count} >= {needed} with L the gradient sensitivity", holds, found)


ENOUGH_STEPS = _crosses("steps", "D n/(eta L)", "dataset_size", lambda m: m.steps)
ENOUGH_EPOCHS = _crosses("epochs", "D b/(eta L)", "batch_size", lambda m: m.epochs * (1 + ROUNDING))


def _ratio(mechanism: NoisySGD, batch: int) -> float:
    """Return the shift of a step that meets the record in units of its noise."""
    return mechanism.sensitivity / (batch * mechanism.noise_std)


@bound("bsa24.theorem_4_1")
def theorem_4_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for full batches, schedules and any losses (Theorem 4.1)."""
    return GaussianCurve(_ratio(mechanism, mechanism.dataset_size) * math.sqrt(mechanism.steps))


@bound("bsa24.theorem_4_2")
def theorem_4_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly convex losses, full batches (Theorem 4.2).

    For eta <= 2/(M + m) quadratics of curvature m reach it. Projections are contractive and
    post-processing, so a bounded domain changes nothing in the proof.
    """
    gap = contraction_gap(mechanism)
    # (1 - c^t)/(1 + c^t) = tanh(t log(1/c)/2)
    rate = math.inf if gap == 1 else -math.log1p(-gap)
    square = math.tanh(mechanism.steps * rate / 2) * (2 - gap) / gap
    return GaussianCurve(_ratio(mechanism, mechanism.dataset_size) * math.sqrt(square))


@bound("bsa24.theorem_4_3", enough_steps=ENOUGH_STEPS)
def theorem_4_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Convex losses on a bounded domain, at least D n/(eta S) steps (Theorem 4.3)."""
    m = mechanism
    ratio = m.sensitivity / m.dataset_size
    ceiling = math.ceil(_crossing_time(m, m.dataset_size))
    square = 3 * ratio * known(m.diameter) / m.constant_step_size + ratio**2 * ceiling
    return GaussianCurve(math.sqrt(square) / m.noise_std)


@bound("bsa24.theorem_4_4")
def theorem_4_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition (Theorem 4.4): no convexity, no smoothness, any schedule of step sizes."""
    epochs = mechanism.steps // mechanism.steps_per_epoch
    return GaussianCurve(_ratio(mechanism, mechanism.batch_size) * math.sqrt(epochs))


def _log_power(gap: float, exponent: int) -> float:
    """Return log (1 - gap)^exponent for gap in [0, 1]; 0 for exponent 0."""
    if exponent == 0:
        return 0.0
    return exponent * (-math.inf if gap == 1 else math.log1p(-gap))


def _old_epochs(mechanism: NoisySGD, power: int) -> tuple[float, float]:
    """Return c^power (1 - c^2)/(1 - c^l)^2 and 1 - c^(l (E - 1)).

    The effect of earlier epochs after the noise of one epoch, and the part of it that is there.
    """
    gap = contraction_gap(mechanism)
    length = mechanism.steps_per_epoch
    kept = math.exp(_log_power(gap, power))
    effect = kept * (gap * (2 - gap) / math.expm1(_log_power(gap, length)) ** 2)
    return effect, -math.expm1(_log_power(gap, mechanism.steps - length))


@bound("bsa24.theorem_4_5")
def theorem_4_5(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly convex losses, cyclic batches (Theorem 4.5)."""
    effect, lost = _old_epochs(mechanism, 2 * mechanism.steps_per_epoch - 2)
    fraction = effect * lost / (2 - lost)
    return GaussianCurve(_ratio(mechanism, mechanism.batch_size) * math.sqrt(1 + fraction))


@bound("bsa24.theorem_4_6", enough_epochs=ENOUGH_EPOCHS)
def theorem_4_6(mechanism: NoisySGD) -> PrivacyCurve:
    """Convex losses on a bounded domain, at least D b/(eta S) epochs (Theorem 4.6)."""
    m = mechanism
    ratio, length = m.sensitivity / m.batch_size, m.steps_per_epoch
    ceiling = math.ceil(_crossing_time(m, m.batch_size))
    square = ratio**2 + 3 * ratio * known(m.diameter) / (m.constant_step_size * length)
    square += ratio**2 * ceiling / length
    return GaussianCurve(math.sqrt(square) / m.noise_std)


@bound("bsa24.table_1_renyi")
def table_1_renyi(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound of Table 1, column RDP (Appendix D.2); never below that of Theorem 4.5."""
    effect, lost = _old_epochs(mechanism, mechanism.steps_per_epoch - 2)
    growth = effect * lost if lost else 0.0
    return RenyiCurve.linear(_ratio(mechanism, mechanism.batch_size) ** 2 / 2 * (1 + growth))


# ------------------------------------------------------------------- sampled batches


@dataclass(frozen=True, eq=False)
class LengthFamilyCurve(PrivacyCurve):
    """Best of G(gaussian(m)) composed with ``beside`` and m times ``step``, m = 1..longest.

    Every m gives a bound. The best is searched for at delta = 0.1, 0.01, ..., 1e-12, when first
    needed: Renyi divergences say where to look, and a golden-section search on coarse compositions
    finds the place. ``epsilon`` and ``delta`` take the better of the two members on either side of
    the requested value, ``beta`` that of the members for delta = 1e-2 and 1e-5; ``renyi`` is exact
    in m.

    step: C_p(G(mu)) of one step.
    longest: The largest m.
    gaussian: Gaussian parameter of each m, decreasing and convex in m.
    beside: One additional sampled step, the same for every m, if any.
    """

    step: SubsampledGaussian
    longest: int
    gaussian: Callable[[Array], Array]
    beside: SubsampledGaussian | None = None

    @property
    def symmetric(self) -> bool:
        """True: every member has the same values in both orders."""
        return True

    @cached_property
    def member(self) -> Callable[[int], PrivacyCurve]:
        """Maps a number of steps t - tau to its bound."""
        return functools.cache(
            lambda length: compose(self.step, length, self._mu(length), beside=self.beside)
        )

    @cached_property
    def best_length(self) -> Callable[[int], int]:
        """Maps a decade k to the t - tau whose epsilon at delta = 10^-k is least in the search."""
        return functools.cache(lambda decade: self._search(10.0**-decade))

    def _search(self, delta: float) -> int:
        """Minimise the epsilon of a member over lengths, on a logarithmic scale."""
        guess = self._guess(delta)
        shortest, longest = max(guess // 4, 1), min(4 * guess, self.longest)
        coarse = coarse_epsilons(self.step, gaussian=self._mu, beside=self.beside)
        seen: dict[int, float] = {}

        def at(log_length: float) -> float:
            length = min(max(round(math.exp(log_length)), shortest), longest)
            if length not in seen:
                seen[length] = coarse(length, delta)
            return seen[length]

        low, high = math.log(shortest), math.log(longest)
        ratio = (math.sqrt(5) - 1) / 2
        for end in (low, high, math.log(guess)):
            at(end)
        while high - low > _LENGTH_TOLERANCE and math.exp(high) - math.exp(low) > 0.5:
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            if at(left) <= at(right):
                high = right
            else:
                low = left
        return min(seen, key=lambda length: seen[length])

    def _mu(self, length: int) -> float:
        return float(self.gaussian(np.array([float(length)]))[0])

    def _guess(self, delta: float) -> int:
        """Return the best length for the Renyi divergences, each order at its own best length."""
        orders = Orders.at(np.linspace(math.log(1e-4), math.log(1e4), 41))
        per_step = np.asarray(self.step.renyi(orders.alphas))
        lengths = self._best_by_order(orders.alphas, per_step)
        bounds = self._renyi_of(lengths, orders.alphas, per_step)
        return int(lengths[int(np.argmin(orders.epsilons(bounds, np.log(delta))))])

    def _renyi_of(self, length: Array, alpha: Array, per_step: Array) -> Array:
        once = 0.0 if self.beside is None else self.beside.divergence(alpha)
        return np.asarray(length * per_step + alpha * self.gaussian(length) ** 2 / 2 + once)

    def _best_by_order(self, orders: Array, per_step: Array) -> Array:
        """Integer m that minimises m R + alpha gaussian(m)^2/2, convex in m, for each order."""
        low, high = np.ones_like(orders), np.full_like(orders, float(self.longest))
        while np.any(low < high):
            middle = np.floor((low + high) / 2)
            here, after = (orders * self.gaussian(m) ** 2 / 2 for m in (middle, middle + 1))
            rises = after + per_step >= here
            low, high = np.where(rises, low, middle + 1), np.where(rises, middle, high)
        return low

    def _at_decade(self, decade: int) -> PrivacyCurve:
        return self.member(self.best_length(decade))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        result = np.full_like(delta, np.inf)
        place = np.clip(-np.log10(delta), 1, _MIN_DECADE)
        near = np.rint(place)
        # a power of ten is one decade, despite rounding
        place = np.where(np.abs(place - near) < 1e-9, near, place)
        low, high = np.floor(place), np.ceil(place)
        for decade in np.union1d(low, high):
            here = (low == decade) | (high == decade)
            epsilons = self._at_decade(int(decade)).epsilon(delta[here])
            result[here] = np.minimum(result[here], epsilons)
        return result

    def _delta(self, epsilon: Array, order: Order) -> Array:
        result = np.empty_like(epsilon)
        for place, value in enumerate(epsilon):
            low, high = self._decades(abs(float(value)))
            result[place] = min(self._at_decade(k).delta(float(value)) for k in (low, high))
        return result

    def _decades(self, epsilon: float) -> tuple[int, int]:
        """Return the neighbouring decades of delta between which ``epsilon`` lies."""
        low = last_integer(
            lambda decade: self._at_decade(decade).epsilon(10.0**-decade) <= epsilon,
            0,
            _MIN_DECADE + 1,
        )
        return max(low, 1), min(low + 1, _MIN_DECADE)

    def _beta(self, alpha: Array, order: Order) -> Array:
        betas = [np.asarray(self._at_decade(k).beta(alpha)) for k in _TRADEOFF_DECADES]
        return np.asarray(np.stack(betas).max(axis=0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        per_step = np.asarray(self.step.renyi(alpha))
        length = self._best_by_order(alpha, per_step)
        return self._renyi_of(length, alpha, per_step)


@bound("bsa24.theorem_4_8")
def theorem_4_8(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for batches without replacement, schedules and any losses (Theorem 4.8)."""
    ratio = family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std)
    return compose(SubsampledGaussian(mechanism.sampling_rate, ratio), mechanism.steps)


@bound("bsa24.theorem_4_9")
def theorem_4_9(mechanism: NoisySGD, *, tau: int | None = None) -> PrivacyCurve:
    """Strongly convex losses, batches drawn without replacement (Theorem 4.9).

    Printed for tau = 0, ..., t - 1; for tau = 0 the Gaussian parameter would be negative.

    tau: Intermediate time, 1 to t - 1. Default: the best at each point of the curve.
    """
    ratio = 2 * family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std)
    rate, gap, longest = mechanism.sampling_rate, contraction_gap(mechanism), mechanism.steps - 1

    def gaussian(length: Array) -> Array:
        """Return sqrt(2) mu (c^(m+1) - c^(longest+1))/(1 - c)."""
        if gap == 1:
            return np.zeros_like(length)
        log_c = math.log1p(-gap)
        left = np.exp(log_c * (length + 1)) * -np.expm1(log_c * (longest - length))
        return np.asarray(math.sqrt(2) * ratio * left / gap)

    once = SubsampledGaussian(rate, math.sqrt(2) * ratio)  # at the intermediate time
    family = LengthFamilyCurve(SubsampledGaussian(rate, ratio), longest, gaussian, once)
    steps = mechanism.steps
    return family if tau is None else family.member(steps - checked_tau(steps, tau, least=1))


@bound("bsa24.theorem_4_10")
def theorem_4_10(mechanism: NoisySGD, *, tau: int | None = None) -> PrivacyCurve:
    """Convex losses, batches without replacement (Theorem 4.10).

    tau: Intermediate time, 0 to t - 1. Default: the best at each point of the curve.
    """
    scale = 2 * math.sqrt(2) / (mechanism.batch_size * mechanism.noise_std)
    step = SubsampledGaussian(mechanism.sampling_rate, scale * family_sensitivity(mechanism))
    crossing = math.sqrt(2) * known(mechanism.diameter) / mechanism.step_std
    family = LengthFamilyCurve(step, mechanism.steps, lambda m: crossing / np.sqrt(m))
    steps = mechanism.steps
    return family if tau is None else family.member(steps - checked_tau(steps, tau))


# ------------------------------------------------------------------- Langevin Monte Carlo


def inverse_temperature(mechanism: NoisySGD) -> float:
    """Return beta = 2/(eta sigma^2)."""
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
    """Strongly log-concave targets in their limits (Corollary 5.2)."""
    if mechanism.release is Release.LAST_ITERATE:
        return proposition_5_1(mechanism)
    m = inverse_temperature(mechanism) * mechanism.strong_convexity
    return GaussianCurve(_difference(mechanism) / math.sqrt(m))


@bound("bsa24.corollary_5_4")
def corollary_5_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Log-concave targets on a bounded domain (Corollary 5.4).

    The second statement, on the stationary law of projected Langevin Monte Carlo, also bounds every
    earlier iterate, because it is the limit of Theorem 4.3, and composition is better below the
    threshold of that theorem. The paper requires K to contain the unit ball. This is no
    restriction: scaling space preserves L D and eta L^2.
    """
    difference = _difference(mechanism)
    square = 2 * difference * known(mechanism.diameter)
    if mechanism.release is Release.LAST_ITERATE:
        step = mechanism.constant_step_size / inverse_temperature(mechanism)
        square += step * difference**2 / 2
    return GaussianCurve(math.sqrt(square))


@bound("bsa24.mcsherry_talwar")
def mcsherry_talwar(mechanism: NoisySGD) -> PrivacyCurve:
    """Every exponential mechanism (section 5.2): beta (F - F') varies by at most beta S D/n."""
    return PureCurve(_difference(mechanism) * known(mechanism.diameter))
