"""Curves of computed laws: inverses, duality, orders, and odd input."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from audit import Batching, Composition, Order, Relation
from audit.constructions import Affine, GradientPair, PiecewiseLinear, TwoSidedWalk
from audit.constructions.explicit_laws import AllIterates, Laplace
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.exact import GaussianPairCurve, LawCurve, curve, curves, dominating_curve, law
from audit.exact.from_pair import divergence_rates
from audit.exact.propagation import domain_ends
from tests.exact.cases import CASES, Pair, mechanism, noisy, process
from tests.mechanisms import dp_sgd, noisy_sgd
from tests.slow import slow

NAMES = ["without replacement", "double well"]
OTHERS = ["cyclic, first batch", "full, at the end"]


@pytest.fixture(scope="module", params=[*NAMES, *map(slow, OTHERS)])
def exact(request: pytest.FixtureRequest) -> LawCurve:
    result = curve(CASES[request.param]())
    assert isinstance(result, LawCurve)
    return result


@pytest.mark.parametrize("order", [Order.FORWARD, Order.REVERSE, None])
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-6, 1e-12])
def test_epsilon_and_delta_are_inverses(exact: LawCurve, delta: float, order: Order | None) -> None:
    epsilon = exact.epsilon(delta, order)
    if epsilon > 0:
        assert exact.delta(epsilon, order) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("order", list(Order))
def test_beta_is_the_conjugate_of_delta(exact: LawCurve, order: Order) -> None:
    """beta(a) = sup over all real eps of e^-eps (1 - delta(eps) - a)."""
    other = order.other
    first, second = exact.first, exact.second
    p, q = (first, second) if order is Order.FORWARD else (second, first)
    # an atom is where the best test changes by a jump
    atoms = np.array(p.log_atoms) - np.array(q.log_atoms)
    epsilons = np.sort(np.concatenate([np.linspace(-12, 12, 1201), atoms]))
    lines = 1 - exact.delta(epsilons, order)
    for alpha in (1e-4, 0.05, 0.4, 0.8):
        dual = np.max(np.exp(-epsilons) * (lines - alpha))
        assert exact.beta(alpha, order) >= dual - 1e-9
        assert exact.beta(alpha, order) == pytest.approx(max(dual, 0.0), abs=5e-5)
        mirrored = exact.beta(exact.beta(alpha, order), other)
        assert mirrored == pytest.approx(alpha, rel=1e-7)  # the tradeoff function's inverse


@pytest.mark.parametrize("order", list(Order))
def test_beta_is_decreasing_and_convex(exact: LawCurve, order: Order) -> None:
    alphas = np.linspace(0, 1, 41)
    betas = exact.beta(alphas, order)
    assert betas[0] == pytest.approx(1, abs=1e-12)
    assert betas[-1] == 0
    assert np.all(np.diff(betas) <= 1e-12)
    assert np.all(np.diff(betas, 2) >= -1e-11)
    assert np.all(betas <= 1 - alphas + 1e-12)


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-16, 1e-12])
def test_beta_at_tiny_alpha(exact: LawCurve, alpha: float) -> None:
    """1 - P(S) has no digits here; beta stays between its neighbours and the line."""
    for order in Order:
        epsilon = exact.epsilon(1e-9, order)
        assert 1 - 1e-9 - math.exp(epsilon) * alpha <= exact.beta(alpha, order) + 1e-12
        assert exact.beta(alpha, order) <= 1 - alpha


@pytest.mark.parametrize("alpha", [1 + 1e-7, 1.5, 7.0, 100.0, 1e4, 1e6])
def test_renyi_rises_to_the_largest_ratio(exact: LawCurve, alpha: float) -> None:
    for order in Order:
        low, high = exact.renyi_bracket(alpha, order)
        assert low <= exact.renyi(alpha, order) <= high
        assert exact.renyi(alpha, order) <= exact.renyi(2 * alpha, order) + 1e-10
        # where delta vanishes no ratio is larger
        assert exact.renyi(alpha, order) <= exact.epsilon(1e-250, order) + 1e-6


def test_the_worse_order_is_the_default(exact: LawCurve) -> None:
    for ask, worse in (
        (lambda o: exact.epsilon(1e-3, o), max),
        (lambda o: exact.delta(0.5, o), max),
        (lambda o: exact.renyi(3.0, o), max),
        (lambda o: exact.beta(0.3, o), min),
    ):
        assert ask(None) == worse(ask(Order.FORWARD), ask(Order.REVERSE))
    brackets = [exact.epsilon_bracket(1e-3, o) for o in Order]
    assert exact.epsilon_bracket(1e-3) == tuple(map(max, *brackets))


def test_delta_at_extreme_epsilon(exact: LawCurve) -> None:
    assert exact.delta(1e308) == 0
    assert exact.delta(-1e308) == pytest.approx(1, abs=1e-12)
    assert exact.delta_bracket(1e308) == (0.0, 0.0)
    low, high = exact.delta_bracket(-700.0)
    assert low <= 1 <= high
    assert exact.epsilon(1 - 1e-16) == 0
    assert isinstance(exact.epsilon_bracket(np.float64(1e-5))[0], float)
    # sup_S Q(S) - e^-eps P(S) = e^-eps delta(eps) + 1 - e^-eps
    for epsilon in (0.1, 1.0, 3.0):
        mirrored = math.exp(-epsilon) * exact.delta(epsilon, Order.FORWARD) - math.expm1(-epsilon)
        assert exact.delta(-epsilon, Order.REVERSE) == pytest.approx(mirrored, rel=1e-11)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.epsilon(math.nan), r"delta must be in \[0, 1\), got nan"),
        (lambda c: c.epsilon([0.1, 1.0]), r"delta must be in \[0, 1\), got 1.0"),
        (lambda c: c.epsilon("small"), r"delta must be in \[0, 1\), got 'small'"),
        (lambda c: c.epsilon_bracket(-1e-5), r"delta must be in \[0, 1\), got -1e-05"),
        (lambda c: c.delta(math.inf), r"epsilon must be in \(-inf, inf\), got inf"),
        (lambda c: c.delta_bracket(math.nan), r"epsilon must be in \(-inf, inf\), got nan"),
        (lambda c: c.beta(1.5), r"alpha must be in \[0, 1\], got 1.5"),
        (lambda c: c.renyi(1.0), r"alpha must be in \(1, inf\), got 1.0"),
        (lambda c: c.renyi_bracket(0.5), r"alpha must be in \(1, inf\), got 0.5"),
        (lambda c: c.epsilon(0.1, "forward"), "order must be an Order, got 'forward'"),
    ],
)
def test_bad_questions(call, message: str) -> None:  # type: ignore[no-untyped-def]
    exact = curve(CASES["one step"]())
    with pytest.raises(ValueError, match=message):
        call(exact)


def test_only_constructions_have_curves() -> None:
    with pytest.raises(ValueError, match="pair must be a Construction, got 3"):
        curve(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1, got 0"):
        curve(CASES["one step"](), threads=0)


class TestClosedForm:
    """Affine maps without walls."""

    @pytest.mark.parametrize("slope", [1.0, 0.5, -0.9, 1.1, 0.0])
    @pytest.mark.parametrize("steps", [1, 2, 7, 50])
    def test_moments(self, slope: float, steps: int) -> None:
        steps_of = (noisy(Affine(push, slope)) for push in (0.3, -0.3))
        exact = curve(Pair(*(process(step, times=steps, start=2.0) for step in steps_of)))
        assert isinstance(exact, GaussianPairCurve)
        mean, variance = 2.0, 0.0
        for _ in range(steps):
            mean, variance = slope * mean + 0.3, slope**2 * variance + 1
        assert exact.first.mean == pytest.approx(mean, rel=1e-13)
        assert exact.first.std == pytest.approx(math.sqrt(variance), rel=1e-13)

    def test_an_unconstrained_mechanism_is_gaussian(self) -> None:
        m = mechanism(diameter=None, steps=40, step_size=tuple(1 / (1 + k) for k in range(40)))
        exact = curve(TwoSidedWalk(m))
        etas = m.step_sizes
        mu = 2 * 0.2 * etas.sum() / math.sqrt((etas**2).sum())
        assert isinstance(exact, GaussianPairCurve)
        assert exact.mu == pytest.approx(mu, rel=1e-13)
        early, _ = curves(TwoSidedWalk(m), (1, 40))
        assert isinstance(early, GaussianPairCurve)
        assert early.mu == pytest.approx(0.4, rel=1e-13)

    def test_cancellation_is_in_the_bracket(self) -> None:
        """Start 10^9, pushes 10^-3: the means' difference has six digits."""
        exact = curve(TwoSidedWalk(mechanism(diameter=None, steps=7, lipschitz=1e-3), start=1e9))
        truth = curve(TwoSidedWalk(mechanism(diameter=None, steps=7, lipschitz=1e-3)))
        for low, high, value in (
            (*exact.epsilon_bracket(1e-5), truth.epsilon(1e-5)),
            (*exact.delta_bracket(1e-3), truth.delta(1e-3)),
            (*exact.renyi_bracket(3.0), truth.renyi(3.0)),
        ):
            assert low <= value <= high
            assert low < value * (1 - 1e-6)

    def test_unlike_variances_are_no_gaussian_pair(self) -> None:
        pair = Pair(
            process(noisy(Affine(), std=1.0), times=3),
            process(noisy(Affine(), std=1.0), noisy(Affine(), std=1.5), noisy(Affine())),
        )
        exact = curve(pair)
        assert isinstance(exact, LawCurve)
        assert exact.second.density(0.0) == pytest.approx(1 / math.sqrt(2 * math.pi * 4.25))

    def test_overflow_is_named(self) -> None:
        with pytest.raises(ValueError, match="slope must not let the iterate overflow"):
            law(process(noisy(Affine(0.1, 2.0)), times=3000))

    def test_normal_law_answers_like_scipys(self) -> None:
        own = law(process(noisy(Affine(0.3, 0.5)), times=7))
        x, reference = np.array([-40.0, -1.0, 0.5, 3.0]), norm(own.means[0], own.stds[0])
        np.testing.assert_allclose(own.log_density(x), reference.logpdf(x), rtol=1e-14)
        np.testing.assert_allclose(own.cdf(x[1:]), reference.cdf(x[1:]), rtol=1e-13)
        own = law(process(noisy(Affine(1.0)), times=4))
        assert own.probability() == 1
        assert own.probability(4.0) == pytest.approx(0.5)
        assert own.log_probability(-100.0, -90.0) == pytest.approx(norm.logcdf(-47.0), rel=1e-12)
        assert own.probability(3.0, 2.0) == 0
        assert own.atoms == (0.0, 0.0)


