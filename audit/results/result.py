"""The result of a run: per setting, compared values and their verdicts; and its provenance."""

from __future__ import annotations

import enum
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

import audit
from audit import validate
from audit.bounds import Status
from audit.codec.hints import REQUIRED
from audit.constructions import Construction
from audit.curves import Order
from audit.estimation import AuditRecord, Evidence, Tail
from audit.estimation.verdicts import UserClaim as UserClaim
from audit.estimation.verdicts import Verdict as Verdict
from audit.estimation.verdicts import judge_interval as judge_interval
from audit.estimation.verdicts import judge_upper_bound as judge_upper_bound
from audit.mechanism import NoisySGD
from audit.numerics.display import ShortRepr
from audit.results.findings import Findings, Stored, Value, stored_value
from audit.simulation.fingerprint import STREAM

VERSION: Literal[2] = 2
CLAIMED: Literal["claimed"] = "claimed"

Floats = tuple[float, ...]
Parameter = Value | tuple[Value | None, ...] | None

_AXIS_END = 5e299  # the range is a double, and so are the margins of a figure
_PACKAGES = ("numpy", "scipy", "numba", "matplotlib", "hydra-core")


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


class ByOrder(Stored):
    """A divergence of the pair (X, X') in both orders, and the larger of the two."""

    forward: Number  #: The divergence of X from X'.
    reverse: Number  #: The divergence of X' from X.
    worst: Number  #: The larger of the two.


class SampledEvidence(Stored):
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

    @staticmethod
    def of(evidence: Evidence) -> SampledEvidence:
        """Return the evidence of an audit, with its counts by law (X, X') whatever the order."""
        x = evidence.first_count, evidence.first_total
        x_prime = evidence.second_count, evidence.second_total
        if evidence.order is Order.REVERSE:
            x, x_prime = x_prime, x
        return SampledEvidence(
            epsilon=evidence.value,
            order=evidence.order,
            tail=evidence.tail,
            threshold=evidence.threshold,
            count=x[0],
            total=x[1],
            count_prime=x_prime[0],
            total_prime=x_prime[1],
            error_spent=evidence.error_spent,
            largest_certifiable=evidence.sampling_limit,
        )


class Certified(Stored):
    """The largest certified epsilon, against which claims are judged."""

    epsilon: float  #: The certified lower bound.
    by: str  #: The name of the construction that attains it, or "samples".


class BoundRow(Stored):
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


class RefutedAfter(Stored):
    """The number of pairs of runs after which the sequential audit refuted a claim."""

    claim: str  #: The claim's name.
    pairs: int | None  #: The number of pairs; None if the claim was not refuted.


class Estimate(Stored):
    """The epsilon that one estimator certifies."""

    estimator: Estimator  #: The estimator.
    epsilon: float  #: The certified lower bound.
    refuted_after: tuple[RefutedAfter, ...]  #: For the sequential estimator, one entry per claim.


class AtDelta(Stored):
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


class AtOrder(Stored):
    """Sampled, exact and claimed values of the setting's Renyi divergence of one order."""

    order: float  #: The Renyi order, above 1.
    sampled_lower: float  #: The lower bound from samples.
    exact: ByOrder  #: The exact divergence of the setting's own pair.
    bounds: tuple[BoundRow, ...]  #: The claimed upper bounds.

    def __post_init__(self) -> None:
        validate.above_one(order=self.order)


class EpsilonAtDelta(Stored):
    """The exact epsilon of a pair at one delta, the worse of both orders."""

    delta: float  #: The delta, in [0, 1).
    epsilon: Number  #: The exact epsilon with its bracket.


class FoundBy(Stored):
    """The search that found a pair."""

    delta: float  #: The delta at which the search maximised epsilon.
    evaluations: int  #: Number of pairs that it tried.
    seed: int  #: Seed of the search.


class OtherPair(Stored):
    """Another pair for the same mechanism, whose exact law is computed but not sampled."""

    pair: Construction  #: The pair.
    epsilons: tuple[EpsilonAtDelta, ...]  #: The exact epsilons.
    found_by: FoundBy | None  #: The search that found the pair; None if it was given.


class NamedEpsilon(Stored):
    """The exact epsilon of a pair given by name, the worse of both orders."""

    pair: str  #: Name of the pair.
    epsilon: Number  #: The exact epsilon with its bracket.


class PositionAtDelta(Stored):
    """Exact, certified and claimed values of epsilon at one delta for the records of one batch."""

    delta: float  #: The delta, in [0, 1).
    pairs: tuple[NamedEpsilon, ...]  #: The exact epsilons of the pairs that were tried.
    certified: float  #: The certified lower bound.
    bounds: tuple[BoundRow, ...]  #: The claimed upper bounds.


class AtPosition(Stored):
    """The privacy loss of the records of one batch of the cycle."""

    position: int  #: The batch, from 0.
    index: int  #: The index, from 1, of the first record of that batch in the order of use.
    deltas: tuple[PositionAtDelta, ...]  #: One row per delta of the setting.


