"""What an audit of two samples rests on: plan, budget, counts and bounds."""

from __future__ import annotations

from dataclasses import dataclass

from audit.curves import Order
from audit.estimation import Audit, Evidence, PilotSplit, Tail
from audit.estimation.choice import Spent
from audit.estimation.evidence import CountedTest


@dataclass(frozen=True, kw_only=True)
class EpsilonEvidence:
    """The certified epsilon at a delta that was named beforehand."""

    delta: float
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class CountedEvent:
    """One test that was counted; see `audit.estimation.evidence.CountedTest`."""

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
class TradeoffVertices:
    """The vertices of an upper bound on the tradeoff function, ``alpha`` ascending."""

    alpha: tuple[float, ...]
    beta: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TradeoffUpper:
    """The upper bounds on the tradeoff functions of both orders."""

    forward: TradeoffVertices
    reverse: TradeoffVertices


@dataclass(frozen=True, kw_only=True)
class SampleAudit:
    """An `audit.estimation.Audit` without its confidence regions.

    Parameters
    ----------
    confidence
        One number for everything that the audit certifies.
    seed
        What drew the pilot split.
    sources
        Names of the blocks that the counts come from.
    thresholds
        How thresholds were chosen.
    pilot_sizes, certifying_sizes
        Scores of X and X' that chose, and that were counted.
    error_spent, spent
        The error in all, and its parts.
    epsilon_lower
        The certified epsilons at the deltas named beforehand.
    mu_lower
        The certified mu: it refutes Gaussian claims below it, and nothing else.
    tests
        Every test that was counted.
    beta_upper
        Upper bounds on the tradeoff functions.
    """

    confidence: float
    seed: int | None
    sources: tuple[str, ...]
    thresholds: PilotSplit
    pilot_sizes: tuple[int, int]
    certifying_sizes: tuple[int, int]
    error_spent: float
    spent: tuple[Spent, ...]
    epsilon_lower: tuple[EpsilonEvidence, ...]
    mu_lower: Evidence
    tests: tuple[CountedEvent, ...]
    beta_upper: TradeoffUpper


def sample_audit(audited: Audit) -> SampleAudit:
    """Return the stored form of an audit whose thresholds a pilot split chose."""
    if not isinstance(audited.thresholds, PilotSplit):
        raise TypeError(f"thresholds must be a PilotSplit, got {audited.thresholds!r}")
    return SampleAudit(
        confidence=audited.confidence,
        seed=audited.seed,
        sources=audited.sources,
        thresholds=audited.thresholds,
        pilot_sizes=audited.pilot_sizes,
        certifying_sizes=audited.certifying_sizes,
        error_spent=sum(one.error for one in audited.spent),
        spent=audited.spent,
        epsilon_lower=tuple(
            EpsilonEvidence(delta=delta, evidence=audited.evidence(delta))
            for delta in audited.deltas
        ),
        mu_lower=audited.mu_evidence(),
        tests=tuple(_counted_event(counted) for counted in audited.tests),
        beta_upper=TradeoffUpper(
            forward=_vertices(audited, Order.FORWARD), reverse=_vertices(audited, Order.REVERSE)
        ),
    )


def _counted_event(counted: CountedTest) -> CountedEvent:
    return CountedEvent(
        order=counted.test.order,
        tail=counted.test.tail,
        threshold=counted.test.threshold,
        first_count=int(counted.counts.first),
        first_total=counted.counts.first_total,
        second_count=int(counted.counts.second),
        second_total=counted.counts.second_total,
        error_spent=counted.error,
        local_levels=counted.local_levels,
        planned_delta=counted.planned_delta,
    )


def _vertices(audited: Audit, order: Order) -> TradeoffVertices:
    alpha, beta = audited.beta_points(order)
    return TradeoffVertices(alpha=tuple(alpha.tolist()), beta=tuple(beta.tolist()))
