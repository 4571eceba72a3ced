"""The result of a run: one value per setting of a scenario, and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions import Construction
from audit.estimation import AuditRecord
from audit.mechanism import NoisySGD
from audit.numerics.display import ShortRepr
from audit.results.comparisons import (
    AtDelta,
    AtOrder,
    AtPosition,
    EpsilonAgainstSteps,
    Laws,
    OtherPair,
    ScoreHistograms,
    TradeoffCurves,
)
from audit.results.findings import Findings, Value, stored_value

VERSION: Literal[2] = 2

Parameter = Value | tuple[Value | None, ...] | None


@dataclass(frozen=True, kw_only=True)
class Derived(ShortRepr):
    """Quantities that follow from a mechanism's parameters."""

    #: Standard deviation of the noise of one step; None if it differs between steps.
    step_std: float | None
    sensitivity: float  #: Sensitivity of a record's gradient.
    #: The diameter divided by the smallest noise of a step; None if the domain is unconstrained.
    diameter_in_step_std: float | None
    sampling_rate: float  #: Batch size divided by dataset size.
    epochs: float  #: Number of passes over the dataset.


@dataclass(frozen=True, kw_only=True)
class SettingHeading(ShortRepr):
    """The fields of every result of a setting."""

    name: str  #: Short name, used in file names.
    title: str  #: Title for readers.
    summary: str  #: Description for readers.
    seed: int  #: Seed of the setting's samples.
    wall_seconds: float | None  #: Duration in seconds; None if left out (`Result.reproducible`).


@dataclass(frozen=True, kw_only=True)
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
        _check_deltas(self.deltas)
        if any(pair.mechanism != self.mechanism for pair in self.pairs):
            raise ValueError(
                "mechanism must be the same for all pairs, got a pair of another mechanism"
            )

    @property
    def pairs(self) -> tuple[Construction, ...]:
        """The setting's own pair and the other pairs."""
        return (self.pair, *(other.pair for other in self.other_pairs))


@dataclass(frozen=True, kw_only=True)
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
        _check_deltas(self.deltas)


def _check_deltas(deltas: tuple[AtDelta, ...]) -> None:
    if not deltas:
        raise validate.fail("deltas", "a list with at least one entry", [])


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class ScenarioHeading(ShortRepr):
    """The name and description of a scenario."""

    name: str  #: Short name, used in file names.
    title: str  #: Title for readers.
    summary: str  #: Description for readers.
    reference: str  #: The paper that the scenario is about; may be empty.

    def __post_init__(self) -> None:
        if not self.name:
            raise validate.fail("name", "a non-empty text", self.name)


@dataclass(frozen=True, kw_only=True)
class Environment(ShortRepr):
    """The properties of a run that change between runs: time, machine, source tree and versions."""

    started: str  #: Start of the run, ISO 8601 in UTC.
    wall_seconds: float  #: Duration in seconds.
    threads: int  #: Number of threads.
    commit: str | None  #: The commit of the source tree; None outside a checkout.
    commit_dirty: bool  #: Whether tracked files differ from the commit.
    python: str  #: Version of Python.
    packages: Mapping[str, str]  #: Versions of the libraries.


@dataclass(frozen=True, kw_only=True)
class Provenance(ShortRepr):
    """The provenance of a result."""

    version: str  #: Version of this package.
    seed: int  #: Seed of the run.
    command: str  #: The command that repeats the run.
    #: Time, machine and versions; None if left out (`Result.reproducible`).
    environment: Environment | None
    #: Version of the random numbers that walks draw from the seed; 1 in results that do not name
    #: it. Another version draws other numbers from the same seed.
    stream: int = 1


@dataclass(frozen=True, kw_only=True)
class Result(ShortRepr):
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
        if not self.settings:
            raise validate.fail("settings", "a list with at least one entry", [])

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
