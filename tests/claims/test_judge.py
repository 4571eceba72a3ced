"""The judge: what it refutes, what it does not, and its messages."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, Release, bounds, exact
from audit.claims import candidates
from audit.claims.candidates import Candidates, KnownPairs
from audit.claims.claim import (
    Asked,
    Budget,
    Claim,
    Expected,
    LooseBy,
    Numbers,
    NumberSource,
    Search,
    statement_of,
)
from audit.claims.evidence import ErrorShare, Evidence
from audit.claims.judge import Shared, _judge, judge, judge_all, judged_by_worker, work_order
from audit.claims.sources import ask_callable, claimed_numbers, number_of
from audit.codec import encode
from audit.constructions import (
    DriftedWalk,
    HolderForm,
    HolderPair,
    ResetWalk,
    TwoSidedWalk,
    decode_any_pair,
)
from audit.constructions.explicit import Finite, Repeated
from audit.constructions.explicit_laws import Laplace
from audit.curves import Order
from audit.curves.brackets import checked
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta, RenyiAtOrder
from audit.exact.law_curve import LawCurve
from audit.exact.normal_laws import GaussianPairCurve
from audit.isolation import UserCodeError, Workers
from audit.results import Verdict
from tests.bounds.one_pass import one_pass
from tests.claims import callables as named
from tests.claims.callables import RETURNED
from tests.claims.written import full
from tests.mechanisms import dp_sgd, noisy_sgd
from tests.verifying import is_refuted

FEW = Budget(trials=4_000, seconds=1e-9, seed=3)  # no time for an exact law


TWO_SIDED = {"kind": "TwoSidedWalk"}
HOLDER = noisy_sgd(steps=3, dataset_size=5, step_size=0.1, noise_std=2.0, lipschitz=2.0,
                   smoothness=None, holder=(1.6, 1 / 3))  # fmt: skip
MU = math.sqrt(4) * 2 / (10 * 0.2)  # of `full()`: composition, which linear losses reach


def claimed(statement, mechanism=None, pair=None, **changes):
    mechanism = mechanism or full()
    if pair is not None:
        changes["pair"] = decode_any_pair(pair, mechanism)
    return Claim(id="a", mechanism=mechanism, statement=statement, **changes)


def verdict_of(*claim, **fields):
    return judge(claimed(*claim, **fields)).verdict


def at(epsilon, delta=1e-5):
    return statement_of(epsilon=epsilon, delta=delta)


def bound(id, **keys):
    return Asked(NumberSource.BOUND, id, **keys)


def user(name, **keys):
    return Asked(NumberSource.CALLABLE, f"{named.__name__}:{name}", **keys)


def number(quantity, value):
    """Return a statement that no file could hold."""
    return Numbers((ClaimedNumber(quantity, value),))


GAUSSIAN = named.GAUSSIAN
assert GAUSSIAN.mu == MU
TRUE = {
    "epsilon": lambda f: at(f * GAUSSIAN.epsilon(1e-5)),
    "renyi": lambda f: statement_of(renyi={3.0: f * GAUSSIAN.renyi(3.0)}),
    "mu": lambda f: statement_of(mu=f * MU),
    "tradeoff": lambda f: statement_of(tradeoff={0.05: 1 - f * (1 - GAUSSIAN.beta(0.05))}),
}


@pytest.mark.parametrize("kind", TRUE)
def test_what_a_pair_reaches_is_the_limit(kind):
    """Four linear steps are two Gaussians at distance MU: a hair above is true, below is not."""
    claims = [claimed(TRUE[kind](f), pair=TWO_SIDED) for f in (1 + 1e-9, 1 - 1e-9)]
    true, false = (judge(claim) for claim in claims)
    assert true.verdict is Verdict.CONSISTENT
    assert true.tightness == pytest.approx(1, abs=1e-8)
    assert true.witness is None
    assert true.evidence == "exact"
    assert true.error == 0
    assert false.verdict is Verdict.REFUTED
    assert false.witness is not None
    assert false.certified > false.claimed
    assert "certified" in false.message


@pytest.mark.parametrize("name", RETURNED)
def test_what_a_callable_returns_must_be_a_number(name):
    """In the worker's function, without a worker."""

    def ask():
        return ask_callable(lambda m, delta: RETURNED[name], "f", encode(full()), [0.1], [])

    if name in ("integer", "fraction", "zero_dimensions", "tensor"):
        assert ask() == [[3.0], []]
        return
    told = re.escape(f"f must return a number, got {repr(RETURNED[name])[:100]}")
    with pytest.raises(UserCodeError, match=f"^{told}") as caught:
        ask()
    assert len(str(caught.value)) < 250


