"""The report as one HTML file and as Markdown."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from audit.report.document import Cell, Document, Picture, Style


def html(document: Document) -> bytes:
    """Return one self-contained page: no script, nothing loaded from elsewhere."""
    page = _environment(autoescape=True).get_template("report.html.j2")
    return (page.render(document=document).rstrip() + "\n").encode("utf-8", "backslashreplace")


def markdown(document: Document) -> bytes:
    """Return the same parts as Markdown; figures are the PNG files beside it."""
    page = _environment(autoescape=False).get_template("report.md.j2")
    text = page.render(document=document)
    return (re.sub(r"\n{3,}", "\n\n", text).strip() + "\n").encode("utf-8", "backslashreplace")


@cache
def _environment(*, autoescape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(svg=_inline, breakable=_breakable, md=_escaped, md_cell=_cell)
    return environment


def _inline(picture: Picture) -> Markup:
    """Return the drawing as an element of the page, with its title for those who cannot see it."""
    text = picture.svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", text, count=1)
    label = Markup.escape(picture.title)
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))


def _breakable(text: str) -> Markup:
    """Let identifiers break after their dots."""
    pieces = re.split(r"(?<=[a-z0-9]\.)(?=[a-z])", text)
    return Markup("<wbr>").join(pieces)


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    escaped = re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", text.replace("&", "&amp;"))
    return " ".join(escaped.split())


def _cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    if cell.style is Style.VERDICT and text:
        text = f"**{text}**" if cell.text in ("refuted", "error") else text
    if cell.link:
        text = f"[{text}]({cell.link})"
    if cell.note:
        text += f" ({_escaped(cell.note)})"
    return text
