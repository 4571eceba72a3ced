"""Claims as tests write them, in files or by their keys, and what judges them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from audit import Composition, NoisySGD
from audit.claims.claim import Claim, Pair, statement_of
from audit.claims.evidence import Judgement
from audit.claims.judge import Checked, Shared, check, judge
from audit.exact import BracketedCurve
from tests.mechanisms import noisy_sgd

# one step, one record, sensitivity 2, noise 2: the pair of linear losses is Gaussian with mu = 1
ONE_STEP = "{steps: 1, dataset_size: 1, batch_size: 1, step_size: 1, noise_std: 2, lipschitz: 1}"
EPSILON = 4.377178  # of mu = 1 at delta 1e-5
STEP = noisy_sgd(noise_std=2.0, smoothness=None, diameter=None)

HEAD = f"""\
defaults: {{mechanism: one_step, pair: TwoSidedWalk}}
mechanisms:
  one_step: {ONE_STEP}
claims:
"""
HEAD_LINES = HEAD.count("\n")


def write(folder: Path, claims: str, name: str = "my.claims.yaml", head: str = HEAD) -> Path:
    """Write a claims file, the claims indented by two."""
    path = folder / name
    path.write_text(head + textwrap.indent(textwrap.dedent(claims), "  "), encoding="utf-8")
    return path


def checked(folder: Path, text: str, error: float = 0.01, **options: Any) -> Checked:
    """Judge the claims of a file in a folder."""
    file = folder / "written.claims.yaml"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return check([file], error=error, **options)


SHARED = Shared()


def judged(
    mechanism: NoisySGD | Composition | None = None, *, shared: Shared = SHARED, **keys: Any
) -> Judgement:
    """Judge a claim of some fields and of the keys of its statement; tests share the laws."""
    fields = {field.name for field in dataclasses.fields(Claim)} & keys.keys()
    given = {"id": "x", "mechanism": mechanism, **{name: keys.pop(name) for name in fields}}
    claim = Claim(**{"statement": statement_of(**keys)} | given if keys else given)
    return judge(claim, shared=shared)


def law_of(pair: Pair) -> BracketedCurve:
    """The exact law of a pair, which `judged` uses too."""
    return SHARED.pairs.one(pair).law()


def environment() -> dict[str, str]:
    """The environment of a subprocess, without the plugins and settings of this test run."""
    dropped = {"GITHUB_STEP_SUMMARY", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
    return {key: value for key, value in os.environ.items() if key not in dropped}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a folder, without pytest's other plugins."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
        env={**environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "300"},
    )


def full(**changes: Any) -> NoisySGD:
    """Four steps on full batches, of mu = 2 without walls, with some values changed."""
    values = {"steps": 4, "dataset_size": 10, "batch_size": 10, "step_size": 0.1, "noise_std": 0.2}
    return noisy_sgd(**{**values, "diameter": None, **changes})
