import math
import pickle

import mpmath
import numpy as np
import pytest
import scipy.fft
from dp_accounting.pld import pld_pmf
from scipy.special import logsumexp

from audit.bounds.accounting import SubsampledGaussian, compose
from audit.bounds.accounting.composition import (
    LARGEST_COMPOSITION,
    _compose_on_grid,
    _fold,
    _folded,
    _Grid,
    _inverse,
    _lowest,
    _power,
    _stages,
    _transform_error,
    _with_48_bits,
    coarse_epsilons,
)
from audit.bounds.accounting.grids import (
    HalfGrid,
    _log_sum,
    optimistic_grid,
    pessimistic_grid,
    rounded_up,
)
from audit.curves import GaussianCurve, LossDistribution, MinimumCurve, PLDCurve, RenyiCurve
from tests.bounds import reference


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


def test_half_grid_is_the_librarys_discretisation():
    law, interval, points = SubsampledGaussian(0.2, 1.5), 0.05, 200
    grid = pessimistic_grid(law, interval, points)
    deltas = np.asarray(law.delta(interval * np.arange(-points, points + 1)))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -points, points, deltas)
    # the library's left end differs: it gathers there what lies below, at one point
    for epsilon in (0.0, 0.3, 2.0, 7.77):
        losses = interval * np.arange(points + 1)
        mine = np.sum(grid.right * np.maximum(-np.expm1(epsilon - losses), 0)) + grid.infinite_mass
        assert mine == pytest.approx(pmf.get_delta_for_epsilon(epsilon), rel=1e-10)


@pytest.mark.parametrize(("rate", "mu"), [(0.2, 0.5), (0.05, 3.0), (0.7, 1.0)])
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-6])
def test_bracket_contains_the_twofold_composition(rate, mu, delta):
    exact = reference.twofold_epsilon(delta, rate, mu)
    low, high = compose(SubsampledGaussian(rate, mu), 2).epsilon_bracket(delta)
    assert low <= exact <= high
    assert high - low <= 2e-5


def on_grid(mu, times, mu_once=0.0, size=1 << 20):
    """The path that sampled steps take, at p = 1: the truth, the grid and the curve."""
    step = SubsampledGaussian(1.0, mu)
    gaussian = SubsampledGaussian(1.0, mu_once) if mu_once else None
    total = GaussianCurve(math.hypot(math.sqrt(times) * mu, mu_once))
    grid = _Grid.choose(step, times, gaussian, None, size)
    moments = RenyiCurve.linear(total.mu**2 / 2)
    return total, grid, _compose_on_grid(step, times, [gaussian] * bool(mu_once), grid, moments)


@pytest.mark.parametrize(
    ("mu", "times", "mu_once", "size", "stages", "rel"),
    [
        (0.1, 100, 0.0, 1 << 18, 0, 5e-4),
        (0.01, 10_000, 1.0, 1 << 18, 2, 5e-4),
        (2.0, 100, 5.0, 1 << 18, 0, 5e-4),
        (0.02, 10_000, 0.0, 1 << 20, 2, 1e-5),
        # the masses of wide Gaussians may add up to more than 1
        (24.07, 2, 0.0, 1 << 20, 0, 1e-4),
        (22.46, 1, 0.0, 1 << 20, 0, 1e-4),
        (21.79, 2, 0.0, 1 << 20, 0, 1e-4),
    ],
)
def test_grid_composition_of_gaussians_brackets_the_closed_form(
    mu, times, mu_once, size, stages, rel
):
    total, grid, curve = on_grid(mu, times, mu_once, size)
    assert len(_stages(SubsampledGaussian(1.0, mu), times, grid)) == stages
    for delta in (0.3, 1e-2, 1e-5, 1e-8, 1e-10, 1e-12, 1e-15):
        low, high = curve.epsilon_bracket(delta)
        assert low <= total.epsilon(delta) <= high
        if delta >= 1e-7:
            assert high == pytest.approx(total.epsilon(delta), rel=rel)
    for epsilon in (0.0, 1.0, total.epsilon(1e-3), total.epsilon(1e-9)):
        low, high = curve.delta_bracket(epsilon)
        assert low <= total.delta(epsilon) <= high
    high = curve.upper.epsilon(np.array([2e-11 - curve.rounding]))
    assert high >= total.epsilon(2e-11)


