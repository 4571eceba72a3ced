"""The charts of a study: named series on two axes, told apart without colours."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.report.stored import Node

Array = NDArray[np.float64]

_HEIGHT = 3.0  # inches
_MARKED = 12  # markers on a line
_HATCHES = ("////", "\\\\\\\\", "....", "xxxx")


def draw(chart: Node, stem: str) -> Picture:
    """Draw a stored chart; ``stem`` comes before its name in the file's name."""
    shown = style.looks([str(one["name"]) for one in chart["series"]])

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        if chart.get("x_logarithmic"):
            axes.set_xscale("log")
            style.logarithmic(axes.xaxis)
        if chart.get("y_logarithmic"):
            axes.set_yscale("log")
            style.logarithmic(axes.yaxis)
        for i, one in enumerate(chart["series"]):
            _series(axes, one, shown[str(one["name"])], i)
        axes.set_xlabel(str(chart["x_label"]))
        axes.set_ylabel(str(chart["y_label"]))
        style.legend_below(figure, axes)

    name = f"{stem}-{chart['name']}"
    return style.picture(name, str(chart["title"]), str(chart["caption"]), on, _HEIGHT)


def _series(axes: Axes, one: Node, look: Look, place: int) -> None:
    x, y = _values(one["x"]), _values(one["y"])
    name = str(one["name"])
    drawn = one["drawn"]
    if drawn == "band":
        axes.fill_between(
            x, y, _values(one["top"]), facecolor=to_rgba(look.colour, 0.15),
            edgecolor=to_rgba(look.colour, 0.45), lw=0, label=name,
            hatch=_HATCHES[place % len(_HATCHES)],
        )  # fmt: skip
    elif drawn == "points":
        axes.plot(x, y, look.marker, color=look.colour, mec="white", mew=0.6, label=name, zorder=3)
    else:
        # fewer markers than points where the points are many, from another first one each
        every = max(1, len(x) // _MARKED)
        axes.plot(
            x, y, markevery=(place % every, every), label=name,
            drawstyle="steps-post" if drawn == "steps" else "default", **look.curve,
        )  # fmt: skip


def _values(stored: list[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in stored], dtype=np.float64)
