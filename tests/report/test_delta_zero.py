"""Reports at delta = 0, where most bounds and many exact values are infinite."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema  # type: ignore[import-untyped]
import pytest

from audit.report import queries, setting_section
from audit.report.figures import curves, sandwich, style
from audit.report.terminal import show
from audit.results import ByOrder, Certified, Number, PairResult, from_json, schema, to_json

from .example import bound, evidence, pair_settings, result


def infinite(epsilon: float = math.inf) -> PairResult:
    """A setting at delta = 0 whose claims are infinite."""
    setting = pair_settings()[0]
    value = Number(epsilon, epsilon, epsilon)
    claims = tuple(
        replace(bound(name, math.inf, 1.0), ratio=None)
        for name in ("bsa24.theorem_4_1", "bsa24.theorem_4_3")
    )
    exact = ByOrder(forward=value, reverse=value, worst=value)
    certified = Certified(epsilon=value.low, by=setting.pair.name)
    row = replace(
        setting.deltas[0],
        delta=0.0,
        sampled=evidence(0.8, 7.0),
        exact=exact,
        certified=certified,
        bounds=claims,
        best=None,
    )
    against = setting.epsilon_against_steps
    endless = replace(
        against,
        delta=0.0,
        exact=(value,) * len(against.steps),
        bounds=tuple(
            replace(curve, values=(math.inf,) * len(against.steps)) for curve in against.bounds
        ),
    )
    return replace(setting, deltas=(row,), epsilon_against_steps=endless)


@pytest.mark.parametrize("exact", [2.0, math.inf])
def test_an_infinite_claim_is_shown_as_the_tightest_where_none_is_finite(exact: float) -> None:
    setting = infinite(exact)
    ((_, delta, _, cell, claimed, ratio, verdict),) = setting_section.summary([(setting, "s")]).rows
    assert (delta.text, claimed.text, verdict.text) == ("0", "inf", "consistent")
    assert cell.text == ("inf" if exact == math.inf else "2.00000")
    assert ratio.text != "1.000"
    (shown,) = queries.shown_claims(setting.deltas[0].bounds)
    assert shown is not None
    assert queries.tightest(setting.deltas[0].bounds) is None


@pytest.mark.parametrize("exact", [2.0, math.inf])
def test_the_sandwich_marks_what_is_infinite(exact: float) -> None:
    setting = infinite(exact)
    picture = sandwich.draw([setting], style.looks(queries.bound_ids([setting])))
    assert picture.svg.decode().count("<!-- inf -->") == (2 if exact == 2.0 else 3)


def test_what_is_infinite_throughout_is_not_drawn_against_steps() -> None:
    assert curves.draw_steps(infinite().epsilon_against_steps, "s", {}, ()) is None
    assert curves.draw_steps(infinite(2.0).epsilon_against_steps, "s", {}, ()) is not None


def test_it_is_stored_and_read_again_and_fits_the_schema() -> None:
    stored = result(infinite())
    text = to_json(stored)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(text))
    assert from_json(text) == stored


def test_the_terminal_says_that_none_is_finite(capsys: pytest.CaptureFixture[str]) -> None:
    show(result(infinite()))
    shown = capsys.readouterr().out
    assert "inf BiasedWalk" in shown
    assert "none is finite" in shown
