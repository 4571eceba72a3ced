"""Hölder constants of a perceptron on Iris, and what Theorem 3.7 of paper 002 makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import bounds, validate
from audit.mechanism import NoisySGD
from audit.studies import iris_findings, iris_words
from audit.studies.findings import Findings, Report
from audit.studies.holder_constants import (
    Around,
    Differences,
    Estimation,
    across_a_kink,
    along_steepest,
)
from audit.studies.mlp import Activation, Labels, Perceptron
from audit.studies.scikit_learn import data_set, one_thread

Array = NDArray[np.float64]

_KINK_DISTANCES = np.geomspace(1e-12, 1e-1, 23)
_STEEPEST_DISTANCES = np.geomspace(1e-3, 1, 7)


@dataclass(frozen=True, kw_only=True)
class Figure1:
    """The setting of Figure 1 of paper 002, in which Figure 2(a) computes its bound.

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


@dataclass(frozen=True, kw_only=True)
class IrisHolder:
    """Estimate Hölder constants of a two-layer perceptron on Iris, and bound privacy with them.

    Appendix A.13 of paper 002: hidden dimension 64, learning rate 0.1, 200 epochs, clip norm 1,
    cross-entropy times 0.1; around each weight of the trajectory 100 points uniform in the ball of
    radius 1; the largest ratio of gradient difference to distance^order; 20 starts. The paper does
    not name the activation, the start, the batches, the scaling of the data, or whose gradient it
    takes. Here: ReLU (or tanh), the start of PyTorch's layers, full batches without noise, Iris as
    it is, and both the mean gradient and each record's.

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

    def find(self, *, seed: int, threads: int, confidence: float, progress: Report) -> Findings:
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
        return iris_findings.findings(
            around,
            kink,
            steepest,
            orders=self.orders,
            renyi_order=self.renyi_order,
            dimension=model.dimension,
            activation=self.activation,
            setup=iris_words.Setup(
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


def bound_curves(
    figure: Figure1, constants: Mapping[float, float], renyi_order: float
) -> iris_words.Curves:
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
    return iris_words.Curves(
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
