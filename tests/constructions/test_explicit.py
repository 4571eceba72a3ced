"""Explicit distributions: their laws and their refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from audit import Batching, Relation, Release
from audit.constructions import decode_any_pair, decode_pair
from audit.constructions.explicit import (
    Densities,
    ExponentialMechanism,
    Mixture,
    Mixtures,
    NormalVectors,
    Repeated,
    VectorMixture,
)
from audit.constructions.explicit_laws import DiscreteGaussian, DiscreteLaplace, RandomisedResponse
from audit.search.found_pairs import read_found
from tests.bounds.one_pass import one_pass
from tests.mechanisms import noisy_sgd


def normal(mean, std=1.0):
    return Mixture((1.0,), (mean,), (std,))


exponential = partial(
    noisy_sgd,
    dataset_size=5,
    batch_size=5,
    step_size=0.1,
    noise_std=2.0,
    release=Release.EXPONENTIAL_MECHANISM,
)


def test_repeated_runs_are_two_normal_laws():
    # 400 runs of one step, sensitivity 2: the sum has distance 800 and variance 400 * 30^2
    pair = Repeated(one_pass(1, noise_std=30.0), 400).distributions()
    assert pair == Mixtures(normal(400.0, 600.0), normal(-400.0, 600.0))
    with pytest.raises(ValueError, match="Repeated needs steps=1 and dataset_size=1, got steps=2"):
        Repeated(one_pass(2), 4)
    with pytest.raises(ValueError, match="times must be a whole number of at least 1, got 0"):
        Repeated(one_pass(1), 0)
    with pytest.raises(ValueError, match="Repeated needs the whole line, got diameter="):
        Repeated(replace(one_pass(1), diameter=0.5), 1)
    with pytest.raises(ValueError, match="Repeated needs a noisy step"):
        Repeated(replace(one_pass(1), release=Release.EXPONENTIAL_MECHANISM), 1)


@pytest.mark.parametrize(
    "law",
    [
        RandomisedResponse(epsilon=1.0),
        DiscreteLaplace(sensitivity=2, scale=1.5),
        DiscreteGaussian(sensitivity=1, noise_std=1.5),
    ],
)
def test_a_record_that_seldom_takes_part_is_seldom_seen(law):
    whole, sampled = (replace(law, sampling_rate=q).distributions() for q in (1.0, 0.2))
    mixed = [0.2 * p + 0.8 * q for p, q in zip(whole.first, whole.second, strict=True)]
    assert sampled.first == pytest.approx(mixed)
    assert sampled.second == whole.second


def fixed(*vector):
    return VectorMixture((1.0,), (vector,))


def test_normal_vectors_have_a_law_on_the_line_of_their_means():
    strategy = ((1.0, 0.0), (0.5, 1.0))
    # C (1, 0) = (1, .5), and four draws have twice the distance
    pair = NormalVectors(strategy, 2.0, fixed(1, 0), fixed(0, 0), times=4).distributions()
    (far,), (near,) = pair.first.means, pair.second.means
    assert (abs(far - near), pair.first.stds, pair.times) == (
        pytest.approx(2 * math.hypot(1, 0.5)),
        (2.0,),
        1,
    )
    # a mixture keeps its draws: the values are 1, 2 and 0 times C (1, 0) away
    sampled = VectorMixture((0.3, 0.7), ((1, 0), (2, 0)))
    pair = NormalVectors(strategy, 1.0, sampled, fixed(0, 0), times=4).distributions()
    places = [abs(mean - pair.second.means[0]) for mean in pair.first.means]
    assert places == pytest.approx([math.hypot(1, 0.5), 2 * math.hypot(1, 0.5)])
    assert (pair.first.weights, pair.times) == ((0.3, 0.7), 4)
    # two equal laws
    pair = NormalVectors(strategy, 1.0, fixed(1, 2), fixed(1, 2)).distributions()
    assert pair.first == pair.second


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"first": VectorMixture((0.5, 0.5), ((1, 0), (0, 1)))}, "vectors must differ along one l"),
        # one vector is off a long line by what the noise does not hide
        (
            {
                "first": VectorMixture((0.5, 0.5), ((0, 1e-5), (1e9, 0))),
                "second": VectorMixture((0.5, 0.5), ((0, 0), (1e9, 0))),
            },
            "values of C g that are 1e-05 off it",
        ),
        ({"first": fixed(1)}, "vectors of first must have one entry for each of the 2 columns"),
        ({"strategy": ((1, 0), (1,))}, "strategy must be of one length, got 2, 1"),
        ({"strategy": 3}, "strategy must be a list of lists of numbers, got 3"),
        ({"strategy": ((1, -0.99999),), "first": fixed(1, 1)}, "strategy must not cancel in C g"),
        ({"noise_std": 0.0}, "noise_std must be a positive finite number, got 0.0"),
        ({"times": 0}, "times must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_normal_vectors_say_what_is_wrong(changed, message):
    whole = {
        "strategy": ((1, 0), (0, 1)),
        "noise_std": 1.0,
        "first": fixed(1, 0),
        "second": fixed(0, 0),
    }
    with pytest.raises(ValueError, match=message):
        NormalVectors(**{**whole, **changed}).distributions()
    with pytest.raises(ValueError, match="vectors must be one for each of the 1 weights, got 2"):
        VectorMixture((1.0,), ((1,), (2,)))


def test_exponential_mechanisms():
    # exp(-2 F/(eta sigma^2)): temperature .2, potentials differ by (2L/n) x = .4 x
    flat = ExponentialMechanism(exponential()).distributions()
    assert flat == Densities(1.0, -0.5, 0.5)
    strong = ExponentialMechanism(exponential(diameter=None, strong_convexity=0.5)).distributions()
    assert strong == Mixtures(normal(0.4, math.sqrt(0.4)), normal(-0.4, math.sqrt(0.4)))
    zero = ExponentialMechanism(exponential(relation=Relation.ZERO_OUT)).distributions()
    assert zero == Densities(0.5, -0.5, 0.5)
    for changes, message in (
        (
            {"release": Release.LAST_ITERATE},
            "needs release='exponential mechanism', got release='last iterate'",
        ),
        # the others would be farther from the record than a sensitivity of its own allows
        (
            {"relation": Relation.ZERO_OUT, "gradient_sensitivity": 1.0},
            "needs no gradient_sensitivity for relation='zero out', got gradient_sensitivity=1.0",
        ),
        ({"strong_convexity": 0.5}, "needs a bounded domain without strong convexity"),
        ({"diameter": None}, "needs a bounded domain without strong convexity"),
        ({"batching": Batching.CYCLIC}, "needs batching='full', got batching='cyclic'"),
        (
            {"relation": Relation.ZERO_OUT, "dataset_size": 1, "batch_size": 1},
            "needs other records for relation='zero out'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            ExponentialMechanism(exponential(**changes))


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"kind": "Finite", "first": [0.5, 0.4], "second": [0.5, 0.5]},
            "first must sum to 1, got 0.9",
        ),
        (
            {"kind": "Finite", "first": [0.5, 0.5], "second": [1.0]},
            "second must be one for each of the 2 outcomes, got 1",
        ),
        ({"kind": "Finite", "first": "ab", "second": [1.0]}, "pair.first must be a list, got 'ab'"),
        ({"kind": "Finite", "first": [], "second": [1.0]}, "first must be a list of numbers, got"),
        (
            {"kind": "Finite", "first": [1.0], "second": [1.0], "times": 0},
            "times must be a whole number of at least 1, got 0",
        ),
        (
            {"kind": "Mixtures", "first": {}, "second": {}},
            "pair.first.weights, means, stds must be given for a Mixture, got nothing",
        ),
        (
            {"kind": "Mixtures", "first": {"weights": [1], "means": [0], "stds": [1]}},
            "pair.second must be given for a Mixtures, got nothing",
        ),
        (
            {"kind": "Densities", "slope": 1, "low": 1, "high": 0},
            r"low must be below high \(0\), got 1",
        ),
        ({"kind": "Repeated", "times": 4}, "mechanism must be given for a Repeated, got nothing"),
        ("TwoSidedWalk", "mechanism must be given for a TwoSidedWalk, got nothing"),
    ],
)
def test_bad_numbers_are_refused(plain, message):
    with pytest.raises(ValueError, match=message):
        decode_any_pair(plain, None)


def test_mixtures_refuse_uneven_lists_and_no_spread():
    with pytest.raises(ValueError, match="must be one for each normal, got 1, 2 and 1"):
        Mixture((1.0,), (0.0, 1.0), (1.0,))
    with pytest.raises(ValueError, match="stds_0 must be a positive finite number, got 0"):
        Mixture((1.0,), (0.0,), (0.0,))


def test_a_found_pair_can_be_named_by_a_claim():
    folder = Path(__file__).parents[2] / "scenarios" / "found"
    for file in sorted(folder.glob("*.yaml")):
        plain = yaml.safe_load(file.read_text(encoding="utf-8"))["pair"]
        pair = read_found(file).construction
        assert decode_pair(plain, pair.mechanism) == pair
