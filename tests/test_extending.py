"""A construction, a bound and a study from outside the package: one file each, as documented.

Each test writes that one file, and nothing else of Python, into an empty folder, and runs there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def printed(folder: Path, code: str) -> list[float]:
    """What a program in the folder prints, as numbers; True is 1."""
    done = run(folder, "-c", MECHANISM + code)
    assert done.returncode == 0, done.stderr
    words = done.stdout.replace("True", "1").replace("False", "0").split()
    return [float(word) for word in words]


def result_of(folder: Path, *, pair: str, bounds: str) -> dict[str, Any]:
    """The stored setting of a scenario with this pair and these bounds."""
    (folder / "scenario").mkdir()
    text = SCENARIO.format(pair=pair, bounds=bounds)
    (folder / "scenario" / "mine.yaml").write_text(text, encoding="utf-8")
    words = ["--config-dir", ".", "scenario=mine", "output=runs", "draw=false"]
    done = run(folder, "-m", "audit.cli.audit", *words)
    assert done.returncode == 0, done.stderr
    (stored,) = folder.glob("runs/mine-*/result.json")
    (setting,) = json.loads(stored.read_text(encoding="utf-8"))["settings"]
    found: dict[str, Any] = setting
    return found


def test_a_construction_is_one_file(tmp_path: Path) -> None:
    written(tmp_path, "tilted_walk.py")
    low, high, known_low, known_high, share, coded, picked_up, drawn = printed(
        tmp_path,
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
""",
    )
    assert (low, high) == (known_low, known_high)
    assert 0.5 < share < 1
    assert coded == picked_up == 1
    assert 0 < abs(drawn) <= 1
    pair = "{kind: 'tilted_walk:TiltedWalk', slope: -1.0, slope_prime: 1.0}"
    (row,) = result_of(tmp_path, pair=pair, bounds="at22.b_1")["deltas"]
    assert row["exact"]["worst"]["low"] == low


def test_what_a_construction_may_not_do_is_refused_as_it_says(tmp_path: Path) -> None:
    written(tmp_path, "tilted_walk.py")
    done = run(tmp_path, "-c", MECHANISM + "import tilted_walk; tilted_walk.TiltedWalk(m, slope=2)")
    assert "slopes must be at most the Lipschitz constant, got TiltedWalk(" in done.stderr


def test_a_bound_is_one_file(tmp_path: Path) -> None:
    written(tmp_path, "my_bounds.py")
    mu, applies, compared = printed(
        tmp_path,
        """
import my_bounds
print(audit.bounds.evaluate("mine.last_step", m).mu)
print("mine.last_step" in audit.bounds.applicable(m))
print("mine.last_step" in audit.bounds.best(m, delta=1e-5).compared)
""",
    )
    # (D + S eta/n)/s = (1 + 2 * 0.1/20)/0.05
    assert mu == pytest.approx(20.2, rel=1e-14)
    assert applies == compared == 1
    code = "import my_bounds, dataclasses; n = dataclasses.replace(m, diameter=None)\n"
    done = run(tmp_path, "-c", MECHANISM + code + "audit.bounds.evaluate('mine.last_step', n)")
    assert "NotApplicable: mine.last_step" in done.stderr
    (row,) = result_of(tmp_path, pair="{kind: TwoSidedWalk}", bounds="'my_bounds:last_step'")[
        "deltas"
    ]
    stored, best = row["bounds"]  # the tightest bound of the catalogue comes besides
    assert stored["id"] == "mine.last_step" != best["id"]
    assert row["best"] == best["id"]
    assert stored["verdict"] == "consistent"


def test_a_study_is_one_file_and_a_scenario(tmp_path: Path) -> None:
    written(tmp_path, "noise_study.py")
    written(tmp_path, "my_scenarios/scenario/noise.yaml")
    words = ["-m", "audit.cli.audit", "--config-dir", "my_scenarios", "scenario=noise"]
    done = run(tmp_path, *words, "output=runs", "draw=false")
    assert done.returncode == 0, done.stderr
    (stored,) = tmp_path.glob("runs/noise-*/result.json")
    (setting,) = json.loads(stored.read_text(encoding="utf-8"))["settings"]
    text = json.dumps(setting)
    assert "twice the noise at least halves epsilon" in text
    assert "doubled_noise" in text
    assert "consistent" in text
    done = run(tmp_path, *words, "output=runs", "+settings.walk.study.detla=1e-5")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    refused = "study.detla must be left out of a doubled_noise, got 1e-05; did you mean 'delta'?"
    assert line.endswith(refused)
