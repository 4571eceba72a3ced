"""Objects on the screen: short reprs, and pictures of bounds for notebooks."""

from __future__ import annotations

import dataclasses
import enum
import html
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.numerics.number_format import Rounding, number, telling

_MAX_NESTED = 120  # characters of an object within another
_MAX_TEXT = 60
_MAX_ITEMS = 4
_ELLIPSIS = "..."


class ShortRepr:
    """Base of dataclasses whose repr leaves out defaults, functions and long collections.

    What is left out is written ``...``; an array is written as its type and shape. A class that
    defines its own repr keeps it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # the dataclass decorator keeps it then
            cls.__repr__ = ShortRepr.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        name = type(self).__name__
        if not dataclasses.is_dataclass(self):
            return f"{name}({_ELLIPSIS})"
        parts = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name, field.default)
            if not field.repr or _is_default(value, field.default):
                continue
            parts.append((field.name, _short(value)))
        shown = [f"{key}={text}" for key, text in parts if text != _ELLIPSIS]
        hidden = [_ELLIPSIS] * (len(shown) < len(parts))
        return f"{name}({', '.join(shown + hidden)})"


def _is_default(value: object, default: object) -> bool:
    return type(value) is type(default) and _short(value) != _ELLIPSIS and value == default


def _short(value: object) -> str:
    """Return the repr of a small value, else ``...``."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str):
        cut = value if len(value) <= _MAX_TEXT else value[: _MAX_TEXT - len(_ELLIPSIS)] + _ELLIPSIS
        return repr(cut)
    if isinstance(value, ShortRepr):
        text = repr(value)
        return text if len(text) <= _MAX_NESTED else f"{type(value).__name__}({_ELLIPSIS})"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{value.dtype} {value.shape}>"
    if isinstance(value, tuple | list) and len(value) <= _MAX_ITEMS:
        items = [_short(item) for item in value]
        if _ELLIPSIS not in items:
            comma = "," * (len(items) == 1 and isinstance(value, tuple))
            ends = "()" if isinstance(value, tuple) else "[]"
            return f"{ends[0]}{', '.join(items)}{comma}{ends[1]}"
    return _ELLIPSIS


FEW_DELTAS = (1e-3, 1e-5, 1e-7)
"""Deltas of pictures in notebooks."""

DELTAS = tuple(10 ** (-halves / 2) for halves in range(20, 1, -1))
"""Deltas of plots, from 1e-10 to 0.1."""


class Plotted(ABC):
    """Base of classes that can be drawn as epsilon against delta."""

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw epsilon against delta.

        A curve's brackets, where they are known, are drawn as the area between their ends. Of an
        audit the lower bounds are drawn.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default those of pyplot.
        **style : object
            Options of ``Axes.plot``: ``label``, ``color``, ...

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ValueError
            If ``ax`` is something else.

        Examples
        --------
        >>> from audit.curves import GaussianCurve
        >>> ax = GaussianCurve(1.0).plot(label="1-GDP")
        >>> ax.get_xlabel(), ax.get_xscale()
        ('delta', 'log')
        """
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.gca()
        if not hasattr(ax, "fill_between"):
            raise ValueError(f"ax must be axes of matplotlib, got {ax!r}")
        ax.set(xscale="log", xlabel="delta", ylabel="epsilon")
        self._draw(ax, **style)
        return ax

    @abstractmethod
    def _draw(self, ax: Any, **style: Any) -> None: ...


LOWER, EXACT, UPPER = "#0065A8", "#111111", "#C44E00"
"""Colours of lower bounds, exact values and upper bounds."""

_LABELS, _LINE, _TEXT, _ROW = 210, 250, 210, 26  # pixels
_DIGITS = 5


@dataclass(frozen=True)
class Marks:
    """Bounds on one number: a certified lower one, an exact bracket, a claimed or proven upper one.

    ``label`` names the number; ``note`` replaces the text of a number that cannot be computed.
    """

    label: str
    lower: float | None = None
    exact: tuple[float, float] | None = None
    upper: float | None = None
    note: str = ""

    @property
    def values(self) -> list[float]:
        """The finite numbers."""
        return [
            v
            for v in (self.lower, *(self.exact or ()), self.upper)
            if v is not None and math.isfinite(v)
        ]

    @property
    def text(self) -> str:
        """The numbers in words, rounded outward."""
        low = self.exact[0] if self.exact else self.lower
        high = self.upper if self.upper is not None else (self.exact or (0, None))[1]
        crossed = low is not None and high is not None and low > high
        digits = telling(high or 0.0, low or 0.0, _DIGITS) if crossed else _DIGITS
        left = "" if low is None else number(low, digits, Rounding.DOWN)
        right = "" if high is None else number(high, digits, Rounding.UP)
        both = left if left == right else f"{left} {'>' if crossed else 'to'} {right}"
        one = f"≥ {left}" if left else f"≤ {right}" if right else ""
        return self.note or (both if left and right else one)


def sandwich(title: str, rows: Sequence[Marks]) -> str:
    """Return HTML with the numbers of each row on one line, from 0 on a common axis.

    A triangle that points right is a lower bound, a bar an exact value, a triangle that points left
    an upper bound.
    """
    largest = max((value for row in rows for value in row.values), default=1.0) or 1.0
    height = _ROW * len(rows) + 4
    inside = "".join(_drawn(row, _ROW * (i + 0.5), largest) for i, row in enumerate(rows))
    width = _LABELS + _LINE + _TEXT
    return (
        f"<div><code>{html.escape(title)}</code><br>"
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'style="max-width:100%;background:white" font-family="sans-serif" font-size="12">'
        f"{inside}</svg></div>"
    )


def _drawn(row: Marks, y: float, largest: float) -> str:
    def at(value: float) -> float:
        return _LABELS + 0.94 * _LINE * min(value / largest, 1.05)

    end = _LABELS + _LINE
    parts = [
        f'<text x="4" y="{y + 4:g}">{html.escape(row.label)}</text>',
        f'<line x1="{_LABELS}" x2="{end}" y1="{y:g}" y2="{y:g}" stroke="#BBBBBB"/>',
        f'<text x="{end + 8}" y="{y + 4:g}">{html.escape(row.text)}</text>',
    ]
    for value, width, colour in ((row.lower, -9, LOWER), (row.upper, 9, UPPER)):
        if value is not None:
            parts.append(f'<path d="M{at(value):.1f},{y:g}l{width},-6v12z" fill="{colour}"/>')
    if row.exact is not None:
        low, high = map(at, row.exact)
        wide = max(high - low, 2.5)
        parts.append(
            f'<rect x="{low - 1:.1f}" y="{y - 8:g}" width="{wide:.1f}" height="16" fill="{EXACT}"/>'
        )
    return "".join(parts)
