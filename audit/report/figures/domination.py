"""Stochastic domination of the auxiliary walk by the biased one, in paper 000's proof."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from audit.report import stored
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.number_format import number
from audit.report.stored import Node


def draw(setting: Node) -> Picture:
    """Draw both distribution functions on a logarithmic axis."""
    data = setting["diagnostics"]["domination"]
    x = np.asarray(data["x"], dtype=np.float64)
    biased = np.asarray(data["cdf_biased"], dtype=np.float64)
    auxiliary = np.asarray(data["cdf_auxiliary"], dtype=np.float64)
    shown = [values[values > 0] for values in (biased, auxiliary)]
    floor = max(min((float(v.min()) for v in shown if len(v)), default=1e-12), 1e-30)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_yscale("log")
        axes.set_ylim(floor, 3)
        style.logarithmic(axes.yaxis)
        for values, colour, line, name in (
            (auxiliary, "#117733", "-.", "auxiliary walk omega''"),
            (biased, style.SECOND, "-", "biased walk omega' (X')"),
        ):
            axes.plot(
                x, np.where(values >= floor, values, np.nan), color=colour, ls=line, label=name
            )
        axes.set_xlim(x[0], x[-1])
        axes.set_xlabel("last iterate x")
        axes.set_ylabel("distribution function at x")
        style.legend_below(figure, axes)

    name = f"{stored.stem(setting)}-domination"
    return style.picture(name, "Stochastic domination", caption(data), on, 2.9)


def caption(data: Node) -> str:
    """Say whether the biased walk's distribution function stays below."""
    verdict = data.get("verdict", "inconclusive")
    margin = data.get("smallest_margin")
    says = {
        stored.CONSISTENT: "The biased walk's distribution function nowhere exceeds the auxiliary "
        "walk's beyond numerical error: consistent with domination",
        stored.REFUTED: "The biased walk's distribution function exceeds the auxiliary walk's: "
        "domination is refuted",
    }.get(verdict, f"On domination the computation is {verdict}")
    return says + (f" (smallest margin {number(margin, 2)})." if margin is not None else ".")
