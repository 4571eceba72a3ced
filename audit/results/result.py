"""The result of a run: one value for each setting of a scenario, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from audit import validate
from audit.codec import REQUIRED
from audit.constructions import Construction
from audit.estimation import AuditRecord
from audit.mechanism import NoisySGD
from audit.results.comparisons import AtDelta, AtOrder, AtPosition, OtherPair
from audit.results.curves import EpsilonAgainstSteps, Laws, ScoreHistograms, TradeoffCurves
from audit.results.findings import Findings, Value, stored_value

VERSION: Literal[2] = 2

Parameter = Value | tuple[Value | None, ...] | None


@dataclass(frozen=True, kw_only=True)
class Derived:
    """What follows from a mechanism's parameters.

    ``step_std`` is None where it differs from step to step, and ``diameter_in_step_std`` (the
    diameter divided by the smallest noise of a step) where the domain is unconstrained.
    """

    step_std: float | None
    sensitivity: float
    diameter_in_step_std: float | None
    sampling_rate: float
    epochs: float


@dataclass(frozen=True, kw_only=True)
class PairResult:
    """A mechanism and the neighbouring pair that attacks it: computed, sampled and bounded.

    Parameters
    ----------
    name, title, summary
        A short name for files, and words for people.
    seed
        The seed of the setting's samples.
    wall_seconds
        How long it took; None where that is left out (`Result.reproducible`).
    mechanism, derived
        The mechanism, and what follows from its parameters.
    pair
        The construction that was computed and sampled.
    trials
        Samples of each law.
    deltas
        Epsilon at each delta.
    renyi
        Renyi divergences at each order.
    other_pairs
        More pairs for the same mechanism.
    positions
        The leak of each record by its position in the cycle.
    audit
        What the samples certify.
    laws, tradeoff, epsilon_against_steps
        The curves of the figures.
    """

    kind: ClassVar[str] = "pair"

    name: str
    title: str
    summary: str
    seed: int
    wall_seconds: float | None
    mechanism: NoisySGD
    derived: Derived
    pair: Construction
    trials: int
    deltas: tuple[AtDelta, ...]
    renyi: tuple[AtOrder, ...]
    other_pairs: tuple[OtherPair, ...]
    positions: tuple[AtPosition, ...]
    audit: AuditRecord
    laws: Laws
    tradeoff: TradeoffCurves
    epsilon_against_steps: EpsilonAgainstSteps

    def __post_init__(self) -> None:
        _check_deltas(self.deltas)
        if any(pair.mechanism != self.mechanism for pair in self.pairs):
            raise ValueError("mechanism must be that of every pair, got another one")

    @property
    def pairs(self) -> tuple[Construction, ...]:
        """The setting's own pair and the others."""
        return (self.pair, *(other.pair for other in self.other_pairs))


@dataclass(frozen=True, kw_only=True)
class UserMechanismResult:
    """A user-defined mechanism: its scores, and what is claimed of it.

    Parameters
    ----------
    name, title, summary, seed, wall_seconds
        As in `PairResult`.
    source
        Where the scores come from: a function, or two files.
    trials
        Scores of each dataset; the smaller number where they differ.
    deltas
        Epsilon at each delta; exact values are not known.
    audit
        What the scores certify; the other estimates hold by themselves, not together with it.
    scores
        Histograms of the scores.
    """

    kind: ClassVar[str] = "user-defined mechanism"

    name: str
    title: str
    summary: str
    seed: int
    wall_seconds: float | None
    source: str
    trials: int
    deltas: tuple[AtDelta, ...]
    audit: AuditRecord
    scores: ScoreHistograms

    def __post_init__(self) -> None:
        _check_deltas(self.deltas)


def _check_deltas(deltas: tuple[AtDelta, ...]) -> None:
    if not deltas:
        raise validate.fail("deltas", "a list with one entry or more", [])


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """A study: its function, its parameters and what it found.

    Parameters
    ----------
    name, title, summary, seed, wall_seconds
        As in `PairResult`.
    function
        The study, as ``module:function``.
    parameters
        What it was called with. Names of nested parameters are joined with dots.
    findings
        Statements, tables and charts.
    """

    kind: ClassVar[str] = "study"

    name: str
    title: str
    summary: str
    seed: int
    wall_seconds: float | None
    function: str
    parameters: Mapping[str, Parameter]
    findings: Findings

    def __post_init__(self) -> None:
        parameters = {name: _stored_parameter(value) for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", parameters)


def _stored_parameter(value: Parameter) -> Parameter:
    if isinstance(value, tuple):
        return tuple(None if item is None else stored_value(item) for item in value)
    return None if value is None else stored_value(value)


SettingResult = PairResult | UserMechanismResult | StudyResult


@dataclass(frozen=True, kw_only=True)
class ScenarioHeading:
    """A scenario's name for files, and its words for people."""

    name: str
    title: str
    summary: str
    reference: str

    def __post_init__(self) -> None:
        if not self.name:
            raise validate.fail("name", "a word", self.name)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What differs from run to run: time, machine, source tree and library versions.

    ``commit`` is None outside a checkout, and ``commit_dirty`` tells whether tracked files differ
    from it.
    """

    started: str
    wall_seconds: float
    threads: int
    commit: str | None
    commit_dirty: bool
    python: str
    packages: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a result comes from.

    ``environment`` is None where it is left out (`Result.reproducible`).
    """

    version: str
    seed: int
    command: str
    environment: Environment | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """Everything that one run of a scenario produces.

    Parameters
    ----------
    version
        The version of this format.
    scenario
        What was run.
    provenance
        Where the numbers come from.
    confidence
        The confidence level of the statements of each setting.
    settings
        One value for each setting, in the order of the scenario.
    """

    version: Literal[2] = field(default=VERSION, metadata=REQUIRED)
    scenario: ScenarioHeading
    provenance: Provenance
    confidence: float
    settings: tuple[SettingResult, ...]

    def __post_init__(self) -> None:
        validate.open_unit(confidence=self.confidence)
        if not self.settings:
            raise validate.fail("settings", "a list with one entry or more", [])

    def reproducible(self) -> Result:
        """Return the result without what differs from run to run: environment and wall times."""
        return replace(
            self,
            provenance=replace(self.provenance, environment=None),
            settings=tuple(replace(setting, wall_seconds=None) for setting in self.settings),
        )
