from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from audit.report import stored
from audit.report.figures import laws, sandwich, steps, style, tradeoff

from .example import example


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


def _steps(change: Callable[[Any], None], unsound: tuple[str, ...] = ()) -> str:
    setting = copy.deepcopy(example()["settings"][0])
    data = setting["epsilon_against_steps"]
    change(data)
    count = np.asarray(data["steps"], float)
    exact = np.array(data["exact"], float)
    bounds = {b["id"]: np.array(b["epsilon"], float) for b in data["bounds"]}
    return steps.caption(data, count, exact, bounds, unsound)


def test_steps_caption_follows_the_data() -> None:
    text = _steps(lambda data: None)
    assert "levels off: from T = 300 on" in text
    assert "bsa24.theorem_4_3 with 9.662, 3.129 times" in text
    assert "refuted there: example.theorem_1" in text
    assert "Still growing: bsa24.theorem_4_1, bsa24.theorem_4_8" in text

    def grow(data: Any) -> None:
        data["exact"] = [[t * 1e-3, t * 1e-3] for t in data["steps"]]

    assert "still grows" in _steps(grow)


def test_the_steps_caption_calls_no_unsound_claim_the_tightest() -> None:
    """Nor one that is refuted after another number of steps, whatever it claims at the last."""
    text = _steps(lambda data: None, ("bsa24.theorem_4_3",))
    assert "stands there is at22.b_1 with 11.32" in text

    def late(data: Any) -> None:
        """A claim that is below the exact value at the first step alone."""
        name, last = "late.theorem", data["exact"][-1][1] * 1.001
        values = [0.0, *[last] * (len(data["steps"]) - 1)]
        data["bounds"].append({"id": name, "epsilon": values})

    text = _steps(late)
    assert "stands there is bsa24.theorem_4_3" in text
    assert "hence refuted there: example.theorem_1, late.theorem." in text


def test_what_may_be_called_the_tightest() -> None:
    setting = example()["settings"][0]
    assert stored.unsound(setting) == {"example.theorem_1"}
    setting["deltas"][0]["bounds"][0]["status"] = "unproven"
    assert stored.unsound(setting) == {"example.theorem_1", "bsa24.theorem_4_1"}


def test_laws_caption_tells_samples_that_disagree() -> None:
    setting = example()["settings"][0]
    arrays = {key: np.asarray(value) for key, value in setting["laws"].items()}
    assert "Samples and computation agree: 160 of 160" in laws.caption(setting, arrays, False)
    arrays["histogram"] = arrays["histogram"] * 1.05
    assert "Samples and computation differ" in laws.caption(setting, arrays, False)


def test_laws_agreement_holds_for_a_law_narrower_than_a_bin() -> None:
    setting = example()["settings"][2]
    arrays = {key: np.asarray(value) for key, value in setting["laws"].items()}
    assert "Samples and computation agree" in laws.caption(setting, arrays, True)


def test_laws_on_the_whole_line_have_no_panels_for_atoms() -> None:
    setting = example()["settings"][1]
    setting["laws"].update(atoms=[0.0, 0.0], atoms_prime=[0.0, 0.0], ends=[None, None])
    drawn = laws.draw(setting)
    assert "end of the domain" not in drawn.caption


def test_tradeoff_caption_names_a_claim_above_the_exact_curve() -> None:
    data = example()["settings"][0]["tradeoff"]
    alpha, exact, upper = (np.array(data[key]) for key in ("alpha", "exact", "sampled_upper"))
    bounds = {b["id"]: np.array(b["beta"]) for b in data["bounds"]}
    text = tradeoff.caption(alpha, exact, upper, bounds, False)
    assert "contradicted by the pair: example.theorem_1" in text
    text = tradeoff.caption(alpha, exact, upper, bounds, False, ("bsa24.theorem_4_3",))
    assert "tightest claim that stands allows" in text
    text = tradeoff.caption(alpha, exact, upper, bounds, False, tuple(bounds))
    assert "tightest claim" not in text
    del bounds["example.theorem_1"]
    text = tradeoff.caption(alpha, exact, upper, bounds, True)
    assert "No claimed curve rises above the exact one. Both axes are logarithmic" in text


def test_sandwich_caption_says_where_samples_end() -> None:
    text = sandwich.caption(example()["settings"])
    assert "refuted: example.theorem_1" in text
    assert "In “The constants of the paper's footnote 9” the blue stretch is wide" in text
    assert "Every claim lies to the right" in sandwich.caption(example()["settings"][1:])
