"""Epochs that are drawn anew, against mixtures over all of their orders."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from audit import Batching, NoisySGD, Order, Relation, Release, exact
from audit.constructions import (
    Affine,
    BiasedWalk,
    DependentStep,
    DriftedWalk,
    Process,
    QuadraticPair,
    Segment,
    Step,
    UpdateMap,
)
from audit.constructions.batches import batched_process
from audit.constructions.process import Path
from audit.exact.law import Law
from tests import reference
from tests.exact.test_operators import computed
from tests.mechanisms import noisy_sgd

PLACES = np.linspace(-2.9, 2.9, 30)
RESHUFFLED: dict[str, Any] = {"batching": Batching.RESHUFFLED, "dataset_size": 4}
DROPPED: dict[str, Any] = {"batching": Batching.DROP_LAST, "dataset_size": 5}
ALLOCATED: dict[str, Any] = {"batching": Batching.RANDOM_ALLOCATION, "dataset_size": 3}


def mechanism(**changes: Any) -> NoisySGD:
    return noisy_sgd(**{"steps": 6, "noise_std": 0.8, "diameter": 6.0, **changes})


def linear(m: NoisySGD, push: float, others: float) -> Any:
    def update(eta: float, holds: bool, count: int) -> UpdateMap:
        return Affine(eta * (holds * push + count * others) / m.batch_size, 1 - 0.1 * eta)

    return update


def assert_same(process: Process, listed: Process, *, banded: bool = False) -> None:
    """Equal to 1e-10, in the far tails too: log densities and log atoms."""
    one, other = exact.law(process), exact.law(listed)
    if banded:
        one = computed(process, banded=True)
    assert isinstance(one, Law)
    np.testing.assert_allclose(one.log_density(PLACES), other.log_density(PLACES), atol=1e-10)
    np.testing.assert_allclose(one.log_atoms, other.log_atoms, atol=1e-10)


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({**RESHUFFLED}, 0.0),
        ({**RESHUFFLED, "steps": 7, "batch_size": 2}, -0.4),
        ({**RESHUFFLED, "steps": 5, "step_size": (1.0, 0.5, 0.7, 1.2, 0.3)}, 0.3),
        ({**RESHUFFLED, "dataset_size": 8, "steps": 8}, 0.3),
        ({**RESHUFFLED, "diameter": None, "dataset_size": 2, "steps": 3}, 0.2),
        ({**DROPPED, "batch_size": 2}, 0.3),
        ({**DROPPED, "batch_size": 3, "steps": 3}, -0.4),
        ({**ALLOCATED}, 0.0),
        ({**ALLOCATED, "steps": 5}, 0.4),
        ({**ALLOCATED, "participations": 2}, 0.0),
        ({**ALLOCATED, "dataset_size": 8, "participations": 3, "batch_size": 3, "steps": 8}, 0.0),
    ],
)
def test_every_order_is_counted(changes: dict[str, Any], others: float) -> None:
    m = mechanism(**changes)
    update = linear(m, 1.0, others)
    listed = reference.listed_process(m, 0.2, update, 1 if others == 0 else m.dataset_size)
    assert_same(batched_process(m, 0.2, update), listed)


def test_long_domains_too() -> None:
    m = mechanism(**RESHUFFLED, noise_std=0.3)
    update = linear(m, 1.0, 0.3)
    listed = reference.listed_process(m, 0.2, update, 4)
    assert_same(batched_process(m, 0.2, update), listed, banded=True)


def test_a_wrong_hazard_is_seen() -> None:
    """The record met with probability 1/T in every step, as under Poisson batches, is not it."""
    m = mechanism(**RESHUFFLED)
    wrong = batched_process(
        dataclasses.replace(m, batching=Batching.WITHOUT_REPLACEMENT), 0.2, linear(m, 1.0, 0.0)
    )
    listed = reference.listed_process(m, 0.2, linear(m, 1.0, 0.0), 4)
    with pytest.raises(AssertionError):
        assert_same(wrong, listed)


def test_one_batch_an_epoch_is_full_batches() -> None:
    for batching in (Batching.RESHUFFLED, Batching.RANDOM_ALLOCATION):
        m = mechanism(dataset_size=3, batch_size=3, batching=batching)
        full = dataclasses.replace(m, batching=Batching.FULL)
        update = linear(m, 1.0, 0.2)
        assert_same(batched_process(m, 0.2, update), batched_process(full, 0.2, update))


@pytest.mark.parametrize("batching", [Batching.WITHOUT_REPLACEMENT, Batching.DROP_LAST])
def test_a_record_that_is_hardly_ever_left_out(batching: Batching) -> None:
    """Of a rounded 1 - 1e-6 the largest loss, log 10^6, is off by 3e-11."""
    n, b = 10**6, 10**6 - 1
    m = noisy_sgd(dataset_size=n, batch_size=b, batching=batching, relation=Relation.ZERO_OUT)
    m = dataclasses.replace(m, step_size=float(b), noise_std=1 / b, diameter=None, smoothness=None)
    low, high = exact.curve(BiasedWalk(m)).epsilon_bracket(0.0, Order.FORWARD)
    assert low <= np.log(n) <= high


def test_batches_that_are_never_cut_are_poisson_batches() -> None:
    m = mechanism(dataset_size=5, batch_size=2, batching=Batching.POISSON)
    cut = dataclasses.replace(m, batching=Batching.TRUNCATED_POISSON, max_batch_size=5)
    update = linear(m, 1.0, 0.3)
    assert_same(batched_process(cut, 0.2, update), batched_process(m, 0.2, update))


def test_cut_batches_are_uniform_subsets() -> None:
    """Weights of one step against the list of all batches and of all their subsets."""
    n, rate, most = 4, 0.5, 2
    m = mechanism(
        dataset_size=n, batch_size=2, batching=Batching.TRUNCATED_POISSON, max_batch_size=most
    )
    for present in (True, False):
        expected = dict.fromkeys([(h, c) for h in (False, True) for c in range(most + 1)], 0.0)
        records = range(0 if present else 1, n)
        for size in range(len(records) + 1):
            for drawn in itertools.combinations(records, size):
                p = rate**size * (1 - rate) ** (len(records) - size)
                kept = list(itertools.combinations(drawn, min(size, most)))
                for batch in kept:
                    expected[0 in batch, len(batch) - (0 in batch)] += p / len(kept)
        process = batched_process(m, 0.0, lambda eta, h, c: Affine(10.0 * h + c), present=present)
        (step,) = process.distinct_steps()
        found = dict(zip(step.maps, step.weights, strict=True))
        for (holds, count), p in expected.items():
            assert found.get(Affine(10.0 * holds + count), 0.0) == pytest.approx(p, abs=1e-15)


def test_the_run_may_end_within_an_epoch() -> None:
    """Laws after every step of one run are those of the shorter runs."""
    m = mechanism(**RESHUFFLED)
    pair = DriftedWalk(m, drift=0.3)
    for steps, one in zip((1, 2, 5, 6), exact.curves(pair, (1, 2, 5, 6)), strict=True):
        other = exact.curve(DriftedWalk(dataclasses.replace(m, steps=steps), drift=0.3))
        if steps > 1:
            assert one.epsilon(1e-3) == pytest.approx(other.epsilon(1e-3), abs=1e-11)
        else:  # a run of one step has finer panels, and a narrower bracket
            (low, high), (least, most) = (law.epsilon_bracket(1e-3) for law in (one, other))
            assert low <= least <= most <= high
            assert most - least < 1e-9
    stopped = dataclasses.replace(m, release=Release.RANDOM_STOP)
    law = exact.curve(DriftedWalk(stopped, drift=0.3)).first
    ends = [
        exact.curve(DriftedWalk(dataclasses.replace(m, steps=t), drift=0.3)) for t in range(1, 7)
    ]
    mean = np.mean([end.first.density(PLACES) for end in ends], axis=0)
    np.testing.assert_allclose(law.density(PLACES), mean, atol=1e-10)


def test_the_record_left_out() -> None:
    """Removing a record that does not push is no change where the others come as they would."""
    for batching in (Batching.FULL, Batching.POISSON, Batching.RANDOM_ALLOCATION):
        b = 4 if batching is Batching.FULL else 1
        m = mechanism(dataset_size=4, batch_size=b, batching=batching)
        zeroed = dataclasses.replace(m, relation=Relation.ZERO_OUT)
        removed = dataclasses.replace(m, relation=Relation.ADD_REMOVE)
        one, other = (exact.curve(DriftedWalk(x, drift=0.3)) for x in (zeroed, removed))
        for order in Order:
            assert one.epsilon(1e-4, order) == pytest.approx(other.epsilon(1e-4, order), abs=1e-10)
    m = mechanism(dataset_size=4, batch_size=2, batching=Batching.WITHOUT_REPLACEMENT)
    removed = dataclasses.replace(m, relation=Relation.ADD_REMOVE)
    _, without = DriftedWalk(removed, drift=0.3).processes()
    assert without.distinct_steps()[0].maps == (Affine(0.3),)  # full batches of other records


@pytest.mark.parametrize("batching", [Batching.CYCLIC, Batching.SHUFFLED, Batching.RESHUFFLED])
def test_which_batch_is_short_is_not_made_up(batching: Batching) -> None:
    m = mechanism(dataset_size=4, batching=batching, relation=Relation.ADD_REMOVE)
    DriftedWalk(m, drift=0.0).processes()
    with pytest.raises(ValueError, match="removing a record makes some batch smaller"):
        DriftedWalk(m, drift=0.3).processes()
    with pytest.raises(ValueError, match="needs no regulariser if X' does not hold the record"):
        QuadraticPair(dataclasses.replace(m, lipschitz=None, gradient_sensitivity=1.0), 0.5)


def test_what_cannot_be_followed_is_refused() -> None:
    m = mechanism(dataset_size=18, batching=Batching.RANDOM_ALLOCATION)
    DriftedWalk(m, drift=0.0).processes()
    with pytest.raises(ValueError, match="dataset_size must be at most 17 for random allocation"):
        DriftedWalk(m, drift=0.1).processes()
    twice = mechanism(**ALLOCATED, participations=2)
    with pytest.raises(ValueError, match="participations must be 1 for random allocation"):
        DriftedWalk(twice, drift=0.1).processes()
    skipped = mechanism(**RESHUFFLED, release=Release.RANDOM_SKIP)
    with pytest.raises(ValueError, match="release must not be 'random skip'"):
        DriftedWalk(skipped, drift=0.1).processes()


def test_a_run_begins_in_the_first_memory() -> None:
    """Where another push, which comes once the memory has changed, is not taken yet."""
    own = Affine(0.3), Affine(-1.0), Affine(0.6, 0.5)
    step = DependentStep(own, (0.4, 0.6, 1.0), 0.8, ((0, 0), (0, 1), (1, 1)))
    first, turn, after = (Step((phi,), (1.0,), 0.8) for phi in own)
    orders = {(turn, after, after): 0.6, (first, turn, after): 0.24, (first, first, turn): 0.096,
              (first, first, first): 0.064}  # fmt: skip
    ends = {"lower": -3.0, "upper": 3.0}
    paths = tuple(Path(chance, (Segment(steps, 1),)) for steps, chance in orders.items())
    run = Process(0.2, (Path(1.0, (Segment((step,), 3),)),), **ends)
    for banded in (False, True):
        assert_same(run, Process(0.2, paths, **ends), banded=banded)


def test_weights_of_a_memory() -> None:
    with pytest.raises(ValueError, match="weights must sum to 1 in every memory"):
        DependentStep((Affine(), Affine(1.0)), (1.0, 0.9), 1.0, ((0, 1), (1, 0)))
    with pytest.raises(ValueError, match="moves must be one for each of the 1 maps, got 0"):
        DependentStep((Affine(),), (1.0,), 1.0)
