"""Constructions by name: parameters by name, slips in one clear line."""

from __future__ import annotations

from typing import Any

import pytest

import audit
from audit.config import Kind, MechanismConfig, to_mechanism
from audit.constructions import GradientPair, HolderForm, HolderPair, PiecewiseLinear, ResetWalk
from audit.scenario.named import KINDS, named_pair

M = audit.NoisySGD(
    steps=4,
    dataset_size=4,
    batch_size=1,
    step_size=0.5,
    noise_std=1.0,
    lipschitz=1.0,
    smoothness=2.0,
    diameter=4.0,
    batching=audit.Batching.CYCLIC,
)


def test_every_neighbouring_construction_has_a_name() -> None:
    from audit import constructions
    from audit.constructions import Construction

    made = [getattr(constructions, name) for name in constructions.__all__]
    kinds = {
        kind.__name__
        for kind in made
        if isinstance(kind, type) and issubclass(kind, Construction) and kind is not Construction
    }
    assert set(KINDS) == {kind.value for kind in Kind}
    assert kinds - set(KINDS) == {"AuxiliaryWalk"}  # no pair of datasets


def test_parameters_reach_the_construction() -> None:
    reset = named_pair("ResetWalk", M, {"curvature": 2.0, "cap": 0.5, "centre": 1.0, "position": 2})
    assert reset == ResetWalk(M, curvature=2.0, cap=0.5, centre=1.0, position=2)
    line = {"points": [-1, 1], "values": [-1.0, 1.0], "slopes": [0.0, 0.0]}
    pair = named_pair("GradientPair", M, {"others": line, "record": 1.0, "record_prime": -1.0})
    assert pair == GradientPair(
        M,
        others=PiecewiseLinear((-1.0, 1.0), (-1.0, 1.0), (0.0, 0.0)),
        record=PiecewiseLinear.constant(1.0),
        record_prime=PiecewiseLinear.constant(-1.0),
    )


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("Walk", {}, "kind must be one of BiasedWalk, TwoSidedWalk"),
        ("TwoSidedWalk", {"drift": 0.1}, "drift must be left out for a TwoSidedWalk, got 0.1"),
        ("DriftedWalk", {}, "drift must be given for a DriftedWalk, got None"),
        ("ResetWalk", {"curvature": 1.0}, "cap must be given for a ResetWalk"),
        ("ResetWalk", {"curvature": 3.0, "cap": 1.0}, "ResetWalk needs curvature in"),
        ("GradientPair", {"record": {"point": [0]}}, "record must be a number or hold points"),
        ("GradientPair", {"record": "up"}, "record must be a finite number, got 'up'"),
        (
            "GradientPair",
            {"record": {"points": [1, 0], "values": [0, 1], "slopes": [0, 0]}},
            "record must be a broken line: points must ascend",
        ),
        ("HolderPair", {"scale": 1.0, "form": "ROUND"}, "form must be one of ABSOLUTE, SIGNED"),
    ],
)
def test_slips_are_one_line(kind: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        named_pair(kind, M, parameters)
    assert "\n" not in str(caught.value)


def config(**changes: Any) -> MechanismConfig:
    values: dict[str, Any] = {
        "steps": 4,
        "dataset_size": 4,
        "batch_size": 4,
        "step_size": 0.5,
        "noise_std": 1.0,
        "lipschitz": 1.0,
    }
    return MechanismConfig(**{**values, **changes})


def test_a_schedule_by_its_power() -> None:
    made = to_mechanism(config(step_size={"first": 0.5, "power": -0.5}))
    assert made.step_size == pytest.approx((0.5, 0.5 / 2**0.5, 0.5 / 3**0.5, 0.25))


def test_a_misspelt_schedule() -> None:
    with pytest.raises(ValueError, match=r"step_size must be a number, a list or \{first, power\}"):
        to_mechanism(config(step_size={"first": 0.5, "exponent": -0.5}))
    with pytest.raises(ValueError, match=r"step_size\.first must be a positive finite number"):
        to_mechanism(config(step_size={"first": -0.5, "power": -0.5}))


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
    import numpy as np

    x = np.linspace(-0.5, 0.5, 401)
    gaps = np.abs(x[:, None] - x)
    for form in HolderForm:
        from audit.constructions.holder import HolderUpdate

        gradient = x - HolderUpdate(0.0, 1.0, 1 / 3, form, 0.5)(x)
        rises = np.abs(gradient[:, None] - gradient)
        ratios = rises[gaps > 0] / gaps[gaps > 0] ** (1 / 3)
        assert np.max(ratios) == pytest.approx(form.constant(1 / 3), rel=1e-9)


def test_exact_and_sampled_holder_laws_agree() -> None:
    from audit import exact, simulation

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
        ({}, {"scale": -1.0}, "needs convex=False for form=SIGNED, scale=-1"),
        ({}, {"form": HolderForm.ABSOLUTE}, "needs convex=False for form=ABSOLUTE"),
    ],
)
def test_holder_pairs_keep_the_assumptions(
    changes: dict[str, Any], parameters: dict[str, Any], message: str
) -> None:
    import dataclasses
    import re

    with pytest.raises(ValueError, match=re.escape(message)):
        HolderPair(dataclasses.replace(HOLDER, **changes), **parameters)
