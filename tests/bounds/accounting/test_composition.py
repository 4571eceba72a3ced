"""Sampled Gaussian steps and their compositions, against quadrature, a library and closed forms."""

import math
import pickle

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from scipy.special import ndtri

from audit.bounds.accounting import SubsampledGaussian, compose
from audit.bounds.accounting.composition import MAX_COMPOSITION, _with_48_bits, coarse_epsilons
from audit.curves import GaussianCurve, MinimumCurve, Order
from audit.dominating.poisson import poisson_curve
from audit.dominating.without_replacement import MirroredCurve
from audit.mechanism import Relation
from tests.bounds import reference
from tests.slow import slow


@pytest.mark.parametrize(("rate", "mu"), [(0.05, 1.0), (0.3, 4.0), (0.9, 0.2), (1e-4, 2.0)])
def test_profile_is_that_of_the_mixture(rate, mu):
    curve = SubsampledGaussian(rate, mu)
    for epsilon in (0.0, 0.01, 0.5, 1.0, 2.5):
        expected = reference.mixture_delta(epsilon, rate, mu)
        assert curve.delta(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert curve.delta(-epsilon) == pytest.approx(
            1 - math.exp(-epsilon) * (1 - expected), rel=1e-9
        )


@pytest.mark.parametrize("rate", [1e-8, 0.05, 0.9999])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 40.0])
def test_epsilon_inverts_delta(rate, mu):
    curve = SubsampledGaussian(rate, mu)
    deltas = np.geomspace(1e-12, 0.99, 40) * curve.delta(0.0)
    assert np.asarray(curve.delta(curve.epsilon(deltas))) == pytest.approx(deltas, rel=1e-9)


def test_sampling_everything_is_the_gaussian():
    curve, gaussian = SubsampledGaussian(1.0, 1.3), GaussianCurve(1.3)
    deltas = np.geomspace(1e-12, 0.3, 20)
    assert np.asarray(curve.epsilon(deltas)) == pytest.approx(gaussian.epsilon(deltas), rel=1e-12)
    assert np.asarray(curve.renyi([1.5, 40.0])) == pytest.approx(gaussian.renyi([1.5, 40.0]))


@pytest.mark.parametrize("rate", [1e-8, 0.1, 0.999])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 200.0])
def test_renyi_stays_within_its_limits(rate, mu):
    orders = np.geomspace(1.001, 1e4, 30)
    values = np.asarray(SubsampledGaussian(rate, mu).renyi(orders))
    assert np.all(np.diff(values) >= 0)
    assert np.all(values <= orders * mu**2 / 2 * (1 + 1e-12))
    # the mixture has rate * N(mu, 1) inside it
    floor = orders * mu**2 / 2 + orders / (orders - 1) * math.log(rate)
    assert np.all(values >= floor * (1 - 1e-12))


def test_tradeoff_is_the_convexified_one():
    rate, mu = 0.4, 1.5
    curve = SubsampledGaussian(rate, mu)
    # beside the straight piece around the fixed point, C_p is f_p and, mirrored, its inverse
    alpha = 1e-3
    f_p = rate * GaussianCurve(mu).beta(alpha) + (1 - rate) * (1 - alpha)
    assert curve.beta(alpha) == pytest.approx(f_p, rel=1e-6)
    assert curve.beta(float(curve.beta(alpha))) == pytest.approx(alpha, rel=1e-2)
    assert curve.beta(0.3) <= rate * GaussianCurve(mu).beta(0.3) + (1 - rate) * 0.7
    assert ndtri(curve.beta(alpha)) > ndtri(GaussianCurve(mu).beta(alpha))


# --- compositions ---


def library_epsilon(rate, mu, times, delta, interval, reach):
    """dp-accounting's discretisation, composition and readout of the same profile."""
    points = math.ceil(reach / interval)
    losses = interval * np.arange(-points, points + 1)
    deltas = np.asarray(SubsampledGaussian(rate, mu).delta(losses))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -points, points, deltas)
    return pmf.self_compose(times).get_epsilon_for_delta(delta)


