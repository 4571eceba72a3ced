"""Provenance of a result: versions, commit, machine time."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import audit
from audit.results.result import Environment

_PACKAGES = ("numpy", "scipy", "numba", "matplotlib", "hydra-core")


def package_version() -> str:
    """Return the version of this package."""
    return audit.__version__


def current_environment(*, started: str, wall_seconds: float, threads: int) -> Environment:
    """Return the versions of libraries and the commit of the source tree, with the run's times."""
    commit, dirty = _commit()
    return Environment(
        started=started,
        wall_seconds=wall_seconds,
        threads=threads,
        commit=commit,
        commit_dirty=dirty,
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in _PACKAGES},
    )


def _commit() -> tuple[str | None, bool]:
    root = Path(audit.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None, False
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit, bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, False


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
