"""What the targets of the Makefile install, from what `make --dry-run` would do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def dry_run(target: str, venv: Path, *variables: str) -> list[str]:
    """Return the commands of a target, without running anything."""
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={venv}", *variables],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def installs(target: str, venv: Path, *variables: str) -> list[str]:
    """Return what a target would give to ``pip install``."""
    start = " install -q --no-compile "
    lines = [line for line in dry_run(target, venv, *variables) if start in line]
    return [line.split(start)[1].strip() for line in lines if "--upgrade pip" not in line]


@pytest.mark.parametrize("target", ["audit", "install", "map"])
def test_running_installs_the_dependencies_alone(target: str, tmp_path: Path) -> None:
    assert installs(target, tmp_path / "venv") == ["-e ."]


@pytest.mark.parametrize("target", ["test", "lint", "install-dev"])
def test_development_adds_its_extra_in_a_second_step(target: str, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    assert installs(target, venv) == ["-e .", '-e ".[dev]"']

    venv.mkdir()
    (venv / ".installed").touch()
    assert installs(target, venv) == ['-e ".[dev]"']

    (venv / ".installed-dev").touch()
    assert installs(target, venv) == []
    assert installs("audit", venv) == []


def test_an_older_stamp_than_the_project_installs_again(tmp_path: Path) -> None:
    for name in (".installed", ".installed-dev"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    assert installs("audit", tmp_path) == ["-e ."]
    assert installs("test", tmp_path) == ["-e .", '-e ".[dev]"']


def test_flags_of_pip_hold_for_both_steps(tmp_path: Path) -> None:
    given = "--constraint tests/floors.txt"
    found = installs("test", tmp_path / "venv", f"PIP_FLAGS={given}")
    assert found == [f"{given} -e .", f'{given} -e ".[dev]"']


def test_benchmarks_are_measured_with_both_instruction_sets(tmp_path: Path) -> None:
    lines = dry_run("bench", tmp_path)
    measured = [line.split("bin/python ")[1] for line in lines if "benchmarks/make.py" in line]
    assert measured == ["results/benchmarks/make.py", "tests/avx2.py results/benchmarks/make.py"]
