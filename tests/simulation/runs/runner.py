"""A process that runs a job with records; tests kill it.

Arguments: folder, seconds a block takes, and where it ends by itself: ``never``,
``full:BLOCKS`` (the disk is full once so many blocks are done), ``call:NUMBER`` (killed just
before the operating system is asked for the so-manieth step of writing a record).
It prints the steps it begins with, and at the end its counts.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from audit.simulation.scheduler import run_job

from .jobs import Slow


def main() -> None:
    folder, seconds, end = sys.argv[1:]
    kind, _, number = end.partition(":")
    job = Slow(blocks=400, seconds=float(seconds))
    begun = False

    def progress(finished: int, total: int) -> None:
        nonlocal begun
        if not begun:
            print(finished, flush=True)
            begun = True
        if kind == "full" and finished >= int(number) * total // len(job):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    if kind == "call":
        _kill_before(int(number))
    try:
        counts = run_job(job, folder=folder, progress=progress, record_every=0)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    print(json.dumps(counts.tolist()))


def _kill_before(number: int) -> None:
    left = number

    def deadly(name: str) -> None:
        real = getattr(os, name)

        def call(*given: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given)

        setattr(os, name, call)

    for name in ("fsync", "replace"):
        deadly(name)


if __name__ == "__main__":
    main()
