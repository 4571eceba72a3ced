"""Divergences of finite pairs against plain sums, and cells below and above a pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from audit.curves import FinitePair, GaussianCurve
from audit.curves.finite_pair import Cells
from audit.numerics.normal import log_interval


def random_pair(seed: int, count: int = 7) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.random.default_rng(seed).dirichlet(np.full(count, 0.5), 2)
    return p, q


@pytest.mark.parametrize("seed", range(10))
def test_divergences_are_those_of_plain_sums(seed: int) -> None:
    p, q = random_pair(seed)
    pair = FinitePair.of(np.log(p), np.log(q))
    epsilons = np.linspace(-3.0, 8.0, 45)
    deltas = np.array([np.maximum(p - np.exp(e) * q, 0).sum() for e in epsilons])
    np.testing.assert_allclose(pair.delta(epsilons), deltas, rtol=1e-12, atol=1e-300)
    reached = deltas[(deltas > 0) & (epsilons > 0)]
    np.testing.assert_allclose(pair.delta(pair.epsilon(reached)), reached, rtol=1e-11)
    alpha = 2.5
    moment = np.log(np.sum(p**alpha * q ** (1 - alpha)))
    assert pair.log_moment(alpha) == pytest.approx(moment, rel=1e-12)
    # the best tests take outcomes by falling ratio
    rank = np.argsort(-p / q)
    spent, won = np.cumsum(q[rank]), np.cumsum(p[rank])
    np.testing.assert_allclose(pair.power(spent), won, rtol=1e-12)
    np.testing.assert_allclose(pair.beta(spent), 1 - won, atol=1e-14)


def test_masses_without_the_other_law() -> None:
    pair = FinitePair.of(np.log([0.25, 0.75]), np.array([-np.inf, 0.0]))
    assert pair.epsilon(0.2) == np.inf
    assert pair.delta(100.0) == pytest.approx(0.25)
    swapped = FinitePair.of(pair.log_q, pair.log_p)
    assert swapped.epsilon(0.0) == pytest.approx(np.log(4 / 3))


def test_losses_beyond_the_range_of_doubles() -> None:
    """Exponentials of losses of 10^5 overflow every format; the sums do not."""
    loss = np.array([1e5, 9e4, 0.0, -1e5])
    log_p = np.log([0.1, 0.2, 0.3, 0.4])
    pair = FinitePair(loss, log_p, log_p - loss)
    assert pair.delta(5e4) == pytest.approx(0.3)
    assert pair.delta(-5e4) == pytest.approx(0.6)
    assert pair.epsilon(0.05) == pytest.approx(1e5 + np.log1p(-0.5), rel=1e-15)


def gaussian_cells(
    count: int, *, shrink: float = 1.0, kept: tuple[float, float] = (1.0, 1.0)
) -> Cells:
    """Cells of N(1, 1) against N(0, 1), whose loss is y - 1/2; ``shrink`` of the true ranges.

    Of P left of 1/2, and of Q right of it, only a share is kept, and the rest is lost.
    """
    edges = np.linspace(-12.0, 13.0, count + 1)
    log_p, log_q = (log_interval(edges[:-1] - m, edges[1:] - m) for m in (1.0, 0.0))
    middle, half = 0.5 * (edges[1:] + edges[:-1]) - 0.5, 0.5 * np.diff(edges) * shrink
    left, right = (np.log(np.where(side, share, 1.0)) for side, share in
                   zip((middle < 0, middle > 0), kept, strict=True))  # fmt: skip
    lost = [math.log(max((1 - share) * ndtr(-0.5), 1e-30)) for share in kept]
    loss, rounding = middle + left - right, np.full(count, 1e-12)
    ends = loss - half, loss + half
    return Cells(log_p + left, log_q + right, *ends, rounding, rounding, *lost)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("count", "kept"), [(50, (1.0, 1.0)), (400, (1.0, 1.0)), (400, (0.9, 0.7))]
)
def test_the_truth_lies_between_merged_and_split(count, kept, turned):
    """In both orders, also where much of either law is lost where it would tell most."""
    cells, truth = gaussian_cells(count, kept=kept), GaussianCurve(1.0)
    cells = cells.reversed if turned else cells
    enclosure = cells.enclosure()
    deltas = np.array([0.3, 0.1, 1e-3, 1e-6, 1e-12])
    low, high = enclosure.epsilon(deltas)
    assert (low <= truth.epsilon(deltas)).all()
    assert (truth.epsilon(deltas) <= high).all()
    assert min(kept) < 1 or (high - low < 25.0 / count).all()  # the losses of one cell
    epsilons = np.array([-1.0, 0.5, 2.0])
    low, high = enclosure.delta(epsilons)
    assert (low <= truth.delta(epsilons)).all()
    assert (truth.delta(epsilons) <= high).all()
    alphas = np.array([1e-6, 0.05, 0.2, 0.5])
    low, high = enclosure.power(alphas)
    assert (low <= 1 - truth.beta(alphas)).all()
    assert (1 - truth.beta(alphas) <= high).all()
    low, high = cells.enclosure(complement=True).beta(alphas)
    assert (low <= truth.beta(alphas)).all()
    assert (truth.beta(alphas) <= high).all()
    if min(kept) == 1:
        low, high = cells.part(slice(count)).enclosure().log_moment(3.0)
        assert low - 1e-9 <= 2 * truth.renyi(3.0) <= high + 1e-9  # cut at 12 deviations


def test_the_least_mass_shows_at_delta_zero() -> None:
    """Pure epsilon is the largest loss, also of an outcome whose mass underflows."""
    pair = FinitePair.of(np.array([-1e6, 0.0]), np.array([-1e6 - 3.0, 0.0]))
    assert pair.epsilon(0.0) == 3.0
    assert pair.epsilon(1e-300) == 0.0


def test_a_range_that_is_too_narrow_is_missed() -> None:
    """A test of the test: cells split at half of the true range do not bound the truth."""
    narrow, truth = gaussian_cells(50, shrink=0.5).split(), GaussianCurve(1.0)
    assert any(narrow.epsilon(d) < truth.epsilon(d) for d in (0.1, 1e-3, 1e-6))
