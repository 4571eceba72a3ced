"""Figures of every kind have no overlapping text, none outside the canvas, and readable axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from audit.report import run_report
from audit.report.figures import charts, curves, laws, style, sweep
from audit.report.joined_rows import JoinedRow
from audit.results import BoundCurve, BurnIn, Result, ScoreHistograms, Verdict

from .collisions import collisions, ticks
from .example import bound, example, pair_settings, result, study
from .test_setting_section import by_record

Drawn = list[list[str]]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Collects the collisions of every figure that is drawn, one list a figure."""
    drawn: Drawn = []
    original = style.figure

    def looked_at(draw: Callable[[Figure], None], height: float) -> Figure:
        figure = original(draw, height)
        drawn.append(collisions(figure))
        return figure

    monkeypatch.setattr(style, "figure", looked_at)
    for canvas, printed in ((FigureCanvasAgg, "print_png"), (FigureCanvasSVG, "print_svg")):
        monkeypatch.setattr(canvas, printed, lambda *given, **named: None)  # it draws once more
    return drawn


def test_the_figures_of_a_report_collide_nowhere(found: Drawn) -> None:
    run_report.build(example())
    assert len(found) == 12
    assert found == [[]] * len(found)


def crowded() -> Result:
    """Eight bounds within a hundredth, two of them refuted, long names and a long title."""
    setting = pair_settings()[0]
    ids = [f"author{i}.theorem_{i}_{i}_with_both_orders" for i in range(8)]
    rows = tuple(
        replace(
            row,
            best=None,
            bounds=tuple(
                bound(name, row.certified.epsilon * (0.995 + i / 400), row.certified.epsilon)
                for i, name in enumerate(ids)
            ),
        )
        for row in setting.deltas
    )
    steps, curves, laws = setting.epsilon_against_steps, setting.tradeoff, setting.laws
    against_steps = tuple(
        BoundCurve(id=name, values=tuple(v.low * (1 + i / 300) for v in steps.exact))
        for i, name in enumerate(ids)
    )
    return result(
        replace(
            setting,
            title="A setting whose title is far too long for one line, and for a second one, W",
            deltas=rows,
            renyi=tuple(
                replace(row, bounds=tuple(bound(name, 1.001, 0.5) for name in ids))
                for row in setting.renyi
            ),
            epsilon_against_steps=replace(
                steps, bounds=against_steps, burn_in=BurnIn(steps=5e7, theorem="A theorem")
            ),
            tradeoff=replace(
                curves, bounds=tuple(BoundCurve(id=name, values=curves.exact) for name in ids)
            ),
            laws=replace(
                laws,
                first=replace(laws.first, atoms=(0.31234, 1.7e-5)),
                second=replace(laws.second, atoms=(1.2e-8, 0.9999)),
            ),
        )
    )


def test_crowded_figures_collide_nowhere(found: Drawn) -> None:
    run_report.build(crowded())
    assert len(found) == 5
    assert found == [[]] * len(found)


def test_what_only_some_settings_have_collides_nowhere(found: Drawn) -> None:
    looks = style.looks(["fmtt18.theorem_23"])
    records = by_record(*(1.5 * i for i in range(1, 31)))
    curves.draw_positions(records, "full_batch", looks)
    curves.draw_positions([records[i] for i in (0, 9, 19, 29)], "full_batch", looks)
    edges, shares = tuple(np.linspace(-1e-6, 3e-6, 81).tolist()), (1 / 80,) * 80
    laws.draw_scores(ScoreHistograms(edges=edges, first=shares, second=shares), 1000, "own")
    for chart in study().findings.charts:
        charts.draw(chart, "powers")
    assert len(found) == 5
    assert found == [[]] * len(found)


def ratios(settings: int) -> list[JoinedRow]:
    return [
        JoinedRow(
            run="run",
            scenario=f"a_scenario_with_a_long_name_{i}",
            setting="with_a_setting",
            delta=delta,
            certified=1.0,
            claimed=1.0 + i / 50 if i else 0.99,
            ratio=1.0 + i / 50 if i else None,
            claimed_by="a",
            verdict=Verdict.unless(i == 0),
        )
        for i in range(settings)
        for delta in (1e-2, 1e-5)
    ]


@pytest.mark.parametrize("settings", [1, 14, 40])
def test_the_ratios_of_a_sweep_collide_nowhere(found: Drawn, settings: int) -> None:
    assert sweep.draw(ratios(settings)) is not None
    assert found == [[]] * len(found)


def test_runs_of_one_setting_share_a_line_whose_name_tells_delta() -> None:
    rows = ratios(1) * 9
    assert {sweep.line_name(row)[-8:] for row in rows} == {"δ = 0.01", "δ = 1e-5"}
    assert all(len(sweep.line_name(row)) <= sweep.MAX_NAME for row in rows)


def planted(change: Callable[[Figure], None]) -> list[str]:
    """Return what is found in a figure with nothing wrong but what ``change`` does."""

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([0.2, 0.9], [1.0, 1.2], label="a line")
        axes.set_xlabel("steps")

    figure = style.figure(on, 3.0)
    change(figure)
    return collisions(figure)


def test_planted_collisions_are_found() -> None:
    assert planted(lambda figure: None) == []

    def over(figure: Figure) -> None:
        figure.axes[0].text(0.5, 1.1, "first")
        figure.axes[0].text(0.51, 1.1, "second")

    assert planted(over) == ["'first' lies on 'second'"]

    def wide(figure: Figure) -> None:
        figure.axes[0].set_xlabel("a label that is too long " * 5)

    assert any("leaves the canvas" in words for words in planted(wide))
    inside = planted(lambda figure: figure.legends[0].set_loc("center"))
    assert "the legend lies on the axes" in inside


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.2, 0.95, {"0.2", "0.4", "0.8"}),  # less than a decade
        (2.72, 4.1, {"3", "4"}),  # not even 2 and 5
        (0.3, 40.0, {"0.5", "1", "10", "20"}),
        (1e-7, 1e5, {"1e-7", "0.001", "10"}),
        (1e3, 1e5, {"1000", "10000"}),
        (1.2e-8, 9e-7, {"1e-7", "5e-8"}),
    ],
)
def test_logarithmic_axes_have_three_numbers(low: float, high: float, expected: set[str]) -> None:
    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_xscale("log")
        style.logarithmic(axes, "x")
        axes.plot([low, high], [0.0, 1.0])
        axes.set_xlim(low, high)

    figure = style.figure(on, 3.0)
    assert collisions(figure) == []
    shown = ticks(figure.axes[0].xaxis)
    assert expected <= set(shown)
    assert 3 <= len(shown) <= 9
    assert not any("e-0" in text or "e+" in text for text in shown)


def test_linear_axes_are_written_out() -> None:
    """Neither an offset nor a factor in a corner, and 0 for what rounding left of it."""

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([-3e-6, 3e-6], [1.0, 1.0004])

    figure = style.figure(on, 3.0)
    assert collisions(figure) == []
    shown = ticks(figure.axes[0].xaxis)
    assert {"0", "\N{MINUS SIGN}2e-6", "2e-6"} <= set(shown)
    assert "1.0002" in ticks(figure.axes[0].yaxis)
    assert not any(axis.get_offset_text().get_text() for axis in (figure.axes[0].xaxis,))
