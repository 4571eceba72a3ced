"""Blocks, streams and threads: the same bits for any distribution of the work."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import numpy as np
import pytest

import audit.simulation as simulation
from audit.constructions import BiasedWalk
from audit.simulation.backends import run_in_threads
from audit.simulation.blocks import (
    LARGEST_OF_WALKS,
    Stream,
    block_size,
    cut_into_blocks,
)

from .cases import AFFINE, COMPILED, MAPPED, mechanism


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
    assert [block_size(t, LARGEST_OF_WALKS) for t in (0, 1, 512, 513, 10**6)] == [
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
    monkeypatch.setattr("audit.simulation.blocks._STEPS", 2**14)


@pytest.mark.parametrize("name", ["biased", "shuffled", "kinked", "double well"])
@pytest.mark.usefixtures("small_blocks")
def test_same_bits_for_any_number_of_threads(name: str) -> None:
    made = {**COMPILED, **MAPPED}[name]()
    assert len(list(cut_into_blocks(17_001, len(made), LARGEST_OF_WALKS))) > 8
    one, two, eight, default = (
        simulation.simulate(made, trials=17_001, seed=1, threads=t) for t in (1, 2, 8, None)
    )
    assert np.array_equal(one, two)
    assert np.array_equal(one, eight)
    assert np.array_equal(one, default)


@pytest.mark.parametrize("name", ["biased", "shuffled", "absorbing, two paths"])
@pytest.mark.usefixtures("small_blocks")
def test_more_trials_leave_full_blocks_as_they_are(name: str) -> None:
    made = {**COMPILED, **MAPPED}[name]()
    size = block_size(len(made), LARGEST_OF_WALKS)
    fewer = simulation.simulate(made, trials=2 * size + 100, seed=1)
    more = simulation.simulate(made, trials=5 * size, seed=1)
    assert np.array_equal(fewer[: 2 * size], more[: 2 * size])
    assert not np.array_equal(more[:size], more[size : 2 * size])


def test_seeds_streams_and_blocks_all_differ() -> None:
    made = AFFINE["unbounded"]()
    runs = [
        simulation.simulate(made, trials=9000, seed=seed, stream=stream)
        for seed in (0, 1, 2**70)
        for stream in Stream
    ]
    everything = np.concatenate(runs)
    assert np.unique(everything).size > 0.9999 * everything.size


def test_pair_is_its_two_processes() -> None:
    pair = BiasedWalk(mechanism())
    x, x_prime = simulation.final_iterates(pair, trials=5000, seed=4, threads=2)
    first, second = pair.processes()
    assert np.array_equal(x, simulation.simulate(first, trials=5000, seed=4))
    assert np.array_equal(
        x_prime, simulation.simulate(second, trials=5000, seed=4, stream=Stream.X_PRIME)
    )
    assert x.dtype == np.float64
    assert x.shape == (5000,)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("small_blocks")
def test_progress_rises_to_the_total_in_the_calling_thread(threads: int) -> None:
    seen: list[tuple[int, int, int]] = []
    simulation.final_iterates(
        BiasedWalk(mechanism()),
        trials=600,
        seed=0,
        threads=threads,
        progress=lambda done, total: seen.append((done, total, threading.get_ident())),
    )
    done = [s[0] for s in seen]
    assert done == sorted(set(done))
    assert len(seen) == 7  # the beginning, and 3 blocks for each process
    assert done[0] == 0
    assert done[-1] == 2 * 600 * 40
    assert {s[1:] for s in seen} == {(2 * 600 * 40, threading.get_ident())}


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_a_block_ends_the_run(threads: int) -> None:
    started = []

    def work(task: int) -> int:
        started.append(task)
        if task == 5:
            raise ValueError("block 5 is bad")
        return task

    with pytest.raises(ValueError, match="block 5 is bad"):
        run_in_threads(range(10_000), work, lambda task, result: None, threads=threads)
    assert len(started) < 100


def test_importing_does_not_import_numba() -> None:
    code = "import sys, audit.simulation; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
