"""Audit the trainings in ``scenarios/trainings``, and write the table and the scores.

This needs the packages of ``make test-adapters`` (``.venv-adapters/bin/python``) and about three
minutes on two cores; an interrupted run resumes. The certifying scores are kept in ``scores.npz``,
so that the table can be checked where neither PyTorch nor JAX is installed.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from audit import report
from audit.results import StudyResult

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPTS = {
    "opacus_digits": ("opacus", "torch", "jax-privacy"),
    "jax_digits": ("jax-privacy", "jax", "dp-accounting"),
}
COLUMNS = (
    "script", "training", "delta", "claimed", "certified", "jax_privacy", "verdict", "trainings",
    "seconds", "versions",
)  # fmt: skip


def rows(script: str, setting: StudyResult) -> list[list[object]]:
    """Return the rows of one training, one a claim."""
    found = setting.findings
    theirs = {delta: float(bound) for delta, bound in found.tables[-1].rows}
    versions = " ".join(f"{package}=={version(package)}" for package in SCRIPTS[script])
    return [
        [
            script,
            setting.title,
            certified[0],
            f"{statement.expected:.6g}",
            certified[1],
            f"{theirs[certified[0]]:.6g}",
            statement.verdict.value,
            setting.parameters["trainings"],
            setting.wall_seconds,
            versions,
        ]
        for statement, certified in zip(found.statements, found.tables[0].rows, strict=True)
    ]


def main() -> None:
    """Run both scripts, and write ``trainings.csv`` and ``scores.npz``."""
    lines, scores = [], {}
    for script in SCRIPTS:
        folder = ROOT / "results" / "runs" / script
        file = ROOT / "scenarios" / "trainings" / f"{script}.py"
        subprocess.run([sys.executable, file, "--folder", folder], check=True)
        for setting in report.load(folder).settings:
            assert isinstance(setting, StudyResult)
            lines += rows(script, setting)
            for name, values in setting.findings.numbers.items():
                scores[f"{script}/{setting.name}/{name}"] = np.asarray(values, dtype=np.float64)
    with (HERE / "trainings.csv").open("w", newline="", encoding="utf-8") as table:
        csv.writer(table, lineterminator="\n").writerows([COLUMNS, *lines])
    np.savez_compressed(HERE / "scores.npz", allow_pickle=False, **scores)


if __name__ == "__main__":
    main()