def test_agrees_with_dp_accounting():
    curve = compose(SubsampledGaussian(0.05, 1.0), 100)
    assert curve.epsilon(1e-5) == pytest.approx(3.84898, rel=1e-5)
    library = library_epsilon(0.05, 1.0, 100, 1e-5, interval=1e-3, reach=8)
    low, high = curve.epsilon_bracket(1e-5)
    assert low <= high <= library
    assert high == pytest.approx(library, rel=1e-5)
    assert high - low < 1e-5


@pytest.mark.parametrize(("rate", "mu"), [(0.2, 0.5), slow(0.05, 3.0), slow(0.7, 1.0)])
def test_bracket_contains_the_twofold_composition(rate, mu):
    curve = compose(SubsampledGaussian(rate, mu), 2)
    for delta in (0.05, 1e-3, 1e-6):
        low, high = curve.epsilon_bracket(delta)
        at_low, at_high = (reference.twofold_delta(end, rate, mu) for end in (low, high))
        assert at_high <= delta <= at_low
        assert high - low <= 2e-5


def test_steps_on_all_records_join_the_gaussian_mechanism():
    curve = compose(SubsampledGaussian(1.0, 0.3), 50, 2.0)
    assert isinstance(curve, GaussianCurve)
    assert curve.mu == pytest.approx(math.sqrt(50 * 0.09 + 4), rel=1e-14)
    step = SubsampledGaussian(0.1, 2.0)
    assert compose(step, 1) is step
    beside = SubsampledGaussian(0.1, 0.8)
    found = compose(SubsampledGaussian(1.0, 0.5), 4, 2.0, beside=beside)
    joined = compose(beside, 1, math.sqrt(5))
    assert found.epsilon(1e-5) == pytest.approx(joined.epsilon(1e-5), rel=1e-12)
    assert found.epsilon(1e-5) > GaussianCurve(math.sqrt(5)).epsilon(1e-5) * (1 + 1e-3)
    found = compose(beside, 1, 2.0, beside=SubsampledGaussian(1.0, 1.0))
    assert found.epsilon(1e-5) == pytest.approx(joined.epsilon(1e-5), rel=1e-12)


def test_settings_of_the_papers():
    # at22 section 4, gradient sensitivity L: 1762 at a coarse interval
    low, high = compose(SubsampledGaussian(0.1, 2.7386127875258306), 7500).epsilon_bracket(0.01)
    assert 1761.3 < low < high < 1762
    assert high - low < 0.01
    # bsa24, Theorem 4.10 with t - tau = 25000
    step = SubsampledGaussian(0.05, 2 * math.sqrt(2) / 25)
    curve = compose(step, 25_000, math.sqrt(2) / (0.01 * math.sqrt(25_000)))
    low, high = curve.epsilon_bracket(1e-5)
    assert high == pytest.approx(5.91368, rel=2e-5)
    assert high - low < 1e-4


def test_a_coarser_grid_is_looser_never_wrong():
    step = SubsampledGaussian(0.1, 1.0)
    fine = compose(step, 400).epsilon_bracket(1e-6)
    coarse = compose(step, 400, largest_grid=1 << 12).epsilon_bracket(1e-6)
    assert coarse[0] <= fine[0] <= fine[1] <= coarse[1]


@pytest.mark.parametrize("mu", [0.1, 24.07, slow(60.0)])
def test_a_gaussian_mechanism_beside_rare_steps(mu):
    """The steps add less than the grid does; wide Gaussians are composed of narrow ones."""
    curve = compose(SubsampledGaussian(1e-12, 0.1), 10, mu)
    for delta in (0.3, 1e-5, 1e-12, 1e-40):
        low, high = curve.epsilon_bracket(delta)
        exact = GaussianCurve(mu).epsilon(delta)
        assert low <= exact * (1 + 1e-9)
        assert exact <= high
        assert high == pytest.approx(exact, rel=1e-5)
    for epsilon in (0.0, 1.0, 30.0):
        low, high = curve.delta_bracket(epsilon)
        assert low <= GaussianCurve(mu).delta(epsilon) * (1 + 1e-9) <= high * (1 + 1e-9)


