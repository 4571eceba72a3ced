"""Pairs of explicit distributions: finite laws, densities, mixtures of normals and normal vectors.

They serve claims without a one-dimensional Noisy-SGD process. A `Construction` is checked against a
mechanism, and its laws follow from its processes. Here the author of a claim asserts that the two
distributions belong to neighbouring datasets; the kinds that take a mechanism derive them from it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from audit import validate
from audit.constructions.base import Pair
from audit.constructions.registry import construction
from audit.mechanism import Batching, Choice, Composition, Losses, NoisySGD, Relation, Release

_LINE_TOLERANCE = 1e-13  # tolerated offset from the line: rounding of its longest distance
_MIN_SHARE = 0.1  # smallest ratio of the sum to that of absolute values; the rest is rounding


@dataclass(frozen=True)
class ExplicitPair(Pair):
    """Two distributions, of X and X', given by formulas."""

    unsuggested: ClassVar[str] = "no mechanism determines its laws"

    @classmethod
    def suggested(cls, mechanism: NoisySGD | Composition) -> Iterator[Self]:
        """Yield the pair of a mechanism, if the mechanism determines it and it is covered."""
        if not cls.unsuggested:
            with contextlib.suppress(ValueError):  # it covers other mechanisms
                yield cls(mechanism)  # type: ignore[call-arg]

    def distributions(self) -> Distributions:
        """Return the two distributions in numbers: by default the pair itself."""
        assert isinstance(self, Distributions)
        return self


@dataclass(frozen=True)
class Mixture:
    """Mixture of normals."""

    weights: tuple[float, ...]  #: Probabilities, which sum to 1.
    means: tuple[float, ...]  #: Mean of each component.
    stds: tuple[float, ...]  #: Standard deviation of each component.

    def __post_init__(self) -> None:
        _convert(self, _probabilities, "weights")
        _convert(self, _numbers, "means", "stds")
        if not len(self.weights) == len(self.means) == len(self.stds):
            raise ValueError(
                "weights, means and stds must be one for each normal, "
                f"got {len(self.weights)}, {len(self.means)} and {len(self.stds)}"
            )
        validate.positive(**{f"stds_{i}": std for i, std in enumerate(self.stds)})


@construction
@dataclass(frozen=True)
class Mixtures(ExplicitPair):
    """Independent draws from one of two mixtures of normals."""

    first: Mixture  #: Law of a draw under X.
    second: Mixture  #: Law of a draw under X'.
    times: int = 1  #: Number of independent draws.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.integer(1, times=self.times)


@dataclass(frozen=True)
class VectorMixture:
    """Law of a random vector g with finitely many values."""

    weights: tuple[float, ...]  #: Probabilities, which sum to 1.
    vectors: tuple[tuple[float, ...], ...]  #: Values of g, all of one length.

    def __post_init__(self) -> None:
        _convert(self, _probabilities, "weights")
        _convert(self, _rows, "vectors")
        _check_one_each("vectors", self.vectors, "weights", self.weights)


