"""Losses under which the last iterate keeps the evidence of all steps."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from audit import Batching, NoisySGD, Order, Relation, exact
from audit.constructions import DriftedWalk, Inadmissible, LatticeWalk, Process, Staircase
from audit.constructions.process import DependentStep
from audit.dominating.poisson import poisson_curve
from audit.search import check_admissible
from tests import reference

# Noise multiplier 1/2 for add/remove; one batch's gradients move by 32 deviations.
mechanism = partial(
    NoisySGD,
    steps=3,
    dataset_size=160,
    batch_size=16,
    step_size=0.5,
    noise_std=1 / 32,
    clip_norm=1.0,
    convex=False,
    batching=Batching.WITHOUT_REPLACEMENT,
    relation=Relation.ADD_REMOVE,
)


def density_after_two_steps(process: Process, y: float) -> float:
    """By quadrature between the jumps, from the maps and weights alone."""
    first, second = list(process.paths[0].steps())[:2]
    std = first.noise_std
    moved = [float(phi(np.zeros(1))[0]) for phi in first.maps]

    def inner(x: float) -> float:
        before = sum(
            w * norm.pdf(x, mean, std) for mean, w in zip(moved, first.weights, strict=True)
        )
        after = sum(
            w * norm.pdf(y, float(phi(np.array([x]))[0]), std)
            for phi, w in zip(second.maps, second.weights, strict=True)
        )
        return float(before * after)

    kinks = sorted({k for phi in second.maps for k in phi.kinks if abs(k) < 12 * std})
    ends = [-12 * std, *kinks, 12 * std]
    return sum(quad(inner, a, b, epsabs=0, epsrel=1e-11)[0] for a, b in itertools.pairwise(ends))


def test_the_law_is_the_integral_over_one_step() -> None:
    m = mechanism(steps=2)
    pair = LatticeWalk.suited(m)
    std, law = m.step_std, exact.curve(pair)
    for process, own in zip(pair.processes(), (law.first, law.second), strict=True):
        y = 33.0 * std
        expected = density_after_two_steps(process, y)
        assert float(own.density(y)) == pytest.approx(expected, rel=1e-10)


def test_fresh_shuffles_are_mixtures_over_all_orders() -> None:
    m = mechanism(
        dataset_size=6,
        batch_size=2,
        steps=5,
        noise_std=0.05,
        batching=Batching.RESHUFFLED,
        relation=Relation.REPLACE_ONE,
    )
    pair = LatticeWalk.suited(m, spacing=10.0)
    first, _ = pair.processes()
    step = first.distinct_steps()[0]
    assert isinstance(step, DependentStep)
    still, pushed = step.maps[:2]
    listed = reference.listed_process(
        m, 0.0, lambda eta, holds, count: pushed if holds else still, 6
    )
    one, other = exact.law(first), exact.law(listed)
    at = np.linspace(-25, 25, 40) * m.step_std
    np.testing.assert_allclose(one.log_density(at), other.log_density(at), atol=1e-10)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE])
def test_gradients_keep_the_clipping_norm(relation: Relation) -> None:
    pair = LatticeWalk.suited(mechanism(relation=relation))
    check_admissible(pair)
    processes = pair.processes()
    object.__setattr__(pair, "processes", lambda: processes)
    object.__setattr__(pair, "mechanism", mechanism(relation=relation, clip_norm=0.9))
    with pytest.raises(Inadmissible, match="must"):
        check_admissible(pair)


@pytest.mark.slow
def test_the_last_iterate_says_nearly_what_all_iterates_say() -> None:
    """Batches of growing size at one noise multiplier, 1/2: the composition's epsilon is 1.64.

    A linear walk says a seventh of it, however large the batches are.
    """
    all_steps = poisson_curve(0.5, 0.01, 10, Relation.ADD_REMOVE, accuracy=1e-4)
    everything = all_steps.epsilon(1e-3, Order.FORWARD)
    found = []
    for b, spacing in ((16, 9.0), (64, 11.0)):
        m = mechanism(steps=10, batch_size=b, dataset_size=100 * b, noise_std=1 / (2 * b))
        law = exact.curve(LatticeWalk.suited(m, spacing=spacing))
        found.append(law.epsilon_bracket(1e-3, Order.FORWARD))
    linear = exact.curve(DriftedWalk(m, drift=0.0)).epsilon(1e-3)
    assert linear < 0.16 * everything
    assert found[0][0] > 0.65 * everything
    assert found[1][0] > 0.92 * everything
    assert found[1][1] < everything


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"convex": True}, "needs convex=False, smoothness=None and holder=None"),
        ({"smoothness": 1.0}, "needs convex=False, smoothness=None and holder=None"),
        ({"holder": (9.0, 0.5)}, "needs convex=False, smoothness=None and holder=None"),
        ({"clip_norm": None, "gradient_sensitivity": 1.0}, "needs clip_norm or lipschitz"),
        ({"diameter": 1.0}, "needs diameter=None"),
        ({"relation": Relation.ZERO_OUT}, "needs another record in place"),
        ({"batching": Batching.POISSON}, "needs batches of a fixed size"),
        ({"batching": Batching.RESHUFFLED}, "needs batching='without replacement', of fewer than"),
        ({"dataset_size": 16}, "needs batching='without replacement', of fewer than"),
        ({"noise_std": 0.5}, "needs gradients that reach beyond the side"),
        ({"step_size": (0.5, 0.4, 0.3)}, "needs one step size"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Inadmissible, match=message):
        LatticeWalk(mechanism(**changes))


def test_parameters_that_make_no_lattice() -> None:
    with pytest.raises(ValueError, match=r"below must be less than spacing \(8\), got 9"):
        LatticeWalk(mechanism(), spacing=8.0, below=9.0)
    with pytest.raises(ValueError, match="must be less than 400, got 400"):
        LatticeWalk(mechanism(), down=200, up=200)


def test_little_noise_is_refused_where_all_ratios_underflow() -> None:
    little = NoisySGD(
        steps=22, dataset_size=53, batch_size=2, step_size=0.6876, noise_std=0.01645, clip_norm=1.0,
        convex=False, batching=Batching.WITHOUT_REPLACEMENT,
    )  # fmt: skip
    with pytest.raises(Inadmissible, match="needs more noise: all its ratios underflow"):
        LatticeWalk.suited(little)


def test_a_staircase() -> None:
    stairs = Staircase((0.0, 1.0, 2.0), (5.0, -5.0), 0.25)
    np.testing.assert_array_equal(
        stairs(np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])),
        [-0.75, 5.0, 5.0, -5.0, -5.0, 1.75, 2.75],
    )
    with pytest.raises(ValueError, match="edges must ascend"):
        Staircase((0.0, 0.0), (1.0,), 0.1)
    with pytest.raises(ValueError, match="values must be one for each interval"):
        dataclasses.replace(stairs, values=(1.0,))
