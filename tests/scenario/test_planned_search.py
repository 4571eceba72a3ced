"""A search inside a scenario: the found pair joins the others, and every run finds the same one."""

from dataclasses import replace

import pytest

from audit import exact
from audit.constructions import decode_pair, encode_pair
from audit.report import setting_section
from audit.results import Certified, FoundBy, Verdict
from audit.scenario import run
from audit.scenario.config import read_setting
from audit.search import check_admissible

from .small import scenario


def setting(**changes):
    values = {
        "mechanism": {
            "steps": 10,
            "dataset_size": 1000,
            "batch_size": 1000,
            "step_size": 1.0,
            "noise_std": 0.2,
            "lipschitz": 20.0,
            "smoothness": 1.0,
            "diameter": 1.0,
        },
        "pair": {"kind": "TwoSidedWalk"},
        "search": {"delta": 1e-5, "evaluations": 20},
        "deltas": [1e-5],
        "trials": 2000,
        **changes,
    }
    return read_setting("one", values)


def result(planned):
    bounds = "bsa24.theorem_4_3", "own.forgetting"
    return run(replace(scenario(), settings=(planned,), bounds=bounds, seed=5)).settings[0]


@pytest.fixture(scope="module")
def found():
    return result(setting())


def test_the_found_pair_joins_the_sandwich(found):
    [row] = found.deltas
    [other] = found.other_pairs
    assert other.found_by == FoundBy(delta=1e-5, evaluations=20, seed=found.seed)
    [at_delta] = other.epsilons
    low, high = at_delta.epsilon.bracket
    # twenty trials of drift and start are enough to double the two-sided walk's .908
    assert low > 2 * row.exact.worst.high
    assert row.certified == Certified(epsilon=low, by=other.pair.name)
    judged = [bound for bound in row.bounds if bound.value is not None]
    # the listed one, and the tightest that is proven
    assert [bound.id for bound in judged] == ["own.forgetting", "cl25.theorem_3_1_gaussian"]
    for bound in judged:
        assert bound.value >= high
        assert bound.ratio == pytest.approx(bound.value / low)
        assert bound.verdict is Verdict.CONSISTENT


def test_the_pair_is_stored_by_its_parameters_and_found_again(found):
    [other] = found.other_pairs
    again = decode_pair(encode_pair(other.pair), found.mechanism)
    check_admissible(again)
    assert exact.curve(again).epsilon_bracket(1e-5) == other.epsilons[0].epsilon.bracket
    # every run finds the same one
    assert result(setting()).other_pairs == found.other_pairs
    # the seed is the setting's, which follows from the scenario's
    fewer = result(setting(search={"delta": 1e-5, "evaluations": 1}))
    assert fewer.other_pairs[0].found_by.evaluations == 1


def test_the_report_shows_its_parameters(found):
    table = setting_section.found_pair(found)
    text = {row[0].text: row[1].text for row in table.rows}
    assert table.caption.startswith("A pair found by search, for the largest epsilon at δ = 1e-5")
    assert (text["pair"], text["pairs tried"]) == ("DriftedWalk", "20")
    assert text["drift"] == f"{found.other_pairs[0].pair.drift:g}"
    without = result(setting(search=None))
    assert not setting_section.found_pair(without).rows


def test_plans_out_of_range_or_of_no_pair():
    for search, message in (
        ({"delta": 1.0, "evaluations": 5}, r"settings.one.search.delta must be .* got 1"),
        ({"delta": 1e-5, "evaluations": 0}, r"settings.one.search.evaluations must be .*1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            setting(search=search)
    own = {"function": "module:function"}
    with pytest.raises(ValueError, match="search must be left out of a setting with the key own"):
        setting(mechanism=None, pair=None, own=own)
