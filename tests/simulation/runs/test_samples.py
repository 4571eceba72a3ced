"""Samples on any backend: stored, resumed, refused, damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    Process,
    TwoSidedWalk,
    UpdateMap,
)
from audit.simulation import Samples, final_iterates
from audit.simulation.fingerprint import digest_of
from audit.simulation.iterates import walks_of
from audit.simulation.samples import Iterates

from ..cases import mechanism

TRIALS = 20_000


PAIR = BiasedWalk(mechanism())


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.simulation.samplers.LARGEST_OF_WALKS", 256)


def draw(folder: Path | None = None, **given: Any) -> Any:
    asked = {"trials": TRIALS, "seed": 3, "threads": 1, "record_every": 0.0, **given}
    return np.stack(final_iterates(PAIR, folder=folder, **asked))


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The folder of a run that was interrupted after half its steps."""
    folder = tmp_path / "deep" / "samples"

    def interrupt(done: int, total: int) -> None:
        if 2 * done > total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        draw(folder, progress=interrupt)
    return folder


def test_an_interrupted_run_goes_on_where_it_was(half: Path) -> None:
    seen: list[tuple[int, int]] = []
    x = draw(half, progress=lambda *now: seen.append(now), threads=2)
    assert 0.4 < seen[0][0] / seen[0][1] < 0.7
    assert seen[-1][0] == seen[-1][1]
    assert np.array_equal(x, draw())


def test_another_pair_is_refused(half: Path) -> None:
    with pytest.raises(ValueError, match=r'where pair\.type is ".*BiasedWalk" \(here ".*Two'):
        final_iterates(TwoSidedWalk(mechanism()), trials=TRIALS, seed=3, folder=half)


def test_samples_that_no_memory_holds_are_refused() -> None:
    for trials in (10**15, 10**19):
        with pytest.raises(ValueError, match=r"^trials must be so few that their samples fit into"):
            draw(trials=trials)


def test_the_description_is_plain_and_complete() -> None:
    job = Samples(walks_of(PAIR), Iterates(), 10, 3)
    told = json.loads(json.dumps(job.description))
    assert told == job.description
    assert told["pair"]["type"].endswith(":BiasedWalk")
    assert told["draw"]["type"].endswith(":Iterates")
    assert {name: told[name] for name in ("trials", "seed", "block")} == {
        "trials": 10,
        "seed": 3,
        "block": 256,
    }


def written(drift: float) -> Construction:
    """A pair of one name and no fields of its own, whose code says the drift."""

    @dataclass(frozen=True)
    class Mine(Construction):
        citation = "a test"

        def processes(self) -> tuple[Process, Process]:
            return DriftedWalk(self.mechanism, drift=drift).processes()

    return Mine(mechanism(dataset_size=4, batch_size=4))


def test_samples_of_code_that_was_rewritten_are_refused(tmp_path: Path) -> None:
    before, after = written(0.0), written(0.01)
    first, second = (walks_of(pair).description for pair in (before, after))
    assert first["pair"] == second["pair"]  # all that the fields say
    assert first["walks"] != second["walks"]
    folder = tmp_path / "kept"
    final_iterates(before, trials=TRIALS, seed=3, threads=1, folder=folder, record_every=0.0)
    with pytest.raises(ValueError, match=r"that of the same configuration, .* where walks is"):
        final_iterates(after, trials=TRIALS, seed=3, threads=1, folder=folder, record_every=0.0)


def test_an_update_map_is_told_by_its_code() -> None:
    def made(factor: float) -> Any:
        @dataclass(frozen=True)
        class Mine(UpdateMap):
            def __call__(self, x: Any) -> Any:
                return x * factor

        return Mine()

    assert digest_of(made(0.5)) == digest_of(made(0.5))
    assert digest_of(made(0.5)) != digest_of(made(0.6))
