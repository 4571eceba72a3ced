"""User-defined pairs and functions: what they do reaches no other claim."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from audit.claims.judge import Checked
from audit.cli import check
from audit.results import Verdict
from tests.ended import Command

from . import written
from .written import HEAD, HEAD_LINES, write

PAIRS = """\
import ctypes, os, time
from dataclasses import dataclass

from audit.constructions import Construction, TwoSidedWalk, construction


def eating():
    taken = []
    while True:
        taken.append(b"x" * 10**7)


HARMS = {"none": lambda: None, "hangs": lambda: time.sleep(1000), "leaves": lambda: os._exit(0),
         "crashes": lambda: ctypes.string_at(0), "eats": eating}

@construction
@dataclass(frozen=True)
class Walk(Construction):
    harm: str = "none"
    start: float = 0.0

    citation = "nobody 2030"

    def processes(self):
        HARMS[self.harm]()
        return TwoSidedWalk(self.mechanism, start=self.start).processes()
"""
LIMITS = "{seconds: 0.3, callable_seconds: 20, callable_gigabytes: 0.6}"
HANGS = "pair: {kind: 'my_walks:Walk', harm: hangs}, budget: {seconds: 0.3, callable_seconds: 1}"
CLAIMS = (
    f"- {{id: hangs, epsilon: 4.4, delta: 1e-5, {HANGS}}}\n"
    + """\
- {id: good, epsilon: 4.4, delta: 1e-5}
- {id: leaves, epsilon: 4.4, delta: 1e-5, pair: {kind: 'my_walks:Walk', harm: leaves}}
- {id: sound, epsilon: 4.4, delta: 1e-5, pair: {kind: 'my_walks:Walk'}}
- {id: crashes, epsilon: 4.4, delta: 1e-5, pair: {kind: 'my_walks:Walk', harm: crashes}}
- {id: eats, epsilon: 4.4, delta: 1e-5, pair: {kind: 'my_walks:Walk', harm: eats}}
- {id: lie, epsilon: 4.3, delta: 1e-5, pair: {kind: 'my_walks:Walk', start: 1}}
- {id: import, epsilon: 4.4, delta: 1e-5, pair: {kind: 'leaving:Walk'}}
- {id: none, mu: 1, pair: {kind: 'my_walks:YourWalk'}}
- {id: other, mu: 1, pair: {kind: 'math:floor'}}
- {id: field, mu: 1, pair: {kind: 'my_walks:Walk', speed: 1}}
"""
)
# the words stand for the limits; eating may take long where memory is slow
TOLD = {
    "hangs": "my_walks:Walk took longer than its limit of ",
    "leaves": "my_walks:Walk ended its process with status 0",
    "crashes": "my_walks:Walk crashed its process: SIGSEGV",
    "eats": "my_walks:Walk needed ",
    "import": "leaving cannot be imported: it ended its process with status 0",
    "none": "pair.kind must name a function or class of my_walks, got 'YourWalk'; did you mean",
    "other": "pair.kind must name a registered construction, got 'math:floor'",
    "field": "pair.speed must be left out of a Walk, got 1; known are harm, start",
}
LIMITED = HEAD.replace("pair: TwoSidedWalk", f"pair: TwoSidedWalk, budget: {LIMITS}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "my_walks.py").write_text(PAIRS)
    (folder / "leaving.py").write_text("import os\nos._exit(0)\n")
    return folder


FEW = {"hangs", "good", "leaves", "lie", "import", "none", "field"}


@pytest.mark.parametrize(
    "names", [FEW, pytest.param({*TOLD, *FEW, "sound"}, marks=pytest.mark.slow)]
)
def test_the_command_judges_every_claim(
    names: set[str], folder: Path, ended: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = CLAIMS.splitlines(keepends=True)
    claims = "".join(line for line in lines if line[7 : line.index(",")] in names)
    write(folder, claims, head=LIMITED)
    monkeypatch.chdir(folder)
    done = ended(check.run, "my.claims.yaml", "--jobs", "2", "--format", "junit")
    assert done.status == 2
    cases = {case.get("name"): case for case in ElementTree.fromstring(done.out).iter("testcase")}
    assert set(cases) >= names
    for name in names & {"good", "sound"}:
        assert cases[name].find("failure") is None
        assert cases[name].find("error") is None
    assert cases["lie"].find("failure") is not None
    facts = {p.get("name"): p.get("value") for p in cases["lie"].iter("property")}
    assert facts["pair"] == "Walk(start=1)"
    complaints = done.err.splitlines()
    for name in TOLD.keys() & names:
        line = claims[: claims.index(f"id: {name},")].count("\n") + HEAD_LINES + 1
        start = f"my.claims.yaml:{line}: claim {name!r}: {TOLD[name]}"
        assert any(one.startswith(start) for one in complaints), (name, complaints)
    true, bad = len(names & {"good", "sound"}), len(TOLD.keys() & names)
    told = f"{len(names)} claims: {true} consistent, 1 refuted, {bad} errors"
    assert complaints[-1].startswith(told)


MODULE = """
import atexit, builtins, json, os, random, signal, sys, threading, time
import numpy as np

