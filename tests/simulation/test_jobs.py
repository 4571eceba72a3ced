"""Jobs of walks: blocks and streams, counts and samples of the same bits, and what is refused."""

from __future__ import annotations

import enum
import functools
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import audit
from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    Mapped,
    Process,
    ResetWalk,
    Step,
    TwoSidedWalk,
    UpdateMap,
)
from audit.simulation import count_thresholds, final_iterates, run_job, simulate, walk_counts
from audit.simulation.blocks import MAX_WALKS, Stream, block_size, cut_into_blocks
from audit.simulation.fingerprint import described, digest_of
from audit.simulation.iterates import walks_of
from tests.exact.cases import process

from .cases import AFFINE, COMPILED, MAPPED, mechanism, two_lengths

PAIRS: dict[str, Construction] = {
    "biased": BiasedWalk(mechanism()),
    "resets": ResetWalk(mechanism(diameter=3.0), cap=1.5),
    "two lengths": two_lengths(),
    "random stop": TwoSidedWalk(mechanism(release=audit.Release.RANDOM_STOP)),
}
ENDS = (-2.0, -0.5, -0.1, 0.0, 0.05, 0.5, 2.0)  # atoms of the first pair, and points beyond all


def test_blocks_cover_all_trials_in_order() -> None:
    for trials, steps in ((1, 1), (4096, 100), (4097, 100), (10_000, 7500), (1000, 10**6), (5, 0)):
        cut = list(cut_into_blocks(trials, steps))
        assert [b.number for b in cut] == list(range(len(cut)))
        assert [b.start for b in cut] == [0, *(b.stop for b in cut[:-1])]
        assert cut[-1].stop == trials
        assert {len(b) for b in cut[:-1]} <= {block_size(steps)}


def test_block_size_depends_on_the_length_of_the_walk_alone() -> None:
    assert [block_size(t) for t in (0, 1, 7500, 10**5, 10**6, 10**9)] == [
        4096, 4096, 4096, 256, 256, 256,
    ]  # fmt: skip
    assert [block_size(t, MAX_WALKS) for t in (0, 1, 512, 513, 10**6)] == [
        65_536, 65_536, 65_536, 32_768, 256,
    ]  # fmt: skip
    assert all(math.log2(block_size(t)).is_integer() for t in range(1, 100_000, 999))


