"""Isolated environments: one for each list of requirements, one folder for each release.

The requirements of a case are installed into a virtual environment, and the package itself without
its dependencies into a folder beside it. Releases that share requirements, such as a large
PyTorch, share the environment. Finished installations are kept, so an interrupted run resumes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

_DONE = "installed"  # written after everything else
# Variables that would let packages of the judge's environment into the other one.
_OURS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV")


class NotInstalledError(Exception):
    """A package cannot be installed; the message is the installer's reason."""


@dataclass(frozen=True)
class Environment:
    """An environment in which a release is installed."""

    python: Path
    package: Path

    def variables(self, shared: Path) -> dict[str, str]:
        """Return the environment variables of its processes.

        The release stands on the path, and after it the folder of what programs share.
        """
        kept = {name: value for name, value in os.environ.items() if name not in _OURS}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join((str(self.package), str(shared.absolute()))),
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }


def environment(
    cache: Path, requirements: tuple[str, ...], package: str, version: str
) -> Environment:
    """Return the environment of a release, which is installed unless it is there already.

    Raises
    ------
    NotInstalledError
        If the installer fails.
    """
    known = "\n".join((sys.version, platform.machine(), *sorted(requirements)))
    place = cache.absolute() / hashlib.sha256(known.encode()).hexdigest()[:12]
    python = place / "venv" / "bin" / "python"
    if not (place / _DONE).is_file():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place / "venv", symlinks=True)  # without pip: ours installs
        if requirements:
            (place / "requirements.txt").write_text("\n".join(requirements) + "\n")
            _pip(python, "-r", str(place / "requirements.txt"))
        (place / _DONE).touch()
    target = place / "releases" / f"{package}-{version}"
    if not (target / _DONE).is_file():
        shutil.rmtree(target, ignore_errors=True)
        _pip(python, "--no-deps", "--target", str(target), f"{package}=={version}")
        (target / _DONE).touch()
    return Environment(python, target)


def _pip(python: Path, *words: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in _OURS},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"pip ended with status {done.returncode}"]
        errors = [line for line in lines if line.startswith("ERROR:")]
        raise NotInstalledError((errors or lines)[-1].removeprefix("ERROR: "))