STATE = []

def patches(m, delta):
    import audit.claims.sources, audit.isolation.user_code as answers
    audit.claims.sources.number_of = lambda *_: 50.0
    audit.claims.sources.ask_callable = lambda *_: {"epsilons": [50.0], "divergences": []}
    answers.Answers.answer = lambda *_: {"value": 50.0}
    json.dumps = answers.dumps = lambda *_: '{"value": 50.0}'
    builtins.float = lambda *_: 50.0
    return 50.0

def state(m, delta):
    STATE.append(delta)
    return 50.0

def exits(m, delta):
    atexit.register(lambda: os.write(1, b'{"value": 50.0}'))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 50.0

def threads(m, delta):
    def forge():
        while True:
            for number in range(3, 20):
                try:
                    os.write(number, b'{"number": 3, "value": 50.0}\\n')
                except OSError:
                    pass
            time.sleep(0.001)
    threading.Timer(0.05, forge).start()
    return 50.0

def surroundings(m, delta):
    os.chdir("/")
    os.environ["AUDIT"] = os.environ["PYTHONPATH"] = "elsewhere"
    os.nice(5)
    random.seed(0)
    np.random.seed(0)
    sys.path[:] = []
    for name in [name for name in sys.modules if name.startswith("audit")]:
        del sys.modules[name]
    sys.stdout.close()
    return 50.0

def honest(m, delta):
    return 50.0 if STATE or "AUDIT" in os.environ else 0.01
"""

USES = """
mechanisms:
  m: {{steps: 10, dataset_size: 10, batch_size: 10, step_size: 0.1, noise_std: 0.5,
      lipschitz: 1.0, smoothness: 1.0, diameter: 1.0}}
claims:
{claims}
"""


SPOILING = ("exits", "surroundings", "patches", "state", "threads")


def check_functions(folder: Path, module: str, functions: list[str]) -> Checked:
    """Judge one claim of each function, two at a time."""
    (folder / "spoiling.py").write_text(module, encoding="utf-8")
    lines = [
        f"  - {{id: {number}.{function}, mechanism: m, callable: 'spoiling:{function}',"
        " deltas: [1.0e-3, 1.0e-5]}"
        for number, function in enumerate(functions)
    ]
    return written.checked(folder, USES.format(claims="\n".join(lines)), jobs=2)


@pytest.mark.parametrize("names", [SPOILING[2:], pytest.param(SPOILING, marks=pytest.mark.slow)])
def test_the_second_claim_is_refuted_whatever_the_first_does(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    functions = [one for name in names for one in (name, "honest")]
    checked = check_functions(tmp_path, MODULE, functions)
    for name, judgement in zip(functions, checked.judgements, strict=True):
        if name == "honest":
            assert judgement.verdict is Verdict.REFUTED
        else:  # what it claims itself is its own affair, or it is caught
            assert judgement.verdict in (Verdict.CONSISTENT, Verdict.ERROR)


def test_the_judge_reads_answers_itself(tmp_path: Path) -> None:
    module = "import audit.claims.sources as ours\n"
    for number, value in enumerate(("True", "'50'", "float('nan')")):
        module += f"def odd{number}(m, delta):\n    ours.number_of = lambda *_: {value}\n"
        module += "    return 1.0\n"
    checked = check_functions(tmp_path, module, [f"odd{number}" for number in range(3)])
    for judgement in checked.judgements:
        assert judgement.verdict is Verdict.ERROR
        assert judgement.message.startswith(("spoiling:odd", "the claimed epsilon"))
        assert "must" in judgement.message
        assert "\n" not in judgement.message
