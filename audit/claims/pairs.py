"""Pairs of laws given by numbers, for claims that no one-dimensional Noisy-SGD process stands for.

A construction of `audit.constructions` is checked against a mechanism; of the pairs here the
claim's author says that they are neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp

from audit import validate
from audit.claims.discrete import PROBABILITY_ERROR, DiscreteLaws
from audit.constructions.base import Construction

Array = NDArray[np.float64]

_TAIL = 38.0  # standard deviations: beyond, less than 1e-300
_FAR = 1000.0
_CELLS = 3000  # for each different normal
_MOST_CELLS = 400_000
_MOST_OUTCOMES = 1_000_000
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Mixture:
    """A mixture of normals: ``weights[i]`` of N(means[i], stds[i]^2)."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    stds: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("weights", "means", "stds"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        if not len(self.weights) == len(self.means) == len(self.stds):
            raise ValueError(
                "weights, means and stds must be one for each normal, "
                f"got {len(self.weights)}, {len(self.means)} and {len(self.stds)}"
            )
        _check_probabilities("weights", self.weights)
        validate.positive(**{f"stds_{i}": std for i, std in enumerate(self.stds)})

    def log_masses(self, edges: Array) -> Array:
        """Log probabilities of the cells between edges, the first and the last one endless."""
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        parts = []
        for weight, mean, std in zip(self.weights, self.means, self.stds, strict=True):
            if weight > 0:
                scaled = (ends - mean) / std
                low, high = scaled[:-1], scaled[1:]
                flip = low > 0  # in the upper tail the complements keep their digits
                low, high = np.where(flip, -high, low), np.where(flip, -low, high)
                upper = log_ndtr(high)
                with np.errstate(divide="ignore", invalid="ignore"):
                    gap = np.minimum(log_ndtr(low) - upper, -1e-300)
                    parts.append(math.log(weight) + upper + np.log(-np.expm1(gap)))
        return np.asarray(logsumexp(parts, axis=0))


