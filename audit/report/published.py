"""A run's report for a repository: pages that share small figures, one copy of each."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from audit.report.document import Picture
from audit.report.files import check

# The README shows this one: whole, with every figure as SVG, in a folder beside all others.
SHOWN = "at22_lower_bound"
_COLOURS = 64
_SVG = re.compile(r"<svg\b.*?</svg>", flags=re.DOTALL)


def write(result: dict[str, Any], folder: Path) -> tuple[Path, ...]:
    """Write ``report.html`` and ``report.md``, both showing ``figures/*.png`` of few colours.

    `audit.report.write` makes a page that needs no other file; this one is a tenth of the size.
    The same input gives the same bytes.

    Raises
    ------
    ValueError
        If ``result`` is no result (see `audit.report.files.check`).
    """
    from audit.report.render import html, markdown
    from audit.report.run_report import build

    document = build(check(result))
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
    from PIL import Image

    written = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()
