"""Claims files as tests write them, and commands that judge them: one step with mu = 1."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from audit import NoisySGD

# one step, one record, sensitivity 2, noise 2: the pair of linear losses is Gaussian with mu = 1
ONE_STEP = "{steps: 1, dataset_size: 1, batch_size: 1, step_size: 1, noise_std: 2, lipschitz: 1}"
EPSILON = 4.377178  # of mu = 1 at delta 1e-5
STEP = NoisySGD(steps=1, dataset_size=1, batch_size=1, step_size=1.0, noise_std=2.0, lipschitz=1.0)

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
    values = {
        "steps": 4,
        "dataset_size": 10,
        "batch_size": 10,
        "step_size": 0.1,
        "noise_std": 0.2,
        "lipschitz": 1.0,
        "smoothness": 1.0,
    }
    return NoisySGD(**{**values, **changes})
