"""Sentences about the Hölder constants on Iris, with the numbers of the run in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from audit.studies.holder_constants import Differences
from audit.studies.mlp import Activation

ONE_CONSTANT = 1.05  # the largest over the smallest estimate, where orders cannot be told apart
_LEVEL = 0.01  # a relative growth from half of the steps to all that is called level


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
    """What the sentences name: the training, and the setting in which the bound is computed."""

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
    """Say how long a bound is that of composition, and how much it grows at the end."""
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
    """Return the paragraphs of notes, each number in them taken from what was run."""
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
    """Say how far out the points of the printed procedure lie, and what that does to orders."""
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
