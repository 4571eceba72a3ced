"""Events of dp-accounting as mechanisms and back, and the curves that its accountants claim."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import pytest

from audit import bounds, exact
from audit.adapters import dp_accounting as adapter
from audit.adapters.libraries import ClaimedCurve
from audit.adapters.steps import composed, in_words, step
from audit.mechanism import Batching, Composition, Divisor, NoisySGD, Relation, Release

dp = pytest.importorskip("dp_accounting")
# since dp-accounting 0.6
TRUNCATED = getattr(dp.dp_event, "TruncatedSubsampledGaussianDpEvent", None)
GAUSSIAN = dp.GaussianDpEvent(2.0)


def read(event: Any, **given: Any) -> NoisySGD | Composition:
    return adapter.from_dp_event(
        event, **{"dataset_size": 1000, "relation": Relation.ADD_REMOVE, **given}
    )


def same(event: Any, other: Any) -> bool:
    """Whether two events are the same up to the rounding of their numbers."""
    if type(event) is not type(other):
        return False
    if isinstance(event, dp.ComposedDpEvent):
        pairs = zip(event.events, other.events, strict=True)
        return all(same(one, two) for one, two in pairs)
    names = [a for a in event.__slots__ if not a.startswith("__")]
    return all(
        same(one, two) if isinstance(one, dp.DpEvent) else two == pytest.approx(one, rel=1e-15)
        for one, two in ((getattr(event, name), getattr(other, name)) for name in names)
    )


ROUND_TRIPS = [
    dp.SelfComposedDpEvent(GAUSSIAN, 7),
    dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), 10_000),
    dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(1 / 235, dp.GaussianDpEvent(0.9)), 3),
    dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(1.0, GAUSSIAN), 3),
    dp.SelfComposedDpEvent(dp.SampledWithoutReplacementDpEvent(1000, 30, GAUSSIAN), 9),
    dp.ComposedDpEvent(
        [
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, GAUSSIAN), 5),
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.02, GAUSSIAN), 5),
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, GAUSSIAN), 1),
        ]
    ),
]
if TRUNCATED is not None:
    ROUND_TRIPS.append(dp.SelfComposedDpEvent(TRUNCATED(1000, 1 / 17, 80, 1.5), 4))


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("event", ROUND_TRIPS, ids=lambda event: str(event)[:40])
def test_there_and_back(event: Any, relation: Relation) -> None:
    m = read(event, relation=relation, clip_norm=0.7)
    assert m.relation is relation
    assert m.dataset_size == 1000
    assert same(event, adapter.to_dp_event(m))
    assert read(adapter.to_dp_event(m), relation=relation, clip_norm=0.7) == m


def test_the_numbers_of_an_event() -> None:
    m = read(dp.PoissonSampledDpEvent(0.25, GAUSSIAN), clip_norm=3.0, dataset_size=100)
    assert isinstance(m, NoisySGD)
    assert (m.steps, m.batch_size, m.batching) == (1, 25, Batching.POISSON)
    assert m.release is Release.ALL_ITERATES
    assert not m.convex
    # z C over the sum of 25 records
    assert m.noise_std * 25 == 6.0
    replaced = read(dp.PoissonSampledDpEvent(0.25, GAUSSIAN), relation=Relation.REPLACE_ONE)
    assert isinstance(replaced, NoisySGD)
    assert replaced.noise_multiplier == 1.0  # over a sensitivity of 2 C
    special = dp.NeighboringRelation.REPLACE_SPECIAL
    assert read(GAUSSIAN, relation=special).relation is Relation.ZERO_OUT


def test_equal_steps_become_one_run() -> None:
    once = dp.PoissonSampledDpEvent(0.01, GAUSSIAN)
    nested = dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(dp.ComposedDpEvent([once, once]), 50), dp.NoOpDpEvent(), once]
    )
    m = read(nested)
    assert isinstance(m, NoisySGD)
    assert m.steps == 101
    both = dp.ComposedDpEvent([once, dp.PoissonSampledDpEvent(0.1, once.event)])
    different = read(dp.SelfComposedDpEvent(both, 9))
    assert isinstance(different, Composition)
    assert [(run.steps, run.sampling_rate) for run in different.parts] == [(9, 0.01), (9, 0.1)]


def test_the_rate_is_kept() -> None:
    m = read(dp.PoissonSampledDpEvent(1 / 235, GAUSSIAN), dataset_size=60_000)
    assert isinstance(m, NoisySGD)
    assert (m.sampling_rate, m.batch_size, m.dataset_size) == (1 / 235, 255, 60_000)
    whole = read(dp.PoissonSampledDpEvent(0.01, GAUSSIAN), dataset_size=60_000)
    assert isinstance(whole, NoisySGD)
    assert (whole.poisson_rate, whole.batch_size) == (None, 600)


def test_queries_on_one_sample() -> None:
    queries = dp.ComposedDpEvent([dp.GaussianDpEvent(3.0), dp.SelfComposedDpEvent(GAUSSIAN, 4)])
    event = dp.PoissonSampledDpEvent(0.1, queries)
    m = read(event)
    assert isinstance(m, NoisySGD)
    assert m.noise_multiplier == pytest.approx((1 / 9 + 4 / 4) ** -0.5, rel=1e-15)
    # as the library counts them
    theirs = dp.rdp.RdpAccountant([2.0, 16.0]).compose(event)
    ours = adapter.accountant(m, adapter.Accountant.RDP, orders=[2.0, 16.0])
    assert ours.rdp == pytest.approx(theirs.rdp, rel=1e-12)


KNOWN = "GaussianDpEvent, PoissonSampledDpEvent, .*, NoOpDpEvent"


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (dp.NonPrivateDpEvent(), f"event must be one of {KNOWN}, got NonPrivateDpEvent"),
        (dp.UnsupportedDpEvent(), f"event must be one of {KNOWN}, got UnsupportedDpEvent"),
        (
            dp.SelfComposedDpEvent(dp.ComposedDpEvent([GAUSSIAN, dp.LaplaceDpEvent(1.0)]), 3),
            rf"event\.event\.events\[1\] must be one of {KNOWN}, got LaplaceDpEvent",
        ),
        (dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)), r"event\.event .*, got LaplaceDp"),
        (
            dp.PoissonSampledDpEvent(0.1, dp.PoissonSampledDpEvent(0.1, GAUSSIAN)),
            r"event\.event must be one of GaussianDpEvent, .*, got PoissonSampledDpEvent",
        ),
        (dp.SampledWithReplacementDpEvent(1000, 10, GAUSSIAN), "got SampledWithReplacementDpEvent"),
        (dp.ZCDpEvent(0.1), "got ZCDpEvent"),
        (dp.PoissonSampledDpEvent(0.1, dp.ComposedDpEvent([])), r"event\.event .*ComposedDpEvent"),
        (
            dp.SampledWithoutReplacementDpEvent(999, 10, GAUSSIAN),
            r"event\.source_dataset_size must be the given dataset_size \(1000\), got 999",
        ),
        (dp.GaussianDpEvent(0.0), r"event\.noise_multiplier must be a positive finite number, got"),
        (dp.PoissonSampledDpEvent(0.0, GAUSSIAN), "event: sampling_rate must be a positive"),
        (dp.PoissonSampledDpEvent(1.5, GAUSSIAN), r"event: sampling_rate must be in \[0, 1\], got"),
        (dp.SelfComposedDpEvent(GAUSSIAN, 0), r"event\.count must be a whole number of at least 1"),
        (dp.NoOpDpEvent(), "event must release something in at least one step, got none"),
        (dp.ComposedDpEvent([]), "event must release something in at least one step, got none"),
        ("a text", "event must be one of .*, got 'a text'"),
    ],
)
def test_what_has_no_counterpart_is_refused(event: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(event)


@pytest.mark.skipif(TRUNCATED is None, reason="this version has no truncated batches")
def test_a_part_of_a_record_is_refused() -> None:
    event = TRUNCATED(1000, 0.1, 120.5, 1.0)
    with pytest.raises(ValueError, match=r"^event\.truncated_batch_size must be a whole number"):
        adapter.from_dp_event(event, dataset_size=1000, relation=Relation.ADD_REMOVE)


def test_what_must_be_given() -> None:
    with pytest.raises(TypeError, match="relation"):
        adapter.from_dp_event(GAUSSIAN, dataset_size=10)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="relation must be a Relation or a NeighboringRelation"):
        read(GAUSSIAN, relation="add remove")
    with pytest.raises(ValueError, match="dataset_size must be a whole number of at least 1"):
        read(GAUSSIAN, dataset_size=0)
    with pytest.raises(ValueError, match="clip_norm must be a positive finite number"):
        read(GAUSSIAN, clip_norm=0.0)
    with pytest.raises(ValueError, match="steps must be at least one, got none"):
        composed([])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": Release.LAST_ITERATE}, "release must be 'all iterates' for a DpEvent"),
        ({"divisor": Divisor.ACTUAL}, "divisor must be 'nominal' for a DpEvent, got 'actual'"),
        ({"batching": Batching.RESHUFFLED}, "batching must be .* for a DpEvent, got 'reshuffled'"),
        ({"batching": Batching.RANDOM_ALLOCATION}, "batching must be .*, got 'random allocation'"),
        ({"gradient_sensitivity": 0.5}, "gradient_sensitivity must be None, .* got 0.5"),
    ],
)
def test_mechanisms_without_an_event(changes: dict[str, Any], message: str) -> None:
    m = step(1.0, 0.1, dataset_size=100, relation=Relation.ADD_REMOVE, clip_norm=1.0)
    with pytest.raises(ValueError, match=message):
        adapter.to_dp_event(replace(m, **changes))


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"pip install 'noisy-sgd-audit\[dp-accounting\]'"):
        read(GAUSSIAN)


def test_what_is_judged_in_words() -> None:
    m = read(ROUND_TRIPS[5], relation=Relation.REPLACE_ONE)
    assert in_words(m) == (
        "5 steps on poisson batches at rate 0.01 with noise multiplier 2, then 5 steps on poisson "
        "batches at rate 0.02 with noise multiplier 2, then 1 step on poisson batches at rate 0.01 "
        "with noise multiplier 2 (noise over clip norm); 1000 records, relation 'replace one', all "
        "iterates released"
    )


def test_the_pld_accountant_agrees_on_the_same_event() -> None:
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(6)), 10_000)
    m = read(event, dataset_size=60_000)
    assert isinstance(m, NoisySGD)
    ours = bounds.evaluate("accounting.poisson", m).epsilon(1e-5)
    # the library rounds losses to an interval h, at a cost of h^2: the error is that of 1e-4
    coarse, fine = (
        dp.pld.PLDAccountant(value_discretization_interval=h).compose(event).get_epsilon(1e-5)
        for h in (1e-4, 2.5e-5)
    )
    error = (coarse - fine) * 16 / 15
    assert 0 < error < 3e-4
    assert abs(ours - coarse) < 1.1 * error
    assert coarse == adapter.accountant(m, adapter.Accountant.PLD).get_epsilon(1e-5)


def test_claimed_curves() -> None:
    pld = dp.pld.PLDAccountant().compose(GAUSSIAN)
    law = exact.dominating_curve(read(GAUSSIAN))
    curve = adapter.claimed_curve(pld)
    assert isinstance(curve, ClaimedCurve)
    assert curve.claimant == "dp-accounting's PLDAccountant"
    for claimed in (curve, adapter.claimed_curve(pld._pld)):
        assert claimed.epsilon(1e-5) == pytest.approx(law.epsilon(1e-5), rel=1e-4)
        assert claimed.delta(0.5) == pytest.approx(law.delta(0.5), rel=1e-4)
        assert claimed.delta(-0.5) == pytest.approx(law.delta(-0.5), rel=1e-4)
        assert claimed.renyi(2.0) == math.inf  # none is claimed
        # an upper bound on the power, less tight than the law
        assert 0 <= law.beta(0.1) - claimed.beta(0.1) < 0.01


def test_claimed_divergences() -> None:
    accountant = dp.rdp.RdpAccountant([1.5, 4.0, 8.0]).compose(GAUSSIAN)
    curve = adapter.claimed_curve(accountant)
    assert curve.renyi(4.0) == 0.5
    assert curve.renyi(3.0) == 0.5  # that of the next larger order
    assert curve.renyi(9.0) == math.inf
    assert curve.epsilon(1e-5) == accountant.get_epsilon(1e-5)
    # the epsilon of an optimistic one, 4.17 of 4.38, refuted the library
    made = dp.pld.privacy_loss_distribution.from_gaussian_mechanism
    optimistic = made(1.0, pessimistic_estimate=False, value_discretization_interval=0.5)
    for source in (None, GAUSSIAN, 1.0, optimistic):
        with pytest.raises(ValueError, match=r"source must be a (PrivacyAccountant|pessimistic)"):
            adapter.claimed_curve(source)


def test_what_an_accountant_does_not_support() -> None:
    m = read(dp.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN))
    with pytest.raises(ValueError, match=r"PLDAccountant does not support .*: Unsupported event"):
        adapter.accountant(m, adapter.Accountant.PLD)
    with pytest.raises(ValueError, match=r"RdpAccountant does not support .* be `REPLACE_ONE`"):
        adapter.accountant(m, adapter.Accountant.RDP)
