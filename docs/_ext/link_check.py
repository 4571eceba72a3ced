"""Check every relative link of the built pages: the file exists, and so does the anchor."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
REFERENCE = re.compile(r"""<[^>]*?\s(?:href|src)=["']([^"']*)["']""")
ANCHOR = re.compile(r"""\s(?:id|name)=["']([^"']+)["']""")
SCHEME = re.compile(r"[a-z][a-z+.-]*:|//")
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\s(?:href|src)=["'](https?:|//)""")
SCRIPT = re.compile(r"(<script\b[^>]*>).*?</script>", flags=re.DOTALL)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page."""
    return frozenset(ANCHOR.findall(page.read_text(encoding="utf-8")))


def broken(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    found = []
    text = SCRIPT.sub(r"\1</script>", page.read_text(encoding="utf-8"))
    for link in sorted(set(REFERENCE.findall(text))):
        if SCHEME.match(link) or link in ("", "#"):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / unquote(path.partition("?")[0])))
        target = target if path else page
        if not target.is_file() or (
            anchor and target.suffix == ".html" and unquote(anchor) not in anchors(target)
        ):
            found.append(link)
    return found


def check(app: Sphinx, exception: Exception | None) -> None:
    """Warn of each broken link, and of anything that a page loads from the network."""
    if exception is not None or app.builder.format != "html":
        return
    anchors.cache_clear()
    static = Path(app.outdir) / "_static"
    for page in sorted(Path(app.outdir).rglob("*.html")):
        if static in page.parents:
            continue  # templates of the theme
        for link in broken(page):
            LOG.warning("%s: broken link %s", page.relative_to(app.outdir), link)
        if LOADED.search(page.read_text(encoding="utf-8")):
            LOG.warning("%s: loads something from the network", page.relative_to(app.outdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Check when everything is built, reports included."""
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
