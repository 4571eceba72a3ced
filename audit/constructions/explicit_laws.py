"""Textbook mechanisms as pairs of explicit laws, with and without a record.

X holds the record and X' does not. With ``sampling_rate`` q < 1 the record participates with
probability q (Poisson subsampling, add/remove): X has the law q P + (1 - q) Q. The ``times`` runs
are independent and all released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit import validate
from audit.constructions.explicit import ExplicitPair, Finite, LaplaceMixtures, Mixture, Mixtures
from audit.constructions.registry import construction
from audit.mechanism import Batching, Choice, Composition, Divisor, NoisySGD, Relation, Release

_MAX_OUTCOMES = 200_000  # outcomes of one run
_MAX_LOSS = 650  # largest epsilon: e^-700 underflows
_REACH = 37.0  # standard deviations of a discrete Gaussian; the mass beyond is below 1e-297


@dataclass(frozen=True, kw_only=True)
class TextbookMechanism(ExplicitPair):
    """Mechanism that may be subsampled and repeated."""

    sampling_rate: float = 1.0  #: Probability with which the record participates.
    times: int = 1  #: Number of independent runs, all released.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(sampling_rate=self.sampling_rate)
        validate.closed_unit(sampling_rate=self.sampling_rate)
        validate.integer(1, times=self.times)

    def _of(self, first: Sequence[float], second: Sequence[float]) -> Finite:
        """Return the laws of an answer, where the first is that of a record that participates."""
        q = self.sampling_rate
        pairs = zip(first, second, strict=True)
        mixed = first if q == 1 else [q * p + (1 - q) * rest for p, rest in pairs]
        return Finite(tuple(mixed), tuple(second), self.times)


@construction
@dataclass(frozen=True, kw_only=True)
class Gaussian(TextbookMechanism):
    """Gaussian mechanism: a number of given sensitivity plus N(0, noise_std^2).

    ``{gaussian: {sensitivity: 1, noise_std: 2}}``
    """

    sensitivity: float  #: Largest change of the released number by one record.
    noise_std: float  #: Standard deviation of the noise.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(sensitivity=self.sensitivity, noise_std=self.noise_std)

    def distributions(self) -> Mixtures:
        """Return two normal laws, of the sum of the runs if the record is in all of them."""
        q, std, distance = self.sampling_rate, self.noise_std, self.sensitivity
        without = Mixture((1.0,), (0.0,), (std,))
        if q == 1:
            return Mixtures(Mixture((1.0,), (distance * math.sqrt(self.times),), (std,)), without)
        with_record = Mixture((1 - q, q), (0.0, distance), (std, std))
        return Mixtures(with_record, without, self.times)


@construction
@dataclass(frozen=True, kw_only=True)
class Laplace(TextbookMechanism):
    """Laplace mechanism: a number of given sensitivity plus noise, (sensitivity/scale, 0)-DP.

    ``{laplace: {sensitivity: 1, scale: 2}}``
    """

    sensitivity: float  #: Largest change of the released number by one record.
    scale: float  #: Scale of the Laplace noise.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(sensitivity=self.sensitivity, scale=self.scale)

    def distributions(self) -> LaplaceMixtures:
        """Return the two (mixtures of) Laplace laws."""
        q, means = self.sampling_rate, (0.0, self.sensitivity)
        return LaplaceMixtures(self.scale, means, (1 - q, q), (1.0, 0.0), self.times)


@construction
@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(TextbookMechanism):
    """Randomised response, (epsilon, 0)-DP: the true answer with odds e^epsilon to any other.

    ``{randomised response: {epsilon: 1}}``
    """

    epsilon: float  #: Privacy loss of one answer.
    outcomes: int = 2  #: Number of possible answers.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(epsilon=self.epsilon)
        validate.integer(2, outcomes=self.outcomes)
        if self.epsilon > _MAX_LOSS:
            raise validate.fail("epsilon", f"at most {_MAX_LOSS}", self.epsilon)

    def distributions(self) -> Finite:
        """Return the laws of the two differing answers, and of all others together."""
        others = self.outcomes - 2
        least = 1 / (math.exp(self.epsilon) + self.outcomes - 1)
        most = math.exp(self.epsilon) * least
        rest = (others * least,) if others else ()
        return self._of((most, least, *rest), (least, most, *rest))


@construction
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(TextbookMechanism):
    """Geometric mechanism: an integer of given sensitivity plus discrete Laplace noise.

    The noise k has probability proportional to e^(-|k|/scale): (sensitivity/scale, 0)-DP (Ghosh,
    Roughgarden and Sundararajan 2012). ``{discrete laplace: {sensitivity: 1, scale: 2}}``
    """

    sensitivity: int  #: Largest change of the released number by one record.
    scale: float  #: Scale of the noise.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.integer(1, sensitivity=self.sensitivity)
        validate.positive(scale=self.scale)
        if self.sensitivity > _MAX_OUTCOMES:
            raise validate.fail("sensitivity", f"at most {_MAX_OUTCOMES}", self.sensitivity)
        if self.sensitivity > _MAX_LOSS * self.scale:
            raise validate.fail("scale", f"at least sensitivity/{_MAX_LOSS}", self.scale)

    def distributions(self) -> Finite:
        """Return the laws of min(max(k, 0), sensitivity); the loss is constant beyond."""
        fall = math.exp(-1 / self.scale)
        inner = np.arange(1, self.sensitivity)
        tail, unit = 1 / (1 + fall), -math.expm1(-1 / self.scale) / (1 + fall)
        far = math.exp(-self.sensitivity / self.scale) * tail
        first = (far, *(unit * np.exp((inner - self.sensitivity) / self.scale)).tolist(), tail)
        return self._of(first, first[::-1])


@construction
@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(TextbookMechanism):
    """Discrete Gaussian mechanism: an integer of given sensitivity plus discrete normal noise.

    The noise k has probability proportional to e^(-k^2/(2 noise_std^2)) (Canonne, Kamath and
    Steinke 2020). In its explicit laws each tail, from 37 deviations of the farther mean on, is one
    outcome: lower bounds are theirs, and upper bounds cover what they hide.
    ``{discrete gaussian: {sensitivity: 1, noise_std: 2}}``
    """

    sensitivity: int  #: Largest change of the released number by one record.
    noise_std: float  #: Parameter of the noise.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.integer(1, sensitivity=self.sensitivity)
        validate.positive(noise_std=self.noise_std)
        if 2 * _REACH * self.noise_std + self.sensitivity > _MAX_OUTCOMES:
            raise validate.fail(
                "noise_std", f"small enough for {_MAX_OUTCOMES} outcomes", self.noise_std
            )
        if self.sensitivity > _REACH * self.noise_std:
            raise validate.fail("noise_std", f"at least sensitivity/{_REACH:g}", self.noise_std)

    @property
    def reach(self) -> int:
        """Distance of the tails from the nearer mean."""
        return math.floor(_REACH * self.noise_std) - self.sensitivity

    def distributions(self) -> Finite:
        """Return the laws of all k with a probability above 1e-300 under both."""
        k = np.arange(-self.reach, self.sensitivity + self.reach + 1, dtype=np.float64)
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
            laws.append(masses.tolist())
        return self._of(*laws)


@construction
@dataclass(frozen=True)
class AllIterates(ExplicitPair):
    """Dominating pair of a mechanism that releases all iterates (see `audit.dominating`).

    Linear losses attain it: in every step the gradient of the differing record is as large as
    allowed, and those of the others are 0. Noise and distances are in units of the sensitivity.
    """

    mechanism: NoisySGD | Composition  #: Has ``release=Release.ALL_ITERATES``.

    covers: ClassVar[tuple[Choice, ...]] = (
        *Batching,
        *Relation,
        *Divisor,
        Release.ALL_ITERATES,
    )
    unsuggested: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, Composition):
            return
        self._require_covered(self.mechanism)
        self._require_choice(self.mechanism.release, Release.ALL_ITERATES)

    def distributions(self) -> Mixtures:
        """Return the laws of the noisy gradients of ``times`` steps."""
        m = self.mechanism
        if isinstance(m, Composition):
            raise ValueError(f"AllIterates by formula {m.uncovered()}")
        if m.divisor is not Divisor.NOMINAL:
            raise ValueError(
                "divisor must be 'nominal' for the laws of all iterates by formula, "
                f"got {m.divisor.value!r}"
            )
        z, rates = m.noise_multiplier, (m.skipping_rate, m.sampling_rate)

        def gaussians(times: int) -> Mixtures:
            return Gaussian(sensitivity=1.0, noise_std=z, times=times).distributions()

        def of_a_step(mean: float) -> Mixture:
            return Mixture(rates, (0.0, mean), (z, z))

        removed = m.relation is Relation.ADD_REMOVE  # moves others to other cyclic batches
        if m.batching is Batching.FULL or (m.batching is Batching.CYCLIC and not removed):
            # the record is in the first batch, which is used most often
            return gaussians(times=-(-m.steps * m.batch_size // m.dataset_size))
        replaced = m.relation is Relation.REPLACE_ONE
        if m.batching is Batching.POISSON and replaced:
            first, second = (of_a_step(mean) for mean in (0.5, -0.5))
            return Mixtures(first, second, m.steps)
        # without replacement, the others have the gradient of the record that replaces it
        if m.batching is Batching.POISSON or (
            m.batching is Batching.WITHOUT_REPLACEMENT and replaced
        ):
            if m.sampling_rate == 1:
                return gaussians(times=m.steps)
            return Mixtures(of_a_step(1.0), Mixture((1.0,), (0.0,), (z,)), m.steps)
        raise ValueError(
            "batching must be 'full', 'poisson' or (unless records are removed) 'cyclic' for "
            f"the laws of all iterates by formula, got {m.batching.value!r}"
        )