def test_losses_outside_the_window_are_counted(monkeypatch):
    """A window that leaves out up to 1e-3 on either side, where they are not negligible."""
    monkeypatch.setattr("audit.bounds.accounting.composition._LOG_TAIL", math.log(1e3))
    total, _, curve = on_grid(0.1, 100, size=1 << 16)
    assert 1e-5 < curve.rounding < 1e-2
    for delta in (0.3, 0.1, 1e-2, 4e-3):
        low, high = curve.epsilon_bracket(delta)
        assert low <= total.epsilon(delta) <= high


def test_everything_sampled_reduces_to_the_gaussian():
    curve = compose(SubsampledGaussian(1.0, 0.3), 50, 2.0)
    assert isinstance(curve, GaussianCurve)
    assert curve.mu == pytest.approx(math.sqrt(50 * 0.09 + 4), rel=1e-14)


def test_one_step_is_exact():
    step = SubsampledGaussian(0.1, 2.0)
    assert compose(step, 1) is step


def test_grids_lie_on_either_side_of_the_step():
    law, interval = SubsampledGaussian(0.1, 2.0), 0.02
    points = 700
    losses = interval * np.arange(points + 50)
    above = pessimistic_grid(law, interval, points)
    below = optimistic_grid(law, interval, points)
    assert np.sum(below.right) + np.sum(below.left) == pytest.approx(1, abs=1e-12)
    for epsilon in np.linspace(0, 10, 77):
        exact = law.delta(float(epsilon))
        for grid, sign in ((above, 1), (below, -1)):
            gain = np.maximum(-np.expm1(epsilon - losses[: grid.right.size]), 0)
            value = np.sum(grid.right * gain) + grid.infinite_mass
            assert sign * (value - exact) >= -1e-15
            assert value == pytest.approx(exact, rel=0.01)


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


def test_falls_with_noise_and_rises_with_steps_and_rate():
    def epsilon(rate, mu, times):
        return compose(SubsampledGaussian(rate, mu), times, largest_grid=1 << 15).epsilon(1e-5)

    base = epsilon(0.1, 1.0, 50)
    assert epsilon(0.1, 0.9, 50) < base
    assert epsilon(0.1, 1.0, 55) > base
    assert epsilon(0.12, 1.0, 50) > base


def test_small_delta_falls_back_on_renyi_and_stays_valid():
    curve = compose(SubsampledGaussian(0.1, 1.0), 200)
    assert isinstance(curve, PLDCurve)
    assert curve.floor >= 1e-11
    for delta in (1e-13, 1e-30):
        assert curve.epsilon(delta) == curve.moments.epsilon(delta)
    deltas = np.geomspace(1e-16, 0.5, 60)
    assert np.all(np.diff(np.asarray(curve.epsilon(deltas))) <= 0)
    assert np.all(np.asarray(curve.delta(curve.epsilon(deltas))) >= deltas * (1 - 1e-9))


def test_beyond_the_largest_composition_the_bound_is_finite():
    curve = compose(SubsampledGaussian(1e-3, 0.5), LARGEST_COMPOSITION * 10)
    assert isinstance(curve, MinimumCurve)
    assert curve.winner(1e-5) == "Renyi divergences"
    assert math.isfinite(curve.epsilon(1e-5))
    below = compose(SubsampledGaussian(1e-3, 0.5), LARGEST_COMPOSITION)
    assert below.epsilon(1e-5) < curve.epsilon(1e-5)


