"""Judge released libraries with known privacy bugs: ``make zoo``, or ``make zoo CASE=name``.

Each case of ``scenarios/zoo`` has a program that drives the code of a released library and writes
down what it claims. The program runs in an environment of its own, the judge in this one. What
cannot be installed is skipped by name with the installer's reason. Environments and the claims of
finished programs are kept, so an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.progress import on_terminal
from results.zoo import page
from results.zoo.cases import Case, read_all
from results.zoo.environments import Environment, NotInstalledError, environment
from results.zoo.judging import ProgramError, judge, run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = "zoo.csv"
_MARK = "told.json"
_OK, _WRONG, _BROKEN_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 0 only if every expectation that could be run was met."""
    options = _parser().parse_args(arguments)
    try:
        cases = read_all(options.cases, tuple(options.names))
    except ValueError as error:
        print(f"results/zoo/make.py: error: {error}", file=sys.stderr)
        return _BROKEN_INPUT
    jobs = [(case, version) for case in cases for version in case.releases]
    rows: list[page.Row] = []
    with on_terminal() as bars:
        progress = bars.stage("releases")
        progress(0, len(jobs))
        for done, (case, version) in enumerate(jobs, start=1):
            found = _release(case, version, options)
            with bars.hidden():
                for row in found:
                    print(page.line(row), flush=True)
            rows += found
            progress(done, len(jobs))
    _write(options.results, rows, read_all(options.cases))
    print(page.counts(rows))
    return _WRONG if any(row.fails for row in rows) else _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python results/zoo/make.py",
        description="Judge released libraries with known privacy bugs.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="CASE", help="cases; all by default")
    add("--fresh", action="store_true", help="run programs again that have run already")
    add("--cases", type=Path, default=ROOT / "scenarios" / "zoo", help="the folder of cases")
    add("--results", type=Path, default=HERE, help="where the results go")
    add("--work", type=Path, default=ROOT / "results" / "runs" / "zoo", help="where programs run")
    add("--environments", type=Path, default=ROOT / ".venv-zoo", help="where packages are kept")
    return parser


def _release(case: Case, version: str, options: argparse.Namespace) -> list[page.Row]:
    """Return the rows of one release, one a claim."""
    release = case.releases[version]

    def rows(verdict: str, why: str) -> list[page.Row]:
        return [
            page.Row(case.name, case.package, version, claim, expected.value, verdict, reason=why)
            for claim, expected in release.expected.items()
        ]

    try:
        place = environment(options.environments, case.requirements(version), case.package, version)
    except NotInstalledError as why:
        return rows(page.SKIPPED, str(why))
    work = options.work / case.name / version
    try:
        told = _told(case, version, place, work, fresh=options.fresh)
    except ProgramError as why:
        return rows("error", str(why))
    checked = judge(case, version, told, work, options.results / case.name)
    found = {judgement.claim.id: judgement for judgement in checked.judgements}
    if set(found) != set(release.expected):
        return rows("error", "; ".join(map(str, checked.complaints)))
    return [
        page.row(case, version, claim, expected, found[claim])
        for claim, expected in release.expected.items()
    ]


def _told(
    case: Case, version: str, place: Environment, work: Path, *, fresh: bool
) -> dict[str, Any]:
    """Return what the program wrote, now or in an earlier run of the same program."""
    digest = hashlib.sha256(repr((str(place.python), case.releases[version])).encode())
    own = [file.read_bytes() for file in sorted(case.folder.glob("*.py"))]
    shared = [
        file.read_bytes()
        for file in sorted(case.shared.glob("*.py"))
        if any(file.stem.encode() in text for text in own)
    ]
    for text in (*own, *shared):
        digest.update(text)
    source, mark = digest.hexdigest(), work / _MARK
    if not fresh:
        try:
            kept = json.loads(mark.read_text(encoding="utf-8"))
            if kept["source"] == source:
                return dict(kept["told"])
        except (OSError, ValueError, KeyError):
            pass
    told = run(case, version, place, work)
    mark.write_text(json.dumps({"source": source, "told": told}), encoding="utf-8")
    return told


def _write(folder: Path, rows: Sequence[page.Row], known: Sequence[Case]) -> None:
    """Write the table and the page; rows of cases that did not run now stay as stored."""
    now = {row.case for row in rows}
    names = {case.name: place for place, case in enumerate(known)}
    kept = [row for row in _stored(folder) if row.case not in now and row.case in names]
    every = sorted([*kept, *rows], key=lambda row: names[row.case])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TABLE).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, page.COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in every)
    (folder / "zoo.md").write_text(page.page(every, known), encoding="utf-8")


def _stored(folder: Path) -> list[page.Row]:
    try:
        with (folder / TABLE).open(encoding="utf-8") as file:
            return [page.Row(**row) for row in csv.DictReader(file)]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