def test_callables_are_judged():
    """Each in a process of its own: what one does is an error of its own claim alone."""
    names = ("whole", "halved", "less", "leaving", "broken")
    places = [{"deltas": (1e-5, 1e-3)}] * 2 + [{"orders": (2.0, 8.0)}, {"deltas": (1e-5,)}]
    statements = [user(n, **at) for n, at in zip(names, [*places, {"orders": (2.0,)}], strict=True)]
    judged = judge_all([claimed(statement, pair=TWO_SIDED) for statement in statements])
    verdicts = [each.verdict for each in judged]
    refuted = [Verdict.CONSISTENT, Verdict.REFUTED, Verdict.REFUTED]
    assert verdicts == [*refuted, Verdict.ERROR, Verdict.ERROR]
    assert judged[2].quantity.name == "Renyi divergence"
    told = ("leaving raised SystemExit: 0", r"broken raised RuntimeError: no number\x1b[31m")
    for each, text in zip(judged[3:], told, strict=True):
        assert each.message.startswith(f"{named.__name__}:{text}")
        assert "\n" not in each.message
    assert judged[4].message.endswith(", at order 2")


SPARSE = dp_sgd(steps=1, dataset_size=40, batch_size=4, step_size=0.1, noise_std=0.25,
                release=Release.LAST_ITERATE)  # fmt: skip


def test_pairs_without_an_exact_law_come_last(monkeypatch):
    seconds = candidates.exact_seconds
    monkeypatch.setattr(
        candidates,
        "exact_seconds",
        lambda pair: math.inf if isinstance(pair, DriftedWalk) else seconds(pair),
    )
    first, *others = KnownPairs().of(SPARSE).pairs
    assert isinstance(first.pair, ResetWalk)
    assert math.isfinite(first.seconds)
    assert all(math.isinf(known.seconds) for known in others)


def test_a_bound_that_cannot_be_computed_contradicts_no_refutation():
    """A dominating pair of all iterates has losses of thousands of nats."""
    assert judge(claimed(at(0.1), replace(SPARSE, noise_std=0.005))).verdict is Verdict.REFUTED


def test_a_witness_of_mu_is_at_the_epsilon_that_proves_it():
    m = full(diameter=0.5)
    law = exact.curve(TwoSidedWalk(m))
    low = law.mu_bracket(Order.FORWARD).low
    judged = judge(claimed(statement_of(mu=0.9 * low), m, pair=TWO_SIDED))
    assert judged.verdict is Verdict.REFUTED
    assert judged.witness.at == law.mu_bracket(judged.order).epsilon != 0


def test_the_first_pair_that_refutes_is_enough():
    # linear losses refute first; in small batches the worst gradient is far more distinguishable
    m = full(diameter=1.0, batch_size=1, batching=Batching.CYCLIC)
    false = claimed(at(0.1), m)
    first, again = (judge(false) for _ in range(2))
    assert (first.verdict, first.pairs_tried, first.pairs_left) == (Verdict.REFUTED, 1, 0)
    assert first.certified == again.certified
    with Shared(exhaustive=True) as every:
        all_of_them = judge(false, shared=every)
        true = judge(claimed(at(200.0), m), shared=every)
    assert all_of_them.pairs_tried > 10
    assert all_of_them.certified > 2 * first.certified
    assert true.pairs_tried > 10
    assert true.message.startswith(f"none of the {true.pairs_tried} pairs tried refutes it: ")