@pytest.mark.parametrize(
    ("rate", "mu", "times", "gaussian_mu"),
    [
        (1e-8, 1.0, 10**4, 0.0),
        (1e-8, 100.0, 10**4, 0.0),
        (0.5, 2000.0, 10, 0.0),
        (0.1, 1e-6, 1000, 0.0),
        (0.1, 1.0, 10, 1e6),
        (0.1, 1.0, 10, 1e-6),
    ],
)
def test_extremes_neither_overflow_nor_give_nan(rate, mu, times, gaussian_mu):
    curve = compose(SubsampledGaussian(rate, mu), times, gaussian_mu, largest_grid=1 << 18)
    unsampled = GaussianCurve(math.hypot(math.sqrt(times) * mu, gaussian_mu))
    epsilons = np.asarray(curve.epsilon([1e-12, 1e-9, 1e-5, 0.1]))
    assert np.all(np.diff(epsilons) <= 0)
    assert epsilons[-1] <= unsampled.epsilon(0.1) * 1.01
    deltas = np.asarray(curve.delta([0.0, 1.0, 800.0, -3.0]))
    assert np.all((deltas >= 0) & (deltas <= 1))
    betas = np.asarray(curve.beta([0.0, 0.3, 1.0]))
    assert np.all((betas >= 0) & (betas <= [1, 0.7 + 1e-12, 1e-12]))


def test_a_curve_reaches_other_processes():
    curve = compose(SubsampledGaussian(rate=0.1, mu=1.0), 10)
    copy = pickle.loads(pickle.dumps(curve))
    assert copy.epsilon_bracket(1e-3) == curve.epsilon_bracket(1e-3)


def test_refuses_bad_counts():
    with pytest.raises(ValueError, match="times must be a whole number of at least 1, got 0"):
        compose(SubsampledGaussian(0.1, 1.0), 0)
    with pytest.raises(ValueError, match="gaussian_mu must be a finite number of at least 0"):
        compose(SubsampledGaussian(0.1, 1.0), 2, -1.0)


@pytest.mark.parametrize("exponent", [1, 2, 3, 7, 64, 7500, 10**7])
@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.1, 0.5])
def test_powers_near_1_keep_their_digits(exponent, size):
    angles = np.linspace(0, 2 * np.pi, 400)
    change = size * np.exp(1j * angles) - size  # |1 + change| is at most 1
    with mpmath.workdps(50):
        exact = np.array([complex((1 + mpmath.mpc(z)) ** exponent) for z in change])
    error = np.abs(_power(change, exponent) - exact)
    # the phase is a multiple of a rounded angle
    phase = exponent * np.abs(np.angle(1 + change))
    assert np.all(error <= np.finfo(float).eps * (4 + phase * np.abs(exact)))


def test_powers_of_small_transforms():
    change = np.array([-1.0, -1 + 1e-12, -1 + 1e-9j, -1.5])
    assert _power(change, 1) == pytest.approx(1 + change, rel=1e-12, abs=0)
    assert np.all(_power(change[:3], 300) == 0)


