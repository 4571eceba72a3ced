"""Rows and curves of a result that compare sampled, exact and claimed values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds import Status
from audit.constructions import Construction
from audit.curves import Order
from audit.estimation import Tail
from audit.estimation.verdicts import UserClaim as UserClaim
from audit.estimation.verdicts import Verdict as Verdict
from audit.estimation.verdicts import judge_interval as judge_interval
from audit.estimation.verdicts import judge_upper_bound as judge_upper_bound
from audit.numerics.display import ShortRepr

_AXIS_END = 5e299  # the range is a double, and so are the margins of a figure
CLAIMED: Literal["claimed"] = "claimed"


@dataclass(frozen=True)
class Number(ShortRepr):
    """A number with an error bracket: the true value lies in [low, high]."""

    value: float  #: The best approximation, in [low, high].
    low: float  #: The lower end of the bracket.
    high: float  #: The upper end; infinite if there is no upper bound on the value.

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise validate.fail("value", f"in [{self.low!r}, {self.high!r}]", self.value)

    @property
    def bracket(self) -> tuple[float, float]:
        """The pair (low, high)."""
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class ByOrder(ShortRepr):
    """A divergence of the pair (X, X') in both orders, and the larger of the two."""

    forward: Number  #: The divergence of X from X'.
    reverse: Number  #: The divergence of X' from X.
    worst: Number  #: The larger of the two.


@dataclass(frozen=True, kw_only=True)
class SampledEvidence(ShortRepr):
    """An epsilon certified from samples, and the counts it is computed from."""

    epsilon: float  #: The certified lower bound.
    order: Order  #: FORWARD if the distribution of X favours the event, REVERSE if that of X' does.
    tail: Tail  #: The kind of event, such as {score >= threshold}.
    threshold: float  #: The threshold of the event.
    count: int  #: Certifying samples of X in the event.
    total: int  #: Certifying samples of X.
    count_prime: int  #: Certifying samples of X' in the event.
    total_prime: int  #: Certifying samples of X'.
    error_spent: float  #: The part of 1 - confidence that was spent on this event.
    #: The largest epsilon that such a test can certify from this many samples.
    largest_certifiable: float


@dataclass(frozen=True, kw_only=True)
class Certified(ShortRepr):
    """The largest certified epsilon, against which claims are judged."""

    epsilon: float  #: The certified lower bound.
    by: str  #: The name of the construction that attains it, or "samples".


@dataclass(frozen=True, kw_only=True)
class BoundRow(ShortRepr):
    """A claimed upper bound on one quantity, and the verdict on it."""

    id: str  #: The bound's id in the catalogue, or the name of the user's own claim.
    citation: str  #: The bound's source.
    #: The status of the statement; "claimed" for a claim of the mechanism's author.
    status: Status | Literal["claimed"]
    value: float | None  #: The claimed value, possibly infinite; None if the bound does not apply.
    #: ``value`` divided by the certified value; None if either is missing or zero.
    ratio: float | None
    #: Why the bound does not apply, is never judged or is inconclusive; None otherwise.
    reason: str | None
    verdict: Verdict  #: CONSISTENT, REFUTED, INCONCLUSIVE or NOT_APPLICABLE.

    @property
    def status_text(self) -> str:
        """The status as text."""
        return self.status.value if isinstance(self.status, Status) else self.status

    @property
    def sound(self) -> bool:
        """Whether the statement has a proof without a known gap, or is claimed by the author."""
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
class RefutedAfter(ShortRepr):
    """The number of pairs of runs after which the sequential audit refuted a claim."""

    claim: str  #: The claim's name.
    pairs: int | None  #: The number of pairs; None if the claim was not refuted.


@dataclass(frozen=True, kw_only=True)
class Estimate(ShortRepr):
    """The epsilon that one estimator certifies."""

    estimator: Estimator  #: The estimator.
    epsilon: float  #: The certified lower bound.
    refuted_after: tuple[RefutedAfter, ...]  #: For the sequential estimator, one entry per claim.


@dataclass(frozen=True, kw_only=True)
class AtDelta(ShortRepr):
    """Sampled, exact and claimed values of epsilon at one delta."""

    delta: float  #: The delta, in [0, 1).
    sampled: SampledEvidence  #: The lower bound from samples.
    #: The exact epsilon of the setting's own pair; None if its laws are not known.
    exact: ByOrder | None
    certified: Certified  #: The certified epsilon against which the bounds are judged.
    bounds: tuple[BoundRow, ...]  #: The claimed upper bounds.
    best: str | None  #: The id of the tightest finite sound bound; None if there is none.
    #: For a user-defined mechanism, the epsilon that each estimator certifies.
    estimates: tuple[Estimate, ...]
    #: What the width of the bracket of ``exact.worst`` consists of, in nats; see
    #: `audit.curves.BracketedCurve.errors`. Empty in results of earlier versions.
    errors: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate.half_open_unit(delta=self.delta)
        if self.best is not None and self.best not in {bound.id for bound in self.bounds}:
            raise validate.fail("best", "the id of one of the bounds", self.best)


@dataclass(frozen=True, kw_only=True)
class AtOrder(ShortRepr):
    """Sampled, exact and claimed values of the setting's Renyi divergence of one order."""

    order: float  #: The Renyi order, above 1.
    sampled_lower: float  #: The lower bound from samples.
    exact: ByOrder  #: The exact divergence of the setting's own pair.
    bounds: tuple[BoundRow, ...]  #: The claimed upper bounds.

    def __post_init__(self) -> None:
        validate.above_one(order=self.order)


@dataclass(frozen=True, kw_only=True)
class EpsilonAtDelta(ShortRepr):
    """The exact epsilon of a pair at one delta, the worse of both orders."""

    delta: float  #: The delta, in [0, 1).
    epsilon: Number  #: The exact epsilon with its bracket.


@dataclass(frozen=True, kw_only=True)
class FoundBy(ShortRepr):
    """The search that found a pair."""

    delta: float  #: The delta at which the search maximised epsilon.
    evaluations: int  #: Number of pairs that it tried.
    seed: int  #: Seed of the search.


@dataclass(frozen=True, kw_only=True)
class OtherPair(ShortRepr):
    """Another pair for the same mechanism, whose exact law is computed but not sampled."""

    pair: Construction  #: The pair.
    epsilons: tuple[EpsilonAtDelta, ...]  #: The exact epsilons.
    found_by: FoundBy | None  #: The search that found the pair; None if it was given.


@dataclass(frozen=True, kw_only=True)
class NamedEpsilon(ShortRepr):
    """The exact epsilon of a pair given by name, the worse of both orders."""

    pair: str  #: Name of the pair.
    epsilon: Number  #: The exact epsilon with its bracket.


@dataclass(frozen=True, kw_only=True)
class PositionAtDelta(ShortRepr):
    """Exact, certified and claimed values of epsilon at one delta for the records of one batch."""

    delta: float  #: The delta, in [0, 1).
    pairs: tuple[NamedEpsilon, ...]  #: The exact epsilons of the pairs that were tried.
    certified: float  #: The certified lower bound.
    bounds: tuple[BoundRow, ...]  #: The claimed upper bounds.


@dataclass(frozen=True, kw_only=True)
class AtPosition(ShortRepr):
    """The privacy loss of the records of one batch of the cycle."""

    position: int  #: The batch, from 0.
    index: int  #: The index, from 1, of the first record of that batch in the order of use.
    deltas: tuple[PositionAtDelta, ...]  #: One row per delta of the setting.


# curves of the figures: laws, tradeoff functions, epsilon against steps

Floats = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class BoundCurve(ShortRepr):
    """The values of a bound along a curve."""

    id: str  #: The id of the bound.
    values: tuple[float | None, ...]  #: One value per point; None where the bound does not apply.


@dataclass(frozen=True, kw_only=True)
class LawCurves(ShortRepr):
    """One law of the last iterate, computed and sampled."""

    density: Floats  #: The density at the points of the grid.
    histogram: Floats  #: The sampled density in each bin.
    atoms: tuple[float, float]  #: The mass at the two ends of the domain.
    atom_frequencies: tuple[float, float]  #: The sampled mass there.


@dataclass(frozen=True, kw_only=True)
class Laws(ShortRepr):
    """The laws of X and X' over the range that holds the mass of either."""

    grid: Floats  #: The points of the densities.
    edges: Floats  #: The edges of the histograms' bins.
    ends: tuple[float, float]  #: The ends of the domain; infinite if it is unconstrained.
    first: LawCurves  #: The law of X.
    second: LawCurves  #: The law of X'.


@dataclass(frozen=True, kw_only=True)
class TradeoffCurves(ShortRepr):
    """Tradeoff functions on one grid of type I errors: exact, an upper bound, and claimed ones."""

    alpha: Floats  #: The type I errors.
    exact: Floats  #: The exact tradeoff function of the pair.
    sampled_upper: Floats  #: The upper bound on it from samples.
    bounds: tuple[BoundCurve, ...]  #: The claimed lower bounds on the tradeoff function.


@dataclass(frozen=True, kw_only=True)
class BurnIn(ShortRepr):
    """The number of steps after which epsilon stops growing, according to a theorem."""

    steps: float  #: The number of steps.
    theorem: str  #: The theorem's citation.


@dataclass(frozen=True, kw_only=True)
class EpsilonAgainstSteps(ShortRepr):
    """The exact epsilon and the bounds after each number of steps, at one delta."""

    delta: float  #: The delta, in [0, 1).
    steps: tuple[int, ...]  #: The numbers of steps.
    exact: tuple[Number, ...]  #: The exact epsilon after each.
    bounds: tuple[BoundCurve, ...]  #: The claimed upper bounds after each.
    burn_in: BurnIn | None  #: The burn-in of a theorem that applies; None if there is none.


@dataclass(frozen=True, kw_only=True)
class ScoreHistograms(ShortRepr):
    """Histograms of the scores of X and X'."""

    edges: Floats  #: The edges of the bins.
    first: Floats  #: The share of the scores of X in each bin.
    second: Floats  #: The share of those of X' in each bin.

    @staticmethod
    def of(x: NDArray[np.float64], x_prime: NDArray[np.float64], bins: int) -> ScoreHistograms:
        """Count two samples in bins over the range of both; what no axis holds is in the ends."""
        x, x_prime = (np.clip(sample, -_AXIS_END, _AXIS_END) for sample in (x, x_prime))
        low, high = float(min(x.min(), x_prime.min())), float(max(x.max(), x_prime.max()))
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, bins + 1)
        first, second = (
            tuple((np.histogram(sample, bins=edges)[0] / sample.size).tolist())
            for sample in (x, x_prime)
        )
        return ScoreHistograms(edges=tuple(edges.tolist()), first=first, second=second)
