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
    dataset = changes.pop("dataset", Dataset(UNIT))
    other = changes.pop("dataset_prime", None) or (
        dataset.replacing(1, [0.0, -1.0])
        if m.relation is Relation.REPLACE_ONE
        else dataset.zeroing(1)
    )
    given = {"loss": Linear(), "dataset": dataset, "dataset_prime": other, **changes}
    return NoisySGDPair(mechanism=m, **given)


def logistic_pair(
    loss: Logistic | Clipped, mechanism: dict[str, Any], **changes: Any
) -> NoisySGDPair:
    rows = Logistic.rows(UNIT, [1.0, -1.0, 1.0])
    other = Dataset(rows).replacing(1, [0.0, 1.0, 1.0])  # another label
    return made(mechanism, loss=loss, dataset=Dataset(rows), dataset_prime=other, **changes)


ADMITTED: dict[str, Any] = {
    "gradients at the limit": lambda: made(),
    "zeroed": lambda: made({"relation": Relation.ZERO_OUT}),
    "sensitivity below what lipschitz implies": lambda: made({"gradient_sensitivity": 2.0}),
    "quadratic": lambda: made({"strong_convexity": 0.5, "smoothness": 0.5}, loss=Quadratic(0.5)),
    "quadratic by sensitivity alone": lambda: made(
        {"lipschitz": None, "gradient_sensitivity": 1.0}, loss=Quadratic(0.5)
    ),
    "concave where that is allowed": lambda: made(
        {"convex": False, "smoothness": 0.5, "lipschitz": None, "gradient_sensitivity": 2.0},
        loss=Quadratic((-0.5, 0.2)),
    ),
    "Huber": lambda: made({"smoothness": 3.0}, loss=Huber(3.0, 1.0)),
    "Huber, strongly convex where it is": lambda: made(
        {"strong_convexity": 3.0, "smoothness": 3.0, "lipschitz": 6.0, "diameter": 1.0},
        loss=Huber(3.0, 5.0),
        domain=Ball(1.0),
    ),
    "logistic": lambda: logistic_pair(Logistic(), {"smoothness": 0.25}),
    "logistic, regularised": lambda: logistic_pair(
        Logistic(0.1), {"smoothness": 0.35, "strong_convexity": 0.1}
    ),
    "logistic on a ball, less steep": lambda: logistic_pair(
        Logistic(), {"lipschitz": 0.6225, "diameter": 1.0}, domain=Ball(1.0)
    ),
    "clipped, not Lipschitz": lambda: made(
        {"lipschitz": None, "clip_norm": 0.3}, loss=Clipped(Quadratic(2.0), 0.3)
    ),
    "clipping that is never active": lambda: made({"clip_norm": 1.0}),
    "clipped, zeroed": lambda: made(
        {"lipschitz": None, "clip_norm": 0.3, "relation": Relation.ZERO_OUT},
        loss=Clipped(Quadratic(2.0), 0.3),
    ),
    "box": lambda: made({"diameter": 2**0.5}, domain=Box(1.0), start=[0.5, -0.5]),
    "Hoelder": lambda: made(
        {"holder": (2.0, 0.5), "diameter": 4.0, "lipschitz": 3.0},
        loss=Quadratic(1.0),
        domain=Ball(4.0),
    ),
    "stop": lambda: made({"release": Release.RANDOM_STOP}),
    "skip": lambda: made({"release": Release.RANDOM_SKIP, "steps": 3}),
}


@pytest.mark.parametrize("name", ADMITTED)
def test_admissible_pairs(name: str) -> None:
    pair = ADMITTED[name]()
    assert pair.dimension == 2
    assert pair.differing == 1
    assert pair.start.shape == (2,)


