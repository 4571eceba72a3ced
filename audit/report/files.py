"""From a stored result to the files of its report, and back from a folder to the result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import validate

if TYPE_CHECKING:
    from audit.report.document import Document
    from audit.report.runs import Run

FORMAT = 1
_KINDS: dict[type, str] = {str: "a word", list: "a list"}
_PARTS_OF_STUDIES: dict[str, dict[str, type]] = {
    "statements": {"claim": str, "citation": str, "outcome": str},
    "tables": {"caption": str, "columns": list, "rows": list},
    "charts": {"name": str, "title": str, "caption": str, "series": list},
}
RESULT = "result.json"


def load(folder: Path) -> dict[str, Any]:
    """Return the result stored in ``folder``.

    Raises
    ------
    ValueError
        In one line, if the folder has no readable ``result.json``, if that is no JSON, or if
        it is not a result of this format.
    """
    path = Path(folder) / RESULT
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ValueError(
            f"folder must hold a readable {RESULT}, got {str(folder)!r} ({reason})"
        ) from None
    try:
        result = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(f"{path} must be JSON: {error}") from None
    try:
        return check(result)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def check(result: Any) -> dict[str, Any]:
    """Return ``result`` if it has what every report needs; raise a one-line ``ValueError`` if not.

    Only the frame is checked: format, scenario, confidence, and for each setting its name,
    mechanism and deltas, or its study. All else may be left out, and then its part of the report
    is, too.
    """
    root = _mapping("result", result)
    if root.get("format") != FORMAT:
        raise validate.fail("format", str(FORMAT), root.get("format"))
    _text("scenario.name", _mapping("scenario", root.get("scenario")).get("name"))
    validate.open_unit(confidence=root.get("confidence"))
    for i, item in enumerate(_filled("settings", root.get("settings"))):
        setting = _mapping(f"settings[{i}]", item)
        _text(f"settings[{i}].name", setting.get("name"))
        _mapping(f"settings[{i}].mechanism", setting.get("mechanism"))
        if setting.get("study") is not None:
            _check_study(f"settings[{i}]", setting)
            continue
        for j, row in enumerate(_filled(f"settings[{i}].deltas", setting.get("deltas"))):
            _check_row(f"settings[{i}].deltas[{j}]", _mapping(f"settings[{i}].deltas[{j}]", row))
    return root


def write(result: dict[str, Any], folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md`` and ``figures/`` into ``folder``.

    The same input gives the same bytes. Everything is drawn before the first file is written.

    Returns
    -------
    tuple of Path
        The files written.

    Raises
    ------
    ValueError
        In one line, if ``result`` is not one (see `check`) or ``folder`` cannot be written to.
    """
    # Drawing needs Matplotlib, which takes a while to import.
    from audit.report.render import html, markdown
    from audit.report.run_report import build

    document = build(check(result))
    contents = {"report.html": html(document), "report.md": markdown(document)}
    return _store({**contents, **_figures(document)}, folder)


def write_joined(runs: Sequence[Run], folder: Path) -> tuple[Path, ...]:
    """Write ``index.html``, ``index.md``, ``results.csv``, ``results.json`` and ``figures/``.

    Links go to the runs' own reports where they have one. The same runs give the same bytes.

    Raises
    ------
    ValueError
        If there is no run, or ``folder`` cannot be written to.
    """
    from audit.report import joined
    from audit.report.render import html, markdown

    document, rows = joined.build(runs, Path(folder)), joined.rows(runs)
    contents = {
        "index.html": html(document),
        "index.md": markdown(document),
        "results.csv": joined.to_csv(rows),
        "results.json": joined.to_json(runs, rows),
    }
    return _store({**contents, **_figures(document)}, folder)


def _figures(document: Document) -> dict[str, bytes]:
    contents = {}
    for picture in document.pictures:
        contents[f"figures/{picture.name}.svg"] = picture.svg
        contents[f"figures/{picture.name}.png"] = picture.png
    return contents


def _store(contents: dict[str, bytes], folder: Path) -> tuple[Path, ...]:
    written = []
    try:
        for name, content in contents.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            written.append(path)
    except OSError as error:
        raise ValueError(
            "folder must be a folder that can be written to, "
            f"got {str(folder)!r} ({error.strerror or error})"
        ) from None
    return tuple(written)


def _check_row(name: str, row: dict[str, Any]) -> None:
    validate.open_unit(**{f"{name}.delta": row.get("delta")})
    ends = _mapping(f"{name}.exact", row.get("exact")).get("worst")
    if not isinstance(ends, (list, tuple)) or len(ends) != 2:
        raise validate.fail(f"{name}.exact.worst", "a pair [low, high]", ends)


def _check_study(name: str, setting: dict[str, Any]) -> None:
    if setting.get("deltas") != []:
        raise validate.fail(f"{name}.deltas", "an empty list beside a study", setting.get("deltas"))
    study = _mapping(f"{name}.study", setting["study"])
    _text(f"{name}.study.kind", study.get("kind"))
    for part, needed in _PARTS_OF_STUDIES.items():
        found = study.get(part, [])
        if not isinstance(found, list):
            raise validate.fail(f"{name}.study.{part}", "a list", found)
        for i, item in enumerate(found):
            place = f"{name}.study.{part}[{i}]"
            for key, kind in needed.items():
                value = _mapping(place, item).get(key)
                if not isinstance(value, kind):
                    raise validate.fail(f"{place}.{key}", _KINDS[kind], value)


def _refuse(word: str) -> float:
    raise ValueError(f"numbers must be finite, got {word}")


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise validate.fail(name, "an object with named parts", value)
    return value


def _filled(name: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise validate.fail(name, "a list with one entry or more", value)
    return list(value)


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise validate.fail(name, "a word", value)
