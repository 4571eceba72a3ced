"""The worst-case search as a source of pairs for the judge."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import audit
from audit import Batching, NoisySGD
from audit.claims import candidates
from audit.claims.candidates import KnownPairs
from audit.claims.claim import Claim, Expected, Search, statement_of
from audit.claims.evidence import Judgement, Verdict
from audit.curves.quantities import EpsilonAtDelta, Mu, Quantity, RenyiAtOrder
from audit.search import Epsilon, RenyiDivergence, worst_case
from tests.mechanisms import noisy_sgd
from tests.verifying import is_refuted

from .written import checked, judged

BASE = noisy_sgd(steps=4, dataset_size=8, batch_size=2, step_size=0.1, batching=Batching.CYCLIC)
DELTA = 1e-5
MECHANISMS = {
    "full": dataclasses.replace(BASE, batch_size=8, noise_std=0.3, batching=Batching.FULL),
    "cyclic": BASE,
    "shuffled": dataclasses.replace(BASE, batching=Batching.SHUFFLED),
    "without replacement": dataclasses.replace(
        BASE, batching=Batching.WITHOUT_REPLACEMENT, strong_convexity=0.3
    ),
    "poisson": dataclasses.replace(
        BASE, batching=Batching.POISSON, relation=audit.Relation.ZERO_OUT
    ),
}
FEW = Search(evaluations=6)


def searched(m: NoisySGD, epsilon: float, search: Search | None) -> Judgement:
    return judged(m, epsilon=epsilon, delta=DELTA, search=search)


DEAR = [pytest.param(name, marks=pytest.mark.slow) for name in ("without replacement", "poisson")]


@pytest.mark.parametrize("name", ["full", "cyclic", "shuffled", *DEAR])
def test_a_claim_just_below_what_the_search_certifies_is_refuted(name: str) -> None:
    m = MECHANISMS[name]
    found = worst_case(m, delta=DELTA, evaluations=FEW.evaluations, seed=0)
    low, high = found.bracket
    refuted = searched(m, 0.99 * low, FEW)
    assert refuted.verdict is Verdict.REFUTED
    assert refuted.witness is not None
    assert is_refuted(refuted.witness)
    above = searched(m, 1.001 * high, FEW)
    assert above.verdict is Verdict.CONSISTENT
    assert above.certified == pytest.approx(low, rel=1e-3)
    theorem = audit.bounds.best(m, delta=DELTA).epsilon
    assert above.certified is not None
    assert above.certified <= theorem


def test_it_finds_what_the_other_pairs_miss() -> None:
    m = MECHANISMS["without replacement"]
    claimed = 0.95 * worst_case(m, delta=DELTA, evaluations=45, seed=0).bracket[0]
    assert searched(m, claimed, Search(evaluations=0)).verdict is Verdict.CONSISTENT
    assert searched(m, claimed, None).verdict is Verdict.REFUTED  # the default search


def test_without_being_asked_it_searches_small_bounded_convex_mechanisms_only() -> None:
    def pair(m: NoisySGD, **fields: object) -> object:
        claim = Claim(id="x", mechanism=m, statement=statement_of(renyi={4.0: 1.0}), **fields)  # type: ignore[arg-type]
        return KnownPairs().of(m).searched(claim, RenyiAtOrder(4.0))

    m = MECHANISMS["full"]
    assert pair(m) is not None
    assert pair(m, pair=audit.constructions.TwoSidedWalk(m)) is None
    assert pair(m, search=Search(evaluations=0)) is None
    for other in (
        dataclasses.replace(m, diameter=None),
        dataclasses.replace(m, convex=False),
        dataclasses.replace(m, noise_std=1e-4, steps=5000),
        dataclasses.replace(m, release=audit.Release.ALL_ITERATES),
    ):
        assert pair(other) is None


def test_as_many_pairs_as_asked_or_fewer_where_they_take_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(candidates, "_found", lambda m, search, _: tried.append(search.evaluations))
    for seconds in (1e-3, 20.0):
        monkeypatch.setattr(candidates, "quick_seconds", lambda _, seconds=seconds: seconds)
        m = MECHANISMS["full"]
        asked = {"statement": statement_of(mu=1.0), "search": Search(evaluations=7)}
        KnownPairs().of(m).searched(Claim(id="x", mechanism=m, **asked), Mu())  # type: ignore[arg-type]
    assert tried == [7, 3]


@pytest.mark.parametrize(
    ("quantity", "objective"),
    [
        (EpsilonAtDelta(3e-6), Epsilon(1e-5)),
        (EpsilonAtDelta(0.3), Epsilon(0.1)),
        (EpsilonAtDelta(0.0), Epsilon(0.0)),
        (RenyiAtOrder(6.0), RenyiDivergence(8.0)),
        (Mu(), Epsilon(1e-3)),
    ],
)
def test_claims_share_searches_of_the_nearest_objective(
    quantity: Quantity, objective: object
) -> None:
    assert candidates._objective(quantity, shared=True) == objective


FILE = """
defaults: {search: {evaluations: 3}}
mechanisms:
  m: {steps: 3, dataset_size: 4, batch_size: 4, step_size: 0.1, noise_std: 1.0,
      lipschitz: 1.0, smoothness: 1.0, diameter: 1.0}
claims:
  - {id: default, mechanism: m, epsilon: 9, delta: 1e-5}
  - {id: own, mechanism: m, epsilon: 9, delta: 1e-5,
     search: {evaluations: 5, seed: 2, many_dimensions: true}}
"""


def test_in_claims_files(tmp_path: Path) -> None:
    judgements = checked(tmp_path, FILE).judgements
    asked = [j.claim.search for j in judgements]
    own = Search(evaluations=5, seed=2, many_dimensions=True)
    assert asked == [Search(evaluations=3), own]
    for_all = [j.claim.search for j in checked(tmp_path, FILE, search=4).judgements]
    assert for_all == [Search(evaluations=4), dataclasses.replace(own, evaluations=4)]
    assert all(j.claim.expected is Expected.CONSISTENT for j in judgements)
