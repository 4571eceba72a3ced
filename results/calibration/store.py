"""Finished cells, one file each, and the processes that compute the others."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from results.calibration import cells, front, power

Work = tuple[str, Any]  # a folder, and what to run

FOLDERS: dict[str, ModuleType] = {"coverage": cells, "power": power, "front": front}
_SOFTWARE = "noisy-sgd-audit", "numpy", "scipy", "numba"


def _run_one(task: Work) -> dict[str, Any]:
    folder, one = task
    packages = [*_SOFTWARE, one.package] if one.package else _SOFTWARE
    software = {name: version(name) for name in packages}
    return {
        **FOLDERS[folder].run(one),
        "software": {"Python": platform.python_version(), **software},
    }


def _file(store: Path, task: Work) -> Path:
    return store / task[0] / f"{task[1].key}.json"


def _is_unfinished(task: Work, store: Path) -> bool:
    """Whether the cell is missing, or its first audits give other bounds today."""
    try:
        stored = json.loads(_file(store, task).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    first = np.asarray(FOLDERS[task[0]].first_values(task[1]))
    kept = np.asarray(stored.get("first_values", []), dtype=np.float64)
    # Sums in another order change the last digits.
    return kept.shape != first.shape or not np.allclose(kept, first, rtol=1e-9, atol=1e-12)


def _pool(processes: int) -> Executor:
    if processes == 1:
        return ThreadPoolExecutor(1)
    # Some of the other packages start threads when imported, which a fork would not copy.
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def run(tasks: Sequence[Work], store: Path, processes: int) -> None:
    """Compute what is not finished and store it."""
    with _pool(processes) as pool:
        ask = [pool.submit(_is_unfinished, task, store) for task in tasks]
        left = [task for task, answer in zip(tasks, ask, strict=True) if answer.result()]
        clock = time.perf_counter()
        futures = {pool.submit(_run_one, task): task for task in left}
        for done, future in enumerate(as_completed(futures), start=1):
            _write(_file(store, futures[future]), future.result())
            minutes = (time.perf_counter() - clock) / 60
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{done}/{len(left)} cells, {minutes:.1f} min", end=end, file=sys.stderr)
    if left and sys.stderr.isatty():
        print(file=sys.stderr)


def _write(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(result), encoding="utf-8")
    unfinished.replace(path)


def stored(tasks: Sequence[Work], store: Path, folder: str) -> list[dict[str, Any]]:
    """Return what is finished of these tasks; other files in the store are left alone."""
    files = [_file(store, task) for task in tasks if task[0] == folder]
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    return sorted(rows, key=cells.place) if folder == "coverage" else rows