def test_maps_that_are_steep_at_few_points_take_no_wider_line() -> None:
    """A step of slope -4.8 between two kinks: a line for such slopes everywhere took minutes."""
    m = noisy_sgd(steps=6, dataset_size=5, step_size=0.1, noise_std=0.9955, smoothness=None,
                  gradient_sensitivity=1.9979, convex=False, diameter=None)  # fmt: skip
    pair = GradientPair(
        m,
        others=PiecewiseLinear((0.1444, 0.172), (-0.99894, 0.99894), (0.0, 0.0)),
        record=PiecewiseLinear((0.0,), (0.99894,), (0.0, 0.0)),
        record_prime=PiecewiseLinear((0.0,), (-0.99894,), (0.0, 0.0)),
        start=-0.2378,
    )
    low, high = domain_ends(pair.processes(), 38.0)
    assert high - low < 30
    walled = curve(replace(pair, mechanism=replace(m, diameter=40.0)))
    for found, wanted in zip(
        curve(pair).epsilon_bracket(1e-5), walled.epsilon_bracket(1e-5), strict=True
    ):
        assert found == pytest.approx(wanted, rel=1e-10)


def test_shuffled_means_that_agree_are_one_normal_law() -> None:
    m = noisy_sgd(steps=12, dataset_size=4, diameter=None, batching=Batching.SHUFFLED)
    pair = TwoSidedWalk(m)
    exact = curve(pair)
    assert isinstance(exact, GaussianPairCurve)
    assert exact.mu == pytest.approx(6 / math.sqrt(12))
    assert divergence_rates(*pair.processes(), [12])[0] >= exact.mu**2 / 2


