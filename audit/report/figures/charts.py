"""The charts of a study: named series on two axes, told apart without colours."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.results import Chart, Drawn, Series

_HEIGHT = 3.0  # inches
_MAX_MARKERS = 12  # markers on a line
_HATCHES = ("////", "\\\\\\\\", "....", "xxxx")


def draw(chart: Chart, stem: str) -> Picture:
    """Draw a chart; ``stem`` comes before its name in the file's name."""
    shown = style.looks([series.name for series in chart.series])

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "x" * chart.x_logarithmic + "y" * chart.y_logarithmic)
        for i, series in enumerate(chart.series):
            _draw_series(axes, series, shown[series.name], i)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)

    return style.picture(f"{stem}-{chart.name}", chart.title, chart.caption, on, _HEIGHT)


def _draw_series(axes: Axes, series: Series, look: Look, place: int) -> None:
    x, y, name = style.finite(series.x), style.finite(series.y), series.name
    name = f" {name}" if name.startswith("_") else name  # else it is left out of legends
    if series.top is not None:
        axes.fill_between(
            x, y, style.finite(series.top), facecolor=to_rgba(look.colour, 0.15),
            edgecolor=to_rgba(look.colour, 0.45), lw=0, label=name,
            hatch=_HATCHES[place % len(_HATCHES)],
        )  # fmt: skip
    elif series.drawn is Drawn.POINTS:
        axes.plot(x, y, look.marker, color=look.colour, mec="white", mew=0.6, label=name, zorder=3)
    else:
        # fewer markers than points where the points are many, from another first one each
        every = max(1, len(x) // _MAX_MARKERS)
        marked = (place % every, every)
        look.plot(axes, x, y, label=name, markevery=marked, steps=series.drawn is Drawn.STEPS)
