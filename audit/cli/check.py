"""The ``audit-check`` command: judge claims files, on the terminal and in CI."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from audit.claims import formats, lock
from audit.claims.checking import DEFAULT_ERROR, Checked, check
from audit.claims.formats import Format
from audit.cli.child_process import status_apart
from audit.cli.errors import OneLineParser, exit_status, let_the_status_stand
from audit.results import Verdict

_OK, _UNEXPECTED, _BROKEN, _INTERRUPTED = 0, 1, 2, 130
_MARKS = {"ok": "", "FAIL": "bold red", "warn": "yellow", "broken": "bold magenta"}

_Begin = Callable[[Sequence[str]], None]  # takes the names of what will be judged

_HELP = """Judge the claims of some files, and fail if a verdict is not the expected one.

"audit-check verify FILE" asks audit-verify about a witness file, as is done with each refutation.
With --panel, a FILE is a Python file that registers bounds, or the id of an entry of the catalogue.
Each statement is judged on a standard panel of mechanisms, and gets a page.

exit status: 0 all as expected; 1 a claim of severity error has an unexpected verdict, or a locked
number changed; 2 a file or a claim is broken (the others are judged anyway), or the run ended early
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``audit-check`` command and exit with its status.

    The exit status is 0 only if every claim was judged and all output was written, whatever user
    code does: the command runs in a child process (`audit.cli.child_process`).
    """
    sys.exit(status_apart(_ended, _options(arguments)))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command in this process and return its exit status."""
    return _run(_options(arguments), lambda names: None)[0]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; ``arguments`` are those of the process by default."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.files[:1] == ["verify"]:
        options.witness = [Path(name) for name in options.files[1:]]
        options.files = []
    if (not options.witness) == (not options.files):
        parser.error("give claims files, or verify with witness files")
    if options.mechanisms is not None and not options.panel:
        parser.error("--mechanisms needs --panel")
    if options.panel:
        _check_panel_options(parser, options)
    if options.accept is not None and options.lock is None:
        parser.error("--accept needs --lock")
    if options.lock is not None and (options.fresh_seed or options.seed is not None):
        parser.error(
            "--lock compares numbers of the seeds in the files: omit --seed and --fresh-seed"
        )
    return options


def _check_panel_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that are those of claims files."""
    names = (
        "error",
        "seed",
        "fresh_seed",
        "search",
        "exhaustive",
        "witnesses",
        "witness",
        "no_verify",
        "lock",
    )
    for name in names:
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} cannot be combined with --panel")
    if Format(options.format) not in (Format.TEXT, Format.JSON):
        parser.error(f"--format must be text or json with --panel, got {options.format}")


def _ended(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    good: list[str] = []

    def command() -> int:
        status, names = _run(options, begin)
        good.extend(names)
        return status

    return exit_status(command), good


def _run(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    """Return the exit status, and the names of what has a good verdict."""
    try:
        if options.panel:
            return _panel(options, begin)
        return _verify(options.witness, begin) if options.witness else _check(options, begin)
    except ValueError as error:
        print(error, file=sys.stderr)
        return _BROKEN, ()
    except KeyboardInterrupt:
        let_the_status_stand()
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED, ()


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="audit-check", description=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    what = "claims files (YAML); with --panel, Python files or ids of entries"
    add("files", nargs="*", metavar="FILE", help=what)
    forms = [form.value for form in Format]
    add("--format", choices=forms, default=Format.TEXT.value, help="output format")
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the outcome to this file; with --panel, the folder of the pages",
    )
    add(
        "--error",
        type=float,
        default=DEFAULT_ERROR,
        help="bound on the probability that samples refute any true claim (default %(default)s)",
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=int, help="seed of all samples; replaces those of the files")
    seeds.add_argument(
        "--fresh-seed", action="store_true", help="use a new random seed, for nightly runs"
    )
    add(
        "--search",
        type=int,
        metavar="N",
        help="pairs that the worst-case search tries per claim; replaces the numbers in the files",
    )
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of claims (with --panel, of mechanisms) judged in parallel (default 1)",
    )
    add(
        "--exhaustive",
        action="store_true",
        help="try all pairs, even after one has refuted a claim",
    )
    add("--witnesses", type=Path, metavar="FOLDER", help="write a witness file per refutation")
    add("--witness", type=Path, nargs=1, metavar="FILE", help="the same as verify FILE")
    add(
        "--no-verify",
        action="store_true",
        help="do not verify refutations with audit-verify (by default each, for up to a minute)",
    )
    add(
        "--panel",
        action="store_true",
        help="judge bounds of Python files, or entries of the catalogue by their ids, on the "
        "standard panel; write pages and witnesses to the folder --output (default panel)",
    )
    add(
        "--mechanisms",
        type=int,
        metavar="N",
        help="largest number of mechanisms of the panel (default 48)",
    )
    add("--lock", type=Path, metavar="FILE", help="fail if a number differs from this file")
    add("--schema", action=_PrintSchema, nargs=0, help="print the JSON Schema of claims files")
    add(
        "--accept",
        metavar="REASON",
        help="update the lock with the current numbers, and record the reason",
    )
    return parser


class _PrintSchema(argparse.Action):
    """Print the schema and exit, like ``--help``."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from audit.claims.schema import schema  # takes a while to import
        from audit.codec import json_text

        print(json_text(schema()), end="")
        parser.exit()


