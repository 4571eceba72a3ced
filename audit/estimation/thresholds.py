"""The protocol of a choice of thresholds, and thresholds fixed in advance.

Counts at fixed thresholds add up across blocks and machines.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from audit import validate
from audit.codec import Tagged, decode, encode
from audit.curves import Order, PrivacyCurve
from audit.estimation.evidence import (
    BOTH,
    Certificate,
    CountedTest,
    RegionCertificate,
    Tail,
    ThresholdTest,
    count_event,
    tests_of_one_shape,
)
from audit.estimation.regions import SEPARATE, Counts, JointShape, Rates
from audit.numerics.arrays import Array
from audit.numerics.display import ShortRepr

_SIMULATIONS = 400  # audits; the standard error of a power is at most 0.025
_MAX_SCORE = 7.5  # normal score of the smallest rate of an event, 3e-14
_SPACING, _HALVINGS = 0.5, 6  # table of rates, refined where interpolation is inaccurate
_TOLERANCE = 1e-3
_CELL_WIDTH = 0.1  # normal scores
_FORMAT = 1
# Fixed before any count; which shape certifies most is not known in advance.
_SHAPES = {Rates.SEPARATE: SEPARATE, Rates.JOINT: JointShape(angle=1.1, first_guard=0.05)}


@dataclass(frozen=True)
class Spent:
    """A part of the error budget 1 - confidence."""

    purpose: str  #: The tests that it was spent on, in words.
    error: float  #: The part of the error.


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """Scores of both laws, and the bounds that are asked of them."""

    first: Array
    second: Array
    error: float  # error of all tests together
    planned_error: float  # the error for which tests are planned
    deltas: tuple[float, ...]  # named in advance
    seed: int | None  # seed of all draws

    def seed_for(self, title: str) -> int:
        """Return the seed, which a choice of this title needs."""
        if self.seed is None:
            needed = f"given for {title}, a whole number of at least 0"
            raise validate.fail("seed", needed, self.seed)
        return self.seed


@dataclass(frozen=True, kw_only=True, eq=False)
class CertifiedTests:
    """Tests that err together with probability at most the error of a question.

    The fields are those of an audit.
    """

    tests: tuple[CountedTest, ...]
    spent: tuple[Spent, ...]
    certifying_sizes: tuple[int, int]
    pilot_sizes: tuple[int, int] = (0, 0)
    sources: tuple[str, ...] = ()  # names of the blocks that counts come from


@dataclass(frozen=True, eq=False)
class EventRates:
    """The rates of the events {score >= t} under both laws of a pair."""

    # normal scores of the rates under X', ascending, and under X; a line joins them, and for two
    # normal laws all is one straight line
    second: Array
    first: Array

    @classmethod
    def of(cls, curve: PrivacyCurve) -> EventRates:
        """Return the rates of the events that a privacy curve's tradeoff functions describe."""
        scores = np.arange(-_MAX_SCORE, _MAX_SCORE + _SPACING / 2, _SPACING)
        values = _reached(curve, scores)
        new = np.ones(scores.size - 1, dtype=np.bool_)  # intervals that were not refined yet
        for _ in range(_HALVINGS):
            left = np.flatnonzero(new)
            middle = 0.5 * (scores[left] + scores[left + 1])
            found = _reached(curve, middle)
            bent = np.abs(found - 0.5 * (values[left] + values[left + 1])) > _TOLERANCE
            scores = np.insert(scores, left + 1, middle)
            values = np.insert(values, left + 1, found)
            new = np.zeros(scores.size - 1, dtype=np.bool_)
            places = left + np.arange(left.size)  # places of the halves' left ends
            new[places[bent]] = new[places[bent] + 1] = True
            if not np.any(new):
                break
        return cls(scores, np.maximum.accumulate(values))

    @functools.cached_property
    def cells(self) -> tuple[Array, Array]:
        """Return the masses of both laws in cells of the score, the highest scores first."""
        even = np.arange(-_MAX_SCORE, _MAX_SCORE, _CELL_WIDTH)
        alike = np.interp(even, self.first, self.second)
        edges = np.unique(np.concatenate([self.second, even, alike]))
        return _masses(np.interp(edges, self.second, self.first)), _masses(edges)

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw scores of X and of X'; those of X' are standard normal."""
        rates = generator.standard_normal(size)
        return -np.interp(rates, self.first, self.second), generator.standard_normal(size)

    def above(self, threshold: float) -> tuple[float, float]:
        """Return the rates of {score >= threshold} under X and X'."""
        first = np.interp(-threshold, self.second, self.first)
        return float(ndtr(first)), float(ndtr(-threshold))


