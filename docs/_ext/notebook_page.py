"""Pages of notebooks: cells and stored outputs as Markdown, written before the site is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = "tutorials"


def page(notebook: dict[str, Any], file: str) -> str:
    """Return a notebook as Markdown, with a link to ``file`` below the title."""
    title, *rest = notebook["cells"]
    link = f"{{download}}`This page as a notebook <../{file}>`"
    parts = ["".join(title["source"]), link, *(part for cell in rest for part in _parts(cell))]
    return "\n\n".join(parts) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", [])})
        if "image/png" in data:
            image = f'<img src="data:image/png;base64,{data["image/png"]}" alt="figure">'
            yield f"```{{raw}} html\n{image}\n```"
        elif "text/html" in data:
            yield f"```{{raw}} html\n{''.join(data['text/html'])}\n```"
        else:
            yield f"```text\n{''.join(data['text/plain'])}\n```"


def write_pages(app: Sphinx) -> None:
    """Write the source of every notebook's page."""
    folder = Path(app.srcdir) / FOLDER
    for file in folder.glob("*.ipynb"):
        text = page(json.loads(file.read_text(encoding="utf-8")), file.name)
        target = folder / "generated" / f"{file.stem}.md"
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages when a build begins."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
