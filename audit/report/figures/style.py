"""One look for all figures, readable without colours, and the same bytes for the same input."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    ScalarFormatter,
)
from scipy.optimize import isotonic_regression

from audit.numerics.arrays import Array
from audit.numerics.number_format import plain
from audit.report.document import Picture

WIDTH = 5.0  # inches: still read at a phone's width, and two fit side by side on a desk
FIRST, SECOND = "#0065A8", "#C44E00"  # the laws of X and X'
EXACT, SAMPLED, QUIET = "#111111", "#0065A8", "#6B6B6B"

_LEGEND_LETTERS = 54  # letters of two legend labels that fit side by side
_LEGEND_ROW = 0.19  # inches
_AXIS_ZERO = 1e-9  # share of an axis
LARGEST = 1e300  # value that an axis holds, with its margins

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "hatch.color": "#DDA27C",
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.0,
    "legend.handletextpad": 0.6,
    "svg.hashsalt": "noisy-sgd-audit",
    "svg.fonttype": "path",
    "text.usetex": False,
    "text.parse_math": False,  # names may hold dollars
}
_LINES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1)), (0, (1, 2)))
_MARKERS = ("s", "o", "^", "D", "v", "P", "X", "<", ">", "p")
_WIDTHS, _SIZES = (2.1, 1.3), (6.6, 3.8)  # of the first and the last line
_COLOURS = ("#117733", "#882255", "#8A6A00", "#2A8C80", "#AA4499", "#332288", "#7A4B2A", "#555555")


@dataclass(frozen=True)
class Look:
    """Style of one bound in every figure.

    Later ones are thinner and lie on top, so that curves which coincide are all seen.
    """

    colour: str
    line: str | tuple[int, tuple[int, ...]]
    marker: str
    width: float = _WIDTHS[0]
    size: float = _SIZES[0]
    zorder: float = 2.0

    def plot(
        self,
        axes: Axes,
        x: Array,
        y: Array,
        *,
        label: str | None = None,
        markevery: slice | tuple[int, int] | None = None,
        steps: bool = False,
    ) -> None:
        """Draw a curve; ``steps`` keeps each value until the next point."""
        axes.plot(
            x, y, color=self.colour, ls=self.line, lw=self.width, marker=self.marker,
            ms=self.size, zorder=self.zorder, label=label, markevery=markevery,
            drawstyle="steps-post" if steps else "default",
        )  # fmt: skip


def finite(values: Iterable[float | None]) -> Array:
    """Return numbers as an array; NaN where they are infinite or missing."""
    found = np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def looks(ids: Sequence[str]) -> dict[str, Look]:
    """Give each bound a colour, a line and a marker of its own."""
    found = {}
    for i, name in enumerate(ids):
        share = i / max(1, len(ids) - 1)
        found[name] = Look(
            _COLOURS[i % len(_COLOURS)],
            _LINES[i % len(_LINES)],
            _MARKERS[i % len(_MARKERS)],
            _WIDTHS[0] + share * (_WIDTHS[1] - _WIDTHS[0]),
            _SIZES[0] + share * (_SIZES[1] - _SIZES[0]),
            2.0 + share / 2,
        )
    return found


def picture(
    name: str, title: str, caption: str, draw: Callable[[Figure], None], height: float
) -> Picture:
    """Draw on a fresh figure of the common width and keep it as SVG and PNG."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        drawn = figure(draw, height)
        layout = drawn.get_layout_engine()
        assert layout is not None
        drawn.set_layout_engine("none")  # laid out once here, not again at every drawing
        svg, png = io.BytesIO(), io.BytesIO()
        as_png: Any = FigureCanvasAgg(drawn)
        drawn.dpi = 180
        layout.execute(drawn)
        as_png.print_png(png, metadata={"Software": None})
        as_svg: Any = FigureCanvasSVG(drawn)
        as_svg.print_svg(svg, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return Picture(
        name=name,
        title=title,
        caption=caption,
        svg=_own_ids(svg.getvalue(), name),
        png=png.getvalue(),
    )


def figure(draw: Callable[[Figure], None], height: float) -> Figure:
    """Return a fresh figure of the common width, drawn, with a legend of what has a label.

    The height in inches is that without the legend.
    """
    fresh = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
    draw(fresh)
    _legend_below(fresh)
    _plain_numbers(fresh)
    return fresh


def _own_ids(svg: bytes, name: str) -> bytes:
    """Put the figure's name before its ids, so that many drawings fit into one page."""
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}.", svg.decode("utf-8"))
    return text.encode("utf-8")


