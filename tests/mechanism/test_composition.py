"""Compositions of runs: what they hold, refuse, and how they are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit import Composition, NoisySGD, Relation, Release, bounds, codec
from tests.mechanisms import dp_sgd

PART = dp_sgd(steps=10, batch_size=5, noise_std=0.2)
OTHER = replace(PART, steps=7, batch_size=20)


def test_what_all_parts_share():
    run = Composition((PART, OTHER))
    assert (run.steps, run.dataset_size) == (17, 100)
    assert (run.relation, run.release) == (Relation.ADD_REMOVE, Release.ALL_ITERATES)
    assert run == Composition([PART, OTHER])
    assert hash(run) == hash(Composition([PART, OTHER]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"release": Release.LAST_ITERATE},
            r"^parts\[1\].release must be 'all iterates', got 'last iterate'$",
        ),
        (
            {"relation": Relation.ZERO_OUT},
            r"^parts\[1\].relation must be that of the first part \('add remove'\), "
            "got 'zero out'$",
        ),
        (
            {"dataset_size": 200},
            r"^parts\[1\].dataset_size must be that of the first part \(100\), got 200$",
        ),
    ],
)
def test_parts_that_do_not_go_together(change, message):
    with pytest.raises(ValueError, match=message):
        Composition((PART, replace(OTHER, **change)))


def test_no_parts_and_parts_that_are_none():
    for parts in ((), None):
        with pytest.raises(ValueError, match=r"^parts must be at least one mechanism, got"):
            Composition(parts)
    with pytest.raises(ValueError, match=r"^parts\[1\] must be a NoisySGD, got 3$"):
        Composition((PART, 3))


def test_plain_data():
    run = Composition((PART, OTHER))
    plain = codec.encode(run)
    assert plain["kind"] == "composition"
    assert codec.decode(Composition, plain) == run
    assert codec.decode(NoisySGD | Composition | None, plain, "m") == run
    assert codec.decode(NoisySGD | Composition | None, codec.encode(PART), "m") == PART
    assert codec.decode(NoisySGD | Composition | None, run, "m") is run
    broken = {**plain, "parts": [{**plain["parts"][0], "steps": "x"}]}
    with pytest.raises(ValueError, match=r"^m.parts\[0\].steps must be a whole number, got 'x'$"):
        codec.decode(NoisySGD | Composition, broken, "m")


def test_bounds_of_one_run_refuse_it():
    run = Composition((PART, OTHER))
    with pytest.raises(ValueError, match=r"^mechanism must be a NoisySGD, got Composition"):
        bounds.evaluate("accounting.poisson", run)
