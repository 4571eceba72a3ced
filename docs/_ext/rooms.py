"""The directive ``rooms``: the rooms of the package in their order, as an inline SVG.

The order is read from ``tests/test_imports.py``, which enforces it. Colours are those of the theme,
light or dark.
"""

from __future__ import annotations

import ast
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ORDER = Path(__file__).resolve().parents[2] / "tests" / "test_imports.py"
WIDTH, HEIGHT, GAP, STEP = 440, 34, 8, 48
# Rooms of a row in the order in which a reader meets them.
FIRST = (
    "scenario",
    "claims",
    "search",
    "bounds",
    "exact",
    "mechanism",
    "constructions",
    "numerics",
)


def rows() -> list[list[str]]:
    """Return the rooms from the top."""
    tree = ast.parse(ORDER.read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROWS"
    )
    return [
        sorted(rooms, key=lambda room: (room not in FIRST, room))
        for rooms in ast.literal_eval(value)
    ]


def drawing() -> str:
    """Return the SVG."""
    found = rows()
    parts = []
    for place, rooms in enumerate(found):
        y = place * STEP
        weights = [len(room) + 4 for room in rooms]
        share = (WIDTH - 2 - GAP * (len(rooms) - 1)) / sum(weights)
        x = 1.0
        for room, weight in zip(rooms, weights, strict=True):
            width = share * weight
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 1}" width="{width:.1f}" height="{HEIGHT}" rx="5"/>'
                f'<text x="{x + width / 2:.1f}" y="{y + 23}">{room}</text>'
            )
            x += width + GAP
        if place:
            parts.append(f'<path d="M{WIDTH / 2} {y - 12} v10 m-4 -5 l4 5 l4 -5"/>')
    height = (len(found) - 1) * STEP + HEIGHT + 2
    listed = "; ".join(", ".join(rooms) for rooms in found)
    return (
        f'<svg class="diagram" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Rooms from the top: {listed}">{"".join(parts)}</svg>'
    )


class Rooms(SphinxDirective):
    """Draw the rooms."""

    def run(self) -> list[nodes.Node]:
        """Write the SVG into the page."""
        self.env.note_dependency(str(ORDER))
        return [nodes.raw("", drawing(), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("rooms", Rooms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