def test_a_fault_of_ours_is_no_lack_of_a_law(monkeypatch):
    """It makes the verdict an error, where no other pair refutes."""
    m = full(diameter=1.0)
    true, false = (claimed(at(epsilon), m) for epsilon in (200.0, 0.1))
    assert judge(true).verdict is Verdict.CONSISTENT
    ask, asked = Candidates.bracket, []

    def faulty(self, known, *rest, **more):
        asked.append(known)
        if known is not asked[0]:
            raise ValueError("operands could not be broadcast together")
        return ask(self, known, *rest, **more)

    monkeypatch.setattr(Candidates, "bracket", faulty)
    judged = judge(true)
    assert judged.verdict is Verdict.ERROR
    assert judged.message == "ValueError: operands could not be broadcast together"
    asked.clear()
    with Shared(exhaustive=True) as every:
        assert judge(false, shared=every).verdict is Verdict.REFUTED


def inverted(self, delta, order=None):
    return checked(f"epsilon at delta {np.max(delta):g}", (9.0, 8.0), order)


def test_a_broken_bracket_is_an_error_of_every_claim(monkeypatch):
    """Neither refuted nor consistent, though the other order would refute."""
    true, false = (claimed(at(epsilon), pair=TWO_SIDED) for epsilon in (200.0, 0.1))
    verdicts = [judge(claim).verdict for claim in (true, false)]
    assert verdicts == [Verdict.CONSISTENT, Verdict.REFUTED]
    sound = GaussianPairCurve.epsilon_bracket

    def broken(self, delta, order=None):
        return (inverted if order is Order.FORWARD else sound)(self, delta, order)

    monkeypatch.setattr(GaussianPairCurve, "epsilon_bracket", broken)
    for claim in (true, false):
        judged = judge(claim)
        assert judged.verdict is Verdict.ERROR
        assert judged.message.startswith("TwoSidedWalk: ")
        assert judged.message.endswith("must have 0 <= low <= high, got (9.0, 8.0)")
        assert "epsilon at delta 1e-05" in judged.message


def test_a_broken_bracket_at_one_place_leaves_the_claims_at_others():
    """Places are computed together; a place that fails is an error of its own claim alone."""
    m = full(diameter=1.0)
    sound = LawCurve.epsilon_bracket

    def broken(self, delta, order=None):
        if (np.asarray(delta) == 1e-7).any():
            inverted(self, 1e-7, order)
        return sound(self, delta, order)

    claims = [claimed(at(200.0, delta), m) for delta in (1e-5, 1e-7)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LawCurve, "epsilon_bracket", broken)
        verdicts = [judged.verdict for judged in judge_all(claims)]
    assert verdicts == [Verdict.CONSISTENT, Verdict.ERROR]


def test_what_exceeds_a_proven_bound_refutes_nothing(monkeypatch):
    """A certified number above a sound bound of the catalogue is an error, not a refutation."""
    m = full(smoothness=None)  # quick theorems
    best = bounds.best(m, delta=1e-5).epsilon
    claim = claimed(at(best * 1.01), m)
    assert judge(claim).verdict is Verdict.CONSISTENT
    monkeypatch.setattr(
        GaussianPairCurve,
        "epsilon_bracket",
        lambda self, delta, order=None: best * np.multiply.outer([1.1, 1.2], delta**0),
    )
    judged = judge(claim)
    assert (judged.verdict, judged.witness) == (Verdict.ERROR, None)
    assert re.fullmatch(
        r"certified epsilon \S+ at delta 1e-05 of .* in \w+ order exceeds \S+, which \S+ proves: "
        "one of the two is wrong",
        judged.message,
    )


def test_the_clearest_refutation_of_a_pair_is_reported():
    """Not the first: that order's divergence rests on events too rare for a witness's draws."""
    m = full(
        steps=1, dataset_size=2, batch_size=1, batching=Batching.WITHOUT_REPLACEMENT,
        step_size=1.0, noise_std=1.0, diameter=30.0, strong_convexity=0.001,
    )  # fmt: skip
    pair = {"kind": "QuadraticPair", "curvature": 0.001, "others": 0.985}
    curve = exact.curve(decode_any_pair(pair, m))
    first, clearest = (curve.renyi_bracket(2.0, order)[0] for order in Order)
    assert first < 0.5 * clearest
    # of two numbers the first is refuted in both orders, the second far more clearly
    judged = judge(claimed(statement_of(renyi={2.0: 0.9 * first, 3.0: 0.1 * first}), m, pair=pair))
    assert (judged.verdict, judged.order) == (Verdict.REFUTED, Order.REVERSE)
    assert judged.quantity == RenyiAtOrder(3.0)
    judged = judge(claimed(statement_of(renyi={2.0: 0.9 * first}), m, pair=pair))
    assert (judged.verdict, judged.order) == (Verdict.REFUTED, Order.REVERSE)
    assert judged.certified == pytest.approx(clearest, rel=1e-12)  # the same computation
    assert is_refuted(judged.witness)


