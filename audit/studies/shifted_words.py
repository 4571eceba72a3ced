"""The shifted interpolated process in words, tables and charts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audit.studies.findings import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Series,
    Statement,
)
from audit.studies.shifted_losses import LossPair
from audit.studies.shifted_process import Plan, Simulated

Array = NDArray[np.float64]

_ROWS = 8  # times that the table shows


def findings(
    pair: LossPair,
    plan: Plan,
    found: Simulated,
    statements: tuple[Statement, ...],
    paths: int,
) -> Findings:
    """Return the statements with a table of distances and three charts."""
    steps = pair.mechanism.steps
    note = (
        f"X and X' share their noise up to tau = {plan.tau}; there X~ starts at X', and takes the "
        f"noise of X. The updates are c-Lipschitz with c = {pair.contraction:.6g} and s = "
        f"{pair.shift:.6g} apart; a step's noise has the deviation {pair.mechanism.step_std:.6g}. "
        "What holds on every path allows for rounding alone. Tests of laws share the error that "
        "the confidence leaves, each the same part of it, and compare distribution functions by "
        "the band of Dvoretzky, Kiefer and Wolfowitz."
    )
    return Findings(
        statements=statements,
        notes=(note,),
        tables=(_table(plan, found, steps),),
        charts=(_envelope(plan, found, steps, paths), _path(plan, found, steps)),
        numbers={
            "tau": plan.tau,
            "shifts": plan.shifts.tolist(),
            "distances": plan.distances.tolist(),
            "costs": plan.costs.tolist(),
            "largest": found.largest.tolist(),
            "largest_pushes": found.pushes.tolist(),
        },
    )


def _table(plan: Plan, found: Simulated, steps: int) -> FoundTable:
    times = np.unique(np.linspace(plan.tau + 1, steps, _ROWS).round().astype(int))
    rows = tuple(
        (
            int(k),
            float(plan.shifts[k - plan.tau - 1]),
            float(plan.distances[k - plan.tau]),
            float(found.largest[k - plan.tau]),
            float(plan.costs[k - plan.tau - 1]),
            float(found.pushes[k - plan.tau - 1]),
        )
        for k in times
    )
    return FoundTable(
        caption="What the theorem allows at a step, and the most that any path needed",
        columns=("k", "lambda_k", "z_k", "largest distance", "a_k", "largest push"),
        rows=rows,
    )


def _envelope(plan: Plan, found: Simulated, steps: int, paths: int) -> Chart:
    times = tuple(float(k) for k in range(plan.tau, steps + 1))
    inner = plan.distances > 0
    reached = np.max(found.largest[inner] / plan.distances[inner], initial=0.0)
    caption = (
        f"Distance of X~ from X over {paths:,} paths, from tau = {plan.tau} to t = {steps}. No "
        f"path leaves the band below z_k; the farthest one comes to {reached:.3f} of it, and all "
        "distances are 0 at the end."
        if np.all(found.largest <= plan.distances * (1 + 1e-9) + 1e-12)
        else f"Distance of X~ from X over {paths:,} paths. Some path leaves the band below z_k."
    )
    return Chart(
        name="distances",
        title="Distance of the shifted process from X",
        caption=caption,
        x_label="step k",
        y_label="|X~ - X|",
        series=(
            Series(name="up to z_k", x=times, y=(0.0,) * len(times),
                   top=tuple(plan.distances.tolist()), drawn=Drawn.BAND),
            Series(name="z_k", x=times, y=tuple(plan.distances.tolist())),
            Series(name="largest of all paths", x=times, y=tuple(found.largest.tolist()),
                   drawn=Drawn.POINTS),
            Series(name="mean", x=times, y=tuple(found.mean.tolist())),
        ),
    )  # fmt: skip


def _path(plan: Plan, found: Simulated, steps: int) -> Chart:
    all_times = tuple(float(k) for k in range(steps + 1))
    first, prime, between = found.path
    return Chart(
        name="path",
        title="One path of the three processes",
        caption=(
            f"The first simulated path, along the first axis. X~ leaves X' at k = {plan.tau} and "
            f"meets X at k = {steps}."
        ),
        x_label="step k",
        y_label="first coordinate",
        series=(
            Series(name="X", x=all_times, y=tuple(first.tolist())),
            Series(name="X'", x=all_times, y=tuple(prime.tolist())),
            Series(name="X~", x=all_times[plan.tau :], y=tuple(between.tolist())),
        ),
    )
