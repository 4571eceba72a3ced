"""The command ``audit-check panel``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from audit.claims.formats import Format
from audit.codec import encode
from audit.codec.schemas import json_text
from audit.progress import on_terminal
from audit.results import Verdict
from audit_panel.files import write
from audit_panel.judging import judge_entries, judge_file, lines
from audit_panel.verdicts import PanelVerdict

_OK, _UNEXPECTED, _BROKEN = 0, 1, 2  # exit statuses


def _check_folder(folder: Path) -> None:
    """Raise ``ValueError`` unless files can be written to a folder, which need not exist yet."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"output must be a folder that can be written to, got {str(folder)!r}")


def judge(
    options: argparse.Namespace, begin: Callable[[Sequence[str]], None]
) -> tuple[int, Sequence[str]]:
    """Judge statements on the panel, write their pages and print a line for each.

    Return the exit status, and the names of what has the expected verdict; ``begin`` takes the
    names of all before the first is judged.
    """
    size, folder = options.mechanisms, options.output
    _check_folder(folder)  # before minutes of work
    as_json = options.format == Format.JSON.value
    verdicts: list[PanelVerdict] = []
    written: dict[str, str] = {}
    status = _OK
    good: list[str] = []
    names = list(dict.fromkeys(options.files))
    begin(names)
    with on_terminal() as bars:
        for name in names:
            judging = {"size": size, "jobs": options.jobs, "progress": bars.stage(name)}
            try:
                if Path(name).suffix == ".py" or "/" in name:
                    found = judge_file(Path(name), **judging)
                else:
                    found = judge_entries([name], **judging)
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
                page, *others = write(verdict, folder)
                if not as_json:
                    with bars.hidden():
                        print("\n".join([*lines(verdict), f"  page: {page}"]))
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