def test_a_number_out_of_range_is_wrong_for_its_own_claim_alone():
    m, none = full(diameter=1.0, steps=2), Search(evaluations=0)
    numbers = [number(EpsilonAtDelta(delta), 9.0) for delta in (1e-5, 2.0, math.nan, 1e-3)]
    judged = judge_all([claimed(statement, m, search=none) for statement in numbers])
    assert [one.verdict.value for one in judged] == ["consistent", "error", "error", "consistent"]


def test_a_budget_that_ends_is_told(monkeypatch):
    """What fits is settled by estimates: the same pairs with other claims before or not."""
    monkeypatch.setattr("audit.claims.evidence._DEADLINE_FACTOR", math.inf)  # not by the clock
    m = full(steps=2, batch_size=2, batching=Batching.POISSON, diameter=1.0)
    claim = claimed(at(50.0), m, search=Search(evaluations=0))
    times = [known.seconds for known in KnownPairs().of(m).pairs]
    budget = Budget(seconds=sum(times[:3]) * 1.001)
    judged = judge(replace(claim, budget=budget))
    assert judged.verdict is Verdict.CONSISTENT
    assert (judged.pairs_tried, judged.pairs_left) == (3, len(times) - 3)
    told = (
        f"none of the 3 pairs tried within {budget.seconds:g} s refutes it ({len(times) - 3} more"
    )
    assert judged.message.startswith(told)
    with Shared() as shared:
        for one in (claim, replace(claim, budget=budget)):
            after = judge(one, shared=shared)
    assert (after.pairs_tried, after.certified) == (3, judged.certified)


def test_claims_that_share_have_the_verdicts_of_claims_alone():
    """Brackets of other claims rule pairs out; what is certified stays the same."""
    m = full(diameter=1.0, steps=2)
    places = [10.0 ** -(1 + i / 3) for i in (6, 0, 4)]
    claims = [
        *(claimed(at(f, d), m) for d in places for f in (0.3, 9.0)),
        *(claimed(statement_of(renyi={a: 0.5}), m) for a in (3.0, 2.0)),
        *(claimed(statement_of(tradeoff={a: 0.1}), m) for a in (0.3, 0.02)),
    ]
    claims = [replace(claim, search=Search(evaluations=0)) for claim in claims]
    some = [judge(claim) for claim in claims[::3]]
    for alone, judged in zip(some, judge_all(claims, jobs=2)[::3], strict=True):
        assert judged.verdict is alone.verdict
        # sums over arrays of other lengths are rounded in another order
        assert judged.certified == pytest.approx(alone.certified, rel=1e-12)
        assert judged.pair == alone.pair


def test_expectations():
    loose, false = (judge(claimed(TRUE["epsilon"](f), pair=TWO_SIDED)) for f in (1.2, 0.5))
    for judged, expected, right in (
        (loose, LooseBy(1.21), True),
        (loose, LooseBy(1.19), False),
        (loose, Expected.REFUTED, False),
        (false, Expected.REFUTED, True),
    ):
        assert replace(judged, claim=replace(judged.claim, expected=expected)).as_expected is right


SKIPPING = one_pass(3, release=Release.RANDOM_SKIP)
NOWHERE = Asked(NumberSource.CALLABLE, "tests.no_such_module:f", deltas=(1e-5,))
AT = "the claimed epsilon at delta 1e-05 must be a number of at least 0, got "
TAU = "bsa24.theorem_4_1 has no option 'tau'; its options: none"
NOTHING, ERROR = Verdict.NOT_APPLICABLE, Verdict.ERROR
TEN = (1e-5,)


