from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from scipy.stats import norm

from audit.bounds import Status
from audit.report import queries, run_report
from audit.report.figures import charts, curves, laws, sandwich, style, sweep
from audit.report.figures.curves import steps_caption, tradeoff_caption
from audit.report.joined_rows import JoinedRow
from audit.results import (
    BoundCurve,
    BurnIn,
    LawCurves,
    Laws,
    Result,
    ScoreHistograms,
    Verdict,
)

from .collisions import collisions, ticks
from .example import around, bound, pair_settings, result, study, with_bound
from .test_setting_section import by_record


def test_spaced_moves_labels_apart_in_their_order_within_its_ends() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        positions = list(rng.uniform(0, 1, 8))
        moved = style.spaced(positions, 0.08)
        order = np.argsort(positions)
        assert np.all(np.diff(np.array(moved)[order]) >= 0.08 - 1e-12)
        assert np.mean(moved) == pytest.approx(np.mean(positions))
    for _ in range(50):
        positions = list(rng.uniform(0.5, 1, 9))
        moved = np.sort(style.spaced(positions, 0.1, 0.05, 0.95))
        assert np.all(np.diff(moved) >= 0.1 - 1e-12)
        assert moved[0] >= 0.05 - 1e-12
        assert moved[-1] <= 0.95 + 1e-12
    assert max(style.spaced(positions, 0.1)) > 0.95
    assert style.spaced([0.1, 0.5, 0.9], 0.2) == [0.1, 0.5, 0.9]
    assert style.spaced([], 0.2) == []


def test_bounds_differ_without_colour() -> None:
    looks = style.looks([f"bound {i}" for i in range(20)])
    assert len({(look.line, look.marker) for look in looks.values()}) == 20


def words(unsound: tuple[str, ...] = (), **changes: Any) -> str:
    return steps_caption(replace(pair_settings()[0].epsilon_against_steps, **changes), unsound)


def test_steps_caption_follows_the_data() -> None:
    text = words()
    assert "levels off: from T = 300 on" in text
    assert "bsa24.theorem_4_3 with 9.998, 8.269 times" in text
    assert "refuted there: example.theorem_1" in text
    assert "Still growing: at22.b_1, bsa24.theorem_4_1" in text
    assert "The burn-in time of Altschuler and Talwar 2022, Theorem 4.1 is 300 steps." in text
    falling = BoundCurve(id="a", values=tuple(range(20, 7, -1)))
    assert "Still falling: a." in words(bounds=(falling,))
    exact = pair_settings()[0].epsilon_against_steps.exact
    assert words(exact=(*exact[:-1], around(math.inf, 0.0))) == "The exact value is infinite."


@pytest.mark.parametrize(
    ("steps", "values", "text"),
    [
        ((10, 30, 60, 100, 200, 400), (0.5, 1, 1.4, 1.8, 1.54, 1.52), "from T = 200 on it is"),
        ((75, 150, 300), (9.6, 16.9, 13.5), "The exact value still falls at the last step"),
        ((90, 100), (2.0, 2.0), "is within 5% of its last value from T = 90 on"),
        ((1, 10, 100), (1.0, 9.0, 10.0), "The exact value still grows at the last step"),
    ],
)
def test_a_curve_is_level_only_after_its_last_change(
    steps: tuple[int, ...], values: tuple[float, ...], text: str
) -> None:
    assert text in words(
        steps=steps, exact=tuple(around(value, 0.0) for value in values), bounds=()
    )


def test_the_steps_caption_calls_no_unsound_claim_the_tightest() -> None:
    """Nor one that is refuted after another number of steps, whatever it claims at the last."""
    text = words(("bsa24.theorem_4_3",))
    assert "stands there is at22.b_1 with 10.75" in text
    setting = pair_settings()[0]
    assert queries.unsound(setting) == {"example.theorem_1"}
    setting = with_bound(setting, 0, 0, status=Status.UNPROVEN)
    assert queries.unsound(setting) == {"example.theorem_1", "at22.b_1"}
    # a claim that is below the exact value at the first step alone
    data = pair_settings()[0].epsilon_against_steps
    last = data.exact[-1].high * 1.001
    late = BoundCurve(id="late.theorem", values=(0.0, *[last] * (len(data.steps) - 1)))
    wide = tuple(replace(known, high=1e3) for known in data.exact)  # bounds inside are not refuted
    text = words(bounds=(*data.bounds, late), exact=wide)
    assert "stands there is bsa24.theorem_4_3" in text
    assert "hence refuted there: example.theorem_1, late.theorem." in text


def test_laws_caption_tells_samples_that_disagree() -> None:
    found = pair_settings()[0].laws
    assert "Samples and computation agree: 160 of 160" in laws.caption(
        found, 10**6, logarithmic=False
    )
    higher = replace(found.first, histogram=tuple(1.05 * v for v in found.first.histogram))
    text = laws.caption(replace(found, first=higher), 10**6, logarithmic=False)
    assert "Samples and computation differ" in text


