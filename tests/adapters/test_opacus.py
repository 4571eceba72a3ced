"""The Opacus adapter without Opacus: histories, properties of loaders, recorded claims."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from audit import bounds, exact
from audit.adapters import opacus
from audit.dominating import dominating_curve
from audit.mechanism import Batching, Composition, Divisor, NoisySGD, Relation, Release
from tests.mechanisms import dp_sgd

RECORDED = json.loads((Path(__file__).parent / "recorded" / "opacus.json").read_text("utf-8"))


@pytest.mark.parametrize("claims", RECORDED["histories"])
def test_a_history_goes_round(claims: dict[str, Any]):
    told = claims["state_dict"]
    m = opacus.from_history(told, dataset_size=60_000, relation=Relation.ADD_REMOVE, clip_norm=0.3)
    back = opacus.to_history(m)
    assert [entry[1:] for entry in back] == [tuple(entry[1:]) for entry in told["history"]]
    # sigma = z C / b and back: a few roundings
    assert [z for z, _, _ in back] == pytest.approx([z for z, _, _ in told["history"]], rel=1e-15)
    again = opacus.from_history(
        back, dataset_size=60_000, relation=Relation.ADD_REMOVE, clip_norm=0.3
    )
    assert again.steps == m.steps
    assert m.release is Release.ALL_ITERATES


@pytest.mark.parametrize("claims", RECORDED["histories"])
def test_recorded_accountants_beside_the_truth(claims: dict[str, Any]):
    m = opacus.from_history(claims["state_dict"], dataset_size=60_000, relation=Relation.ADD_REMOVE)
    curve = exact.dominating_curve(m, accuracy=1e-5)
    for place, delta in enumerate(RECORDED["deltas"]):
        low, high = curve.epsilon_bracket(delta)
        assert claims["rdp"][place] >= high
        # what the prv accountant returns is its upper bound: twice its eps_error of 0.01 above
        assert low <= claims["prv"][place] <= high + 0.03
    for order, claimed in zip(RECORDED["orders"], claims["renyi"], strict=True):
        # theirs has ten digits or more
        assert curve.renyi(order) == pytest.approx(claimed, rel=1e-9)
    # a planted error: two per cent less noise in the mechanism than the accountant was told of
    (first, *_) = claims["state_dict"]["history"]
    if first[1] < 1:
        return
    less = [(z * 0.98, q, t) for z, q, t in claims["state_dict"]["history"]]
    noisy = opacus.from_history(less, dataset_size=60_000, relation=Relation.ADD_REMOVE)
    assert exact.dominating_curve(noisy, accuracy=1e-5).epsilon_bracket(1e-5)[0] > claims["prv"][0]


def test_runs_of_one_kind_are_one_mechanism_at_the_rate_that_was_told():
    small = {"dataset_size": 8, "relation": Relation.ZERO_OUT}
    m = opacus.from_history([(1.5, 0.25, 3), (1.5, 0.25, 4)], **small)
    assert isinstance(m, NoisySGD)
    assert (m.steps, m.batch_size, m.batching) == (7, 2, Batching.POISSON)
    m = opacus.from_history([(1.5, 0.25, 3), (1.5, 0.5, 4)], **small)
    assert isinstance(m, Composition)
    m = opacus.from_history([(1.0, 1 / 235, 9)], dataset_size=60_000, relation=Relation.ADD_REMOVE)
    assert isinstance(m, NoisySGD)
    assert m.sampling_rate == 1 / 235
    assert (m.dataset_size, m.batch_size) == (60_000, 255)  # Opacus' expected_batch_size
    m = opacus.from_history([(1.5, 1.0, 3)], dataset_size=8, relation=Relation.REPLACE_ONE)
    assert isinstance(m, NoisySGD)
    assert m.batching is Batching.FULL
    assert m.noise_multiplier == 0.75  # of twice the clipping norm


def test_the_dataset_size_does_not_matter() -> None:
    history = [(1.1, 0.01, 6), (0.9, 1 / 235, 4)]
    m = opacus.from_history(history, relation=Relation.ADD_REMOVE)
    assert m.dataset_size == 4700
    assert [run[1:] for run in opacus.to_history(m)] == [run[1:] for run in history]
    sized = opacus.from_history(history, dataset_size=60_000, relation=Relation.ADD_REMOVE)
    ends = [dominating_curve(one).epsilon_bracket(1e-5) for one in (m, sized)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({"mechanism": "rdp"}, "a state_dict with 'history', got the keys mechanism"),
        (3, "history must be entries .* got 3"),
        ([(1.0, 0.1, 1), (0.0, 0.1, 1)], r"history\[1\] noise multiplier must be .* got 0.0"),
        ([(1.0, 0.0, 1)], r"history\[0\] sample rate must be a positive .* got 0.0"),
    ],
)
def test_what_is_no_history_is_refused(history: Any, message: str):
    """Other mistakes are in tests/test_mistakes.py."""
    with pytest.raises(ValueError, match=message):
        opacus.from_history(history, dataset_size=10, relation=Relation.ADD_REMOVE)


def test_histories_are_read_from_what_holds_them():
    accountant = SimpleNamespace(history=[(1.0, 0.5, 2)])
    engine = SimpleNamespace(accountant=accountant)
    assert opacus.read_history(engine) == opacus.read_history(accountant) == ((1.0, 0.5, 2),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relation": Relation.REPLACE_ONE}, "relation .* must be 'add remove' or 'zero out', got"),
        ({"batching": Batching.RESHUFFLED}, "batching .* 'poisson' or 'full', got 'reshuffled'"),
        ({"release": Release.LAST_ITERATE}, "release .* 'all iterates', got 'last iterate'"),
        ({"divisor": Divisor.ACTUAL}, "divisor .* 'nominal', got 'actual'"),
    ],
)
def test_what_opacus_does_not_speak_of_is_refused(changes: dict[str, Any], message: str):
    given = {"steps": 4, "dataset_size": 10, "batch_size": 2, "noise_std": 1.0}
    assert opacus.to_history(dp_sgd(**given)) == ((2.0, 0.2, 4),)
    with pytest.raises(ValueError, match=message):
        opacus.to_history(dp_sgd(**given, **changes))


def test_wrong_questions_are_refused(not_installed: None):
    history = [(1.0, 0.1, 10)]
    with pytest.raises(ValueError, match="accountant must be 'rdp' or 'prv' or 'gdp', got 'pld'"):
        opacus.claimed_epsilons(history, accountant="pld", deltas=[1e-5])
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got 0.0"):
        opacus.claimed_epsilons(history, accountant="rdp", deltas=[0.0])
    with pytest.raises(ValueError, match=r"order must be a finite number above 1, got 1.0"):
        opacus.rdp_divergences(history, orders=[1.0])
    two = [*history, (2.0, 0.1, 10)]
    with pytest.raises(ValueError, match="one entry for the gdp accountant, got 2"):
        opacus.claimed_epsilons(two, accountant="gdp", deltas=[1e-5])
    with pytest.raises(ValueError, match="a NoisySGD or a Composition, got 3"):
        opacus.to_history(3)  # type: ignore[arg-type]


def test_the_extra_is_named_where_opacus_is_missing(not_installed: None):
    named = r"cannot be imported .*: pip install 'noisy-sgd-audit\[opacus\]'$"
    history = [(1.0, 0.1, 10)]
    for ask in (
        lambda: opacus.claimed_epsilons(history, accountant="rdp", deltas=[1e-5]),
        lambda: opacus.rdp_divergences(history, orders=[2.0]),
        lambda: opacus.claimed_curve(history),
        lambda: opacus.read_loader(None),
        lambda: opacus.from_private(None, None, relation=Relation.ADD_REMOVE, epochs=1),
    ):
        with pytest.raises(ImportError, match=named):
            ask()


def shuffled(records: int = 1000) -> opacus.Loader:
    """An epoch of 100 batches of 10."""
    return opacus.Loader("RandomSampler", Batching.RESHUFFLED, records, 100, batch_size=10)


def test_a_loader_without_poisson_sampling_has_both_numbers():
    loader = shuffled()
    history = ((0.5, loader.assumed_rate, 100),)
    claimed = opacus.from_history(history, dataset_size=1000, relation=Relation.ZERO_OUT)
    actual = loader.mechanism(history, relation=Relation.ZERO_OUT, clip_norm=1.0)
    assert isinstance(actual, NoisySGD)
    assert isinstance(claimed, NoisySGD)
    gap = bounds.batching_gap(actual, assumed=claimed, delta=1e-6)
    assert gap.refuted
    # the two numbers of the table of batch samplers
    assert gap.claimed == pytest.approx(7.916, abs=2e-3)
    assert gap.certified == pytest.approx(10.997, abs=2e-3)
    assert "poisson batches: false for reshuffled batches" in str(gap)


def test_batches_of_two_sizes_are_bounded_like_those_of_one():
    history = ((0.5, 0.01, 200),)
    even = shuffled().mechanism(history, relation=Relation.ZERO_OUT, clip_norm=1.0)
    uneven = shuffled(records=991).mechanism(history, relation=Relation.ZERO_OUT, clip_norm=1.0)
    assert even == uneven
    words = "reshuffled batches of 10 from 991 records, 100 an epoch (RandomSampler)"
    assert str(shuffled(records=991)) == words
    short = ((0.5, 0.01, 50),)
    with pytest.raises(ValueError, match=r"whole epochs \(100 steps\) .* got \[50\] steps"):
        shuffled(records=991).mechanism(short, relation=Relation.ZERO_OUT, clip_norm=1.0)
    shuffled().mechanism(short, relation=Relation.ZERO_OUT, clip_norm=1.0)


def largest_sums(trials: int, gradient: float, seed: int) -> np.ndarray:
    """Draw the largest sum of an epoch in batches of 2, 2 and 1 records, all but one at -1.

    The sizes of the batches are public, and are added.
    """
    rng = np.random.default_rng(seed)
    gradients = np.full((trials, 5), -1.0)
    gradients[np.arange(trials), rng.integers(5, size=trials)] = gradient
    sums = np.add.reduceat(gradients, [0, 2, 4], axis=1) + np.array([2, 2, 1])
    return np.max(sums + rng.normal(0.0, 0.5, sums.shape), axis=1)


@pytest.mark.parametrize("gradient", [1.0, 0.0])
def test_the_statistic_of_batches_of_two_sizes(gradient: float):
    """Its law is that of the bounds for batches of one size; false alarms have rate 1e-4."""
    drawn = largest_sums(20_000, gradient, seed=3)

    def law(x: Any, mean: float) -> Any:
        return ndtr(x / 0.5) ** 2 * ndtr((x - mean) / 0.5)

    assert kstest(drawn, lambda x: law(x, gradient + 1)).pvalue > 1e-4
    assert kstest(drawn, lambda x: law(x, gradient + 1.1)).pvalue < 1e-4


def test_noise_that_changes_in_an_epoch_is_refused():
    halves = ((0.5, 0.01, 50), (0.6, 0.01, 150))
    with pytest.raises(ValueError, match=r"for reshuffled batches, got \[50, 150\] steps"):
        shuffled().mechanism(halves, relation=Relation.ZERO_OUT, clip_norm=1.0)
    poisson = opacus.Loader("a sampler", Batching.POISSON, 1000, 100, rate=0.01)
    made = poisson.mechanism(halves, relation=Relation.ADD_REMOVE, clip_norm=1.0)
    assert made == opacus.from_history(halves, dataset_size=1000, relation=Relation.ADD_REMOVE)
