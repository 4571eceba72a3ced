"""Pairs whose other records have gradients of infinite slope."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import audit
from audit import exact, simulation
from audit.constructions import HolderForm, HolderPair
from audit.constructions.holder import HolderUpdate

HOLDER = audit.NoisySGD(
    steps=3,
    dataset_size=5,
    batch_size=5,
    step_size=0.1,
    noise_std=2.0,
    lipschitz=2.0,
    holder=(2 ** (2 / 3), 1 / 3),
    diameter=1.0,
)


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
