"""The bounds that an audit of two samples certifies together, and the form that is stored.

Claims about one record are scaled to pairs that differ in k records: (epsilon, delta) becomes
(k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1)) (Vadhan 2017, "The complexity of
differential privacy", Lemma 2.2; ``docs/explanation/sampled-bounds.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.curves import Order
from audit.estimation.evidence import Certificate, CountedTest, Evidence, Tail, orders_of
from audit.estimation.order_statistics import OrderStatistics
from audit.estimation.pilot_split import PilotSplit
from audit.estimation.score_source import CombinedColumns
from audit.estimation.simultaneous_band import SimultaneousBand
from audit.estimation.thresholds import FixedThresholds, Spent
from audit.numerics import display
from audit.numerics.arrays import Array
from audit.numerics.display import Marks, ShortRepr
from audit.numerics.number_format import Rounding, number, short
from audit.numerics.roots import root_from_below

_PLANNED_EPSILON = 1.0  # assumed of one record to plan the pair's delta, which depends on it

AnyThresholds = PilotSplit | OrderStatistics | FixedThresholds | SimultaneousBand


@dataclass(frozen=True, kw_only=True)
class PerRecordEpsilon:
    """The certified epsilon of one record, from a pair that differs in several records."""

    epsilon: float  #: The certified epsilon of one record.
    delta: float  #: Its delta.
    group_size: int  #: Number of records in which the pair differs.
    pair_delta: float  #: The delta of the scaled claim, at which the pair was evaluated.
    evidence: Evidence  #: The pair's epsilon at that delta, and the counts.


def pair_deltas(deltas: Iterable[float], group_size: int) -> tuple[float, ...]:
    """Return the deltas to be named in the audit of a pair, given those for one record."""
    scaled = (group_claim(_PLANNED_EPSILON, delta, group_size)[1] for delta in deltas)
    return tuple(dict.fromkeys(min(delta, 0.5) for delta in scaled))


def group_claim(epsilon: float, delta: float, group_size: int) -> tuple[float, float]:
    """Scale a claim about one record to pairs that differ in ``group_size`` records."""
    validate.nonnegative(epsilon=epsilon)
    validate.closed_unit(delta=delta)
    validate.integer(1, group_size=group_size)
    if delta == 0 or epsilon * (group_size - 1) > 700:
        return float(group_size * epsilon), float(delta > 0)
    factor = math.fsum(math.exp(i * epsilon) for i in range(group_size))
    return float(group_size * epsilon), min(1.0, delta * factor)


def per_record_epsilon(lower: Callable[[float], float], delta: float, group_size: int) -> float:
    """Convert lower bounds for a pair that differs in k records to a bound for one record.

    Parameters
    ----------
    lower : callable
        A lower bound on the epsilon of the pair, decreasing in delta in [0, 1). If it holds at all
        deltas simultaneously with some confidence, so does the result.
    delta : float
        The delta, in [0, 1], for one record.
    group_size : int
        Number of records k, at least 1.

    Returns
    -------
    float
        The supremum, at least 0, of all e whose scaled claim `group_claim` is below the bound.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    A pure bound of 3 for pairs that differ in 2 records gives 1.5 for each record. For delta > 0
    the pair is evaluated at a larger delta, where its epsilon is smaller.

    >>> per_record_epsilon(lambda delta: 3.0 - delta, 0.0, 2)
    1.5
    """
    validate.closed_unit(delta=delta)
    validate.integer(1, group_size=group_size)

    def missing(epsilon: float) -> float:
        group_epsilon, group_delta = group_claim(epsilon, delta, group_size)
        return group_epsilon - (lower(group_delta) if group_delta < 1 else 0.0)

    top = lower(delta) / group_size if delta < 1 else 0.0
    return root_from_below(missing, top) if top > 0 and group_size > 1 else max(top, 0.0)


@dataclass(frozen=True, kw_only=True)
class EpsilonEvidence(ShortRepr):
    """The certified epsilon at a delta that was named in advance."""

    delta: float  #: The delta.
    evidence: Evidence  #: The bound and its counts.


@dataclass(frozen=True, kw_only=True)
class CountedEvent:
    """One counted test in its stored form."""

    order: Order
    tail: Tail
    threshold: float
    first_count: int
    first_total: int
    second_count: int
    second_total: int
    error_spent: float
    local_levels: tuple[float, float] | None
    planned_delta: float | None


@dataclass(frozen=True, kw_only=True)
class TradeoffVertices(ShortRepr):
    """The vertices of an upper bound on the tradeoff function, ``alpha`` ascending."""

    alpha: tuple[float, ...]
    beta: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TradeoffUpper(ShortRepr):
    """Upper bounds on the tradeoff functions of both orders."""

    forward: TradeoffVertices
    reverse: TradeoffVertices


@dataclass(frozen=True, kw_only=True)
class _AuditBasis(ShortRepr):
    """What the bounds from two samples rest on."""

    confidence: float  #: Confidence level of all statements together.
    seed: int | None  #: Seed of the pilot split or of tie-breaking; None if nothing was drawn.
    #: Names of the blocks that the counts come from, if they were named.
    sources: tuple[str, ...]
    thresholds: AnyThresholds  #: How thresholds were chosen.
    #: Numbers of scores of X and X' that were used for the choice.
    pilot_sizes: tuple[int, int]
    certifying_sizes: tuple[int, int]  #: Numbers of scores of X and X' that were counted.
    #: The parts of the error 1 - confidence, divided in advance; they add up to it.
    spent: tuple[Spent, ...]
    #: How several numbers per run were combined; None if there was one.
    columns: CombinedColumns | None = None
    #: Number of records in which the pair differs. All bounds but ``per_record`` are for the pair.
    group_size: int = 1


@dataclass(frozen=True, kw_only=True)
class AuditRecord(_AuditBasis):
    """An `Audit` without its confidence regions, which `audit.codec` writes and reads."""

    error_spent: float  #: The total error.
    #: The certified epsilons at the deltas named in advance.
    epsilon_lower: tuple[EpsilonEvidence, ...]
    mu_lower: Evidence  #: The certified mu: it refutes Gaussian claims below it, and nothing else.
    tests: tuple[CountedEvent, ...]  #: Every test that was counted.
    beta_upper: TradeoffUpper  #: Upper bounds on the tradeoff functions.
    #: The bounds for one record if the pair differs in several.
    per_record: tuple[PerRecordEpsilon, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Audit(_AuditBasis, display.Plotted):
    """Lower bounds on privacy loss from two samples, certified simultaneously.

    With probability at least ``confidence`` over the samples and the pilot split, the regions of
    all ``tests`` contain their true rates simultaneously. In that event every number that any
    method returns, for any argument, is right, because it is a minimum over these regions. One may
    therefore ask for any number of deltas, orders and Renyi orders. Tests at order statistics have
    no regions; their bounds are the hypotheses that no test rejects, and hold simultaneously too.

    All methods accept a float (and return a float) or an array (and return an array of the same
    shape), and raise a ValueError for numbers out of their range. Without ``order`` they return the
    worse of the two orders of the pair.
    """

    deltas: tuple[float, ...]  #: The named deltas.
    tests: tuple[CountedTest, ...]  #: Every test that can matter, with its share of the error.
    record_deltas: tuple[float, ...] = ()  #: The named deltas of one record, if several differ.

    def _draw(self, ax: Any, **style: Any) -> None:
        deltas = sorted({*display.DELTAS, *(delta for delta in self.deltas if delta > 0)})
        ax.plot(deltas, self.epsilon_lower(np.array(deltas)), **style)

    def __str__(self) -> str:
        deltas = self.deltas or display.FEW_DELTAS
        lowers = ((number(self.epsilon_lower(d), 4, Rounding.DOWN), d) for d in deltas)
        bounds = "; ".join(f"epsilon >= {low} at delta {d:g}" for low, d in lowers)
        return f"{bounds}; confidence {short(self.confidence, 6, Rounding.DOWN)}"

    def _repr_html_(self) -> str:
        marks = [
            Marks(f"epsilon at delta {delta:g}", lower=self.epsilon_lower(delta))
            for delta in self.deltas or display.FEW_DELTAS
        ]
        confidence = short(self.confidence, 6, Rounding.DOWN)
        title = f"certified at confidence {confidence} from {self.certifying_sizes} scores"
        return display.sandwich(title, marks)

    @overload
    def epsilon_lower(self, delta: float, order: Order | None = None) -> float: ...
    @overload
    def epsilon_lower(self, delta: ArrayLike, order: Order | None = None) -> float | Array: ...
    def epsilon_lower(self, delta: ArrayLike, order: Order | None = None) -> float | Array:
        """Return a lower confidence bound on the pair's epsilon at ``delta``.

        The bound holds for every mechanism, at all deltas simultaneously (class docstring): the
        rates p and q of an event S imply epsilon >= log((p - delta) / q) (Kairouz, Oh and Viswanath
        2015, Theorem 2.1).

        Parameters
        ----------
        delta : array_like
            One or more deltas, in [0, 1).
        order : Order, optional
            The order of the pair; by default the worse one.

        Returns
        -------
        float or numpy.ndarray
            The bound, at least 0; same shape as ``delta``.
        """
        d = validate.array_in(0, 1, open_ends=False, open_high=True, delta=delta)
        return _shaped(self._certificate.epsilons(d.ravel(), _checked(order)), d)

    def evidence(self, delta: float, order: Order | None = None) -> Evidence:
        """Return the bound of `epsilon_lower` with its counts.

        Parameters
        ----------
        delta : float
            The delta, in [0, 1).
        order : Order, optional
            The order of the pair; by default the worse one.

        Returns
        -------
        Evidence
            The bound and its counts.
        """
        return self._certificate.epsilon_evidence(_delta(delta), _checked(order))

    def per_record_epsilon_lower(self, delta: float) -> float:
        """Return a lower confidence bound on the epsilon of one record at ``delta``.

        If the pair differs in k records, it is the largest epsilon whose claim, scaled to k records
        (`group_claim`), the pair refutes; for k = 1 it is `epsilon_lower`.

        Parameters
        ----------
        delta : float
            The delta of one record, in [0, 1).

        Returns
        -------
        float
            The bound, at least 0.
        """
        return self.per_record_evidence(delta).epsilon

    def per_record_evidence(self, delta: float) -> PerRecordEpsilon:
        """Return the bound of `per_record_epsilon_lower` with the evidence of the pair.

        Parameters
        ----------
        delta : float
            The delta of one record, in [0, 1).

        Returns
        -------
        PerRecordEpsilon
            The bound and the pair's evidence.
        """
        delta, size = _delta(delta), self.group_size
        epsilon = per_record_epsilon(self.epsilon_lower, delta, size)
        scaled = group_claim(epsilon, delta, size)[1]
        return PerRecordEpsilon(
            epsilon=epsilon,
            delta=delta,
            group_size=size,
            pair_delta=scaled,
            evidence=self.evidence(min(scaled, 1 - 2.0**-53)),
        )

    def mu_lower(self) -> float:
        """Return mu >= 0 such that "the mechanism is m-GDP" is refuted for every m below it.

        The bound refutes Gaussian claims and nothing else: a mechanism that is not Gaussian may
        have a smaller epsilon than a mu-GDP one, so it must not be converted to an epsilon. If the
        pair differs in k records, claims about one record are refuted below mu / k (Dong, Roth and
        Su 2022, Theorem 2.14).

        Returns
        -------
        float
            The bound, at least 0.
        """
        return self.mu_evidence().value

    def mu_evidence(self) -> Evidence:
        """Return the bound of `mu_lower` with its counts.

        Returns
        -------
        Evidence
            The bound and its counts.
        """
        return self._certificate.mu_evidence()

    @overload
    def renyi_lower(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def renyi_lower(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def renyi_lower(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return a lower confidence bound on the Renyi divergence of order ``alpha``.

        ``FORWARD`` is D(X || X'). By data processing two divergences are lower bounds, and the
        larger one is returned: that of the discrete pair whose tradeoff function is ``beta_upper``,
        which combines all events, and that of the two-point laws of one event, minimised over its
        confidence region.

        Parameters
        ----------
        alpha : array_like
            One or more Renyi orders, above 1.
        order : Order, optional
            The order of the pair; by default the worse one.

        Returns
        -------
        float or numpy.ndarray
            The bound, at least 0; same shape as ``alpha``.
        """
        a = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
        return _shaped(self._certificate.renyis(a.ravel(), _checked(order)), a)

    @overload
    def beta_upper(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def beta_upper(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def beta_upper(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return an upper confidence bound on the tradeoff function at ``alpha``.

        ``FORWARD`` takes the law of ``samples`` as the null hypothesis. The bound holds at all
        alpha simultaneously; without an order it is the pointwise minimum of the two orders'
        bounds.

        Parameters
        ----------
        alpha : array_like
            One or more type I errors, in [0, 1].
        order : Order, optional
            The order of the pair; by default the minimum over both.

        Returns
        -------
        float or numpy.ndarray
            The bound on the type II error, in [0, 1]; same shape as ``alpha``.
        """
        a = validate.array_in(0, 1, open_ends=False, alpha=alpha)
        bounds = [np.interp(a.ravel(), *self.beta_points(o)) for o in orders_of(_checked(order))]
        return _shaped(np.min(bounds, axis=0), a)

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the vertices of `beta_upper` in one order.

        Parameters
        ----------
        order : Order
            The order of the pair.

        Returns
        -------
        alpha : numpy.ndarray
            Type I errors, ascending.
        beta : numpy.ndarray
            Bounds on the type II errors.

        Raises
        ------
        ValueError
            If ``order`` is not an `Order`.
        """
        validate.instance(Order, order=order)
        return self._certificate.beta_points(order)

    def record(self) -> AuditRecord:
        """Return everything but the regions, as a value that `audit.codec` writes and reads.

        Returns
        -------
        AuditRecord
            The stored form.
        """
        forward, reverse = (
            TradeoffVertices(alpha=tuple(alpha.tolist()), beta=tuple(beta.tolist()))
            for alpha, beta in map(self.beta_points, Order)
        )
        return AuditRecord(
            **{field.name: getattr(self, field.name) for field in fields(_AuditBasis)},
            error_spent=sum(one.error for one in self.spent),
            epsilon_lower=tuple(
                EpsilonEvidence(delta=delta, evidence=self.evidence(delta)) for delta in self.deltas
            ),
            mu_lower=self.mu_evidence(),
            tests=tuple(
                CountedEvent(
                    local_levels=one.local_levels, planned_delta=one.planned_delta, **one.stored
                )
                for one in self.tests
            ),
            beta_upper=TradeoffUpper(forward=forward, reverse=reverse),
            per_record=tuple(self.per_record_evidence(delta) for delta in self.record_deltas),
        )

    @cached_property
    def _certificate(self) -> Certificate:
        return self.thresholds.certificate(self.tests)


def _delta(delta: float) -> float:
    validate.half_open_unit(delta=delta)
    return float(delta)


def _checked(order: Order | None) -> Order | None:
    if order is not None:
        validate.instance(Order, order=order)
    return order


def _shaped(values: Array, like: Array) -> float | Array:
    return float(values[0]) if like.ndim == 0 else np.reshape(values, like.shape)
