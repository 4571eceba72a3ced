"""Descriptions of jobs are distinct, and equal in every process."""

from __future__ import annotations

import enum
import functools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.constructions import Mapped, Step
from audit.simulation.fingerprint import described

ROOT = Path(__file__).resolve().parents[2]


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class One:
    value: Any = 1


@dataclass(frozen=True)
class Other:
    value: Any = 1


def shifted(by: float) -> Callable[[Any], Any]:
    def move(x: Any) -> Any:
        return x + by

    return move


def scaled(x: Any, factor: float = 2.0, *, more: float = 0.0) -> Any:
    return factor * x + more


VALUES: list[Any] = [
    None,
    True,
    1,
    1.5,
    "a",
    Colour.RED,
    One(),
    One(2),
    Other(),
    One(One()),
    (1, 2),
    {"a": 1},
    np.arange(3),
    np.arange(3.0),
    np.arange(3.0).reshape(3, 1),
    np.float32(1.5),
    np.tanh,
    np.sin,
    shifted(1.0),
    shifted(2.0),
    scaled,
    functools.partial(scaled, factor=3.0),
    functools.partial(scaled, factor=4.0),
    *(lambda x: x / 2, lambda x: x / 4, lambda x: x.real, lambda x: x.imag),
    *(lambda x: x in {"a", "b", "c"}, lambda x: x in {"a", "b", "d"}),
    *(lambda x: [y + 1 for y in x], lambda x: [y + 2 for y in x]),
    One(shifted(1.0)),
    Mapped(np.tanh),
    Mapped(shifted(1.0)),
    Step((Mapped(np.tanh),), (1.0,), 1.0),
]


def test_values_are_told_apart_as_plain_data() -> None:
    told = [json.dumps(described(value), sort_keys=True) for value in VALUES]
    assert len(set(told)) == len(VALUES)
    assert not any("0x" in one for one in told)


def test_another_process_says_the_same() -> None:
    code = (
        "import json; from tests.simulation import test_fingerprint as t; "
        "print(json.dumps([t.described(v) for v in t.VALUES]))"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert json.loads(there.stdout) == json.loads(json.dumps([described(v) for v in VALUES]))


def test_defaults_and_closures_count() -> None:
    assert described(shifted(1.0)) == described(shifted(1.0))
    before = described(scaled)
    try:
        scaled.__defaults__ = (2.5,)
        assert described(scaled) != before
    finally:
        scaled.__defaults__ = (2.0,)


def endless() -> Any:
    def again(x: Any) -> Any:
        return again(x)

    return again


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "it is no plain data"),
        (One(len), "it is no plain data"),
        (endless(), "it holds itself"),
        (np.array([object()]), "it holds objects"),
    ],
)
def test_what_has_no_name_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^a recorded job must be described the same way .*: {reason}$"
    ):
        described(value)
