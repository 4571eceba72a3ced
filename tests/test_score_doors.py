"""Scores that say nothing are inconclusive at every door: claims file, scenario and training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audit import training
from audit.claims.judge import check
from audit.curves import Order
from audit.estimation import Canaries, LinearScore, ScoreSource, judge_scores
from audit.results import UserClaim
from audit.scenario.user_mechanism import UserMechanismSetting, audit_scores

DELTA = 1e-5
SHIFT = {"constant": 0.0, "few": 3.0, "wrong sign": -1.0, "same law": 0.0, "telling": 3.0}
CLAIMED = {"constant": 2.0, "few": 8.0, "wrong sign": 2.0, "same law": 2.0, "telling": 2.0}
SIDE = {"constant": 300, "few": 10, "wrong sign": 300, "same law": 300, "telling": 300}
SILENT = ["constant", "few", "wrong sign", "same law"]
TRAINING = training.Processes(1)  # one for all trainings


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    TRAINING.close()


def score(case: str, with_record: bool, seed: int) -> float:
    """Return the score of one run; high scores should indicate the record."""
    if case == "constant":
        return 1.0
    return float(np.random.default_rng([seed, with_record]).normal(SHIFT[case] * with_record))


def trained(canary: bool, seed: int, case: str) -> float:
    return score(case, canary, seed)


def scores(case: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = ([score(case, w, s) for s in range(SIDE[case])] for w in (True, False))
    return np.array(first), np.array(second)


def in_claims_file(case: str, folder: Path) -> str:
    x, x_prime = scores(case)
    np.save(folder / "x.npy", x)
    np.save(folder / "x_prime.npy", x_prime)
    file = folder / "scores.claims.yaml"
    file.write_text(
        f"claims: [{{id: scores, epsilon: {CLAIMED[case]}, delta: {DELTA},"
        " samples: {x: x.npy, x_prime: x_prime.npy, favours: forward}}]",
        encoding="utf-8",
    )
    (judgement,) = check([file], error=0.05).judgements
    return judgement.verdict.value


def in_scenario(case: str, folder: Path) -> str:
    x, x_prime = scores(case)
    np.save(folder / "x.npy", x)
    np.save(folder / "x_prime.npy", x_prime)
    setting = UserMechanismSetting(
        name="own",
        title="Own",
        summary="",
        own=ScoreSource(x=folder / "x.npy", x_prime=folder / "x_prime.npy"),
        claims=(UserClaim("claim", CLAIMED[case], DELTA),),
        favours=Order.FORWARD,
    )
    (row,) = audit_scores(setting, confidence=0.95, seed=0).deltas
    return row.bounds[0].verdict.value


def in_training(case: str, folder: Path) -> str:
    audited = training.run(
        trained,
        arguments={"case": case},
        claims=[UserClaim("claim", CLAIMED[case], DELTA)],
        trials=2 * SIDE[case],
        confidence=0.95,
        seed=0,
        processes=TRAINING,
    )
    return audited.verdict.value


Door = Callable[[str, Path], str]
DOORS = pytest.mark.parametrize("judged", [in_claims_file, in_scenario, in_training])


@DOORS
@pytest.mark.parametrize("case", SILENT)
def test_scores_that_say_nothing_are_inconclusive(case: str, judged: Door, tmp_path: Path) -> None:
    assert judged(case, tmp_path) == "inconclusive"


@DOORS
def test_scores_that_tell_the_datasets_apart_refute(judged: Door, tmp_path: Path) -> None:
    assert judged("telling", tmp_path) == "refuted"


def test_a_difference_must_be_sure_and_in_the_declared_direction() -> None:
    weak = tuple(np.random.default_rng(k).normal(mean, 1, 300) for k, mean in ((0, 0.1), (1, 0)))
    judged = judge_scores(weak, [(1.0, DELTA)], confidence=0.95)
    assert judged.audit.epsilon_lower(0.0) > 0
    assert judged[0].reason.startswith("no difference between the scores of both sides is")
    low, high = scores("wrong sign")
    for pair, found in (((low, high), "consistent"), ((high, low), "inconclusive")):
        (one,) = judge_scores(pair, [(2.0, DELTA)], confidence=0.95, favours=Order.REVERSE)
        assert one.verdict.value == found


FIRST, SECOND = np.random.default_rng(2).normal(size=(2, 100, 2))
ONE, COINS = FIRST[:, 0], (SECOND > 0)[:, 0]
TENTHS = np.random.default_rng(3).integers(0, 10, 100) / 10
SINGLE = TENTHS.astype(np.float32).astype(np.float64)
OPEN, MANY = {"anytime": True}, {"canaries": Canaries.ARBITRARY}


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((ONE,), {}, "scores must be .x, x_prime. or a source of scores, got"),
        (None, MANY, "scores must be .scores, coins. or CanaryScores for many canaries, got None"),
        ((ONE, ONE), {"anytime": "no"}, "anytime must be a bool, got 'no'"),
        ((ONE, ONE), {"deltas": 3}, "deltas must be numbers in .0, 1., got 3"),
        ((ONE, ONE), {"planned_delta": 3}, "planned_delta must be in .0, 1., got 3"),
        ((ONE, ONE), {"confidence": "a"}, "confidence must be in .0, 1., got 'a'"),
        # each refuted true claims: 3.5 of 1 for one record, stopped audits, rows of sorted files
        ((ONE, ONE), {**OPEN, "group_size": 2}, "group_size must be 1 with anytime or canaries"),
        ((ONE, COINS), {**MANY, "group_size": 2}, "group_size must be 1 with anytime or canaries"),
        ((ONE, COINS), {**MANY, "columns": LinearScore()}, "columns must be left out with canar"),
        ((FIRST, SECOND), OPEN, "columns must be WeightedColumns with anytime, got None"),
        ((ONE, np.sort(ONE)), OPEN, "x_prime must be independent draws in the order of the runs"),
        ((ONE[np.argsort(-abs(ONE))], ONE), OPEN, "x must be independent draws in the order of"),
        # files and lists have no type: 3.5 of 0 from scores in tenths
        ((ONE, ONE.astype(np.float16)), {}, "x and x_prime must be of one precision"),
        (ScoreSource(x=tuple(SINGLE), x_prime=tuple(TENTHS)), {}, "one that is rounded to float32"),
        ((TENTHS, SINGLE), OPEN, "x and x_prime must be of one precision"),
        ((np.where(COINS, SINGLE, TENTHS), COINS), MANY, "scores of included canaries and .*one p"),
    ],
)
def test_scores_that_a_method_cannot_take_fail(given: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        judge_scores(given, [(1.0, DELTA)], **{"confidence": 0.95, **options})
