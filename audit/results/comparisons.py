"""Sampled, exact and claimed values beside each other: the rows of a result."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from audit import validate
from audit.bounds import Status
from audit.constructions import Construction
from audit.curves import Order
from audit.estimation import Tail
from audit.results.verdicts import Verdict

CLAIMED: Literal["claimed"] = "claimed"


@dataclass(frozen=True)
class Number:
    """A number with its error: the true value lies in [low, high].

    Parameters
    ----------
    value
        The best approximation, in [low, high].
    low, high
        The ends of the bracket; ``high`` is infinite where nothing bounds the value from above.
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise validate.fail("value", f"in [{self.low!r}, {self.high!r}]", self.value)

    @property
    def bracket(self) -> tuple[float, float]:
        """The pair (low, high)."""
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class ByOrder:
    """A divergence of the pair (X, X') in both orders, and the worse of the two."""

    forward: Number
    reverse: Number
    worst: Number


@dataclass(frozen=True, kw_only=True)
class SampledEvidence:
    """An epsilon certified from samples, and the counts that it rests on.

    Parameters
    ----------
    epsilon
        The certified lower bound.
    order, tail, threshold
        The event {score >= threshold} (or another tail), and the law that favours it.
    count, total, count_prime, total_prime
        Certifying samples of X and of X' in the event, and in all.
    error_spent
        The part of 1 - confidence that this event's test used.
    largest_certifiable
        The largest epsilon that such a test can certify from this many samples.
    """

    epsilon: float
    order: Order
    tail: Tail
    threshold: float
    count: int
    total: int
    count_prime: int
    total_prime: int
    error_spent: float
    largest_certifiable: float


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What claims are held against: the largest certain epsilon, and the pair that has it.

    ``by`` is the name of a construction, or "samples".
    """

    epsilon: float
    by: str


@dataclass(frozen=True, kw_only=True)
class BoundRow:
    """A claimed upper bound on one quantity, and the verdict on it.

    Parameters
    ----------
    id, citation
        Which bound: its id in the catalogue, or the name of the user's own claim.
    status
        What is known of the statement; "claimed" for a claim of the mechanism's author.
    value
        The claimed value, possibly infinite; None where the bound does not apply.
    ratio
        ``value`` divided by the certified value; None where either is missing or zero.
    reason
        Why the bound does not apply, or is never judged; None where it is.
    verdict
        CONSISTENT, REFUTED or NOT_APPLICABLE.
    """

    id: str
    citation: str
    status: Status | Literal["claimed"]
    value: float | None
    ratio: float | None
    reason: str | None
    verdict: Verdict

    @property
    def status_text(self) -> str:
        """The status in words."""
        return self.status.value if isinstance(self.status, Status) else self.status

    @property
    def sound(self) -> bool:
        """Whether the statement is proven as far as is known, or claimed by the author."""
        return self.status.sound if isinstance(self.status, Status) else True

    @property
    def stands(self) -> bool:
        """Whether the bound may be called the tightest: sound, and not refuted here."""
        return self.sound and self.verdict is Verdict.CONSISTENT


class Estimator(enum.Enum):
    """The estimators that certify an epsilon from scores."""

    ORDER_STATISTICS = "order statistics"
    PILOT_SPLIT = "pilot split"
    SIMULTANEOUS_BAND = "simultaneous band"
    SEQUENTIAL = "sequential"


@dataclass(frozen=True, kw_only=True)
class RefutedAfter:
    """Pairs of runs after which the sequential audit refuted a claim; None if it did not."""

    claim: str
    pairs: int | None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What one estimator certifies; ``refuted_after`` is for the sequential one."""

    estimator: Estimator
    epsilon: float
    refuted_after: tuple[RefutedAfter, ...]


@dataclass(frozen=True, kw_only=True)
class AtDelta:
    """What is known of epsilon at one delta.

    Parameters
    ----------
    delta
        Where epsilon is asked for.
    sampled
        The lower bound from samples.
    exact
        The exact epsilon of the setting's own pair; None where its laws are not known.
    certified
        What the bounds are held against.
    bounds
        The claimed upper bounds.
    best
        The id of the tightest sound bound that is finite; None where there is none.
    estimates
        What each estimator certifies, for a user-defined mechanism.
    """

    delta: float
    sampled: SampledEvidence
    exact: ByOrder | None
    certified: Certified
    bounds: tuple[BoundRow, ...]
    best: str | None
    estimates: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        validate.half_open_unit(delta=self.delta)
        if self.best is not None and self.best not in {bound.id for bound in self.bounds}:
            raise validate.fail("best", "the id of one of the bounds", self.best)

    @property
    def best_bound(self) -> BoundRow | None:
        """The bound that ``best`` names."""
        return next((bound for bound in self.bounds if bound.id == self.best), None)


@dataclass(frozen=True, kw_only=True)
class AtOrder:
    """What is known of the Renyi divergence of one order, for the setting's own pair."""

    order: float
    sampled_lower: float
    exact: ByOrder
    bounds: tuple[BoundRow, ...]

    def __post_init__(self) -> None:
        validate.above_one(order=self.order)


@dataclass(frozen=True, kw_only=True)
class EpsilonAtDelta:
    """The exact epsilon of a pair at one delta, the worse of both orders."""

    delta: float
    epsilon: Number


@dataclass(frozen=True, kw_only=True)
class FoundBy:
    """The search that found a pair: its delta, the pairs that it tried, and its seed."""

    delta: float
    evaluations: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class OtherPair:
    """Another pair for the same mechanism, computed only; ``found_by`` if a search found it."""

    pair: Construction
    epsilons: tuple[EpsilonAtDelta, ...]
    found_by: FoundBy | None


@dataclass(frozen=True, kw_only=True)
class NamedEpsilon:
    """The exact epsilon of a pair that is known by name, the worse of both orders."""

    pair: str
    epsilon: Number


@dataclass(frozen=True, kw_only=True)
class PositionAtDelta:
    """What is known of epsilon at one delta for the records of one batch of the cycle."""

    delta: float
    pairs: tuple[NamedEpsilon, ...]
    certified: float
    bounds: tuple[BoundRow, ...]


@dataclass(frozen=True, kw_only=True)
class AtPosition:
    """The leak of the records of one batch of the cycle.

    Parameters
    ----------
    position
        The batch, from 0.
    index
        The index, from 1, of the first record of that batch in the order of use.
    deltas
        A row for each delta of the setting.
    """

    position: int
    index: int
    deltas: tuple[PositionAtDelta, ...]
