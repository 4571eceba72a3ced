"""What the Hölder constants on Iris are, and are not, as statements, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from audit.studies.findings import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Series,
    Statement,
    Verdict,
)
from audit.studies.holder_constants import Around, Differences
from audit.studies.iris_words import ONE_CONSTANT, Curves, Fit, Setup, course, ends, notes
from audit.studies.mlp import Activation

Array = NDArray[np.float64]

_PAPER = "Chien and Li 2025"
_BINS = 16
_SMALL_ORDER = 0.5  # below it the paper finds the bound to become worse (A.13)
_MUCH = 0.5  # times: "much smaller"
_ROUNDING = 1e-6  # of gradient differences, relatively


def findings(
    around: Mapping[Around, Differences],
    kink: Differences,
    steepest: Differences,
    *,
    orders: tuple[float, ...],
    renyi_order: float,
    dimension: int,
    activation: Activation,
    setup: Setup,
    curves: Curves,
) -> Findings:
    """Put in words what was found; the parameters are those of `IrisHolder`."""
    near = around[Around.DISTANCES]
    centres, tops = bin_maxima(near.distance, near.record)
    fit = fitted(centres, tops)
    return Findings(
        statements=(
            _rim(around[Around.BALL], dimension),
            _smaller_orders(near, orders),
            _exceeded(around, (kink, steepest), orders),
            *_levels_off(curves),
        ),
        tables=(
            _constants_table(around, kink, steepest, orders),
            _bounds_table(curves, renyi_order),
        ),
        charts=(
            _differences_chart(around, kink, steepest, fit),
            _bounds_chart(curves, renyi_order),
        ),
        notes=notes(activation, dimension, around[Around.BALL], fit, setup, curves),
        numbers={
            "fitted_order": fit.order,
            "fitted_constant": fit.constant,
            "nearest_in_ball": float(np.min(around[Around.BALL].distance)),
        },
    )


def bin_maxima(distance: Array, size: Array) -> tuple[Array, Array]:
    """Return the places of the largest ``size`` in bins of log distance, and those sizes.

    Empty bins are left out. A maximum is shown at its own distance, not at the bin's middle.
    """
    logs = np.log(distance)
    edges = np.linspace(np.min(logs), np.max(logs), _BINS + 1)
    index = np.clip(np.searchsorted(edges, logs, side="right") - 1, 0, _BINS - 1)
    best = [
        int(np.flatnonzero(index == b)[np.argmax(size[index == b])])
        for b in range(_BINS)
        if np.any(index == b)
    ]
    return distance[best], size[best]


def fitted(distance: Array, size: Array) -> Fit:
    """Fit a power of the distance by least squares on log axes; zeros are left out."""
    kept = size > 0
    order, log_constant = np.polyfit(np.log(distance[kept]), np.log(size[kept]), 1)
    return Fit(float(np.exp(log_constant)), float(order))


def _rim(ball: Differences, dimension: int) -> Statement:
    low = float(np.min(ball.distance))
    low_order, high_order = (ball.constant(order, record=False) for order in (0.0, 1.0))
    return Statement(
        claim=(
            f"the printed procedure finds one constant for all orders (largest over smallest), as "
            f"its points in {dimension} dimensions all lie beyond {low:.3f} of the radius"
        ),
        citation="this package, on appendix A.13",
        expected=f"at most {ONE_CONSTANT:g}",
        found=high_order / low_order,
        verdict=Verdict.HOLDS if high_order / low_order <= ONE_CONSTANT else Verdict.INCONCLUSIVE,
    )


def _smaller_orders(near: Differences, orders: tuple[float, ...]) -> Statement:
    small, large = (near.constant(order, record=True) for order in (orders[0], orders[-1]))
    ratio = small / large
    return Statement(
        claim=(
            f"estimates of order {orders[0]:g} may be much smaller than of order {orders[-1]:g}: "
            "at most half (the first over the second; one record, over all distances)"
        ),
        citation=f"{_PAPER}, section 1.1 and Figure 2(a)",
        expected=f"at most {_MUCH:g}",
        found=ratio,
        verdict=Verdict.HOLDS if ratio <= _MUCH else Verdict.INCONCLUSIVE,
    )


def _exceeded(
    around: Mapping[Around, Differences],
    others: tuple[Differences, ...],
    orders: tuple[float, ...],
) -> Statement:
    """Compare estimates with differences that were met elsewhere; none proves an estimate right."""
    ball = around[Around.BALL]
    elsewhere = Differences.joined([around[Around.DISTANCES], *others])
    least = min(
        elsewhere.constant(order, record=True) / ball.constant(order, record=True)
        for order in orders
    )
    return Statement(
        claim=(
            "the estimates are too small for a guarantee: for every order some pair of weights, at "
            "most 1 apart, differs by more (times the estimate)"
        ),
        citation="this package, on appendix A.13",
        expected="above 1",
        found=least,
        verdict=Verdict.HOLDS if least > 1 + _ROUNDING else Verdict.INCONCLUSIVE,
    )


def _levels_off(curves: Curves) -> list[Statement]:
    last = curves.steps[-1]
    ends = {order: values[-1] for order, values in curves.holder.items()}
    best = min(ends, key=lambda order: ends[order])
    found = [
        Statement(
            claim=(
                f"with these constants, were they true, Theorem 3.7 is below composition after "
                f"{last} steps (order {best:g})"
            ),
            citation=f"{_PAPER}, Figure 2(a)",
            expected=f"below {curves.composition[-1]:.6g}",
            found=ends[best],
            verdict=Verdict.HOLDS if ends[best] < curves.composition[-1] else Verdict.INCONCLUSIVE,
        )
    ]
    small = [order for order in ends if order < _SMALL_ORDER]
    if small and _SMALL_ORDER in ends:
        worse = ends[min(small)] > ends[_SMALL_ORDER]
        found.append(
            Statement(
                claim=(
                    f"the bound of order {min(small):g} is worse than that of order "
                    f"{_SMALL_ORDER:g}"
                ),
                citation=f"{_PAPER}, appendix A.13",
                expected=f"above {ends[_SMALL_ORDER]:.6g}",
                found=ends[min(small)],
                verdict=Verdict.HOLDS if worse else Verdict.INCONCLUSIVE,
            )
        )
    return found


def _constants_table(
    around: Mapping[Around, Differences],
    kink: Differences,
    steepest: Differences,
    orders: tuple[float, ...],
) -> FoundTable:
    ball, near = around[Around.BALL], around[Around.DISTANCES]
    return FoundTable(
        caption=(
            "Estimated Hölder constants: each is the largest ratio met, so the true one is at "
            "least as large. The first column is the printed procedure; Theorem 3.7 needs the "
            "largest over records, distances and directions."
        ),
        columns=(
            "order",
            "ball, mean gradient",
            "ball, one record",
            "all distances, mean gradient",
            "all distances, one record",
            "steepest direction, one record",
            "across one switch, one record",
        ),
        rows=tuple(
            (
                order,
                ball.constant(order, record=False),
                ball.constant(order, record=True),
                near.constant(order, record=False),
                near.constant(order, record=True),
                steepest.constant(order, record=True),
                kink.constant(order, record=True),
            )
            for order in orders
        ),
    )


def _bounds_table(curves: Curves, renyi_order: float) -> FoundTable:
    last = curves.steps[-1]
    return FoundTable(
        caption=(
            f"Renyi bounds of order {renyi_order:g} after {last} steps in the setting named in the "
            "notes, with constants of the printed procedure (ball, mean gradient). They are no "
            "guarantee for this network; the printed bound of the last step is false in general."
        ),
        columns=(
            "order",
            "constant",
            "Theorem 3.7",
            "composition",
            "last step, printed",
            "last step, corrected",
        ),
        rows=tuple(
            (
                order,
                curves.constants[order],
                values[-1],
                curves.composition[-1],
                curves.last_step[-1],
                curves.last_step_corrected[-1],
            )
            for order, values in curves.holder.items()
        ),
    )


def _differences_chart(
    around: Mapping[Around, Differences], kink: Differences, steepest: Differences, fit: Fit
) -> Chart:
    def maxima(name: str, found: Differences, size: Array) -> Series:
        x, y = bin_maxima(found.distance, size)
        return Series(
            name=name,
            x=tuple(x.tolist()),
            y=tuple(y.tolist()),
            drawn=Drawn.POINTS,
        )

    near = around[Around.DISTANCES]
    nearest = float(np.min(around[Around.BALL].distance))
    ends = np.array([np.min(near.distance), np.max(near.distance)])
    line = fit.constant * ends**fit.order
    # the switch is drawn where the other points are; it goes on to the left as it is
    shown = kink.distance >= 1e-4
    return Chart(
        name="gradient_differences",
        title="Largest gradient differences against distance",
        caption=(
            f"The printed procedure looks at distances above {nearest:.3f} only. A Hölder "
            "constant of order p is the height at distance 1 of a line with slope p above all "
            "points; where one switch of a unit gives a level line, no order has one."
        ),
        x_label="distance of the weights",
        y_label="largest gradient difference",
        series=(
            maxima("one record", near, near.record),
            maxima("one record, steepest direction", steepest, steepest.record),
            maxima("mean gradient", near, near.mean),
            maxima("ball, mean gradient", around[Around.BALL], around[Around.BALL].mean),
            Series(
                name="across one switch",
                x=tuple(kink.distance[shown].tolist()),
                y=tuple(kink.record[shown].tolist()),
            ),
            Series(
                name=f"fit, order {fit.order:.2f}",
                x=tuple(ends.tolist()),
                y=tuple(line.tolist()),
            ),
        ),
        x_logarithmic=True,
        y_logarithmic=True,
    )


def _bounds_chart(curves: Curves, renyi_order: float) -> Chart:
    x = tuple(float(t) for t in curves.steps)
    series = [
        Series(name=f"Theorem 3.7, order {order:g}", x=x, y=values)
        for order, values in curves.holder.items()
    ]
    series += [
        Series(name="composition", x=x, y=curves.composition),
        Series(name="last step, corrected", x=x, y=curves.last_step_corrected),
    ]
    return Chart(
        name="bounds",
        title="Bounds with estimated constants, were they true",
        caption=(
            f"{' '.join(course(order, curves) for order in ends(curves.holder))} These are no "
            "guarantee: estimated constants are lower bounds."
        ),
        x_label="steps",
        y_label=f"Renyi divergence of order {renyi_order:g}",
        series=tuple(series),
        x_logarithmic=True,
    )
