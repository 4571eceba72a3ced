"""Code of one claim does not reach the verdict of another one."""

from __future__ import annotations

from pathlib import Path

from audit.claims.checking import Checked, check
from audit.results import Verdict

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

CLAIMS = """
mechanisms:
  m: {{steps: 10, dataset_size: 10, batch_size: 10, step_size: 0.1, noise_std: 0.5,
      lipschitz: 1.0, smoothness: 1.0, diameter: 1.0}}
claims:
{claims}
"""


SPOILING = ("patches", "state", "exits", "threads", "surroundings")


def check_functions(folder: Path, module: str, functions: list[str]) -> Checked:
    """Judge one claim of each function, two at a time."""
    (folder / "spoiling.py").write_text(module, encoding="utf-8")
    lines = [
        f"  - {{id: {number}.{function}, mechanism: m, callable: 'spoiling:{function}',"
        " deltas: [1.0e-3, 1.0e-5]}"
        for number, function in enumerate(functions)
    ]
    file = folder / "spoiling.claims.yaml"
    file.write_text(CLAIMS.format(claims="\n".join(lines)), encoding="utf-8")
    return check([file], error=0.01, jobs=2)


def test_the_second_claim_is_refuted_whatever_the_first_does(tmp_path: Path) -> None:
    functions = [one for name in SPOILING for one in (name, "honest")]
    checked = check_functions(tmp_path, MODULE, functions)
    for name, judgement in zip(functions, checked.judgements, strict=True):
        if name == "honest":
            assert judgement.verdict is Verdict.REFUTED
        else:  # what it claims itself is its own affair, or it is caught
            assert judgement.verdict in (Verdict.CONSISTENT, Verdict.ERROR)


def test_the_judge_reads_answers_itself(tmp_path: Path) -> None:
    module = "import audit.claims.sources as ours\n"
    for number, value in enumerate(("True", "'50'", "[50.0]", "None", "float('nan')")):
        module += f"def odd{number}(m, delta):\n    ours.number_of = lambda *_: {value}\n"
        module += "    return 1.0\n"
    checked = check_functions(tmp_path, module, [f"odd{number}" for number in range(5)])
    for judgement in checked.judgements:
        assert judgement.verdict is Verdict.ERROR
        assert judgement.message.startswith(("spoiling:odd", "the claimed epsilon"))
        assert "must" in judgement.message
        assert "\n" not in judgement.message
