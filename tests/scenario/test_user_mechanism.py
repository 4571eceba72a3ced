"""What users run: mechanisms, canaries of one run, trainings; bounds, mistakes, one-line errors."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_sgd  # of the shipped scenarios
import pure_dp
from audit.curves import GaussianCurve, Order
from audit.estimation import (
    BestColumn,
    Canaries,
    ScoreSource,
    audit_one_run,
    audit_samples,
    per_record_epsilon,
)
from audit.progress import Silent
from audit.results import AtDelta, Estimator, StudyResult, UserClaim, UserMechanismResult, Verdict
from audit.scenario import TrainingSetting, run
from audit.scenario.config import read_scenario, read_setting
from audit.scenario.definition import RunContext
from audit.scenario.folders import unfinished
from audit.scenario.user_mechanism import OneRunSetting, UserMechanismSetting, audit_scores
from audit.simulation import Parallel
from audit.training import trials_of
from tests.simulation.runs.jobs import recorded
from tests.training import trainings
from tests.training.test_run import audited as library

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


def test_a_declared_direction_is_sharper_or_certifies_nothing() -> None:
    setting = own("shifted", trials=1000)
    either, right, wrong = (
        audited(replace(setting, favours=favours)).sampled.epsilon
        for favours in (None, Order.FORWARD, Order.REVERSE)
    )
    assert right > either > 1
    assert wrong == 0.0


def test_columns_and_group_size_are_read_and_written() -> None:
    plain = {**OWN, "group_size": 3, "favours": "forward", "columns": BEST}
    setting = read_setting("a", plain)
    assert setting.group_size == 3
    assert setting.favours is Order.FORWARD
    assert setting.columns == BestColumn(0.3)
    assert read_setting("a", setting.to_plain()) == setting


@pytest.mark.parametrize("drawn", [shifted, two_records])
def test_files_of_scores(drawn: Any, tmp_path: Path) -> None:
    x, x_prime = drawn(0, 50, 1), drawn(1, 60, 2)
    np.save(tmp_path / "a.npy", x)
    np.savetxt(tmp_path / "b.csv", x_prime, delimiter=",")
    source = ScoreSource(x=tmp_path / "a.npy", x_prime=tmp_path / "b.csv")
    read, read_prime = source.draw(0)
    assert np.array_equal(read, x)
    assert np.array_equal(read_prime, x_prime)
    with pytest.raises(ValueError, match=r"x must be readable, got '.*c\.npy' \(No such file"):
        replace(source, x=tmp_path / "c.npy").draw(0)


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


@pytest.mark.parametrize("sizes", [(2000, 1500), (1500, 1500)])
def test_sorted_rows_certify_nothing(sizes: tuple[int, int]) -> None:
    """The sequential audit of equal laws certified 3.6 where one file was sorted."""
    random = np.random.default_rng(5)
    x, x_prime = np.sort(random.normal(size=sizes[0])), random.normal(size=sizes[1])
    recorded = ScoreSource(x=tuple(x.tolist()), x_prime=tuple(x_prime.tolist()))
    row = audited(replace(own("short"), own=recorded))
    assert [one.epsilon for one in row.estimates] == [0.0, 0.0, 0.0]
    assert row.estimates[-1].refuted_after[0].pairs is None


CLAIMS = [{"name": "a", "epsilon": 1.0, "delta": 1e-2}]
FUNCTION = {"function": "m:f"}
OWN = {"own": FUNCTION, "claims": CLAIMS, "trials": 1000}
BEST = {"kind": "BestColumn", "fraction": 0.3}
CANARIES = {"claims": [{"name": "a", "epsilon": 2.3178, "delta": 1e-2}], "canaries": "independent"}
DRAWN = {"function": "dp_sgd:one_training", "number": 2000}
TRAINING = {
    "train": f"{trainings.__name__}:score",
    "claims": [{"name": "accountant", "epsilon": 2.4, "delta": 1e-2}],
    "trials": 40,
}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"own": {"function": "f"}, "claims": CLAIMS, "trials": 1000}, "function must be package"),
        ({"own": FUNCTION, "claims": CLAIMS}, "trials must be given"),
        ({"own": FUNCTION, "trials": 1000}, "claims must be given"),
        ({"own": FUNCTION, "trials": 1000, "claims": []}, "claims must be one or more"),
        ({"own": FUNCTION, "claims": CLAIMS, "trials": 5}, "trials must be a whole number of"),
        ({"own": {}, "claims": CLAIMS}, "own.function must be given, or x and"),
        (
            {"own": {**FUNCTION, "score": "x"}, "claims": CLAIMS},
            "given, or .*, got function, score",
        ),
        ({"own": {**FUNCTION, "from": "b"}, "claims": CLAIMS}, "own.from must be left out of a Sc"),
        ({**OWN, "group_size": 0}, "group_size must be a whole number of at least 1, got 0"),
        ({**OWN, "columns": {"kind": "Mean"}}, "columns.kind must be one of"),
        ({**OWN, "columns": BEST | {"fraction": 2}}, r"fraction must be in \(0, 1\), got"),
        ({"own": {"scores": "a.npy"}, "claims": CLAIMS}, "own.function must be given, or x and"),
        (
            {"own": {"scores": "a", "scores_prime": "b"}, "claims": CLAIMS, "trials": 1000},
            "trials must be left out beside recorded scores, got 1000",
        ),
        (
            {**OWN, "renyi_orders": [2.0]},
            r"renyi_orders must be left out of a setting with the key own, got \[2.0\]",
        ),
        (
            {"own": FUNCTION, "claims": CLAIMS, "trails": 1000},
            "trails must be .* you mean 'trials'",
        ),
        ({"one_run": {**CANARIES}}, "function and number must be given, or scores and coins"),
        ({"one_run": {**CANARIES, "scores": "a", "coins": "b", "number": 9}}, "got number, scores"),
        ({"one_run": {**CANARIES, **DRAWN, "scores": "a.npy"}}, "got function, number, scores"),
        ({"one_run": {**CANARIES, **DRAWN, "claims": []}}, "claims must be one or more, each with"),
        ({"one_run": {**CANARIES, **DRAWN, "canaries": "many"}}, "canaries must be one of arbitr"),
        ({"one_run": {"claims": CLAIMS, **DRAWN}}, "canaries must be given"),
        ({"one_run": {**CANARIES, **DRAWN, "number": 3}}, "number must be .* at least 4, got 3"),
        ({"one_run": {**CANARIES, **DRAWN, "delta": 2.0}}, r"delta must be in \[0, 1\], got 2.0"),
        ({"training": {**TRAINING, "trails": 4}}, "trails must be left out .* mean 'trials'"),
        ({"training": {"train": "a:f", "trials": 40}}, "training.claims must be given"),
        ({"training": {**TRAINING, "trials": 7}}, "trials must be .* at least 8, got 7"),
        ({"training": {**TRAINING, "assume": "hope"}}, "assume must be one of arbitrary, indep"),
        ({"training": {**TRAINING, "train": "f"}}, "train must be package.module:function, got 'f"),
        ({"claims": CLAIMS}, "must hold one of one_run, own, pair, study, training, got claims"),
        ({}, "must hold one of one_run, own, pair, study, training, got nothing"),
        ({"own": FUNCTION, "pair": {}, "claims": CLAIMS}, "must hold only one of "),
        ({"study": {"function": "f"}, "positions": [0]}, "positions must be .* key study, got "),
    ],
)
def test_slips_in_the_configuration(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^settings\.mine\.?\s?.*{message}"):
        read_setting("mine", plain)


def test_a_setting_as_plain_data() -> None:
    plain = {"title": "mine", "summary": "", **OWN, "deltas": [1e-3]}
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


# canaries of one run, and trainings


def context(seed: int, confidence: float = 0.95, folder: Path | None = None) -> RunContext:
    return RunContext(
        seed=seed,
        confidence=confidence,
        threads=2,
        bounds=(),
        workers=Parallel(),
        folder=folder and folder / str(seed),
        progress=Silent(),
    )


def one_run(**changed: Any) -> OneRunSetting:
    plain = {**CANARIES, **DRAWN, **changed}
    read = read_setting("one", {"one_run": {k: v for k, v in plain.items() if v is not None}})
    assert isinstance(read, OneRunSetting)
    return read


def test_right_and_wrong_training() -> None:
    # four steps at noise multiplier 2 for one canary in or out
    assert GaussianCurve(4**0.5 / dp_sgd.NOISE_MULTIPLIER).epsilon(1e-2) <= 2.3178
    verdicts = {}
    for function in ("one_training", "one_training_half_the_noise"):
        one = one_run(function=f"dp_sgd:{function}")
        found = one.run(context(3)).findings
        verdicts[function] = found.statements[0].verdict
        assert "assume that canaries are independent" in found.notes[0]
        assert "independent canaries" in found.statements[0].claim
        assert found.numbers["canaries"] == "independent"
    assert list(verdicts.values()) == [Verdict.CONSISTENT, Verdict.REFUTED]


def test_the_numbers_are_those_of_the_audit() -> None:
    one = one_run(canaries="arbitrary", delta=1e-5)  # for which two numbers of guesses are tried
    found = one.run(context(5, 0.9)).findings
    options = {"confidence": 0.9, "seed": 5, "canaries": Canaries.ARBITRARY}
    audited = audit_one_run(*one.one_run.draw(5), delta=1e-5, **options)
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
    one = one_run(function=None, number=None, **files)
    read, tossed = one.one_run.draw(0)
    assert np.array_equal(read, scores)
    assert np.array_equal(tossed, coins)
    assert read_setting("one", one.to_plain()) == one
    assert read_setting("one", one_run().to_plain()) == one_run()
    with pytest.raises(ValueError, match=r"what .*:not_two returns must be scores and coins, got"):
        one_run(function=f"{__name__}:not_two").one_run.draw(1)


def not_two(number: int, seed: int) -> Any:
    return np.zeros(number)


def training(**changed: Any) -> TrainingSetting:
    read = read_setting("mine", {"title": "Mine", "training": {**TRAINING, **changed}})
    assert isinstance(read, TrainingSetting)
    return read


def test_it_is_the_audit_of_the_library() -> None:
    found = training(arguments={"mistake": "no clipping"}).run(context(11))
    same = library(
        "score", trials=40, claims=[(2.4, 1e-2)], arguments={"mistake": "no clipping"}, processes=1
    )
    assert found.findings.numbers["scores"] == tuple(same.scores)
    assert found.findings.tables == same.findings.tables
    assert found.findings.statements[0].claim == "accountant: epsilon at delta 0.01"
    assert found.parameters["arguments.mistake"] == "no clipping"


def test_an_interrupted_scenario_goes_on(tmp_path: Path) -> None:
    run = tmp_path, "mine-0123", "audit scenario=mine"
    broken = training(train=f"{trainings.__name__}:fails_at", arguments={"at": 0}, trials=20)
    seeds = [trial.seed for trial in trials_of(broken.design, 11)]
    # the last one fails, then the module is mended
    failing = training(
        train=f"{trainings.__name__}:fails_at", arguments={"at": seeds[-1]}, trials=20
    )
    with pytest.raises(ValueError, match=r"^trial 20 ") as caught, unfinished(*run) as folder:
        failing.run(context(11, folder=folder))
    assert any("to go on from it: audit scenario=mine" in note for note in caught.value.__notes__)
    assert len(recorded(folder / "11")) >= 18
    with unfinished(*run):
        pass  # what a run that ended leaves
    assert not folder.exists()


def test_plain_data_goes_round() -> None:
    for one in (
        training(),
        training(early_stop=True, minutes=2.5, columns={"kind": "WeightedColumns", "weights": [1]}),
        training(canaries=100, trials=1, assume="independent"),
    ):
        plain = one.to_plain()
        assert read_setting("mine", plain) == one
    assert set(training().to_plain()["training"]) == {"train", "claims", "trials"}


def test_verdicts_reach_the_result() -> None:
    many = {"canaries": 1200, "trials": 1, "assume": "independent"}
    found = training(train=f"{trainings.__name__}:many", **many).run(context(11))
    assert found.findings.statements[0].verdict is Verdict.CONSISTENT
    assert np.size(found.findings.numbers["scores"]) > 500


def test_functions_beside_the_scenario_are_found_when_it_runs(tmp_path: Path) -> None:
    (tmp_path / "drawn_beside.py").write_text(
        "import numpy as np\n"
        "def scores(dataset, trials, seed):\n"
        "    return np.random.default_rng(seed).normal(dataset, 1.0, trials)\n"
        "def canaries(number, seed):\n"
        "    coins = np.random.default_rng(seed).integers(0, 2, number)\n"
        "    return coins.astype(float), coins\n"
    )
    one_run = {"function": "drawn_beside:canaries", "number": 100, "canaries": "independent"}
    claims = [{"name": "theirs", "epsilon": 1.0, "delta": 1e-5}]
    settings = {
        "scores": {"own": {"function": "drawn_beside:scores", "trials": 1000}, "claims": claims},
        "canaries": {"one_run": {**one_run, "claims": claims}},
    }
    plain = {"name": "beside", "bounds": [], "confidence": 0.9, "seed": 1, "settings": settings}
    scores, canaries = run(read_scenario(plain, [tmp_path])).settings
    assert isinstance(scores, UserMechanismResult)
    assert isinstance(canaries, StudyResult)
    assert [one.verdict for one in canaries.findings.statements] == [Verdict.REFUTED]
