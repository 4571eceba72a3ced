"""What a study finds: statements with verdicts, tables and charts, all plain values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from audit import validate

Value = float | str


class Outcome(enum.Enum):
    """What became of one statement, said in a word.

    HOLDS is for what was computed in full; what samples or certificates only failed to refute is
    CONSISTENT.
    """

    HOLDS = "holds"
    CONSISTENT = "consistent"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"

    @classmethod
    def unless(cls, refuted: bool) -> Outcome:
        """Return what a claim is when somebody tried to refute it: REFUTED, or CONSISTENT."""
        return cls.REFUTED if refuted else cls.CONSISTENT


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One thing that is claimed, what was found, and what became of it.

    Parameters
    ----------
    claim
        The statement in words, one line.
    citation
        Where it is claimed: paper and number; "this package" for our own.
    expected, found
        The claimed and the found value, as numbers or words.
    error
        The numerical or statistical error of ``found`` that the outcome allows for.
    outcome
        What became of it, every error taken against a refutation.
    """

    claim: str
    citation: str
    expected: Value
    found: Value
    outcome: Outcome
    error: float | None = None


@dataclass(frozen=True, kw_only=True)
class FoundTable:
    """A table: a caption that says what to conclude, names of columns, and rows of values."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise validate.fail("rows", f"of {len(self.columns)} values each", row)


class Drawn(enum.Enum):
    """How the points of a series are drawn."""

    LINE = "line"
    POINTS = "points"
    STEPS = "steps"
    BAND = "band"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One named series of a chart; a band runs from ``y`` to ``top``."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    drawn: Drawn = Drawn.LINE
    top: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        others = (self.y,) if self.top is None else (self.y, self.top)
        if any(len(values) != len(self.x) for values in others):
            raise validate.fail(f"series {self.name!r}", "of one length in x and y", len(self.y))
        if (self.drawn is Drawn.BAND) != (self.top is not None):
            raise validate.fail(f"series {self.name!r}", "a band where it has a top", self.drawn)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart: ``name`` for its file, axes with units, series, and what to conclude from it."""

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_logarithmic: bool = False
    y_logarithmic: bool = False


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that a study found; ``notes`` are paragraphs between the statements and the rest."""

    statements: tuple[Statement, ...]
    tables: tuple[FoundTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


class Report(Protocol):
    """Takes (done, total) while a study runs."""

    def __call__(self, done: int, total: int, /) -> None:
        """Tell how far it is."""
        ...


class Study(Protocol):
    """A question that is no sandwich; a frozen dataclass whose fields are its settings."""

    def find(self, *, seed: int, threads: int, confidence: float, progress: Report) -> Findings:
        """Answer it; the same settings and seed give the same findings."""
        ...
