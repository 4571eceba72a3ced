"""Turn runs into the committed folders: the same numbers give the same bytes.

Dates, times, the commit and versions of libraries differ from run to run: they are moved from the
results to one file beside the index.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from PIL import Image

from audit import report
from audit.codec import encode
from audit.report.document import Picture
from audit.report.render import html, markdown
from audit.report.run_report import build
from audit.report.runs import RESULT, STATUS, status
from audit.results import Result, to_json

# The README shows this one, in a folder beside all others.
SHOWN = "at22_lower_bound"
PROVENANCE = "provenance.json"
_OF_A_RUN = re.compile(r"^(output|sweep|draw|threads):.*\n", flags=re.MULTILINE)
_COLOURS = 64
_SVG = re.compile(r"<svg\b.*?</svg>", flags=re.DOTALL)
_README = """\
# Every scenario, as it was run

[index.md](index.md) (and index.html) joins the reports in the folders beside it;
[results.csv](results.csv) holds every number of theirs in one table: epsilon, Renyi divergences
and the statements of studies. `make results` makes all of it again.

The same source and seed give the same bytes. Dates, wall times, commit and library versions are
in [provenance.json](provenance.json) and nowhere else. Reports here show their figures as the
files in `figures/`; `audit-report --full results/scenarios` draws the self-contained pages.
The run of `at22_lower_bound` is in [its own folder](../at22_lower_bound/report.md).
"""


@dataclass(frozen=True)
class Outcome:
    """Outcome of running a scenario: the folder with its result, or an error in one line."""

    name: str
    folder: Path | None
    error: str | None
    seconds: float
    kept: bool = False


def place_of(name: str, results: Path) -> Path:
    """Return the committed folder of a scenario."""
    return results / name if name == SHOWN else results / "scenarios" / name


def publish(
    outcomes: Sequence[Outcome], known: Sequence[str], results: Path
) -> tuple[report.Run, ...]:
    """Write the folder of each scenario, the joined report and where the numbers come from.

    Parameters
    ----------
    outcomes
        What was run. Scenarios that were not run keep the folders that they have.
    known
        Names of all scenarios: folders of others are removed.
    results
        The folder of all results.

    Returns
    -------
    tuple of Run
        The runs of the joined report.
    """
    index = results / "scenarios"
    index.mkdir(parents=True, exist_ok=True)
    details = {n: found for n, found in _read(index / PROVENANCE).items() if n in known}
    for folder in [file.parent for file in index.rglob(STATUS)]:
        if folder.relative_to(index).as_posix() not in known:
            shutil.rmtree(folder)
    for outcome in outcomes:
        place = place_of(outcome.name, results)
        if outcome.folder is None:
            details.pop(outcome.name, None)
            _write_error(outcome, place)
        else:
            result = report.load(outcome.folder)
            details[outcome.name] = run_details(result, outcome.seconds)
            _write(outcome, stable(result, outcome.name), place)
    (index / PROVENANCE).write_text(
        json.dumps(details, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    (index / "README.md").write_text(_README, encoding="utf-8")
    places = [place_of(SHOWN, results), index]
    runs = report.gather([place for place in places if place.is_dir()])
    report.write_joined(runs, index)
    return runs


def stable(result: Result, name: str) -> Result:
    """Return a result without what differs from run to run."""
    kept = result.reproducible()
    return replace(kept, provenance=replace(kept.provenance, command=f"audit scenario={name}"))


def run_details(result: Result, seconds: float) -> dict[str, Any]:
    """Return what `stable` leaves out, and how long the process took."""
    times = {setting.name: setting.wall_seconds for setting in result.settings}
    environment: dict[str, Any] = encode(result.provenance.environment)
    return {**environment, "seconds_of_settings": times, "seconds_of_process": round(seconds, 1)}


def _write(outcome: Outcome, result: Result, place: Path) -> None:
    assert outcome.folder is not None
    config = (outcome.folder / "config.yaml").read_text(encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    write_small(result, place)
    (place / RESULT).write_text(to_json(result), encoding="utf-8")
    (place / "config.yaml").write_text(_OF_A_RUN.sub("", config), encoding="utf-8")
    done = status(None, result.provenance.command)
    (place / STATUS).write_text(done, encoding="utf-8")


def _write_error(outcome: Outcome, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    failed = status(outcome.error, f"audit scenario={outcome.name}")
    (place / STATUS).write_text(failed, encoding="utf-8")


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_small(result: Result, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html`` and ``report.md``, which share ``figures/*.png`` of few colours.

    `audit.report.write` makes a page that needs no other file; this one is a tenth of the size.
    The same input gives the same bytes.
    """
    document = build(result)
    pictures = document.pictures
    contents = {
        "report.html": linked(html(document).decode("utf-8"), iter(pictures)).encode("utf-8"),
        "report.md": markdown(document),
        **{f"figures/{one.name}.png": fewer_colours(one.png) for one in pictures},
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return tuple(folder / name for name in contents)


def linked(page: str, pictures: Iterator[Picture]) -> str:
    """Return a page with every drawing in it as a link to its file, in the order of the page.

    Raises
    ------
    ValueError
        If there are not as many drawings as pictures.
    """

    def link(drawn: re.Match[str]) -> str:
        one = next(pictures, None)
        if one is None:
            raise ValueError("pictures must be one for each drawing of the page, got fewer")
        label = Markup.escape(one.title)
        style = "display:block;width:100%;height:auto"
        return f'<img src="figures/{one.name}.png" alt="{label}" style="{style}">'

    text = _SVG.sub(link, page)
    if next(pictures, None) is not None:
        raise ValueError("pictures must be one for each drawing of the page, got more")
    return text


def fewer_colours(png: bytes) -> bytes:
    """Return a PNG with a palette: colours look the same, and the file is a third of the size."""
    written = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()
