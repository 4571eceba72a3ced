"""The charts of a study: named series on two axes, told apart without colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.results import Chart, Drawn, Series

Array = NDArray[np.float64]

_HEIGHT = 3.0  # inches
_MARKED = 12  # markers on a line
_HATCHES = ("////", "\\\\\\\\", "....", "xxxx")


def draw(chart: Chart, stem: str) -> Picture:
    """Draw a chart; ``stem`` comes before its name in the file's name."""
    shown = style.looks([series.name for series in chart.series])

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        if chart.x_logarithmic:
            axes.set_xscale("log")
            style.logarithmic(axes.xaxis)
        if chart.y_logarithmic:
            axes.set_yscale("log")
            style.logarithmic(axes.yaxis)
        for i, series in enumerate(chart.series):
            _draw_series(axes, series, shown[series.name], i)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        style.legend_below(figure, axes)

    return style.picture(f"{stem}-{chart.name}", chart.title, chart.caption, on, _HEIGHT)


def _draw_series(axes: Axes, series: Series, look: Look, place: int) -> None:
    x, y, name = _values(series.x), _values(series.y), series.name
    if series.top is not None:
        axes.fill_between(
            x, y, _values(series.top), facecolor=to_rgba(look.colour, 0.15),
            edgecolor=to_rgba(look.colour, 0.45), lw=0, label=name,
            hatch=_HATCHES[place % len(_HATCHES)],
        )  # fmt: skip
    elif series.drawn is Drawn.POINTS:
        axes.plot(x, y, look.marker, color=look.colour, mec="white", mew=0.6, label=name, zorder=3)
    else:
        # fewer markers than points where the points are many, from another first one each
        every = max(1, len(x) // _MARKED)
        marked = (place % every, every)
        look.plot(axes, x, y, label=name, markevery=marked, steps=series.drawn is Drawn.STEPS)


def _values(coordinates: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in coordinates])