class Thresholds(Tagged, ABC):
    """A choice of thresholds: a frozen dataclass with ``favours``, in a file of its own.

    Its name is added to the union `audit.estimation.result.AnyThresholds`, from which files are
    read.

    Parameters
    ----------
    favours : tuple of Order, optional
        The laws that high scores may favour, one or both: FORWARD the first, REVERSE the second. If
        only one of them is named in advance, events that favour the other one are not tested, and
        the others get their error.
    """

    title: ClassVar[str]
    certificate: ClassVar[type[Certificate]] = RegionCertificate  # certificate of the tests
    favours: tuple[Order, ...]  # orders that high scores may favour

    def __post_init__(self) -> None:
        orders = tuple(self.favours)
        for order in orders:
            validate.instance(Order, favours=order)
        if not orders or len(set(orders)) < len(orders):
            raise validate.fail("favours", "one order or two distinct ones", orders)
        object.__setattr__(self, "favours", orders)

    @abstractmethod
    def certify(self, question: Question) -> CertifiedTests:
        """Return tests of the scores, which err together with the error of the question."""

    def power(
        self, rates: EventRates, trials: int, *, claim: tuple[float, float], error: float
    ) -> float:
        """Return the probability that an audit refutes a claim.

        By default the share of simulated audits that refute it.

        Parameters
        ----------
        rates : EventRates
            The rates of the events of the score under both laws.
        trials : int
            Number of scores of each law.
        claim : tuple of (float, float)
            The claimed epsilon, and its delta.
        error : float
            The error of all tests together.

        Returns
        -------
        float
            The probability.
        """
        epsilon, delta = claim
        generator = np.random.default_rng(0)  # the same draws for every plan
        refuted = 0
        for _ in range(_SIMULATIONS):
            x, x_prime = rates.draw(trials, generator)
            question = Question(
                first=x, second=x_prime, error=error, planned_error=error, deltas=(delta,), seed=0
            )
            certified = self.certificate(self.certify(question).tests)
            refuted += bool(certified.epsilons(np.array([delta]), None)[0] > epsilon)
        return refuted / _SIMULATIONS


def _reached(curve: PrivacyCurve, scores: Array) -> Array:
    """Return the normal scores of the rates under X at those of the rates under X'."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(-ndtri(curve.beta(ndtr(scores), Order.REVERSE)), -40.0, 40.0))


def _masses(scores: Array) -> Array:
    """Return the normal law's masses between and beyond ascending scores."""
    below, above = ndtr(scores), ndtr(-scores)
    inner = np.where(scores[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    masses = np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])
    return np.asarray(masses / np.sum(masses))


@dataclass(frozen=True)
class FixedThresholds(Thresholds):
    """Use thresholds that were chosen before the samples were seen.

    Each threshold t gives the events {x >= t} and {x < t}. The error is shared equally between
    thresholds and orders; none is spent on the choice, and all scores certify.

    Raises
    ------
    ValueError
        If there is no threshold or order, one is repeated, or a threshold is not finite.

    Examples
    --------
    >>> FixedThresholds((1.0, 0.0)).values
    (0.0, 1.0)
    """

    title: ClassVar[str] = "thresholds fixed in advance"

    values: tuple[float, ...]  #: Distinct finite thresholds; stored in ascending order.
    favours: tuple[Order, ...] = BOTH
    #: How the two rates of an event are bounded: separately or jointly.
    rates: Rates = Rates.SEPARATE

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _thresholds(self.values))
        validate.instance(Rates, rates=self.rates)
        super().__post_init__()

    def certify(self, question: Question) -> CertifiedTests:
        """Return every test with its share of the error."""
        summary = Summary.of(question.first, question.second, self.values)
        return certified_counts(self, summary, question.error)

    def power(
        self, rates: EventRates, trials: int, *, claim: tuple[float, float], error: float
    ) -> float:
        """Raise an error: a curve tells rates of events, not where their thresholds are."""
        requirement = "chosen by the scores, whose scale a curve does not tell"
        raise validate.fail("thresholds", requirement, self)


def certified_counts(choice: FixedThresholds, summary: Summary, error: float) -> CertifiedTests:
    """Return every test of the counts at the thresholds with its share of the error."""
    tests = [ThresholdTest(o, Tail.AT_LEAST, t) for o in choice.favours for t in choice.values]
    n, m = summary.first_total, summary.second_total
    both = list(zip(summary.first, summary.second, strict=True))
    forward, reverse = [Counts(a, n, b, m) for a, b in both], [Counts(b, m, a, n) for a, b in both]
    counts = [one for o in choice.favours for one in (forward if o is Order.FORWARD else reverse)]
    counted = tests_of_one_shape(tests, counts, error, _SHAPES[choice.rates])
    return CertifiedTests(
        tests=tuple(counted),
        spent=(Spent(f"{len(counted)} tests fixed in advance, equal parts", error),),
        certifying_sizes=(n, m),
        sources=summary.sources,
    )