def long_double_fold(parts, first, size):
    """The masses of a composition in long double numbers."""
    result = 1
    for law, count in parts:
        masses = law.wrapped(size).astype(np.longdouble)
        masses[0] += 1 - np.longdouble(law.infinite_mass) - law.dropped - masses.sum()
        power = scipy.fft.rfft(masses)
        while count:
            if count & 1:
                result = result * power
            power, count = power * power, count >> 1
    return np.roll(scipy.fft.irfft(result, size), -(first % size))


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs 80-bit numbers")
@pytest.mark.parametrize(
    ("rate", "mu", "times", "mu_once"),
    [
        (0.1, 1.0, 10, 0.0),
        (0.01, 3.0, 20, 0.0),
        (0.1, 0.1, 1000, 0.0),
        (0.1, 0.03, 10**5, 1.4),
        (0.3, 5.0, 1000, 0.0),
        (1e-4, 3.0, 10**4, 0.5),
        (1e-5, 8.0, 10**5, 0.0),  # rare losses: the transform is near 1 everywhere
        (1e-3, 0.5, 10**7, 0.0),
    ],
)
def test_rounding_of_transforms_is_within_what_curves_allow_for(rate, mu, times, mu_once):
    step, size = SubsampledGaussian(rate, mu), 1 << 17
    gaussian = SubsampledGaussian(1.0, mu_once) if mu_once else None
    grid = _Grid.choose(step, times, gaussian, None, size)
    for discretise in (pessimistic_grid, optimistic_grid):
        parts = [(discretise(step, grid.interval, grid.step_points), times)]
        if gaussian:
            parts.append((discretise(gaussian, grid.interval, grid.extra_points[0]), 1))
        exact = long_double_fold(parts, grid.first, grid.size)
        masses, _ = _fold(parts, grid.first, grid.size)
        # masses above each loss, that is, the rounding of a delta
        error = np.max(np.abs(np.cumsum((masses - np.maximum(exact, 0))[::-1])))
        assert error <= _transform_error(times) / 2


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs 80-bit numbers")
def test_a_transform_that_is_rounded_to_1_is_found(monkeypatch):
    step, times = SubsampledGaussian(1e-5, 8.0), 10**5
    grid = _Grid.choose(step, times, None, None, 1 << 20)
    parts = [(pessimistic_grid(step, grid.interval, grid.step_points), times)]
    exact = long_double_fold(parts, grid.first, grid.size)

    def rounded(law, size):
        return np.fft.rfft(law.wrapped(size)) - 1

    monkeypatch.setattr(HalfGrid, "transform_change", rounded)
    masses, _ = _fold(parts, grid.first, grid.size)
    error = np.max(np.abs(np.cumsum((masses - exact)[::-1])))
    assert error > 2 * _transform_error(times)


