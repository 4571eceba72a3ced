"""Audits of trainings: correct ones are consistent, mistakes are refuted, failures are named."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audit import report, training
from audit.curves import GaussianCurve, Order
from audit.estimation import (
    BestColumn,
    Canaries,
    LinearScore,
    WeightedColumns,
    audit_one_run,
    audit_samples,
)
from audit.isolation import UserCodeError
from audit.report import load
from audit.results import UserClaim, Verdict, from_json, to_json
from audit.simulation.journal import FILE
from audit.training import scores
from audit.training.design import Design, analysis_seed, trials_of
from audit.training.findings import caveats
from tests.simulation.runs.jobs import recorded
from tests.training import trainings

Array = NDArray[np.float64]
HERE = "tests.training.trainings"
DELTA = 1e-2
TRUE = float(GaussianCurve(trainings.MU).epsilon(DELTA))
CLAIM = UserClaim("accountant", TRUE * (1 + 1e-9), DELTA)
USES = WeightedColumns((1.0, 0.0, 1.0, 0.0))


SHARED = training.Processes(1)  # a process that has imported the trainings once


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    SHARED.close()


def audited(name: str = "steps", **changed: Any) -> training.TrainingAudit:
    options: dict[str, Any] = {"claims": [CLAIM], "trials": 240, "confidence": 0.95, "seed": 11}
    return training.run(f"{HERE}:{name}", **{"processes": SHARED, **options, **changed})


@pytest.fixture(scope="module")
def right() -> training.TrainingAudit:
    return audited(columns=USES)


def test_a_right_training_is_consistent(right: training.TrainingAudit) -> None:
    assert right.verdict is Verdict.CONSISTENT
    assert 0.3 < right.epsilon_lower(DELTA) < TRUE  # tight enough to say something
    assert right.trainings == 240
    with pytest.raises(ValueError, match=r"delta must be that of a claim, got 0\.5"):
        right.epsilon_lower(0.5)


def test_the_numbers_are_those_of_the_estimator(right: training.TrainingAudit) -> None:
    # the trainings themselves, without processes, in the order of the trials
    sides: dict[bool, list[float]] = {True: [], False: []}
    for trial in trials_of(right.design, 11):
        (canary,) = trial.included
        sides[canary].append(trainings.score(canary, trial.seed))
    assert np.array_equal(right.scores, sides[True])  # bit for bit
    assert np.array_equal(right.scores_prime, sides[False])
    asked = {"confidence": 0.95, "deltas": (DELTA,), "seed": analysis_seed(11)}
    audit = audit_samples(right.scores, right.scores_prime, favours=Order.FORWARD, **asked)
    assert 0 <= audit.epsilon_lower(DELTA) - right.epsilon_lower(DELTA) <= 1e-5
    one = audit.evidence(DELTA)
    sides = ("with", "without") if one.order is Order.FORWARD else ("without", "with")
    for count, side in zip((one.first_count, one.second_count), sides, strict=True):
        words = rf"in {count} of 120 (trainings )?{side}( the canary|$)"
        assert re.search(words, right.findings.tables[0].rows[0][-1])


@pytest.mark.parametrize("mistake", trainings.MISTAKES)
def test_a_broken_training_is_refuted(mistake: str) -> None:
    # a part of the trainings finds out which steps to compare
    claims = [CLAIM, UserClaim("far", 60.0, DELTA)]  # no such claim hides what is refuted
    found = audited(columns=LinearScore(), arguments={"mistake": mistake}, claims=claims)
    assert found.verdicts == (Verdict.REFUTED, Verdict.INCONCLUSIVE)
    assert found.verdict is Verdict.REFUTED
    assert found.trainings == 240 > found.scores.size + found.scores_prime.size
    statements = tuple(replace(one, found=2.700628) for one in found.findings.statements)
    rounded = replace(found, findings=replace(found.findings, statements=statements))
    assert "certified 2.70062, " in str(rounded)


def test_an_early_stop_ends_at_the_pair_that_refutes() -> None:
    broken = {"arguments": {"mistake": "no clipping"}, "columns": USES, "early_stop": True}
    found = audited(trials=2000, **broken)
    assert found.verdict is Verdict.REFUTED
    assert found.trainings < 400
    assert found.epsilon_lower(DELTA) == CLAIM.epsilon
    printed = f"certified more than {CLAIM.epsilon:g}, claimed {CLAIM.epsilon:g}"
    assert str(found).startswith("refuted: ")
    assert printed in str(found)
    # two fewer trainings would not have done
    one_less = audited(trials=found.trainings - 2, **broken)
    assert one_less.verdict is not Verdict.REFUTED
    assert np.array_equal(one_less.scores, found.scores[:-1])
    stands = audited(early_stop=True, columns=USES)
    assert stands.trainings == 240
    assert stands.verdict is Verdict.CONSISTENT
    assert stands.epsilon_lower(DELTA) < TRUE
    # e-processes look both ways
    turned = audited("wrong_sign", claims=[(0.2, DELTA)], early_stop=True, trials=400)
    assert turned.verdict is Verdict.REFUTED


def test_a_claim_that_so_few_trainings_cannot_refute_is_inconclusive() -> None:
    far = UserClaim("far", 6.0, 1e-5)
    found = audited("constant", trials=20, claims=[CLAIM, far])
    assert found.verdicts[1] is Verdict.INCONCLUSIVE
    row = found.findings.tables[0].rows[1]
    assert row[0] == 1e-5
    assert float(row[2]) < 6.0  # the most that so many trainings could certify
    # scores that say nothing, or the opposite, make nothing consistent either
    assert found.verdicts[0] is Verdict.INCONCLUSIVE
    assert any("All scores are equal" in note for note in found.findings.notes)
    turned = audited("wrong_sign", claims=[UserClaim("small", 0.5, DELTA)])
    assert turned.verdict is Verdict.INCONCLUSIVE
    assert any("return minus the score" in note for note in turned.findings.notes)
    assert "return minus the score" in str(turned)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("without_canary", {}),
        ("without_canary", {"early_stop": True}),
        ("many_without_canaries", {"canaries": 400, "trials": 1}),
    ],
)
def test_a_training_that_leaves_the_canary_out_is_inconclusive(
    name: str, changed: dict[str, Any]
) -> None:
    found = audited(name, claims=[(1.0, DELTA)], **changed)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any("never includes its canary looks like" in note for note in found.findings.notes)


def test_scores_may_be_as_large_as_numbers_are(tmp_path: Path) -> None:
    found = audited("largest", folder=tmp_path)
    assert found.verdict is Verdict.CONSISTENT
    assert found.epsilon_lower(DELTA) > 0
    assert not found.findings.charts
    report.write(load(tmp_path), tmp_path)


def test_generators_of_the_process_are_seeded_for_each_training() -> None:
    # else the same call differs from one start to the next, and processes repeat each other
    options = {"columns": WeightedColumns((1.0, 1.0)), "trials": 40}
    first, again = audited("of_the_process", **options), audited("of_the_process", **options)
    assert np.array_equal(first.scores, again.scores)
    assert np.unique(first.scores).size == 20
    # draws that no seed reaches end the audit
    with pytest.raises(UserCodeError, match=rf"trial 1 .*: {HERE}:of_draws .* draws from {HERE}.D"):
        audited("of_draws", trials=8)


def test_scores_that_repeat_are_noted(right: training.TrainingAudit) -> None:
    found = audited("of_the_module")
    (note,) = [one for one in found.findings.notes if one.startswith("Scores repeat: ")]
    distinct = np.unique(found.scores).size
    assert 20 < distinct <= 40
    assert note.startswith(f"Scores repeat: only {distinct} of 120 with and ")
    assert not any("Scores repeat" in one for one in right.findings.notes)
    assert note in str(found)
    few, counts = np.tile([0.1, 0.7, 2.9], 20), np.tile([0.0, 1.0, 2.0], 20)
    assert "Scores repeat: only 3 of 60 without" in caveats(counts, few)[0]
    assert caveats(counts, counts) == []
    assert "All scores without the canary are equal" in caveats(counts, counts * 0)[0]

    options = {"canaries": 100, "trials": 4, "assume": Canaries.INDEPENDENT}
    assert "of 400 canaries have a score of their own" in str(audited("many_again", **options))


@pytest.mark.parametrize("side", [True, False])
def test_generators_that_one_side_draws_from_are_refused(side: bool) -> None:
    with pytest.raises(UserCodeError, match=r"from its seed, got draws from .*trainings\.DRAWS"):
        audited("of_one_side", trials=8, arguments={"side": side})


def test_many_canaries_of_one_training() -> None:
    claims = [CLAIM, UserClaim("half", TRUE / 2, DELTA)]
    options = {"claims": claims, "canaries": 1500, "trials": 2, "assume": Canaries.INDEPENDENT}
    found = audited("many", **options)
    assert found.verdicts[0] is Verdict.CONSISTENT
    assert 0.5 * TRUE < found.epsilon_lower(DELTA) < TRUE
    assert found.scores.size + found.scores_prime.size == 3000
    broken = audited("many", **options, arguments={"mistake": "noise of the average"})
    assert broken.verdict is Verdict.REFUTED
    turned = audited("many_of_wrong_sign", **options)
    assert set(turned.verdicts) == {Verdict.INCONCLUSIVE}
    assert "return minus the score" in turned.findings.notes[-1]
    # the coins are the package's own, the bound is that of all canaries of both trainings
    coins = np.concatenate([trial.included for trial in trials_of(found.design, 11)])
    scores = np.empty(coins.size)
    scores[coins], scores[~coins] = found.scores, found.scores_prime
    asked = {"delta": DELTA, "confidence": 0.95, "seed": analysis_seed(11)}
    coins = coins.astype(float)
    audit = audit_one_run(scores, coins, canaries=Canaries.INDEPENDENT, **asked)
    assert 0 <= audit.epsilon_lower(DELTA) - found.epsilon_lower(DELTA) <= 1e-5


def test_a_killed_audit_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    folder, design = tmp_path / "killed", {"trials": 60, "early_stop": True, "processes": 2}
    program = (
        "from tests.training.test_run import audited\n"
        f"audited('slow', folder={str(folder)!r}, **{design!r})"
    )
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    log = folder / f"{FILE}-wal"
    until = time.monotonic() + 30
    while not (log.exists() and log.stat().st_size > 20 * 4096):  # a page for each trial, and more
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = recorded(folder)
    assert 5 <= len(kept) < 60
    whole = audited("slow", arguments={"pause": 0.0}, **{**design, "processes": SHARED})
    design |= {"folder": folder, "processes": SHARED}
    resumed = audited("slow", **design)
    assert kept.items() <= recorded(folder).items()  # nothing ran twice
    assert sorted(recorded(folder)) == list(range(1, 61))
    assert resumed.scores.tobytes() == whole.scores.tobytes()
    assert resumed.scores_prime.tobytes() == whole.scores_prime.tobytes()
    assert resumed.findings == whole.findings
    # what has run once is read, and an anytime-valid audit may go on for longer
    assert audited("slow", **design).findings == whole.findings
    longer = audited("slow", **{**design, "trials": 64})
    assert np.array_equal(longer.scores[:30], whole.scores)
    with pytest.raises(ValueError, match=r"folder must be new or that of the same configurat"):
        audited("slow", **{**design, "claims": [(1.0, DELTA)]})
    stored = load(folder)
    assert from_json(to_json(stored)) == stored


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", r"raised RuntimeError: loss diverged \(trainings\.py, line \d+\)"),
        ("nan", r"must hold finite numbers only, got nan at position 0"),
        ("masked", r"must be an array without a mask, got a masked one"),
        ("hang", r"took longer than its limit of 0\.5 s"),
        ("exit", r"ended its process with status 3"),
        ("text", r"must be a number or an array of numbers, got 'a score'"),
        ("midway", r"raised ValueError: invalid literal .* \(trainings\.py, line \d+\)"),
        ("none", r"must be a number or an array of numbers, got None"),
        ("nothing", r"must yield one score per step, got none"),
    ],
)
def test_a_training_that_fails_names_its_trial(tmp_path: Path, how: str, message: str) -> None:
    folder, trials = tmp_path / "failed", 8
    design = Design(train=f"{HERE}:fails_at", claims=(CLAIM,), trials=trials)
    sixth = next(trial for trial in trials_of(design, 11) if trial.number == 6)
    which = "with" if sixth.included[0] else "without"
    arguments = {"how": how, "at": sixth.seed}
    with pytest.raises(UserCodeError) as caught:
        audited("fails_at", trials=trials, folder=folder, seconds=0.5, arguments=arguments)
    error = caught.value
    assert str(error).startswith(f"trial 6 ({which} the canary, seed {sixth.seed}): ")
    assert f"{HERE}:fails_at" in str(error)
    assert re.search(message, str(error))
    assert "\n" not in str(error)
    assert error.__notes__ == [
        f"finished trainings are stored in {folder}; the same call resumes from them"
    ]
    assert len(recorded(folder)) == 5


def test_a_budget_in_minutes_ends_and_counts_all_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(minutes: float, folder: str) -> Array:
        return audited("score", trials=None, minutes=minutes, folder=tmp_path / folder).scores

    looks = itertools.count()  # one process looks at the clock in a fixed order: a second a look
    monkeypatch.setattr("audit.training.engine.monotonic", lambda: float(next(looks)))
    found, again = timed(1.0, "first"), timed(1.0, "first")
    assert 4 <= found.size <= 15  # pairs of trainings, at least a second each
    assert np.array_equal(again, found)
    longer, whole = timed(2.0, "first"), timed(2.0, "second")
    assert found.size < longer.size <= whole.size < 2 * found.size + 2
    assert np.array_equal(longer, whole[: longer.size])
    (note, *_) = audited("score", trials=None, minutes=1.0).findings.notes
    assert "anytime-valid" in note


def test_seeds_and_coins_are_known_before(right: training.TrainingAudit) -> None:
    trials = list(trials_of(right.design, 11))
    assert len({trial.seed for trial in trials}) == len(trials) == 240
    assert all(0 <= trial.seed < 2**32 for trial in trials)
    pairs = [(a.included[0], b.included[0]) for a, b in zip(trials[::2], trials[1::2], strict=True)]
    assert set(pairs) == {(True, False), (False, True)}  # one of each, in either order
    shorter = Design(train="a:b", claims=(CLAIM,), trials=20)
    assert list(trials_of(shorter, 11)) == trials[:20]
    assert [t.seed for t in trials_of(shorter, 12)] != [t.seed for t in trials[:20]]


def test_reports_of_one_audit_and_of_several(right: training.TrainingAudit, tmp_path: Path) -> None:
    wrong = audited("wrong_sign", trials=20, columns=BestColumn())
    both = {"As it should be": right, "Wrong": wrong}
    named = {"name": "both", "title": "Two trainings"}
    result = training.joined(both, **named, confidence=0.95, seed=11)
    assert from_json(to_json(result)) == result
    report.write(result, tmp_path)
    text = (tmp_path / "report.md").read_text()
    for words in ("As it should be", "Largest bound that this many", "is not a bound"):
        assert words in text
    findings = json.loads(to_json(result))["settings"][0]["findings"]
    assert findings["numbers"]["scores"] == list(right.scores)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"trials": None}, "trials or minutes must be given, got neither"),
        ({"trials": 9}, "trials must be even: half of them have the canary, got 9"),
        ({"trials": 6}, "trials must be a whole number of at least 8, got 6"),
        ({"claims": []}, r"claims must be one or more, each with its own name or delta, got \[\]"),
        ({"claims": [3.0]}, r"claims\[0\] must be a pair \(epsilon, delta\), got 3\.0"),
        ({"claims": [(-1, DELTA)]}, r"epsilon must be a finite number of at least 0, got -1"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1\.0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"canaries": 100, "trials": None}, "trials must be given with several canaries"),
        ({"canaries": 100, "early_stop": True}, "early_stop must be left out with several"),
        ({"assume": Canaries.INDEPENDENT}, "assume must be left out with one canary"),
        ({"columns": LinearScore(), "early_stop": True}, "columns must be WeightedColumns with"),
        ({"claims": [(1.0, 2, 3)]}, r"claims\[0\] must be a pair \(epsilon, delta\), got \(1\.0,"),
        ({"processes": 0}, "processes must be a whole number of at least 1, got 0"),
        ({"arguments": {"noise": [1]}}, r"arguments\.noise must be a number, text or a boolean"),
        ({"arguments": {"seed": 1}}, "arguments must be the name of a parameter of train other"),
        ({"columns": USES, "name": "score"}, r"columns\.weights must hold one number for each of"),
        ({"name": "missing"}, f"train must name a function or class of {HERE}, got 'missing'"),
        ({"name": "MU"}, r"train must be a function \(.*:MU\), got 1\.0"),
    ],
)
def test_refusals(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audited(**{"trials": 8, **changed})


def test_what_processes_cannot_import_is_refused() -> None:
    options: dict[str, Any] = {"claims": [CLAIM], "trials": 8, "confidence": 0.95, "seed": 1}
    with pytest.raises(ValueError, match="train must be a function of a module, or 'module:"):
        training.run(lambda canary, seed: 0.0, **options)
    wrapper = functools.wraps(trainings.score)(lambda canary, seed: 0.0)
    with pytest.raises(ValueError, match="train must be a function of a module"):
        training.run(wrapper, **options)
    assert training.run(trainings.score, **options).design.train == f"{HERE}:score"


def test_helper_modules_belong_to_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "def train(canary, seed):\n    import own_late\n    return std.STD * own_late.FACTOR\n"
    contents = {
        "own_train.py": "import numpy\nfrom own_noise import train\n",
        "own_noise.py": f"from own_pack import std\n{late}",
        "own_pack/__init__.py": "",
        "own_pack/std.py": "STD = 1.0\n",
        "own_late.py": "FACTOR = 2.0\n",
    }
    (tmp_path / "own_pack").mkdir()
    for file, text in contents.items():
        (tmp_path / file).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest() -> str:
        for name in [name for name in sys.modules if name.startswith("own_")]:
            monkeypatch.delitem(sys.modules, name)
        train = importlib.import_module("own_train").train
        assert len(scores._files_of(train, "own_train:train")) == len(contents)
        return scores.source(train, "own_train:train")

    found = {digest(), digest()}
    assert len(found) == 1
    for file, text in contents.items():
        (tmp_path / file).write_text(f"{text}# changed\n")
        found.add(digest())
    assert len(found) == 1 + len(contents)


@pytest.mark.parametrize(
    ("body", "shared"),
    [
        ("G.normal()", "own.G"),
        ("H.random()", "own.H"),
        ("H.seed(seed) or H.random()", ""),
        ("default_rng(seed).normal()", ""),
        ("np.random.normal()", ""),
        ("R.normal()", ""),
        ("def train(canary, seed, g=default_rng(0)): return g.normal()", "own.train"),
        ("Noise.g.normal()", "own.Noise"),
        ("NOISE.own.normal()", "own.NOISE"),
        ("HELD['g'].normal()", "own.HELD"),
        ("LIST[0].normal()", "own.LIST"),
        ("DEEP['a'][0].g.normal()", "own.DEEP"),
        ("next(STREAM)", "own.STREAM"),
        ("draw()", "own.draw"),
        ("train = closed(default_rng(0))", "own.train"),
        ("cached().normal()", "own.cached"),
        ("def train(canary, seed, *, g=default_rng(0)): return g.normal()", "own.train"),
        ("train.g()\ntrain.g = default_rng(0).normal", "own.train"),
        ("KEPT.append(default_rng(seed)) or 0.0", ""),
        ("__own.normal()\n__own = default_rng(0)", "own.__own"),
        ("default_rng(BITS).normal()", "own.BITS"),
        ("default_rng(SEEDS.spawn(1)[0]).normal()", "own.SEEDS"),
        ("DEEP['a'][0].g.spawn(1)[0].normal()", "own.DEEP"),
        # what has no state, or is made anew, does not go on
        ("choice([0.0, 0.0])", ""),
        ("DEEP.update(new=default_rng()) or 0.0", ""),
    ],
)
def test_generators_made_on_import_are_refused(
    body: str, shared: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    head = "import random\nimport numpy as np\nfrom numpy.random import default_rng\n"
    head += "from functools import lru_cache\nfrom types import SimpleNamespace\n"
    head += "import weakref\nfrom secrets import choice\nDEAD = weakref.proxy({object})\n"
    made = (
        "BITS, SEEDS = np.random.PCG64(0), np.random.SeedSequence(0)\n"
        "G, H, R = default_rng(0), random.Random(0), np.random.mtrand._rand\n"
        "HELD, LIST = {'g': default_rng(0)}, [default_rng(0)]\n"
        "class Noise:\n    g = default_rng(0)\n"
        "    def __init__(self): self.own = default_rng(1)\n"
        "NOISE = Noise()\n"
        "DEEP, KEPT, draw = {'a': [SimpleNamespace(g=default_rng(0))]}, [], default_rng(0).normal\n"
        "def stream(g):\n    while True: yield g.normal()\n"
        "STREAM = stream(default_rng(0))\n"
        "def closed(g): return lambda canary, seed: g.normal()\n"
        "@lru_cache\ndef cached(): return default_rng(0)\n"
    )
    if not body.startswith(("def ", "train =")):
        body = f"def train(canary, seed): return {body}"
    (tmp_path / "own.py").write_text(f"{head}{made}\n{body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own", raising=False)
    own = importlib.import_module("own")
    ask = functools.partial(scores.first_trial, own.train, "own:train", [True], 5, {})
    if not shared:
        assert ask() == ask()
        return
    with pytest.raises(UserCodeError, match=f"from its seed, got draws from {shared}"):
        ask()


def test_audits_share_processes_and_steps_may_come_in_one_array() -> None:
    first, second = (audited("process", trials=8, seed=seed) for seed in (1, 2))
    assert len({*first.scores, *first.scores_prime, *second.scores, *second.scores_prime}) == 1
    assert first.scores[0] != os.getpid()
    found, same = (audited(name, trials=8) for name in ("in_one_array", "steps"))
    assert np.array_equal(found.scores, same.scores)


def test_a_training_of_the_script_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported by name; a script that starts its audit when imported is told so."""
    (tmp_path / "script.py").write_text(
        "import numpy as np\n"
        "from audit import training\n"
        "def train(canary, seed):\n"
        "    return canary + np.random.default_rng(seed).normal()\n"
        'if __name__ == "__main__":\n'
        "    found = training.run(train, claims=[(9, .1)], trials=8, confidence=.5, seed=1)\n"
        "    print(found.design.train, found.verdict.value)\n"
    )
    command = [sys.executable, str(tmp_path / "script.py")]
    path = os.pathsep.join([str(Path(training.__file__).parents[2]), *sys.path])
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60
    )
    assert done.stdout == "script:train inconclusive\n", done.stderr
    (inside,) = audited("inside", trials=8).scores[:1]
    monkeypatch.setenv("AUDIT_TRAINING", str(int(inside)))  # as in a process that trains
    with pytest.raises(ValueError, match="an audit must not be started while its training module"):
        audited("score", trials=8)


def test_a_damaged_trial_runs_again(tmp_path: Path) -> None:
    first = audited("score", trials=8, folder=tmp_path)
    kept = recorded(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute("UPDATE results SET data = zeroblob(16) WHERE number = 3")
    with pytest.warns(RuntimeWarning, match=rf"{FILE} is damaged at number 3, which is computed"):
        again = audited("score", trials=8, folder=tmp_path)
    assert again.scores.tobytes() == first.scores.tobytes()
    del kept[3]
    assert kept.items() < recorded(tmp_path).items()
    with pytest.raises(ValueError, match=r"trials is 8 \(here 10\)"):  # not after looking
        audited("score", trials=10, folder=tmp_path)