def test_blocks_have_the_streams_that_spawn_gives() -> None:
    cut = list(cut_into_blocks(20_000, 100))
    for stream in Stream:
        spawned = np.random.SeedSequence(7).spawn(len(Stream))[stream].spawn(len(cut))
        for block, child in zip(cut, spawned, strict=True):
            expected = np.random.Generator(np.random.SFC64(child)).random(4)
            assert np.array_equal(block.generator(7, stream).random(4), expected)
            assert block.sequence(7, stream).spawn_key == child.spawn_key


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few hundred trials, so that few trials make many."""
    monkeypatch.setattr("audit.simulation.blocks._BLOCK_STEPS", 2**14)


@pytest.mark.parametrize("name", ["shuffled", "kinked", "absorbing, two paths"])
@pytest.mark.usefixtures("small_blocks")
def test_threads_and_more_trials_leave_full_blocks_as_they_are(name: str) -> None:
    made = {**COMPILED, **MAPPED}[name]()
    size = block_size(len(made), MAX_WALKS)
    fewer = simulate(made, trials=2 * size + 100, seed=1, threads=1)
    more = simulate(made, trials=5 * size, seed=1, threads=8)
    assert np.array_equal(fewer[: 2 * size], more[: 2 * size])
    assert not np.array_equal(more[:size], more[size : 2 * size])


def test_seeds_streams_and_blocks_all_differ() -> None:
    made = AFFINE["unbounded"]()
    everything = np.concatenate(
        [
            simulate(made, trials=9000, seed=seed, stream=stream)
            for seed in (0, 1, 2**70)
            for stream in Stream
        ]
    )
    assert np.unique(everything).size > 0.9999 * everything.size


def test_pair_is_its_two_processes() -> None:
    pair = BiasedWalk(mechanism())
    samples = final_iterates(pair, trials=5000, seed=4, threads=2)
    for x, made, stream in zip(samples, pair.processes(), Stream, strict=True):
        assert np.array_equal(x, simulate(made, trials=5000, seed=4, stream=stream))
        assert (x.dtype, x.shape) == (np.float64, (5000,))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.usefixtures("small_blocks")
def test_counts_are_those_of_the_iterates_block_by_block(name: str) -> None:
    pair, asked = PAIRS[name], {"trials": 3001, "seed": 3}
    whole = count_thresholds(pair, thresholds=ENDS, threads=2, **asked)  # type: ignore[arg-type]
    for counted, samples in zip(whole, final_iterates(pair, **asked), strict=True):  # type: ignore[arg-type]
        assert counted.dtype == np.int64
        assert counted.tolist() == [int(np.sum(samples >= t)) for t in ENDS]
    job = walk_counts(pair, thresholds=ENDS, **asked)  # type: ignore[arg-type]
    assert len(job) > 4
    blocks = [job.run(range(k, k + 1)) for k in range(len(job))]
    assert {b.shape for b in blocks} == {(2, len(ENDS))}
    assert np.array_equal(sum(blocks), whole)
    assert np.array_equal(job.run(range(len(job))), whole)
    assert job.work(range(len(job))) == 3001 * sum(map(len, pair.processes()))
    again = pickle.loads(pickle.dumps(job))
    assert again == job
    assert np.array_equal(again.run(range(1, 2)), blocks[1])
    assert json.loads(json.dumps(job.description)) == job.description


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000])
def test_any_number_of_thresholds(size: int) -> None:
    x, _ = final_iterates(PAIRS["biased"], trials=3000, seed=4)
    # values that occur, so that "at or above" is told from "above"
    thresholds = np.unique(x)[:: max(1, np.unique(x).size // size)][:size]
    first, _ = count_thresholds(PAIRS["biased"], thresholds=thresholds, trials=3000, seed=4)
    assert first.tolist() == [int(np.sum(x >= t)) for t in thresholds]


def test_description_tells_jobs_apart() -> None:
    given: dict[str, Any] = {
        "pair": PAIRS["biased"], "thresholds": ENDS, "trials": 9001, "seed": 3,
    }  # fmt: skip
    changed: list[dict[str, Any]] = [
        {},
        {"pair": BiasedWalk(mechanism(), start=0.1)},
        {"pair": BiasedWalk(mechanism(noise_std=1.1))},
        {"pair": BiasedWalk(mechanism(batching=audit.Batching.POISSON))},
        {"pair": TwoSidedWalk(mechanism())},
        {"thresholds": (0.0,)},
        {"trials": 9002},
        {"seed": 4},
    ]
    jobs = [walk_counts(**{**given, **change}) for change in changed]
    assert len({json.dumps(job.description) for job in jobs}) == len(jobs)


@dataclass(frozen=True)
class Moved(Construction):
    """Walks whose map is a function."""

    function: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    citation = "a test"

    def processes(self) -> tuple[Process, Process]:
        step = Step((Mapped(self.function),), (1.0,), 1.0)
        return process(step), process(step)


def test_a_function_is_described_by_its_code_or_not_at_all(tmp_path: Path) -> None:
    given: dict[str, Any] = {"thresholds": (0.0,), "trials": 10, "seed": 3}
    first, second = (
        walk_counts(Moved(mechanism(), function), **given)
        for function in (lambda x: x / 2, lambda x: x / 4)
    )
    run_job(first, folder=tmp_path / "first")
    with pytest.raises(ValueError, match=r"where pair\.function\.code is "):
        run_job(second, folder=tmp_path / "first")
    job = walk_counts(Moved(mechanism(), np.vectorize(np.sin)), **given)
    with pytest.raises(
        ValueError, match=r"^a recorded job must be described .*: it is no plain data$"
    ):
        run_job(job, folder=tmp_path / "second")
    assert [row.shape for row in run_job(job)] == [(1,)] * 2  # nothing need be known


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
    kept: dict[str, Any] = {"trials": 1000, "seed": 3, "folder": tmp_path / "x", "record_every": 0}
    final_iterates(before, **kept)
    with pytest.raises(ValueError, match=r"that of the same configuration, .* where walks is"):
        final_iterates(after, **kept)


@pytest.mark.parametrize("place", ["own", "inherited", "method", "property", "constant"])
def test_an_update_map_is_told_by_its_code(place: str) -> None:
    def made(factor: float) -> Any:
        members: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "own": ({}, {"__call__": lambda self, x: x * factor}),
            "inherited": ({"__call__": lambda self, x: x * factor}, {}),
            "method": ({"by": lambda self: factor}, {"__call__": lambda self, x: x * self.by()}),
            "property": (
                {"by": property(lambda self: factor)},
                {"__call__": lambda self, x: x * self.by},
            ),
            "constant": ({"by": factor}, {"__call__": lambda self, x: x * self.by}),
        }
        base, own = members[place]
        return dataclass(frozen=True)(type("Mine", (type("Base", (UpdateMap,), base),), own))()

    assert digest_of(made(0.5)) == digest_of(made(0.5))
    assert digest_of(made(0.5)) != digest_of(made(0.6))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trials() -> None:
    code = """
