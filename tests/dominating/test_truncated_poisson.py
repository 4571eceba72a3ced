"""Truncated Poisson batches: one step by quadrature of the mixtures, limits, dp-accounting."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.dominating import dominating_curve
from audit.dominating.curve import GridComposition
from audit.dominating.mixture import MixturePair
from audit.dominating.poisson import Truncation, others_against, poisson_curve
from audit.mechanism import Batching, Relation
from tests.dominating.random_brackets import poisson

Array = NDArray[np.float64]


def truncated(z: float, n: int, q: float, largest: int, steps: int, accuracy: float = 1e-4):  # type: ignore[no-untyped-def]
    more = {"batching": Batching.TRUNCATED_POISSON, "max_batch_size": largest, "poisson_rate": q}
    return dominating_curve(poisson(steps, 1 / z, n, 1, **more), accuracy=accuracy)


def test_how_often_batches_are_cut_against_a_sum() -> None:
    n, q, largest = 30, 0.3, 8
    sizes = np.arange(n)
    weights = binom.pmf(sizes, n - 1, q)
    cut = Truncation.of(n, q, largest)
    assert cut.cut == pytest.approx(weights[sizes >= largest].sum(), rel=1e-12)
    taken = q * weights * np.minimum(1.0, largest / (sizes + 1))
    assert cut.participation == pytest.approx(taken.sum(), rel=1e-12)
    assert Truncation.of(n, q, n).cut == 0


def mixture(means: list[float], weights: list[float], x: Array, z: float) -> Array:
    parts = [w * norm.pdf(x, m, z) for m, w in zip(means, weights, strict=True)]
    return np.asarray(sum(parts))


def test_one_step_of_both_adversaries_by_enumeration() -> None:
    """Every size of the sample, and every outcome for the record, of five records."""
    n, q, largest, z = 5, 0.6, 2, 1.0
    x = np.linspace(-14, 14, 56_001)
    pairs = {}
    for others in (0.0, -1.0):
        means: dict[bool, list[float]] = {True: [], False: []}
        weights: dict[bool, list[float]] = {True: [], False: []}
        for size in range(n):
            weight = float(binom.pmf(size, n - 1, q))
            means[False].append(others * min(size, largest))
            weights[False].append(weight)
            kept = q * min(1.0, largest / (size + 1))
            means[True] += [1 + others * min(size, largest - 1), others * min(size, largest)]
            weights[True] += [weight * kept, weight * (1 - kept)]
        pairs[others] = [mixture(means[held], weights[held], x, z) for held in (True, False)]
    curve = truncated(z, n, q, largest, 1)
    for epsilon in (0.1, 0.5, 1.5):
        for order, first in ((Order.FORWARD, 0), (Order.REVERSE, 1)):
            ordered = ((pair[first], pair[1 - first]) for pair in pairs.values())
            sums = [np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ordered]
            exact = max(sums) * (x[1] - x[0])
            low, high = curve.delta_bracket(epsilon, order)
            # a Riemann sum with a kink, and 2048 cells
            assert exact - 1e-3 < low < exact + 1e-6
            assert low <= high
            assert high > exact - 1e-6


@pytest.mark.parametrize(
    ("z", "n", "q", "largest", "steps", "theirs"),
    [
        # from_truncated_subsampled_gaussian_mechanism of dp-accounting 0.6.0, interval 1e-3,
        # add or remove, delta = 1e-5
        (1.0, 1000, 0.05, 80, 100, 3.549901877036403),
        (1.0, 1000, 0.05, 60, 100, 8.871385602734936),
        (1.0, 40, 0.5, 15, 10, 29.671754282224235),
        (1.0, 20, 0.3, 2, 5, 10.190735896583295),
    ],
)
def test_dp_accounting_is_above_the_bracket(
    z: float, n: int, q: float, largest: int, steps: int, theirs: float
) -> None:
    """Its upper bound has the means of the second pair twice as far apart."""
    low, high = truncated(z, n, q, largest, steps).epsilon_bracket(1e-5)
    assert low < high <= theirs * (1 + 1e-3)
    assert high > 0.8 * theirs


def test_what_is_hardly_ever_cut_is_poisson_sampling() -> None:
    exact = poisson_curve(1.0, 0.05, 50, Relation.ADD_REMOVE, accuracy=1e-4)
    for largest in (130, 1000):
        low, high = truncated(1.0, 1000, 0.05, largest, 50).epsilon_bracket(1e-5)
        known = exact.epsilon_bracket(1e-5)
        assert low <= known[1]
        assert high >= known[0]
        assert high - low < 1e-3


def test_what_is_always_cut() -> None:
    """Batches of always 2 of 20: the pair with others at -1 is a Poisson step of means 2."""
    z, n, largest, q = 1.0, 20, 2, 0.97
    cut = Truncation.of(n, q, largest)
    assert cut.cut == pytest.approx(1, abs=1e-12)
    assert cut.kept == pytest.approx(largest / n, rel=1e-12)
    low, high = truncated(z, n, q, largest, 1).epsilon_bracket(1e-5)
    assert high - low < 2e-3


def test_what_is_cut_but_for_less_than_the_range_of_doubles() -> None:
    """Batches of always 50 of 2000, also where every record is sampled."""
    for rate in (0.5, 1.0):
        low, high = truncated(1.0, 2000, rate, 50, 3).epsilon_bracket(1e-5)
        assert 0 < low <= high < low * 1.02


def test_a_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that takes no other's place: the upper end falls below the lower one."""
    split = MixturePair.grid_pairs
    monkeypatch.setattr(
        MixturePair, "grid_pairs", lambda pair, *rest: split(replace(pair, mean=1.0), *rest)
    )
    with pytest.raises(BracketError, match="must have 0 <= low <= high"):
        truncated(1.0, 20, 0.97, 2, 1).epsilon_bracket(1e-5)


def test_the_second_adversary_is_one_of_the_lower_ends() -> None:
    cut = Truncation.of(20, 0.3, 2)
    pair = others_against(1.0, 20, 2, cut, 0.01)
    alone = GridComposition([(pair, 5)]).epsilon(1e-5)
    assert alone <= truncated(1.0, 20, 0.3, 2, 5).epsilon_bracket(1e-5, Order.FORWARD)[0] + 1e-2


def test_cuts_below_the_range_of_doubles_tell_the_laws_apart() -> None:
    """They add next to nothing to delta, and make the largest loss infinite."""
    rare = truncated(1.0, 10_000, 0.05, 4000, 20, accuracy=1e-5)
    assert Truncation.of(10_000, 0.05, 4000).cut < 1e-290
    [(upper, _)] = rare.upper.upper.parts
    assert upper.p_only >= 1e-290 <= upper.q_only
    assert rare.epsilon(1e-289, Order.REVERSE) == math.inf
    low, high = rare.epsilon_bracket(1e-5)
    least, most = poisson_curve(1.0, 0.05, 20, Relation.ADD_REMOVE, accuracy=1e-6).epsilon_bracket(
        1e-5
    )
    assert low <= most
    assert least <= high < low * (1 + 2e-5)
