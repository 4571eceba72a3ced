"""Usual mistakes at every door: one line that names the thing and what is allowed, and a status."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import audit
from audit import NoisySGD, Relation, codec
from audit.adapters import opacus
from audit.adapters.scores import read_table
from audit.cli import check, report
from audit.cli.audit import main as run_scenario
from audit.cli.bounds import main as list_bounds
from audit.cli.plan import main as plan
from audit.cli.search import main as search
from tests.claims.test_plugin import run_here
from tests.ended import Command, Ended

Value = Any

FIELDS: Mapping[str, Value] = {
    "steps": 100,
    "dataset_size": 100,
    "batch_size": 100,
    "step_size": 0.1,
    "noise_std": 0.5,
    "lipschitz": 1.25,
    "smoothness": 1.0,
    "diameter": 1.0,
}
MISSING = object()

# a field of a mechanism, its wrong value, and what every door says
FIELD_MISTAKES: tuple[tuple[str, Value, str], ...] = (
    ("noise_std", 0, "noise_std must be a positive finite number, got 0.0"),
    ("noise_std", math.nan, "noise_std must be a positive finite number, got nan"),
    ("noise_std", "much", "noise_std must be a number, got 'much'"),
    ("noise_std", [0.5, 0.5], "noise_std must be a number, got"),
    ("noise_std", True, "noise_std must be a number, got True"),
    ("noise_std", None, "noise_std must be a number, got None"),
    ("noise_std", MISSING, "noise_std must be given"),
    ("noise_sdt", 0.5, "did you mean 'noise_std'?"),
    ("steps", 0, "steps must be a whole number of at least 1, got 0"),
    ("steps", 1.5, "steps must be a whole number"),
    ("batch_size", 200, "batch_size must be at most dataset_size (100), got 200"),
    ("relation", "neighbours", "relation must be one of replace one, zero out, add remove, got"),
    ("batching", "random", "batching must be one of"),
    ("step_size", [0.1, 0.2], "step_size must have one number a step (100), got 2 numbers"),
)


IDS = [f"{f} {'missing' if v is MISSING else v}"[:40] for f, v, _ in FIELD_MISTAKES]

# words of a command, and what it says
WORDS = [f"{name}={value}" for name, value in FIELDS.items()]
PLAN = ["law=gaussian", "mu=1", "epsilon=2", "confidence=.95"]
TRAINED = ["delta=1e-5", "sampling_rate=.01", "steps=100", "relation=add_remove"]
SETTING = "settings.full_batch"
COMMANDS: Mapping[str, Callable[[], None]] = {
    "audit": run_scenario,
    "audit-bounds": list_bounds,
    "audit-search": search,
    "audit-plan": plan,
    "audit-check": lambda: sys.exit(check.run(sys.argv[1:])),  # not in a child process
    "audit-report": report.main,
}
COMMAND_MISTAKES: tuple[tuple[str, list[str], str], ...] = (
    ("audit-bounds", [*WORDS, "delta=1"], "delta must be in [0, 1), got 1.0"),
    ("audit-bounds", WORDS, "delta must be given, got nothing"),
    ("audit-bounds", [], "steps, dataset_size, batch_size, step_size, noise_std, delta must be"),
    ("audit-bounds", ["sigma=1"], "a key must be one of those in audit-bounds --help, got 'sigma'"),
    ("audit-bounds", ["epsilon=2"], "sampling_rate, relation must be given, got nothing"),
    ("audit-bounds", [*WORDS, "delta=.1", "steps=10,000"], "steps must be one value ([a,b] is a l"),
    ("audit-bounds", [*WORDS, "delta"], "words must be KEY=VALUE, see audit-bounds --help, got 'd"),
    ("audit-bounds", [*WORDS, "delta=.1", "slow=maybe"], "slow must be true or false, got 'maybe'"),
    ("audit-bounds", ["--fromat", "csv"], "options must be those of audit-bounds --help, got '--f"),
    ("audit-bounds", ["--format", "xml"], "--format: invalid choice: 'xml' (choose from"),
    ("audit-bounds", [*WORDS, "difmeter=3"], "got 'difmeter'; did you mean 'diameter'?"),
    (
        "audit-bounds",
        [*WORDS, "delta=.1", "batching=poison"],
        "got 'poison'; did you mean 'poisson'?",
    ),
    ("audit-bounds", [*WORDS, "delta=.1", "holder=[1]"], "holder must be "),
    ("audit-bounds", ["step_size=[1"], "'step_size=[1' must be KEY=VALUE in Hydra's grammar"),
    ("audit-bounds", [*TRAINED, "noise_multiplier=1", "epsilon=2"], "got epsilon with it"),
    ("audit-bounds", [*TRAINED[1:], "noise_multiplier=1"], "or left out, got no delta with it"),
    ("audit-bounds", [*TRAINED, "noise_multipler=1"], "'noise_multipler'; did you mean 'noise_m"),
    ("audit-bounds", [*TRAINED, "noise_multiplier=1", "step_size=1"], "got 'step_size'; did you"),
    ("audit-bounds", TRAINED, "the goal must be epsilon and delta, or advantage, or tpr and fpr,"),
    ("audit", ["scenario=papers/langevn"], "did you mean 'papers/langevin'?"),
    ("audit", ["scenario=glob(xyz*)"], "scenario must match a scenario, got 'glob(xyz*)'"),
    ("audit", ["+seeed=1"], "seeed must be left out of a Scenario, got 1; did you mean 'seed'?"),
    ("audit", ["seed=-1"], "seed must be a whole number of at least 0, got -1"),
    ("audit", ["draw=perhaps"], "draw must be true or false, got 'perhaps'"),
    ("audit", ["parallel=dask"], "parallel.address must be that of a running cluster, got None"),
    ("audit", ["parallel=thread"], "parallel must be one of cuda, dask, loky, ray, threads, got"),
    ("audit", ["parallel.workers=0"], "parallel.workers must be a whole number of at least 1, g"),
    (
        "audit",
        ["parallel=dask", "parallel.address=tcp://127.0.0.1:1"],
        "audit: error: no Dask cluster at tcp://127.0.0.1:1: [Errno 111] Connection refused",
    ),
    ("audit", ["hydra/launcher=jolib"], "got 'jolib'; did you mean 'joblib'?"),
    ("audit", ["seed"], "words must be KEY=VALUE"),
    ("audit", ["--multi-run"], "options must be those of audit --help, got '--multi-run'; did yo"),
    ("audit", [f"{SETTING}.trails=5"], "trails must be left out of a setting with the key pair, "),
    ("audit", [f"+{SETTING}.trails=5"], "with the key pair, got 5; did you mean 'trials'?"),
    ("audit", ["settings.full_bath.trials=5000"], "got trials; did you mean 'full_batch'?"),
    ("audit", [f"{SETTING}.pair.strat=5"], "pair.strat must be left out of a DriftedWalk, got 5;"),
    ("audit", [f"{SETTING}.mechanism.batching=ciclic"], "did you mean 'cyclic'?"),
    ("audit", [f"{SETTING}.mechanism.stepss=5"], "did you mean 'steps'?"),
    ("audit", [f"{SETTING}.mechanism.strong_convexity=0.5"], "Walk needs strong_convexity = 0"),
    ("audit", [f"{SETTING}.mechanism.relation=ZERO_OUT"], "TwoSidedWalk needs relation"),
    ("audit", ["scenario=drifted_wlak"], "got 'drifted_wlak'; did you mean 'drifted_walk'?"),
    ("audit", ["drifted_walk"], "words must be KEY=VALUE, see audit --help, got 'drifted_walk'"),
    ("audit", ["sed=3"], "a key must be a known one, got 'sed'; did you mean 'seed'?"),
    ("audit", ["confidence=1"], "confidence must be in (0, 1), got 1.0"),
    ("audit", ["bounds=[bsa24.theorem_4]"], "bounds[0] must be the id of a bound in the catalogue"),
    ("audit", ["threads=0"], "threads must be a whole number of at least 1, got 0"),
    ("audit", ["output=/proc/none"], "output must be a folder that can be written to, got '/proc/"),
    ("audit", [f"{SETTING}.trials=-5"], "trials must be a whole number of at least 1000, got -5"),
    ("audit", [f"{SETTING}.deltas=[0,1]"], "deltas[1] must be in [0, 1), got 1.0"),
    ("audit", [f"{SETTING}.pair.kind=Walk"], "pair.kind must be one of BiasedWalk, "),
    ("audit", ["settings.other.trials=9"], "settings.other must hold one of one_run, own, pair"),
    ("audit", ["--config-dir", "none"], "--config-dir must be a folder, got 'none'"),
    ("audit-search", [*WORDS, "delta=.1", "budget=-1", "seed=0"], "budget must be a positive fi"),
    ("audit-search", [*WORDS, "delta=.1", "budget=1", "seed=x"], "seed must be a whole number, g"),
    ("audit-search", [*WORDS, "delta=.1"], "seed must be given, got nothing; see audit-search --h"),
    ("audit-search", [*WORDS, "delta=.1", "seed=0"], "budget or evaluations must be given, got n"),
    ("audit-search", ["budgte=5"], "a key must be a known one, got 'budgte'; did you mean 'budg"),
    (
        "audit-search",
        [*WORDS, "budget=1", "seed=1", "delta=.1", "renyi_order=4"],
        "delta or renyi_order must be given, and not both",
    ),
    ("audit-search", [*WORDS, "budget=1", "seed=1"], "delta or renyi_order must be given"),
    ("audit-plan", [*PLAN, "delta=2"], "delta must be in [0, 1), got 2.0"),
    ("audit-plan", PLAN, "delta must be given, got nothing"),
    ("audit-plan", [*PLAN, "delta=0", "epsilon=-1"], "epsilon must be a finite number of at"),
    ("audit-plan", [*PLAN, "delta=0", "law=laplace"], "mu must be left out for law=laplace, got "),
    ("audit-plan", [*PLAN, "delta=0", "mu=null"], "mu must be given for law=gaussian, got None"),
    ("audit-plan", [*PLAN, "delta=0", "law=gauss"], "law must be one of gaussian, laplace, ran"),
    ("audit-check", [], "the following arguments are required: FILE; see audit-check check --help"),
    ("audit-check", ["lock", "x"], "the following arguments are required: FILE"),
    ("audit-check", ["x", "--accept", "why"], "unrecognized arguments: --accept why"),
    ("audit-check", ["lock", "l", "x", "--fresh-seed"], "unrecognized arguments: --fresh-seed"),
    ("audit-check", ["x", "--seed", "1", "--fresh-seed"], "not allowed with"),
    ("audit-check", ["x.yaml", "--srch", "3"], "unrecognized arguments: --srch 3"),
    ("audit-check", ["x.yaml", "--format", "xml"], "--format: invalid choice: 'xml' (choose from"),
    ("audit-check", ["x.yaml", "--search", "x"], "argument --search: invalid int value: 'x'"),
    ("audit-check", ["none.yaml"], "none.yaml: cannot be read: No such file or directory"),
    ("audit-check", ["."], ".: cannot be read: Is a directory"),
    ("audit-report", [], "the following arguments are required: RUN"),
    ("audit-report", ["none"], "RUN must be a folder of stored results, got 'none'"),
)

# claims files of what comes from elsewhere; tests/claims/test_claims_file.py has the others
FILES: tuple[tuple[bytes, str], ...] = (
    (
        b"claims: [{id: a, mechanism: m, epsilon: 1, delta: 0.1}]\n"
        b"mechanisms: {m: {history: [[1, 1.5, 9]], relation: add remove}}\n",
        "history[0] sample rate must be in [0, 1], got 1.5",
    ),
    (
        b"claims: [{id: a, mechanism: trainde, epsilon: 1, delta: 0.1}]\n"
        b"mechanisms: {trained: {history: [[1, 0.1, 9]], relation: add remove}}\n",
        "unknown mechanism 'trainde'; did you mean 'trained'?",
    ),
    (b"claims: [\n", "not YAML: while parsing a flow node"),
)

M = NoisySGD(**FIELDS)  # type: ignore[arg-type]
ADD = Relation.ADD_REMOVE
CURVE = audit.curves.GaussianCurve(1.0)
TRAINING = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 9, "delta": 0.1}


def audited(samples: object, confidence: object = 0.9, **options: object) -> object:
    return audit.estimation.audit_samples(
        samples,  # type: ignore[arg-type]
        [0.0, 1.0],
        confidence=confidence,  # type: ignore[arg-type]
        **{"seed": 1, **options},  # type: ignore[arg-type]
    )


def iterates(**options: object) -> object:
    pair = audit.constructions.TwoSidedWalk(M)
    return audit.simulation.final_iterates(pair, **{"trials": 9, "seed": 1, **options})  # type: ignore[arg-type]


def history(*entries: object, **options: object) -> object:
    return opacus.from_history(list(entries), **{"relation": ADD, **options})  # type: ignore[arg-type]


CALLS: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: audit.bounds.best(M, delta=1), "delta must be in [0, 1), got 1"),
    (lambda: audit.bounds.best(M, delta="1e-5"), "delta must be in [0, 1), got '1e-5'"),
    (lambda: audit.bounds.best(M, delta=[0.1]), "delta must be in [0, 1), got [0.1]"),
    (lambda: audit.bounds.best({}, delta=0.1), "mechanism must be a NoisySGD, got {}"),
    (lambda: audit.bounds.evaluate("bsa24.theorem_4", M), "; did you mean bsa24.theorem_4_"),
    (lambda: audit.bounds.evaluate("bsa24.theorem_4_3", M, tua=3), "no option 'tua'"),
    (lambda: CURVE.epsilon(math.nan), "delta must be in [0, 1), got nan"),
    (lambda: CURVE.epsilon(0.1, "forward"), "got 'forward'; write Order.FORWARD"),
    (lambda: CURVE.renyi(1), "alpha must be in (1, inf), got 1.0"),
    (lambda: audit.exact.curve(M), "pair must be a Construction, got NoisySGD("),
    (lambda: audit.constructions.TwoSidedWalk("m"), "mechanism must be a NoisySGD, got 'm'"),
    (lambda: audit.constructions.TwoSidedWalk(M, start=9), "start must be in the domain [-0.5"),
    (lambda: audit.epsilon(relation="add remove", **TRAINING), "; write Relation.ADD_REMOVE"),
    (lambda: audit.epsilon(relation=ADD, **TRAINING | {"delta": 0}), "delta must be in (0, 1), g"),
    (lambda: audit.epsilon(relation=ADD, **TRAINING | {"sampling_rate": 2}), "must be in [0, 1]"),
    (lambda: iterates(trials=0), "trials must be a whole number of at least 1, got 0"),
    (lambda: iterates(trials=1e3), "trials must be a whole number of at least 1, got 1000.0"),
    (lambda: iterates(seed=None), "seed must be a whole number of at least 0, got None"),
    (lambda: audited([0.0], 95), "confidence must be in (0, 1), got 95"),
    (lambda: audited([0.0, math.nan]), "samples must hold finite numbers only, got nan at posi"),
    (lambda: audited(["a"]), "samples must be an array of real numbers, got one of <U1"),
    (lambda: audited([]), "samples must be a non-empty one-dimensional array, got shape (0,)"),
    (lambda: audited(1.0), "samples must be a non-empty one-dimensional array, got shape ()"),
    (lambda: audited([0.0], deltas=1e-5), "deltas must be a sequence of numbers in [0, 1), got"),
    (lambda: audit.search.worst_case(M, delta=2, budget=1, seed=0), "delta must be in [0, 1), g"),
    (lambda: audit.search.worst_case(M, delta=0.1, seed=0), "budget or evaluations must be giv"),
    (lambda: audit.claims.check_file(3), "path must be a str or a Path, got 3"),
    (lambda: audit.claims.check_file("none"), "none: cannot be read: No such file or directory"),
    (lambda: opacus.from_history("x", relation=ADD), "history must be entries (noise multiplier"),
    (history, "history must hold one entry or more, got none"),
    (lambda: history((-1, 0.1, 9)), "noise multiplier must be a positive finite number, got -1"),
    (lambda: history((1, 1.5, 9)), "history[0] sample rate must be in [0, 1], got 1.5"),
    (lambda: history((1, 0.1, 9.5)), "steps must be a whole number of at least 1, got 9.5"),
    (lambda: history(("1", 0.1, 9)), "noise multiplier must be a positive finite number, got '"),
    (lambda: history((1, 0.1)), "history[0] must be (noise multiplier, sample rate, steps), got"),
    (lambda: history((1, 0.1, 9), relation="zero out"), "write Relation.ZERO_OUT"),
    (lambda: history((1, 0.1, 9), dataset_size=1.5), "dataset_size must be a whole number of"),
    (lambda: history((1, 0.1, 9), clip_norm=0), "clip_norm must be a positive finite number, g"),
)
TABLES: tuple[tuple[str, str, str], ...] = (
    ("scores.csv", "", "score must be one of the columns none, got 'loss'"),
    ("scores.csv", "a,in\n1,0\n", "score must be one of the columns 'a', 'in', got 'loss'"),
    ("scores.csv", "loss,in\nx,0\n", "column 'loss' must hold numbers, got 'x' at position 0"),
    ("scores.csv", "loss,in\nnan,1\n", "column 'loss' must hold finite numbers only, got nan"),
    ("scores.csv", "loss,in\n1,2\n", "column 'in' must hold 0 and 1, or false and true, got '2'"),
    ("scores.csv", "loss,in\n", "column 'loss' must be a non-empty one-dimensional array, got"),
    ("scores.txt", "loss,in\n1,1\n", "file must be one of .csv, .tsv, .npz, .npy, .parquet, got"),
)


def changed(field: str, value: Value) -> dict[str, Value]:
    """Return the fields of a mechanism with one mistake."""
    fields = {**FIELDS, field: value}
    if field == "noise_sdt":
        del fields["noise_std"]
    return {name: value for name, value in fields.items() if value is not MISSING}


def word(value: Value) -> str:
    """Return a value as one types it on a command line."""
    if isinstance(value, list):
        return f"[{','.join(map(word, value))}]"
    return {"None": "null", "True": "true"}.get(str(value), str(value))


def claims_file(mechanism: object) -> bytes:
    """Return a claims file with one claim."""
    written = yaml.safe_dump(mechanism, default_flow_style=True, width=10**6).strip()
    return f"claims:\n- {{id: one, mechanism: {written}, epsilon: 1, delta: 1e-5}}\n".encode()


def said(done: Ended, message: str) -> None:
    """Check that a command ended with one line on standard error, and the status of bad input."""
    assert done.status == 2
    (line,) = done.err.splitlines()
    assert message in line


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_there_are_enough_mistakes() -> None:
    tables = (FIELD_MISTAKES, COMMAND_MISTAKES, FILES, CALLS, TABLES)
    assert sum(map(len, tables)) > 100
    assert {command for command, _, _ in COMMAND_MISTAKES} == set(COMMANDS)


@pytest.mark.parametrize(("field", "value", "message"), FIELD_MISTAKES, ids=IDS)
def test_fields(ended: Command, field: str, value: Value, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        codec.decode(NoisySGD, changed(field, value))
    assert message in str(refused.value)
    if field in FIELDS and value is not MISSING:
        with pytest.raises(ValueError, match=rf"^{field} must "):
            NoisySGD(**changed(field, value))
    words = [f"{name}={word(value)}" for name, value in changed(field, value).items()]
    said(ended(list_bounds, *words, "delta=1e-5"), message)
    mechanism = f"{SETTING}.mechanism.{field}"
    told = f"~{mechanism}" if value is MISSING else f"++{mechanism}={word(value)}"
    said(ended(run_scenario, "scenario=drifted_walk", told), message)


@pytest.mark.parametrize(("command", "words", "message"), COMMAND_MISTAKES)
def test_commands(ended: Command, command: str, words: list[str], message: str) -> None:
    if command == "audit" and "settings." in words[0]:
        words = ["scenario=drifted_walk", *words]
    done = ended(COMMANDS[command], *words)
    said(done, message)
    assert done.err.startswith(f"{command}: error: ") or command in ("audit-check", "audit-report")
    assert not list(Path.cwd().iterdir())


def test_claims_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the command, and of pytest."""
    fields = [(claims_file(changed(f, v)), message) for f, v, message in FIELD_MISTAKES]
    messages = {}
    for number, (content, message) in enumerate([*FILES, *fields]):
        name = f"f{number}.claims.yaml"
        Path(name).write_bytes(content)
        messages[name] = message
        assert check.run([name]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(name)
        assert message in line
    assert run_here(tmp_path, "-q") == 1
    printed = "".join(capsys.readouterr())
    assert "Traceback" not in printed
    lines = printed.splitlines()
    for name, message in messages.items():
        assert any(name in line and message in line for line in lines), (name, message)


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message[:40] for _, message in CALLS])
def test_calls(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        call()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("file", "text", "message"), TABLES)
def test_tables_of_scores(tmp_path: Path, file: str, text: str, message: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError) as refused:
        read_table(tmp_path / file, score="loss", member="in")
    assert message in str(refused.value)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").mkdir()
    with pytest.raises(ValueError, match=r"file must be readable, got .* \(Is a directory\)"):
        read_table(tmp_path / "scores.csv", score="loss", member="in")
