"""The contents of a report, before they become HTML, Markdown or LaTeX.

A document is a first screen and sections; a section is a list of parts: paragraphs, code, tables,
and galleries of pictures.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.numerics.number_format import MISSING, Rounding, bracket, count, number, plain, ratio
from audit.results import Number, Verdict

_SHORT_REPORT = 6  # sections that need no table of contents beside them
_PHONE, _GAP = 43, 2  # letters across a phone, and between two columns


class Style(enum.Enum):
    """Typesetting of the text of a cell."""

    TEXT = "text"
    NUMBER = "number"
    CODE = "code"
    VERDICT = "verdict"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table."""

    text: str  #: What is read.
    style: Style = Style.TEXT
    #: The number (or bracket) behind the text, in full, as JSON with ``Infinity``.
    value: str | None = None
    note: str = ""  #: A second, smaller line.
    target: str = ""  #: The ``ident`` of the section that the text links to.
    link: str = ""  #: The page that the text links to, relative to this one.

    @classmethod
    def number(cls, text: str, value: float | tuple[float, float], note: str = "") -> Cell:
        """Return a cell whose text stands for ``value``."""
        return cls(text=text, style=Style.NUMBER, value=json.dumps(value), note=note)

    @classmethod
    def missing(cls) -> Cell:
        """Return the cell of an absent number."""
        return cls(text=MISSING)

    @classmethod
    def code(cls, text: str, note: str = "") -> Cell:
        """Return an identifier."""
        return cls(text=text, style=Style.CODE, note=note)

    @classmethod
    def verdict(cls, verdict: Verdict) -> Cell:
        """Return a verdict, always written in words."""
        return cls(text=verdict.value, style=Style.VERDICT)


@dataclass(frozen=True)
class ColumnFormat:
    """Format of the values of a column; numbers are aligned right."""

    write: Callable[[Any], Cell]
    numeric: bool = True

    def cell(self, value: Any) -> Cell:
        """Return the cell of a value; None is an absent number, and a cell stays as it is."""
        if isinstance(value, Cell):
            return value
        return Cell.missing() if value is None else self.write(value)


def _exact(digits: int) -> Callable[[Number], Cell]:
    return lambda value: Cell.number(bracket(value.bracket, digits), value.bracket)


TEXT = ColumnFormat(lambda text: Cell(text=text), numeric=False)
VERDICT = ColumnFormat(Cell.verdict, numeric=False)
PARAMETER = ColumnFormat(lambda value: Cell.number(plain(value), value))  # as one would type it
COUNT = ColumnFormat(lambda value: Cell.number(count(value), value))
RATIO = ColumnFormat(lambda value: Cell.number(ratio(value), value))
LOWER = ColumnFormat(lambda value: Cell.number(number(value, 5, Rounding.DOWN), value))
UPPER = ColumnFormat(lambda value: Cell.number(number(value, 5, Rounding.UP), value))
EXACT = ColumnFormat(_exact(6))  # the certain digits of a `Number`
FULL = ColumnFormat(_exact(12))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells under columns, each a name and a format.

    ``stacked`` tables turn each row into a card on a narrow screen, but for those that fit it;
    others scroll sideways.
    """

    caption: str
    columns: tuple[tuple[str, ColumnFormat], ...]
    rows: tuple[tuple[Cell, ...], ...]
    stacked: bool = True

    @classmethod
    def of(
        cls,
        caption: str,
        columns: Mapping[str, ColumnFormat],
        rows: Iterable[Sequence[object]],
        *,
        stacked: bool = True,
    ) -> Table:
        """Return a table of values, which the columns' formats write."""
        cells = (
            tuple(one.cell(value) for one, value in zip(columns.values(), row, strict=True))
            for row in rows
        )
        named = tuple(columns.items())
        return cls(caption=caption, columns=named, rows=tuple(cells), stacked=stacked)

    @property
    def fits(self) -> bool:
        """Whether the table is narrow enough for a phone as it is: short cells without notes."""
        cells = [cell for row in self.rows for cell in row]
        if any(cell.note or cell.style is Style.VERDICT for cell in cells):
            return False
        heads = [max(map(len, label.split()), default=0) for label, _ in self.columns]
        widths = [
            max(head, *(len(row[i].text) for row in self.rows), 0) for i, head in enumerate(heads)
        ]
        return sum(widths) + _GAP * (len(widths) - 1) <= _PHONE


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawn figure: its file name without ending, and what to conclude from it."""

    name: str
    title: str
    caption: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Gallery:
    """Pictures that stand side by side where there is room, a table before them if there is one."""

    pictures: tuple[Picture, ...]
    table: Table | None = None


@dataclass(frozen=True)
class Code:
    """Text that keeps its lines."""

    lines: str


Part = str | Code | Table | Gallery


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled part of the report that folds; ``ident`` is its anchor.

    ``folded`` sections are closed when the page opens.
    """

    ident: str
    title: str
    parts: tuple[Part, ...]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Document:
    """A report: title, finding, a figure, one or two tables, then the sections.

    The first sentence of ``conclusion`` is the finding.
    """

    title: str
    subtitle: str
    conclusion: tuple[str, ...]
    tables: tuple[Table, ...]
    overview: Gallery
    sections: tuple[Section, ...]

    @property
    def long(self) -> bool:
        """Whether the table of contents stays in view."""
        return len(self.sections) > _SHORT_REPORT

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Every picture, in the order of the page."""
        galleries = [self.overview]
        for section in self.sections:
            galleries += [part for part in section.parts if isinstance(part, Gallery)]
        return tuple(picture for gallery in galleries for picture in gallery.pictures)
