"""What a study finds: statements with verdicts, tables and charts."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from audit import validate
from audit.results.verdicts import Verdict

Value = bool | int | float | str
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf}


def stored_value(value: object) -> Value:
    """Return a value as it is stored: a built-in number or text, and the text "nan" for NaN.

    Infinite numbers stay numbers, also where they are given as the text "inf" or "-inf".
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(value)
    raise validate.fail("value", "a number or text", value)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One claim, what was found, and the verdict on it.

    Parameters
    ----------
    claim
        The statement in words, one line.
    citation
        Where it is claimed: paper and number; "this package" for our own.
    expected, found
        The claimed and the found value, as numbers or text.
    error
        The numerical or statistical error of ``found`` that the verdict allows for.
    verdict
        HOLDS, CONSISTENT, REFUTED or INCONCLUSIVE, with every error taken against a refutation.
    """

    claim: str
    citation: str
    expected: Value
    found: Value
    verdict: Verdict
    error: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected", stored_value(self.expected))
        object.__setattr__(self, "found", stored_value(self.found))
        if self.error is not None:
            object.__setattr__(self, "error", float(self.error))


@dataclass(frozen=True, kw_only=True)
class FoundTable:
    """A table: a caption that says what to conclude, names of columns, and rows of values."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        rows = tuple(tuple(stored_value(value) for value in row) for row in self.rows)
        for row in rows:
            if len(row) != len(self.columns):
                raise validate.fail("rows", f"of {len(self.columns)} values each", row)
        object.__setattr__(self, "rows", rows)


class Drawn(enum.Enum):
    """How the points of a series are drawn."""

    LINE = "line"
    POINTS = "points"
    STEPS = "steps"
    BAND = "band"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One named series of a chart; a band runs from ``y`` to ``top``.

    A coordinate that is infinite or NaN is stored as None: a gap in the drawing.
    """

    name: str
    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    drawn: Drawn = Drawn.LINE
    top: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", _coordinates(self.x))
        object.__setattr__(self, "y", _coordinates(self.y))
        if self.top is not None:
            object.__setattr__(self, "top", _coordinates(self.top))
        others = (self.y,) if self.top is None else (self.y, self.top)
        if any(len(values) != len(self.x) for values in others):
            raise validate.fail(f"series {self.name!r}", "of one length in x and y", len(self.y))
        if (self.drawn is Drawn.BAND) != (self.top is not None):
            raise validate.fail(f"series {self.name!r}", "a band where it has a top", self.drawn)


def _coordinates(values: Iterable[float | None]) -> tuple[float | None, ...]:
    return tuple(None if v is None or not math.isfinite(v) else float(v) for v in values)


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
    """Everything that a study found.

    Parameters
    ----------
    statements
        Claims and the verdicts on them.
    tables, charts
        Charts have names of their own.
    notes
        Paragraphs between the statements and the rest.
    numbers
        More numbers for programs that read ``result.json``, each a value or a list of them.
    """

    statements: tuple[Statement, ...]
    tables: tuple[FoundTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, Value | Sequence[Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [chart.name for chart in self.charts]
        if len(set(names)) < len(names):
            raise validate.fail("charts", "of a name each", names)
        object.__setattr__(
            self, "numbers", {name: _stored_values(value) for name, value in self.numbers.items()}
        )


def _stored_values(value: object) -> Value | tuple[Value, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(stored_value(item) for item in value)
    return stored_value(value)