def test_laws_agreement_holds_for_a_law_narrower_than_a_bin() -> None:
    """A narrow normal law in the middle against an even narrower one at the right end."""
    x = np.unique(np.concatenate([np.linspace(-0.2, 0.5, 301), np.linspace(0.48, 0.5, 101)]))
    edges, rate, atom = np.linspace(-0.2, 0.5, 81), 1500.0, 0.21
    first, tails = norm(0.0, 0.0316), (1 - atom) * np.exp(-rate * (0.5 - np.array([*x, *edges])))
    found = [
        LawCurves(
            density=tuple(density),
            histogram=tuple(np.round(np.diff(cdf) * 10**6) / 10**6 / np.diff(edges)),
            atoms=(0.0, mass),
            atom_frequencies=(0.0, mass),
        )
        for density, cdf, mass in (
            (first.pdf(x), first.cdf(edges), first.sf(0.5)),
            (rate * tails[: x.size], tails[x.size :], atom),
        )
    ]
    ends = {"edges": tuple(edges), "ends": (-0.5, 0.5)}
    narrow = Laws(grid=tuple(x), first=found[0], second=found[1], **ends)
    assert "Samples and computation agree" in laws.caption(narrow, 10**6, logarithmic=True)


def test_laws_on_the_whole_line_have_no_panels_for_atoms() -> None:
    found = pair_settings()[1].laws
    none = (0.0, 0.0)
    first, second = (replace(law, atoms=none) for law in (found.first, found.second))
    whole = replace(found, ends=(-math.inf, math.inf), first=first, second=second)
    assert "end of the domain" not in laws.draw(whole, 10**6, "sampled").caption


def test_tradeoff_caption_names_a_claim_above_the_exact_curve() -> None:
    curves = pair_settings()[0].tradeoff
    text = tradeoff_caption(curves, (), logarithmic=False)
    assert "contradicted by the pair: example.theorem_1" in text
    text = tradeoff_caption(curves, ("bsa24.theorem_4_3",), logarithmic=False)
    assert "tightest claim that stands allows" in text
    text = tradeoff_caption(curves, [bound.id for bound in curves.bounds], logarithmic=False)
    assert "tightest claim" not in text
    sound = tuple(bound for bound in curves.bounds if bound.id != "example.theorem_1")
    rounded_up = {"bounds": sound, "sampled_upper": (0.87631,) * len(curves.alpha)}
    text = tradeoff_caption(replace(curves, **rounded_up), (), logarithmic=True)
    assert "No claimed curve rises above the exact one. Both axes are logarithmic" in text
    assert "samples certify at most 0.877" in text
    small = {"alpha": (1e-9, 0.05), "exact": (0.5, 1e-12), "sampled_upper": (1.0, 0.5)}
    bounds = (
        BoundCurve(id="high", values=(0.5, 1e-7)),
        BoundCurve(id="low", values=(0.5 + 9e-7, 1e-12)),  # no more than errors of both
    )
    text = tradeoff_caption(replace(curves, **small, bounds=bounds), (), logarithmic=True)
    assert "contradicted by the pair: high (by up to 1.0e-7)" in text


def test_sandwich_caption_says_where_samples_end() -> None:
    text = sandwich.caption(pair_settings())
    assert "refuted: example.theorem_1" in text
    assert "In “The constants of the paper's footnote 9” the blue stretch is wide" in text
    assert "Every claim lies to the right" in sandwich.caption(pair_settings()[1:])
    no_claims = replace(pair_settings()[1].deltas[0], bounds=(bound("a", None, 2.0),), best=None)
    assert "Every claim" not in sandwich.caption([replace(pair_settings()[1], deltas=(no_claims,))])


def test_scores_that_no_axis_holds_are_drawn() -> None:
    x, y = np.array([1e308, 0.0]), np.array([-1e308, 0.0])
    found = ScoreHistograms.of(x, y, 5)
    assert (found.first, found.second) == ((0, 0, 0.5, 0, 0.5), (0.5, 0, 0.5, 0, 0))
    assert laws.draw_scores(found, 2, "own").svg


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


def test_the_figures_of_a_report_collide_nowhere(found: Drawn) -> None:
    run_report.build(crowded())
    assert found == [[]] * 5


def test_what_only_some_settings_have_collides_nowhere(found: Drawn) -> None:
    looks = style.looks(["fmtt18.theorem_23"])
    records = by_record(*(1.5 * i for i in range(1, 31)))
    curves.draw_positions(records, "full_batch", looks)
    curves.draw_positions([records[i] for i in (0, 9, 19, 29)], "full_batch", looks)
    edges, shares = tuple(np.linspace(-1e-6, 3e-6, 81).tolist()), (1 / 80,) * 80
    laws.draw_scores(ScoreHistograms(edges=edges, first=shares, second=shares), 1000, "own")
    for chart in study().findings.charts:
        charts.draw(chart, "powers")
    assert found == [[]] * 5


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
def test_the_ratios_of_a_sweep_collide_nowhere(
    found: Drawn, settings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ratios(settings)
    rows[0] = replace(rows[0], claimed=0.0)  # has no place on the axis
    figures, drawn = [], style.figure
    monkeypatch.setattr(style, "figure", lambda *given: figures.append(drawn(*given)) or figures[0])
    assert sweep.draw(rows) is not None
    axes = figures[0].axes[0]
    placed = np.concatenate([line.get_xdata() for line in axes.lines[1:]])
    assert placed.min() >= axes.get_xlim()[0] > 0
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
    assert not figure.axes[0].xaxis.get_offset_text().get_text()
