"""A scenario's result: the sandwich holds, and its numbers are those of the parts."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import audit
from audit.results import PairResult, SettingResult, Verdict
from audit.scenario import PairSetting, run
from audit.scenario.config import read_setting
from audit.scenario.definition import setting_seed

from ..simulation.cases import two_lengths
from .small import scenario


@pytest.fixture(scope="module")
def setting() -> PairResult:
    result = run(scenario(), command="a command")
    assert result.confidence == 0.95
    assert (result.provenance.seed, result.provenance.command) == (3, "a command")
    assert result.provenance.environment is not None
    assert result.provenance.environment.threads == 2
    (only,) = result.settings
    assert isinstance(only, PairResult)
    assert only.wall_seconds is not None
    return only


def test_the_sandwich(setting: PairResult) -> None:
    for row in setting.deltas:
        assert row.exact is not None
        low, high = row.exact.worst.bracket
        # fails for a true law with probability 0.05 over seeds; this seed is fixed
        assert 0 < row.sampled.epsilon <= high
        assert high - low < 1e-6
        assert {"cells", "rounding"} <= set(row.errors)
        assert math.fsum(row.errors.values()) == pytest.approx(high - low, rel=1e-3)
        claimed = [bound for bound in row.bounds if bound.value is not None]
        listed = {"bsa24.theorem_4_8", "bsa24.theorem_4_10"}
        best = audit.bounds.best(setting.mechanism, delta=row.delta)
        assert {bound.id for bound in claimed} == {*listed, best.id}
        values = [bound.value for bound in claimed if bound.value is not None]
        assert all(value >= row.certified.epsilon >= low for value in values)
        assert all(bound.verdict is Verdict.CONSISTENT for bound in claimed)
        refused = [bound for bound in row.bounds if bound.value is None]
        assert all(bound.verdict is Verdict.NOT_APPLICABLE and bound.reason for bound in refused)
        (best_value,) = (bound.value for bound in row.bounds if bound.id == row.best)
        assert best_value == min(values) == best.epsilon


def test_the_worst_order_is_the_larger_one(setting: PairResult) -> None:
    rows = [row.exact for row in setting.deltas] + [row.exact for row in setting.renyi]
    for known in rows:
        assert known is not None
        for end in ("low", "value", "high"):
            both = [getattr(known.forward, end), getattr(known.reverse, end)]
            assert getattr(known.worst, end) == max(both)


def test_numbers_are_those_of_the_parts(setting: PairResult) -> None:
    (given,) = scenario().settings
    assert isinstance(given, PairSetting)
    pair = given.pair
    curve = audit.exact.curve(pair)
    for row in setting.deltas:
        assert row.exact is not None
        known = curve.epsilon_bracket(row.delta)
        assert row.exact.worst.bracket == pytest.approx(known, rel=1e-9)
        assert row.exact.worst.value == pytest.approx(curve.epsilon(row.delta), rel=1e-9)
    x, x_prime = audit.simulation.final_iterates(pair, trials=setting.trials, seed=setting.seed)
    audited = audit.estimation.audit_samples(
        x, x_prime, confidence=0.95, deltas=(1e-2, 1e-5), seed=setting.seed
    )
    for row in setting.deltas:
        assert row.sampled.epsilon == audited.epsilon_lower(row.delta)
    # steps beyond the mechanism are other mechanisms
    shown = setting.epsilon_against_steps
    assert shown.steps == (10, 40, 80)
    last = setting.deltas[-1].exact
    assert last is not None
    assert shown.exact[1].bracket == pytest.approx(last.worst.bracket, rel=1e-9)


def test_curves_are_probabilities(setting: PairResult) -> None:
    laws = setting.laws
    for law in (laws.first, laws.second):
        inside = np.sum(np.array(law.histogram) * np.diff(laws.edges))
        assert inside + sum(law.atom_frequencies) == pytest.approx(1, abs=1e-3)
        mass = np.trapezoid(np.array(law.density), np.array(laws.grid))
        assert mass + sum(law.atoms) == pytest.approx(1, abs=1e-2)
    tradeoff = setting.tradeoff
    assert np.all(np.array(tradeoff.exact) <= np.array(tradeoff.sampled_upper) + 1e-12)


def test_a_setting_refuses_bad_values() -> None:
    with pytest.raises(ValueError, match=r"deltas\[1\] must be in \[0, 1\), got 1.5"):
        scenario(deltas=(0.1, 1.5))
    with pytest.raises(ValueError, match="trials must be a whole number of at least 1000, got 10"):
        scenario(trials=10)
    with pytest.raises(ValueError, match=r"renyi_orders\[0\] must be a finite number above 1"):
        scenario(renyi_orders=(1.0,))
    for changes in ({"pair": two_lengths()}, {"other_pairs": (two_lengths(),)}):
        with pytest.raises(ValueError, match="pair must be a pair of neighbouring datasets, got T"):
            scenario(**changes)


def test_each_setting_has_checkpoints_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.scenario.pair.SECONDS", 0.0)
    small = scenario(trials=1000, steps_shown=(), other_pairs=(), renyi_orders=(), deltas=(0.1,))
    two = dataclasses.replace(small, settings=small.settings * 2, bounds=())
    run(two, folder=tmp_path)
    assert len({setting_seed(seed, index) for seed in range(20) for index in range(5)}) == 100
    seeds = {str(setting_seed(two.seed, index)) for index in range(2)}
    assert {place.name for place in tmp_path.iterdir()} == seeds


def test_results_of_settings_are_handed_on_as_they_end() -> None:
    seen: list[SettingResult] = []
    plain = {"study": {"function": "tests.scenario.studies:Everything", "size": 3}}
    settings = (read_setting("small", plain), read_setting("again", plain))
    result = run(dataclasses.replace(scenario(), settings=settings), finished=seen.append)
    assert tuple(seen) == result.settings
    assert [one.name for one in seen] == ["small", "again"]
