"""Textbook mechanisms as pairs of explicit laws: what they release with and without a record.

X holds the record and X' does not. With ``sampling_rate`` q < 1 the record takes part with
probability q (Poisson subsampling, add/remove): X has the law q P + (1 - q) Q. ``times`` runs are
independent, and all of them are released.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from audit import validate
from audit.constructions.explicit import (
    ExplicitPair,
    Finite,
    LaplaceMixtures,
    Mixture,
    Mixtures,
)
from audit.constructions.registry import construction
from audit.mechanism import (
    Batching,
    Choice,
    Composition,
    Divisor,
    NoisySGD,
    Relation,
    Release,
)

_MOST_OUTCOMES = 200_000  # of one run
_MOST_LOSS = 650  # of pure privacy: probabilities of e^-700 have no digits
_REACH = 37.0  # standard deviations of a discrete Gaussian: beyond, less than 1e-297


@dataclass(frozen=True)
class TextbookMechanism(ExplicitPair):
    """A mechanism that may be subsampled and repeated."""

    def _check_runs(self, sampling_rate: float, times: int) -> None:
        validate.positive(sampling_rate=sampling_rate)
        validate.closed_unit(sampling_rate=sampling_rate)
        validate.integer(1, times=times)

    @abstractmethod
    def distributions(self) -> Mixtures | LaplaceMixtures | Finite:
        """Return the two laws by their numbers."""


@construction
@dataclass(frozen=True, kw_only=True)
class Gaussian(TextbookMechanism):
    """A number of this sensitivity plus N(0, noise_std^2).

    ``{gaussian: {sensitivity: 1, noise_std: 2}}``
    """

    sensitivity: float
    noise_std: float
    sampling_rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        validate.positive(sensitivity=self.sensitivity, noise_std=self.noise_std)
        self._check_runs(self.sampling_rate, self.times)

    def distributions(self) -> Mixtures:
        """Return two normal laws, of the sum of all runs where the record is in every one."""
        q, std = float(self.sampling_rate), float(self.noise_std)
        distance = float(self.sensitivity)
        without = Mixture((1.0,), (0.0,), (std,))
        if q == 1:
            return Mixtures(Mixture((1.0,), (distance * math.sqrt(self.times),), (std,)), without)
        held = Mixture((1 - q, q), (0.0, distance), (std, std))
        return Mixtures(held, without, self.times)


@construction
@dataclass(frozen=True, kw_only=True)
class Laplace(TextbookMechanism):
    """A number of this sensitivity plus Laplace noise: (sensitivity/scale, 0)-DP.

    ``{laplace: {sensitivity: 1, scale: 2}}``
    """

    sensitivity: float
    scale: float
    sampling_rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        validate.positive(sensitivity=self.sensitivity, scale=self.scale)
        self._check_runs(self.sampling_rate, self.times)

    def distributions(self) -> LaplaceMixtures:
        """Return two (mixtures of) Laplace laws."""
        q = float(self.sampling_rate)
        means = (0.0, float(self.sensitivity))
        return LaplaceMixtures(float(self.scale), means, (1 - q, q), (1.0, 0.0), self.times)


@construction
@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(TextbookMechanism):
    """The true answer of ``outcomes`` with odds e^epsilon against each other one: (epsilon, 0)-DP.

    ``{randomised response: {epsilon: 1}}``
    """

    epsilon: float
    outcomes: int = 2
    sampling_rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        validate.positive(epsilon=self.epsilon)
        validate.integer(2, outcomes=self.outcomes)
        if self.epsilon > _MOST_LOSS:
            raise validate.fail("epsilon", f"at most {_MOST_LOSS}", self.epsilon)
        self._check_runs(self.sampling_rate, self.times)

    def distributions(self) -> Finite:
        """Return the laws of the two answers that differ, and of all others together."""
        others = self.outcomes - 2
        least = 1 / (math.exp(self.epsilon) + self.outcomes - 1)
        most = math.exp(self.epsilon) * least
        rest = (others * least,) if others else ()
        pair = Finite((most, least, *rest), (least, most, *rest), self.times)
        return _subsampled(pair, self.sampling_rate)


@construction
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(TextbookMechanism):
    """A whole number of this sensitivity plus k with probability ~ e^(-|k|/scale).

    The geometric mechanism (Ghosh, Roughgarden and Sundararajan 2012): (sensitivity/scale, 0)-DP.
    ``{discrete laplace: {sensitivity: 1, scale: 2}}``
    """

    sensitivity: int
    scale: float
    sampling_rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        validate.integer(1, sensitivity=self.sensitivity)
        validate.positive(scale=self.scale)
        if self.sensitivity > _MOST_OUTCOMES:
            raise validate.fail("sensitivity", f"at most {_MOST_OUTCOMES}", self.sensitivity)
        if self.sensitivity > _MOST_LOSS * self.scale:
            raise validate.fail("scale", f"at least sensitivity/{_MOST_LOSS}", self.scale)
        self._check_runs(self.sampling_rate, self.times)

    def distributions(self) -> Finite:
        """Return the laws of min(max(k, 0), sensitivity): beyond, the loss is constant."""
        fall = math.exp(-1 / self.scale)
        inner = np.arange(1, self.sensitivity)
        tail, unit = 1 / (1 + fall), -math.expm1(-1 / self.scale) / (1 + fall)
        far = math.exp(-self.sensitivity / self.scale) * tail
        first = (far, *(unit * np.exp((inner - self.sensitivity) / self.scale)).tolist(), tail)
        return _subsampled(Finite(first, first[::-1], self.times), self.sampling_rate)


@construction
@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(TextbookMechanism):
    """A whole number of this sensitivity plus k with probability ~ e^(-k^2/(2 noise_std^2)).

    Canonne, Kamath and Steinke (2020). The far tails, together less than 1e-290, count as one
    outcome each; so at delta = 0 epsilon comes out as some 37 sensitivity/noise_std, a lower bound,
    where it is infinite. ``{discrete gaussian: {sensitivity: 1, noise_std: 2}}``
    """

    sensitivity: int
    noise_std: float
    sampling_rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        validate.integer(1, sensitivity=self.sensitivity)
        validate.positive(noise_std=self.noise_std)
        if 2 * _REACH * self.noise_std + self.sensitivity > _MOST_OUTCOMES:
            raise validate.fail(
                "noise_std", f"small enough for {_MOST_OUTCOMES} outcomes", self.noise_std
            )
        if self.sensitivity > _REACH * self.noise_std:
            raise validate.fail("noise_std", f"at least sensitivity/{_REACH:g}", self.noise_std)
        self._check_runs(self.sampling_rate, self.times)

    def distributions(self) -> Finite:
        """Return the laws of all k that have a probability above 1e-300 under both."""
        reach = math.floor(_REACH * self.noise_std) - self.sensitivity
        k = np.arange(-reach, self.sensitivity + reach + 1, dtype=np.float64)
        wide = np.arange(k[0] - 50 * self.noise_std - 2, k[-1] + 50 * self.noise_std + 3)
        wide = np.round(wide)
        laws = []
        for mean in (float(self.sensitivity), 0.0):
            log_weights = -(((wide - mean) / self.noise_std) ** 2) / 2
            weights = np.exp(log_weights)
            weights /= math.fsum(weights.tolist())
            inside = (wide >= k[0]) & (wide <= k[-1])
            masses = weights[inside]
            masses[0] += math.fsum(weights[wide < k[0]].tolist())
            masses[-1] += math.fsum(weights[wide > k[-1]].tolist())
            laws.append(tuple(masses.tolist()))
        return _subsampled(Finite(laws[0], laws[1], self.times), self.sampling_rate)


@construction
@dataclass(frozen=True)
class AllIterates(ExplicitPair):
    """The dominating pair of a mechanism that releases all iterates (see `audit.dominating`).

    Linear losses attain it: in every step the gradient of the differing record is as large as it
    may be, and those of the others are 0. Noise and distances are in units of the sensitivity.
    """

    mechanism: NoisySGD | Composition

    covers: ClassVar[tuple[Choice, ...]] = (
        *Batching,
        *Relation,
        *Divisor,
        Release.ALL_ITERATES,
    )

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, Composition):
            return
        refusal = self.mechanism.uncovered(self.covers)
        if refusal is not None:
            raise ValueError(f"{self.name} {refusal}")
        if self.mechanism.release is not Release.ALL_ITERATES:
            raise ValueError(
                "AllIterates needs release='all iterates', "
                f"got release={self.mechanism.release.value!r}"
            )

    def distributions(self) -> Mixtures:
        """Return the laws of the noisy gradients of ``times`` steps.

        Raises
        ------
        ValueError
            If the batches are neither full nor sampled (Poisson, or without replacement under
            replace-one), or divided by their actual size, or the mechanism is a composition: no
            formula is known then.
        """
        m = self.mechanism
        if isinstance(m, Composition):
            raise ValueError(f"AllIterates by formula {m.uncovered()}")
        if m.divisor is not Divisor.NOMINAL:
            raise ValueError(
                "divisor must be 'nominal' for the laws of all iterates by formula, "
                f"got {m.divisor.value!r}"
            )
        if m.batching is Batching.FULL:
            return Gaussian(
                sensitivity=1.0, noise_std=m.noise_multiplier, times=m.steps
            ).distributions()
        replaced = m.relation is Relation.REPLACE_ONE
        if m.batching is Batching.WITHOUT_REPLACEMENT and replaced:
            # the gradients of the others are those of the record that takes its place
            return self._sampled(m)
        if m.batching is not Batching.POISSON:
            raise ValueError(
                "batching must be 'full' or 'poisson' for the laws of all iterates by formula, "
                f"got {m.batching.value!r}"
            )
        if not replaced:
            return self._sampled(m)
        q, std = m.sampling_rate, m.noise_multiplier
        first, second = (Mixture((1 - q, q), (0.0, end), (std, std)) for end in (0.5, -0.5))
        return Mixtures(first, second, m.steps)

    @staticmethod
    def _sampled(m: NoisySGD) -> Mixtures:
        return Gaussian(
            sensitivity=1.0,
            noise_std=m.noise_multiplier,
            sampling_rate=m.sampling_rate,
            times=m.steps,
        ).distributions()


def _subsampled(pair: Finite, rate: float) -> Finite:
    if rate == 1:
        return pair
    held = tuple(rate * p + (1 - rate) * q for p, q in zip(pair.first, pair.second, strict=True))
    return replace(pair, first=held)
