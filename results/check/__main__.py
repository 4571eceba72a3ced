"""Compute stored numbers again: ``python -m results.check [PATTERN ...]``.

Without patterns every row is computed again, which takes hours. A pattern, with ``*`` and ``?``,
names rows by what their names begin with: ``'map/*'``, ``'zoo/*opacus*'``. Each row that moved is
named with the stored and the new number. An interrupted run resumes with ``--resume``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from joblib import Parallel, delayed

from results.check.rows import Moved, Row
from results.check.sources import RESULTS, rows

LOG = RESULTS / "runs" / "check.jsonl"
_OK, _MOVED, _BROKEN_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute rows again; return 1 if one of them moved."""
    parser = argparse.ArgumentParser(
        prog="python -m results.check", description="Compute stored numbers again."
    )
    add = parser.add_argument
    add("patterns", nargs="*", metavar="PATTERN", help="beginnings of rows' names; all by default")
    add("--list", action="store_true", help="print the names of the rows")
    add("--jobs", type=int, default=1, help="rows that are computed at a time")
    add("--resume", action="store_true", help="leave out rows that the last run finished")
    add("--log", type=Path, default=LOG, help="where finished rows are noted")
    given = parser.parse_args(arguments)
    chosen = [row for row in rows() if _matches(row.name, given.patterns)]
    if not chosen:
        print(f"PATTERN must name a row, got {' '.join(given.patterns)}", file=sys.stderr)
        return _BROKEN_INPUT
    if given.list:
        print("\n".join(row.name for row in chosen))
        return _OK
    done = _finished(given.log) if given.resume else {}
    given.log.parent.mkdir(parents=True, exist_ok=True)
    moved = [line for row in chosen for line in done.get(row.name, ())]
    left = [row for row in chosen if row.name not in done]
    with given.log.open("a" if given.resume else "w", encoding="utf-8") as log:
        for name, seconds, lines in _computed(left, given.jobs):
            log.write(json.dumps({"row": name, "seconds": seconds, "moved": lines}) + "\n")
            log.flush()
            print("\n".join(lines or [f"ok: {name}, {seconds:.1f} s"]), flush=True)
            moved += lines
    print(f"{len(chosen)} rows: {len(moved)} numbers moved")
    return _MOVED if moved else _OK


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, f"{pattern}*") for pattern in patterns)


def _computed(chosen: Sequence[Row], jobs: int) -> Iterator[tuple[str, float, list[str]]]:
    tasks = (delayed(_one)(row) for row in chosen)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _one(row: Row) -> tuple[str, float, list[str]]:
    began = time.perf_counter()
    found: tuple[Moved, ...] = row.moved()
    return row.name, round(time.perf_counter() - began, 1), [str(one) for one in found]


def _finished(log: Path) -> dict[str, list[str]]:
    """Return what an earlier run found, by the names of the rows; a torn line is removed."""
    if not log.exists():
        return {}
    text = log.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    log.write_text(whole, encoding="utf-8")
    return {one["row"]: one["moved"] for one in map(json.loads, whole.splitlines())}


if __name__ == "__main__":
    sys.exit(main())
