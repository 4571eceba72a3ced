"""The directive ``cell-figure``: one cell of two laws, merged and split.

Computed by the package itself: the bounds on the loss are those of `audit.exact`.
"""

from __future__ import annotations

import base64
import io

import numpy as np
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from audit.exact.law import Law, edge_table
from audit.exact.normal_cells import largest_ratio

ENDS = np.array([-0.9, 1.1])
BLUE, ORANGE, GREY = "#2f6f9f", "#c8632a", "#6b7280"


def drawing() -> Figure:
    """Return the figure: densities between tangents and chord, and tests on the cell."""
    p = Law.of(np.array([-1.2, 1.5]), np.ones(2), np.log([0.35, 0.65]), exact_means=True)
    q = Law.of(np.array([-1.4, 0.4]), np.ones(2), np.log([0.7, 0.3]), exact_means=True)
    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    y = np.linspace(*ENDS, 400)
    width, share = ENDS[1] - ENDS[0], (y - ENDS[0]) / (ENDS[1] - ENDS[0])
    tables = [edge_table(law, ENDS) for law in (p, q)]
    for law, table, colour, name in zip((p, q), tables, (BLUE, ORANGE), "pq", strict=True):
        lifted = law.log_density(y) + y**2 / 2
        left.plot(y, lifted, color=colour, label=rf"$\log {name} + y^2/2s^2$")
        heights, slopes = table.log_density + ENDS**2 / 2, table.score + ENDS
        if name == "p":
            left.plot(ENDS, heights, color=colour, linestyle="--", label="its chord")
        else:
            lines = [h + g * (y - end) for h, g, end in zip(heights, slopes, ENDS, strict=True)]
            left.plot(y, np.max(lines, axis=0), color=colour, linestyle="--", label="its tangents")
    left.set(xlabel="$y$", title="The largest loss: chord of $p$ less tangents of $q$")
    left.set_xticks(ENDS, ["left end", "right end"])
    left.legend(fontsize="small")
    ends = [table.ends for table in tables]
    high = float(largest_ratio(np.array([width]), *ends, 1.0)[0])
    low = -float(largest_ratio(np.array([width]), *reversed(ends), 1.0)[0])
    loss = p.log_density(y) - q.log_density(y)
    rank = np.argsort(-loss)
    step = width / share.size
    tests = [np.cumsum(law.density(y[rank])) * step for law in (q, p)]
    whole_q, whole_p = (float(test[-1]) for test in tests)
    # two outcomes of losses high and low that keep both masses
    at = (whole_p - np.exp(low) * whole_q) / (np.exp(high) - np.exp(low))
    right.plot(*[np.append(0, test) for test in tests], color=BLUE, label="the cell itself")
    right.plot([0, whole_q], [0, whole_p], color=GREY, label="merged: one outcome")
    right.plot(
        [0, at, whole_q],
        [0, np.exp(high) * at, whole_p],
        color=ORANGE,
        marker="o",
        markersize=4,
        label="split: two outcomes",
    )
    right.set(xlabel="$Q(S)$", ylabel="$P(S)$", title="The best tests within the cell")
    right.legend(fontsize="small", loc="lower right")
    return figure


class CellFigure(SphinxDirective):
    """Show the figure."""

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        buffer = io.BytesIO()
        drawing().savefig(buffer, format="png", dpi=130)
        data = base64.b64encode(buffer.getvalue()).decode()
        alt = "A cell of two laws: its densities between tangents and chord, and its tests"
        html = f'<img class="figure" src="data:image/png;base64,{data}" alt="{alt}">'
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("cell-figure", CellFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