class _Readable(Locator):
    """Ticks of a logarithmic axis, at least three where it is in any way possible.

    Decades; where there are hardly any, 2 and 5 between them; on a short axis even steps.
    """

    _FEWEST = 3

    def __init__(self) -> None:
        self._decades = LogLocator()
        self._finer = (LogLocator(subs=(1.0, 2.0, 5.0)), MaxNLocator(5, steps=[1, 2, 5, 10]))

    def set_axis(self, axis: Any) -> None:
        super().set_axis(axis)
        for locator in (self._decades, *self._finer):
            locator.set_axis(axis)

    def __call__(self) -> Sequence[float]:
        return self.tick_values(*sorted(self.axis.get_view_interval()))  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        found: list[float] = []
        for locator in (self._decades, *self._finer):
            ticks = [float(tick) for tick in locator.tick_values(vmin, vmax)]
            shown = [tick for tick in ticks if vmin <= tick <= vmax and tick > 0]
            if len(shown) > len(found):
                found = shown
            if len(found) >= self._FEWEST:
                break
        return found


def logarithmic(axes: Axes, which: str) -> None:
    """Make "x", "y" or "xy" logarithmic: decades as 0.01, 1, 100 or 1e-7, more on a short one."""
    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_locator(_Readable())
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    """Return a number as it stands at a tick of a logarithmic axis."""
    if 1e-3 <= value < 1e5:
        return f"{float(f'{value:.4g}'):g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _plain_numbers(figure: Figure) -> None:
    """Write the numbers of linear axes as in the tables: no offset or factor in a corner."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), ScalarFormatter):
                axis.set_major_formatter(FuncFormatter(partial(_plain, axis)))


def _plain(axis: Axis, value: float, place: int | None) -> str:
    low, high = axis.get_view_interval()
    if abs(value) < _AXIS_ZERO * abs(high - low):  # what rounding left of a tick at 0
        return "0"
    text = plain(abs(float(value)))
    return f"\N{MINUS SIGN}{text}" if value < 0 else text


def _legend_below(figure: Figure) -> None:
    """Put the legend under the axes, where it covers nothing, and make room for it."""
    known = [
        entry
        for axes in figure.axes
        for entry in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    if not known:
        return
    handles, labels = zip(*known, strict=True)
    half = math.ceil(len(labels) / 2)
    lengths = [max(map(len, column), default=0) for column in (labels[:half], labels[half:])]
    columns = 2 if sum(lengths) <= _LEGEND_LETTERS else 1
    rows = half if columns == 2 else len(labels)
    figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * rows)
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, borderaxespad=0.1)


def spaced(
    positions: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf
) -> list[float]:
    """Return positions moved apart to at least ``gap``; neighbours that collide share the move.

    They stay between ``low`` and ``high`` where there is room for all of them.
    """
    if not positions:
        return []
    order = np.argsort(positions, kind="stable")
    least = gap * np.arange(len(positions))
    # the least squares of all moves: without the gaps, the nearest increasing sequence
    moved = isotonic_regression(np.take(positions, order) - least).x + least
    result = np.empty(len(positions))
    result[order] = np.maximum(np.minimum(moved, high - least[::-1]), low + least)
    return [float(value) for value in result]