REFUSED: dict[str, tuple[Any, str]] = {
    "lipschitz, without strong convexity for the whole gradient": (
        lambda: made({"lipschitz": 1.0}, loss=Quadratic(1.0)),
        "Quadratic needs gradients of norm at most lipschitz 1, got up to inf",
    ),
    "lipschitz": (
        lambda: made({"lipschitz": 0.99}),
        "Linear needs gradients of norm at most lipschitz 0.99, got up to 1",
    ),
    "another record too steep": (
        lambda: made(dataset=Dataset(1.5 * UNIT), dataset_prime=Dataset(1.5 * UNIT).zeroing(0),
                     mechanism={"relation": Relation.ZERO_OUT}),
        "Linear needs gradients of norm at most lipschitz 1, got up to 1.5",
    ),
    "sensitivity of the record": (
        lambda: made({"gradient_sensitivity": 1.9}),
        "Linear needs the differing record's gradients within the sensitivity 1.9, got up to 2",
    ),
    "sensitivity of a zeroed record": (
        lambda: made({"gradient_sensitivity": 0.9, "relation": Relation.ZERO_OUT}),
        "Linear needs the differing record's gradients within the sensitivity 0.9, got up to 1",
    ),
    "sensitivity of the others": (
        lambda: made({"gradient_sensitivity": 1.0, "relation": Relation.ZERO_OUT}),
        "Linear needs any two records' gradients within gradient_sensitivity 1, got up to 1.78885",
    ),
    "strong convexity of linear losses": (
        lambda: made({"strong_convexity": 0.1}),
        "Linear needs curvature in [0.1, inf], which convexity and smoothness allow, "
        "got curvature=0.0",
    ),
    "smoothness": (
        lambda: made({"smoothness": 0.4}, loss=Quadratic((0.3, 0.5))),
        "Quadratic needs curvature in [0, 0.4], which convexity and smoothness allow, "
        "got curvature=0.5",
    ),
    "convexity": (
        lambda: made(loss=Quadratic(-0.5)),
        "Quadratic needs curvature in [0, inf], which convexity and smoothness allow, "
        "got curvature=-0.5",
    ),
    "strong convexity of a zeroed Huber loss": (
        lambda: made(
            {"strong_convexity": 3.0, "lipschitz": 6.0, "diameter": 1.0,
             "relation": Relation.ZERO_OUT},
            loss=Huber(3.0, 5.0), domain=Ball(1.0),
        ),
        "Huber needs curvature in [3, inf], which convexity and smoothness allow, "
        "got curvature=0.0",
    ),
    "smoothness of logistic losses": (
        lambda: logistic_pair(Logistic(0.1), {"smoothness": 0.3}),
        "Logistic needs curvature in [0, 0.3], which convexity and smoothness allow, "
        "got curvature=0.35",
    ),
    "logistic on a ball": (
        lambda: logistic_pair(Logistic(), {"lipschitz": 0.6224, "diameter": 1.0}, domain=Ball(1.0)),
        "Logistic needs gradients of norm at most lipschitz 0.6224, got up to 0.622459",
    ),
    "clipped by another norm": (
        lambda: made({"clip_norm": 0.5}, loss=Clipped(Linear(), 0.3)),
        "Clipped Linear needs clip_norm=0.3, the norm it clips to, got clip_norm=0.5",
    ),
    "clipped by no mechanism": (
        lambda: made(loss=Clipped(Linear(), 0.3)),
        "Clipped Linear needs clip_norm=0.3, the norm it clips to, got clip_norm=None",
    ),
    "not clipped": (
        lambda: made({"clip_norm": 0.5}),
        "Linear needs clip_norm=None, or gradients that are never clipped, because they are not, "
        "got clip_norm=0.5 and gradients of norm up to 1",
    ),
    "unbounded and not clipped": (
        lambda: made({"clip_norm": 50.0}, loss=Quadratic(0.5)),
        "Quadratic needs clip_norm=None, or gradients that are never clipped, because they are "
        "not, got clip_norm=50.0 and gradients of norm up to inf",
    ),
    "lipschitz before clipping": (
        lambda: made({"clip_norm": 0.3, "lipschitz": 0.5}, loss=Clipped(Linear(), 0.3)),
        "Clipped Linear needs gradients of norm at most lipschitz 0.5, got up to 1",
    ),
    "lipschitz before clipping, regulariser and all": (
        lambda: made(
            {"clip_norm": 1.0, "diameter": 1.0}, loss=Clipped(Quadratic(1.0), 1.0), domain=Ball(1.0)
        ),
        "Clipped Quadratic needs gradients of norm at most lipschitz 1, got up to 1.5",
    ),
    "Hoelder on a ball": (
        lambda: made(
            {"holder": (1.9, 0.5), "diameter": 4.0}, loss=Quadratic(1.0), domain=Ball(4.0)
        ),
        "Quadratic needs gradients with a Hoelder constant of order 0.5 1.9, got up to 2",
    ),
    "Hoelder on the line": (
        lambda: made({"holder": (9.0, 0.5)}, loss=Quadratic(1.0)),
        "Quadratic needs gradients with a Hoelder constant of order 0.5 9, got up to inf",
    ),
    "relation, replaced": (
        lambda: made({"relation": Relation.ZERO_OUT},
                     dataset_prime=Dataset(UNIT).replacing(1, [0.0, 0.0])),
        "relation='zero out' needs one of the datasets with a zeroed record, got 0 of them",
    ),
    "relation, zeroed": (
        lambda: made(dataset_prime=Dataset(UNIT).zeroing(1)),
        "relation='replace one' needs neither dataset with a zeroed record, got 1 of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_inadmissible_pairs(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(Inadmissible, match=f"^{re.escape(message)}$"):
        make()


BAD: dict[str, tuple[Any, str]] = {
    "no difference": (
        lambda: made(dataset_prime=Dataset(UNIT)),
        "dataset_prime must differ from dataset in one record, got 0 that differ",
    ),
    "two differences": (
        lambda: made(dataset_prime=Dataset(-UNIT).replacing(0, UNIT[0])),
        "dataset_prime must differ from dataset in one record, got 2 that differ",
    ),
    "a zeroed record and another": (
        lambda: made({"relation": Relation.ZERO_OUT},
                     dataset_prime=Dataset(UNIT).replacing(0, [0.0, 1.0]).zeroing(1)),
        "dataset_prime must differ from dataset in one record, got 2 that differ",
    ),
    "the same zeroed record": (
        lambda: made({"relation": Relation.ZERO_OUT}, dataset=Dataset(UNIT, 1)),
        "dataset_prime must differ from dataset in one record, got 0 that differ",
    ),
    "number of records": (
        lambda: made({"dataset_size": 4, "batch_size": 2}),
        "dataset must have dataset_size=4 records, got 3",
    ),
    "number of records of X'": (
        lambda: made(dataset_prime=Dataset(UNIT[:2])),
        "dataset_prime must have dataset_size=3 records, got 2",
    ),
    "width": (
        lambda: made(dataset_prime=Dataset(np.ones((3, 3)))),
        "dataset_prime must have 2 numbers a record, as dataset has, got 3",
    ),
    "diameter": (
        lambda: made({"diameter": 1.0}, domain=Box(1.0)),
        "domain must have the mechanism's diameter (1.0), got Box(side=1.0) of diameter "
        "1.41421356237 in 2 dimensions",
    ),
    "diameter of the whole space": (
        lambda: made({"diameter": 1.0}),
        "domain must have the mechanism's diameter (1.0), got WholeSpace() of diameter inf in 2 "
        "dimensions",
    ),
    "no diameter": (
        lambda: made(domain=Ball(1.0)),
        "domain must have the mechanism's diameter (None), got Ball(diameter=1.0) of diameter 1 "
        "in 2 dimensions",
    ),
    "start outside": (
        lambda: made({"diameter": 1.0}, domain=Ball(1.0), start=0.4),
        "start must be in the domain Ball(diameter=1.0), got 0.4",
    ),
    "start of another dimension": (
        lambda: made(start=[0.0, 0.0, 0.0]),
        "start must be one number or 2 numbers, got [0.0, 0.0, 0.0]",
    ),
    "start that is no number": (
        lambda: made(start=float("nan")),
        "start must be a point of finite numbers, got nan",
    ),
    "the exponential mechanism": (
        lambda: made({"release": Release.EXPONENTIAL_MECHANISM}),
        "release must be 'last iterate', 'random stop' or 'random skip' to be simulated, got "
        "'exponential mechanism'",
    ),
    "skipped in two passes": (
        lambda: made({"release": Release.RANDOM_SKIP, "steps": 6}),
        "release must be 'last iterate' or 'random stop' but for one pass over the records, one "
        "at a time in fixed order (Feldman et al. 2018 skip records there only), got 'random "
        "skip' with batching='cyclic', batch_size=1, steps=6 and dataset_size=3",
    ),
    "skipped with a schedule": (
        lambda: made(
            {"release": Release.RANDOM_SKIP, "steps": 3, "step_size": (0.1, 0.1, 0.2)}
        ),
        "step_size must be one number for release='random skip', got a schedule that varies",
    ),
    "labels": (
        lambda: made(loss=Logistic()),
        "labels must be -1 or +1, got 0.0",
    ),
    "kind of loss": (lambda: made(loss="linear"), "loss must be a Loss, got 'linear'"),
    "kind of domain": (lambda: made(domain=1.0), "domain must be a Domain, got 1.0"),
    "kind of dataset": (
        lambda: made(dataset_prime=3),
        "dataset_prime must be a Dataset, got 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_pairs(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


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
    make = {
        "dataset": Dataset(rows),
        "dataset_prime": Dataset(rows).replacing(0, [3.0, 3.0]),
    }
    given = {"dataset_size": 40, "lipschitz": None, "gradient_sensitivity": 2.0 * slack}
    if slack > 1:
        made(given, **make)
    else:
        with pytest.raises(Inadmissible, match="any two records' gradients within"):
            made(given, **make)
