"""Judge the whole catalogue on the standard panel: ``python results/panel/make.py [ID ...]``.

Without ids everything is judged, also the files of ``scenarios/claims/community``; with ids (or
names of such files) these alone, and the rows of the others are kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from audit import progress
from audit.bounds import CATALOGUE, Status
from audit.results import Verdict
from audit_panel import judging as panel
from audit_panel.judging import judge_entries, judge_file
from audit_panel.verdicts import PanelVerdict
from results.panel import table

FOLDER = Path(__file__).resolve().parent
COMMUNITY = FOLDER.parents[1] / "scenarios" / "claims" / "community"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables and the witnesses; return 1 if a verdict is unexpected and unexplained."""
    parser = argparse.ArgumentParser(
        prog="python results/panel/make.py",
        description="Judge statements on the standard panel of mechanisms.",
    )
    parser.add_argument("only", nargs="*", metavar="ID", help="entries, or community files")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the tables go")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mechanisms", type=int, default=panel.SIZE, help="at most, a statement")
    given = parser.parse_args(arguments)
    files = {path.stem: path for path in sorted(COMMUNITY.glob("*.py"))}
    judged = [id for id, entry in CATALOGUE.items() if entry.status is not Status.ASYMPTOTIC]
    wanted = given.only or [*judged, *files]
    unknown = [name for name in wanted if name not in CATALOGUE and name not in files]
    if unknown:
        parser.error(f"neither an entry nor a community file: {', '.join(unknown)}")
    ids = [name for name in wanted if name in CATALOGUE]
    found: list[PanelVerdict] = []
    with progress.on_terminal() as bars:
        shown = bars.stage("mechanisms")
        found += judge_entries(ids, size=given.mechanisms, jobs=given.jobs, progress=shown)
        for name in (name for name in wanted if name in files):
            shown = bars.stage(name)
            path = files[name]
            found += judge_file(path, size=given.mechanisms, jobs=given.jobs, progress=shown)
    rows = table.write(found, given.out, order=[*CATALOGUE], keep=bool(given.only))
    wrong = [v for v in found if not v.as_expected and v.verdict is not Verdict.INCONCLUSIVE]
    for verdict in wrong:
        print(f"{verdict.id}: {verdict.verdict.value}, expected {verdict.expected.value}")
    print(f"{rows} statements: {given.out / 'README.md'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
