"""Shifts that follow the batches: the lemma, the recursion against twins, values, exact laws."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from audit import Batching, NoisySGD, bounds
from audit.bounds.accounting.composition import SubsampledGaussian
from audit.bounds.own.adaptive_shifts import AdaptiveShifts, AdaptiveShiftsCurve
from audit.bounds.own.run import WorstRun
from audit.constructions import QuadraticPair
from tests.bounds.own.soundness import check, mechanism
from tests.mechanisms import noisy_sgd

GAPS = np.array([0.05, 0.5, 3.0])
RUN = WorstRun(steps=5, noise=0.2, shift=0.3, gap=0.1, diameter=1.0, period=1, rate=0.3)


def on_the_map(strength: float, time: float, noise: float) -> NoisySGD:
    """Batches of a tenth of 1000 records; see results/map."""
    apart = strength * noise**2
    return noisy_sgd(
        steps=max(1, round(time / apart)),
        dataset_size=1000,
        batch_size=100,
        noise_std=noise,
        lipschitz=500 * apart,
        batching=Batching.WITHOUT_REPLACEMENT,
    )


# --- the lemma, on spaces of a few points ---


def moment(p, q, alpha):
    return float(np.sum(p**alpha * q ** (1 - alpha)))


def batch_gap(random, crossed):
    """Right side less left side of the lemma of the batch, for random laws on four points."""
    p0, p1, q0, q1 = random.dirichlet(np.full(4, 0.7), size=4) + 1e-9
    rate, alpha = float(random.uniform(0.05, 0.95)), 1 + float(np.exp(random.uniform(-2, 2)))
    left = moment((1 - rate) * p0 + rate * p1, (1 - rate) * q0 + rate * q1, alpha)
    first = moment(p0, q0, alpha) ** (1 / alpha)
    second = moment(p1, q1, alpha)
    if crossed:
        second = max(second, moment(p1, q0, alpha))
    second = max(first, second ** (1 / alpha))
    return math.log((1 - rate) * first + rate * second) - math.log(left) / alpha


def test_the_lemma_of_the_batch_by_brute_force():
    random = np.random.default_rng(1)
    assert min(batch_gap(random, crossed=True) for _ in range(500)) >= -1e-9


def test_a_record_that_is_not_paired_with_batches_without_it_breaks_the_lemma():
    random = np.random.default_rng(1)
    assert min(batch_gap(random, crossed=False) for _ in range(500)) < -0.01


# --- the recursion ---


def plain_step(shifts, log_values, gap):
    """Return log U_(k+1) by plain loops over the rows."""
    run, rows = shifts.run, shifts.rows
    price = gap / (2 * run.noise**2)

    def cheapest(distance):
        return min(
            value + price * max(distance - z, 0.0) ** 2
            for z, value in zip(rows, log_values, strict=True)
        )

    def cost(distance):
        free = [log_values[-1]] if distance >= rows[-1] else []
        return min([cheapest(distance), *free])

    c = run.contraction
    result = [
        np.logaddexp(
            math.log1p(-run.rate) + cost(c * r), math.log(run.rate) + cost(c * r + run.shift)
        )
        for r in rows
    ]
    step = SubsampledGaussian(run.rate, run.ratio)
    result[0] = min(result[0], log_values[0] + gap * step.renyi(1 + gap) / (1 + gap))
    return np.array(result)


def test_steps_agree_with_plain_loops():
    shifts = AdaptiveShifts(RUN)
    values = np.full((GAPS.size, shifts.rows.size), np.inf)
    values[:, 0] = 0.0
    for _ in range(3):
        found = shifts.step(values, GAPS, shifts.composed(GAPS))
        for i, gap in enumerate(GAPS):
            expected = plain_step(shifts, values[i], gap)
            # costs and the shift of composition are raised by 2^-40, its log-moment by some times
            assert found[i] == pytest.approx(expected, rel=10 * 2.0**-40)
        values = found


def test_merged_steps_agree_with_all_patterns_of_batches():
    """Five steps that pay their share whatever comes, over all 2^5 patterns of batches."""
    shifts = AdaptiveShifts(dataclasses.replace(RUN, shift=0.05))
    rows, run, count = shifts.rows, shifts.run, 5
    values = np.log1p(rows + rows**2)[None, :] * (1 + GAPS[:, None])
    found = shifts.steps(values, GAPS, count)
    kept = run.contraction**count
    spread = sum(run.contraction ** (2 * k) for k in range(count))
    for i, gap in [(0, GAPS[0]), (2, GAPS[2])]:
        price = gap / (2 * run.noise**2)
        for row in (20, rows.size - 1):
            start = rows[row]
            options = []
            for end in rows[::2]:
                paid = max(kept * start - end, 0.0)
                mean = 0.0
                for pattern in itertools.product((0, 1), repeat=count):
                    met = sum(pattern)
                    chance = run.rate**met * (1 - run.rate) ** (count - met)
                    place = np.searchsorted(rows * (1 + 1e-12), end + met * run.shift)
                    mean += chance * math.exp(values[i, min(place, rows.size - 1)])
                options.append(price * paid**2 / spread + math.log(mean))
            assert found[i, row] <= min(options) * (1 + 1e-6)
            assert found[i, row] == pytest.approx(min(options), rel=0.02)


def test_one_step_is_the_subsampled_gaussian():
    run = dataclasses.replace(RUN, steps=1)
    moments = AdaptiveShifts(run).moments(GAPS)
    step = SubsampledGaussian(run.rate, run.ratio)
    expected = GAPS * step.renyi(1 + GAPS)
    assert moments == pytest.approx(expected, rel=1e-6)
    assert np.all(moments >= expected)


@pytest.mark.parametrize("rate", [1e-6, 1 - 1e-6])
def test_rates_at_the_ends(rate):
    run = WorstRun(steps=200, noise=0.1, shift=0.05, gap=0.0, diameter=1.0, period=1, rate=rate)
    epsilon = AdaptiveShiftsCurve(run).epsilon(1e-5)
    # with every batch: moves to distance 0 at the end over k steps, from D and k v
    always = min((1 + 0.05 * k) ** 2 / k for k in range(1, 201)) / 0.1**2
    assert epsilon < 0.5 if rate < 0.5 else epsilon >= 0.9 * always / 2


def test_longer_runs_cost_no_less_until_they_settle():
    values = [
        AdaptiveShiftsCurve(dataclasses.replace(RUN, steps=steps)).epsilon(1e-5)
        for steps in (1, 2, 5, 20, 1000, 10**6)
    ]
    assert np.all(np.diff(values) > -1e-2)
    assert values[-1] == pytest.approx(values[-2], rel=1e-3)


def test_a_run_goes_on_to_its_end_while_that_lowers_the_bound():
    """From distance 0 the bound is a sixth of that from the largest distance, long settled."""
    m = NoisySGD(
        steps=1512,
        dataset_size=841,
        batch_size=43,
        step_size=0.1,
        noise_std=0.112,
        lipschitz=1.0,
        smoothness=4.293,
        diameter=0.2995,
        batching=Batching.WITHOUT_REPLACEMENT,
    )
    curve = AdaptiveShiftsCurve(WorstRun.of(m))
    longer = AdaptiveShiftsCurve(WorstRun.of(dataclasses.replace(m, steps=10**6)))
    assert curve.epsilon(0.3) < 0.5 * longer.epsilon(0.3)


@pytest.mark.parametrize("place", [(0.1, 1, 0.05), (10, 3, 0.2), (3, 10, 0.05), (1, 100, 0.2)])
def test_few_orders_give_the_values_of_all(place):
    curve = AdaptiveShiftsCurve(WorstRun.of(on_the_map(*place)))
    asked = [("epsilon", d) for d in (1e-2, 1e-5, 1e-9)]
    asked += [("delta", e) for e in (0.0, 0.1, 3.0)]
    few = [getattr(curve, method)(target) for method, target in asked]
    assert len(curve._moments) < 32
    for (method, target), found in zip(asked, few, strict=True):
        best = getattr(curve._whole, method)(target)
        assert found == pytest.approx(best, rel=1e-6)
        assert found >= best * (1 - 1e-12)  # more orders can only lower it
    # no value depends on those that were asked for before
    assert AdaptiveShiftsCurve(WorstRun.of(on_the_map(*place))).epsilon(1e-5) == few[1]


# --- values ---


def test_strong_pushes_on_the_map():
    """Where the best bound of the papers is 2300, 293 and 177."""
    for place, most in (((100, 3, 0.01), 860), ((10, 10, 0.05), 147), ((10, 100, 0.01), 60)):
        curve = bounds.evaluate("own.adaptive_shifts", on_the_map(*place))
        assert curve.epsilon(1e-5) < most
    found = bounds.best(on_the_map(10, 0.1, 0.2), delta=1e-5)
    assert found.compared["own.adaptive_shifts"] > found.epsilon  # weak pushes are not its field


def test_other_batches_are_refused():
    with pytest.raises(bounds.NotApplicable, match="batches sampled without replacement"):
        bounds.evaluate("own.adaptive_shifts", mechanism(1.0, 0.2, 3))


# --- soundness ---


def test_a_rate_that_is_too_small_is_found_below():
    m = noisy_sgd(
        steps=2,
        dataset_size=2,
        noise_std=0.2,
        lipschitz=0.5,
        diameter=4.0,
        batching=Batching.WITHOUT_REPLACEMENT,
    )
    right = WorstRun.of(m)
    pair = QuadraticPair(m, 0.0, 0.5)
    epsilons = (4.0, 8.0)
    wrong = AdaptiveShiftsCurve(dataclasses.replace(right, rate=0.05))
    assert check({"planted": wrong}, [pair], epsilons).wrong
    assert not check({"right": AdaptiveShiftsCurve(right)}, [pair], epsilons).wrong
