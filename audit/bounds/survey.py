"""Boninsegna (2023), a survey: the classical accountants, iteration and Langevin dynamics.

With S the sensitivity of the differing record (`NoisySGD.sensitivity`: 2L, or L for zero-out), the
paper's sigma is `audit.NoisySGD.noise_multiplier`, b/S times ``noise_std``, in each section:

- sections II to V measure the noise of one step in units of the sensitivity;
- section VI.A adds N(0, 4 sigma^2 L^2) to a batch's sum;
- section VII adds N(0, sigma^2 S^2) to the sum, of all n records in VII.1.

All but the subsampling results are stated for the release of every iterate, and hold for the last
one by post-processing. Amplification by Poisson sampling (II.4, IV, A.1) compares a record with its
absence, which is zero-out here, since the divisor of a batch is fixed. Theorem IV.2 has no
constants and is not a bound.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from audit import validate
from audit.bounds.accounting.composition import SubsampledGaussian
from audit.bounds.accounting.update import family_sensitivity
from audit.bounds.assumptions import ROUNDING, Assumption, fields
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import CostlyRenyiCurve, RenyiCurve
from audit.curves.tails import TailCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_sum

# ------------------------------------------------------------------------------------- accountants


_STEP_EPSILONS = 2000  # candidates for advanced composition
_MAX_ORDER = 10_000  # order of subsampled moments


LOW_RATE = Assumption(
    "a sampling rate of at most 1/5",
    lambda m: m.sampling_rate <= 0.2 * (1 + ROUNDING),
    lambda m: f"sampling_rate={m.sampling_rate:g}",
)
LARGE_NOISE = Assumption(
    "noise of at least 4 sensitivities",
    lambda m: m.noise_multiplier >= 4 * (1 - ROUNDING),
    lambda m: f"noise_std*batch_size/sensitivity={m.noise_multiplier:g}",
)


@bound("survey.gaussian_mechanism")
def gaussian_mechanism(mechanism: NoisySGD) -> PrivacyCurve:
    """One step on the full batch (Theorem II.2)."""
    return TailCurve.gaussian(math.sqrt(2) / mechanism.noise_multiplier, factor=1.25, limit=1.0)


@dataclass(frozen=True, eq=False)
class AdvancedComposition:
    """Composition of k steps, each (epsilon_0, delta_0)-DP, at the best of many epsilon_0.

    For every epsilon_0 the claim can be solved for epsilon and for delta = k delta_0 + delta'.

    epsilons, deltas: Candidates for epsilon_0, with delta_0 of each, shape ``(candidates,)``.
    times: Number of steps k.
    shortcut: Whether to use the shortcut for epsilon_0 < 1, which is false.
    """

    epsilons: Array
    deltas: Array
    times: int
    shortcut: bool

    @property
    def _slopes(self) -> Array:
        return self.epsilons * math.sqrt(2 * self.times) * (2 if self.shortcut else 1)

    @property
    def _constants(self) -> Array:
        if self.shortcut:
            return np.zeros_like(self.epsilons)
        with np.errstate(over="ignore"):
            return self.times * self.epsilons * np.expm1(self.epsilons)

    def epsilon_at(self, delta: Array) -> Array:
        """Return the least epsilon claimed."""
        spare = delta[:, None] - self.times * self.deltas
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = np.sqrt(np.maximum(-np.log(np.where(spare > 0, spare, 1.0)), 0.0))
            claimed = np.where(spare > 0, self._slopes * depth + self._constants, np.inf)
        return np.asarray(np.min(claimed, axis=1, initial=np.inf))

    def delta_at(self, epsilon: Array) -> Array:
        """Return the least delta claimed, the inverse of `epsilon_at`."""
        depth = (epsilon[:, None] - self._constants) / self._slopes
        with np.errstate(over="ignore"):
            rest = np.exp(-np.square(np.maximum(depth, 0.0)))
        claimed = np.where(depth >= 0, self.times * self.deltas + rest, 1.0)
        return np.asarray(np.min(claimed, axis=1, initial=1.0))


def _step_profile(mechanism: NoisySGD, step_epsilon: float | None) -> tuple[Array, Array]:
    """Return epsilons of one step and their deltas, amplified by Poisson sampling (II.4)."""
    mu, rate = 1 / mechanism.noise_multiplier, mechanism.sampling_rate
    if step_epsilon is not None:
        validate.positive(step_epsilon=step_epsilon)
        epsilons = np.array([float(step_epsilon)])
        return epsilons, np.asarray(_step_curve(rate, mu).delta(epsilons))
    return _many_step_epsilons(rate, mu)


def _step_curve(rate: float, mu: float) -> PrivacyCurve:
    return SubsampledGaussian(rate, mu) if rate < 1 else GaussianCurve(mu)


@functools.lru_cache(maxsize=16)
def _many_step_epsilons(rate: float, mu: float) -> tuple[Array, Array]:
    largest = mu * (mu / 2 + 12)  # delta is below 1e-30 there
    epsilons = largest * np.geomspace(1e-6, 1, _STEP_EPSILONS)
    deltas = np.asarray(_step_curve(rate, mu).delta(epsilons))
    for kept in (epsilons, deltas):
        kept.setflags(write=False)
    return epsilons, deltas


@bound("survey.advanced_composition")
def advanced_composition(mechanism: NoisySGD, *, step_epsilon: float | None = None) -> PrivacyCurve:
    """Composition of (epsilon, delta) guarantees of the steps (Theorem II.3).

    The steps are Gaussian mechanisms with their exact d(e), amplified by Theorem II.4 for Poisson
    batches.

    step_epsilon: Guarantee e of one step. Default: the best of 2000 at each point.
    """
    epsilons, deltas = _step_profile(mechanism, step_epsilon)
    claim = AdvancedComposition(epsilons, deltas, mechanism.steps, shortcut=False)
    return TailCurve(claim.epsilon_at, claim.delta_at)


@bound("survey.advanced_composition_shortcut")
def advanced_composition_shortcut(
    mechanism: NoisySGD, *, step_epsilon: float | None = None
) -> PrivacyCurve:
    """Take the shortcut of Theorem II.3 for e < 1: 2 sqrt(2T ln(1/d')) e for both terms.

    False, because the second term grows with T and the first with its root: 1000 randomised
    responses with e=.9 have 486.5 at delta=1e-5 against the 273.1 claimed, and 4 * 10^6 steps on
    linear losses with noise of 10 sensitivities, full batches and no domain refute it as well.

    step_epsilon: Guarantee e of one step, below 1. Default: the best at each point.
    """
    if step_epsilon is not None and not 0 < step_epsilon < 1:
        raise ValueError(f"step_epsilon must be in (0, 1), got {step_epsilon!r}")
    epsilons, deltas = _step_profile(mechanism, step_epsilon)
    small = epsilons < 1
    claim = AdvancedComposition(epsilons[small], deltas[small], mechanism.steps, shortcut=True)
    return TailCurve(claim.epsilon_at, claim.delta_at)


@bound("survey.subsampling")
def subsampling(mechanism: NoisySGD) -> PrivacyCurve:
    """One step on a Poisson batch (Theorem II.4); the pair reaches it in one order."""
    return _step_curve(mechanism.sampling_rate, 1 / mechanism.noise_multiplier)


@bound("survey.section_iii_a")
def section_iii_a(mechanism: NoisySGD) -> PrivacyCurve:
    """One step on a Poisson batch as section III.A takes it, with Theorem II.2.

    False: log(1 + q (e^eps - 1)) is above q eps.
    """
    rate, noise = mechanism.sampling_rate, mechanism.noise_multiplier
    return TailCurve.gaussian(rate * math.sqrt(2) / noise, factor=1.25 * rate, limit=rate)


@bound("survey.moments_accountant")
def moments_accountant(mechanism: NoisySGD) -> PrivacyCurve:
    """Add up the log moments of the steps: the moments accountant (Theorem IV.1).

    The larger of both orders, at every real order. The curve converts to epsilon and delta at least
    as well as the theorem's tail bound.
    """
    noise, rate = mechanism.noise_multiplier, mechanism.sampling_rate
    if rate == 1:
        return RenyiCurve.linear(mechanism.steps / (2 * noise**2))

    def divergence(alpha: Array) -> Array:
        return np.asarray(sampled_gaussian_renyi(alpha, rate, noise)) * mechanism.steps

    return CostlyRenyiCurve(divergence, search=(1e-4, 1e4), points=101, refinements=8)


@bound("survey.rdp_composition")
def rdp_composition(mechanism: NoisySGD) -> PrivacyCurve:
    """Adaptive composition of Gaussian mechanisms (Propositions V.1, V.3 and V.4).

    All steps of full batches meet the record, at most ceil(T b/n) in a fixed cycle.
    """
    met = -(-mechanism.steps // mechanism.steps_per_epoch)
    return RenyiCurve.linear(met / (2 * mechanism.noise_multiplier**2))


def _mtz19_divergence(alpha: Array, rate: float, noise: float, times: int) -> Array:
    log_noise = math.log(noise)
    gap = np.log1p(1 / (rate * (alpha - 1)))
    first = alpha <= noise**2 * gap / 2 - 2 * log_noise
    top = noise**2 * gap**2 / 2 - math.log(5) - 2 * log_noise
    second = alpha * (gap + np.log(rate * alpha) + 1 / (2 * noise**2)) <= top
    value = times * 2 * rate**2 * alpha / noise**2
    return np.where(first & second, value, np.inf)


@bound("survey.sampled_gaussian_mtz19", low_rate=LOW_RATE, large_noise=LARGE_NOISE)
def sampled_gaussian_mtz19(mechanism: NoisySGD) -> PrivacyCurve:
    """Poisson batches (Theorem A.1, of Mironov, Talwar and Zhang 2019)."""
    divergence = functools.partial(
        _mtz19_divergence,
        rate=mechanism.sampling_rate,
        noise=mechanism.noise_multiplier,
        times=mechanism.steps,
    )
    return RenyiCurve(divergence)


@functools.lru_cache(maxsize=1 << 14)
def _wbk19_log_moment(order: int, rate: float, mu: float) -> float:
    """(order - 1) times the bound of Theorem 9 of Wang, Balle and Kasiviswanathan (2019)."""
    if order == 1:
        return 0.0
    j = np.arange(2, order + 1, dtype=np.float64)
    log_binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    logs = j * math.log(rate) + log_binomial + j * (j - 1) * mu**2 / 2 + math.log(2)
    # the term j = 2 may take 4 (e^D_2 - 1) instead of 2 e^D_2, with D_2 = mu^2
    small = math.log(4) + (math.log(math.expm1(mu**2) or 5e-324) if mu**2 < 1 else mu**2)
    logs[0] = min(logs[0], 2 * math.log(rate) + log_binomial[0] + small)
    return float(np.logaddexp(0.0, log_sum(logs)))


def _wbk19_divergence(alpha: ArrayLike, rate: float, mu: float, times: int) -> Array:
    orders = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    unsampled = orders * mu**2 / 2
    result = unsampled.copy()
    if rate < 1:
        for place, order in enumerate(orders):
            if order <= _MAX_ORDER:
                low = math.floor(order)
                part = order - low
                # log moments are convex in the order
                moment = (1 - part) * _wbk19_log_moment(low, rate, mu)
                if part > 0:
                    moment += part * _wbk19_log_moment(low + 1, rate, mu)
                result[place] = min(moment / (order - 1), unsampled[place])
    return result * times


@bound("survey.subsampled_rdp_wbk19")
def subsampled_rdp_wbk19(mechanism: NoisySGD) -> PrivacyCurve:
    """Batches drawn without replacement (Theorem 9 of Wang, Balle and Kasiviswanathan 2019).

    For orders that are not whole the interpolated moment (their Corollary 10), and never more than
    without sampling, which also serves orders above 10^4. D_j = j mu^2/2 with the sensitivity of
    the family: the differing record takes the place of another one.
    """
    divergence = functools.partial(
        _wbk19_divergence,
        rate=mechanism.sampling_rate,
        mu=family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std),
        times=mechanism.steps,
    )
    return CostlyRenyiCurve(divergence, search=(1e-3, 1e4), points=161, refinements=6)


# -------------------------------------------------------------------------- iteration and Langevin


_MAX_RECURSION = 10_000  # steps of the recursion that are computed one by one

SHORT_STEPS = Assumption(
    "eta < 1/M with M the smoothness",
    lambda m: m.smoothness is not None and m.constant_step_size * m.smoothness < 1,
    fields("step_size", "smoothness"),
)
BALANCED_STEPS = Assumption(
    "eta < 2/(M + m) with M the smoothness",
    lambda m: (
        m.smoothness is not None and m.constant_step_size * (m.smoothness + m.strong_convexity) < 2
    ),
    fields("step_size", "smoothness"),
)
ONE_EPOCH = Assumption(
    "n/b to be whole, and at least one epoch",
    lambda m: m.dataset_size % m.batch_size == 0 and m.epochs >= 1,
    fields("steps", "dataset_size", "batch_size"),
)


def _batch(mechanism: NoisySGD, batch: int | None) -> tuple[int, int, int]:
    """Return (Q, T, kappa): batches per epoch, epochs, and the position of the record's batch."""
    count = mechanism.steps_per_epoch
    place = count if batch is None else batch
    validate.integer(1, batch=place)
    if place > count:
        raise ValueError(f"batch must be at most dataset_size/batch_size ({count}), got {batch!r}")
    return count, mechanism.steps // count, int(place)


@bound("survey.section_vi_a")
def section_vi_a(mechanism: NoisySGD, *, batch: int | None = None) -> PrivacyCurve:
    """Bound fixed batches by iteration: the inner expression of section VI.A, as printed.

    The last epoch's shift lost its factor Q^2: linear losses with alpha=2, sigma=1, Q=kappa=10, T=1
    have .1 against the .01 claimed. Besides, the cases of s_t are swapped in print, and the third
    a_t prints T for Q.

    batch: Position kappa of the record's batch in an epoch, counted from 1. Default: the last, for
    which the claim is largest.
    """
    count, epochs, place = _batch(mechanism, batch)
    inner = (count * (epochs - 1) + 1 / (count - place + 1)) / count**2
    return RenyiCurve.linear(inner / (2 * mechanism.noise_multiplier**2))


@bound("survey.section_vi_a_last")
def section_vi_a_last(mechanism: NoisySGD, *, batch: int | None = None) -> PrivacyCurve:
    """Bound fixed batches by iteration: the last expression of section VI.A, as printed.

    It does not follow from the inner one, and is false where earlier steps contract: for alpha=2,
    sigma=1, Q=10, T=1 it claims .1; records whose losses are Huber functions of curvature 1/eta
    reach .29 at B=1 and .99 at B=10.

    batch: Position kappa, counted from 1; it has no effect on this expression.
    """
    count, epochs, _ = _batch(mechanism, batch)
    return RenyiCurve.linear(epochs / count / (2 * mechanism.noise_multiplier**2))


@bound("survey.section_vi_a_corrected")
def section_vi_a_corrected(mechanism: NoisySGD, *, batch: int | None = None) -> PrivacyCurve:
    """Bound fixed batches by iteration: section VI.A with its own shifts, summed correctly.

    Theorem VI.1, which is Theorem 22 of Feldman et al. (2018).

    batch: Position kappa, counted from 1. Default: the last, which is the worst.
    """
    count, epochs, place = _batch(mechanism, batch)
    inner = (epochs - 1) / count + 1 / (count - place + 1)
    return RenyiCurve.linear(inner / (2 * mechanism.noise_multiplier**2))


@bound("survey.section_vii_a")
def section_vii_a(mechanism: NoisySGD) -> PrivacyCurve:
    """Claim the same Renyi divergence for any number K of steps (observation in VII.A).

    Setting T = eta K in the bound of Lemma VII.1 gives K times as much; linear losses have that.
    """
    return RenyiCurve.linear(1 / (2 * mechanism.noise_multiplier**2))


@bound("survey.theorem_vii_1", short_steps=SHORT_STEPS)
def theorem_vii_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound strongly convex losses on full batches by Langevin diffusion (Theorem VII.1).

    The paper starts at a random point, projected N(0, eta S^2 sigma^2/(m n^2)); from any other
    start it holds too, because it is nowhere below Theorem 4.2 of Bok, Su and Altschuler (2024),
    which does not ask for one.
    """
    pull = mechanism.constant_step_size * mechanism.strong_convexity
    decayed = -math.expm1(-pull * mechanism.steps / 2)
    return RenyiCurve.linear(4 / pull * decayed / (2 * mechanism.noise_multiplier**2))


@dataclass(frozen=True)
class _Recursion:
    """log S_K^0(alpha)/(alpha - 1) after ``steps`` steps from S = 1.

    S' = q e^((alpha-1) alpha/(2 sigma^2)) S + (1 - q) S^((1 - pull)^2), on the logarithmic scale.
    Beyond 10,000 steps the logarithm grows by at most its last increment a step, because increments
    fall as it grows, and stays below the fixed point where there is one.
    """

    rate: float
    noise: float
    pull: float
    steps: int

    def __call__(self, alpha: Array) -> Array:
        gain = (alpha - 1) * alpha / (2 * self.noise**2)
        value, increment = np.zeros_like(gain), gain
        done = min(self.steps, _MAX_RECURSION)
        for _ in range(done):
            after = self._step(gain, value)
            increment, value = after - value, after
        if self.steps > done:
            growth = (self.steps - done) * (np.maximum(increment, 0) + 4e-16 * value)
            value = np.minimum(value + growth, self._ceiling(gain, value))
        return np.asarray(value / (alpha - 1))

    def _step(self, gain: Array, value: Array) -> Array:
        met, free = gain + value, (1 - self.pull) ** 2 * value
        small = np.minimum(met, 1.0)
        near = np.log1p(
            self.rate * np.expm1(small) + (1 - self.rate) * np.expm1(np.minimum(free, small))
        )
        if np.all(met <= 1):
            return np.asarray(near)
        with np.errstate(divide="ignore"):
            log_rate, log_rest = np.log(self.rate), np.log1p(-self.rate)
        return np.where(met <= 1, near, np.logaddexp(log_rate + met, log_rest + free))

    def _ceiling(self, gain: Array, value: Array) -> Array:
        """Return the fixed point of the recursion; infinite if it grows without bound."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            excess = self.rate * np.expm1(gain) / (1 - self.rate)
            fixed = -np.log1p(-excess) / (self.pull * (2 - self.pull)) * (1 + 1e-12)
        return np.where(excess < 1, np.maximum(fixed, value), np.inf)


def _recursion(mechanism: NoisySGD, steps: int) -> PrivacyCurve:
    pull = mechanism.constant_step_size * mechanism.strong_convexity
    recursion = _Recursion(mechanism.sampling_rate, mechanism.noise_multiplier, pull, steps)
    return RenyiCurve(recursion, search=(1e-4, 1e6), points=401, refinements=0)


@bound("survey.theorem_vii_2", balanced_steps=BALANCED_STEPS)
def theorem_vii_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound strongly convex losses on batches drawn without replacement (Theorem VII.2).

    The paper's "S_0^j = 1 for all j" must read S_0^0 = 1; its epochs play no part. Both runs are
    compared batch by batch, so the sensitivity is that of the differing record.
    """
    return _recursion(mechanism, mechanism.steps)


@bound("survey.theorem_vii_2_literal", balanced_steps=BALANCED_STEPS, one_epoch=ONE_EPOCH)
def theorem_vii_2_literal(mechanism: NoisySGD) -> PrivacyCurve:
    """Run Theorem VII.2 from S_0^j = 1 for all j = 0..n/b - 1, as printed.

    With n/b=2, K=1, sigma=1, alpha=2, eta m=.01 a pair of quadratics has .68865 against .62011
    claimed.
    """
    return _recursion(mechanism, mechanism.steps - (mechanism.steps_per_epoch - 1))
