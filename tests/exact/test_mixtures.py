"""Brackets of mixtures of normals hold the truth, to 30 digits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import logsumexp
from scipy.stats import norm

from audit import exact
from audit.constructions.explicit import LaplaceMixtures, Mixture, Mixtures
from audit.curves import Order
from audit.exact import law_curve
from audit.exact.explicit_curves import mixture_law
from audit.exact.normal_cells import NormalCells

WIDTH = 1e-9  # of brackets, relative
Pieces = Sequence[tuple[float, float]]


def random_mixture(rng: np.random.Generator, normals: int) -> Mixture:
    weights = rng.dirichlet(np.ones(normals))
    means, stds = rng.normal(0, 1.5, normals), rng.uniform(0.5, 1.5, normals)
    return Mixture(tuple(weights / weights.sum()), tuple(means), tuple(stds))


def parts(law: Mixture):
    return zip(law.weights, law.means, law.stds, strict=True)


def density(law: Mixture, x: acb) -> acb:
    root = (2 * arb.pi()).sqrt()
    return sum(
        (w / (s * root) * (-(((x - m) / s) ** 2) / 2).exp() for w, m, s in parts(law)), acb(0)
    )


def log_densities(law: Mixture, x: np.ndarray) -> np.ndarray:
    logs = [np.log(w) + norm.logpdf(x, m, s) for w, m, s in parts(law)]
    return np.asarray(logsumexp(logs, axis=0))


def true_renyi(first: Mixture, second: Mixture, alpha: float, pieces: Pieces = ((-20, 20),)) -> arb:
    """Return the divergence by certified quadrature on pieces of the line."""

    def moment(x: acb, analytic: bool) -> acb:
        p, q = (density(law, x).log(analytic) for law in (first, second))
        return (a * p + (1 - a) * q).exp()

    with ctx.workprec(80):
        a = arb(alpha)
        parts = (acb.integral(moment, *ends).real for ends in pieces)
        return sum(parts, arb(0)).log() / (a - 1)


def test_divergences_of_mixtures_hold_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Mixture((0.3, 0.7), (0.0, 1.0), (1.0, 0.8))
    second = Mixture((0.6, 0.4), (0.5, -1.0), (1.0, 1.2))
    curve = exact.curve(Mixtures(first, second))
    for alpha in (1.3, 4.0):
        low, high = curve.renyi_bracket(alpha, Order.FORWARD)
        assert low <= true_renyi(first, second, alpha) <= high
        assert high - low < WIDTH * high
    # infinite, as 4/1.2^2 < 3/1: the low end, of cells, is not
    assert curve.renyi_bracket(4.0, Order.REVERSE)[1] == np.inf
    monkeypatch.setattr(law_curve, "_NODES", 3)  # the error of the rule counts on both sides
    coarse = curve.renyi_bracket(alpha, Order.FORWARD)
    assert low - coarse[0] > 1e-3 < coarse[1] - high


@pytest.mark.parametrize("alpha", [1.5, 8.0])
@pytest.mark.parametrize("share", [1e-2, 1e-8, 1e-12, -1e-3])
def test_divergences_near_infinite_orders_hold_the_truth(alpha: float, share: float) -> None:
    """The integrand of N(0, 1) and N(gap, std^2) has the precision alpha - (alpha - 1)/std^2."""
    std, gap = float(np.sqrt((alpha - 1) / (alpha * (1 - share)))), 0.3
    truth = mpmath.inf
    with mpmath.workdps(60):
        a, variance = mpmath.mpf(alpha), mpmath.mpf(std) ** 2
        precision = a - (a - 1) / variance
        if precision > 0:
            far = a * mpmath.mpf(gap) ** 2 / (2 * precision * variance)
            truth = mpmath.log(variance) / 2 - mpmath.log(precision) / (2 * (a - 1)) + far
    first, second = (Mixture((1.0,), (m,), (s,)) for m, s in ((0.0, 1.0), (gap, std)))
    low, high = exact.curve(Mixtures(first, second)).renyi_bracket(alpha, Order.FORWARD)
    assert low <= truth <= high
    assert share != 1e-2 or high - low < WIDTH * high


def test_a_deviation_whose_square_rounds_up_keeps_its_divergence() -> None:
    """The power of a float and the square of an array may differ in the last bit."""
    std = 1.6046076340668478
    assert std**2 > std * std
    stds, means = (std, 1.2 * std), (0.0, 1.0)
    first, second = Mixture((0.5, 0.5), means, stds), Mixture((0.5, 0.5), (0.3, 1.0), stds)
    low, high = exact.curve(Mixtures(first, second)).renyi_bracket(3.0, Order.FORWARD)
    assert low <= true_renyi(first, second, 3.0) <= high <= low * (1 + WIDTH)


def test_tails_of_moments_are_bounded() -> None:
    """Of several normals at one place, which are one: p^3 q^-2 is e^(3 mu^2) N(3 mu, 1)."""
    mu, end = 0.5, 1.0
    p = mixture_law(Mixture((0.25,) * 4, (mu,) * 4, (1.0,) * 4))
    q = mixture_law(Mixture((1.0,), (0.0,), (1.0,)))
    for side in (-1, 1):
        exact = 3 * mu**2 + norm.logcdf(side * (3 * mu - end))
        assert exact <= law_curve.log_tail_moment(p, q, 3.0, {side: end}) <= exact + 1e-9


@pytest.mark.parametrize("ratio", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("seed", range(6))
def test_losses_lie_in_their_ranges(seed: int, ratio: float) -> None:
    """Also of normals of which some are much wider than others, and on half-lines."""
    rng, drawn = np.random.default_rng(seed), np.random.default_rng(seed)
    laws = []
    for law in [random_mixture(drawn, int(count)) for count in drawn.integers(1, 4, 2)]:
        stds = np.array(law.stds) * ratio ** rng.uniform(0, 1, len(law.stds))
        laws.append(Mixture(law.weights, law.means, tuple(stds)))
    grid = NormalCells.of(mixture_law(laws[0]), mixture_law(laws[1]))
    cells, points = grid.cells(), grid.points
    some = rng.integers(0, points.size - 1, 400)
    at = points[some] + np.diff(points)[some] * rng.uniform(0, 1, some.size)
    widest = max(max(law.stds) for law in laws)
    out = widest * 10 ** rng.uniform(-1, 4, 50)
    x = np.concatenate([at, points[0] - out, points[-1] + out])
    own = np.concatenate([some, np.full(50, points.size - 1), np.full(50, points.size)])
    loss = log_densities(laws[0], x) - log_densities(laws[1], x)
    slack = 1e-12 * (1 + np.abs(log_densities(laws[0], x)))
    assert (cells.low[own] <= loss + slack).all()
    assert (loss - slack <= cells.high[own]).all()


@pytest.mark.parametrize("order", Order)
def test_laws_far_apart_and_widths_far_apart_hold_the_truth(order: Order) -> None:
    for first, second in (
        (Mixture((0.5, 0.5), (0.0, 1e6), (1, 1)), Mixture((0.4, 0.6), (0.5, 1e6 + 1), (1, 1))),
        (Mixture((0.5, 0.5), (0.0, 0.0), (1, 500)), Mixture((0.5, 0.5), (0.1, 90.0), (1, 500))),
        (Mixture((1 - 1e-9, 1e-9), (0.0, 1.0), (1, 1)), Mixture((1.0,), (0.0,), (1.0,))),
    ):
        laws = (first, second) if order is Order.FORWARD else (second, first)
        ends = sorted({m for law in laws for m in law.means})
        widest = max(max(law.stds) for law in laws)
        marks = sorted({m + k * s for m in ends for s in (1, widest) for k in range(-12, 13, 4)})
        near = [(a, b) for a, b in itertools.pairwise(marks) if b - a <= 4 * widest]
        true = true_renyi(*laws, 3.0, near)
        low, high = exact.curve(Mixtures(first, second)).renyi_bracket(3.0, order)
        assert low <= true + 1e-16  # of the tails
        assert true - 1e-16 <= high <= low + 1e-7 * high + 1e-12


def test_laplace_mixtures_hold_the_integral() -> None:
    pair = LaplaceMixtures(1.0, (0.0, 1.0, 3.0), (0.2, 0.3, 0.5), (0.7, 0.3, 0.0))
    curve = exact.curve(pair)
    with mpmath.workdps(30):

        def p(weights, x):
            return mpmath.fsum(
                w * mpmath.exp(-abs(x - m)) / 2 for w, m in zip(weights, pair.means, strict=True)
            )

        moment = mpmath.quad(
            lambda x: p(pair.first, x) ** 3 * p(pair.second, x) ** -2, [-60, 0, 1, 3, 60]
        )
        true = mpmath.log(moment) / 2
        low, high = curve.renyi_bracket(3.0, Order.FORWARD)
        assert low <= true <= high < low + 1e-7
