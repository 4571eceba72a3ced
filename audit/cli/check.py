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

from audit import validate
from audit.claims import formats, lock
from audit.claims.formats import Format
from audit.claims.judge import DEFAULT_ERROR, Checked, check
from audit.cli.child_process import Command, status_apart
from audit.cli.errors import OneLineParser, exit_status, let_the_status_stand
from audit.codec.atomic import check_place, write_atomic

_OK, _UNEXPECTED, _BROKEN, _INTERRUPTED = 0, 1, 2, 130
_MARKS = {"ok": "", "FAIL": "bold red", "warn": "yellow", "broken": "bold magenta"}

_Begin = Callable[[Sequence[str]], None]  # takes the names of what will be judged

_HELP = """Judge claims of differential privacy, and fail if a verdict is not the expected one.

"audit-check FILE ..." is "audit-check check FILE ...".

exit status: 0 all as expected; 1 a claim of severity error has an unexpected verdict, or a locked
number changed; 2 a file or a claim is broken (the others are judged anyway), or the run ended early
"""
# Flags that named a command before there were commands.
_FORMER = {"--schema": "schema", "--panel": "panel", "--witness": "verify", "--lock": "lock"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``audit-check`` command and exit with its status.

    The exit status is 0 only if every claim was judged and all output was written, whatever user
    code does: the command runs in a child process (`audit.cli.child_process`).
    """
    options = _options(arguments)
    schema = options.command == "schema"
    sys.exit(exit_status(_schema) if schema else status_apart(_ended, options))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command in this process and return its exit status."""
    return _run(_options(arguments), lambda names: None)[0]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; ``arguments`` are those of the process by default."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return _parser().parse_args(_with_command(words))


def _with_command(words: list[str]) -> list[str]:
    """Return the words with their command first; "check" if they name none."""
    if words and (words[0] in _COMMANDS or words[0] in ("-h", "--help")):
        return words
    for place, word in enumerate(words):
        flag, _, value = word.partition("=")
        if flag in _FORMER:
            before, after = words[:place], words[place + 1 :]
            if flag == "--lock":  # its file comes first
                value, after = value or "".join(after[:1]), after if value else after[1:]
            return [_FORMER[flag], *([value] if value else []), *before, *after]
    return ["check", *words]


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
        return _COMMANDS[options.command](options, begin)
    except ValueError as error:
        print(error, file=sys.stderr)
        return _BROKEN, ()
    except KeyboardInterrupt:
        let_the_status_stand()
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED, ()


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(prog="audit-check", description=_HELP, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")

    checking = command("check", "judge the claims of some files")
    seeds = checking.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=int, help="seed of all samples; replaces those of the files")
    seeds.add_argument(
        "--fresh-seed", action="store_true", help="use a new random seed, for nightly runs"
    )
    locking = command(
        "lock", "judge the claims of some files, and fail if a number differs from the lock file"
    )
    locking.add_argument("lock", type=Path, metavar="LOCK", help="the lock file (JSON)")
    locking.add_argument(
        "--accept",
        metavar="REASON",
        help="update the lock with the current numbers, and record the reason",
    )
    for one in (checking, locking):
        _add_judging(one)
    verifying = command("verify", "ask audit-verify about witness files, as is done by check")
    verifying.add_argument("files", nargs="+", type=Path, metavar="WITNESS", help="witness files")
    _add_panel(
        command(
            "panel",
            "judge bounds of Python files, or entries of the catalogue, on the standard panel of "
            "mechanisms; each gets a page",
        )
    )
    command("schema", "print the JSON Schema of claims files")
    return parser


def _add_judging(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of what judges claims files."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="claims files (YAML)")
    forms = [form.value for form in Format]
    add("--format", choices=forms, default=Format.TEXT.value, help="output format")
    add("--output", type=Path, metavar="FILE", help="write the outcome to this file")
    add(
        "--error",
        type=float,
        default=DEFAULT_ERROR,
        help="bound on the probability that samples refute any true claim (default %(default)s)",
    )
    add(
        "--search",
        type=int,
        metavar="N",
        help="pairs that the worst-case search tries per claim; replaces the numbers in the files",
    )
    add("--jobs", type=int, default=1, metavar="N", help="claims judged in parallel (default 1)")
    add(
        "--exhaustive",
        action="store_true",
        help="try all pairs, even after one has refuted a claim",
    )
    add("--witnesses", type=Path, metavar="FOLDER", help="write a witness file per refutation")
    add(
        "--no-verify",
        action="store_true",
        help="do not verify refutations with audit-verify (by default each, for up to a minute)",
    )


def _add_panel(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="Python files or ids of entries of the catalogue")
    forms = [Format.TEXT.value, Format.JSON.value]
    add("--format", choices=forms, default=Format.TEXT.value, help="output format")
    add(
        "--output",
        type=Path,
        default=Path("panel"),
        metavar="FOLDER",
        help="write pages and witnesses to this folder (default panel)",
    )
    add(
        "--mechanisms",
        type=int,
        default=48,
        metavar="N",
        help="largest number of mechanisms of the panel (default %(default)s)",
    )
    add("--jobs", type=int, default=1, metavar="N", help="processes that judge (default 1)")


def _schema() -> int:
    from audit.claims.schema import schema  # takes a while to import
    from audit.codec.schemas import json_text

    print(json_text(schema()), end="")
    return _OK


def _check(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    from audit.progress import on_terminal

    locking = options.command == "lock"
    locked = lock.read(options.lock) if locking else None
    if options.output is not None:
        check_place("--output", options.output)
        read = [*options.files, *([options.lock] if locking else [])]
        if os.path.realpath(options.output) in map(os.path.realpath, read):
            raise validate.fail("--output", "no file that is read", str(options.output))
    seed = None
    if not locking:
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
    if not checked.judgements and not checked.complaints:
        raise ValueError(f"{', '.join(map(str, options.files))}: claims must be given, got none")
    form = Format(options.format)
    _show(checked, form, options.output)
    for complaint in checked.complaints:
        print(complaint, file=sys.stderr)
    if options.output is not None or form in (Format.JSON, Format.JUNIT):
        print(formats.counts(checked), file=sys.stderr)
    if options.witnesses is not None:
        _write_witnesses(checked, options.witnesses)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if form is Format.GITHUB and summary:
        with (
            _one_line_errors(Path(summary)),
            open(summary, "a", encoding="utf-8", errors="backslashreplace") as page,
        ):
            page.write(formats.write(checked, Format.MARKDOWN))
    status = checked.status
    if locked is not None and not _keeps(locked, checked, options.lock, options.accept):
        status = max(status, _UNEXPECTED)
    bad = {judgement.claim.id for judgement in checked.failures}
    return status, [j.claim.id for j in checked.judgements if j.claim.id not in bad]


def _panel(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    from audit_panel.command import judge

    return judge(options, begin)


def _show(checked: Checked, form: Format, output: Path | None) -> None:
    """Write the outcome to a file or to standard output, as a coloured table on a terminal."""
    if output is not None:
        with _one_line_errors(output):
            write_atomic(output, formats.write(checked, form).encode("utf-8", "backslashreplace"))
    elif form is Format.TEXT and sys.stdout.isatty():
        _show_table(checked)
    else:
        sys.stdout.write(formats.write(checked, form))


def _show_table(checked: Checked) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    header, *rows = formats.table(checked, console.width)
    if header:
        console.print(Text(header, style="bold"))
    for judgement, row in zip(checked.judgements, rows, strict=True):
        console.print(Text(row, style=_MARKS[judgement.mark]))
    console.print()
    for line in formats.summary(checked):
        console.print(Text(line))


def _write_witnesses(checked: Checked, folder: Path) -> None:
    """Write the witness of each refuted claim, and remove a former one of each other claim."""
    with _one_line_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    failed: list[OSError] = []
    for judgement in checked.judgements:
        file = folder / f"{judgement.claim.id}.witness.json"
        try:
            if judgement.witness is not None:
                write_atomic(file, judgement.witness.to_json().encode())
            elif file.is_file():
                file.unlink()
        except OSError as error:  # the others are written anyway
            failed.append(error)
    with _one_line_errors(folder):
        for first in failed:
            raise first


def _verify(options: argparse.Namespace, begin: _Begin) -> tuple[int, Sequence[str]]:
    """Verify witness files and print the answers; 0 if all claims are refuted."""
    files: Sequence[Path] = options.files
    try:
        from audit_verify import Answer, NotAWitnessError, read, verify
    except ImportError:
        raise ValueError(
            "audit-verify must be installed: in a clone, pip install extras/verify"
        ) from None
    begin([str(file) for file in files])
    status, good = _OK, []
    for file in files:
        try:
            outcome = verify(read(file))
        except NotAWitnessError as error:
            print(f"{file}: not a witness file ({error})", file=sys.stderr)
            status = _BROKEN
            continue
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


_COMMANDS: dict[str, Command] = {
    "check": _check,
    "verify": _verify,
    "panel": _panel,
    "lock": _check,
    "schema": lambda options, begin: (_schema(), ()),
}


if __name__ == "__main__":
    main()
