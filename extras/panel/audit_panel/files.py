"""Write the page of a statement and its data."""

from __future__ import annotations

from pathlib import Path

from audit.codec import encode
from audit.codec.schemas import json_text
from audit.report.files import store
from audit.report.render import html
from audit_panel import page
from audit_panel.verdicts import PanelVerdict


def write(verdict: PanelVerdict, folder: Path) -> tuple[Path, ...]:
    """Write the page of a statement that was judged on the panel, and its data.

    The files are ``ID.html`` and ``ID.json``; and ``ID.witness.json`` if the statement is refuted,
    which ``audit-check verify`` verifies. Each file is the old one or the new one if the
    command is interrupted.

    Parameters
    ----------
    verdict : PanelVerdict
        The verdict.
    folder : Path
        Folder to write into.

    Returns
    -------
    tuple of Path
        The files written; the page is the first.

    Raises
    ------
    ValueError
        In one line, if ``folder`` cannot be written to.

    Examples
    --------
    >>> [verdict] = judge_file(Path("mine.py"))  # doctest: +SKIP
    >>> write(verdict, Path("panel"))  # doctest: +SKIP
    """
    name = f"{verdict.id}.witness.json"
    contents = {
        f"{verdict.id}.html": html(page.build(verdict, name)),
        f"{verdict.id}.json": json_text(encode(verdict)).encode("utf-8"),
    }
    witness = None if verdict.confirmed is None else verdict.points[verdict.confirmed].witness
    if witness is not None:
        contents[name] = json_text(witness).encode("utf-8")
    return store(contents, folder)
