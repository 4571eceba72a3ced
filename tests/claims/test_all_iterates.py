"""Claims about the release of all iterates: the dominating pair refutes them, and proves them."""

from __future__ import annotations

import dataclasses
import math

import pytest

import audit
from audit import Batching, Divisor, NoisySGD, Relation, Release
from audit.claims import Evidence, Judgement, Verdict
from audit.claims.candidates import KnownPairs
from audit.claims.claim import Claim, Numbers
from audit.claims.evidence import Collected, ErrorShare, LowerBound, _too_coarse, _verdict
from audit.constructions.explicit_laws import AllIterates
from audit.curves import Order
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta
from tests.mechanisms import dp_sgd
from tests.verifying import is_refuted

from .written import judged, law_of

BASE = dp_sgd(steps=10, dataset_size=40, batch_size=4, step_size=0.1, noise_std=0.25)
DELTA = 1e-5
MECHANISMS = {
    "poisson": BASE,
    "poisson, replace one": dataclasses.replace(BASE, relation=Relation.REPLACE_ONE),
    "full": dataclasses.replace(BASE, batch_size=40, batching=Batching.FULL),
    "cyclic": dataclasses.replace(
        BASE, steps=25, batching=Batching.CYCLIC, relation=Relation.ZERO_OUT
    ),
    "cyclic, replace one": dataclasses.replace(
        BASE, steps=21, batching=Batching.CYCLIC, relation=Relation.REPLACE_ONE
    ),
    "random allocation": dataclasses.replace(BASE, batching=Batching.RANDOM_ALLOCATION),
    "actual divisor": dataclasses.replace(BASE, divisor=Divisor.ACTUAL),
}
NO_FORMULA = {
    "random allocation": "no witness: batching must be 'full', 'poisson' or",
    "actual divisor": "no witness: divisor must be 'nominal'",
}


def of_epsilon(m: NoisySGD, epsilon: float) -> Judgement:
    return judged(m, epsilon=epsilon, delta=DELTA)


def holds(m: NoisySGD, id: str) -> bool:
    return judged(m, bound=id, deltas=[DELTA]).verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("name", MECHANISMS)
def test_below_is_refuted_and_above_is_proven(name: str) -> None:
    m = MECHANISMS[name]
    low, high = law_of(AllIterates(m)).epsilon_bracket(DELTA)
    refuted = of_epsilon(m, 0.99 * low)
    assert refuted.verdict is Verdict.REFUTED
    assert refuted.pair == "AllIterates"
    if name in NO_FORMULA:  # pairs of vectors
        assert refuted.witness is None
        assert NO_FORMULA[name] in refuted.message
    else:
        assert refuted.witness is not None
        assert is_refuted(refuted.witness)
    above = of_epsilon(m, 1.0001 * high)
    assert above.verdict is Verdict.CONSISTENT
    assert above.message.startswith("the dominating pair has at most")


def test_a_claim_inside_the_bracket_stands_and_is_not_proven() -> None:
    low, high = law_of(AllIterates(BASE)).epsilon_bracket(DELTA)
    assert low < high
    inside = of_epsilon(BASE, low)
    assert inside.verdict is Verdict.CONSISTENT
    assert "does not refute it" in inside.message or "refutes it" in inside.message


NUMBER = ClaimedNumber(EpsilonAtDelta(DELTA), 1.0)
KNOWN = KnownPairs().one(AllIterates(BASE))


def collected(*ends: tuple[float, float]) -> Collected:
    """The claim that epsilon is 1, with a bracket of the pair in each order."""
    bounds = [
        LowerBound(NUMBER, *both, order, KNOWN, Evidence.EXACT, _too_coarse(NUMBER, both, KNOWN))
        for both, order in zip(ends, Order, strict=True)
    ]
    claim = Claim(id="x", mechanism=BASE, statement=Numbers((NUMBER,)))
    share = ErrorShare(0.1, 0.1)
    return Collected(claim=claim, numbers=(NUMBER,), share=share, bounds=bounds)


@pytest.mark.parametrize(("low", "high", "of"), [(0.5, math.inf, "0.5"), (0.0, 4.0, "0")])
def test_a_bracket_with_one_side_decides_nothing(low: float, high: float, of: str) -> None:
    unsure = collected((0.9, 0.95), (low, high)).inconclusive
    assert unsure.endswith(f"is only known to be from {of} to {high:g}")
    assert collected((0.9, 0.95), (0.9, 4.0)).inconclusive == ""
    assert _too_coarse(NUMBER, (1.5, math.inf), KNOWN) == ""  # refutes


@pytest.mark.parametrize(("reverse_high", "proven"), [(0.98, True), (1.02, False)])
def test_a_proof_is_of_both_orders(reverse_high: float, proven: bool) -> None:
    """The order that comes closest by its lower end need not have the larger upper end."""
    verdict, message = _verdict(collected((0.9, 0.95), (0.89, reverse_high)))
    assert verdict is Verdict.CONSISTENT
    assert message.startswith("the dominating pair has at most 0.98") == proven


def test_a_sound_accountant_stands_and_one_for_rarer_batches_does_not() -> None:
    m = MECHANISMS["poisson"]
    assert holds(m, "accounting.poisson")
    rarer = dataclasses.replace(m, dataset_size=44)  # a lower sampling rate than the true one
    assumed = audit.bounds.evaluate("accounting.poisson", rarer).epsilon(DELTA)
    assert of_epsilon(m, assumed).verdict is Verdict.REFUTED


def test_divergences() -> None:
    m = MECHANISMS["full"]
    true = 3.0 * m.steps / m.noise_multiplier**2 / 2
    for factor, verdict in ((0.999, Verdict.REFUTED), (1.001, Verdict.CONSISTENT)):
        assert judged(m, renyi={3.0: factor * true}).verdict is verdict


def test_the_accountant_of_a_nominal_divisor_is_refuted_for_an_actual_one() -> None:
    m = MECHANISMS["actual divisor"]
    nominal = audit.bounds.evaluate("accounting.poisson", MECHANISMS["poisson"]).epsilon(DELTA)
    refuted = of_epsilon(m, nominal)
    assert refuted.verdict is Verdict.REFUTED
    assert refuted.certified is not None
    assert refuted.certified > 1.5 * nominal
    assert holds(m, "accounting.actual_divisor")


def test_of_other_releases_there_is_no_such_pair() -> None:
    removing = dataclasses.replace(BASE, batching=Batching.CYCLIC)  # moves the other records
    with pytest.raises(ValueError, match="'cyclic' for the laws of all iterates by formula"):
        AllIterates(removing).distributions()
    with pytest.raises(ValueError, match="AllIterates needs release='all iterates'"):
        AllIterates(dataclasses.replace(BASE, release=Release.LAST_ITERATE))
