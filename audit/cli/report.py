"""The ``audit-report`` command: join stored runs and sweeps into one report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from audit import validate
from audit.cli.errors import (
    BROKEN_INPUT,
    BROKEN_RUNS,
    INTERRUPTED,
    OneLineParser,
    exit_status,
    let_the_status_stand,
    one_line,
)

if TYPE_CHECKING:
    from audit.report import Run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``audit-report`` command.

    The exit status is 1 if a run has no result or no report, and 2 if nothing could be written.
    """
    sys.exit(exit_status(lambda: run(arguments)))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; by default with the process's arguments."""
    options = _parser().parse_args(arguments)
    try:
        return _join(options.runs, options.output, full=options.full, tex=options.latex)
    except ValueError as error:
        print(f"audit-report: error: {error}", file=sys.stderr)
        return BROKEN_INPUT
    except KeyboardInterrupt:
        let_the_status_stand()
        print("audit-report: interrupted; run it again to write all files", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="audit-report",
        description="Join stored runs and sweeps into one report, without running anything again.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="a run's folder, or a folder of runs such as a sweep's",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/joined"),
        help="folder for the report (default: %(default)s)",
    )
    parser.add_argument(
        "--full", action="store_true", help="also write each run's own report again, in its folder"
    )
    parser.add_argument(
        "--latex",
        action="store_true",
        help="also write results.tex and, with --full, each run's report.tex",
    )
    parser.add_argument(
        "--schema", action=_PrintSchema, nargs=0, help="print the JSON Schema of result.json"
    )
    return parser


class _PrintSchema(argparse.Action):
    """Print the schema that ships with the package, and exit, like ``--help``."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from audit.results import SCHEMA_FILE

        print(SCHEMA_FILE.read_text(encoding="utf-8"), end="")
        parser.exit()


def _join(places: Sequence[Path], output: Path, *, full: bool, tex: bool) -> int:
    from audit import report  # takes a while to import, which the help must not
    from audit.report import joined, latex, run_report

    runs = report.gather(places)
    # a typing error must not replace a report by an empty one
    if not any(run.is_stored for run in runs):
        raise validate.fail("RUN", "a folder of stored results", " ".join(map(str, places)))
    drawn = 0
    for run in runs:
        if run.result is None or not full:
            continue
        try:
            report.write(run.result, run.folder)
            if tex:
                tables = latex.document(run_report.summaries(run.result))
                (run.folder / "report.tex").write_bytes(tables)
        except Exception as error:  # must not stop the others
            print(f"{run.folder}: no report was written: {one_line(error)}", file=sys.stderr)
            drawn = BROKEN_RUNS
    report.write_joined(runs, output)
    table = output / "results.tex"
    table.unlink(missing_ok=True)
    if tex:
        table.write_bytes(latex.document([joined.table(runs)]))
        print(f"LaTeX: {table}")
    return max(drawn, tell(runs, output))


def tell(runs: Sequence[Run], output: Path) -> int:
    """Print what the runs came to and where the report is; return the exit status."""
    from audit.report import joined

    words = joined.shown(runs)
    if words:
        print(words)
    print(*joined.conclusion(runs))
    print(f"Report: {output / 'index.html'}")
    return BROKEN_RUNS if any(run.error is not None for run in runs) else 0


if __name__ == "__main__":
    main()
