"""Epsilon at delta = 0: closed forms, grids, and the limit of small delta."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import audit
from audit import exact
from audit.constructions import DriftedWalk, TwoSidedWalk
from audit.constructions.explicit import Densities, Finite, Mixture, Mixtures
from audit.curves import GaussianCurve, MinimumCurve, Order, PureCurve, RenyiCurve

FORWARD, REVERSE = Order
SUBSAMPLED = Mixtures(Mixture((0.9, 0.1), (0.0, 1.0), (1.0, 1.0)), Mixture((1.0,), (0.0,), (1.0,)))

WIDENED = Mixtures(Mixture((1.0,), (0.0,), (1.0,)), Mixture((1.0,), (0.0,), (2.0,)))


def contains(bracket: tuple[float, float], true: float, width: float = 1e-8) -> bool:
    low, high = bracket
    return low <= true <= high and high - low <= width * max(1.0, true)


@pytest.mark.parametrize(
    ("pair", "forward", "reverse"),
    [
        (Finite((0.75, 0.25), (0.25, 0.75)), math.log(3), math.log(3)),
        (Finite((0.5, 0.5), (0.2, 0.8), times=7), 7 * math.log(2.5), 7 * math.log(1.6)),
        (Finite((0.5, 0.5), (1.0, 0.0)), math.inf, math.log(2)),
        (Densities(0.5, -1.0, 1.0), 1.0, 1.0),
        (SUBSAMPLED, math.inf, -math.log(0.9)),
        (WIDENED, math.log(2), math.inf),
    ],
)
def test_closed_forms(pair, forward: float, reverse: float) -> None:
    curve = exact.curve(pair)
    for order, true in ((FORWARD, forward), (REVERSE, reverse)):
        low, high = curve.epsilon_bracket(0.0, order)
        assert (low, high) == (true, true) if math.isinf(true) else contains((low, high), true)
        assert curve.epsilon(0.0, order) == pytest.approx(true)
    assert curve.epsilon(0.0) == pytest.approx(max(forward, reverse))


def test_of_a_mixture_with_its_maximum_inside() -> None:
    first = Mixture((0.6, 0.4), (0.0, 1.5), (0.5, 0.4))
    pair = Mixtures(first, Mixture((1.0,), (0.2,), (1.0,)))

    def loss(x: np.ndarray) -> np.ndarray:
        p = sum(
            w * norm.pdf(x, m, s)
            for w, m, s in zip(first.weights, first.means, first.stds, strict=True)
        )
        return np.asarray(np.log(p) - norm.logpdf(x, 0.2))

    x = np.linspace(-6, 6, 100_001)
    for _ in range(2):
        best = x[np.argmax(loss(x))]
        x = best + np.linspace(-1e-3, 1e-3, 100_001) * (x[1] - x[0]) * 1e3
    assert contains(exact.curve(pair).epsilon_bracket(0.0, FORWARD), float(loss(x).max()), 1e-9)


@pytest.mark.parametrize("batching", ["full", "poisson", "without replacement"])
def test_of_a_walk_is_the_limit_of_small_delta(batching: str) -> None:
    m = audit.NoisySGD(steps=8, dataset_size=8, batch_size=8 if batching == "full" else 2,
                       step_size=0.1, noise_std=1.0, lipschitz=1.0, smoothness=1.0, diameter=0.5,
                       batching=audit.Batching(batching))  # fmt: skip
    for pair in (TwoSidedWalk(m), DriftedWalk(m, drift=0.02, start=-0.25)):
        curve = exact.curve(pair)
        low, high = curve.epsilon_bracket(0.0)
        assert high - low < 1e-8
        assert curve.epsilon_bracket(1e-12)[0] <= high
        assert low == pytest.approx(curve.epsilon(1e-40), rel=1e-9)


def test_of_a_line_is_infinite_or_grows_with_what_is_followed() -> None:
    m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=4, step_size=0.1, noise_std=1.0,
                       lipschitz=1.0)  # fmt: skip
    assert exact.curve(TwoSidedWalk(m)).epsilon_bracket(0.0) == (math.inf, math.inf)
    sampled = audit.NoisySGD(steps=5, dataset_size=4, batch_size=1, step_size=0.1, noise_std=1.0,
                             lipschitz=1.0, batching=audit.Batching.POISSON)  # fmt: skip
    curve = exact.curve(TwoSidedWalk(sampled))
    low, high = curve.epsilon_bracket(0.0)
    assert low > curve.epsilon_bracket(1e-12)[1]
    assert high == math.inf


def test_bounds_at_zero() -> None:
    assert PureCurve(0.7).epsilon(0.0) == 0.7
    assert GaussianCurve(1.0).epsilon(0.0) == math.inf
    assert GaussianCurve(0.0).epsilon(0.0) == 0.0
    renyi = RenyiCurve(lambda alpha: alpha)
    assert renyi.epsilon(0.0) == math.inf
    both = MinimumCurve((renyi, PureCurve(0.7)), ("renyi", "pure"))
    assert both.epsilon(0.0) == 0.7
    assert both.winner(0.0) == "pure"
    assert both.epsilon([0.0, 0.5]).tolist() == [0.7, both.epsilon(0.5)]
