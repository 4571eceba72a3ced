"""Find defects of drawn figures: text over text, or outside the canvas."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

_TOUCH = 1.0  # pixels at 180 a inch: boxes hold some air around their letters
_SLANTED = 45.0  # boxes of slanted labels overlap where the labels do not


def collisions(figure: Figure) -> list[str]:
    """Return every pair of texts that overlap, and what leaves the canvas or lies on the axes."""
    figure.set_dpi(180)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    # of an annotation only the words, without its line
    shown = [(text, Text.get_window_extent(text, renderer)) for text in _texts(figure)]
    found = [
        f"{text.get_text()!r} leaves the canvas" for text, box in shown if not _inside(figure, box)
    ]
    for (one, first), (other, second) in combinations(shown, 2):
        both_slanted = one.get_rotation() == other.get_rotation() == _SLANTED
        if _overlap(first, second) and not both_slanted:
            found.append(f"{one.get_text()!r} lies on {other.get_text()!r}")
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        found += ["the legend lies on the axes" for a in figure.axes if _overlap(box, a.bbox)]
        if not _inside(figure, box):
            found.append("the legend leaves the canvas")
    return found


def ticks(axis: Axis) -> list[str]:
    """Return the labels at an axis that a reader sees, without the empty ones."""
    return [label.get_text() for label in _tick_labels(axis)]


def _texts(figure: Figure) -> Iterator[Text]:
    for axes in figure.axes:
        yield from _of_axes(axes)
    for legend in figure.legends:
        yield from legend.get_texts()
    yield from figure.texts


def _of_axes(axes: Axes) -> Iterator[Text]:
    titles = [child for child in axes.get_children() if isinstance(child, Text)]
    for text in [*titles, axes.xaxis.label, axes.yaxis.label]:
        if text.get_visible() and text.get_text().strip():
            yield text
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_offset_text().get_text():
            yield axis.get_offset_text()
        yield from _tick_labels(axis)


def _tick_labels(axis: Axis) -> Iterator[Text]:
    low, high = sorted(axis.get_view_interval())
    edge = 1e-9 * (high - low)
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        seen = low - edge <= tick.get_loc() <= high + edge
        if seen and tick.label1.get_visible() and tick.label1.get_text().strip():
            yield tick.label1


def _inside(figure: Figure, box: Bbox) -> bool:
    whole = figure.bbox
    return (
        box.x0 >= whole.x0 + _TOUCH
        and box.y0 >= whole.y0 + _TOUCH
        and box.x1 <= whole.x1 - _TOUCH
        and box.y1 <= whole.y1 - _TOUCH
    )


def _overlap(one: Bbox, other: Bbox) -> bool:
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    along = min(one.y1, other.y1) - max(one.y0, other.y0)
    return across > _TOUCH and along > _TOUCH