def _check(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    from audit.progress import on_terminal

    locked = None if options.lock is None else lock.read(options.lock)
    seed = secrets.randbits(32) if options.fresh_seed else options.seed
    with on_terminal() as bars:
        checked = check(
            options.files,
            error=options.error,
            seed=seed,
            search=options.search,
            jobs=options.jobs,
            exhaustive=options.exhaustive,
            progress=bars.stage("claims"),
            begin=begin,
            verify=not options.no_verify,
        )
    form = Format(options.format)
    _show(checked, form, options.output)
    for complaint in checked.complaints:
        print(complaint, file=sys.stderr)
    if options.output is not None or form in (Format.JSON, Format.JUNIT):
        print(formats.counts(checked), file=sys.stderr)
    if options.witnesses is not None:
        _write_witnesses(checked, options.witnesses)
    status = checked.status
    if locked is not None and not _keeps(locked, checked, options.lock, options.accept):
        status = max(status, _UNEXPECTED)
    bad = {judgement.claim.id for judgement in checked.failures}
    return status, [j.claim.id for j in checked.judgements if j.claim.id not in bad]


def _check_folder(folder: Path) -> None:
    """Raise ``ValueError`` unless files can be written to a folder, which need not exist yet."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"output must be a folder that can be written to, got {str(folder)!r}")


def _panel(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    """Judge statements on the panel, write their pages and print a line for each."""
    import audit_panel as panel
    from audit.codec import encode, json_text
    from audit.progress import on_terminal

    size = panel.SIZE if options.mechanisms is None else options.mechanisms
    folder = Path("panel") if options.output is None else options.output
    _check_folder(folder)  # before minutes of work
    as_json = Format(options.format) is Format.JSON
    verdicts: list[panel.PanelVerdict] = []
    written: dict[str, str] = {}
    status = _OK
    good: list[str] = []
    names = list(dict.fromkeys(options.files))
    begin(names)
    with on_terminal() as bars:
        for name in names:
            shown = bars.stage(name)
            try:
                if Path(name).suffix == ".py" or "/" in name:
                    path = Path(name)
                    found = panel.judge_file(path, size=size, jobs=options.jobs, progress=shown)
                else:
                    found = panel.judge_entries(
                        [name], size=size, jobs=options.jobs, progress=shown
                    )
                for verdict in found:
                    if verdict.id in written:
                        files = f"{written[verdict.id]} and {name}"
                        raise ValueError(f"id must be unique, got {verdict.id!r} in {files}")
            except ValueError as error:  # the others are judged anyway
                text = str(error)
                print(text if Path(name).name in text else f"{name}: {text}", file=sys.stderr)
                status = _BROKEN
                continue
            for verdict in found:
                written[verdict.id] = name
                page, *others = panel.write(verdict, folder)
                if not as_json:
                    with bars.hidden():
                        print("\n".join([*panel.lines(verdict), f"  page: {page}"]))
                        for other in others:
                            if other.name.endswith(".witness.json"):
                                print(f"  witness: {other}")
            verdicts += found
            good += [name] * all(verdict.as_expected for verdict in found)
    if as_json:
        print(json_text({"statements": encode(verdicts)}), end="")
    if any(verdict.verdict is Verdict.ERROR for verdict in verdicts):
        return _BROKEN, good
    return status or (_OK if all(v.as_expected for v in verdicts) else _UNEXPECTED), good


def _show(checked: Checked, form: Format, output: Path | None) -> None:
    """Write the outcome to a file or to standard output, as a coloured table on a terminal."""
    summary_file = os.environ.get("GITHUB_STEP_SUMMARY")
    if form is Format.GITHUB and summary_file:
        with (
            _one_line_errors(Path(summary_file)),
            open(summary_file, "a", encoding="utf-8") as page,
        ):
            page.write(formats.write(checked, Format.MARKDOWN))
    if output is not None:
        with _one_line_errors(output):
            output.write_text(formats.write(checked, form), encoding="utf-8")
    elif form is Format.TEXT and sys.stdout.isatty():
        _show_table(checked)
    else:
        sys.stdout.write(formats.write(checked, form))


def _show_table(checked: Checked) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table()
    for name in formats.COLUMNS:
        if name in formats.NUMBERS:
            table.add_column(name, justify="right")
        else:
            table.add_column(name, overflow="fold")
    for judgement in checked.judgements:
        row = formats.cells(judgement)
        table.add_row(*(Text(word) for word in row), style=_MARKS[row[0]])
    console.print(table)
    for line in formats.summary(checked):
        console.print(Text(line))


def _write_witnesses(checked: Checked, folder: Path) -> None:
    with _one_line_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for judgement in checked.judgements:
            if judgement.witness is not None:
                file = folder / f"{judgement.claim.id}.witness.json"
                file.write_text(judgement.witness.to_json(), encoding="utf-8")


def _verify(files: Sequence[Path], begin: _Begin) -> tuple[int, Sequence[str]]:
    """Verify witness files and print the answers; 0 if all claims are refuted."""
    try:
        from audit_verify import Answer, NotAWitnessError, read, verify
    except ImportError:
        raise ValueError(
            "audit-verify must be installed: pip install 'noisy-sgd-audit[verify]'"
        ) from None
    begin([str(file) for file in files])
    status, good = _OK, []
    for file in files:
        try:
            outcome = verify(read(file))
        except NotAWitnessError as error:
            raise ValueError(f"{file}: not a witness file ({error})") from None
        print("\n".join((f"{file}: {outcome.lines()[0]}", *outcome.lines()[1:])))
        if outcome.answer is Answer.REFUTED:
            good.append(str(file))
        else:
            status = max(status, _BROKEN if outcome.answer is Answer.NOT_A_WITNESS else _UNEXPECTED)
    return status, good


def _keeps(locked: lock.Lock, checked: Checked, path: Path, reason: str | None) -> bool:
    """Compare with the lock, or accept the changes; return whether no change is left."""
    now = lock.entries(checked.judgements)
    changed = lock.changes(locked, now)
    if not changed:
        return True
    if reason is not None and not checked.complaints:
        date = datetime.now(UTC).date().isoformat()
        lock.write(path, lock.accept(locked, now, reason=reason, date=date))
        print(f"{path}: {len(changed)} changes accepted", file=sys.stderr)
        return True
    for line in changed:
        print(f"{path}: {line}", file=sys.stderr)
    hint = (
        "nothing was accepted, because a claim or a file is broken"
        if reason is not None
        else "if this is intended, run again with --accept REASON"
    )
    print(f"{path}: {hint}", file=sys.stderr)
    return False


@contextlib.contextmanager
def _one_line_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(f"{place}: cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    main()