EARLY = dp_sgd()
LATE = replace(EARLY, steps=30, batch_size=20)
FULL = replace(EARLY, batching=Batching.FULL, batch_size=100)
ALLOCATED = replace(EARLY, batching=Batching.RANDOM_ALLOCATION)
RESHUFFLED = replace(EARLY, batching=Batching.RESHUFFLED, relation=Relation.ZERO_OUT)


def test_epsilon_and_delta_are_those_of_the_composition():
    run = Composition((EARLY, LATE))
    law = curve(AllIterates(run))
    assert law.epsilon_bracket(1e-5) == dominating_curve(run).epsilon_bracket(1e-5)
    low, high = law.delta_bracket(1.0, Order.REVERSE)
    assert 0 < low <= high < low * 1.0001


@pytest.mark.parametrize(
    ("make", "causes"),
    [
        (lambda: curve(Laplace(sensitivity=1.0, scale=1.0, times=30)), {"rounding", "grid"}),
        (lambda: curve(Laplace(sensitivity=1.0, scale=1.0, times=2)), {"rounding", "grid"}),
        (lambda: dominating_curve(ALLOCATED), {"rounding", "grid"}),
        (lambda: dominating_curve(RESHUFFLED), {"rounding", "enclosure"}),
        (lambda: curve(AllIterates(FULL)), {"rounding"}),
    ],
)
def test_widths_are_divided_among_their_causes(make, causes):
    law = make()
    low, high = law.epsilon_bracket(1e-5)
    widths = law.errors(1e-5)
    assert set(widths) == causes
    assert sum(widths.values()) == pytest.approx(high - low, rel=1e-3)
    assert all(width >= 0 for width in widths.values())


