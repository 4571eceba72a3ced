"""Provenance of a result: versions, commit, machine time."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import audit
from audit.results.result import Environment, Provenance
from audit.simulation.fingerprint import STREAM

_PACKAGES = ("numpy", "scipy", "numba", "matplotlib", "hydra-core")


def provenance_of(
    *, seed: int, command: str, started: str, wall_seconds: float, threads: int
) -> Provenance:
    """Return the provenance of a run of this version: also of its libraries and source tree."""
    commit, dirty = _commit()
    environment = Environment(
        started=started,
        wall_seconds=round(wall_seconds, 3),
        threads=threads,
        commit=commit,
        commit_dirty=dirty,
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in _PACKAGES},
    )
    return Provenance(
        version=audit.__version__,
        stream=STREAM,
        seed=seed,
        command=command,
        environment=environment,
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
