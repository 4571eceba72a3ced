"""Write reports: of one result, and of many runs joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from audit.codec.atomic import write_atomic
from audit.report import joined, run_report
from audit.report.document import Document
from audit.report.joined_rows import rows, to_csv, to_json
from audit.report.render import html, markdown
from audit.report.runs import Run
from audit.results import Result


def write(result: Result, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md`` and ``figures/`` into ``folder``.

    The same result gives the same bytes. Everything is drawn before the first file is written.

    Parameters
    ----------
    result : Result
        Result of a scenario.
    folder : Path
        Folder to write into.

    Returns
    -------
    tuple of Path
        The files written.

    Raises
    ------
    ValueError
        In one line, if ``folder`` cannot be written to.

    Examples
    --------
    >>> audit.report.write(result, Path("report"))  # doctest: +SKIP
    """
    document = run_report.build(result)
    contents = {"report.html": html(document), "report.md": markdown(document)}
    return store({**contents, **_figures(document)}, folder)


def write_joined(runs: Sequence[Run], folder: Path) -> tuple[Path, ...]:
    """Write ``index.html``, ``index.md``, ``results.csv``, ``results.json`` and ``figures/``.

    Links point to the runs' own reports if they exist. The same runs give the same bytes.
    """
    document, found = joined.build(runs, Path(folder)), rows(runs)
    contents = {
        "index.html": html(document),
        "index.md": markdown(document),
        "results.csv": to_csv(found),
        "results.json": to_json(runs, found),
    }
    return store({**contents, **_figures(document)}, folder)


def _figures(document: Document) -> dict[str, bytes]:
    contents = {}
    for picture in document.pictures:
        contents[f"figures/{picture.name}.svg"] = picture.svg
        contents[f"figures/{picture.name}.png"] = picture.png
    return contents


def store(contents: Mapping[str, bytes], folder: Path) -> tuple[Path, ...]:
    """Write files into a folder, each atomically; raise ``ValueError`` if that is impossible."""
    written = []
    try:
        for name, content in contents.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, content)
            written.append(path)
    except OSError as error:
        raise ValueError(
            "folder must be a folder that can be written to, "
            f"got {str(folder)!r} ({error.strerror or error})"
        ) from None
    return tuple(written)
