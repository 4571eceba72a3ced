"""Run every scenario and write its report: ``python results/scenarios/make.py``.

Each scenario runs in its own process. Finished runs of the same source are kept, so an interrupted
run resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import audit
from audit.report.runs import RESULT
from audit.scenario.folders import scenario_files
from results.scenarios.publish import Outcome, publish

# Those that `audit` itself knows by name: another folder would be listed but not run.
SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
# Longer than any shipped scenario takes on two cores; beyond it a run is broken.
LONGEST = 1200.0
_MARK = "run.json"
_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")
_DRAWN_LATER = ("cli", "report")  # rooms of the package that no result depends on
_OK, _WRONG, _BROKEN_INPUT = 0, 1, 2

Tell = Callable[[str], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios that were asked for; return 1 if one of them ended with an error."""
    options = _parser().parse_args(arguments)
    began = time.perf_counter()
    try:
        status = _make(options)
    except ValueError as error:
        print(f"results/scenarios/make.py: error: {error}", file=sys.stderr)
        return _BROKEN_INPUT
    print(f"{time.perf_counter() - began:.0f} s in all")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python results/scenarios/make.py",
        description="Run every scenario and write its report.",
    )
    add = parser.add_argument
    add("--only", nargs="+", metavar="SCENARIO", help="these scenarios; the others stay as stored")
    add("--fresh", action="store_true", help="run again what the same source has run")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="scenarios at a time")
    add("--results", type=Path, default=Path("results"), help="where the results go")
    add("--work", type=Path, default=Path("results/runs/scenarios"), help="where runs are kept")
    return parser


def _make(options: argparse.Namespace) -> int:
    known = names(SCENARIOS)
    chosen = options.only or known
    for name in chosen:
        if name not in known:
            raise ValueError(f"--only must name scenarios of {SCENARIOS}, got {name!r}")

    def tell(line: str) -> None:
        print(line, flush=True)

    outcomes = run_all(
        chosen,
        SCENARIOS,
        options.work,
        jobs=options.jobs,
        fresh=options.fresh,
        tell=tell,
    )
    tell("drawing the reports")
    runs = publish(outcomes, known, options.results)
    broken = [run for run in runs if run.error is not None]
    for run in broken:
        print(f"error: {run.name}: {run.error}", file=sys.stderr)
    print(f"{len(runs)} scenarios: {options.results / 'scenarios' / 'index.html'}")
    return _WRONG if broken else _OK


def names(folder: Path) -> tuple[str, ...]:
    """Return the names of the scenarios in a folder, sorted.

    Raises
    ------
    ValueError
        If there is none.
    """
    found = tuple(scenario_files(folder))
    if not found:
        raise ValueError(f"scenarios must be a folder of YAML files, got {str(folder)!r}")
    return found


def run_all(
    chosen: Sequence[str], scenarios: Path, work: Path, *, jobs: int, fresh: bool, tell: Tell
) -> tuple[Outcome, ...]:
    """Run the scenarios, several at a time, and return their outcomes in the same order.

    Parameters
    ----------
    chosen
        Names of files in ``scenarios``.
    scenarios, work
        The folder of scenario files, and the one for runs: a folder each, kept between calls.
    jobs
        How many run at a time, one thread each; samples do not depend on it.
    fresh
        Whether to run again what the same source has run already.
    tell
        Called with a line when a scenario is done.
    """
    done: list[str] = []

    def one(name: str) -> Outcome:
        outcome = _run(name, work / name, _source(name, scenarios), fresh=fresh)
        done.append(name)
        word = outcome.error or ("kept" if outcome.kept else "done")
        tell(f"[{len(done)}/{len(chosen)}] {name}: {word}, {outcome.seconds:.0f} s")
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(one, chosen))


def _run(name: str, place: Path, source: str, *, fresh: bool) -> Outcome:
    kept = None if fresh else _kept(name, place, source)
    if kept is not None:
        return kept
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    words = [f"scenario={name}", f"output={place / 'run'}", "draw=false", "threads=1"]
    began = time.perf_counter()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "audit.cli.audit", *words],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return Outcome(name, None, f"it took longer than {LONGEST:g} s", LONGEST)
    seconds = time.perf_counter() - began
    folders = list((place / "run").glob(f"*/{RESULT}"))
    if ended.returncode or len(folders) != 1:
        lines = ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"]
        return Outcome(name, None, lines[-1].removeprefix("audit: error: "), seconds)
    mark = {"source": source, "seconds": round(seconds, 1)}
    (place / _MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
    return Outcome(name, folders[0].parent, None, seconds)


def _kept(name: str, place: Path, source: str) -> Outcome | None:
    """Return an earlier run by the same source; the mark is written after all else."""
    try:
        mark = json.loads((place / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    folders = list((place / "run").glob(f"*/{RESULT}"))
    if mark.get("source") != source or len(folders) != 1:
        return None
    return Outcome(name, folders[0].parent, None, float(mark["seconds"]), kept=True)


def _source(name: str, scenarios: Path) -> str:
    """Return a hash of all that a scenario's numbers come from."""
    package = Path(audit.__file__).resolve().parent
    files = [
        file
        for file in sorted(package.rglob("*"))
        if file.is_file()
        and file.suffix != ".pyc"
        and file.relative_to(package).parts[0] not in _DRAWN_LATER
    ]
    digest = hashlib.sha256()
    beside = [*(scenarios / "found").rglob("*.yaml"), *scenarios.rglob("*.py")]
    for file in [*files, *sorted(beside), scenarios / f"{name}.yaml"]:
        if file.is_file():
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\0".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
