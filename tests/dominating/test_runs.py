"""Compositions of different runs: against quadrature and closed forms."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from audit import Batching, Composition, Divisor, NoisySGD, Relation, exact
from audit.constructions.explicit_laws import AllIterates
from audit.curves import GaussianCurve, Order
from audit.dominating import dominating_curve, layer, runs
from audit.dominating.layer import TooManyCells, _Transform
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.poisson import poisson_curve
from audit.dominating.runs import MixtureRun, RefinedCurve
from tests.dominating.test_poisson import half_line
from tests.mechanisms import dp_sgd
from tests.slow import slow

POISSON = dp_sgd(steps=40, batch_size=5, noise_std=0.2)
FULL = replace(POISSON, batching=Batching.FULL, batch_size=100, noise_std=0.02, steps=3)
ALLOCATED = replace(POISSON, batching=Batching.RANDOM_ALLOCATION, batch_size=10, noise_std=0.1)


def with_noise(part: NoisySGD, z: float) -> NoisySGD:
    return replace(part, noise_std=z * part.sensitivity / part.batch_size)


def one_step_delta(pair: MixturePair, epsilon: np.ndarray) -> np.ndarray:
    """Delta of one pair in closed form: the best event is a half-line."""
    p, q = half_line(pair, pair.place(epsilon))
    return p - np.exp(epsilon) * q


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, slow(Relation.REPLACE_ONE)])
def test_two_different_steps_against_quadrature(relation):
    two_sided = relation is Relation.REPLACE_ONE
    mean = 0.5 if two_sided else 1.0
    first, second = (MixturePair(q, z, mean, two_sided) for q, z in ((0.05, 0.8), (0.3, 1.5)))
    base = replace(POISSON, steps=1, relation=relation)
    parts = with_noise(base, 0.8), with_noise(replace(base, batch_size=30), 1.5)
    curve = dominating_curve(Composition(parts))
    x = np.linspace(-12 * first.noise, 12 * first.noise + mean, 40_001)
    density = (1 - first.rate) * norm.pdf(x, 0, 0.8) + first.rate * norm.pdf(x, mean, 0.8)
    for epsilon in (0.1, 0.7, 2.0):
        # over the outcome of the first step, what the second one adds
        gains = one_step_delta(second, epsilon - first.loss(x))
        exact = float(np.trapezoid(density * gains, x))
        low, high = curve.delta_bracket(epsilon, Order.FORWARD)
        assert low * (1 - 1e-9) <= exact <= high * (1 + 1e-9)
        assert high - low < 1e-5 * exact


@pytest.mark.parametrize(("noise", "error"), [(1.0, 0.0), (1 + 1e-9, 1e-6)])
def test_two_halves_are_the_whole(noise, error):
    """Parts of one noise are merged, and almost equal ones are composed."""
    whole, half = dominating_curve(POISSON), replace(POISSON, steps=15)
    both = dominating_curve(Composition((half, with_noise(replace(POISSON, steps=25), noise))))
    for order in Order:
        known = pytest.approx(whole.epsilon_bracket(1e-6, order), rel=error, abs=0)
        assert both.epsilon_bracket(1e-6, order) == known


def test_gaussian_parts_are_in_closed_form():
    parts = FULL, with_noise(replace(FULL, steps=5), 4.0)
    mu = math.sqrt(3 / FULL.noise_multiplier**2 + 5 / 16)
    low, high = dominating_curve(Composition(parts)).epsilon_bracket(1e-6)
    assert low <= GaussianCurve(mu).epsilon(1e-6) <= high < low * (1 + 1e-10)


@pytest.mark.parametrize("mu", [0.3, slow(12.0)])
def test_gaussian_parts_on_a_grid(mu):
    """Beside a step that hardly ever meets the record."""
    part = with_noise(replace(FULL, steps=1), 1 / mu)
    rare = with_noise(replace(POISSON, steps=1, dataset_size=10**9, batch_size=1), 5.0)
    mixed = dominating_curve(Composition((replace(part, dataset_size=10**9, batch_size=10**9,
        noise_std=part.noise_std * 100 / 10**9), rare)))  # fmt: skip
    exact = GaussianCurve(mu)
    for delta in (1e-2, 1e-6, 1e-12):
        low, high = mixed.epsilon_bracket(delta)
        assert low <= exact.epsilon(delta) * (1 + 1e-6)
        assert high >= exact.epsilon(delta)
        assert high - low <= 2e-6 * high


def test_the_order_of_the_parts_does_not_matter():
    parts = POISSON, FULL, with_noise(replace(POISSON, batch_size=10), 2.0)
    brackets = {
        dominating_curve(Composition(order), accuracy=1e-4).epsilon_bracket(1e-6)
        for order in (parts, parts[::-1], (parts[1], parts[2], parts[0]))
    }
    assert len(brackets) == 1


def test_random_allocation_to_the_only_step_is_a_full_batch():
    allocated = replace(ALLOCATED, batch_size=100, noise_std=0.03, steps=4)
    full = replace(allocated, batching=Batching.FULL)
    for order in Order:
        low, high = dominating_curve(Composition((allocated, POISSON))).epsilon_bracket(1e-6, order)
        least, most = dominating_curve(Composition((full, POISSON))).epsilon_bracket(1e-6, order)
        assert low <= most
        assert least <= high
        assert high - low < 1e-4 * high


def test_every_kind_of_part_takes_part():
    truncated = replace(POISSON, batching=Batching.TRUNCATED_POISSON, max_batch_size=9)
    alone, both, twice = (
        dominating_curve(m, accuracy=1e-4).epsilon_bracket(1e-5)
        for m in (POISSON, Composition((POISSON, truncated)), replace(POISSON, steps=80))
    )
    assert alone[1] < both[0] <= both[1]
    assert 0.9 * twice[0] < both[0] < twice[1] < both[1]
    cuts = truncated, replace(truncated, max_batch_size=20)
    mixed = dominating_curve(Composition(cuts), accuracy=1e-4).epsilon_bracket(1e-5)
    ends = [
        dominating_curve(replace(m, steps=80), accuracy=1e-4).epsilon_bracket(1e-5) for m in cuts
    ]
    assert ends[1][1] < mixed[1] < ends[0][1]
    told = dominating_curve(
        Composition((POISSON, replace(POISSON, divisor=Divisor.ACTUAL))), accuracy=1e-3
    )
    assert told.limits is None  # none are known of the sizes of batches
    assert twice[0] < told.epsilon_bracket(1e-5)[0]


def test_compositions_that_are_kept_are_few(monkeypatch):
    monkeypatch.setattr(runs, "_CACHED_CURVES", 2)
    curve = dominating_curve(POISSON)
    for k in range(1, 4):
        curve.epsilon_bracket(10.0**-k)
        assert 0 < len(curve._known) <= 2


def test_moments_add_up():
    parts = POISSON, FULL
    curve = dominating_curve(Composition(parts))
    total = sum(dominating_curve(part).renyi(3.0, Order.REVERSE) for part in parts)
    assert curve.renyi(3.0, Order.REVERSE) == pytest.approx(total)


def test_steps_that_no_grid_holds_have_the_epsilon_of_fewer(monkeypatch):
    whole = dominating_curve(replace(POISSON, steps=1600), accuracy=1e-4)
    fewer = dominating_curve(replace(POISSON, steps=100), accuracy=1e-4)
    low, high = fewer.epsilon_bracket(1e-5)
    deltas = fewer.delta_bracket(2.0)
    taken = RefinedCurve._composed

    def refused(self, *words):
        if self._steps > 100 and words[0]:
            raise TooManyCells(1.0, 1)
        return taken(self, *words)

    monkeypatch.setattr(RefinedCurve, "_composed", refused)
    assert low * (1 - 1e-6) <= whole.epsilon_bracket(1e-5)[0] <= high
    assert deltas[0] * (1 - 1e-6) <= whole.delta_bracket(2.0)[0] <= deltas[1]


def test_pairs_that_are_the_same_in_both_orders_have_the_same_brackets():
    """In reverse the tails of the other side were neglected: 56.4 of 9.24 at delta 1e-60."""
    curve = poisson_curve(1.0, 0.1, 10, Relation.REPLACE_ONE, accuracy=3e-7)
    forward, reverse = (
        (curve.epsilon_bracket(1e-60, order), curve.delta_bracket(15.0, order)) for order in Order
    )
    assert forward == reverse
    assert reverse[0][1] < 9.25


def test_a_delta_below_the_tails_of_grids_has_a_bound_by_moments():
    """Grids say infinity, and all steps without sampling 166."""
    curve = poisson_curve(1.0, 0.1, 10, Relation.ADD_REMOVE, accuracy=3e-7)
    low, high = curve.epsilon_bracket(1e-300)
    assert 96 < low < high < 1.01 * low
    assert len(curve._known) < 4  # finer grids have these tails, too


def test_the_total_variation_takes_the_order_of_bounded_losses():
    """In the other one a noise of .125 took a minute."""
    curve = poisson_curve(0.5, 0.1, 10, Relation.ADD_REMOVE, accuracy=3e-7)
    low, high = curve.delta_bracket(0.0)
    assert {key[-1] for key in curve._known if key[0]} == {Order.REVERSE}
    near = curve.delta_bracket(1e-9, Order.FORWARD)
    assert low <= near[1] + 1e-9
    assert near[0] <= high < low * (1 + 1e-6)


@pytest.mark.slow
def test_powers_at_little_noise_need_few_cells(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        layer, "_Transform", lambda size, low: sizes.append(size) or _Transform(size, low)
    )
    curve = poisson_curve(0.04, 0.1, 3, Relation.ADD_REMOVE, accuracy=1e-5)
    met = 1 - 0.9**3  # steps that meet the record show it
    for order, power in ((Order.FORWARD, 0.5 / (1 - met)), (Order.REVERSE, met + 0.5 * (1 - met))):
        low, high = curve.power_bracket(0.5, order)
        assert power - 1e-3 < low <= power <= high < power + 1e-3
    assert max(sizes) < 2**20
    assert len(sizes) < 150


@pytest.mark.slow
def test_losses_of_many_steps_fit_the_grid_of_a_composition():
    """The mean loss under P is 86,000, hundreds of deviations under Q."""
    part = with_noise(replace(POISSON, dataset_size=1000, batch_size=500, steps=5000), 0.12)
    truncated = replace(
        with_noise(replace(part, steps=3), 0.2),
        batching=Batching.TRUNCATED_POISSON,
        max_batch_size=503,
    )
    low, high = dominating_curve(Composition((part, truncated)), accuracy=1e-4).epsilon_bracket(
        1e-2
    )
    assert 86_000 < low < high < low * 1.001


# ------ Batches without replacement under replace-one, between what is attained and what dominates


M = dp_sgd(noise_std=0.2, batching=Batching.WITHOUT_REPLACEMENT, relation=Relation.REPLACE_ONE)


REPLACED = replace(POISSON, relation=Relation.REPLACE_ONE)
UNBOUNDED = replace(REPLACED, clip_norm=None, gradient_sensitivity=REPLACED.sensitivity)
SHUFFLED = replace(POISSON, batching=Batching.SHUFFLED, relation=Relation.ZERO_OUT)
ENCLOSED = "batching must not be shuffled or without replacement in a part of a composition"
ONE_RELATION = "relation must be 'replace one' for batches without"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((SHUFFLED, replace(POISSON, relation=Relation.ZERO_OUT)), f"{ENCLOSED}.*got 'shuffled'$"),
        ((replace(SHUFFLED, batching=Batching.RESHUFFLED),), f"{ENCLOSED}.*got 'reshuffled'$"),
        ((M, replace(M, noise_std=0.3)), ENCLOSED),
        # replace-one needs a bound, since a common gradient tells who was drawn
        ((REPLACED, UNBOUNDED), "gradient_sensitivity must be None, and gradients"),
        ((UNBOUNDED, REPLACED), "gradient_sensitivity must be None, and gradients"),
        (
            (replace(ALLOCATED, relation=Relation.REPLACE_ONE),),
            "relation must be 'zero out' or 'add remove' for random",
        ),
        (replace(M, relation=Relation.ZERO_OUT), ONE_RELATION),
        (replace(M, relation=Relation.ADD_REMOVE), ONE_RELATION),
        (replace(M, gradient_sensitivity=0.5), "gradient_sensitivity must be None, .* got 0.5"),
    ],
)
def test_what_has_no_pair_is_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        dominating_curve(Composition(parts) if isinstance(parts, tuple) else parts)


def without_replacement(z: float, q: float, steps: int, accuracy: float):  # type: ignore[no-untyped-def]
    batch = round(10 * q)
    m = replace(M, steps=steps, dataset_size=10, batch_size=batch, noise_std=2 * z / batch)
    return dominating_curve(m, accuracy=accuracy)


def hockey_stick(first: list[tuple[float, float]], second, epsilon: float, z: float) -> float:
    """Sum of (p - e^epsilon q)_+ over a fine grid: masses and means of normals of deviation z."""
    x = np.linspace(-14 * z - 2, 14 * z + 2, 20_001)

    def masses(law: list[tuple[float, float]]) -> np.ndarray:
        return sum(w * np.diff(ndtr((x - mean) / z)) for w, mean in law)

    return float(np.maximum(masses(first) - np.exp(epsilon) * masses(second), 0).sum())


def test_one_step_is_exact_and_no_gradients_do_worse() -> None:
    z, q = 0.8, 0.3
    curve = without_replacement(z, q, 1, accuracy=1e-6)
    ends = np.linspace(-0.5, 0.5, 3)  # gradients over 2 C
    for epsilon in (0.0, 0.5, 1.5):
        low, high = curve.delta_bracket(epsilon)
        assert high - low < 1e-6
        found = {
            (u, v, w): hockey_stick([(1 - q, w), (q, u)], [(1 - q, w), (q, v)], epsilon, z)
            for u, v, w in itertools.product(ends, repeat=3)
        }
        assert max(found.values()) < high + 1e-6
        # others beside the record that takes its place attain it; others of 0 do not
        assert found[0.5, -0.5, -0.5] == pytest.approx(low, abs=1e-6)
        if epsilon > 0:
            assert found[0.5, -0.5, 0.0] < 0.95 * low


def test_adversaries_that_turn_round_stay_below() -> None:
    """Two steps, all of them one way round or one each way: by the sums of their losses."""
    z, q = 1.0, 0.2
    curve = without_replacement(z, q, 2, accuracy=1e-6)
    edges = np.linspace(-12, 13, 1201)
    base = np.diff(ndtr(edges / z))
    other = (1 - q) * base + q * np.diff(ndtr((edges - 1) / z))
    for epsilon in (0.1, 0.5, 1.0):
        low, high = curve.delta_bracket(epsilon)
        deltas = []
        for p1, q1, p2, q2 in (
            (other, base, other, base),
            (other, base, base, other),
            (base, other, base, other),
        ):
            both = np.outer(p1, p2) - np.exp(epsilon) * np.outer(q1, q2)
            deltas.append(float(np.maximum(both, 0).sum()))
        assert deltas[0] == pytest.approx(low, abs=1e-5)
        assert max(deltas) <= high
        assert low < high < 1.3 * low


def test_the_mirrored_pair_has_both_sides() -> None:
    pair = MixturePair(0.2, 1.0, 1.0, two_sided=False)
    for side in pair.grid_pairs(1e-3, log_tails(10)):
        found, _ = MixtureRun(pair, 1).mirrored(side.above, 1e-3, log_tails(10))
        q = found.lifted * np.exp(-found.losses)
        total = math.fsum([*found.p, found.p_only])
        assert 0 <= (total - 1 if found.above else 1 - total) < 1e-9
        assert q.sum() + found.q_only == pytest.approx(1, abs=1e-9)
        once = side.p - np.exp(0.3) * side.lifted * np.exp(-side.losses)
        for p, other in ((found.p, q), (q, found.p)):
            delta = np.maximum(p - np.exp(0.3) * other, 0).sum() + found.p_only
            assert delta == pytest.approx(np.maximum(once, 0).sum() + side.p_only, abs=1e-9)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
def test_renyi_divergences_bound_the_mirrored_pair(alpha: float) -> None:
    z, q, steps = 1.0, 0.2, 10
    curve = without_replacement(z, q, steps, accuracy=1e-6)
    run = MixtureRun(MixturePair(q, z, 1.0, two_sided=False), steps)
    found, _ = run.mirrored(False, 1e-4, log_tails(steps))
    some = found.lifted > 0
    ratios = (found.p[some] / found.lifted[some]) * np.exp(found.losses[some])
    own = steps * np.log(np.sum(found.p[some] * ratios ** (alpha - 1))) / (alpha - 1)
    assert own <= curve.renyi(alpha) <= own * (1 + 1e-6)


def test_the_mechanism_gets_brackets_and_a_pair() -> None:
    curve = dominating_curve(M)
    low, high = curve.epsilon_bracket(1e-5)
    assert (low, high) == pytest.approx((3.590744, 3.743261), abs=1e-4)
    law = exact.curve(AllIterates(M))
    assert law.epsilon_bracket(1e-5) == pytest.approx((low, high))
    ends = law.renyi_bracket(2.0)
    attained = 20 * np.log(1 + 0.1**2 * np.expm1(1.0))
    assert ends[0] == pytest.approx(attained, rel=1e-4)
    assert ends[1] == pytest.approx(curve.renyi(2.0), rel=1e-9)
    assert ends[1] > ends[0]
    # the attained law has losses of at most 2.1 in reverse
    assert law.epsilon_bracket(0.0, Order.REVERSE)[1] == law.epsilon(0.0, Order.REVERSE) == np.inf
    assert law.epsilon_bracket(1e-30, Order.REVERSE)[1] > 5
    assert dominating_curve(replace(M, divisor=Divisor.ACTUAL)).epsilon_bracket(1e-5)[1] == high
    whole = replace(M, batch_size=100, noise_std=0.02)
    full = dominating_curve(replace(whole, batching=Batching.FULL))
    assert dominating_curve(whole).epsilon(1e-5) == pytest.approx(full.epsilon(1e-5))


def test_orders_are_those_of_the_attained_pair() -> None:
    curve = without_replacement(1.0, 0.1, 20, accuracy=1e-5)
    forward, reverse = (curve.epsilon_bracket(1e-5, order) for order in Order)
    assert reverse[0] < forward[0]  # less is attained this way round
    assert reverse[1] == forward[1]  # and no less is possible
