"""The registry of constructions, and pairs as plain data."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import audit
from audit import constructions
from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    GradientPair,
    HolderForm,
    HolderPair,
    Inadmissible,
    PiecewiseLinear,
    Process,
    ResetWalk,
    all_kinds,
    construction,
    decode_any_pair,
    decode_pair,
    encode_pair,
    explicit,
    kinds,
)
from tests.bounds.grid import random_members
from tests.constructions.test_gradients import HOLDER
from tests.constructions.test_lattice import mechanism as lattice_mechanism
from tests.mechanisms import noisy_sgd

M = noisy_sgd(
    steps=4,
    dataset_size=4,
    step_size=0.5,
    smoothness=2.0,
    diameter=4.0,
    batching=audit.Batching.CYCLIC,
)
CLIPPED = lattice_mechanism(relation=audit.Relation.REPLACE_ONE)
CHANGING = dataclasses.replace(M, losses=audit.Losses.CHANGING)
LINE = PiecewiseLinear((-1.0, 1.0), (-1.0, 1.0), (0.0, 0.0))

PAIRS = [  # with fields that random members leave at their defaults
    ResetWalk(M, curvature=2.0, cap=0.5, centre=1.0),
    GradientPair(M, others_after=LINE),
    GradientPair(M, others_by_batch=((1, LINE), (3, PiecewiseLinear.constant(0.5)))),
    constructions.LatticeWalk(CLIPPED, spacing=9.0, down=2),
]


def test_every_construction_of_the_package_is_registered() -> None:
    def derived(base: type[Construction]) -> set[type[Construction]]:
        found = set(base.__subclasses__())
        return found.union(*map(derived, found))

    # bases that share code among pairs are private, or no dataclasses of their own
    pairs = {cls for cls in derived(Construction) if "__dataclass_params__" in vars(cls)}
    package = {cls for cls in pairs if "audit.co" in cls.__module__ and cls.__name__[0] != "_"}
    assert package == {cls for cls in kinds().values() if "audit.co" in cls.__module__}


def test_members_make_the_round_trip() -> None:
    random, seen = np.random.default_rng(4), set()
    for m in (M, HOLDER, CLIPPED, CHANGING):
        for pair in random_members(m, random):
            assert decode_pair(json.loads(json.dumps(encode_pair(pair))), m) == pair
            seen.add(type(pair))
    assert seen == set(kinds().values())


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_round_trip_through_json_text(pair: Construction) -> None:
    plain = json.loads(json.dumps(encode_pair(pair), allow_nan=False))
    assert plain["kind"] == pair.name
    assert "mechanism" not in plain
    assert decode_pair(plain, pair.mechanism) == pair


def test_fields_at_their_default_are_left_out() -> None:
    assert encode_pair(DriftedWalk(M, drift=0.0)) == {"kind": "DriftedWalk", "drift": 0.0}
    assert encode_pair(BiasedWalk(M)) == {"kind": "BiasedWalk"}
    assert decode_pair("BiasedWalk", M) == BiasedWalk(M)


def test_short_spellings() -> None:
    plain = {"kind": "GradientPair", "record": 1, "record_prime": -1.0}
    pair = decode_pair(plain, M)
    assert pair == GradientPair(
        M, record=PiecewiseLinear.constant(1.0), record_prime=PiecewiseLinear.constant(-1.0)
    )
    for form in ("SIGNED", "signed", "Signed"):
        read = decode_pair({"kind": "HolderPair", "scale": 1, "form": form}, HOLDER)
        assert read == HolderPair(HOLDER, scale=1.0, form=HolderForm.SIGNED)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("Walk", {}, "pair.kind must be one of BiasedWalk, Changing"),
        ("TwoSideWalk", {}, "got 'TwoSideWalk'; did you mean 'TwoSidedWalk'?"),
        ("AuxiliaryWalk", {}, "pair.kind must be one of BiasedWalk, Changing"),
        (None, {}, "pair.kind must be one of BiasedWalk, Changing"),
        ("TwoSidedWalk", {"drift": 0.1}, "pair.drift must be left out of a TwoSidedWalk, got 0.1"),
        (
            "TwoSidedWalk",
            {"mechanism": {}},
            "pair.mechanism must be left out of a TwoSidedWalk, got {}",
        ),
        ("DriftedWalk", {}, "pair.drift must be given for a DriftedWalk, got nothing"),
        ("ResetWalk", {"curvature": 1.0}, "pair.cap must be given for a ResetWalk, got nothing"),
        ("WallPinnedWalk", {"before": 1.0}, "pair.after must be given for a WallPinnedWalk"),
        ("HolderPair", {"scale": 1.0}, "pair.form must be given for a HolderPair, got nothing"),
        ("ResetWalk", {"curvature": 3.0, "cap": 1.0}, "pair: ResetWalk needs curvature in"),
        (
            "GradientPair",
            {"record": {"point": [0]}},
            "pair.record.point must be left out of a PiecewiseLinear, got [0]; "
            "did you mean 'points'?",
        ),
        (
            "GradientPair",
            {"record": "up"},
            "pair.record must be a mapping with the fields of a PiecewiseLinear, got 'up'",
        ),
        (
            "GradientPair",
            {"record": {"points": [1, 0], "values": [0, 1], "slopes": [0, 0]}},
            "pair.record.points must ascend, got (1.0, 0.0)",
        ),
        (
            "HolderPair",
            {"scale": 1.0, "form": "ROUND"},
            "pair.form must be one of absolute, signed, got 'ROUND'",
        ),
        ("BiasedWalk", {"start": "0"}, "pair.start must be a number, got '0'"),
        ("BiasedWalk", {"start": 9}, "pair.start must be in the domain [-2, 2], got 9.0"),
    ],
)
def test_slips_are_one_line(kind: str | None, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        decode_pair({"kind": kind, **parameters}, M)
    assert "\n" not in str(caught.value)


EXPLICIT: list[explicit.ExplicitPair] = [
    explicit.Finite((0.5, 0.5), (0.25, 0.75), times=3),
    explicit.Densities(1.0, 0.0, 2.0),
    explicit.Mixtures(explicit.Mixture((1.0,), (0.0,), (1.0,)), explicit.Mixture((1,), (1,), (1,))),
]


@pytest.mark.parametrize("pair", EXPLICIT, ids=lambda pair: pair.name)
def test_explicit_pairs_need_no_mechanism(pair: explicit.ExplicitPair) -> None:
    plain = json.loads(json.dumps(encode_pair(pair), allow_nan=False))
    assert decode_any_pair(plain, None) == pair
    assert decode_any_pair(plain, M) == pair
    with pytest.raises(ValueError, match=r"^pair.kind must be one of BiasedWalk, .*, got 'F|D|M"):
        decode_pair(plain, M)


def test_explicit_pairs_of_a_mechanism() -> None:
    one = dataclasses.replace(
        M, steps=1, dataset_size=1, batching=audit.Batching.FULL, diameter=None
    )
    pair = decode_any_pair({"kind": "Repeated", "times": 2}, one)
    assert pair == explicit.Repeated(one, 2)
    assert encode_pair(pair) == {"kind": "Repeated", "times": 2}
    drawn = dataclasses.replace(one, release=audit.Release.EXPONENTIAL_MECHANISM, diameter=1.0)
    assert encode_pair(explicit.ExponentialMechanism(drawn)) == {"kind": "ExponentialMechanism"}
    assert decode_any_pair("BiasedWalk", M) == BiasedWalk(M)
    with pytest.raises(ValueError, match=r"^mechanism must be given for a Repeated, got nothing$"):
        decode_any_pair({"kind": "Repeated", "times": 2}, None)
    with pytest.raises(ValueError, match=r"^pair.kind must be one of .*Densities, .*, got 'Finit'"):
        decode_any_pair("Finit", None)
    assert " ".join(kind for kind in all_kinds() if kind not in kinds()) == (
        "AllIterates Densities DiscreteGaussian DiscreteLaplace ExponentialMechanism Finite "
        "Gaussian Laplace LaplaceMixtures Mixtures NormalVectors RandomisedResponse Repeated"
    )


def test_no_mapping() -> None:
    with pytest.raises(ValueError, match=r"^pair must be a mapping with a kind, got 3$"):
        decode_pair(3, M)
    with pytest.raises(ValueError, match=r"^other_pairs\[1\].start must be a number, got 'x'$"):
        decode_pair({"kind": "BiasedWalk", "start": "x"}, M, "other_pairs[1]")


def test_without_a_name_the_class_of_the_error_stays() -> None:
    with pytest.raises(Inadmissible, match=r"^ResetWalk needs curvature in"):
        decode_pair({"kind": "ResetWalk", "curvature": 3.0, "cap": 1.0}, M, name="")


def test_what_cannot_be_registered() -> None:
    class Plain(Construction):
        citation: ClassVar[str] = "a test"

        def processes(self) -> tuple[Process, Process]:
            raise NotImplementedError

    class Apart(BiasedWalk):
        is_neighbouring: ClassVar[bool] = False

    with pytest.raises(ValueError, match=r"^construction must be a pair of neighbouring datasets"):
        construction(Apart)
    other = dataclass(frozen=True)(type("BiasedWalk", (Plain,), {"__module__": __name__}))
    with pytest.raises(ValueError, match=r"^construction must have a unique name, got 'Biased"):
        construction(other)
    with pytest.raises(ValueError, match=r"^construction must be a dataclass derived from"):
        construction(int)  # type: ignore[type-var]
