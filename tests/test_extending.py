"""A construction, a bound and a study from outside the package: one file each, as documented.

Each test writes that one file, and nothing else of Python, into an empty folder, and runs there:
what is imported in a process of its own, scenarios in this one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.cli.audit import main as audit_command
from tests.blocks import registries_kept
from tests.ended import Ended

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
MECHANISM = """
import audit
m = audit.NoisySGD(steps=50, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5,
                   lipschitz=1.0, smoothness=1.0, diameter=1.0)
"""


SCENARIO = """\
# @package _global_
name: mine
title: A walk
bounds: [{bounds}]
confidence: 0.95
seed: 1
settings:
  walk:
    title: A walk between walls
    mechanism: {{steps: 50, dataset_size: 20, batch_size: 20, step_size: 0.1, noise_std: 0.5,
                lipschitz: 1.0, smoothness: 1.0, diameter: 1.0}}
    pair: {pair}
    deltas: [1.0e-5]
    trials: 2000
"""


def written(folder: Path, name: str) -> None:
    """Write the page's block that says it is the file ``name``."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    (text,) = [block for block in blocks if f"# {name}\n" in block[:200]]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in which commands run; what they import and register is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with registries_kept():
        yield tmp_path
    for name in ("tilted_walk", "my_bounds", "noise_study"):
        sys.modules.pop(name, None)


def printed(folder: Path, code: str) -> list[str]:
    """What a program in the folder prints, in a process of its own: one word a line."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", MECHANISM + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def result_of(folder: Path, ended: Callable[..., Ended], *, pair: str, bounds: str) -> Any:
    """The stored row of a scenario with this pair and these bounds."""
    (folder / "scenario").mkdir()
    text = SCENARIO.format(pair=pair, bounds=bounds)
    (folder / "scenario" / "mine.yaml").write_text(text, encoding="utf-8")
    words = ["--config-dir", ".", "scenario=mine", "output=runs", "draw=false"]
    done = ended(audit_command, *words)
    assert done.status == 0, done.err
    (stored,) = folder.glob("runs/mine-*/result.json")
    (setting,) = json.loads(stored.read_text(encoding="utf-8"))["settings"]
    (row,) = setting["deltas"]
    return row


def test_a_construction_is_one_file(folder: Path, ended: Callable[..., Ended]) -> None:
    written(folder, "tilted_walk.py")
    bracket, known, share, coded, picked_up, drawn, refused = printed(
        folder,
        """
import numpy
from tilted_walk import TiltedWalk
from audit.constructions import decode_pair, encode_pair, kinds
tilted = TiltedWalk(m, slope=-1.0, slope_prime=1.0)
known = audit.constructions.TwoSidedWalk(m)
print(*audit.exact.curve(tilted).epsilon_bracket(1e-5))
print(*audit.exact.curve(known).epsilon_bracket(1e-5))
x, x_prime = audit.simulation.final_iterates(tilted, trials=2000, seed=1)
print((x > 0).mean())
print(decode_pair(encode_pair(tilted), m) == tilted and kinds()["TiltedWalk"] is TiltedWalk)
print(tilted in list(audit.constructions.suggested_members(m)))
print(next(TiltedWalk.random(m, numpy.random.default_rng(0))).slope)
try:
    TiltedWalk(m, slope=2)
except ValueError as refusal:
    print(refusal)
""",
    )
    assert bracket == known
    assert 0.5 < float(share) < 1
    assert coded == picked_up == "True"
    assert 0 < abs(float(drawn)) <= 1
    assert "slopes must be at most the Lipschitz constant, got TiltedWalk(" in refused
    pair = "{kind: 'tilted_walk:TiltedWalk', slope: -1.0, slope_prime: 1.0}"
    row = result_of(folder, ended, pair=pair, bounds="at22.b_1")
    assert row["exact"]["worst"]["low"] == float(bracket.split()[0])


def test_a_bound_is_one_file(folder: Path, ended: Callable[..., Ended]) -> None:
    written(folder, "my_bounds.py")
    mu, applies, compared, refused = printed(
        folder,
        """
import dataclasses
import my_bounds
print(audit.bounds.evaluate("mine.last_step", m).mu)
print("mine.last_step" in audit.bounds.applicable(m))
print("mine.last_step" in audit.bounds.best(m, delta=1e-5).compared)
try:
    audit.bounds.evaluate("mine.last_step", dataclasses.replace(m, diameter=None))
except audit.NotApplicable as refusal:
    print(refusal)
""",
    )
    # (D + S eta/n)/s = (1 + 2 * 0.1/20)/0.05
    assert float(mu) == pytest.approx(20.2, rel=1e-14)
    assert applies == compared == "True"
    assert refused.startswith("mine.last_step")
    row = result_of(folder, ended, pair="{kind: TwoSidedWalk}", bounds="'my_bounds:last_step'")
    stored, best = row["bounds"]  # the tightest bound of the catalogue comes besides
    assert stored["id"] == "mine.last_step" != best["id"]
    assert row["best"] == best["id"]
    assert stored["verdict"] == "consistent"


def test_a_study_is_one_file_and_a_scenario(folder: Path, ended: Callable[..., Ended]) -> None:
    written(folder, "noise_study.py")
    written(folder, "my_scenarios/scenario/noise.yaml")
    words = ["--config-dir", "my_scenarios", "scenario=noise", "output=runs", "draw=false"]
    done = ended(audit_command, *words)
    assert done.status == 0, done.err
    (stored,) = folder.glob("runs/noise-*/result.json")
    (setting,) = json.loads(stored.read_text(encoding="utf-8"))["settings"]
    text = json.dumps(setting)
    assert "twice the noise at least halves epsilon" in text
    assert "doubled_noise" in text
    assert "consistent" in text
    done = ended(audit_command, *words, "+settings.walk.study.detla=1e-5")
    assert done.status == 2
    refused = "study.detla must be left out of a doubled_noise, got 1e-05; did you mean 'delta'?"
    assert done.error.endswith(refused)