def test_without_a_finite_end_no_cause_has_a_width():
    law = curve(Laplace(sensitivity=1.0, scale=1.0, times=30))
    assert law.errors(0.0)["cells"] < 1e-9
    assert curve(AllIterates(FULL)).errors(0.0) == {"rounding": 0.0}


def test_renyi_divergences_add_up():
    law = curve(AllIterates(Composition((EARLY, LATE, FULL))))
    for order in Order:
        sampled = [(20, 0.1, 1.0), (30, 0.2, 2.0)]
        total = sum(n * sampled_gaussian_renyi(3.0, q, z, order) for n, q, z in sampled)
        total += 20 * 3.0 / (2 * FULL.noise_multiplier**2)
        low, high = law.renyi_bracket(3.0, order)
        assert low <= total * (1 + 1e-9)
        assert total <= high * (1 + 1e-9)
        assert high - low < 1e-3 * total


def test_the_largest_loss_adds_up():
    """Without the record nothing says more than that it was in no batch."""
    law = curve(AllIterates(Composition((EARLY, LATE))))
    low, high = law.epsilon_bracket(0.0, Order.REVERSE)
    assert low <= -20 * math.log(0.9) - 30 * math.log(0.8) <= high < low * (1 + 1e-6)
    assert law.epsilon_bracket(0.0)[1] == math.inf


def test_full_batches_alone_are_normal():
    law = curve(AllIterates(Composition((FULL, replace(FULL, steps=7)))))
    assert isinstance(law, GaussianPairCurve)
    assert law.mu == pytest.approx(math.sqrt(27) / FULL.noise_multiplier)


def test_where_no_formula_is_known_epsilon_still_is():
    law = curve(AllIterates(Composition((EARLY, ALLOCATED))))
    low, high = law.epsilon_bracket(1e-5)
    assert 0 < low <= high < low * 1.001
    assert law.renyi_bracket(2.0)[0] == 0
    with pytest.raises(ValueError, match="AllIterates by formula needs a single run, got a"):
        AllIterates(Composition((EARLY, ALLOCATED))).distributions()