@dataclass(frozen=True)
class Summary(ShortRepr):
    """Counts of the scores of both laws that reach thresholds fixed in advance.

    Summaries of independent blocks of samples add up with ``+`` (or ``sum(blocks, start)``). The
    bounds that `audit_counts` certifies from the sum are those that `audit_samples` certifies from
    all scores together. A block counted twice would not be independent evidence: name the blocks in
    ``sources``, and the sum of two summaries that share a name is refused.

    Raises
    ------
    ValueError
        If thresholds are not distinct, finite and ascending, or counts are not integers that fall
        from at most the total to at least 0.

    Examples
    --------
    >>> one = Summary.of([1.0, 2.0], [0.0], [1.5], source="block 1")
    >>> two = Summary.of([3.0], [0.0, 2.0], [1.5], source="block 2")
    >>> total = one + two
    >>> total.first, total.first_total, total.second, total.second_total
    ((2,), 3, (1,), 3)
    """

    thresholds: tuple[float, ...]  #: Ascending thresholds t of the events {x >= t}.
    first: tuple[int, ...]  #: Number of scores of the first law that reach each threshold.
    first_total: int  #: Number of scores of the first law.
    second: tuple[int, ...]  #: Number of scores of the second law that reach each threshold.
    second_total: int  #: Number of scores of the second law.
    #: Distinct names of the counted blocks, such as ``"seed 7, block 12"``; stored in sorted order.
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = _thresholds(self.thresholds)
        if values != tuple(self.thresholds):
            raise validate.fail("thresholds", "in ascending order", self.thresholds)
        object.__setattr__(self, "thresholds", values)
        for name in ("first", "second"):
            total = getattr(self, f"{name}_total")
            validate.integer(0, **{f"{name}_total": total})
            object.__setattr__(self, f"{name}_total", int(total))
            object.__setattr__(self, name, _falling(name, getattr(self, name), total, len(values)))
        given: object = self.sources  # one string is a sequence of strings, too
        names = () if isinstance(given, str) else tuple(self.sources)
        distinct = len(set(names)) == len(names) and all(isinstance(one, str) for one in names)
        if isinstance(given, str) or not distinct:
            raise validate.fail("sources", "a sequence of distinct strings", given)
        object.__setattr__(self, "sources", tuple(sorted(names)))

    @staticmethod
    def of(
        samples: ArrayLike,
        samples_prime: ArrayLike,
        thresholds: Iterable[float],
        *,
        source: str | None = None,
    ) -> Summary:
        """Count one block of scores of the first and of the second law.

        Parameters
        ----------
        samples, samples_prime : array_like
            Scores of the two laws, shapes (n,) and (n',), finite.
        thresholds : iterable of float
            The thresholds.
        source : str, optional
            Name of the block.

        Returns
        -------
        Summary
            The counts.

        Raises
        ------
        ValueError
            If a sample is empty, not one-dimensional or not finite, or a threshold is not finite.
        """
        values = _thresholds(thresholds)
        first = validate.real_sample(samples=samples)
        second = validate.real_sample(samples_prime=samples_prime)
        at = np.array(values)
        return Summary(
            thresholds=values,
            first=tuple(count_event(np.sort(first), Tail.AT_LEAST, at).tolist()),
            first_total=first.size,
            second=tuple(count_event(np.sort(second), Tail.AT_LEAST, at).tolist()),
            second_total=second.size,
            sources=() if source is None else (source,),
        )

    def __add__(self, other: object) -> Summary:
        if not isinstance(other, Summary):
            return NotImplemented
        if other.thresholds != self.thresholds:
            raise validate.fail("thresholds", f"the same, {self.thresholds}", other.thresholds)
        shared = sorted(set(self.sources) & set(other.sources))
        if shared:
            raise validate.fail("sources", "counted once", shared)
        return Summary(
            thresholds=self.thresholds,
            first=tuple(a + b for a, b in zip(self.first, other.first, strict=True)),
            first_total=self.first_total + other.first_total,
            second=tuple(a + b for a, b in zip(self.second, other.second, strict=True)),
            second_total=self.second_total + other.second_total,
            sources=self.sources + other.sources,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain Python values, which JSON preserves exactly.

        Returns
        -------
        dict
            Plain values by name.
        """
        return {"format": _FORMAT, **encode(self)}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Summary:
        """Rebuild a summary from the values that `to_dict` returns.

        Parameters
        ----------
        stored : mapping of str to object
            Plain values by name.

        Returns
        -------
        Summary
            The summary.

        Raises
        ------
        ValueError
            If the values are not those of a summary.
        """
        validate.instance(Mapping, stored=stored)
        if stored.get("format") != _FORMAT:
            raise validate.fail("stored", f"a summary of format {_FORMAT}", stored)
        values = {name: value for name, value in stored.items() if name != "format"}
        found: Summary = decode(Summary, values, "stored")
        return found


def _thresholds(values: Iterable[float]) -> tuple[float, ...]:
    listed = validate.listed("a sequence of numbers", thresholds=values)
    for value in listed:
        validate.finite(thresholds=value)
    ascending = tuple(sorted(float(v) for v in listed))
    if not ascending or len(set(ascending)) < len(ascending):
        raise validate.fail("thresholds", "at least one, and distinct", listed)
    return ascending


def _falling(name: str, counts: Iterable[int], total: int, length: int) -> tuple[int, ...]:
    listed = validate.listed("a sequence of whole numbers", **{name: counts})
    if len(listed) != length:
        raise validate.fail(name, f"{length} counts, one for each threshold", listed)
    previous, words = total, f"at most {name}_total ({total})"
    for count in listed:
        validate.integer(0, **{name: count})
        if count > previous:
            raise validate.fail(name, words, count)
        previous, words = count, "falling with the threshold"
    return tuple(int(count) for count in listed)
