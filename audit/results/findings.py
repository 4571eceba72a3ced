"""The findings of a study: statements with verdicts, tables and charts."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import dataclass_transform

import numpy as np

from audit import validate
from audit.codec.hints import NOT_FINITE
from audit.estimation.verdicts import Verdict
from audit.numerics.display import ShortRepr

Value = bool | int | float | str


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Stored(ShortRepr):
    """Base of the parts of results: each is a frozen dataclass with keyword arguments."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)


def stored_value(value: object) -> Value:
    """Convert a value to its stored form: a built-in number or text, and the text "nan" for NaN.

    Infinite numbers stay numbers, also if they are given as the text "inf" or "-inf".
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        value = NOT_FINITE.get(value, value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(value)
    if isinstance(value, bool | int | str):
        return value
    raise validate.fail("value", "a number or text", value)


class Statement(Stored):
    """One claim, the value that was found, and the verdict."""

    claim: str  #: The statement in words, one line.
    citation: str  #: The source of the claim: paper and number; "this package" for our own.
    expected: Value  #: The claimed value.
    found: Value  #: The value that was found.
    #: HOLDS, CONSISTENT, REFUTED or INCONCLUSIVE, with every error taken against a refutation.
    verdict: Verdict
    #: The numerical or statistical error of ``found`` that the verdict allows for.
    error: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected", stored_value(self.expected))
        object.__setattr__(self, "found", stored_value(self.found))
        if self.error is not None:
            object.__setattr__(self, "error", float(self.error))


class FoundTable(Stored):
    """A table of a study."""

    caption: str  #: The caption, which states the conclusion.
    columns: tuple[str, ...]  #: Names of the columns.
    rows: tuple[tuple[Value, ...], ...]  #: The rows; each has one number or text per column.

    def __post_init__(self) -> None:
        rows = tuple(tuple(stored_value(value) for value in row) for row in self.rows)
        for row in rows:
            if len(row) != len(self.columns):
                raise validate.fail("rows", f"of {len(self.columns)} values each", row)
        object.__setattr__(self, "rows", rows)


class Drawn(enum.Enum):
    """Style of the points of a series."""

    LINE = "line"
    POINTS = "points"
    STEPS = "steps"
    BAND = "band"


class Series(Stored):
    """One named series of a chart.

    Infinite and NaN coordinates are stored as None, which leaves a gap in the drawing.
    """

    name: str  #: Name in the legend.
    x: tuple[float | None, ...]  #: The coordinates.
    y: tuple[float | None, ...]  #: The coordinates.
    drawn: Drawn = Drawn.LINE  #: How the points are drawn.
    #: For a band, its upper edge; ``y`` is the lower one.
    top: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        series = f"series {self.name!r}"
        for name in ("x", "y") if self.top is None else ("x", "y", "top"):
            given = getattr(self, name)
            values = tuple(None if v is None or not math.isfinite(v) else float(v) for v in given)
            object.__setattr__(self, name, values)
            if len(values) != len(self.x):
                raise validate.fail(series, "of the same length in x and y", len(self.y))
        if (self.drawn is Drawn.BAND) != (self.top is not None):
            raise validate.fail(series, "a band if and only if top is given", self.drawn)


class Chart(Stored):
    """A chart of a study."""

    name: str  #: Name of the file, unique among the charts.
    title: str  #: The title.
    caption: str  #: The caption, which states the conclusion.
    x_label: str  #: Label of the horizontal axis, with units.
    y_label: str  #: Label of the vertical axis, with units.
    series: tuple[Series, ...]  #: The series.
    x_logarithmic: bool = False  #: Whether the axis is logarithmic.
    y_logarithmic: bool = False  #: Whether the axis is logarithmic.

    def __post_init__(self) -> None:
        if re.fullmatch(r"\w[\w.-]*", self.name, re.ASCII) is None:
            raise validate.fail("name", "letters, digits, '_', '-' and '.' of a file", self.name)


class Findings(Stored):
    """All findings of a study.

    Raises
    ------
    ValueError
        If two charts have the same name, or a number cannot be stored.
    """

    statements: tuple[Statement, ...]  #: Claims and the verdicts on them.
    tables: tuple[FoundTable, ...] = ()  #: The tables.
    charts: tuple[Chart, ...] = ()  #: The charts, with distinct names.
    notes: tuple[str, ...] = ()  #: Paragraphs after the statements.
    #: Further numbers for programs that read ``result.json``.
    numbers: Mapping[str, Value | Sequence[Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [chart.name for chart in self.charts]
        if len(set(names)) < len(names):
            raise validate.fail("charts", "of distinct names", names)
        object.__setattr__(
            self, "numbers", {name: _stored_values(value) for name, value in self.numbers.items()}
        )


def _stored_values(value: object) -> Value | tuple[Value, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(stored_value(item) for item in value)
    return stored_value(value)