@pytest.mark.parametrize(
    ("verdict", "statement", "mechanism", "message"),
    [
        (NOTHING, bound("at22.theorem_3_1", orders=(2.0,)), None, "at22.theorem_3_1 is a rate wi"),
        (NOTHING, bound("bsa24.theorem_4_3", deltas=TEN), None, "bsa24.theorem_4_3 needs a bound"),
        (NOTHING, bound("fmtt18.corollary_31", deltas=TEN), SKIPPING, "nothing is claimed at de"),
        (ERROR, bound("bsa24.theorem_4_1", deltas=TEN, options={"tau": 3}), None, TAU),
        (
            ERROR,
            bound("fmtt18.theorem_1", orders=(2.0,), options={"distance": 3}),
            one_pass(3),
            "pair must be given for a bound with the option 'distance'",
        ),
        (
            ERROR,
            NOWHERE,
            None,
            "callable must name a module that is installed, beside the file or in the current "
            "folder, got 'tests.no_such_module'",
        ),
        # a pair has more than a negative epsilon, which refutes nobody's claim
        (ERROR, number(EpsilonAtDelta(1e-5), -1.0), None, AT + "-1.0"),
        (ERROR, number(EpsilonAtDelta(1e-5), math.nan), None, AT + "nan"),
        (ERROR, number(EpsilonAtDelta(2.0), 1.0), None, "delta must be in [0, 1), got 2.0"),
        (ERROR, number(RenyiAtOrder(1.0), 2.0), None, "order must be a finite number above 1"),
    ],
)
def test_what_claims_nothing_or_cannot_be_judged_says_why(verdict, statement, mechanism, message):
    judged = judge(claimed(statement, mechanism))
    assert judged.verdict is verdict
    assert judged.message.startswith(message)
    assert "\n" not in judged.message


def test_infinite_numbers_claim_nothing_and_leave_the_others():
    numbers = tuple(ClaimedNumber(EpsilonAtDelta(at), v) for at, v in ((0.0, math.inf), (0.1, 1.0)))
    assert claimed_numbers(claimed(Numbers(numbers)), Workers()) == numbers[1:]
    assert [number_of(sign * 10**400, "epsilon") for sign in (1, -1)] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("pair", "mechanism", "message"),
    [
        (Repeated(one_pass(1), 4), one_pass(1), "Repeated needs a bound on at least 4 tasks, got"),
        (
            TwoSidedWalk(full(noise_std=1.0)),
            full(),
            "pair must be of the claim's mechanism, got TwoSidedWalk of another",
        ),
        (
            HolderPair(HOLDER, scale=1.0, form=HolderForm.SIGNED),
            HOLDER,
            "pair must have piecewise linear updates, which a witness can describe, got HolderPair",
        ),
    ],
)
def test_bad_pairs_are_errors(pair, mechanism, message):
    judged = judge(Claim(id="a", mechanism=mechanism, statement=at(1.0), pair=pair))
    assert judged.verdict is Verdict.ERROR
    assert message in judged.message


def test_a_claim_on_numbers_needs_no_mechanism():
    pair = Finite((0.6, 0.4), (0.4, 0.6))
    statement = at(0.1, 0.01)
    judged = judge(Claim(id="a", mechanism=None, statement=statement, pair=pair))
    assert judged.verdict is Verdict.REFUTED
    # delta(e) = .6 - .4 e^e
    assert judged.certified == pytest.approx(math.log(0.59 / 0.4), abs=1e-8)
    without = judge(Claim(id="a", mechanism=None, statement=statement))
    assert without.message == "mechanism or pair must be given, got neither"


def test_a_bound_for_one_record_is_not_judged_by_another():
    """Record 1 of 4 is hidden by three steps; record 4 would refute what is true of record 1."""
    m = one_pass(4, diameter=16.0)
    true = bound("fmtt18.theorem_23", orders=(2.0,), options={"index": 1})
    assert verdict_of(true, m) is Verdict.CONSISTENT
    last = {"kind": "WallPinnedWalk", "before": 1.0, "start": 8.0, "position": 3}
    refused = judge(claimed(true, m, pair=last))
    assert refused.verdict is Verdict.ERROR
    assert "pair must differ in a record that the bound is about" in refused.message
    # the number itself is false of the mechanism
    value = bounds.evaluate("fmtt18.theorem_23", m, index=1).renyi(2.0)
    assert verdict_of(statement_of(renyi={2.0: value}), m, pair=last) is Verdict.REFUTED


