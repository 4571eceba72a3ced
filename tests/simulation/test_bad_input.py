"""Bad input ends in one line that names the value."""

from __future__ import annotations

import re

import numpy as np
import pytest

from audit.constructions import BiasedWalk, Mapped, Step
from audit.simulation import final_iterates, simulate

from .cases import mechanism, process

BAD = [
    ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
    ({"trials": 1e6}, "trials must be a whole number of at least 1, got 1000000.0"),
    ({"trials": True}, "trials must be a whole number of at least 1, got True"),
    ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ({"seed": 0.5}, "seed must be a whole number of at least 0, got 0.5"),
    ({"seed": None}, "seed must be a whole number of at least 0, got None"),
    ({"threads": 0}, "threads must be a whole number of at least 1, got 0"),
    ({"threads": 1.0}, "threads must be a whole number of at least 1, got 1.0"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_runs(changed: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"trials": 10, "seed": 0, **changed}
    pair = BiasedWalk(mechanism())
    for call in (
        lambda: final_iterates(pair, **given),  # type: ignore[arg-type]
        lambda: simulate(pair.processes()[0], **given),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()


def test_wrong_kinds() -> None:
    pair = BiasedWalk(mechanism())
    with pytest.raises(ValueError, match="pair must be a Construction, got 3"):
        final_iterates(3, trials=1, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="process must be a Process, got Bias"):
        simulate(pair, trials=1, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stream must be a Stream, got 1"):
        simulate(pair.processes()[0], trials=1, seed=0, stream=1)  # type: ignore[arg-type]


def test_maps_that_break_their_contract() -> None:
    bad = process(Step((Mapped(lambda x: x + np.inf),), (1.0,), 1.0))
    with pytest.raises(ValueError, match=r"map must return finite numbers, got inf at x = 0\.0$"):
        simulate(bad, trials=5, seed=0)
    short = process(Step((Mapped(lambda x: x[:1]),), (1.0,), 1.0))
    with pytest.raises(ValueError, match=r"the shape it is given \(5,\), got \(1,\)$"):
        simulate(short, trials=5, seed=0, threads=2)
