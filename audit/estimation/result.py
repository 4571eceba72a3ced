"""What an audit of two samples has certified, at one confidence for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.curves import Order
from audit.estimation.certificates import Certificate, certificate
from audit.estimation.columns import CombinedColumns
from audit.estimation.evidence import CountedTest, Evidence
from audit.estimation.group import Group, PerRecordEpsilon, group_claim, per_record_epsilon
from audit.estimation.record import (
    AuditRecord,
    CountedEvent,
    EpsilonEvidence,
    Spent,
    Thresholds,
    TradeoffUpper,
    TradeoffVertices,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """Lower bounds on privacy loss, certified together from two samples.

    With probability at least ``confidence`` over the samples and the pilot split, the regions of
    all ``tests`` hold their true rates at once: the error was spent beforehand as ``spent`` says.
    Wherever they do, every number that any method returns, for any argument, is right: it is a
    minimum over these regions. So one may ask for as many deltas, orders and Renyi orders as one
    likes. With a pilot split, deltas that were named beforehand have tests of their own and are
    sharper.

    All methods take a float (and return a float) or an array (and return an array of the same
    shape); without ``order`` they give the worse of the two orders of the pair.

    Attributes
    ----------
    confidence
        One number for the whole statement.
    deltas
        The named deltas.
    seed
        What drew the pilot split; None where nothing was drawn.
    thresholds
        How thresholds were chosen.
    pilot_sizes, certifying_sizes
        Scores of ``samples`` and ``samples_prime`` that chose, and that were counted.
    tests
        Every test that can matter, with its share of the error.
    spent
        What the error 1 - confidence was spent on; the parts add up to it.
    sources
        Names of the blocks that the counts come from, where they were named.
    columns
        How several numbers a run became one score; None where there was one.
    group
        How many records the pair differs in; None for one.
    """

    confidence: float
    deltas: tuple[float, ...]
    seed: int | None
    thresholds: Thresholds
    pilot_sizes: tuple[int, int]
    certifying_sizes: tuple[int, int]
    tests: tuple[CountedTest, ...]
    spent: tuple[Spent, ...]
    sources: tuple[str, ...] = ()
    columns: CombinedColumns | None = None
    group: Group | None = None

    @overload
    def epsilon_lower(self, delta: float, order: Order | None = None) -> float: ...
    @overload
    def epsilon_lower(self, delta: ArrayLike, order: Order | None = None) -> float | Array: ...
    def epsilon_lower(self, delta: ArrayLike, order: Order | None = None) -> float | Array:
        """Return a lower confidence bound on the pair's epsilon at ``delta`` in [0, 1); >= 0.

        It holds for every mechanism, at all deltas together (class docstring); the rates p and q
        of an event S force epsilon >= log((p - delta) / q) (Kairouz, Oh and Viswanath 2015,
        Theorem 2.1). Raises ``ValueError`` if a delta is not in [0, 1).
        """
        d = validate.array_in(0, 1, open_ends=False, open_high=True, delta=delta)
        _checked(order)
        return _shaped(self._certificate.epsilons(d.ravel(), order), d)

    def evidence(self, delta: float, order: Order | None = None) -> Evidence:
        """Return ``epsilon_lower(delta, order)`` with the counts it rests on."""
        validate.half_open_unit(delta=delta)
        _checked(order)
        return self._certificate.epsilon_evidence(float(delta), order)

    def per_record_epsilon_lower(self, delta: float) -> float:
        """Return a lower confidence bound on the epsilon of one record at ``delta``; >= 0.

        Where the pair differs in k records it is the largest epsilon whose claim, scaled to k
        records (`audit.estimation.group_claim`), the pair refutes; for k = 1, ``epsilon_lower``.
        """
        return self.per_record_evidence(delta).epsilon

    def per_record_evidence(self, delta: float) -> PerRecordEpsilon:
        """Return ``per_record_epsilon_lower(delta)`` with the evidence of the pair."""
        validate.half_open_unit(delta=delta)
        size = self.group_size
        epsilon = per_record_epsilon(self.epsilon_lower, delta, size)
        scaled = group_claim(epsilon, delta, size)[1]
        return PerRecordEpsilon(
            epsilon=epsilon,
            delta=float(delta),
            group_size=size,
            pair_delta=scaled,
            evidence=self.evidence(min(scaled, 1 - 2.0**-53)),
        )

    @property
    def group_size(self) -> int:
        """In how many records the pair differs."""
        return 1 if self.group is None else self.group.size

    def mu_lower(self) -> float:
        """Return mu >= 0 such that "the mechanism is m-GDP" is refuted for every m below it.

        It refutes Gaussian claims and nothing else: a mechanism that is not Gaussian may have a
        smaller epsilon than a mu-GDP one, and this number is never turned into an epsilon. Claims
        about one record are refuted below a k-th of it where the pair differs in k records (Dong,
        Roth and Su 2022, Theorem 2.14).
        """
        return self.mu_evidence().value

    def mu_evidence(self) -> Evidence:
        """Return ``mu_lower()`` with the counts it rests on."""
        return self._certificate.mu_evidence()

    @overload
    def renyi_lower(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def renyi_lower(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def renyi_lower(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return a lower confidence bound on the Renyi divergence of order ``alpha`` > 1; >= 0.

        ``FORWARD`` is D(X || X'). By data processing two divergences are lower bounds, and the
        larger is taken: that of the discrete pair whose tradeoff function is ``beta_upper``, which
        joins all events, and that of one event's two-point laws, minimised over its confidence
        region. Raises ``ValueError`` if an order is not a finite number above 1.
        """
        a = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
        _checked(order)
        return _shaped(self._certificate.renyis(a.ravel(), order), a)

    def renyi_evidence(self, alpha: float, order: Order | None = None) -> Evidence:
        """Return the single event that certifies most of ``renyi_lower(alpha, order)``.

        Its value is what this event certifies by itself; all events joined may certify more.
        """
        validate.above_one(alpha=alpha)
        _checked(order)
        return self._certificate.renyi_evidence(float(alpha), order)

    @overload
    def beta_upper(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def beta_upper(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def beta_upper(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return an upper confidence bound on the tradeoff function at ``alpha`` in [0, 1].

        ``FORWARD`` takes the law of ``samples`` as the null hypothesis. The bound holds at all
        alpha together; without an order it is the pointwise minimum of the two orders' bounds.
        Raises ``ValueError`` if an alpha is not in [0, 1].
        """
        a = validate.array_in(0, 1, open_ends=False, alpha=alpha)
        _checked(order)
        orders = tuple(Order) if order is None else (order,)
        bounds = [np.interp(a.ravel(), *self.beta_points(one)) for one in orders]
        return _shaped(np.min(bounds, axis=0), a)

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the vertices ``(alpha, beta)`` of ``beta_upper`` in one order, alpha ascending."""
        validate.instance(Order, order=order)
        return self._certificate.beta_points(order)

    def record(self) -> AuditRecord:
        """Return everything but the regions, as a value that `audit.codec` writes and reads."""
        return AuditRecord(
            confidence=self.confidence,
            seed=self.seed,
            sources=self.sources,
            thresholds=self.thresholds,
            pilot_sizes=self.pilot_sizes,
            certifying_sizes=self.certifying_sizes,
            error_spent=sum(one.error for one in self.spent),
            spent=self.spent,
            epsilon_lower=tuple(
                EpsilonEvidence(delta=delta, evidence=self.evidence(delta)) for delta in self.deltas
            ),
            mu_lower=self.mu_evidence(),
            tests=tuple(CountedEvent.of(counted) for counted in self.tests),
            beta_upper=TradeoffUpper(
                forward=self._vertices(Order.FORWARD), reverse=self._vertices(Order.REVERSE)
            ),
            columns=self.columns,
            group_size=self.group_size,
            per_record=tuple(
                self.per_record_evidence(delta)
                for delta in (self.group.deltas if self.group else ())
            ),
        )

    def _vertices(self, order: Order) -> TradeoffVertices:
        alpha, beta = self.beta_points(order)
        return TradeoffVertices(alpha=tuple(alpha.tolist()), beta=tuple(beta.tolist()))

    @cached_property
    def _certificate(self) -> Certificate:
        return certificate(self.tests)


def _checked(order: Order | None) -> None:
    if order is not None:
        validate.instance(Order, order=order)


def _shaped(values: Array, like: Array) -> float | Array:
    return float(values[0]) if like.ndim == 0 else np.reshape(values, like.shape)