@dataclass(frozen=True)
class Mixtures:
    """Two mixtures of normals."""

    first: Mixture
    second: Mixture

    name = "Mixtures"

    def cells(self, refinement: int = 1) -> DiscreteLaws:
        """Cut the line into cells, finer than any of the normals."""
        normals = {
            (mean, std)
            for law in (self.first, self.second)
            for mean, std in zip(law.means, law.stds, strict=True)
        }
        count = max(60, min(_CELLS, _MOST_CELLS // len(normals)))
        # high Renyi orders look far out
        far = np.geomspace(_TAIL, _FAR, count // 2)[1:]
        grid = np.concatenate([-far[::-1], np.linspace(-_TAIL, _TAIL, count + 1), far])
        edges = np.unique(np.concatenate([mean + std * grid for mean, std in sorted(normals)]))
        # every cell is cut alike, so that what finer cells add falls with the square of their size
        places = np.arange((edges.size - 1) * refinement + 1) / refinement
        edges = np.interp(places, np.arange(edges.size), edges)
        return DiscreteLaws(self.first.log_masses(edges), self.second.log_masses(edges))


@dataclass(frozen=True)
class Finite:
    """``times`` independent draws from one of two laws on finitely many outcomes."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    times: int = 1

    name = "Finite"

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
            _check_probabilities(name, getattr(self, name))
        validate.integer(1, times=self.times)
        if len(self.first) != len(self.second):
            raise ValueError(
                f"second must have one probability for each of the {len(self.first)} outcomes, "
                f"got {len(self.second)}"
            )
        if math.comb(self.times + len(self.first) - 1, len(self.first) - 1) > _MOST_OUTCOMES:
            raise ValueError(
                f"times must leave at most {_MOST_OUTCOMES} different counts, got {self.times}"
            )

    def cells(self, refinement: int = 1) -> DiscreteLaws:
        """Return the laws of the counts of each outcome, which say all that the draws say."""
        counts = _counts(self.times, len(self.first))
        ways = gammaln(self.times + 1) - np.sum(gammaln(counts + 1), axis=1)
        return DiscreteLaws(
            ways + _log_likelihood(counts, self.first),
            ways + _log_likelihood(counts, self.second),
            self._relative_error(),
        )

    def _relative_error(self) -> float:
        """Bound on the relative error of a probability of counts, whose logarithms may be large.

        Probabilities that are written down need not sum to 1 in their last digits.
        """
        given = [p for p in (*self.first, *self.second) if p > 0]
        largest = float(gammaln(self.times + 1)) - self.times * math.log(min(given))
        sums = max(abs(math.fsum(law) - 1) for law in (self.first, self.second))
        return PROBABILITY_ERROR + 8 * _UNIT_ROUNDOFF * largest + 2 * self.times * sums


@dataclass(frozen=True)
class Densities:
    """Densities proportional to e^(slope x) and to e^(-slope x) on [low, high]."""

    slope: float
    low: float
    high: float

    name = "Densities"

    def __post_init__(self) -> None:
        validate.positive(slope=self.slope)
        validate.finite(low=self.low, high=self.high)
        if not self.low < self.high:
            raise ValueError(f"low must be below high ({self.high:g}), got {self.low!r}")

    def cells(self, refinement: int = 1) -> DiscreteLaws:
        """Cut the interval into equal cells."""
        edges = np.linspace(self.low, self.high, 20_000 * refinement + 1)
        return DiscreteLaws(*(_exponential_masses(s, edges) for s in (self.slope, -self.slope)))


GivenPair = Mixtures | Finite | Densities
Pair = Construction | GivenPair

GIVEN = ("Mixtures", "Finite", "Densities")


def given_pair(kind: str, parameters: Mapping[str, object]) -> GivenPair:
    """Return the pair of a name in ``GIVEN``, from plain numbers.

    Raises
    ------
    ValueError
        If a parameter is missing, unknown or out of its range.
    """
    validate.one_of(GIVEN, kind=kind)
    names = {"Mixtures": ("first", "second"), "Finite": ("first", "second", "times")}
    allowed = names.get(kind, ("slope", "low", "high"))
    required = ("first", "second") if kind in names else allowed
    for name in parameters:
        if name not in allowed:
            raise ValueError(f"{kind} has no parameter {name!r}; it has {', '.join(allowed)}")
    for name in required:
        if name not in parameters:
            raise ValueError(f"{kind} needs {name}, got {', '.join(parameters) or 'nothing'}")
    if kind == "Mixtures":
        return Mixtures(*(_mixture(name, parameters[name]) for name in required))
    given: dict[str, object] = dict(parameters)
    return Finite(**given) if kind == "Finite" else Densities(**given)  # type: ignore[arg-type]


def described(pair: Pair) -> str:
    """Return a pair's name, with those of its numbers that are not the usual ones."""
    if not isinstance(pair, Construction):
        return pair.name
    numbers = [
        f"{field.name}={getattr(pair, field.name):.6g}"
        for field in fields(pair)
        if isinstance(getattr(pair, field.name), int | float)
        and getattr(pair, field.name) != field.default
    ]
    return f"{pair.name}({', '.join(numbers)})" if numbers else pair.name


def _mixture(name: str, value: object) -> Mixture:
    if not isinstance(value, Mapping) or set(value) != {"weights", "means", "stds"}:
        raise validate.fail(name, "a mapping with weights, means and stds", value)
    return Mixture(**value)


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise validate.fail(name, "a list of numbers", values)
    validate.finite(**{f"{name}_{i}": value for i, value in enumerate(values)})
    return tuple(float(value) for value in values)


def _check_probabilities(name: str, values: Sequence[float]) -> None:
    validate.closed_unit(**{f"{name}_{i}": value for i, value in enumerate(values)})
    if abs(math.fsum(values) - 1) > 1e-9:
        raise ValueError(f"{name} must sum to 1, got {math.fsum(values)!r}")


def _counts(times: int, outcomes: int) -> Array:
    """Every way to spread ``times`` draws over the outcomes, shape (ways, outcomes)."""
    if outcomes == 1:
        return np.array([[float(times)]])
    rows = []
    for first in range(times + 1):
        rest = _counts(times - first, outcomes - 1)
        rows.append(np.column_stack([np.full(len(rest), float(first)), rest]))
    return np.concatenate(rows)


def _log_likelihood(counts: Array, probabilities: Sequence[float]) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * np.log(probabilities), 0.0)
    return np.asarray(np.sum(terms, axis=1))


def _exponential_masses(slope: float, edges: Array) -> Array:
    width = np.diff(edges)
    top = np.where(slope > 0, edges[1:], edges[:-1])
    logs = slope * top + np.log(-np.expm1(-abs(slope) * width))
    return np.asarray(logs - logsumexp(logs))
