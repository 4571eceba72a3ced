"""Bok, Su and Altschuler (2024), section 4.3: batches drawn without replacement (NoisySGD).

The three theorems take the sensitivity of the whole family
(`audit.bounds.accounting.family_sensitivity`). Theorems 4.9 and 4.10 have a free integer tau: they
are families of bounds, and their curves use the best member at each point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from audit import validate
from audit.bounds.accounting.composition import coarse_epsilons, compose
from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.bounds.accounting.update import checked_tau, contraction_gap, family_sensitivity
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import Orders
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array
from audit.numerics.roots import last_integer

_FINEST = 1e-3  # relative accuracy of a length
_SMALLEST_DECADE = 12
_TRADEOFF_DECADES = (2, 5)


@dataclass(frozen=True, eq=False)
class LengthFamilyCurve(PrivacyCurve):
    """Best of G(gaussian(m)) composed with ``beside`` and m times ``step``, m = 1..longest.

    Each m gives a valid bound, so every answer is valid whichever m gives it. The best m is
    searched for at delta = 0.1, 0.01, ..., 1e-12, when first needed: the Renyi divergences, cheap
    for all m at once, say where to look, and a golden-section search on coarse numerical
    compositions finds the place. ``epsilon`` and ``delta`` take the better of the two members on
    either side of the requested value, ``beta`` that of the members for delta = 1e-2 and 1e-5;
    ``renyi`` is exact in m.

    step: C_p(G(mu)) of one step.
    longest: The largest m.
    gaussian: Gaussian parameter of each m, decreasing and convex in m.
    beside: One additional sampled step, the same for every m, if any.
    """

    step: SubsampledGaussian
    longest: int
    gaussian: Callable[[Array], Array]
    beside: SubsampledGaussian | None = None
    _members: dict[int, PrivacyCurve] = field(default_factory=dict, repr=False, kw_only=True)
    _lengths: dict[int, int] = field(default_factory=dict, repr=False, kw_only=True)

    @property
    def symmetric(self) -> bool:
        """True: every member has the same values in both orders."""
        return True

    def member(self, length: int) -> PrivacyCurve:
        """Return the bound with ``length`` = t - tau steps."""
        validate.integer(1, length=length)
        if length not in self._members:
            mu = self._mu(length)
            self._members[length] = compose(self.step, length, mu, beside=self.beside)
        return self._members[length]

    def best_length(self, decade: int) -> int:
        """Return the t - tau whose epsilon at delta = 10^-decade is smallest, up to the search."""
        validate.integer(1, decade=decade)
        if decade not in self._lengths:
            self._lengths[decade] = self._search(10.0**-decade)
        return self._lengths[decade]

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
        while high - low > _FINEST and math.exp(high) - math.exp(low) > 0.5:
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
        place = np.clip(-np.log10(delta), 1, _SMALLEST_DECADE)
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
            _SMALLEST_DECADE + 1,
        )
        return max(low, 1), min(low + 1, _SMALLEST_DECADE)

    def _beta(self, alpha: Array, order: Order) -> Array:
        betas = [np.asarray(self._at_decade(k).beta(alpha)) for k in _TRADEOFF_DECADES]
        return np.asarray(np.stack(betas).max(axis=0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        per_step = np.asarray(self.step.renyi(alpha))
        length = self._best_by_order(alpha, per_step)
        return self._renyi_of(length, alpha, per_step)


@bound("bsa24.theorem_4_8")
def theorem_4_8(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for batches drawn without replacement (Theorem 4.8), L the family sensitivity.

    Neither convexity nor smoothness is used, and step-size schedules are covered.
    """
    ratio = family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std)
    return compose(SubsampledGaussian(mechanism.sampling_rate, ratio), mechanism.steps)


@bound("bsa24.theorem_4_9")
def theorem_4_9(mechanism: NoisySGD, *, tau: int | None = None) -> PrivacyCurve:
    """Strongly convex losses, batches drawn without replacement (Theorem 4.9).

    L is the family sensitivity. Printed for tau = 0, ..., t - 1; for tau = 0 the Gaussian parameter
    would be negative. Projections are contractive and post-processing, so bounded domains are
    covered.

    tau: Intermediate time, 1 to t - 1; any choice gives a valid bound. Default: the best at each
        point of the curve.
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
    if tau is None:
        return family
    return family.member(mechanism.steps - checked_tau(mechanism.steps, tau, least=1))


@bound("bsa24.theorem_4_10")
def theorem_4_10(mechanism: NoisySGD, *, tau: int | None = None) -> PrivacyCurve:
    """Convex losses, batches without replacement (Theorem 4.10), L the family sensitivity.

    tau: Intermediate time, 0 to t - 1; any choice gives a valid bound. Default: the best at each
        point of the curve.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    scale = 2 * math.sqrt(2) / (mechanism.batch_size * mechanism.noise_std)
    step = SubsampledGaussian(mechanism.sampling_rate, scale * family_sensitivity(mechanism))
    crossing = math.sqrt(2) * mechanism.diameter / mechanism.step_std
    if tau is None:
        return LengthFamilyCurve(step, mechanism.steps, lambda m: crossing / np.sqrt(m))
    length = mechanism.steps - checked_tau(mechanism.steps, tau)
    return compose(step, length, crossing / math.sqrt(length))
