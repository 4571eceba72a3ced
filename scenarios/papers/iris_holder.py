"""Hölder constants of a perceptron on Iris, and Theorem 3.7 of Chien and Li 2025 with them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import bounds, validate
from audit.mechanism import NoisySGD
from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers.datasets import data_set, one_thread
from papers.holder_constants import (
    Activation,
    Around,
    Differences,
    Estimation,
    Labels,
    Perceptron,
    across_a_kink,
    along_steepest,
)

Array = NDArray[np.float64]

_KINK_DISTANCES = np.geomspace(1e-12, 1e-1, 23)
_STEEPEST_DISTANCES = np.geomspace(1e-3, 1, 7)
_PAPER = "Chien and Li 2025"
_BINS = 16
_SMALL_ORDER = 0.5  # below it the paper finds the bound to become worse (A.13)
_MUCH = 0.5  # times: "much smaller"
_ROUNDING = 1e-6  # of gradient differences, relatively
ONE_CONSTANT = 1.05  # the largest over the smallest estimate, where orders cannot be told apart
_LEVEL = 0.01  # a relative growth from half of the steps to all that is called level


@dataclass(frozen=True, kw_only=True)
class Figure1:
    """The setting of Figure 1 of Chien and Li 2025, in which Figure 2(a) computes its bound.

    Parameters
    ----------
    dataset_size, clip_norm, iterate_noise, diameter, step_size
        n, K, the paper's sigma (which is added to the iterate), D and eta.
    steps
        T up to which the bound is drawn.
    """

    dataset_size: int = 5
    clip_norm: float = 2.0
    iterate_noise: float = 1.0
    diameter: float = 1.0
    step_size: float = 0.1
    steps: int = 200

    def __post_init__(self) -> None:
        self.mechanism(self.steps, (1.0, 1.0))

    def mechanism(self, steps: int, holder: tuple[float, float]) -> NoisySGD:
        """Return the public parameters, with a Hoelder (constant, order)."""
        validate.positive(step_size=self.step_size, iterate_noise=self.iterate_noise)
        return NoisySGD(
            steps=steps,
            dataset_size=self.dataset_size,
            batch_size=self.dataset_size,
            step_size=self.step_size,
            noise_std=self.iterate_noise / self.step_size,
            clip_norm=self.clip_norm,
            convex=False,
            diameter=self.diameter,
            holder=holder,
        )


@study
@dataclass(frozen=True, kw_only=True)
class IrisHolder:
    """Estimate Hölder constants of a two-layer perceptron on Iris, and bound privacy with them.

    Appendix A.13 of Chien and Li 2025: hidden dimension 64, learning rate 0.1, 200 epochs, clip
    norm 1, cross-entropy times 0.1; around each weight of the trajectory 100 points uniform in the
    ball of radius 1; the largest ratio of gradient difference to distance^order; 20 starts. The
    paper does not name the activation, the start, the batches, the scaling of the data, or whose
    gradient it takes. Here: ReLU (or tanh), the start of PyTorch's layers, full batches without
    noise, Iris as it is, and both the mean gradient and each record's.

    An estimated constant is a lower bound on the true one, so the epsilons are no guarantee.

    Parameters
    ----------
    renyi_order
        The order of the Renyi divergences that are bounded.
    activation
        Of the hidden units.
    orders
        Hölder orders, in (0, 1], increasing.
    hidden, epochs, step_size, clip_norm, loss_scale, points, starts
        The numbers above.
    near_points
        Points around a weight at distances from 0.001 to 1, evenly on a log axis; not the paper's.
    every
        Points are drawn around every so many-th weight; 1 is the paper's.
    figure
        Where the bound is computed.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    renyi_order: float
    activation: Activation = Activation.RELU
    orders: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0)
    hidden: int = 64
    epochs: int = 200
    step_size: float = 0.1
    clip_norm: float = 1.0
    loss_scale: float = 0.1
    points: int = 100
    starts: int = 20
    near_points: int = 25
    every: int = 1
    figure: Figure1 = Figure1()

    def __post_init__(self) -> None:
        validate.above_one(renyi_order=self.renyi_order)
        validate.integer(1, starts=self.starts)
        if not self.orders or list(self.orders) != sorted(set(self.orders)):
            raise validate.fail("orders", "increasing numbers in (0, 1]", self.orders)
        if self.orders[0] <= 0 or self.orders[-1] > 1:
            raise validate.fail("orders", "increasing numbers in (0, 1]", self.orders)
        self.model(1, 2)
        self.estimation()

    def model(self, inputs: int, classes: int) -> Perceptron:
        """Return the network for data of that form."""
        return Perceptron(
            inputs=inputs,
            hidden=self.hidden,
            classes=classes,
            activation=self.activation,
            scale=self.loss_scale,
        )

    def estimation(self) -> Estimation:
        """Return the procedure that finds gradient differences."""
        return Estimation(
            epochs=self.epochs,
            step_size=self.step_size,
            clip_norm=self.clip_norm,
            points=self.points,
            near_points=self.near_points,
            every=self.every,
        )

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Estimate and bound; the number of threads changes nothing but the time.

        Raises
        ------
        ImportError
            If scikit-learn is absent.
        """
        features, labels = iris()
        model = self.model(features.shape[1], int(labels.max()) + 1)
        estimation = self.estimation()
        *streams, last = np.random.SeedSequence(seed).spawn(self.starts + 1)

        def one(stream: np.random.SeedSequence) -> tuple[Array, dict[Around, Differences]]:
            return estimation.differences(model, features, labels, np.random.default_rng(stream))

        seen = []
        with one_thread(), ThreadPoolExecutor(threads) as pool:
            for found in pool.map(one, streams):
                seen.append(found)
                progress(len(seen), self.starts)
            first = (model, seen[0][0], features, labels)
            kink = across_a_kink(*first, _KINK_DISTANCES)
            steepest = along_steepest(*first, _STEEPEST_DISTANCES, np.random.default_rng(last))
        around = {way: Differences.joined([found[way] for _, found in seen]) for way in Around}
        printed = {
            order: around[Around.BALL].constant(order, record=False) for order in self.orders
        }
        return _findings(
            around,
            kink,
            steepest,
            orders=self.orders,
            renyi_order=self.renyi_order,
            dimension=model.dimension,
            activation=self.activation,
            setup=Setup(
                records=len(labels),
                clip_norm=self.clip_norm,
                bound_size=self.figure.dataset_size,
                bound_clip_norm=self.figure.clip_norm,
                bound_diameter=self.figure.diameter,
            ),
            curves=bound_curves(self.figure, printed, self.renyi_order),
        )


def iris() -> tuple[Array, Labels]:
    """Return the four measures of 150 flowers, shape (150, 4), and their species, 0 to 2."""
    loaded = data_set("iris")
    return np.asarray(loaded.data, np.float64), np.asarray(loaded.target, np.int64)


def shown_steps(longest: int) -> tuple[int, ...]:
    """Return numbers of steps, about evenly on a log axis, that end with the longest."""
    return tuple(sorted({round(t) for t in np.geomspace(1, longest, 25)}))


def bound_curves(figure: Figure1, constants: Mapping[float, float], renyi_order: float) -> Curves:
    """Bound the Renyi divergence for every number of steps shown.

    Theorem 3.7 with each order and its constant, composition, and the last step alone (the printed
    bound alpha D^2/(2 sigma^2), which the catalogue refutes, and the corrected one with the
    constant of the largest order).
    """
    steps = shown_steps(figure.steps)
    largest = max(constants)

    def bounded(name: str, holder: tuple[float, float]) -> tuple[float, ...]:
        return tuple(
            float(bounds.evaluate(name, figure.mechanism(t, holder)).renyi(renyi_order))
            for t in steps
        )

    reference = (constants[largest], largest)
    return Curves(
        steps=steps,
        constants=dict(constants),
        holder={
            order: bounded("cl25.theorem_3_7", (constant, order))
            for order, constant in constants.items()
        },
        composition=bounded("bsa24.theorem_4_1", reference),
        last_step=bounded("cl25.output_perturbation", reference),
        last_step_corrected=bounded("cl25.output_perturbation_corrected", reference),
    )


def _findings(
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
    """Return the findings; the parameters are those of `IrisHolder`."""
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


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Renyi bounds for each number of steps; ``holder`` has one curve for each Hölder order."""

    steps: tuple[int, ...]
    constants: Mapping[float, float]
    holder: Mapping[float, tuple[float, ...]]
    composition: tuple[float, ...]
    last_step: tuple[float, ...]
    last_step_corrected: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The training, and the setting in which the bound is computed."""

    records: int
    clip_norm: float
    bound_size: int
    bound_clip_norm: float
    bound_diameter: float


@dataclass(frozen=True)
class Fit:
    """The line log difference = log constant + order log distance through bin maxima."""

    constant: float
    order: float


def ends(holder: Mapping[float, tuple[float, ...]]) -> tuple[float, ...]:
    """Return the smallest and the largest order, or the only one."""
    return tuple(sorted({min(holder), max(holder)}))


def course(order: float, curves: Curves) -> str:
    """Describe a bound: where it leaves composition, and how much it grows at the end."""
    values = curves.holder[order]
    apart = [
        step
        for step, value, composed in zip(curves.steps, values, curves.composition, strict=True)
        if value < composed * (1 - _LEVEL)
    ]
    along = f"is below composition from {apart[0]} steps on" if apart else "is that of composition"
    last = curves.steps[-1]
    middle = max(i for i, step in enumerate(curves.steps) if step <= max(1, last // 2))
    growth = values[-1] / values[middle] - 1
    grown = f"grows by {100 * growth:.3g} percent from {curves.steps[middle]} to {last} steps"
    if curves.steps[middle] == last:
        return f"With order {order:g} the bound {along}."
    still = "is level" if growth <= _LEVEL else "is not level yet"
    return f"With order {order:g} the bound {along}, {grown} and {still}."


def notes(
    activation: Activation,
    dimension: int,
    ball: Differences,
    fit: Fit,
    setup: Setup,
    curves: Curves,
) -> tuple[str, ...]:
    """Return the notes, with the numbers of this run in them."""
    switch = (
        "The gradient of a ReLU network jumps where a unit switches, so it is Hölder continuous of "
        "no order, and its true constants are infinite: the jump is shown at distances down to "
        "1e-12."
        if activation is Activation.RELU
        else "Gradients of a tanh network are smooth, so true constants exist on a bounded set; "
        "they are at least the largest number of a row of the table."
    )
    return (
        "An estimated Hölder constant is a lower bound on the true one. An epsilon computed from "
        "it can be too small, and is no guarantee. The paper says as much: a proof of concept that "
        "does not assert that networks have Hölder continuous gradients.",
        switch,
        _of_the_ball(dimension, ball, curves),
        "Points at all distances are this package's addition; the fitted order of their largest "
        f"differences is {fit.order:.2f}. Directions matter as well: the table has random ones "
        "beside the steepest.",
        "Theorem 3.7 assumes the constant of each record's loss; the mean gradient's is no larger. "
        "The paper leaves open which it took, the activation, the start, the batches and the "
        "scaling of the data, and gives no numbers of Figure 2(a) in its text: the figure's shape "
        "can be compared, its values cannot.",
        f"The bound is for n = {setup.bound_size}, clip norm {setup.bound_clip_norm:g} and a "
        f"domain of diameter {setup.bound_diameter:g}, as in Figure 1 unless set otherwise, not "
        f"for the training that the constants come from ({setup.records} records, clip norm "
        f"{setup.clip_norm:g}, no noise, no domain).",
    )


def _of_the_ball(dimension: int, ball: Differences, curves: Curves) -> str:
    """Describe how far out the points of the printed procedure lie, and the effect on orders."""
    nearest = float(np.min(ball.distance))
    low, high = (ball.constant(order, record=False) for order in (0.0, 1.0))
    text = (
        f"Uniform points in a ball of {dimension} dimensions, radius 1, lie beyond {nearest:.3f} "
        f"here. Their constants of order 1 and of order 0 differ by a factor of {high / low:.4g}"
    )
    if high / low > ONE_CONSTANT:
        return f"{text}."
    ends = {order: values[-1] for order, values in curves.holder.items()}
    best = min(ends, key=lambda order: ends[order])
    return (
        f"{text}: the printed procedure cannot tell orders apart. With one constant for all of "
        f"them, order {best:g} has the smallest bound here."
    )
