"""Where a result comes from."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

import audit
from audit.results import Environment, provenance


def environment() -> Environment:
    found = provenance.provenance_of(
        seed=3, command="x", started="2026-01-02", wall_seconds=1.50001, threads=2
    )
    assert (found.seed, found.command, found.version) == (3, "x", audit.__version__)
    assert found.environment is not None
    return found.environment


def test_versions_are_those_that_run() -> None:
    found = environment()
    assert (found.started, found.wall_seconds, found.threads) == ("2026-01-02", 1.5, 2)
    assert found.python == platform.python_version()
    assert found.packages["numpy"] == metadata.version("numpy")


def test_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    package = tmp_path / "audit"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(audit, "__file__", str(package / "__init__.py"))
    assert (environment().commit, environment().commit_dirty) == (None, False)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = environment().commit
    assert commit is not None
    assert len(commit) == 40
    assert not environment().commit_dirty
    (package / "__init__.py").write_text("x = 1\n", encoding="utf-8")
    assert environment().commit_dirty
