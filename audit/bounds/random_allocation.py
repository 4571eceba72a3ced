"""Random allocation: Feldman and Shenfeld (2025), and Ertan and van Dijk (2026).

An epoch of t steps uses each record in k of them, chosen at random: ``Batching.RANDOM_ALLOCATION``
under ``Relation.ADD_REMOVE`` or ``ZERO_OUT``. The papers' sigma is the noise multiplier.

Formulas of Feldman and Shenfeld are those of the authors' code (release 1.0.4 of
random_allocation); the paper's text could be read, but not its formulas.
``accounting.random_allocation`` computes the exact curve of their dominating pair.

Ertan and van Dijk bound total variation, which is delta at epsilon = 0, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp

from audit import validate
from audit.bounds.all_iterates import ACCURACY
from audit.bounds.assumptions import Assumption
from audit.bounds.statements import bound
from audit.curves.base import Order, PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.profile import ProfileCurve
from audit.curves.renyi import CostlyRenyiCurve
from audit.curves.tails import TailCurve
from audit.dominating import dominating_curve
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit.numerics.arrays import Array
from audit.numerics.roots import decreasing_root

# --------------------------------------------------------------------- Feldman and Shenfeld (2025)


HIGHEST_ORDER = 64
"""Largest Renyi order that is computed."""

_ROUNDING = 1e-10
_GRID = 400


def _participations(m: NoisySGD) -> str:
    return f"participations={m.participations}, steps={m.steps}, {m.steps_per_epoch} an epoch"


ONE_ALLOCATION = Assumption(
    "one allocation of each record to one of at least two steps",
    lambda m: m.participations == 1 and m.steps == m.steps_per_epoch >= 2,
    _participations,
)
WHOLE_ALLOCATIONS = Assumption(
    "whole epochs, and a number of participations that divides their steps",
    lambda m: m.steps % m.steps_per_epoch == 0 and m.steps_per_epoch % m.participations == 0,
    _participations,
)


def _rounds(mechanism: NoisySGD) -> tuple[int, int]:
    """Return the steps of an allocation of one, and the number of such allocations in the run."""
    length = mechanism.steps_per_epoch // mechanism.participations
    return length, mechanism.steps // length


def _poisson(mechanism: NoisySGD, *, steps: int, rate: float) -> PrivacyCurve:
    """Return the curve of Poisson batches with the noise of a mechanism, rounded up."""
    twin = NoisySGD(
        steps=steps,
        dataset_size=2,
        batch_size=1,
        step_size=1.0,
        noise_std=mechanism.noise_multiplier,
        clip_norm=1.0,
        convex=False,
        batching=Batching.POISSON,
        poisson_rate=rate,
        relation=Relation.ADD_REMOVE,
        release=Release.ALL_ITERATES,
    )
    return dominating_curve(twin, accuracy=ACCURACY)


class _Directed(ProfileCurve):
    """Curve of a removal (``FORWARD``) and an addition whose profiles differ."""

    points = 128

    @property
    def symmetric(self) -> bool:
        """False: removal and addition differ."""
        return False

    def _last_point(self, order: Order) -> float:
        return min(float(self._epsilon(np.array([1e-10]), order)[0]), 100.0)


@dataclass(frozen=True)
class AllocatedOnce(_Directed):
    """Profile of one allocation, from that of Poisson batches which use the record at all.

    poisson: All iterates of t steps with Poisson batches of rate 1/t; ``FORWARD`` is removal.
    share: Probability 1 - (1 - 1/t)^t that some batch holds the record.
    """

    poisson: PrivacyCurve
    share: float

    def _profile(self, epsilon: Array, order: Order) -> Array:
        if order is Order.FORWARD:
            inner, weight = np.log1p(self.share * np.expm1(np.minimum(epsilon, 700.0))), self.share
            return np.minimum(np.asarray(self.poisson.delta(inner, order)) / weight, 1.0)
        kept = 1 + self.share * np.expm1(-epsilon)
        inner, mixed = -np.log(kept), self.share * np.exp(-epsilon) / kept
        with np.errstate(divide="ignore", invalid="ignore"):
            profile = np.asarray(self.poisson.delta(inner, order)) / mixed
        return np.where(mixed > 0, np.minimum(profile, 1.0), 1.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        if order is Order.FORWARD:
            inner = np.asarray(self.poisson.epsilon(self.share * delta, order))
            scaled = inner + np.log((1 - (1 - self.share) * np.exp(-inner)) / self.share)
            return np.asarray(np.maximum(scaled, 0.0))
        return np.array([self._least_epsilon(float(target), order) for target in delta])

    def _least_epsilon(self, delta: float, order: Order) -> float:
        """Return an epsilon at which the bound is at most ``delta``; about the least."""
        points = np.concatenate([[0.0], np.geomspace(1e-6, 700.0, _GRID)])
        met = np.flatnonzero(self._profile(points, order) <= delta)
        if not met.size:
            return math.inf
        if met[0] == 0:
            return 0.0
        ends = points[met[0] - 1 : met[0] + 1]
        return float(
            decreasing_root(lambda e: self._profile(e, order) - delta, ends[:1], ends[1:])[0]
        )

    def _renyi(self, alpha: Array, order: Order) -> Array:
        # the computed profile does not fall below an error, so it bounds no divergence
        return np.full(alpha.shape, np.inf)


@bound("fs25.theorem_4_3", one_allocation=ONE_ALLOCATION)
def theorem_4_3(mechanism: NoisySGD) -> PrivacyCurve:
    r"""Bound one allocation by Poisson batches (Theorem 4.3).

    Poisson batches of rate 1/t use the record with probability :math:`r = 1 - (1 - 1/t)^t`, and
    then in a random number of random steps, which tells at least as much as one random step. So
    their pair is P = (1 - r) Q + r A against Q, with A no less distinguishable from Q than the
    allocation, and E_g(P | Q) = r E_h(A | Q) for g = 1 + r (h - 1), and E_g(Q | P) =
    (1 - (1-r) g) E_h(Q | A) for 1/g = 1 - r + r/h (Balle, Barthe and Gaboardi 2018). The price in
    epsilon is at most 1/r, which tends to e/(e-1) = 1.58.
    """
    steps = mechanism.steps
    share = -math.expm1(steps * math.log1p(-1 / steps))
    return AllocatedOnce(_poisson(mechanism, steps=steps, rate=1 / steps), share)


@dataclass(frozen=True)
class _Moments:
    """Renyi divergence of removal: ``rounds`` allocations to one of ``length`` steps."""

    noise: float
    length: int
    rounds: int

    def __call__(self, alpha: Array) -> Array:
        whole = np.ceil(alpha - 1e-12).astype(int)
        return np.asarray(self.rounds * self._removal[np.maximum(whole, 2)])

    @cached_property
    def _removal(self) -> Array:
        """Divergences of integer orders, by order: coefficients of a power of a series."""
        orders = np.arange(HIGHEST_ORDER + 1)
        series = orders**2 / (2 * self.noise**2) - gammaln(orders + 1)
        power = _log_power(series, self.length)
        log_moment = power + gammaln(orders + 1)
        log_moment -= orders * (math.log(self.length) + 1 / (2 * self.noise**2))
        rounded = np.maximum(log_moment + _ROUNDING * (1 + np.abs(power)), 0.0)
        return np.asarray(rounded / np.maximum(orders - 1, 1))


@dataclass(frozen=True)
class DirectAllocation(_Directed):
    """Removal by the moments of the likelihood ratio, addition by that of a Gaussian mechanism.

    removal: Bound on removal, in both orders of it.
    means: The Gaussian mechanism that releases the mean of the steps of each allocation.
    shift: What the loss of addition is above that of ``means``, at most.
    """

    removal: PrivacyCurve
    means: GaussianCurve
    shift: float

    def _profile(self, epsilon: Array, order: Order) -> Array:
        if order is Order.FORWARD:
            return np.asarray(self.removal.delta(epsilon, order))
        return np.asarray(self.means.delta(epsilon - self.shift))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        if order is Order.FORWARD:
            return np.asarray(self.removal.epsilon(delta, order))
        return np.asarray(self.means.epsilon(delta)) + self.shift

    def _renyi(self, alpha: Array, order: Order) -> Array:
        if order is Order.FORWARD:
            return np.asarray(self.removal.renyi(alpha, order))
        return np.asarray(self.means.renyi(alpha)) + self.shift


def _log_power(series: Array, power: int) -> Array:
    """Return the logarithms of the leading coefficients of a power of a series."""
    result, square = None, series
    while True:
        if power % 2:
            result = square if result is None else _log_product(result, square)
        power //= 2
        if not power:
            assert result is not None
            return result
        square = _log_product(square, square)


def _log_product(first: Array, second: Array) -> Array:
    return np.array(
        [logsumexp(first[: i + 1] + second[i::-1]) for i in range(first.size)], dtype=np.float64
    )


@bound("fs25.theorem_4_4", whole_allocations=WHOLE_ALLOCATIONS)
def theorem_4_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Expand the moments of the likelihood ratio (Theorem 4.4), and bound addition by a Gaussian.

    The ratio is a mean S of L independent lognormal variables. Moments of integer orders are sums
    over multinomial coefficients, which the paper writes over partitions of alpha and which are
    coefficients of a power of a series. Other orders take the next integer. For addition, -log S <=
    -(1/L) sum log S_i by Jensen's inequality.

    The authors' code adds the constant (1 - 1/L)/(2 z^2) once, however many epochs there are, so
    its addition alone is too small from two epochs on (z = .5, t = 2, 10 epochs, delta = 1e-5:
    29.37 against the exact 33.62). The larger one of both directions, which the code returns by
    default, is that of removal there.
    """
    length, rounds = _rounds(mechanism)
    noise = mechanism.noise_multiplier
    removal = CostlyRenyiCurve(
        _Moments(noise, length, rounds), highest=HIGHEST_ORDER, search=(0.5, HIGHEST_ORDER - 1.0)
    )
    means = GaussianCurve(math.sqrt(rounds / length) / noise)
    return DirectAllocation(removal, means, rounds * (1 - 1 / length) / (2 * noise**2))


