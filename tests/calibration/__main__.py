"""Repeat every estimator on every mechanism, and write what came out to ``results/calibration``.

An interrupted run goes on where it was: each finished cell is a file of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from . import cells, figures, power, tables

ROOT = Path(__file__).resolve().parents[2]
Work = tuple[str, str, Any]  # a folder, a file name, and what to run


def _work(task: Work) -> dict[str, Any]:
    folder, _, one = task
    result = cells.run(one) if folder == "coverage" else power.run(one)
    return {"kind": folder, **result}


def _unfinished(tasks: list[Work], store: Path) -> list[Work]:
    return [task for task in tasks if not (store / task[0] / f"{task[1]}.json").exists()]


def _run(tasks: list[Work], store: Path, processes: int) -> None:
    clock, total = time.perf_counter(), len(tasks)
    with ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(_work, task): task for task in tasks}
        for done, future in enumerate(as_completed(futures), start=1):
            folder, key, _ = futures[future]
            _write(store / folder / f"{key}.json", future.result())
            minutes = (time.perf_counter() - clock) / 60
            print(f"\r{done}/{total} cells, {minutes:.1f} min", end="", file=sys.stderr)
    if total:
        print(file=sys.stderr)


def _write(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(result), encoding="utf-8")
    unfinished.replace(path)


def _stored(store: Path, folder: str) -> list[dict[str, Any]]:
    files = sorted((store / folder).glob("*.json"))
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return sorted(rows, key=cells.place) if folder == "coverage" else rows


def main(arguments: list[str] | None = None) -> None:
    """Run what is not finished yet, then draw tables and figures from all that is."""
    parser = argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__)
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
    store = given.store or runs / f"{repeats}"
    out = given.out or (runs / "quick" if given.quick else ROOT / "results" / "calibration")

    coverage = [("coverage", cell.key, cell) for cell in cells.cells(repeats)]
    seeds, largest = (3, 10**4) if given.quick else (power.SEEDS, 10**7)
    powers = [("power", chunk.key, chunk) for chunk in power.chunks(seeds, largest)]
    tasks: list[Work] = [
        task
        for task in (*powers, *coverage)
        if given.only in (task[2].estimator if task[0] == "coverage" else "power")
    ]
    if not given.draw:
        _run(_unfinished(tasks, store), store, given.processes)
    rows, powers_done = _stored(store, "coverage"), _stored(store, "power")
    tables.write(rows, powers_done, out)
    figures.draw(rows, powers_done, out)
    print(out)


if __name__ == "__main__":
    main()