import resource
from audit.simulation import count_thresholds
from tests.simulation.test_jobs import PAIRS
def peak(trials):
    count_thresholds(PAIRS["biased"], thresholds=[0.0, 0.1], trials=trials, seed=1, threads=2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
few, many = peak(100_000), peak(1_000_000)
assert many - few < 8_000, (few, many)  # KiB; the samples would take 14 MB more
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


COUNTS, WALKS, PROCESSES = [walk_counts, count_thresholds], [final_iterates], [simulate]
THREADS = [count_thresholds, final_iterates, simulate]


@pytest.mark.parametrize(
    ("calls", "changed", "message"),
    [
        (COUNTS + WALKS, {"pair": 3}, "pair must be a Construction, got 3"),
        (PROCESSES, {"process": 3}, "process must be a Process, got 3"),
        (PROCESSES, {"stream": 1}, "stream must be a Stream, got 1"),
        *(
            (COUNTS, {"thresholds": value}, f"thresholds must be {message}")
            for value, message in (
                ((1.0, 0.0), "distinct and ascending, got [1.0, 0.0]"),
                ((0.0, 0.0), "distinct and ascending, got [0.0, 0.0]"),
                ((), "a non-empty one-dimensional array, got shape (0,)"),
                (np.arange(10.0**6 + 1), "at most 1,000,000, got 1,000,001"),
            )
        ),
        *(
            (
                calls,
                {name: value},
                f"{name} must be a whole number of at least {least}, got {value}",
            )
            for calls, name, least, values in (
                (COUNTS + WALKS + PROCESSES, "trials", 1, (0, 1e6, True)),
                (COUNTS + WALKS + PROCESSES, "seed", 0, (-1, 0.5, None)),
                (THREADS, "threads", 1, (0, 1.0)),
            )
            for value in values
        ),
        *(
            (WALKS, {"trials": value}, "trials must be so few that their samples fit into memory")
            for value in (10**15, 10**19)
        ),
    ],
)
def test_bad_input(calls: list[Any], changed: dict[str, Any], message: str) -> None:
    for call in calls:
        given: dict[str, Any] = {"trials": 10, "seed": 0}
        if call is simulate:
            given["process"] = PAIRS["biased"].processes()[0]
        else:
            given["pair"] = PAIRS["biased"]
        if call in COUNTS:
            given["thresholds"] = (0.0,)
        with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
            call(**{**given, **changed})
        assert "\n" not in str(caught.value)


def test_maps_that_break_their_contract() -> None:
    bad = process(Step((Mapped(lambda x: x + np.inf),), (1.0,), 1.0))
    with pytest.raises(ValueError, match=r"map must return finite numbers, got inf at x = 0\.0$"):
        simulate(bad, trials=5, seed=0)
    short = process(Step((Mapped(lambda x: x[:1]),), (1.0,), 1.0))
    with pytest.raises(ValueError, match=r"the shape it is given \(5,\), got \(1,\)$"):
        simulate(short, trials=5, seed=0, threads=2)


# ----------------------------------- Descriptions of jobs are distinct, and equal in every process


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
        "import json; from tests.simulation import test_jobs as t; "
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
        (np.frompyfunc(lambda x: x, 1, 1), "it is no plain data"),
        (endless(), "it holds itself"),
        (np.array([object()]), "it holds objects"),
    ],
)
def test_what_has_no_name_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^a recorded job must be described the same way .*: {reason}$"
    ):
        described(value)
