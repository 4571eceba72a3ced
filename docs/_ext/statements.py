"""The directive ``statements``: what a claims file can claim, from the registry of quantities."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from schema_tables import row
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from audit.claims.claim import PLACES, NumberSource
from audit.codec.schemas import about, about_fields
from audit.curves.quantities import QUANTITIES


def statements() -> Iterator[tuple[str, str]]:
    """Yield each form of a claim and what it says, as Markdown."""
    for cls in QUANTITIES.values():
        several = f", or `{cls.rows}` for several" if cls.rows else ""
        said = about(cls).replace("`at`", f"`{cls.place}`")
        yield cls.written.replace("``", "`").rstrip(".") + several, said
    places = " or ".join(f"`{place}`" for place in PLACES)
    for source, said in about_fields(NumberSource).items():
        yield f"`{NumberSource[source].value}` with {places}", said
    for cls in QUANTITIES.values():
        if cls.exceeds:
            keys = f"{cls.value or cls.kind}: ..., {cls.place}: ..."
            yield f"`{cls.exceeds}: {{{keys}}}`", f"The {cls.name} of some pair exceeds this."


class Statements(SphinxDirective):
    """List the forms of a claim."""

    def run(self) -> list[nodes.Node]:
        """Write a definition list."""
        rows = "".join(row(form, said) for form, said in statements())
        return [nodes.raw("", f'<dl class="keys">{rows}</dl>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("statements", Statements)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
