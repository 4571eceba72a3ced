"""Mechanisms read from plain data, and written."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.mechanism import (
    Batching,
    Divisor,
    NoisySGD,
    Relation,
    Release,
    decode_mechanism,
    encode_mechanism,
)

PLAIN: dict[str, Any] = {
    "steps": 4,
    "dataset_size": 4,
    "batch_size": 4,
    "step_size": 0.5,
    "noise_std": 1.0,
    "lipschitz": 1.0,
}
positive = st.floats(1e-3, 1e3)


@st.composite
def mechanisms(draw: st.DrawFn) -> NoisySGD:
    steps = draw(st.integers(1, 5))
    batching = draw(st.sampled_from(Batching))
    batch = draw(st.integers(1, 5))
    allocated = batching is Batching.RANDOM_ALLOCATION
    cut = batching is Batching.TRUNCATED_POISSON
    records = batch if batching is Batching.FULL else batch * draw(st.integers(1, 4))
    varying = st.lists(positive, min_size=steps, max_size=steps).map(tuple)
    return NoisySGD(
        steps=steps,
        dataset_size=records,
        batch_size=batch,
        step_size=draw(positive | varying),
        noise_std=draw(positive),
        lipschitz=draw(positive),
        smoothness=draw(st.none() | positive),
        diameter=draw(st.none() | positive),
        batching=batching,
        relation=draw(st.sampled_from(Relation)),
        release=draw(st.sampled_from(Release)),
        holder=draw(st.none() | st.tuples(positive, st.floats(0, 1))),
        clip_norm=draw(st.none() | positive),
        divisor=draw(st.sampled_from(Divisor)),
        max_batch_size=draw(st.integers(1, 9)) if cut else None,
        participations=draw(st.integers(1, 3)) if allocated else 1,
    )


@settings(max_examples=40)
@given(mechanisms(), st.booleans())
def test_round_trip_through_json_text(mechanism: NoisySGD, defaults: bool) -> None:
    plain = encode_mechanism(mechanism, defaults=defaults)
    assert decode_mechanism(json.loads(json.dumps(plain, allow_nan=False))) == mechanism


def test_fields_at_their_default_may_be_left_out() -> None:
    mechanism = decode_mechanism(PLAIN)
    assert encode_mechanism(mechanism, defaults=False) == PLAIN
    full = encode_mechanism(mechanism)
    assert list(full) == [field.name for field in dataclasses.fields(NoisySGD)]
    assert full["batching"] == "full"
    assert full["relation"] == "replace one"


@pytest.mark.parametrize(
    "written", ["without replacement", "without_replacement", "WITHOUT_REPLACEMENT"]
)
def test_choices_in_any_spelling(written: str) -> None:
    assert decode_mechanism({**PLAIN, "batching": written}).batching.value == "without replacement"


def test_a_schedule_by_its_power() -> None:
    made = decode_mechanism({**PLAIN, "step_size": {"first": 0.5, "power": -0.5}})
    assert made.step_size == pytest.approx((0.5, 0.5 / 2**0.5, 0.5 / 3**0.5, 0.25))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"step_size": {"first": 0.5, "exponent": -0.5}},
            r"^m.step_size must be a number, a list or \{first, power\}, "
            r"got the keys first, exponent$",
        ),
        (
            {"step_size": {"first": -0.5, "power": -0.5}},
            r"^m.step_size.first must be a positive finite number, got -0.5$",
        ),
        (
            {"step_size": {"first": 0.5, "power": "x"}},
            r"^m.step_size.power must be a finite number, got 'x'$",
        ),
        ({"step_size": [0.5, "x", 0.5, 0.5]}, r"^m.step_size\[1\] must be a number, got 'x'$"),
        ({"step_size": [0.5]}, r"^m.step_size must have one number a step \(4\), got 1 numbers$"),
        ({"batching": "bath"}, r"^m.batching must be one of full, .*, got 'bath'"),
        ({"convex": "yes"}, r"^m.convex must be true or false, got 'yes'$"),
        ({"holder": [1.0]}, r"^m.holder must be a list of 2, got \[1.0\]$"),
        ({"noise": 1.0}, r"^m.noise must be left out of a NoisySGD, got 1.0; did you mean 'noise"),
        ({"steps": 1.5}, r"^m.steps must be a whole number, got 1.5$"),
    ],
)
def test_slips(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_mechanism({**PLAIN, **changes}, "m")


def test_a_schedule_needs_steps() -> None:
    plain = {**PLAIN, "step_size": {"first": 0.5, "power": -0.5}}
    del plain["steps"]
    with pytest.raises(ValueError, match=r"^steps must be given for a NoisySGD, got nothing$"):
        decode_mechanism(plain)
