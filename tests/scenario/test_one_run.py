"""One run as a setting: certified bounds, assumptions, and one-line errors."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_sgd  # of the shipped scenarios
from audit.curves import GaussianCurve
from audit.estimation import Canaries, audit_one_run
from audit.progress import Silent
from audit.results import Findings, Verdict
from audit.scenario.config import read_setting
from audit.scenario.definition import RunContext
from audit.scenario.sampling import Sampling
from audit.scenario.user_mechanism import OneRunSetting
from audit.simulation import Parallel

CLAIMS = [{"name": "a", "epsilon": 2.3178, "delta": 1e-2}]
DRAWN = {"function": "dp_sgd:one_training", "number": 2000}


def setting(**changed: Any) -> OneRunSetting:
    plain = {"claims": CLAIMS, "canaries": "independent", **DRAWN, **changed}
    read = read_setting("one", {"one_run": {k: v for k, v in plain.items() if v is not None}})
    assert isinstance(read, OneRunSetting)
    return read


def found_by(one: OneRunSetting, *, confidence: float, seed: int) -> Findings:
    beside: dict[str, Any] = {"threads": 1, "bounds": (), "sampling": Sampling(Parallel())}
    context = RunContext(seed=seed, confidence=confidence, progress=Silent(), **beside)
    return one.run(context).findings


def test_right_and_wrong_training() -> None:
    # four steps at noise multiplier 2 for one canary in or out
    assert GaussianCurve(4**0.5 / dp_sgd.NOISE_MULTIPLIER).epsilon(1e-2) <= CLAIMS[0]["epsilon"]
    verdicts = {}
    for function in ("one_training", "one_training_half_the_noise"):
        one = setting(function=f"dp_sgd:{function}")
        found = found_by(one, confidence=0.95, seed=3)
        verdicts[function] = found.statements[0].verdict
        assert "assume that canaries are independent" in found.notes[0]
        assert "independent canaries" in found.statements[0].claim
        assert found.numbers["canaries"] == "independent"
    assert list(verdicts.values()) == [Verdict.CONSISTENT, Verdict.REFUTED]


def test_the_numbers_are_those_of_the_audit() -> None:
    one = setting(canaries="arbitrary", delta=1e-5)  # for which two numbers of guesses are tried
    found = found_by(one, confidence=0.9, seed=5)
    options = {"confidence": 0.9, "seed": 5, "canaries": Canaries.ARBITRARY}
    audited = audit_one_run(*one.draw(5), delta=1e-5, **options)
    assert 0 <= audited.epsilon_lower(0.01) - found.statements[0].found <= 1e-5
    assert found.notes[0] == "No assumption is made on the dependence between canaries."
    row = found.tables[0].rows[0]
    bound = audited.evidence(0.01)
    assert row[2:6] == (*astuple(bound.counts), 1 - bound.confidence)


def test_files_and_plain_data(tmp_path: Path) -> None:
    scores, coins = dp_sgd.one_training(50, 1)
    np.save(tmp_path / "s.npy", scores)
    np.savetxt(tmp_path / "c.csv", coins, delimiter=",")
    files = {"scores": str(tmp_path / "s.npy"), "coins": str(tmp_path / "c.csv")}
    one = setting(function=None, number=None, **files)
    read, tossed = one.draw(0)
    assert np.array_equal(read, scores)
    assert np.array_equal(tossed, coins)
    assert read_setting("one", one.to_plain()) == one
    assert read_setting("one", setting().to_plain()) == setting()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"number": None}, "function and number must be given, or scores and coins"),
        ({"scores": "a.npy"}, "function and number must be given, or scores and coins"),
        ({"scores": "a.npy", "coins": "b.npy"}, "got function, number, scores, coins"),
        ({"claims": []}, "claims must be one or more, each with a name of its own"),
        ({"canaries": "many"}, "canaries must be one of arbitrary, independent, got 'many'"),
        ({"canaries": None}, "canaries must be given"),
        ({"number": 3}, "number must be a whole number of at least 4, got 3"),
        ({"delta": 2.0}, r"delta must be in \[0, 1\], got 2.0"),
    ],
)
def test_slips(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        setting(**changed)


def not_two(number: int, seed: int) -> Any:
    return np.zeros(number)


def test_a_function_that_returns_something_else() -> None:
    with pytest.raises(ValueError, match=r"what .*:not_two returns must be scores and coins, got"):
        setting(function=f"{__name__}:not_two").draw(1)
