"""One look for all figures, readable without colours, and the same bytes for the same input."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from audit.report.parts import Picture

WIDTH = 5.0  # inches: still read at a phone's width, and two fit side by side on a desk
FIRST, SECOND = "#0065A8", "#C44E00"  # the laws of X and X'
EXACT, SAMPLED, QUIET = "#111111", "#0065A8", "#6B6B6B"

_LETTERS = 54  # of two labels of a legend that fit side by side
_LEGEND_ROW = 0.19  # inches

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
}
_LINES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1)), (0, (1, 2)))
_MARKERS = ("s", "o", "^", "D", "v", "P", "X", "<", ">", "p")
_COLOURS = ("#117733", "#882255", "#8A6A00", "#2A8C80", "#AA4499", "#332288", "#7A4B2A", "#555555")


@dataclass(frozen=True)
class Look:
    """How one bound is drawn, in every figure."""

    colour: str
    line: str | tuple[int, tuple[int, ...]]
    marker: str


def looks(ids: Sequence[str]) -> dict[str, Look]:
    """Give each bound a colour, a line and a marker of its own."""
    return {
        name: Look(
            _COLOURS[i % len(_COLOURS)], _LINES[i % len(_LINES)], _MARKERS[i % len(_MARKERS)]
        )
        for i, name in enumerate(ids)
    }


def picture(
    name: str, title: str, caption: str, draw: Callable[[Figure], None], height: float
) -> Picture:
    """Draw on a fresh figure of the common width and keep it as SVG and PNG."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
        draw(figure)
        svg, png = io.BytesIO(), io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(svg, format="svg", metadata=nothing)
        figure.savefig(png, format="png", dpi=180, metadata={"Software": None})
    return Picture(
        name=name,
        title=title,
        caption=caption,
        svg=_own_ids(svg.getvalue(), name),
        png=png.getvalue(),
    )


def _own_ids(svg: bytes, name: str) -> bytes:
    """Put the figure's name before its ids, so that many drawings fit into one page."""
    prefix = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    text = svg.decode("utf-8")
    text = re.sub(r'\bid="', f'id="{prefix}.', text)
    text = re.sub(r'href="#', f'href="#{prefix}.', text)
    text = re.sub(r"url\(#", f"url(#{prefix}.", text)
    return text.encode("utf-8")


def logarithmic(axis: Axis) -> None:
    """Label the decades of a logarithmic axis as 0.01, 1, 100, or 1e-7, and nothing between."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: _decade(value)))
    axis.set_minor_formatter(NullFormatter())


def _decade(value: float) -> str:
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put the legend under the axes, where it covers nothing, and make room for it."""
    handles, labels = axes.get_legend_handles_labels()
    half = math.ceil(len(labels) / 2)
    lengths = [max(map(len, column), default=0) for column in (labels[:half], labels[half:])]
    columns = 2 if sum(lengths) <= _LETTERS else 1
    rows = half if columns == 2 else len(labels)
    figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * rows)
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, borderaxespad=0.1)


def spaced(positions: Sequence[float], gap: float) -> list[float]:
    """Return positions moved apart to at least ``gap``; neighbours that collide share the move."""
    blocks: list[list[int]] = []

    def middle(block: list[int]) -> float:
        return sum(positions[i] for i in block) / len(block)

    for i in sorted(range(len(positions)), key=lambda i: positions[i]):
        blocks.append([i])
        while len(blocks) > 1:
            room = gap * (len(blocks[-2]) + len(blocks[-1])) / 2
            if middle(blocks[-1]) - middle(blocks[-2]) >= room:
                break
            last = blocks.pop()
            blocks[-1] += last
    result = [0.0] * len(positions)
    for block in blocks:
        for k, i in enumerate(block):
            result[i] = middle(block) + gap * (k - (len(block) - 1) / 2)
    return result