class BoundCurve(Stored):
    """The values of a bound along a curve."""

    id: str  #: The id of the bound.
    values: tuple[float | None, ...]  #: One value per point; None where the bound does not apply.


class LawCurves(Stored):
    """One law of the last iterate, computed and sampled."""

    density: Floats  #: The density at the points of the grid.
    histogram: Floats  #: The sampled density in each bin.
    atoms: tuple[float, float]  #: The mass at the two ends of the domain.
    atom_frequencies: tuple[float, float]  #: The sampled mass there.


class Laws(Stored):
    """The laws of X and X' over the range that holds the mass of either."""

    grid: Floats  #: The points of the densities.
    edges: Floats  #: The edges of the histograms' bins.
    ends: tuple[float, float]  #: The ends of the domain; infinite if it is unconstrained.
    first: LawCurves  #: The law of X.
    second: LawCurves  #: The law of X'.


class TradeoffCurves(Stored):
    """Tradeoff functions on one grid of type I errors: exact, an upper bound, and claimed ones."""

    alpha: Floats  #: The type I errors.
    exact: Floats  #: The exact tradeoff function of the pair.
    sampled_upper: Floats  #: The upper bound on it from samples.
    bounds: tuple[BoundCurve, ...]  #: The claimed lower bounds on the tradeoff function.


class BurnIn(Stored):
    """The number of steps after which epsilon stops growing, according to a theorem."""

    steps: float  #: The number of steps.
    theorem: str  #: The theorem's citation.


class EpsilonAgainstSteps(Stored):
    """The exact epsilon and the bounds after each number of steps, at one delta."""

    delta: float  #: The delta, in [0, 1).
    steps: tuple[int, ...]  #: The numbers of steps.
    exact: tuple[Number, ...]  #: The exact epsilon after each.
    bounds: tuple[BoundCurve, ...]  #: The claimed upper bounds after each.
    burn_in: BurnIn | None  #: The burn-in of a theorem that applies; None if there is none.


class ScoreHistograms(Stored):
    """Histograms of the scores of X and X'."""

    edges: Floats  #: The edges of the bins.
    first: Floats  #: The share of the scores of X in each bin.
    second: Floats  #: The share of those of X' in each bin.

    @staticmethod
    def of(x: NDArray[np.float64], x_prime: NDArray[np.float64], bins: int) -> ScoreHistograms:
        """Count two samples in bins over the range of both; what no axis holds is in the ends."""
        sides = [np.clip(sample, -_AXIS_END, _AXIS_END) for sample in (x, x_prime)]
        both = np.concatenate(sides)
        low, high = float(both.min()), float(both.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, bins + 1)
        first, second = (
            tuple((np.histogram(side, bins=edges)[0] / side.size).tolist()) for side in sides
        )
        return ScoreHistograms(edges=tuple(edges.tolist()), first=first, second=second)


class Derived(Stored):
    """Quantities that follow from a mechanism's parameters."""

    #: Standard deviation of the noise of one step; None if it differs between steps.
    step_std: float | None
    sensitivity: float  #: Sensitivity of a record's gradient.
    #: The diameter divided by the smallest noise of a step; None if the domain is unconstrained.
    diameter_in_step_std: float | None
    sampling_rate: float  #: Batch size divided by dataset size.
    epochs: float  #: Number of passes over the dataset.


class SettingHeading(Stored):
    """The fields of every result of a setting."""

    name: str  #: Short name, used in file names.
    title: str  #: Title for readers.
    summary: str  #: Description for readers.
    seed: int  #: Seed of the setting's samples.
    wall_seconds: float | None  #: Duration in seconds; None if left out (`Result.reproducible`).


class PairResult(SettingHeading):
    """A mechanism and a neighbouring pair: exact laws, samples and bounds.

    Raises
    ------
    ValueError
        If there is no delta, or a pair has another mechanism.
    """

    kind: ClassVar[str] = "pair"

    mechanism: NoisySGD  #: The mechanism.
    derived: Derived  #: Quantities that follow from the mechanism's parameters.
    pair: Construction  #: The construction that was computed and sampled.
    trials: int  #: Number of samples of each law.
    deltas: tuple[AtDelta, ...]  #: Epsilon at each delta.
    renyi: tuple[AtOrder, ...]  #: The Renyi divergence of each order.
    other_pairs: tuple[OtherPair, ...]  #: Further pairs for the same mechanism.
    #: The privacy loss of each record by its position in the cycle.
    positions: tuple[AtPosition, ...]
    audit: AuditRecord  #: The bounds that the samples certify.
    laws: Laws  #: The laws of the last iterate.
    tradeoff: TradeoffCurves  #: The tradeoff functions.
    epsilon_against_steps: EpsilonAgainstSteps  #: Epsilon after each number of steps.

    def __post_init__(self) -> None:
        _check_filled("deltas", self.deltas)
        if any(pair.mechanism != self.mechanism for pair in self.pairs):
            problem = "mechanism must be the same for all pairs, got a pair of another mechanism"
            raise ValueError(problem)

    @property
    def pairs(self) -> tuple[Construction, ...]:
        """The setting's own pair and the other pairs."""
        return (self.pair, *(other.pair for other in self.other_pairs))


