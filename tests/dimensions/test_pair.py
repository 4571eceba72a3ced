"""Which pairs are admissible, and what a refusal says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import audit
from audit import Batching, Relation, Release
from audit.constructions import Inadmissible
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Dataset,
    Huber,
    Linear,
    Logistic,
    NoisySGDPair,
    Quadratic,
)

UNIT = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]])


def made(mechanism: dict[str, Any] | None = None, **changes: Any) -> NoisySGDPair:
    """Three records in the plane; the second one is turned round."""
    m = audit.NoisySGD(
        **{
            "steps": 5, "dataset_size": 3, "batch_size": 1, "step_size": 0.1, "noise_std": 1.0,
            "lipschitz": 1.0, "batching": Batching.CYCLIC, **(mechanism or {}),
        }
    )  # fmt: skip
    rows, turned = UNIT, [0.0, -1.0]
    if isinstance(getattr(changes.get("loss"), "unclipped", None), Logistic):
        rows, turned = Logistic.rows(UNIT, [1.0, -1.0, 1.0]), [0.0, 1.0, 1.0]  # another label
    dataset = changes.pop("dataset", Dataset(rows))
    other = dataset.replacing(1, turned)
    if m.relation is not Relation.REPLACE_ONE:
        other = dataset.zeroing(1)
    given = {"loss": Linear(), "dataset": dataset, "dataset_prime": other, **changes}
    return NoisySGDPair(mechanism=m, **given)


ADMITTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"relation": Relation.ZERO_OUT}, {}),
    ({"gradient_sensitivity": 2.0}, {}),
    ({"strong_convexity": 0.5, "smoothness": 0.5}, {"loss": Quadratic(0.5)}),
    ({"lipschitz": None, "gradient_sensitivity": 1.0}, {"loss": Quadratic(0.5)}),
    ({"convex": False, "smoothness": 0.5, "lipschitz": None, "gradient_sensitivity": 2.0},
     {"loss": Quadratic((-0.5, 0.2))}),
    ({"smoothness": 3.0}, {"loss": Huber(3.0, 1.0)}),
    ({"strong_convexity": 3.0, "smoothness": 3.0, "lipschitz": 6.0, "diameter": 1.0},
     {"loss": Huber(3.0, 5.0), "domain": Ball(1.0)}),
    ({"smoothness": 0.25}, {"loss": Logistic()}),
    ({"smoothness": 0.35, "strong_convexity": 0.1}, {"loss": Logistic(0.1)}),
    ({"lipschitz": 0.6225, "diameter": 1.0}, {"loss": Logistic(), "domain": Ball(1.0)}),
    ({"lipschitz": None, "clip_norm": 0.3}, {"loss": Clipped(Quadratic(2.0), 0.3)}),
    ({"clip_norm": 1.0}, {}),
    ({"lipschitz": None, "clip_norm": 0.3, "relation": Relation.ZERO_OUT},
     {"loss": Clipped(Quadratic(2.0), 0.3)}),
    ({"diameter": 2**0.5}, {"domain": Box(1.0), "start": [0.5, -0.5]}),
    ({"holder": (2.0, 0.5), "diameter": 4.0, "lipschitz": 3.0},
     {"loss": Quadratic(1.0), "domain": Ball(4.0)}),
    ({"release": Release.RANDOM_STOP}, {}),
    ({"release": Release.RANDOM_SKIP, "steps": 3}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "changes"), ADMITTED)
def test_admissible_pairs(mechanism: dict[str, Any], changes: dict[str, Any]) -> None:
    pair = made(mechanism, **changes)
    assert pair.dimension == 2
    assert pair.differing == 1
    assert pair.start.shape == (2,)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"lipschitz": 1.0}, {"loss": Quadratic(1.0)},
     "Quadratic needs gradients of norm at most lipschitz 1, got up to inf"),
    ({"lipschitz": 0.99}, {}, "Linear needs gradients of norm at most lipschitz 0.99, got up to 1"),
    ({"relation": Relation.ZERO_OUT},
     {"dataset": Dataset(1.5 * UNIT), "dataset_prime": Dataset(1.5 * UNIT).zeroing(0)},
     "Linear needs gradients of norm at most lipschitz 1, got up to 1.5"),
    ({"gradient_sensitivity": 1.9}, {},
     "Linear needs the differing record's gradients within the sensitivity 1.9, got up to 2"),
    ({"gradient_sensitivity": 0.9, "relation": Relation.ZERO_OUT}, {},
     "Linear needs the differing record's gradients within the sensitivity 0.9, got up to 1"),
    ({"gradient_sensitivity": 1.0, "relation": Relation.ZERO_OUT}, {},
     "Linear needs any two records' gradients within gradient_sensitivity 1, got up to 1.78885"),
    ({"strong_convexity": 0.1}, {},
     "Linear needs curvature in [0.1, inf], which convexity and smoothness allow, got "
     "curvature=0.0"),
    ({"smoothness": 0.4}, {"loss": Quadratic((0.3, 0.5))},
     "Quadratic needs curvature in [0, 0.4], which convexity and smoothness allow, got "
     "curvature=0.5"),
    ({}, {"loss": Quadratic(-0.5)},
     "Quadratic needs curvature in [0, inf], which convexity and smoothness allow, got "
     "curvature=-0.5"),
    ({"strong_convexity": 3.0, "lipschitz": 6.0, "diameter": 1.0, "relation": Relation.ZERO_OUT},
     {"loss": Huber(3.0, 5.0), "domain": Ball(1.0)},
     "Huber needs curvature in [3, inf], which convexity and smoothness allow, got "
     "curvature=0.0"),
    ({"smoothness": 0.3}, {"loss": Logistic(0.1)},
     "Logistic needs curvature in [0, 0.3], which convexity and smoothness allow, got "
     "curvature=0.35"),
    ({"lipschitz": 0.6224, "diameter": 1.0}, {"loss": Logistic(), "domain": Ball(1.0)},
     "Logistic needs gradients of norm at most lipschitz 0.6224, got up to 0.622459"),
    ({"clip_norm": 0.5}, {"loss": Clipped(Linear(), 0.3)},
     "Clipped Linear needs clip_norm=0.3, the norm it clips to, got clip_norm=0.5"),
    ({}, {"loss": Clipped(Linear(), 0.3)},
     "Clipped Linear needs clip_norm=0.3, the norm it clips to, got clip_norm=None"),
    ({"clip_norm": 0.5}, {},
     "Linear needs clip_norm=None, or gradients that are never clipped, because they are not, "
     "got clip_norm=0.5 and gradients of norm up to 1"),
    ({"clip_norm": 50.0}, {"loss": Quadratic(0.5)},
     "Quadratic needs clip_norm=None, or gradients that are never clipped, because they are "
     "not, got clip_norm=50.0 and gradients of norm up to inf"),
    ({"clip_norm": 0.3, "lipschitz": 0.5}, {"loss": Clipped(Linear(), 0.3)},
     "Clipped Linear needs gradients of norm at most lipschitz 0.5, got up to 1"),
    ({"clip_norm": 1.0, "diameter": 1.0},
     {"loss": Clipped(Quadratic(1.0), 1.0), "domain": Ball(1.0)},
     "Clipped Quadratic needs gradients of norm at most lipschitz 1, got up to 1.5"),
    ({"holder": (1.9, 0.5), "diameter": 4.0}, {"loss": Quadratic(1.0), "domain": Ball(4.0)},
     "Quadratic needs gradients with a Hoelder constant of order 0.5 1.9, got up to 2"),
    ({"holder": (9.0, 0.5)}, {"loss": Quadratic(1.0)},
     "Quadratic needs gradients with a Hoelder constant of order 0.5 9, got up to inf"),
    ({"relation": Relation.ZERO_OUT}, {"dataset_prime": Dataset(UNIT).replacing(1, [0.0, 0.0])},
     "relation='zero out' needs one of the datasets with a zeroed record, got 0 of them"),
    ({}, {"dataset_prime": Dataset(UNIT).zeroing(1)},
     "relation='replace one' needs neither dataset with a zeroed record, got 1 of them"),
]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "changes", "message"), REFUSED)
def test_inadmissible_pairs(mechanism, changes, message):
    with pytest.raises(Inadmissible, match=f"^{re.escape(message)}$"):
        made(mechanism, **changes)


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"dataset_prime": Dataset(UNIT)},
     "dataset_prime must differ from dataset in one record, got 0 that differ"),
    ({}, {"dataset_prime": Dataset(-UNIT).replacing(0, UNIT[0])},
     "dataset_prime must differ from dataset in one record, got 2 that differ"),
    ({"relation": Relation.ZERO_OUT},
     {"dataset_prime": Dataset(UNIT).replacing(0, [0.0, 1.0]).zeroing(1)},
     "dataset_prime must differ from dataset in one record, got 2 that differ"),
    ({"relation": Relation.ZERO_OUT}, {"dataset": Dataset(UNIT, 1)},
     "dataset_prime must differ from dataset in one record, got 0 that differ"),
    ({"dataset_size": 4, "batch_size": 2}, {}, "dataset must have dataset_size=4 records, got 3"),
    ({}, {"dataset_prime": Dataset(UNIT[:2])},
     "dataset_prime must have dataset_size=3 records, got 2"),
    ({}, {"dataset_prime": Dataset(np.ones((3, 3)))},
     "dataset_prime must have 2 numbers a record, as dataset has, got 3"),
    ({"diameter": 1.0}, {"domain": Box(1.0)},
     "domain must have the mechanism's diameter (1.0), got Box(side=1.0) of diameter "
     "1.41421356237 in 2 dimensions"),
    ({"diameter": 1.0}, {},
     "domain must have the mechanism's diameter (1.0), got WholeSpace() of diameter inf in 2 "
     "dimensions"),
    ({}, {"domain": Ball(1.0)},
     "domain must have the mechanism's diameter (None), got Ball(diameter=1.0) of diameter 1 "
     "in 2 dimensions"),
    ({"diameter": 1.0}, {"domain": Ball(1.0), "start": 0.4},
     "start must be in the domain Ball(diameter=1.0), got 0.4"),
    ({}, {"start": [0.0, 0.0, 0.0]}, "start must be one number or 2 numbers, got [0.0, 0.0, 0.0]"),
    ({}, {"start": float("nan")}, "start must be a point of finite numbers, got nan"),
    ({"release": Release.EXPONENTIAL_MECHANISM}, {},
     "release must be 'last iterate', 'random stop' or 'random skip' to be simulated, got "
     "'exponential mechanism'"),
    ({"release": Release.RANDOM_SKIP, "steps": 6}, {},
     "release must be 'last iterate' or 'random stop' but for one pass over the records, one "
     "at a time in fixed order (Feldman et al. 2018 skip records there only), got 'random "
     "skip' with batching='cyclic', batch_size=1, steps=6 and dataset_size=3"),
    ({"release": Release.RANDOM_SKIP, "steps": 3, "step_size": (0.1, 0.1, 0.2)}, {},
     "step_size must be one number for release='random skip', got a schedule that varies"),
    ({}, {"loss": Logistic(), "dataset": Dataset(np.zeros((3, 3)))},
     "labels must be -1 or +1, got 0.0"),
    ({}, {"loss": "linear"}, "loss must be a Loss, got 'linear'"),
    ({}, {"domain": 1.0}, "domain must be a Domain, got 1.0"),
    ({}, {"dataset_prime": 3}, "dataset_prime must be a Dataset, got 3"),
]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "changes", "message"), BAD)
def test_bad_pairs(mechanism: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made(mechanism, **changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dataset([1.0, 2.0]), "records must be a non-empty matrix, got shape (2,)"),
        (lambda: Dataset(np.zeros((0, 2))), "records must be a non-empty matrix, got shape (0, 2)"),
        (lambda: Dataset([["a"]]), "records must be a matrix of numbers, got [['a']]"),
        (
            lambda: Dataset([[0.0, np.nan]]),
            "records must hold finite numbers only, got nan in row 0, column 1",
        ),
        (lambda: Dataset(UNIT, 3), "zeroed must be below the 3 records, got 3"),
        (lambda: Dataset(UNIT, -1), "zeroed must be a whole number of at least 0, got -1"),
        (
            lambda: Dataset(UNIT).replacing(3, [0.0, 0.0]),
            "index must be below the 3 records, got 3",
        ),
        (lambda: Dataset(UNIT).replacing(0, [0.0]), "record must have 2 numbers, got 1 numbers"),
    ],
)
def test_bad_datasets(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_datasets_do_not_change_with_what_they_were_made_of() -> None:
    rows = UNIT.copy()
    dataset = Dataset(rows)
    rows[0] = 9.0
    assert dataset.records[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        dataset.records[0, 0] = 2.0
    assert np.array_equal(dataset.replacing(1, [5.0, 5.0]).records[[0, 2]], UNIT[[0, 2]])
    assert dataset.zeroing(2).zeroed == 2


@pytest.mark.parametrize("slack", [1 - 1e-9, 1 + 1e-9])
def test_many_records_are_compared_two_by_two(slack: float) -> None:
    """On a circle all records are near its middle, and two of them are a diameter apart."""
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    rows = 3.0 + np.column_stack([np.cos(angles), np.sin(angles)])
    make = {"dataset": Dataset(rows), "dataset_prime": Dataset(rows).replacing(0, [3.0, 3.0])}
    given = {"dataset_size": 40, "lipschitz": None, "gradient_sensitivity": 2.0 * slack}
    if slack > 1:
        made(given, **make)
    else:
        with pytest.raises(Inadmissible, match="any two records' gradients within"):
            made(given, **make)