def test_small_deltas_lie_between_what_is_attained_and_renyi_divergences():
    curve = compose(SubsampledGaussian(0.1, 1.0), 50)
    assert isinstance(curve, MirroredCurve)
    attained = poisson_curve(1.0, 0.1, 50, Relation.ZERO_OUT, accuracy=1e-4)
    for delta in (1e-13, 1e-30, 1e-100):
        low, high = curve.epsilon_bracket(delta)
        assert attained.epsilon_bracket(delta, Order.FORWARD)[0] <= high
        assert low <= high <= min(low * (1 + 1e-5), curve.divergences.epsilon(delta))
    deltas = np.geomspace(1e-16, 0.3, 20)
    assert np.all(np.diff(np.asarray(curve.epsilon(deltas))) <= 0)
    assert np.all(np.asarray(curve.delta(curve.epsilon(deltas))) >= deltas * (1 - 1e-9))


def test_beyond_the_largest_composition_the_bound_is_finite():
    curve = compose(SubsampledGaussian(1e-3, 0.5), MAX_COMPOSITION * 10)
    assert isinstance(curve, MinimumCurve)
    assert curve.winner(1e-5) == "Renyi divergences"
    assert math.isfinite(curve.epsilon(1e-5))
    below = compose(SubsampledGaussian(1e-3, 0.5), MAX_COMPOSITION)
    assert below.epsilon(1e-5) < curve.epsilon(1e-5)


@pytest.mark.parametrize(
    ("rate", "mu", "times", "gaussian_mu"),
    [
        slow(1e-8, 1.0, 10**4, 0.0),
        (0.5, 2000.0, 10, 0.0),
        (0.1, 1e-6, 1000, 0.0),
        (0.1, 1.0, 10, 1e6),
        (0.1, 1.0, 10, 1e-6),
    ],
)
def test_extremes_neither_overflow_nor_give_nan(rate, mu, times, gaussian_mu):
    curve = compose(SubsampledGaussian(rate, mu), times, gaussian_mu, largest_grid=1 << 13)
    unsampled = GaussianCurve(math.hypot(math.sqrt(times) * mu, gaussian_mu))
    epsilons = np.asarray(curve.epsilon([1e-12, 1e-9, 1e-5, 0.1]))
    assert np.all(np.diff(epsilons) <= 0)
    assert epsilons[-1] <= unsampled.epsilon(0.1) * 1.01
    deltas = np.asarray(curve.delta([0.0, 800.0, -3.0]))
    assert np.all((deltas >= 0) & (deltas <= 1))
    betas = np.asarray(curve.beta([0.0, 0.3, 1.0]))
    assert np.all((betas >= 0) & (betas <= [1, 0.7 + 1e-12, 1e-12]))
    if isinstance(curve, MirroredCurve):
        low, high = curve.epsilon_bracket(1e-5)
        assert low <= high == epsilons[2]


