"""The ``audit-plan`` command."""

from __future__ import annotations

import functools
import json
import math

import pytest

import audit
from audit import Relation, estimation
from audit.cli.plan import main
from audit.curves import GaussianCurve, PureCurve
from audit.estimation import plan
from tests.ended import Command

SAMPLED = audit.epsilon(
    sampling_rate=0.3, noise_multiplier=0.4, steps=1, delta=1e-3, relation=Relation.ADD_REMOVE
)
RESPONSE = ["law=randomised_response", "pure_epsilon=1", "delta=0", "confidence=0.95"]


def test_a_sentence_for_people_and_json_for_programs(
    ended: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimation, "plan", functools.cache(plan))  # asked three times
    expected = estimation.plan(PureCurve(1.0), epsilon=0.5, delta=0.0, confidence=0.95)
    done = ended(main, *RESPONSE, "epsilon=0.5")
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        f'{expected.trials} runs of each dataset refute "epsilon <= 0.5 at delta 0" with '
        f"probability {expected.reached:.3g} at confidence 0.95, for randomised response with "
        "pure_epsilon 1, where epsilon is 1.\n"
    )
    (row,) = json.loads(ended(main, *RESPONSE, "epsilon=0.5", "--format", "json").out)
    assert row == {
        "law": "randomised response with pure_epsilon 1",
        "epsilon": 0.5,
        "delta": 0.0,
        "confidence": 0.95,
        "power": 0.8,
        "true_epsilon": 1.0,
        "trials": expected.trials,
        "reached": expected.reached,
        "strategy": "OrderStatistics",
    }


def test_true_claims_and_claims_out_of_reach(ended: Command) -> None:
    done = ended(main, *RESPONSE, "epsilon=1")
    assert done.out.startswith('No number of runs refutes "epsilon <= 1 at delta 0" for randomised')
    done = ended(main, *RESPONSE, "epsilon=0.99", "largest=100")
    assert done.out.startswith('100 runs of each dataset refute "epsilon <= 0.99 at delta 0" only')
    done = ended(main, *RESPONSE[:-1], "epsilon=0.99", "largest=100", "confidence=0.9999999")
    assert " at confidence 0.999999," in done.out


@pytest.mark.parametrize(
    ("law", "low", "high"),
    [
        (["law=gaussian", "mu=1"], *[GaussianCurve(1.0).epsilon(1e-3)] * 2),
        (["law=laplace", "pure_epsilon=2"], *[2 + 2 * math.log1p(-1e-3)] * 2),
        (
            ["law=sampled gaussian", "sampling_rate=0.3", "noise_multiplier=0.4"],
            SAMPLED.lower,
            SAMPLED.upper,
        ),
    ],
)
def test_other_laws(ended: Command, law: list[str], low: float, high: float) -> None:
    words = ["epsilon=0.3", "delta=1e-3", "confidence=0.9", "directed=true", "power=0.7"]
    done = ended(main, *law, *words, "--format", "json")
    (row,) = json.loads(done.out)
    assert low * (1 - 1e-6) <= row["true_epsilon"] <= high * (1 + 1e-6)
    assert 10 <= row["trials"] < 2000
