from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from audit.bounds import Status
from audit.report import queries
from audit.report.figures import laws, sandwich, style
from audit.report.figures.curves import steps_caption, tradeoff_caption
from audit.results import BoundCurve, LawCurves, Laws, Number

from .example import pair_settings, with_bound


def test_spaced_moves_labels_apart_and_keeps_their_order() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        positions = list(rng.uniform(0, 1, 8))
        moved = style.spaced(positions, 0.08)
        order = np.argsort(positions)
        assert np.all(np.diff(np.array(moved)[order]) >= 0.08 - 1e-12)
        assert np.mean(moved) == pytest.approx(np.mean(positions))
    assert style.spaced([0.1, 0.5, 0.9], 0.2) == [0.1, 0.5, 0.9]
    assert style.spaced([], 0.2) == []


def test_spaced_stays_within_its_ends() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        positions = list(rng.uniform(0.5, 1, 9))
        moved = np.sort(style.spaced(positions, 0.1, 0.05, 0.95))
        assert np.all(np.diff(moved) >= 0.1 - 1e-12)
        assert moved[0] >= 0.05 - 1e-12
        assert moved[-1] <= 0.95 + 1e-12
    assert max(style.spaced(positions, 0.1)) > 0.95


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
    growing = tuple(at(t * 1e-3) for t in pair_settings()[0].epsilon_against_steps.steps)
    assert "still grows" in words(exact=growing)


def at(value: float) -> Number:
    return Number(value, value, value)


def test_an_infinite_exact_value_is_said_to_be() -> None:
    exact = pair_settings()[0].epsilon_against_steps.exact
    assert words(exact=(*exact[:-1], at(math.inf))) == "The exact value is infinite."


def test_the_steps_caption_calls_no_unsound_claim_the_tightest() -> None:
    """Nor one that is refuted after another number of steps, whatever it claims at the last."""
    text = words(("bsa24.theorem_4_3",))
    assert "stands there is at22.b_1 with 10.75" in text
    # a claim that is below the exact value at the first step alone
    data = pair_settings()[0].epsilon_against_steps
    last = data.exact[-1].high * 1.001
    late = BoundCurve(id="late.theorem", values=(0.0, *[last] * (len(data.steps) - 1)))
    wide = tuple(replace(known, high=1e3) for known in data.exact)  # bounds inside are not refuted
    text = words(bounds=(*data.bounds, late), exact=wide)
    assert "stands there is bsa24.theorem_4_3" in text
    assert "hence refuted there: example.theorem_1, late.theorem." in text


def test_what_may_be_called_the_tightest() -> None:
    setting = pair_settings()[0]
    assert queries.unsound(setting) == {"example.theorem_1"}
    setting = with_bound(setting, 0, 0, status=Status.UNPROVEN)
    assert queries.unsound(setting) == {"example.theorem_1", "at22.b_1"}


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
    narrow = Laws(
        grid=tuple(x), edges=tuple(edges), ends=(-0.5, 0.5), first=found[0], second=found[1]
    )
    text = laws.caption(narrow, 10**6, logarithmic=True)
    assert "Samples and computation agree" in text


def test_laws_on_the_whole_line_have_no_panels_for_atoms() -> None:
    found = pair_settings()[1].laws
    none = (0.0, 0.0)
    drawn = laws.draw(
        replace(
            found,
            ends=(-math.inf, math.inf),
            first=replace(found.first, atoms=none),
            second=replace(found.second, atoms=none),
        ),
        10**6,
        "sampled",
    )
    assert "end of the domain" not in drawn.caption


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


def test_sandwich_caption_says_where_samples_end() -> None:
    text = sandwich.caption(pair_settings())
    assert "refuted: example.theorem_1" in text
    assert "In “The constants of the paper's footnote 9” the blue stretch is wide" in text
    assert "Every claim lies to the right" in sandwich.caption(pair_settings()[1:])
