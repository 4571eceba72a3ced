"""Curves of explicit distributions: their brackets against closed forms and slow twins."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import norm

from audit import exact
from audit.constructions.explicit import Finite, LaplaceMixtures, Mixture, Mixtures
from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.curves.finite_pair import Cells
from audit.exact import GaussianPairCurve, law_curve
from audit.exact.cell_curve import FiniteCells
from audit.exact.explicit_curves import mixture_law, single_curve
from audit.exact.normal_cells import NormalCells
from tests.slow import slow

ORDERS = tuple(Order)


def normal(mean, std=1.0):
    return Mixture((1.0,), (mean,), (std,))


def test_positive_deltas_below_the_range_of_doubles_are_not_zero():
    """At epsilon 47 delta of two normals at a distance of 1 is 5e-480."""
    for first in (normal(0.0), Mixture((0.5, 0.5), (0.0, 0.1), (1, 1))):
        low, high = exact.curve(Mixtures(first, normal(1.0))).delta_bracket(47.0)
        assert low == 0 < high < 1e-319
    assert exact.curve(Finite((0.75, 0.25), (0.25, 0.75))).delta_bracket(2.0) == (0, 0)


@pytest.mark.parametrize("planted", ["merged", "split"])
def test_a_wrong_side_is_an_error(monkeypatch, planted):
    """A loss .1 too large below, or too small above, puts the lower end above the upper one."""
    curve, true = single_curve(Mixtures(normal(0.0), normal(2.0))), getattr(Cells, planted)
    sign = 1 if planted == "merged" else -1

    def wrong(self, **options):
        pair = true(self, **options)
        shift = sign * 0.1
        return dataclasses.replace(pair, loss=pair.loss + shift, log_q=pair.log_q - shift)

    monkeypatch.setattr(Cells, planted, wrong)
    for ask, at in ((curve.epsilon_bracket, 1e-5), (curve.delta_bracket, 1.0)):
        with pytest.raises(BracketError, match="must have 0 <= low <= high"):
            ask(at)


@pytest.mark.parametrize("mu", [0.1, 2.0, 12.0])
def test_cells_of_two_normals_are_the_gaussian_curve(mu):
    pair = Mixtures(normal(0.0), normal(mu))
    curve, gaussian = single_curve(pair), GaussianCurve(mu)
    assert isinstance(exact.curve(pair), GaussianPairCurve)  # the closed form, where there is one
    for order in ORDERS:
        cases = [(curve.epsilon_bracket(d, order), gaussian.epsilon(d)) for d in (0.1, 1e-5, 1e-12)]
        cases += [
            (curve.renyi_bracket(a, order), gaussian.renyi(a)) for a in (1.1, 2.0, 1 + 40 / mu)
        ]
        cases += [(curve.power_bracket(0.05, order), float(ndtr(mu + ndtri(0.05))))]
        cases += [(curve.delta_bracket(e, order), gaussian.delta(e)) for e in (0.0, 1.0, 8.0)]
        for (low, high), true in cases:
            # the closed form itself has some 1e-12
            assert low * (1 - 1e-12) <= true <= high * (1 + 1e-12)
            assert high - low <= 1e-9 * true + 1e-319
        assert mu * (1 - 1e-3) < curve.mu_bracket(order).low <= mu


def test_outcomes_of_one_law_count_in_both_orders_of_a_composition():
    """Of a symmetric pair; with probability 1 - (1 - 1e-5)^1000 an outcome tells the law."""
    p = 0.5249739376870652
    rest = 1 - 1e-5 - p
    curve = exact.curve(Finite((1e-5, 0.0, p, rest), (0.0, 1e-5, rest, p), 1000))
    for order in ORDERS:
        assert curve.epsilon_bracket(1e-3, order)[1] == math.inf
        low, high = curve.epsilon_bracket(0.1, order)
        assert low == pytest.approx(high, rel=1e-6)
        low, high = curve.delta_bracket(300.0, order)
        assert low <= -math.expm1(1000 * math.log1p(-1e-5)) <= high


@pytest.mark.parametrize(("outcomes", "times"), [(3, 4), (700, 2), (20_000, 1)])
def test_finite_laws_by_enumeration(outcomes: int, times: int) -> None:
    """A table of counts took 3 GB for one draw of 20,000 outcomes, and 8 GB for two of 700."""
    rng = np.random.default_rng(0)
    laws = rng.random(outcomes) * np.exp(0.5 * rng.normal(size=(2, outcomes)))
    laws /= laws.sum(axis=1, keepdims=True)
    curve = exact.curve(Finite(*map(tuple, laws), times))
    p, q = (functools.reduce(np.multiply.outer, [law] * times).ravel() for law in laws)
    delta = math.fsum(np.maximum(p - math.exp(0.2) * q, 0.0))
    low, high = curve.delta_bracket(0.2, Order.FORWARD)
    assert low <= delta * (1 + 1e-12)
    assert delta <= high * (1 + 1e-12) < low * (1 + 1e-5)
    low, high = curve.renyi_bracket(2.5, Order.FORWARD)
    assert low <= math.log(math.fsum(p**2.5 * q**-1.5)) / 1.5 <= high < low + 1e-11


def test_errors_of_counts_grow_with_the_number_of_draws():
    short, long = (
        FiniteCells.of(Finite((0.5, 0.5), (0.4, 0.6), times)).cells() for times in (1, 100_000)
    )
    assert long.error_p.max() > 100 * short.error_p.max()
    off = FiniteCells.of(Finite((0.3, 0.7 - 1e-10), (0.5, 0.5), 50)).cells()
    assert off.error_p.min() > 50e-10


def test_divergences_that_are_infinite_are_said_to_be():
    """Of normals of deviations 1 and 2, the moment of order a is finite where a/4 > a - 1."""
    curve = exact.curve(Mixtures(normal(0.0, 2.0), normal(0.0, 1.0)))
    assert math.isfinite(curve.renyi_bracket(1.3, Order.FORWARD)[1])
    assert curve.renyi_bracket(1.34, Order.FORWARD) == (math.inf, math.inf)
    assert curve.epsilon_bracket(0.0, Order.FORWARD) == (math.inf, math.inf)
    low, high = curve.epsilon_bracket(0.0, Order.REVERSE)
    assert low <= math.log(2.0) <= high < low + 1e-12
    finite = math.log(2) + math.log(4 / (1 + 3 * 1.34)) / (2 * 0.34)
    low, high = curve.renyi_bracket(1.34, Order.REVERSE)
    assert low <= finite <= high < low + 1e-9


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-12])
def test_the_largest_loss_of_all_draws_bounds_epsilon(delta: float) -> None:
    curve = exact.curve(LaplaceMixtures(1.0, (0.0, 1.0), (1.0, 0.0), (0.0, 1.0), times=10))
    low, high = curve.epsilon_bracket(delta)
    assert 9.999 < low <= high <= 10 + 1e-12
    assert curve.epsilon(delta) == high
    assert curve.delta_bracket(10.01)[1] == 0
    assert curve.delta_bracket(9.9995)[1] > -math.expm1(-5e-4) / 1024  # all draws at the far atom


def test_the_largest_loss_is_that_of_its_order() -> None:
    """Draws around 0 against draws around 0 or 0.2, with probability 1/2 each."""
    curve = exact.curve(LaplaceMixtures(1.0, (0.0, 0.2), (1.0, 0.0), (0.5, 0.5), times=5))
    forward = 5 * math.log(2 / (1 + math.exp(-0.2)))
    for order, largest in zip(Order, (forward, 1 - forward), strict=True):
        assert curve.epsilon(1e-9, order) == pytest.approx(largest, rel=1e-5)


def test_epsilons_above_a_billion_are_finite():
    """The losses of N(1, 10^4) against N(0, 1) are of the order of the squared ratio."""
    curve = exact.curve(Mixtures(normal(1.0, 1e4), normal(0.0)))
    low, high = curve.epsilon_bracket(1e-12, Order.FORWARD)
    z = float(ndtri(0.5e-12))  # but for the mean, and the tail of the second law: far out
    assert low <= 0.5 * (z * 1e4) ** 2 * (1 + 1e-3)
    assert high >= 0.5 * (z * 1e4) ** 2 * (1 - 1e-3)
    assert high < low * (1 + 1e-3)


# ------------------------------------ Brackets of mixtures of normals hold the truth, to 30 digits


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


@pytest.mark.parametrize("order", [Order.FORWARD, slow(Order.REVERSE)])
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


@pytest.mark.parametrize(("mean", "std", "ratio"), [(1.0, 1e-17, 1.01), (6e8, 1e-8, 2), (1, 1, 2)])
def test_divergences_of_normals_far_from_0(mean, std, ratio):
    """Nodes of a quadrature were rounded by more than the deviation: 1.93 of 1.94e-4."""
    first, second = normal(mean, std), normal(mean, ratio * std)
    low, high = exact.curve(Mixtures(first, second)).renyi_bracket(1.5, Order.FORWARD)
    mixed = 1.5 * ratio**2 - 0.5  # alpha s'^2 + (1 - alpha) s^2
    truth = math.log(ratio) - math.log(mixed / ratio**2)
    assert low <= truth <= high < 0.7  # of cells, where nodes coincide
    if mean == std:
        assert high - low < 1e-9