def test_refuses_bad_numbers():
    for rate, mu, message in (
        (0.0, 1.0, "rate must be a positive finite number, got 0.0"),
        (1.5, 1.0, r"rate must be in \[0, 1\], got 1.5"),
        (0.5, math.nan, "mu must be a positive finite number, got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            SubsampledGaussian(rate, mu)
    with pytest.raises(ValueError, match="times must be a whole number of at least 1, got 0"):
        compose(SubsampledGaussian(0.1, 1.0), 0)
    with pytest.raises(ValueError, match="gaussian_mu must be a finite number of at least 0"):
        compose(SubsampledGaussian(0.1, 1.0), 2, -1.0)


def test_a_composition_in_use_is_not_computed_again_but_in_other_processes():
    step = SubsampledGaussian(0.1, 0.7)
    first = compose(step, 50)
    copy = pickle.loads(pickle.dumps(first))
    assert copy.epsilon_bracket(1e-3) == first.epsilon_bracket(1e-3)
    assert compose(SubsampledGaussian(0.1, 0.7), 50) is first
    assert compose(SubsampledGaussian(0.1, np.nextafter(0.7, 1)), 50) is first
    for mu in (0.7, 1e-9, 3.0, 1e5 / 3):  # rounded up, by no more than the last of 48 bits
        assert mu <= _with_48_bits(SubsampledGaussian(0.1, mu)).mu <= mu * (1 + 2.0**-47)
    assert compose(step, 51) is not first
    assert compose(step, 50, 0.1) is not first


@pytest.mark.parametrize(
    ("step", "shortest", "longest", "crossing", "beside"),
    [
        slow(SubsampledGaussian(0.1, 0.28), 1000, 18_000, 140.0, None),
        (SubsampledGaussian(0.1, 3.0), 2, 40, 0.0, None),
        (SubsampledGaussian(0.1, 0.5), 10, 100, 20.0, SubsampledGaussian(0.1, 0.7)),
        (SubsampledGaussian(0.01, 90.0), 1, 3, 0.0, None),
        (SubsampledGaussian(1.0, 0.3), 4, 16, 0.0, None),
    ],
)
def test_lengths_are_compared_by_nearly_their_epsilons(step, shortest, longest, crossing, beside):
    def gaussian(times):
        return crossing / math.sqrt(times)

    coarse = coarse_epsilons(step, gaussian=gaussian, beside=beside)
    for times in (shortest, longest):
        for delta in (1e-3, 1e-9):
            exact = compose(step, times, gaussian(times), beside=beside).epsilon(delta)
            # a length is chosen where epsilon is flat, so that .2 % are enough
            assert coarse(times, delta) == pytest.approx(exact, rel=2e-3)


STEEP = SubsampledGaussian(0.9, 0.3435525246613806)
WIDE = SubsampledGaussian(0.045745256307510584, 0.13185339228919965)


@pytest.mark.parametrize(
    ("step", "times", "mu_once", "beside", "delta"),
    [
        slow(SubsampledGaussian(0.77, 2.108), 1460, 43.5, None, 1.5e-11),
        (STEEP, 9, 19.33849681923516, WIDE, 1e-9),
        (SubsampledGaussian(1.0, 34.6), 3, 0.0, SubsampledGaussian(1e-4, 0.83), 1.5e-11),
        (SubsampledGaussian(0.1, 0.28), 4498, 2.1, None, 1e-9),
    ],
)
def test_the_two_sides_are_in_order(step, times, mu_once, beside, delta):
    """Masses of wide Gaussians add up to 1 + 3e-11: the excess must not be taken off elsewhere."""
    low, high = compose(step, times, mu_once, beside=beside).epsilon_bracket(delta)
    assert low <= high <= low * (1 + 1e-4)


@pytest.mark.parametrize(
    ("step", "times", "mu_once", "beside"),
    [
        (SubsampledGaussian(1e-6, 1e-3), 2000, 1.0, None),
        slow(SubsampledGaussian(1e-3, 1e-2), 10**5, 3.0, SubsampledGaussian(0.5, 3.0)),
        slow(SubsampledGaussian(4.5e-4, 0.0293), 577_266, 0.0, SubsampledGaussian(1.06e-3, 4.67)),
        (SubsampledGaussian(2.397e-6, 0.18), 6598, 0.07, None),
    ],
)
def test_steps_that_are_weak_beside_another_law(step, times, mu_once, beside):
    low, high = compose(step, times, mu_once, beside=beside).epsilon_bracket(1e-6)
    assert low <= high <= low * 1.0001 + 1e-6
    if beside is not None:
        assert high >= compose(beside, 1, mu_once).epsilon(1e-6) * (1 - 1e-4)


@pytest.mark.parametrize("records", [10**6, 10**9, 10**12])
def test_epsilons_at_tiny_rates_do_not_cancel(records):
    """They came from a difference of numbers near 20: a thousandth too small at 1e-12."""
    delta = 0.1 / records
    bracket = poisson_curve(1.0, 1 / records, 1, Relation.ADD_REMOVE, accuracy=1e-9)
    low, high = bracket.epsilon_bracket(delta)
    assert low <= SubsampledGaussian(1 / records, 1.0).epsilon(delta) <= high * (1 + 1e-12)