def test_options_of_bounds_place_the_record():
    m = full(steps=6, dataset_size=6, batch_size=2, step_size=1.0, noise_std=1.0, diameter=9.0,
             batching=Batching.CYCLIC)  # fmt: skip
    for id, options in (
        ("survey.section_vi_a_corrected", {"batch": 1}),
        ("cl25.theorem_a_1", {"position": 0}),
        ("at22.eq_5_4", {"index": 2}),
    ):
        statement = bound(id, orders=(2.0,), options=options)
        assert verdict_of(statement, m, pair={"kind": "ResetWalk"}) is Verdict.CONSISTENT, id


def test_a_public_record_differs_in_no_pair():
    public = one_pass(4, noise_std=20.0, release=Release.RANDOM_SKIP)
    statement = bound("fmtt18.corollary_31_corrected", deltas=(1e-3,), options={"public": 2})
    places = {"consistent": ({}, {"position": 1}), "error": ({"position": 2},)}
    for verdict, position in ((v, place) for v, some in places.items() for place in some):
        assert verdict_of(statement, public, pair=TWO_SIDED | position).value == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(0.99, "consistent"), (1.01, "refuted")])
def test_claims_that_a_mechanism_is_not_private(factor, verdict):
    for statement in (
        statement_of(not_private={"epsilon": factor * GAUSSIAN.epsilon(1e-5), "delta": 1e-5}),
        statement_of(not_renyi={"order": 3.0, "value": factor * GAUSSIAN.renyi(3.0)}),
    ):
        judged = judge(claimed(statement, pair=TWO_SIDED))
        assert judged.verdict.value == verdict
        assert judged.witness is None


def test_between_what_pairs_reach_and_what_is_proven_nothing_can_be_said():
    walled = full(diameter=0.2, smoothness=None)  # quick theorems
    reached = exact.curve(TwoSidedWalk(walled)).epsilon_bracket(1e-5)[1]
    statement = statement_of(not_private={"epsilon": 1.001 * reached, "delta": 1e-5})
    gap = judge(claimed(statement, walled, pair=TWO_SIDED))
    assert gap.verdict is Verdict.INCONCLUSIVE
    assert gap.message.startswith("the pair tried does not exceed it")


LAPLACE = Laplace(sensitivity=1.0, scale=2.0), 0.5
# log 2 forward, log 1.5 in reverse: the order with the larger number counts
BIASED = Finite((0.5, 0.5), (0.25, 0.75)), math.log(2.0)


@pytest.mark.parametrize("laws", [LAPLACE, BIASED], ids=["Laplace", "biased"])
@pytest.mark.parametrize(
    ("factor", "slack", "verdict"),
    [
        (0.999, 0.0, "consistent"),
        (1.001, 0.0, "refuted"),
        (1.0, 0.0, "inconclusive"),
        # a number that may be smaller by its own error is not known to be beyond the laws
        (1.1, 0.1, "inconclusive"),
    ],
)
def test_explicit_laws_are_all_that_a_claim_about_them_is_about(laws, factor, slack, verdict):
    pair, epsilon = laws
    number = ClaimedNumber(EpsilonAtDelta(0.0), factor * epsilon, slack)
    statement = Numbers((number,), exceeded=True)
    judged = judge(Claim(id="laws", mechanism=None, statement=statement, pair=pair))
    assert judged.verdict.value == verdict
    assert judged.witness is None
    if verdict == "refuted":
        assert judged.message.startswith("the laws have epsilon at most ")