class UserMechanismResult(SettingHeading):
    """A user-defined mechanism: its scores, and the claims about it.

    Raises
    ------
    ValueError
        If there is no delta.
    """

    kind: ClassVar[str] = "user-defined mechanism"

    source: str  #: The source of the scores: a function, or two files.
    trials: int  #: Number of scores of each dataset; the smaller one if they differ.
    deltas: tuple[AtDelta, ...]  #: Epsilon at each delta; exact values are not known.
    #: The bounds that the scores certify. The estimates of other estimators hold at the confidence
    #: level individually, not simultaneously with these.
    audit: AuditRecord
    scores: ScoreHistograms  #: Histograms of the scores.

    def __post_init__(self) -> None:
        _check_filled("deltas", self.deltas)


def _check_filled(name: str, entries: tuple[object, ...]) -> None:
    if not entries:
        raise validate.fail(name, "a list with at least one entry", [])


class StudyResult(SettingHeading):
    """A study: its function, its parameters and its findings."""

    kind: ClassVar[str] = "study"

    function: str  #: The study, as ``module:function``.
    #: The arguments of the call. Names of nested parameters are joined with dots.
    parameters: Mapping[str, Parameter]
    findings: Findings  #: Statements, tables and charts.

    def __post_init__(self) -> None:
        parameters = {name: _stored_parameter(value) for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", parameters)


def _stored_parameter(value: Parameter) -> Parameter:
    if isinstance(value, tuple):
        return tuple(None if item is None else stored_value(item) for item in value)
    return None if value is None else stored_value(value)


SettingResult = PairResult | UserMechanismResult | StudyResult


class ScenarioHeading(Stored):
    """The name and description of a scenario."""

    name: str  #: Short name, used in file names.
    title: str  #: Title for readers.
    summary: str  #: Description for readers.
    reference: str  #: The paper that the scenario is about; may be empty.

    def __post_init__(self) -> None:
        if not self.name:
            raise validate.fail("name", "a non-empty text", self.name)


class Environment(Stored):
    """The properties of a run that change between runs: time, machine, source tree and versions."""

    started: str  #: Start of the run, ISO 8601 in UTC.
    wall_seconds: float  #: Duration in seconds.
    threads: int  #: Number of threads.
    commit: str | None  #: The commit of the source tree; None outside a checkout.
    commit_dirty: bool  #: Whether tracked files differ from the commit.
    python: str  #: Version of Python.
    packages: Mapping[str, str]  #: Versions of the libraries.


class Provenance(Stored):
    """The provenance of a result."""

    version: str  #: Version of this package.
    seed: int  #: Seed of the run.
    command: str  #: The command that repeats the run.
    #: Time, machine and versions; None if left out (`Result.reproducible`).
    environment: Environment | None
    #: Version of the random numbers that walks draw from the seed; 1 in results that do not name
    #: it. Another version draws other numbers from the same seed.
    stream: int = 1


def provenance_of(
    *, seed: int, command: str, started: str, wall_seconds: float, threads: int
) -> Provenance:
    """Return the provenance of a run of this version: also of its libraries and source tree."""
    commit, dirty = _commit()
    return Provenance(
        version=audit.__version__,
        stream=STREAM,
        seed=seed,
        command=command,
        environment=Environment(
            started=started,
            wall_seconds=round(wall_seconds, 3),
            threads=threads,
            commit=commit,
            commit_dirty=dirty,
            python=platform.python_version(),
            packages={name: metadata.version(name) for name in _PACKAGES},
        ),
    )


def _commit() -> tuple[str | None, bool]:
    """Return the commit of the source tree, and whether tracked files differ from it."""
    root = Path(audit.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None, False
    found = []
    for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        command = ["git", "-C", str(root), *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            return None, False
        found.append(done.stdout.strip())
    return found[0], bool(found[1])


class Result(Stored):
    """The result of one run of a scenario.

    Raises
    ------
    ValueError
        If ``confidence`` is not in (0, 1), or there is no setting.
    """

    version: Literal[2] = field(default=VERSION, metadata=REQUIRED)  #: Version of this format.
    scenario: ScenarioHeading  #: The scenario that was run.
    provenance: Provenance  #: The provenance of the numbers.
    confidence: float  #: Confidence level of the statements of each setting, in (0, 1).
    settings: tuple[SettingResult, ...]  #: One value per setting, in the order of the scenario.

    def __post_init__(self) -> None:
        validate.open_unit(confidence=self.confidence)
        _check_filled("settings", self.settings)

    def reproducible(self) -> Result:
        """Return the result without the environment and the wall times, which change between runs.

        Returns
        -------
        Result
            The reproducible part.
        """
        return replace(
            self,
            provenance=replace(self.provenance, environment=None),
            settings=tuple(replace(setting, wall_seconds=None) for setting in self.settings),
        )
