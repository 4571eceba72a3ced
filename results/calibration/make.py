"""Repeat every estimator where the truth is known: ``python results/calibration/make.py``.

An interrupted run resumes: each finished cell has its own file. A stored cell is kept if its first
audits give the same numbers again; otherwise it is recomputed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from results.calibration import cells, figures, front, other_packages, power, store, tables

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> None:
    """Run what is not finished yet, then draw tables and figures from all that is."""
    parser = argparse.ArgumentParser(prog="python results/calibration/make.py", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10_000, help="audits a cell")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a smoke test: 20 audits a cell")
    parser.add_argument("--draw", action="store_true", help="run nothing, draw what is finished")
    parser.add_argument("--only", default="", help="estimators whose name contains this")
    parser.add_argument("--store", type=Path, default=None, help="where finished cells are kept")
    parser.add_argument("--out", type=Path, default=None, help="where tables and figures go")
    given = parser.parse_args(arguments)
    repeats = 20 if given.quick else given.repeats
    runs = ROOT / "results" / "runs" / "calibration"
    folder = given.store or runs / f"{repeats}"
    out = given.out or (runs / "quick" if given.quick else ROOT / "results" / "calibration")

    seeds, largest = (3, 400) if given.quick else (power.SEEDS, power.SIZES[-1])
    every: list[store.Work] = [
        *(("power", chunk) for chunk in power.chunks(seeds, largest)),
        *(("coverage", cell) for cell in cells.cells(repeats)),
        *(("front", cell) for cell in front.front_cells(repeats)),
    ]
    missing = {
        name: reason
        for name in other_packages.PACKAGES
        if (reason := other_packages.reason_not_run(name))
    }
    tasks = [
        task
        for task in every
        if given.only in (task[1].estimator if task[0] == "coverage" else task[0])
        and task[1].package not in missing
    ]
    if not given.draw:
        store.run(tasks, folder, given.processes)
    done = {name: store.stored(every, folder, name) for name in store.FOLDERS}
    tables.write(done["coverage"], done["power"], out, missing, done["front"])
    figures.draw(done["coverage"], done["power"], out)
    print(out)


if __name__ == "__main__":
    main()
