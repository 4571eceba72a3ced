"""A process that runs a job with a journal; tests kill it.

Arguments: folder, seconds a block takes, and where it ends by itself: ``never``, or
``full:BLOCKS`` (the disk is full once so many blocks are done).
It prints the steps it begins with, and at the end its counts.
"""

from __future__ import annotations

import json
import resource
import sys

from audit.simulation.runner import run_job

from .jobs import Slow, counted, steps_of

BLOCKS = 400


def main() -> None:
    folder, seconds, end = sys.argv[1:]
    kind, _, number = end.partition(":")
    begun = False
    counted().run(range(1))  # compiles

    def progress(finished: int, total: int) -> None:
        nonlocal begun
        if not begun:
            print(finished, flush=True)
            begun = True
        if kind == "full" and finished >= steps_of(int(number)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    try:
        counts = run_job(
            counted(Slow(seconds=float(seconds)), BLOCKS),
            folder=folder,
            progress=progress,
            record_every=0,
        )
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    print(json.dumps([row.tolist() for row in counts]))


if __name__ == "__main__":
    main()