@pytest.mark.parametrize("kept", [1, 100, 2048, 3000, 40000])
def test_short_transforms_are_inverted_as_long_ones_are(kept):
    rng = np.random.default_rng(kept)
    transform = rng.normal(size=kept) + 1j * rng.normal(size=kept)
    transform[0] = 1.0
    for size in (1 << 12, 1 << 17):
        whole = transform[: size // 2]
        error = _inverse(whole, size) - np.fft.irfft(whole, size)
        # some units in the last place of the largest possible value
        assert np.max(np.abs(error)) <= 1e-14 * np.sum(np.abs(whole)) / size


@pytest.mark.parametrize("rate", [0.0, 1e-7, 0.01, -0.01, 3.0, -700.0])
def test_sums_of_weighted_masses_neither_overflow_nor_lose_digits(rate):
    masses = np.random.default_rng(1).random(10_001) ** 8
    expected = logsumexp(np.log(masses) + rate * np.arange(masses.size))
    assert _log_sum(masses, rate) == pytest.approx(float(expected), rel=1e-12)


def test_the_least_chernoff_bound_is_found_wherever_it_is():
    powers = [float(t) for t in range(60)]
    for best in range(60):
        assert _lowest(lambda t, best=best: (t - best) ** 2, powers) == (0.0, float(best))


def test_a_composition_in_use_is_not_computed_again():
    step = SubsampledGaussian(0.1, 0.7)
    first = compose(step, 50)
    assert compose(SubsampledGaussian(0.1, 0.7), 50) is first
    assert compose(SubsampledGaussian(0.1, np.nextafter(0.7, 1)), 50) is first
    for mu in (0.7, 1e-9, 3.0, 1e5 / 3):  # rounded up, by no more than the last of 48 bits
        assert mu <= _with_48_bits(SubsampledGaussian(0.1, mu)).mu <= mu * (1 + 2.0**-47)
    assert compose(step, 51) is not first
    assert compose(step, 50, 0.1) is not first


@pytest.mark.parametrize(
    ("step", "shortest", "longest", "crossing", "beside"),
    [
        (SubsampledGaussian(0.1, 0.1), 20_000, 80_000, 0.0, None),
        (SubsampledGaussian(0.1, 0.28), 1000, 18_000, 140.0, None),
        (SubsampledGaussian(0.1, 3.0), 2, 40, 0.0, None),
        (SubsampledGaussian(0.1, 0.5), 10, 100, 20.0, SubsampledGaussian(0.1, 0.7)),
        (SubsampledGaussian(0.01, 90.0), 1, 3, 0.0, None),
        (SubsampledGaussian(1.0, 0.3), 4, 16, 0.0, None),
    ],
)
def test_lengths_are_compared_by_nearly_their_epsilons(step, shortest, longest, crossing, beside):
    def gaussian(times):
        return crossing / math.sqrt(times)

    coarse = coarse_epsilons(step, shortest, longest, 1 << 14, gaussian=gaussian, beside=beside)
    for times in (shortest, math.isqrt(shortest * longest), longest):
        for delta in (1e-3, 1e-5, 1e-9):
            exact = compose(step, times, gaussian(times), beside=beside).epsilon(delta)
            # a length is chosen where epsilon is flat, so that .2 % are enough
            assert coarse(times, delta) == pytest.approx(exact, rel=2e-3)


# --- stages ---


IN_STAGES = [
    (SubsampledGaussian(0.1, 0.05), 4000, 0.0),
    (SubsampledGaussian(0.1, 0.14), 1900, 0.65),
    (SubsampledGaussian(0.1, 0.28), 4498, 2.1),
    (SubsampledGaussian(0.5, 0.1), 10_000, 0.0),
    (SubsampledGaussian(0.02, 0.7), 70_001, 1.0),
    (SubsampledGaussian(0.1, 0.1), 10**6, 0.0),
]


@pytest.mark.parametrize(("step", "times", "mu_once"), IN_STAGES)
def test_stages_are_as_accurate_as_one_large_grid(step, times, mu_once):
    gaussian = SubsampledGaussian(1.0, mu_once) if mu_once else None
    extras = [gaussian] if gaussian else []
    grid = _Grid.choose(step, times, gaussian, None, 1 << 20)
    stages = _stages(step, times, grid)
    assert len(stages) >= 2
    curve = compose(step, times, mu_once)
    whole, _, outside = _folded(step, times, extras, grid, pessimistic_grid)
    rounding = _transform_error(times) + outside
    assert curve.upper.masses.size < whole.masses.size
    # the rounding of stages counts for each copy of them
    assert rounding <= curve.rounding <= 4 * rounding
    for delta in (0.1, 1e-3, 1e-5, 1e-7):
        low, high = curve.epsilon_bracket(delta)
        alone = float(whole.epsilon(np.array([delta - rounding]))[0])
        assert low <= high
        allowed = 1e-9 + 10 * curve.rounding / delta  # relative, of the rounding alone
        assert high <= alone * (1 + allowed)


def test_a_stage_that_rounds_down_is_found(monkeypatch):
    """With the masses of a stage at the grid points below, the bound falls under the truth."""

    def lower(law, interval):
        grid = rounded_up(law, interval)
        right = np.append(grid.right[1:], 0.0)
        right[0] = 0.0
        left = right * np.exp(-interval * np.arange(right.size))
        right[0] = 1 - np.sum(right) - np.sum(left)
        return HalfGrid(right, left, 0.0)

    monkeypatch.setattr("audit.bounds.accounting.composition.rounded_up", lower)
    total, _, curve = on_grid(0.02, 10_000)
    assert curve.epsilon(1e-5) < total.epsilon(1e-5)


def test_rare_losses_are_composed_on_one_grid():
    """Rounding of a first stage would count for much in the bounds on far losses."""
    for step, times in (
        (SubsampledGaussian(1e-3, 1.0), 10**5),
        (SubsampledGaussian(1e-4, 20.0), 3000),
    ):
        grid = _Grid.choose(step, times, None, None, 1 << 20)
        assert _stages(step, times, grid) == []


def test_masses_are_rounded_up_as_profiles_are():
    law = SubsampledGaussian(0.1, 2.0)
    fine = pessimistic_grid(law, 0.02, 700)
    losses = LossDistribution(
        0.02, -700, np.concatenate([fine.left[:0:-1], fine.right]), fine.infinite_mass
    )
    coarse = rounded_up(losses, 0.03)
    assert coarse.infinite_mass == fine.infinite_mass
    total = np.sum(coarse.right) + np.sum(coarse.left) + coarse.infinite_mass
    assert total == pytest.approx(1, abs=1e-14)
    points = 0.03 * np.arange(coarse.right.size)
    for epsilon in np.linspace(0, 13, 40):
        gain = np.maximum(-np.expm1(epsilon - points), 0)
        rounded = np.sum(coarse.right * gain) + coarse.infinite_mass
        before = float(losses.delta(np.array([epsilon]))[0])
        assert rounded >= before * (1 - 1e-12)
        # equal at the points of the coarse grid (connect the dots)
        place = round(epsilon / 0.03) * 0.03
        gain = np.maximum(-np.expm1(place - points), 0)
        assert np.sum(coarse.right * gain) + coarse.infinite_mass == pytest.approx(
            float(losses.delta(np.array([place]))[0]), rel=1e-9, abs=1e-15
        )


def raw_bracket(curve, delta):
    """Both ends of epsilon as the two grids give them."""
    low, rounding = curve.lower()
    ends = (
        low.epsilon(np.array([delta + rounding])),
        curve.upper.epsilon(np.array([delta - curve.rounding])),
    )
    return tuple(float(end[0]) for end in ends)


STEEP = SubsampledGaussian(0.9, 0.3435525246613806)
WIDE = SubsampledGaussian(0.045745256307510584, 0.13185339228919965)


@pytest.mark.parametrize(
    ("step", "times", "mu_once", "beside", "delta"),
    [
        (SubsampledGaussian(0.77, 2.108), 1460, 43.5, None, 1.5e-11),
        (STEEP, 9, 19.33849681923516, WIDE, 1e-9),
        (SubsampledGaussian(1.0, 34.6), 3, 0.0, SubsampledGaussian(1e-4, 0.83), 1.5e-11),
        (SubsampledGaussian(0.1, 0.28), 4498, 2.1, None, 1e-9),
    ],
)
def test_the_two_grids_are_in_order(step, times, mu_once, beside, delta):
    """Masses of wide Gaussians add up to 1 + 3e-11: the excess must not be taken off elsewhere."""
    curve = compose(step, times, mu_once, beside=beside)
    low, high = raw_bracket(curve, delta)
    assert low <= high
    assert curve.epsilon_bracket(delta) == (low, min(high, curve.moments.epsilon(delta)))


@pytest.mark.parametrize(
    ("step", "times", "mu_once", "beside"),
    [
        (SubsampledGaussian(1e-6, 1e-3), 2000, 1.0, None),
        (SubsampledGaussian(1e-3, 1e-2), 10**5, 3.0, SubsampledGaussian(0.5, 3.0)),
        (SubsampledGaussian(4.5e-4, 0.0293), 577_266, 0.0, SubsampledGaussian(1.06e-3, 4.67)),
        (SubsampledGaussian(2.397e-6, 0.18), 6598, 0.07, None),
    ],
)
def test_steps_that_are_weak_beside_another_law_are_composed_on_one_grid(
    step, times, mu_once, beside
):
    """Grids of the other law would be too coarse for stages of these steps."""
    curve = compose(step, times, mu_once, beside=beside)
    assert curve.rounding <= 4 * _transform_error(times)
    low, high = curve.epsilon_bracket(1e-6)
    assert low <= high <= low * 1.001 + 1e-6
