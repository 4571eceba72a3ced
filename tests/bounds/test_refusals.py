"""Every assumption of the catalogue holds for some mechanism, and refuses another in words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from audit import Batching, Divisor, NoisySGD, Relation, Release, bounds
from audit.bounds import Assumption
from tests.mechanisms import noisy_sgd

ASSUMPTIONS = {one.name: one for entry in bounds.CATALOGUE.values() for one in entry.assumptions}

FULL = noisy_sgd(steps=4, dataset_size=4)
STRONG = replace(FULL, strong_convexity=0.5)
OPEN = replace(FULL, diameter=None)
HOELDER = replace(FULL, smoothness=None, holder=(1.0, 0.5))
BALANCED = noisy_sgd(noise_std=12.0, strong_convexity=1.0)
DRAWN = noisy_sgd(steps=4, dataset_size=8, noise_std=12.0, batching=Batching.WITHOUT_REPLACEMENT)
PASS = noisy_sgd(steps=4, dataset_size=4, batching=Batching.CYCLIC)
SHUFFLED = replace(PASS, batching=Batching.SHUFFLED)
RESHUFFLED = replace(PASS, batching=Batching.RESHUFFLED)
POISSON = replace(PASS, batching=Batching.POISSON, relation=Relation.ZERO_OUT, smoothness=0.25)
ACTUAL = replace(POISSON, divisor=Divisor.ACTUAL)
ALLOCATED = replace(POISSON, batching=Batching.RANDOM_ALLOCATION)
TRUNCATED = replace(
    POISSON, batching=Batching.TRUNCATED_POISSON, max_batch_size=2, relation=Relation.ADD_REMOVE
)
STOPPED = replace(PASS, release=Release.RANDOM_STOP)
SKIPPED = replace(PASS, release=Release.RANDOM_SKIP)
TARGET = Release.EXPONENTIAL_MECHANISM
EXPONENTIAL = replace(FULL, release=TARGET)
SCHEDULE = {"steps": 2, "step_size": (0.1, 0.2)}
REPLACED = replace(POISSON, relation=Relation.REPLACE_ONE)
ALONE = "gradients whose bound alone gives the sensitivity, for"
UNKNOWN = {"lipschitz": None, "gradient_sensitivity": 1.0}
FIELDS = {Batching: "batching", Relation: "relation", Release: "release", Divisor: "divisor"}

# how an assumption begins, a mechanism that meets it, what is changed, and what is found then
REFUSED: list[tuple[str, NoisySGD, Any, str]] = [
    # batches
    ("full batches", FULL, Batching.POISSON, "batching='poisson'"),
    ("full batches", FULL, {"batching": Batching.CYCLIC, "batch_size": 2}, "with batch_size=2 of"),
    ("batches of a fixed size", FULL, Batching.POISSON, "batching='poisson'"),
    ("fixed batches in a", PASS, Batching.SHUFFLED, "batching='shuffled' with batch_size=1 of"),
    ("batches that are fixed", PASS, Batching.RESHUFFLED, "batching='reshuffled'"),
    ("cyclic batches", PASS, Batching.SHUFFLED, "batching='shuffled'"),
    ("batches of records that are shuffled", SHUFFLED, Batching.CYCLIC, "batching='cyclic'"),
    ("batches of records that are re", RESHUFFLED, Batching.SHUFFLED, "batching='shuffled'"),
    ("batches sampled without replacement", DRAWN, Batching.POISSON, "batching='poisson'"),
    ("batches sampled without replacement,", DRAWN, Batching.CYCLIC, "and sampling_rate=0.125"),
    ("Poisson batches", POISSON, Batching.CYCLIC, "batching='cyclic'"),
    ("Poisson batches and", POISSON, Relation.REPLACE_ONE, "relation='replace one'"),
    ("full batches, or Poisson", POISSON, Relation.REPLACE_ONE, "and relation='replace one'"),
    ("full batches, or fixed", PASS, Relation.ADD_REMOVE, "'cyclic' and relation='add remove'"),
    ("shuffled batches with", SHUFFLED, Relation.ADD_REMOVE, "and relation='add remove'"),
    ("equally many records", DRAWN, Relation.ADD_REMOVE, "relation='add remove' and batching="),
    ("random allocation, and", ALLOCATED, Relation.REPLACE_ONE, "and relation='replace one'"),
    ("truncated Poisson batches,", TRUNCATED, Relation.ZERO_OUT, "and relation='zero out'"),
    ("division by the actual", ACTUAL, Divisor.NOMINAL, "divisor='nominal' and sampling_rate=0.25"),
    ("a sampling rate of at most 1/5", DRAWN, {"dataset_size": 4}, "sampling_rate=0.25"),
    ("b/n < 1/5 and", DRAWN, {"noise_std": 2.0}, "b/n=0.125 and b sigma/(2L)=1"),
    # steps
    ("one step", BALANCED, {"steps": 2}, "steps=2"),
    ("two steps or more", FULL, {"steps": 1}, "steps=1"),
    ("a whole number of", PASS, {"steps": 5}, "steps=5 with dataset_size=4 and batch_size=1"),
    ("n/b to be whole", PASS, {"steps": 3}, "steps=3, dataset_size=4 and batch_size=1"),
    ("one pass", PASS, {"steps": 5}, "steps=5, dataset_size=4 and batching='cyclic' with"),
    ("n passes", replace(PASS, steps=16), {"steps": 12}, "steps=12, dataset_size=4 and batch_size"),
    ("one allocation", ALLOCATED, {"steps": 8}, "participations=1, steps=8, 4 an epoch"),
    ("whole epochs", ALLOCATED, {"steps": 7}, "participations=1, steps=7, 4 an epoch"),
    ("one participation", ALLOCATED, {"steps": 7}, "participations=1, steps=7, 4 an epoch"),
    ("at most 4096 sequences", RESHUFFLED, {"steps": 28}, "^epochs=4^7"),
    ("steps >= D n/(eta L)", FULL, {"diameter": 3.0}, "steps=4 below 6"),
    ("steps >= D n/(eta L)", FULL, {"diameter": None}, "steps=4"),
    ("epochs >= D b/(eta L)", PASS, {"diameter": 3.0}, "epochs=1 below 1.5"),
    ("one step size", FULL, SCHEDULE, "step_size=a schedule from 0.1 to 0.2"),
    ("eta <= 2/M", FULL, {"smoothness": 2.1}, "step_size=1.0 and smoothness=2.1"),
    ("eta <= 2/M", FULL, {"smoothness": None}, "smoothness=None"),
    ("eta <= 2/M", FULL, {**SCHEDULE, "smoothness": 11.0}, "a schedule from 0.1 to 0.2 and smo"),
    ("eta < 2/M", FULL, {"smoothness": 2.0}, "step_size=1.0 and smoothness=2.0"),
    ("eta < 1/M", POISSON, {"smoothness": 1.0}, "step_size=1.0 and smoothness=1.0"),
    ("eta <= 2/(M + m)", BALANCED, {"smoothness": 1.5}, "smoothness=1.5 and strong_convexity=1"),
    ("eta < 2/(M + m)", STRONG, {"smoothness": 1.5}, "step_size=1.0 and smoothness=1.5"),
    ("eta <= 1/(M + m)", FULL, {"convex": False}, "smoothness=1.0 and convex=False"),
    ("eta = 2/(M + m)", BALANCED, {"smoothness": 1.5}, "step_size=1.0 and smoothness=1.5"),
    ("eta M n/b <= 2", POISSON, {"smoothness": 0.6}, "smoothness=0.6, dataset_size=4 and batch"),
    ("steps that contract", STRONG, {"smoothness": 2.0}, "c=1"),
    ("a noise multiplier", POISSON, {"noise_std": 0.05}, "noise_multiplier=0.05"),
    ("noise of at least 4", DRAWN, {"noise_std": 1.0}, "noise_std*batch_size/sensitivity=0.5"),
    ("sigma > 8 sqrt(2) L/b", DRAWN, {"noise_std": 1.0}, "noise_std=1.0 with lipschitz=1.0"),
    # losses and domains
    ("convex losses", FULL, {"convex": False}, "convex=False"),
    ("strongly convex losses", STRONG, {"strong_convexity": 0.0}, "strong_convexity=0.0"),
    ("smooth losses", FULL, {"smoothness": None}, "smoothness=None"),
    ("smooth losses, or", FULL, {"smoothness": None}, "smoothness=None and holder=None"),
    ("Hoelder", HOELDER, {"holder": (1.0, 0.0)}, "holder=(1.0, 0.0)"),
    ("Lipschitz losses", FULL, UNKNOWN, "lipschitz=None"),
    ("unclipped gradients", FULL, {"clip_norm": 0.5}, "clip_norm=0.5"),
    # the regulariser is clipped too: delta(2) of 200 steps was .289, and bsa24.theorem_4_2 .105
    ("unclipped gradients", FULL, {"clip_norm": 1.0, "strong_convexity": 0.5}, "clip_norm=1.0"),
    ("a bound on each", FULL, UNKNOWN, "lipschitz=None and clip_norm=None"),
    ("gradients bounded by L", FULL, UNKNOWN, "lipschitz=None and gradient_sensitivity=1.0"),
    ("a bound on the last", FULL, {**UNKNOWN, "smoothness": None}, "smoothness=None, holder=None"),
    ("a bound on how far", FULL, {**UNKNOWN, "smoothness": None}, "smoothness=None, holder=None"),
    (f"{ALONE} replace", REPLACED, UNKNOWN, "gradient_bound=None and gradient_sensitivity=1.0"),
    (f"{ALONE} Poisson", REPLACED, UNKNOWN, "gradient_bound=None and gradient_sensitivity=1.0"),
    ("a bounded domain", FULL, {"diameter": None}, "diameter=None"),
    ("a bounded domain, or", FULL, {"diameter": None}, "diameter=None and c=1"),
    ("iterates without a domain", OPEN, {"diameter": 1.0}, "diameter=1.0"),
    # releases
    ("the release of the last iterate", FULL, Release.RANDOM_STOP, "release='random stop'"),
    ("the release of the last iterate or of all", FULL, Release.RANDOM_STOP, "'random stop'"),
    ("the release of the last iterate or of the", FULL, Release.RANDOM_STOP, "'random stop'"),
    ("the release of some or all", FULL, Release.RANDOM_SKIP, "release='random skip'"),
    ("the release of an iterate", FULL, TARGET, "release='exponential mechanism'"),
    ("the release of the iterate", STOPPED, Release.RANDOM_SKIP, "release='random skip'"),
    ("a random number of first", SKIPPED, Release.RANDOM_STOP, "release='random stop'"),
    ("the release of the exp", EXPONENTIAL, Release.LAST_ITERATE, "release='last iterate'"),
]


def begun(start: str) -> Assumption:
    """Return the assumption of the shortest name that begins in this way."""
    found = [name for name in ASSUMPTIONS if name.startswith(start)]
    return ASSUMPTIONS[min(found, key=len)]


def test_every_assumption_is_refused_somewhere() -> None:
    assert {begun(start).name for start, *_ in REFUSED} == set(ASSUMPTIONS)


@pytest.mark.parametrize(("start", "met", "changes", "found"), REFUSED)
def test_what_an_assumption_refuses(start: str, met: NoisySGD, changes: Any, found: str) -> None:
    assumption = begun(start)
    assert assumption.failure(met) is None
    named = changes if isinstance(changes, dict) else {FIELDS[type(changes)]: changes}
    failure = assumption.failure(replace(met, **named))
    assert failure is not None
    assert failure.startswith(f"needs {assumption.name}, got ")
    assert found in failure


@pytest.mark.parametrize("id", bounds.CATALOGUE)
def test_an_entry_refuses_in_the_words_of_its_first_failure(id: str) -> None:
    entry = bounds.CATALOGUE[id]
    for m in (FULL, DRAWN, POISSON, EXPONENTIAL):
        for failure in entry.failures(m)[:1]:
            with pytest.raises(bounds.NotApplicable, match=f"^{re.escape(f'{id} {failure}')}$"):
                bounds.evaluate(id, m)
            assert id not in bounds.applicable(m)
