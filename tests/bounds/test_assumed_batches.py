"""An accountant's number compared with the privacy under the batches actually drawn."""

from __future__ import annotations

import dataclasses

import pytest

from audit import Batching, Relation, Release, bounds
from audit.bounds.assumed_batches import BatchingGap
from audit.exact import dominating_curve
from tests.mechanisms import dp_sgd
from tests.slow import slow

MADE = dp_sgd(
    dataset_size=50,
    batch_size=5,
    noise_std=0.2,
    batching=Batching.CYCLIC,
    relation=Relation.ZERO_OUT,
)


def test_an_accountant_for_poisson_batches_is_refuted_by_a_fixed_order():
    m = MADE
    gap = bounds.batching_gap(m, assumed=Batching.POISSON, delta=1e-6)
    poisson = dataclasses.replace(m, batching=Batching.POISSON)
    low, high = dominating_curve(poisson).epsilon_bracket(1e-6)
    assert low <= gap.claimed <= high * (1 + 2e-4)
    assert gap.certified == pytest.approx(dominating_curve(m).epsilon(1e-6))
    assert gap.refuted
    assert "poisson batches: false for cyclic batches, where it is at least" in str(gap)


@pytest.mark.parametrize(
    ("claimed", "certified", "proven", "shown"),
    [
        (1.5153701, 1.5153704, 2.0, ("1.5153701", "false", "1.5153704")),
        (1.5153704, 1.0, 1.5153701, ("1.51538", "true", "1.51538")),
        (1.2345612, 1.0000006, 2.9999944, ("1.23457", "open", "between 1.00000 and 3.00000")),
    ],
)
def test_numbers_are_rounded_as_the_verdict_says(
    claimed: float, certified: float, proven: float, shown: tuple[str, str, str]
) -> None:
    gap = BatchingGap(MADE, Batching.POISSON, 1e-6, claimed, certified, proven, None, None)
    number, verdict, other = shown
    assert str(gap).startswith(
        f"epsilon {number} at delta 1e-06 for poisson batches: {verdict} for"
    )
    assert f" {other} (noise" in str(gap)


@pytest.mark.parametrize(
    ("batching", "assumed"),
    [(Batching.CYCLIC, Batching.POISSON), slow(Batching.POISSON, Batching.CYCLIC)],
)
def test_the_noise_that_makes_the_claim_true(batching: Batching, assumed: Batching):
    m = dataclasses.replace(MADE, batching=batching)
    gap = bounds.batching_gap(m, assumed=assumed, delta=1e-6)
    assert gap.needed is not None
    assert gap.enough is not None
    assert gap.needed < gap.enough < gap.needed * 1.001
    below, enough = (float(str(gap).split(word)[1].split()[0]) for word in ("below", "from"))
    assert below <= gap.needed  # printed numbers are rounded outward
    assert enough >= gap.enough

    def epsilon(multiplier: float) -> float:
        noise = m.noise_std * multiplier / m.noise_multiplier
        return dominating_curve(dataclasses.replace(m, noise_std=noise)).epsilon(1e-6)

    assert epsilon(gap.enough) <= gap.claimed < epsilon(gap.needed)


def test_what_cannot_be_compared_is_refused():
    m = MADE
    last = dataclasses.replace(m, release=Release.LAST_ITERATE)
    with pytest.raises(bounds.NotApplicable, match=r"needs release='all iterates', got release='l"):
        bounds.batching_gap(last, assumed=Batching.POISSON, delta=1e-6)
    with pytest.raises(bounds.NotApplicable, match="must be 'replace one' for batches without re"):
        bounds.batching_gap(m, assumed=Batching.WITHOUT_REPLACEMENT, delta=1e-6)
    with pytest.raises(ValueError, match="delta must be in"):
        bounds.batching_gap(m, assumed=Batching.POISSON, delta=0.0)


def test_an_accountant_that_assumes_another_rate():
    m = dataclasses.replace(MADE, batching=Batching.POISSON)
    told = dataclasses.replace(m, batch_size=1, noise_std=1.0)
    assert told.noise_multiplier == m.noise_multiplier
    gap = bounds.batching_gap(m, assumed=told, delta=1e-6)
    assert gap.refuted
    assert gap.claimed == pytest.approx(dominating_curve(told).epsilon(1e-6), rel=2e-4)
    last = dataclasses.replace(told, release=Release.LAST_ITERATE)
    with pytest.raises(bounds.NotApplicable, match="got release='last iterate'"):
        bounds.batching_gap(m, assumed=last, delta=1e-6)
