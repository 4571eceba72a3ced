"""A scenario's result: the sandwich holds, its numbers are those of the parts, and it is data."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import audit
from audit.scenario import run
from audit.scenario.store import to_json

from .small import scenario


@pytest.fixture(scope="module")
def setting() -> dict[str, Any]:
    result = json.loads(to_json(run(scenario())))
    assert result["confidence"] == 0.95
    assert result["provenance"]["seed"] == 3
    (only,) = result["settings"]
    return dict(only)


def test_the_sandwich(setting: dict[str, Any]) -> None:
    for row in setting["deltas"]:
        low, high = row["exact"]["worst"]
        # fails for a true law with probability 0.05 over seeds; this seed is fixed
        assert 0 < row["sampled"]["epsilon"] <= high
        assert high - low < 1e-6
        claimed = [b for b in row["bounds"] if b["epsilon"] is not None]
        assert {b["id"] for b in claimed} == {"bsa24.theorem_4_8", "bsa24.theorem_4_10"}
        assert all(b["epsilon"] >= row["certified"]["epsilon"] >= low for b in claimed)
        assert all(b["verdict"] == "consistent" for b in claimed)
        refused = [b for b in row["bounds"] if b["epsilon"] is None]
        assert all(b["verdict"] == "not applicable" and b["reason"] for b in refused)
        assert row["best"]["epsilon"] == min(b["epsilon"] for b in claimed)


def test_numbers_are_those_of_the_parts(setting: dict[str, Any]) -> None:
    pair = scenario().settings[0].pair
    curve = audit.exact.curve(pair)
    for row in setting["deltas"]:
        assert row["exact"]["worst"] == pytest.approx(curve.epsilon_bracket(row["delta"]), rel=1e-9)
    x, x_prime = audit.simulation.final_iterates(
        pair, trials=setting["trials"], seed=setting["seed"]
    )
    audited = audit.estimation.audit_samples(
        x, x_prime, confidence=0.95, deltas=(1e-2, 1e-5), seed=setting["seed"]
    )
    for row in setting["deltas"]:
        assert row["sampled"]["epsilon"] == audited.epsilon_lower(row["delta"])


def test_steps_beyond_the_mechanism_are_other_mechanisms(setting: dict[str, Any]) -> None:
    shown = setting["epsilon_against_steps"]
    assert shown["steps"] == [10, 100, 375, 500]
    at_375 = shown["exact"][2]
    assert at_375 == pytest.approx(setting["deltas"][-1]["exact"]["worst"], rel=1e-9)
    assert shown["burn_in"] == pytest.approx(375)


def test_pictures_are_probabilities(setting: dict[str, Any]) -> None:
    laws = setting["laws"]
    for suffix in ("", "_prime"):
        width = np.diff(laws["edges"])
        inside = np.sum(np.array(laws[f"histogram{suffix}"]) * width)
        assert inside + sum(laws[f"atom_frequencies{suffix}"]) == pytest.approx(1, abs=1e-3)
        grid = np.array(laws["x"])
        mass = np.trapezoid(np.array(laws[f"density{suffix}"]), grid)
        assert mass + sum(laws[f"atoms{suffix}"]) == pytest.approx(1, abs=1e-2)
    tradeoff = setting["tradeoff"]
    assert np.all(np.array(tradeoff["exact"]) <= np.array(tradeoff["sampled_upper"]) + 1e-12)


def test_a_result_is_json_without_infinities() -> None:
    text = to_json({"a": math.inf, "b": np.float64(2.0), "c": (1, np.arange(2))})
    assert json.loads(text) == {"a": None, "b": 2.0, "c": [1, [0, 1]]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"a": math.nan})


def test_more_seeds_draw_other_samples() -> None:
    from audit.scenario.run import setting_seed

    assert len({setting_seed(seed, index) for seed in range(20) for index in range(5)}) == 100


def test_a_setting_refuses_bad_values() -> None:
    with pytest.raises(ValueError, match=r"deltas\[1\] must be in \(0, 1\), got 1.5"):
        scenario(deltas=(0.1, 1.5))
    with pytest.raises(ValueError, match="trials must be a whole number of at least 1000, got 10"):
        scenario(trials=10)
    with pytest.raises(ValueError, match=r"renyi_orders\[0\] must be a finite number above 1"):
        scenario(renyi_orders=(1.0,))
