"""``python -m audit.results``: make the committed results again; a stopped run goes on."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from audit.claims import formats
from audit.claims.checking import Checked, check
from audit.claims.formats import Format
from audit.report import catalogue as table
from audit.results import catalogue, statements
from audit.results.printed import printed
from audit.results.publish import publish
from audit.results.scenarios import names, run_all

PUBLISHED, OWN, SIDE = "published.claims.yaml", "own.claims.yaml", "statements.yaml"
PARTS = ("scenarios", "catalogue")
# Those that `audit` itself knows by name: another folder would be listed but not run.
SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
_ERROR = 0.01
_OK, _WRONG, _BROKEN_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the parts that were asked for; 1 if a scenario broke or a verdict is unexpected."""
    options = _parser().parse_args(arguments)
    began = time.perf_counter()
    status = _OK
    try:
        if "scenarios" in options.parts:
            status = max(status, _scenarios(options))
        if "catalogue" in options.parts:
            status = max(status, _catalogue(SCENARIOS / "claims", options.results))
    except ValueError as error:
        print(f"audit.results: error: {error}", file=sys.stderr)
        return _BROKEN_INPUT
    print(f"{time.perf_counter() - began:.0f} s in all")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m audit.results", description=__doc__)
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", default=list(PARTS), help=" or ".join(PARTS))
    add("--only", nargs="+", metavar="SCENARIO", help="these scenarios; the others stay as stored")
    add("--fresh", action="store_true", help="run again what the same source has run")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="scenarios at a time")
    add("--results", type=Path, default=Path("results"), help="where the results go")
    add("--work", type=Path, default=Path("results/runs/scenarios"), help="where runs are kept")
    return parser


def _scenarios(options: argparse.Namespace) -> int:
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


def _catalogue(claims: Path, results: Path) -> int:
    print("judging the claims", flush=True)
    checked = check([claims / PUBLISHED, claims / OWN], error=_ERROR)
    for wrong in (*checked.complaints, *(judgement.message for judgement in checked.failures)):
        print(f"error: {wrong}", file=sys.stderr)
    if checked.complaints:
        return _BROKEN_INPUT
    rows = catalogue.rows(checked.judgements, statements.load(claims / SIDE), printed())
    (results / "claims").mkdir(parents=True, exist_ok=True)
    (results / "catalogue.md").write_text(table.to_markdown(rows), encoding="utf-8")
    (results / "catalogue.csv").write_text(table.to_csv(rows), encoding="utf-8")
    page = formats.write(_of_file(checked, claims / PUBLISHED), Format.MARKDOWN)
    (results / "claims" / "published.md").write_text(page, encoding="utf-8")
    print(f"{len(rows)} rows: {results / 'catalogue.md'}")
    return checked.status


def _of_file(checked: Checked, file: Path) -> Checked:
    own = [j for j in checked.judgements if j.claim.location and j.claim.location.file == file]
    return dataclasses.replace(checked, judgements=tuple(own))


if __name__ == "__main__":
    sys.exit(main())
