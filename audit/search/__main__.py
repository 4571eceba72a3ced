"""``python -m audit.search``: compute the tightness map; a run that was stopped goes on."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from audit.report import tightness_map
from audit.scenario import progress
from audit.search.mapping import run


def main() -> None:
    """Compute the map, and write its table, heat maps and page."""
    parser = argparse.ArgumentParser(prog="python -m audit.search", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("results/runs/map"))
    parser.add_argument("--output", type=Path, default=Path("results/map"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    with progress.on_terminal() as bars:
        rows = run(given.runs, jobs=given.jobs, progress=bars.stage("tightness map"))
    tightness_map.write(rows, given.output)
    print(f"{len(rows)} points: {given.output / 'README.md'}")


if __name__ == "__main__":
    main()
