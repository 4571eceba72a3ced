import numpy as np
import pytest

from audit import NoisySGD, Relation, bounds


def mechanism(**changes):
    values = {
        "steps": 100,
        "dataset_size": 100,
        "batch_size": 100,
        "step_size": 0.1,
        "noise_std": 1.0,
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "diameter": 1.0,
    }
    return NoisySGD(**{**values, **changes})


def test_reference_values():
    assert bounds.evaluate("at22.b_1", mechanism()).renyi(4.0) == pytest.approx(0.08, rel=1e-12)
    # Chien and Li (2025), Figure 1 and Appendix A.13: noise 1 on the iterate, order 2
    figure = mechanism(steps=10_000, dataset_size=5, batch_size=5, lipschitz=2.0, noise_std=10.0)
    assert bounds.evaluate("at22.b_1", figure).renyi(2.0) == pytest.approx(0.345714, abs=5e-7)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("steps", [1, 7, 300, 3000])
@pytest.mark.parametrize("diameter", [1e-3, 0.4, 3.0])
def test_best_integer_is_found(relation, steps, diameter):
    m = mechanism(steps=steps, diameter=diameter, relation=relation)
    s = m.step_size * m.sensitivity / m.dataset_size
    lengths = np.arange(1, steps + 1)
    inner = np.min(lengths * ((diameter + s) / lengths + s) ** 2)
    expected = 3.0 / (2 * m.step_std**2) * min(steps * s**2, inner)
    assert bounds.evaluate("at22.b_1", m).renyi(3.0) == pytest.approx(expected, rel=1e-12)


def test_zero_out_takes_half():
    long = {"steps": 10**6, "diameter": 1e-9}
    replace = bounds.evaluate("at22.b_1", mechanism(**long)).renyi(2.0)
    zero = bounds.evaluate("at22.b_1", mechanism(**long, relation=Relation.ZERO_OUT)).renyi(2.0)
    assert zero == pytest.approx(replace / 4, rel=1e-5)


def test_never_below_the_gaussian_theorems():
    for steps in (10, 600, 5000):
        m = mechanism(steps=steps)
        gaussian = [
            bounds.evaluate(id, m).renyi(3.0)
            for id in bounds.applicable(m)
            if id.startswith("bsa24")
        ]
        assert min(gaussian) <= bounds.evaluate("at22.b_1", m).renyi(3.0) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"convex": False}, "at22.b_1 needs convex losses, got convex=False"),
        ({"diameter": None}, "at22.b_1 needs a bounded domain, got diameter=None"),
        ({"smoothness": None}, "at22.b_1 needs eta <= 2/M .*, got smoothness=None"),
        ({"smoothness": 21.0}, "needs eta <= 2/M .*, got step_size=0.1 and smoothness=21.0"),
        (
            {"steps": 2, "step_size": (0.1, 0.2)},
            "needs one step size for all steps, got step_size=a schedule from 0.1 to 0.2",
        ),
    ],
)
def test_refusals_name_the_assumption_and_the_value(changes, message):
    with pytest.raises(bounds.NotApplicable, match=message):
        bounds.evaluate("at22.b_1", mechanism(**changes))
