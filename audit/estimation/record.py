"""Audits as values that can be stored: plan, budget, counts and bounds, without regions."""

from __future__ import annotations

from dataclasses import dataclass

from audit.curves import Order
from audit.estimation.columns import CombinedColumns
from audit.estimation.evidence import Evidence, Tail
from audit.estimation.fixed import FixedThresholds
from audit.estimation.group import PerRecordEpsilon
from audit.estimation.order_statistics import OrderStatistics
from audit.estimation.pilot_split import PilotSplit
from audit.estimation.simultaneous_band import SimultaneousBand
from audit.estimation.thresholds import Spent
from audit.numerics.display import ShortRepr

AnyThresholds = PilotSplit | OrderStatistics | FixedThresholds | SimultaneousBand


@dataclass(frozen=True, kw_only=True)
class EpsilonEvidence:
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
class TradeoffVertices:
    """The vertices of an upper bound on the tradeoff function, ``alpha`` ascending."""

    alpha: tuple[float, ...]
    beta: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TradeoffUpper:
    """Upper bounds on the tradeoff functions of both orders."""

    forward: TradeoffVertices
    reverse: TradeoffVertices


@dataclass(frozen=True, kw_only=True)
class AuditRecord(ShortRepr):
    """An `Audit` without its confidence regions, which `audit.codec` writes and reads."""

    confidence: float  #: Confidence level of all statements together.
    seed: int | None  #: Seed of the pilot split or of tie-breaking; None if nothing was drawn.
    sources: tuple[str, ...]  #: Names of the blocks that the counts come from.
    thresholds: AnyThresholds  #: How thresholds were chosen.
    #: Numbers of scores of X and X' that were used for the choice, and that were counted.
    pilot_sizes: tuple[int, int]
    #: Numbers of scores of X and X' that were used for the choice, and that were counted.
    certifying_sizes: tuple[int, int]
    error_spent: float  #: The total error.
    spent: tuple[Spent, ...]  #: The parts of the error.
    #: The certified epsilons at the deltas named in advance.
    epsilon_lower: tuple[EpsilonEvidence, ...]
    mu_lower: Evidence  #: The certified mu: it refutes Gaussian claims below it, and nothing else.
    tests: tuple[CountedEvent, ...]  #: Every test that was counted.
    beta_upper: TradeoffUpper  #: Upper bounds on the tradeoff functions.
    #: How several numbers per run were combined; None if there was one.
    columns: CombinedColumns | None = None
    #: Number of records in which the pair differs. All other bounds are for the pair.
    group_size: int = 1
    #: The bounds for one record if the pair differs in several.
    per_record: tuple[PerRecordEpsilon, ...] = ()
