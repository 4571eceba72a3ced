"""Pairs whose other records have gradients of infinite slope."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from audit import exact, simulation
from audit.constructions import (
    GradientPair,
    HolderForm,
    HolderPair,
    Inadmissible,
    PiecewiseLinear,
    QuadraticPair,
    ResetWalk,
)
from audit.constructions.holder import HolderUpdate
from audit.search import check_admissible
from tests.mechanisms import noisy_sgd

HOLDER = noisy_sgd(
    steps=3, dataset_size=5, step_size=0.1, noise_std=2.0, lipschitz=2.0, smoothness=None,
    holder=(2 ** (2 / 3), 1 / 3),
)  # fmt: skip
_rough = partial(
    noisy_sgd,
    steps=3, dataset_size=4, noise_std=0.5, lipschitz=None, smoothness=None, diameter=2.0,
    gradient_sensitivity=3.0, holder=(1.0, 0.5),
)  # fmt: skip


def test_holder_updates_have_the_constant_that_they_claim() -> None:
    """The largest ratio |g(x) - g(y)| / |x - y|^p on a grid reaches the constant and no more."""
    x = np.linspace(-0.5, 0.5, 401)
    gaps = np.abs(x[:, None] - x)
    for form in HolderForm:
        gradient = x - HolderUpdate(0.0, 1.0, 1 / 3, form, 0.5)(x)
        rises = np.abs(gradient[:, None] - gradient)
        ratios = rises[gaps > 0] / gaps[gaps > 0] ** (1 / 3)
        assert np.max(ratios) == pytest.approx(form.constant(1 / 3), rel=1e-9)


def test_exact_and_sampled_holder_laws_agree() -> None:
    pair = HolderPair(HOLDER, scale=1.0, form=HolderForm.SIGNED)
    curve = exact.curve(pair)
    trials = 40_000
    x, x_prime = simulation.final_iterates(pair, trials=trials, seed=3)
    for law, sample in ((curve.first, x), (curve.second, x_prime)):
        for point in (-0.3, -0.05, 0.0, 0.1, 0.4):
            value = float(law.cdf(point))
            share = (sample <= point).mean()
            # ten comparisons at 4.5 standard errors: false alarms with probability 7e-5
            assert abs(share - value) < 4.5 * (value * (1 - value) / trials) ** 0.5


@pytest.mark.parametrize(
    ("changes", "parameters", "message"),
    [
        ({"holder": None}, {}, "HolderPair needs holder and diameter, got holder=None"),
        ({"diameter": None}, {}, "got diameter=None"),
        ({"smoothness": 1.0}, {}, "needs smoothness=None"),
        ({"lipschitz": 0.5}, {}, "needs the other records' gradients in"),
        ({}, {"scale": 1.1}, "needs |scale| times 1.5874 to be at most the Hoelder constant"),
        ({}, {"scale": -1.0}, "needs convex=False for form='signed', scale=-1"),
        ({}, {"form": HolderForm.ABSOLUTE}, "needs convex=False for form='absolute'"),
    ],
)
def test_holder_pairs_keep_the_assumptions(
    changes: dict[str, Any], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        HolderPair(dataclasses.replace(HOLDER, **changes), **parameters)


def test_gradients_keep_the_holder_constant() -> None:
    # a slope over the whole domain may be constant D^(order - 1)
    limit = 2.0**-0.5
    check_admissible(QuadraticPair(_rough(), curvature=limit))
    for make in (
        lambda m: QuadraticPair(m, curvature=1.001 * limit),
        lambda m: GradientPair(m, others=PiecewiseLinear.linear(1.001 * limit)),
        lambda m: ResetWalk(m, curvature=3.0, cap=0.6),
    ):
        with pytest.raises(Inadmissible, match=r"Hoelder constant of order 0\.5 of at most 1, got"):
            make(_rough())
        make(_rough(holder=None))
    # the same total change is allowed where it takes less room: 0.6 over a width of 0.4
    ResetWalk(_rough(), curvature=1.5, cap=0.3)


def test_an_independent_check_of_the_holder_constant() -> None:
    class Unchecked(GradientPair):
        def __post_init__(self) -> None:
            pass

    # the record's gradient is 0, so that 3/4 of the others' slope is left in the mean
    limit = 2.0**-0.5 / 0.75
    check_admissible(Unchecked(_rough(), others=PiecewiseLinear.linear(0.999 * limit)))
    with pytest.raises(Inadmissible, match="moves with a Hoelder constant of at most 1, got"):
        check_admissible(Unchecked(_rough(), others=PiecewiseLinear.linear(1.001 * limit)))


def test_far_lines_are_steeper_than_any_power() -> None:
    with pytest.raises(Inadmissible, match=r"order 0\.5 of at most 1, got inf"):
        QuadraticPair(_rough(diameter=None), curvature=0.1)
    m = _rough(diameter=None, holder=(0.1, 1.0))
    QuadraticPair(m, curvature=0.1)
