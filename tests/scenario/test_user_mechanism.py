"""A user-defined mechanism: true bounds, caught mistakes, and one-line errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dp_sgd  # of the shipped scenarios
import pure_dp
from audit.curves import GaussianCurve, Order
from audit.estimation import BestColumn, ScoreSource, audit_samples, per_record_epsilon
from audit.results import AtDelta, Estimator, Verdict
from audit.scenario.config import read_setting
from audit.scenario.run_user_mechanism import audit_scores
from audit.scenario.user_mechanism import UserClaim, UserMechanismSetting

TRIALS = 20_000
DELTA = 1e-2
CLAIM = UserClaim("accountant", 3.7076, DELTA)
MISTAKES = (
    "noise_divided_twice",
    "clipped_after_averaging",
    "noise_once_an_epoch",
    "wrong_sensitivity",
)


def identical(dataset: int, trials: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(trials)


def shifted(dataset: int, trials: int, seed: int) -> Any:
    """N(1, 1) against N(0, 1): the Gaussian mechanism of mu = 1."""
    return np.random.default_rng(seed).standard_normal(trials) + (dataset == 0)


def short(dataset: int, trials: int, seed: int) -> Any:
    return np.zeros(3)


def broken(dataset: int, trials: int, seed: int) -> Any:
    return np.full(trials, np.nan)


def own(function: str, *claims: UserClaim, trials: int = TRIALS) -> UserMechanismSetting:
    place = function if ":" in function else f"{__name__}:{function}"
    return UserMechanismSetting(
        name="own",
        title="Own",
        summary="",
        own=ScoreSource(function=place, trials=trials),
        claims=claims or (CLAIM,),
    )


def files(x: Path, x_prime: Path) -> ScoreSource:
    return ScoreSource(x=x, x_prime=x_prime)


def audited(setting: UserMechanismSetting, seed: int = 3, confidence: float = 0.95) -> AtDelta:
    (row,) = audit_scores(setting, confidence=confidence, seed=seed).deltas
    return row


def test_the_claim_of_the_example_is_the_composition_of_its_uses() -> None:
    mu = dp_sgd.EPOCHS**0.5 * 2 * dp_sgd.CLIP_NORM / (dp_sgd.NOISE_MULTIPLIER * dp_sgd.CLIP_NORM)
    assert GaussianCurve(mu).epsilon(DELTA) == pytest.approx(CLAIM.epsilon, abs=1e-4)
    assert GaussianCurve(mu).epsilon(1e-5) == pytest.approx(6.5730, abs=1e-4)
    assert GaussianCurve(mu).epsilon(DELTA) <= CLAIM.epsilon  # rounded up


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_broken_training_is_caught(mistake: str) -> None:
    row = audited(own(f"dp_sgd:{mistake}"))
    assert row.bounds[0].verdict is Verdict.REFUTED
    assert row.sampled.epsilon > CLAIM.epsilon
    assert row.best is None


def test_the_correct_training_is_consistent() -> None:
    row = audited(own("dp_sgd:correct"))
    assert row.bounds[0].verdict is Verdict.CONSISTENT
    assert row.best == row.bounds[0].id
    # the last use alone has mu = 1: more than half of that is found
    assert row.sampled.epsilon > 0.5 * GaussianCurve(1.0).epsilon(DELTA)


def test_true_claims_are_refuted_no_oftener_than_allowed() -> None:
    """20 audits of mu = 1 with its true epsilon as the claim, at confidence 0.9."""
    runs, confidence = 20, 0.9
    true = GaussianCurve(1.0).epsilon(DELTA)
    claim = UserClaim("true", true * (1 + 1e-9), DELTA)
    below = UserClaim("half", true / 2, DELTA)
    wrong = right = 0
    for seed in range(runs):
        verdicts = {
            bound.id: bound.verdict
            for bound in audited(own("shifted", claim, below, trials=1000), seed, confidence).bounds
        }
        wrong += verdicts["true"] is Verdict.REFUTED
        right += verdicts["half"] is Verdict.REFUTED
    # an audit that errs at exactly its allowed rate crosses this with probability below 1e-4
    assert wrong <= int(stats.binom.isf(1e-4, runs, 1 - confidence))
    assert right > runs / 2


def test_nothing_is_certified_where_nothing_leaks() -> None:
    assert audited(own("identical")).sampled.epsilon < 0.1


def test_the_default_strategy_certifies_with_all_of_the_error() -> None:
    setting = own("shifted")
    row = audited(setting)
    first, *beside = row.estimates
    assert first.estimator in (Estimator.ORDER_STATISTICS, Estimator.PILOT_SPLIT)
    assert [one.estimator for one in beside] == [Estimator.SIMULTANEOUS_BAND, Estimator.SEQUENTIAL]
    true = GaussianCurve(1.0).epsilon(DELTA)
    assert all(0.5 * true < one.epsilon < true for one in row.estimates)
    alone = audit_samples(*setting.own.draw(3), confidence=0.95, deltas=(DELTA,), seed=3)
    assert row.sampled.epsilon == row.certified.epsilon == first.epsilon
    assert first.epsilon == alone.epsilon_lower(DELTA)


def two_records(dataset: int, trials: int, seed: int) -> Any:
    """Two records, each moves a coordinate of its own by 1; a third coordinate is noise."""
    return np.random.default_rng(seed).standard_normal((trials, 3)) + (dataset == 0) * np.array(
        [1.0, 1.0, 0.0]
    )


def test_a_group_of_records_and_several_numbers_a_run() -> None:
    true = float(GaussianCurve(1.0).epsilon(DELTA))
    claims = UserClaim("true", true * (1 + 1e-9), DELTA), UserClaim("small", 0.5 * true, DELTA)
    setting = replace(own("two_records", *claims), group_size=2)
    result = audit_scores(setting, confidence=0.95, seed=3)
    (row,) = result.deltas
    assert [bound.verdict for bound in row.bounds] == [Verdict.CONSISTENT, Verdict.REFUTED]
    # sqrt(2)-GDP at the scaled delta, divided by 2: the most that the pair says of a record
    most = per_record_epsilon(lambda d: float(GaussianCurve(2**0.5).epsilon(d)), DELTA, 2)
    assert all(0.5 * most < one.epsilon < most < true for one in row.estimates)
    assert result.audit.group_size == 2
    assert result.audit.per_record[0].delta == DELTA
    assert result.audit.columns.number == 3
    assert result.audit.columns.choosing == (TRIALS // 5, TRIALS // 5)
    assert result.trials == TRIALS
    # planted: the same samples as if they were a pair of one record refute the true claim
    mistaken = audit_scores(replace(setting, group_size=1), confidence=0.95, seed=3)
    assert mistaken.deltas[0].bounds[0].verdict is Verdict.REFUTED


def test_files_of_several_numbers_a_run(tmp_path: Path) -> None:
    x = two_records(0, 50, 1)
    np.savetxt(tmp_path / "a.csv", x, delimiter=",")
    np.save(tmp_path / "b.npy", x)
    read, same = files(tmp_path / "a.csv", tmp_path / "b.npy").draw(0)
    assert read.shape == (50, 3)
    assert np.array_equal(same, x)


def test_a_declared_direction_is_sharper_or_certifies_nothing() -> None:
    setting = own("shifted", trials=1000)
    either, right, wrong = (
        audited(replace(setting, favours=favours)).sampled.epsilon
        for favours in (None, Order.FORWARD, Order.REVERSE)
    )
    assert right > either > 1
    assert wrong == 0.0


def test_columns_and_group_size_are_read_and_written() -> None:
    plain = {
        "own": FUNCTION,
        "claims": CLAIMS,
        "trials": 1000,
        "group_size": 3,
        "favours": "forward",
        "columns": {"kind": "BestColumn", "fraction": 0.3},
    }
    setting = read_setting("a", plain)
    assert setting.group_size == 3
    assert setting.favours is Order.FORWARD
    assert setting.columns == BestColumn(0.3)
    assert read_setting("a", setting.to_plain()) == setting
    for change, message in (
        ({"group_size": 0}, "group_size must be a whole number of at least 1, got 0"),
        ({"columns": {"kind": "Mean"}}, "columns.kind must be one of"),
        (
            {"columns": {"kind": "BestColumn", "fraction": 2}},
            r"fraction must be in \(0, 1\), got 2",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            read_setting("a", {**plain, **change})


def test_files_of_scores(tmp_path: Path) -> None:
    x, x_prime = shifted(0, TRIALS, 1), shifted(1, TRIALS, 2)
    np.save(tmp_path / "a.npy", x)
    np.savetxt(tmp_path / "b.csv", x_prime, delimiter=",")
    source = files(tmp_path / "a.npy", tmp_path / "b.csv")
    read, read_prime = source.draw(0)
    assert np.array_equal(read, x)
    assert np.array_equal(read_prime, x_prime)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1.0\nup\n", "line 2 must hold finite numbers only, got 'up' in column 1"),
        (b"1.0\nnan\n", "line 2 must hold finite numbers only, got 'nan' in column 1"),
        (b"1,2\n3,inf\n", "line 2 must hold finite numbers only, got 'inf' in column 2"),
    ],
)
def test_broken_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        files(tmp_path / "a.csv", tmp_path / "a.csv").draw(0)


def test_files_that_are_not_there_or_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x must be readable, got '.*a\.npy' \(No such file"):
        files(tmp_path / "a.npy", tmp_path / "b.npy").draw(0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("no_such_module_at_all:f", "function must name a module .*, got 'no_such_module_at_all'"),
        ("nowhere", "function must name a function or class of .*, got 'nowhere'"),
        ("short", "must return one score for each of the 1000 trials, got 3"),
        ("broken", "must hold finite numbers only, got nan at position 0"),
    ],
)
def test_broken_functions(function: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit_scores(own(function, trials=1000), confidence=0.95, seed=1)


CLAIMS = [{"name": "a", "epsilon": 1.0, "delta": 1e-2}]
FUNCTION = {"function": "m:f"}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"own": {"function": "f"}, "claims": CLAIMS, "trials": 1000},
            "own.function must be package",
        ),
        ({"own": FUNCTION, "claims": CLAIMS}, "trials must be given"),
        ({"own": FUNCTION, "trials": 1000}, "claims must be given"),
        ({"own": FUNCTION, "trials": 1000, "claims": []}, "claims must be one or more"),
        ({"own": FUNCTION, "claims": CLAIMS, "trials": 5}, "trials must be a whole number of"),
        ({"own": {}, "claims": CLAIMS}, "own.function must be given, or x and"),
        ({"own": {"scores": "a.npy"}, "claims": CLAIMS}, "own.function must be given, or x and"),
        (
            {"own": {"scores": "a", "scores_prime": "b"}, "claims": CLAIMS, "trials": 1000},
            "trials must be left out beside recorded scores, got 1000",
        ),
        (
            {"own": FUNCTION, "claims": CLAIMS, "trials": 1000, "renyi_orders": [2.0]},
            r"renyi_orders must be left out of a setting with the key own, got \[2.0\]",
        ),
        (
            {"own": FUNCTION, "claims": CLAIMS, "trails": 1000},
            "trails must be left out of .* got 1000; did you mean 'trials'",
        ),
        ({"claims": CLAIMS}, "must hold one of one_run, own, pair, study, training, got claims"),
        ({}, "must hold one of one_run, own, pair, study, training, got nothing"),
        ({"own": FUNCTION, "pair": {}, "claims": CLAIMS}, "must hold only one of "),
    ],
)
def test_slips_in_the_configuration(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^settings\.mine\.?\s?.*{message}"):
        read_setting("mine", plain)


def test_a_setting_as_plain_data() -> None:
    plain = {
        "title": "mine",
        "summary": "",
        "own": FUNCTION,
        "claims": CLAIMS,
        "deltas": [1e-3],
        "trials": 1000,
    }
    assert read_setting("mine", plain).to_plain() == plain
    files = {"scores": "a.npy", "scores_prime": "b.csv"}
    stored = {key: value for key, value in plain.items() if key != "trials"} | {"own": files}
    written = read_setting("mine", stored).to_plain()
    assert written == {**stored, "own": {"x": "a.npy", "x_prime": "b.csv"}}
    assert read_setting("mine", written) == read_setting("mine", stored)


def test_what_a_function_raises_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_raises.py").write_text(
        "def scores(dataset, trials, seed):\n    return undefined_name\n\n\n"
        "def no_seed(dataset, trials):\n    return [0.0] * trials\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"mine_raises:scores must be .*, got NameError: .* \(m"):
        ScoreSource(function="mine_raises:scores", trials=1000).draw(1)
    with pytest.raises(ValueError, match=r"of \(dataset, trials, seed\) .*, got TypeError: "):
        ScoreSource(function="mine_raises:no_seed", trials=1000).draw(1)


@pytest.mark.parametrize(
    ("function", "true", "caught"),
    [
        ("laplace_sum", pure_dp.EPSILON, False),
        ("randomised_response", pure_dp.EPSILON, False),
        ("laplace_mean_noise", 2 * pure_dp.EPSILON, True),
        ("coin_response", np.log(3.0), True),
    ],
)
def test_pure_differential_privacy(function: str, true: float, caught: bool) -> None:
    claim = UserClaim("pure", pure_dp.EPSILON, 0.0)
    row = audited(own(f"pure_dp:{function}", claim, trials=12_000))
    assert row.delta == 0
    assert 0.85 * true < row.certified.epsilon <= true
    assert (row.bounds[0].verdict is Verdict.REFUTED) is caught
