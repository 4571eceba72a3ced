"""A statement over the panel: claimed over certified, mechanism by mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.numerics.number_format import ratio
from audit.report.document import Picture
from audit.report.figures import style
from audit.results import Verdict
from audit_panel.verdicts import PanelPoint, PanelVerdict

_HEIGHT = 3.4  # inches
_LEAST, _MOST = 1e-2, 1e3  # ratios beyond are drawn at the edge
_GAP = 3.0  # positions between two groups
_WRONG = "#B00020"  # the colour of refuted claims
_MARKERS = {"weak push": "v", "medium push": "o", "strong push": "^", "very strong push": "D"}


def draw(verdict: PanelVerdict) -> Picture:
    """Draw the ratio on every judged mechanism, grouped by the length of the run."""
    groups = _by_length(verdict.judged)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "y")
        axes.axhline(1.0, color=style.EXACT, lw=1.0, zorder=1)
        named: set[str] = set()
        place, ticks = 0.0, []
        for name, points in groups.items():
            ticks.append((place + (len(points) - 1) / 2, name))
            for point in points:
                _mark(axes, place, point, named)
                place += 1
            place += _GAP
        axes.set_xticks([at for at, _ in ticks], [_folded(name) for _, name in ticks])
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("claimed over certified")

    return style.picture("panel", "Claimed over certified", _caption(verdict), on, _HEIGHT)


def _mark(axes: Axes, place: float, point: PanelPoint, named: set[str]) -> None:
    """Draw a point and the tightest other bound; ``named`` are the labels of the legend."""

    def label(text: str) -> str | None:
        if text in named:
            return None
        named.add(text)
        return text

    other = point.competing_ratio
    if not math.isnan(other):
        axes.plot(
            place, _shown(other), "_", color=style.QUIET, ms=7, zorder=2,
            label=label("tightest other bound"),
        )  # fmt: skip
    refuted = point.verdict is Verdict.REFUTED
    push = point.regime.get("push", "")
    axes.plot(
        place, _shown(point.ratio), _MARKERS.get(push, "s"), zorder=3, ms=5.5,
        color=_WRONG if refuted else style.SAMPLED, mfc=_WRONG if refuted else "white",
        label=label(f"{'refuted' if refuted else 'consistent'}, {push}"),
    )  # fmt: skip


def _shown(value: float) -> float:
    return min(max(value, _LEAST), _MOST)


def _by_length(points: Iterable[PanelPoint]) -> dict[str, list[PanelPoint]]:
    groups: dict[str, list[PanelPoint]] = {}
    for point in points:
        groups.setdefault(point.regime.get("length", ""), []).append(point)
    return dict(sorted(groups.items(), key=lambda group: group[0], reverse=True))


def _folded(name: str) -> str:
    words = name.replace(", ", "\n").split(" ")
    return " ".join(words) if len(words) < 3 else f"{' '.join(words[:2])}\n{' '.join(words[2:])}"


def _caption(verdict: PanelVerdict) -> str:
    ratios: Sequence[float] = [point.ratio for point in verdict.judged]
    if not ratios:
        return "No mechanism could be judged."
    beyond = sum(not _LEAST <= value <= _MOST for value in ratios)
    edge = f" {beyond} lie beyond an edge." if beyond else ""
    return (
        f"Each mark is a mechanism, grouped by the length of the run; below 1 the statement is "
        f"refuted. The least ratio is {ratio(min(ratios))}.{edge}"
    )
