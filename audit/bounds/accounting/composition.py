"""Sampled Gaussian steps C_p(G(mu)), and compositions C_p(G(mu))^k with a Gaussian mechanism.

C_p(G(mu)) has the losses of a sampled step above 0, and their mirror images below. Compositions are
those of `audit.dominating`, which bound them from both sides on a grid of losses. Where there are
too many steps, or epsilon is above 10^7, the bound is the better one of the Renyi divergences and
of all steps without sampling.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import numpy as np

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.gaussian import GaussianCurve
from audit.curves.minimum import MinimumCurve
from audit.dominating.layer import Layer, saddle_point_epsilon
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.runs import MixtureRun
from audit.dominating.sampled_gaussian import mirrored_renyi
from audit.dominating.without_replacement import (
    COARSE_GRID,
    MAX_GRID,
    MirroredCurve,
    mirrored_curve,
    mirrored_moments,
)
from audit.numerics.arrays import Array
from audit.numerics.normal import gaussian_delta

MAX_COMPOSITION = 10**7
"""Beyond this many steps rounding is too large, and Renyi divergences are used."""

_MAX_MU = 1e4  # beyond, epsilon is above 10^7 and losses have too few digits
_FEW_STEPS = 64  # lengths up to this many steps are compared by composing them
_TILTS = np.geomspace(1e-4, 1e6, 300)  # tilts for approximate epsilons
_CHUNK = 1 << 16  # points at a time: gaussian_delta needs 16 numbers for each

_MAX_EXPONENT = 700.0  # e^700 is finite

# Curves in use, since several bounds on one mechanism contain the same composition.
_CURVES: WeakValueDictionary[tuple[object, ...], MirroredCurve] = WeakValueDictionary()


@dataclass(frozen=True)
class SubsampledGaussian(PrivacyCurve):
    """C_p(G(mu)), exact: the worst pair of one step on a batch drawn without replacement.

    The operator C_p is that of Bok, Su and Altschuler (2024, Definition 4.7, after Dong, Roth and
    Su 2022, Definition 6), with p = b/n.

    Above loss 0 the pair is the mixture (1 - p) N(0, 1) + p N(mu, 1) against N(0, 1), below loss 0
    its mirror image, with an atom of mass (1 - p)(2 Phi(mu/2) - 1) at loss 0 between them. Hence

        delta(eps) = p delta_G(log(1 + (e^eps - 1)/p)),  delta(-eps) = 1 - e^-eps (1 - delta(eps))

    for eps >= 0, with delta_G the profile of N(0, 1) against N(mu, 1).

    rate: Sampling rate p, in (0, 1].
    mu: Distance of the two means in units of the noise, above 0.
    """

    rate: float
    mu: float

    def __post_init__(self) -> None:
        validate.positive(rate=self.rate, mu=self.mu)
        validate.closed_unit(rate=self.rate)

    @property
    def symmetric(self) -> bool:
        """True if both orders have the same values; true, since C_p symmetrises."""
        return True

    def gaussian_loss(self, loss: Array) -> Array:
        """Return log(1 + (e^loss - 1)/p): the loss without sampling."""
        small = np.minimum(loss, 1.0)
        large = np.maximum(loss, 1.0)
        return np.where(
            loss < 1,
            np.log1p(np.expm1(small) / self.rate),
            large - math.log(self.rate) + np.log1p((self.rate - 1) * np.exp(-large)),
        )

    def divergence(self, alpha: Array) -> Array:
        """Return upper bounds on the Renyi divergences, equal in both orders."""
        return mirrored_renyi(np.atleast_1d(alpha), self.rate, self.mu)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        result = np.empty_like(size)
        for start in range(0, size.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            result[part] = gaussian_delta(self.gaussian_loss(size[part]), np.asarray(self.mu))
        result *= self.rate
        return np.where(epsilon >= 0, result, 1 - np.exp(-size) * (1 - result))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        # where this truncates, delta(0) is already below delta
        inner = np.minimum(delta / self.rate, np.nextafter(1.0, 0.0))
        plain = np.asarray(GaussianCurve(self.mu).epsilon(inner))
        small, large = np.minimum(plain, _MAX_EXPONENT), np.maximum(plain, _MAX_EXPONENT)
        log_rate = math.log(self.rate)
        exact = np.where(
            plain < _MAX_EXPONENT,
            np.log1p(self.rate * np.expm1(small)),
            large + log_rate + np.log1p((1 - self.rate) / self.rate * np.exp(-large)),
        )
        return np.where(delta >= self._delta(np.zeros(1), order), 0.0, exact)

    def _beta(self, alpha: Array, order: Order) -> Array:
        # points down to delta = 1e-14; beyond, double precision does not change
        largest = float(self._epsilon(np.array([1e-14]), order)[0])
        points = profile_points(largest, 4096)
        return tradeoff_from_profile(alpha, points, self._delta(points, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self.divergence(alpha)


def compose(
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float = 0.0,
    *,
    beside: SubsampledGaussian | None = None,
    largest_grid: int = MAX_GRID,
) -> PrivacyCurve:
    """Return an upper bound on C_p(G(mu))^times composed with G(gaussian_mu) and ``beside``."""
    validate.integer(1, times=times)
    validate.nonnegative(gaussian_mu=gaussian_mu)
    if beside is not None and (beside.rate == 1 or beside == step):
        # a Gaussian mechanism, or one step more
        if beside == step:
            return compose(step, times + 1, gaussian_mu, largest_grid=largest_grid)
        both = math.hypot(gaussian_mu, beside.mu)
        return compose(step, times, both, largest_grid=largest_grid)
    besides = 0.0 if beside is None else beside.mu
    unsampled = GaussianCurve(math.hypot(math.sqrt(times) * step.mu, gaussian_mu, besides))
    if step.rate == 1:
        if beside is None:
            return unsampled
        merged = math.hypot(math.sqrt(times) * step.mu, gaussian_mu)
        return compose(beside, 1, merged, largest_grid=largest_grid)
    if times == 1 and gaussian_mu == 0 and beside is None:
        return step
    step = _with_48_bits(step)
    key = (step, times, gaussian_mu, beside, largest_grid)
    known = _CURVES.get(key)
    if known is not None:
        return known
    laws = [(step, times)] if beside is None else [(step, times), (beside, 1)]
    runs = [_run(*law) for law in laws]
    if gaussian_mu:
        runs.append(_run(SubsampledGaussian(1.0, gaussian_mu)))
    divergence = functools.partial(_divergence, laws=laws, gaussian_mu=gaussian_mu)
    if times > MAX_COMPOSITION or unsampled.mu > _MAX_MU:
        moments = mirrored_moments(runs, divergence)
        return MinimumCurve((moments, unsampled), ("Renyi divergences", "without sampling"))
    return _CURVES.setdefault(key, mirrored_curve(runs, divergence, largest_grid))


def _run(step: SubsampledGaussian, times: int = 1) -> MixtureRun:
    return MixtureRun(MixturePair(step.rate, 1 / step.mu, 1.0, two_sided=False), times)


def _with_48_bits(step: SubsampledGaussian) -> SubsampledGaussian:
    """Return the step with its parameter rounded up to 48 bits.

    Bounds compute it in different orders; their compositions are then one.
    """
    mantissa, exponent = math.frexp(step.mu)
    return replace(step, mu=math.ldexp(math.ceil(mantissa * 2.0**48) / 2.0**48, exponent))


def _divergence(
    alpha: Array, *, laws: Sequence[tuple[SubsampledGaussian, int]], gaussian_mu: float
) -> Array:
    total = sum(times * step.divergence(alpha) for step, times in laws)
    return np.asarray(total + alpha * gaussian_mu**2 / 2)


def coarse_epsilons(
    step: SubsampledGaussian,
    *,
    gaussian: Callable[[int], float] = lambda times: 0.0,
    beside: SubsampledGaussian | None = None,
) -> Callable[[int, float], float]:
    """Return approximate epsilons of compositions as in `compose`, to compare their lengths.

    They follow from moments by the saddle point method, so that a length costs next to nothing,
    but for a few steps, where that errs by more than a percent.
    """
    tails = log_tails(1)

    def cumulants(step: SubsampledGaussian) -> Array:
        if step.rate == 1:
            mean, variance = _TILTS + 0.5, np.ones_like(_TILTS)
            return step.mu**2 * np.array([_TILTS * (_TILTS + 1) / 2, mean, variance])
        run = _run(step)
        pair, _ = run.mirrored(True, run.pair.losses(tails)[1] / COARSE_GRID, tails)
        return Layer([(None, pair, 1)]).approximate(_TILTS)

    once = cumulants(step)
    other = 0.0 if beside is None else cumulants(beside)
    normal = cumulants(SubsampledGaussian(1.0, 1.0))

    def approximate(times: int, delta: float) -> float:
        if times < _FEW_STEPS:
            curve = compose(step, times, gaussian(times), beside=beside, largest_grid=COARSE_GRID)
            return float(curve.epsilon(delta))
        return saddle_point_epsilon(
            _TILTS, times * once + gaussian(times) ** 2 * normal + other, delta
        )

    return approximate