def _inflated_rate(noise: float, length: int, delta: float, local: float) -> float:
    """Return the rate of Poisson batches of Theorem 4.1; 1 where it has none."""
    local_epsilon = float(GaussianCurve(1 / noise).epsilon(local))
    log_gamma = local_epsilon + math.log1p(math.exp(-2 * local_epsilon)) - math.log(2)
    log_gamma += 0.5 * math.log(2 * math.log(1 / delta) / length)
    if length == 1 or log_gamma >= math.log1p(-1 / length):
        return 1.0
    return 1 / (length * -math.expm1(log_gamma))


@bound("fs25.theorem_4_1", whole_allocations=WHOLE_ALLOCATIONS)
def theorem_4_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound random allocation by Poisson batches of a slightly larger rate (Theorem 4.1).

    Given the outputs so far, the probability that the next step holds the record is at most that
    rate, except with a probability that the rest of delta pays for. The split of delta is that of
    the code. Where the rate would exceed 1/sqrt(L) there is no bound, as in the code: the theorem
    says something for many steps and much noise only.
    """
    length, rounds = _rounds(mechanism)

    def epsilon_at(delta: Array) -> Array:
        return np.array([_one(float(d)) for d in delta])

    def _one(delta: float) -> float:
        local, rest = 0.99 * delta / (length * rounds), 0.005 * delta
        rate = _inflated_rate(mechanism.noise_multiplier, length, rest / rounds, local)
        if rate > 1 / math.sqrt(length):
            return math.inf
        poisson = _poisson(mechanism, steps=length * rounds, rate=rate)
        return float(poisson.epsilon(rest))

    return TailCurve(epsilon_at, _inverse(epsilon_at))


def _inverse(epsilon_at: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def delta_at(epsilon: Array) -> Array:
        def excess(log_delta: Array) -> Array:
            return epsilon_at(np.exp(log_delta)) - epsilon

        low, high = np.full(epsilon.shape, -40.0), np.zeros(epsilon.shape)
        return np.exp(decreasing_root(excess, low, high, xtol=4e-5))

    return delta_at


# ----------------------------------------------------------------------- Ertan and van Dijk (2026)


WHOLE_EPOCHS_OF_ONE = Assumption(
    "one participation in each of a whole number of epochs",
    lambda m: m.participations == 1 and m.steps % m.steps_per_epoch == 0,
    _participations,
)


@dataclass(frozen=True)
class TotalVariationCurve(PrivacyCurve):
    """Bound on the total variation of a pair, and nothing else: (0, distance)-DP."""

    distance: float

    @property
    def symmetric(self) -> bool:
        """True: total variation is the same in both orders."""
        return True

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.where(delta >= self.distance, 0.0, np.inf)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        mirrored = 1 - np.exp(-np.abs(epsilon)) * (1 - self.distance)
        return np.where(epsilon >= 0, self.distance, mirrored)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(np.maximum(1 - self.distance - alpha, 0.0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.full(alpha.shape, np.inf)


def chi_square(noise_multiplier: float, steps_per_epoch: int, epochs: int) -> float:
    """Return the chi-square divergence of E epochs: equation (9)."""
    exponent = noise_multiplier**-2.0
    if exponent > 700:
        return math.inf
    grown = epochs * math.log1p(math.expm1(exponent) / steps_per_epoch)
    return math.expm1(grown) if grown < 700 else math.inf


def total_variation_bound(chi_square: float) -> float:
    """Return the largest total variation of pairs with a given chi-square divergence."""
    if chi_square == math.inf:
        return 1.0
    validate.nonnegative(chi_square=chi_square)
    if chi_square <= 1:
        return math.sqrt(chi_square) / 2
    return 1 / (1 + 1 / chi_square)


def least_noise_multiplier(steps_per_epoch: int, epochs: int, total_variation: float) -> float:
    """Return the noise for which Theorem 3.3 gives a total variation: Corollary 3.4."""
    validate.open_unit(total_variation=total_variation)
    validate.integer(1, steps_per_epoch=steps_per_epoch, epochs=epochs)
    target = total_variation
    divergence = 4 * target**2 if target <= 0.5 else target / (1 - target)
    grown = math.expm1(math.log1p(divergence) / epochs)
    return 1 / math.sqrt(math.log1p(steps_per_epoch * grown))


@bound("evd26.theorem_3_3", whole_epochs_of_one=WHOLE_EPOCHS_OF_ONE)
def theorem_3_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound total variation by the chi-square divergence of the dominating pair (Theorem 3.3).

    It is larger than the exact value by a factor that tends to sqrt(pi/2) = 1.2533 as E/M falls.
    """
    length, epochs = _rounds(mechanism)  # of one participation
    distance = total_variation_bound(chi_square(mechanism.noise_multiplier, length, epochs))
    return TotalVariationCurve(min(distance * (1 + 1e-12), 1.0))


@bound("evd26.theorem_3_5", whole_epochs_of_one=WHOLE_EPOCHS_OF_ONE)
def theorem_3_5(mechanism: NoisySGD) -> PrivacyCurve:
    """Return the Gaussian limit of random allocation (Theorem 3.5).

    The limit that Bu et al. (2019) found for Poisson batches; van Dijk and Ertan (2026, Theorem
    4.2) prove one half of it. It is no bound at finite M: z = 1, M = 64 and one epoch have epsilon
    .833 at delta = 1e-5, where the limit has .584.
    """
    length, epochs = _rounds(mechanism)  # of one participation
    exponent = mechanism.noise_multiplier**-2.0
    mu = math.sqrt(epochs / length * math.expm1(min(exponent, 700.0)))
    return GaussianCurve(mu)
