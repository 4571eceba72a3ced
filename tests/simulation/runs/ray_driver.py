"""A process that runs jobs on a Ray cluster; arguments: address, an empty folder.

It prints what came of each job as JSON: its counts, or its error's type and text. Ray reads the
token of a cluster when it is imported, so a test cannot set it in its own process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from audit.simulation import Samples
from audit.simulation.backends import Backend, Parallel
from audit.simulation.runner import run_job

from .jobs import Murderous, Slow, Stopping, counted


def outcome(job: Samples, backend: Parallel, folder: Path) -> Any:
    try:
        return [row.tolist() for row in run_job(job, backend=backend, folder=folder)]
    except (ArithmeticError, OSError) as error:
        return [type(error).__name__, str(error)]


def main() -> None:
    address, place = sys.argv[1], Path(sys.argv[2])
    jobs = {
        "same": counted(Slow(), blocks=80),
        "error": counted(Stopping(error=ZeroDivisionError)),
        "lost": counted(Murderous(marks=str(place))),
        "killed": counted(Murderous(marks=str(place), times=100)),
    }
    backend = Parallel(Backend.RAY, address=address)
    made = {name: outcome(job, backend, place / name) for name, job in jobs.items()}
    print(json.dumps(made))


if __name__ == "__main__":
    main()