@construction
@dataclass(frozen=True)
class NormalVectors(ExplicitPair):
    """Independent draws of C g + N(0, noise_std^2 I), with g from one of two laws.

    The pair of a matrix mechanism (DP-FTRL): C is the strategy, one column a step, and g holds what
    the record adds to the gradients of the steps. Releasing g + C^-1 Z, whose noise is correlated
    between steps, tells as much.

    ``{normal vectors: {strategy: [[1], [0.5]], noise_std: 1, first: {weights: [1], vectors: [[1]]},
    second: {weights: [1], vectors: [[0]]}}}``
    """

    strategy: tuple[tuple[float, ...], ...]  #: Rows of the matrix C.
    noise_std: float  #: Standard deviation of the noise.
    first: VectorMixture  #: Law of g under X.
    second: VectorMixture  #: Law of g under X'.
    times: int = 1  #: Number of independent draws.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(noise_std=self.noise_std)
        validate.integer(1, times=self.times)
        _convert(self, _rows, "strategy")
        columns = len(self.strategy[0])
        for name, law in (("first", self.first), ("second", self.second)):
            if len(law.vectors[0]) != columns:
                raise ValueError(
                    f"vectors of {name} must have one entry for each of the {columns} columns of "
                    f"the strategy, got {len(law.vectors[0])}"
                )

    def distributions(self) -> Mixtures:
        """Return the two laws along the line that holds all values of C g."""
        vectors = np.array(self.first.vectors + self.second.vectors)
        strategy = np.array(self.strategy)
        moved = vectors - np.array(self.second.vectors[0])
        means = moved @ strategy.T
        largest = float(np.max(np.linalg.norm(np.abs(moved) @ np.abs(strategy).T, axis=1)))
        far = means[int(np.argmax(np.linalg.norm(means, axis=1)))]
        length = float(np.linalg.norm(far))
        line = far / length if length else far
        places = means @ line
        off = float(np.max(np.linalg.norm(means - np.outer(places, line), axis=1)))
        if 0 < length < _MIN_SHARE * largest:
            raise ValueError(
                "strategy must not cancel in C g, "
                f"got a distance of {length:.3g} from entries that sum to {largest:.3g}"
            )
        if off > _LINE_TOLERANCE * min(length, self.noise_std):
            raise ValueError(
                "vectors must differ along one line for a law in one dimension, "
                f"got values of C g that are {off:.3g} off it"
            )
        stds = (float(self.noise_std),) * places.size
        count = len(self.first.weights)
        times = self.times
        if count == len(self.second.weights) == 1:  # the sum of the draws tells all
            places, times = places * math.sqrt(times), 1
        ends = tuple(float(place) for place in places)
        return Mixtures(
            Mixture(self.first.weights, ends[:count], stds[:count]),
            Mixture(self.second.weights, ends[count:], stds[count:]),
            times,
        )


@construction
@dataclass(frozen=True)
class LaplaceMixtures(ExplicitPair):
    """Independent draws from one of two mixtures of Laplace laws."""

    scale: float  #: Scale of every component.
    means: tuple[float, ...]  #: Means of the components.
    first: tuple[float, ...]  #: Weights of the components under X.
    second: tuple[float, ...]  #: Weights of the components under X'.
    times: int = 1  #: Number of independent draws.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(scale=self.scale)
        validate.integer(1, times=self.times)
        _convert(self, _numbers, "means")
        _convert(self, _probabilities, "first", "second")
        for name, weights in (("first", self.first), ("second", self.second)):
            _check_one_each(name, weights, "means", self.means)


@construction
@dataclass(frozen=True)
class Finite(ExplicitPair):
    """Independent draws from one of two laws on finitely many outcomes."""

    first: tuple[float, ...]  #: Probabilities of the outcomes under X.
    second: tuple[float, ...]  #: Probabilities of the outcomes under X'.
    times: int = 1  #: Number of independent draws.

    def __post_init__(self) -> None:
        super().__post_init__()
        _convert(self, _probabilities, "first", "second")
        validate.integer(1, times=self.times)
        _check_one_each("second", self.second, "outcomes", self.first)

    @property
    def entries(self) -> int:
        """Numbers in the table of all counts of outcomes that the draws can have."""
        return len(self.first) * math.comb(self.times + len(self.first) - 1, self.times)


@construction
@dataclass(frozen=True)
class Densities(ExplicitPair):
    """Densities proportional to e^(slope x) and e^(-slope x) on [low, high]."""

    slope: float  #: Slope of the log-density, under X; the opposite under X'.
    low: float  #: Lower end of the interval.
    high: float  #: Upper end of the interval.

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(slope=self.slope)
        validate.finite(low=self.low, high=self.high)
        if not self.low < self.high:
            raise ValueError(f"low must be below high ({self.high:g}), got {self.low!r}")


@construction
@dataclass(frozen=True)
class Repeated(ExplicitPair):
    """Independent one-step runs on a dataset of one record, with opposite linear losses.

    The sum of the runs is a sufficient statistic.
    """

    mechanism: NoisySGD  #: One step on one record.
    times: int  #: Number of runs.

    covers: ClassVar[tuple[Choice, ...]] = (Losses.CHANGING,)  # one step has one loss
    unsuggested: ClassVar[str] = "the number of runs is a claim's"

    def __post_init__(self) -> None:
        super().__post_init__()
        m = self.mechanism
        self._require_covered(m)
        validate.integer(1, times=self.times)
        got = f"steps={m.steps} and dataset_size={m.dataset_size}"
        self._require(m.steps == m.dataset_size == 1, "steps=1 and dataset_size=1", got)
        self._require(m.diameter is None, "the whole line", f"diameter={m.diameter}")
        noisy = m.release is not Release.EXPONENTIAL_MECHANISM
        self._require(noisy, "a noisy step", f"release={m.release.value!r}")

    def distributions(self) -> Mixtures:
        """Return the two normal laws of the sum of the runs."""
        m = self.mechanism
        distance = self.times * m.constant_step_size * m.sensitivity
        std = math.sqrt(self.times) * m.step_std
        return Mixtures(
            Mixture((1.0,), (distance / 2,), (std,)), Mixture((1.0,), (-distance / 2,), (std,))
        )


