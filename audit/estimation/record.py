"""Audits as values that can be stored: plan, budget, counts and bounds, without regions."""

from __future__ import annotations

from dataclasses import dataclass

from audit.curves import Order
from audit.estimation.columns import CombinedColumns
from audit.estimation.evidence import CountedTest, Evidence, Tail
from audit.estimation.fixed import FixedThresholds
from audit.estimation.group import PerRecordEpsilon
from audit.estimation.order_statistics import OrderStatistics
from audit.estimation.pilot_split import PilotSplit
from audit.estimation.simultaneous_band import SimultaneousBand

Thresholds = PilotSplit | OrderStatistics | FixedThresholds | SimultaneousBand


@dataclass(frozen=True)
class Spent:
    """A part of the error 1 - confidence, and what it was spent on."""

    purpose: str
    error: float


@dataclass(frozen=True, kw_only=True)
class EpsilonEvidence:
    """The certified epsilon at a delta that was named beforehand."""

    delta: float
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class CountedEvent:
    """One test that was counted; see `CountedTest`."""

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

    @classmethod
    def of(cls, counted: CountedTest) -> CountedEvent:
        """Return the stored form of a counted test."""
        return cls(
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
class AuditRecord:
    """An `Audit` without its confidence regions, which `audit.codec` writes and reads.

    Parameters
    ----------
    confidence
        One number for everything that the audit certifies.
    seed
        What drew the pilot split; None where nothing was drawn.
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
    columns
        How several numbers a run became one score; None where there was one.
    group_size
        In how many records the pair differs. All other bounds are for the pair.
    per_record
        What is certified of one record where the pair differs in several.
    """

    confidence: float
    seed: int | None
    sources: tuple[str, ...]
    thresholds: Thresholds
    pilot_sizes: tuple[int, int]
    certifying_sizes: tuple[int, int]
    error_spent: float
    spent: tuple[Spent, ...]
    epsilon_lower: tuple[EpsilonEvidence, ...]
    mu_lower: Evidence
    tests: tuple[CountedEvent, ...]
    beta_upper: TradeoffUpper
    columns: CombinedColumns | None = None
    group_size: int = 1
    per_record: tuple[PerRecordEpsilon, ...] = ()