def test_samples_decide_where_there_is_no_time():
    m = full(diameter=2.0, noise_std=0.3)
    statement = bound("bsa24.theorem_4_1", deltas=(0.1,))
    true = judge(claimed(statement, m, pair=TWO_SIDED)).certified
    for factor, verdict in ((0.6, Verdict.REFUTED), (1.0001, Verdict.CONSISTENT)):
        statement = at(factor * true, 0.1)
        judged = judge(claimed(statement, m, pair=TWO_SIDED, budget=FEW), error=0.02)
        assert judged.verdict is verdict
        assert judged.evidence is Evidence.SAMPLED
        assert judged.error == 0.02
        assert judged.certified <= true
        assert (judged.witness is not None) == (verdict is Verdict.REFUTED)


@pytest.mark.parametrize(
    ("statement", "verb"),
    [(at(6.0), "refute"), (statement_of(not_private={"epsilon": 6.0, "delta": 1e-5}), "exceed")],
)
def test_samples_that_could_not_refute_are_inconclusive(statement, verb):
    few = Budget(trials=20, seconds=1e-9, seed=3)
    m = full(diameter=2.0, smoothness=None)  # quick theorems
    judged = judge(claimed(statement, m, pair=TWO_SIDED, budget=few))
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.evidence is Evidence.SAMPLED
    reason, _, tried = judged.message.partition("; ")
    assert reason.startswith("this many scores certify at most")
    assert tried.startswith(f"the pair tried does not {verb} it: certified epsilon")


def test_without_time_and_samples_nothing_is_said():
    budget = Budget(seconds=1e-9)
    hurried = judge(claimed(at(1.0, 0.1), full(diameter=2.0), pair=TWO_SIDED, budget=budget))
    assert hurried.verdict is Verdict.INCONCLUSIVE
    assert re.fullmatch(
        r"the exact law of TwoSidedWalk would take about \S+ s, more than the budget's 1e-09 s, "
        "and the budget has no trials",
        hurried.message,
    )


def test_the_error_of_refuted_claims_goes_to_the_others():
    m = full(diameter=2.0)

    def sampled(epsilon):
        return claimed(at(epsilon, 0.1), m, pair=TWO_SIDED, budget=FEW)

    # with the same plan a larger error certifies more
    equal = judge(sampled(9.0), error=0.02).certified
    larger = _judge(sampled(9.0), ErrorShare(0.03, 0.02), Shared()).certified
    assert larger > equal
    between, false, true = map(sampled, ((equal + larger) / 2, 0.01, 9.0))
    assert judge(between, error=0.02).verdict is Verdict.CONSISTENT
    seen = []
    judged = judge_all([between, false, true], error=0.06, progress=lambda *done: seen.append(done))
    assert [j.verdict for j in judged] == [Verdict.REFUTED, Verdict.REFUTED, judged[2].verdict]
    assert [j.error for j in judged] == [0.03, 0.02, 0.02]
    assert judged[0].certified == larger
    assert judged[2].certified == equal  # bounds of an equal split hold simultaneously
    assert seen == [(1, 3), (2, 3), (3, 3)]
    # without a false claim nothing is left over
    assert judge_all([between, true, true], error=0.06)[0].verdict is Verdict.CONSISTENT


def test_claims_that_share_the_most_come_together():
    first, second = full(diameter=1.0), full(diameter=2.0)
    epsilons = [claimed(at(1.0, 10.0**-i), first) for i in (5, 1, 4, 3, 2)]
    mus = [claimed(statement_of(mu=1.0), second), claimed(statement_of(mu=2.0), first)]
    claims = [mus[0], *epsilons, mus[1]]
    order = work_order(claims)
    assert sorted(order) == list(range(7))
    assert [claims[i] for i in order[1:6]] == [epsilons[i] for i in (0, 2, 3, 4, 1)]
    assert work_order([]) == []


def test_samples_of_a_users_pair_spend_their_share_of_the_error() -> None:
    claim = Claim(
        id="own",
        mechanism=full(diameter=1.0),
        statement=statement_of(epsilon=9.0, delta=1e-2),
        budget=Budget(trials=2000, seconds=1e-9),
    )
    plain = encode(replace(claim, location=None)), encode(ErrorShare(1e-4, 1e-4))
    found = judged_by_worker(TwoSidedWalk, "own:TwoSidedWalk", {}, *plain, False)
    assert (found["evidence"], found["error"]) == ("sampled", 1e-4)