@construction
@dataclass(frozen=True)
class ExponentialMechanism(ExplicitPair):
    """Two exponential mechanisms whose potentials differ by a linear function.

    The density is proportional to exp(-2 F/(eta sigma^2)) with F the mean loss. F and F' differ by
    (S/n) x: added to 0 on a bounded interval (exponential densities), or to a shared parabola of
    the given strong convexity on the line (two normal laws).
    """

    mechanism: NoisySGD  #: Has ``release=Release.EXPONENTIAL_MECHANISM`` and full batches.

    unsuggested: ClassVar[str] = ""

    def __post_init__(self) -> None:
        m = self.mechanism
        self._require_covered(m)
        self._require_choice(m.release, Release.EXPONENTIAL_MECHANISM)
        self._require_choice(m.batching, Batching.FULL)
        self._require(
            (m.diameter is None) != (self._curvature == 0),
            "a bounded domain without strong convexity, or the whole line with it",
            f"diameter={m.diameter} and strong_convexity={m.strong_convexity!r}",
        )
        if m.diameter is not None and m.relation is Relation.ZERO_OUT:
            # the other records pull the other way
            wanted, got = "other records for relation='zero out'", f"dataset_size={m.dataset_size}"
            self._require(m.dataset_size > 1, wanted, got)
            # and may differ from it by more than it changes
            wanted = "no gradient_sensitivity for relation='zero out'"
            got = f"gradient_sensitivity={m.gradient_sensitivity}"
            self._require(m.gradient_sensitivity is None, wanted, got)

    @property
    def _temperature(self) -> float:
        return self.mechanism.constant_step_size * self.mechanism.noise_std**2 / 2

    @property
    def _curvature(self) -> float:
        return self.mechanism.strong_convexity / self._temperature

    def distributions(self) -> Densities | Mixtures:
        """Return the two densities, or the two normal laws."""
        m = self.mechanism
        slope = m.sensitivity / m.dataset_size / self._temperature
        if m.diameter is not None:
            return Densities(slope / 2, -m.diameter / 2, m.diameter / 2)
        mean, std = slope / 2 / self._curvature, 1 / math.sqrt(self._curvature)
        return Mixtures(Mixture((1.0,), (mean,), (std,)), Mixture((1.0,), (-mean,), (std,)))


Distributions = Mixtures | LaplaceMixtures | Finite | Densities


def _convert(pair: object, checked: Callable[[str, object], object], *names: str) -> None:
    """Set fields of a frozen dataclass to what a check makes of them."""
    for name in names:
        object.__setattr__(pair, name, checked(name, getattr(pair, name)))


def _check_one_each(name: str, values: Sequence[object], of: str, others: Sequence[object]) -> None:
    if len(values) != len(others):
        raise validate.fail(name, f"one for each of the {len(others)} {of}", len(values))


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise validate.fail(name, "a list of numbers", values)
    validate.finite(**{f"{name}_{i}": value for i, value in enumerate(values)})
    return tuple(float(value) for value in values)


def _rows(name: str, rows: object) -> tuple[tuple[float, ...], ...]:
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise validate.fail(name, "a list of lists of numbers", rows)
    matrix = tuple(_numbers(f"{name}_{i}", row) for i, row in enumerate(rows))
    if len({len(row) for row in matrix}) > 1:
        raise ValueError(
            f"{name} must be of one length, got {', '.join(str(len(row)) for row in matrix)}"
        )
    return matrix


def _probabilities(name: str, values: object) -> tuple[float, ...]:
    numbers = _numbers(name, values)
    validate.closed_unit(**{f"{name}_{i}": value for i, value in enumerate(numbers)})
    if abs(math.fsum(numbers) - 1) > 1e-9:
        raise ValueError(f"{name} must sum to 1, got {math.fsum(numbers)!r}")
    return numbers
