"""Runs in this process: sums, tasks, progress, and what is refused."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from audit.simulation import Block, Samples, backends, runner
from audit.simulation.backends import Backend, Parallel, answer, pool
from audit.simulation.blocks import available_threads, missing, union
from audit.simulation.runner import Kept, Pace, Sums, run_job, tasks
from audit.simulation.samples import Draw

from .jobs import Normals, Slow, Stopping, counted, expected, kept


@pytest.mark.parametrize("threads", [1, 8])
def test_same_bits_for_any_number_of_threads(threads: int) -> None:
    where = Parallel(Backend.THREADS, threads)
    counts = run_job(counted(blocks=102), backend=where)
    assert counts[0].dtype == np.int64
    assert np.array_equal(counts, expected(blocks=102))
    assert np.array_equal(run_job(kept(), backend=where), run_job(kept()))


def test_counts_are_those_of_the_kept_numbers() -> None:
    numbers, counts = run_job(kept()), run_job(counted())
    assert [x.shape for x in numbers] == [(3000,)] * 2
    for x, row in zip(numbers, counts, strict=True):
        assert row.tolist() == [np.count_nonzero(x >= t) for t in (-1.5, -0.5, 0.5, 1.5)]
    squares = Samples(Normals(), Draw(np.square), 3000, 1)
    assert np.array_equal(run_job(squares), np.square(numbers))
    above = Samples(Normals(), Draw(np.square, (1.0,)), 3000, 1)
    assert [row.tolist() for row in run_job(above)] == [[np.sum(x**2 >= 1)] for x in numbers]


def test_another_job_has_other_counts() -> None:
    counts = run_job(counted())
    for other in (counted(seed=2), counted(blocks=58), counted(Normals(200), blocks=30)):
        assert not np.array_equal(run_job(other), counts)


def test_a_job_is_made_of_blocks() -> None:
    job = Samples(Normals(), Draw(), 250, 1)
    assert len(job) == 6
    assert [job.place(number) for number in (0, 1, 5)] == [
        (0, Block(0, 0, 100)), (1, Block(0, 0, 100)), (1, Block(2, 200, 250)),
    ]  # fmt: skip
    assert job.work(range(6)) == 250 * 3
    assert pickle.loads(pickle.dumps(job)) == job
    with pytest.raises(ValueError, match=r"^number must be below the 6 blocks, got 6$"):
        job.place(6)
    with pytest.raises(ValueError, match=r"^number must be a whole number of at least 0, got -1$"):
        job.place(-1)
    with pytest.raises(ValueError, match=r"^backend must be a Parallel or .*, got 'loky'$"):
        run_job(job, backend="loky")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^job must be a Samples, got 3$"):
        run_job(3)  # type: ignore[arg-type]


def test_an_error_in_a_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_job(counted(Stopping(error=ZeroDivisionError)), backend=Parallel(workers=2))


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_is_in_steps_and_reaches_the_end(threads: int) -> None:
    seen = list[tuple[int, int]]()
    run_job(
        counted(blocks=100),
        backend=Parallel(workers=threads),
        progress=lambda *now: seen.append(now),
    )
    total = 50 * 100 * 3
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    assert all(a < b for (a, _), (b, _) in itertools.pairwise(seen))


def paced(steps_a_second: float) -> Pace:
    pace = Pace()
    pace.steps_a_second = steps_a_second
    return pace


class Even(Normals):
    """Blocks of ten steps each, which are never run."""

    steps = (1, 1)


def sized(blocks: int) -> Samples:
    return counted(Even(10), blocks)


@pytest.mark.parametrize(("workers", "rate"), [(1, 0.0), (3, 200.0), (1000, 1e9)])
def test_tasks_cover_what_is_left_and_nothing_else(workers: int, rate: float) -> None:
    left = [range(10), range(17, 18), range(100, 3000)]
    cut = list(tasks(sized(3000), left, workers, paced(rate)))
    assert list(itertools.chain(*cut)) == list(itertools.chain(*left))
    assert all(any(set(task) <= set(gap) for gap in left) for task in cut)


@pytest.mark.parametrize(
    ("blocks", "rate", "workers", "size"),
    [
        (10**4, 0.0, 2, 1),  # nothing is known yet
        (10**4, 1000.0, 2, 50),  # half a second
        (10**4, 0.1, 2, 1),
        (10**5, 1000.0, 64, 97),  # four times the workers take four times as long, but
        (320, 1e9, 2, 10),  # there are 16 for each worker
    ],
)
def test_tasks_are_of_a_good_size(blocks: int, rate: float, workers: int, size: int) -> None:
    cut = list(tasks(sized(blocks), [range(blocks)], workers, paced(rate)))
    assert {len(task) for task in cut[:-1]} == {size}


def test_tasks_are_cut_as_they_are_asked_for_and_follow_the_pace() -> None:
    pace = Pace()
    cut = tasks(sized(10**12), [range(10**12)], 2, pace)
    assert next(cut) == range(1)
    pace.learn(10, 0.01)
    assert next(cut) == range(1, 51)
    pace.learn(500, 50.0)
    assert next(cut) == range(51, 52)


def test_few_tasks_are_under_way_at_a_time() -> None:
    under_way, most = 0, 0

    def watched(cut: Iterator[range]) -> Iterator[range]:
        nonlocal under_way, most
        for task in cut:
            under_way += 1
            most = max(most, under_way)
            yield task

    def done(_: object) -> None:
        nonlocal under_way
        under_way -= 1

    job = counted(Slow(seconds=0.0), blocks=200)
    with pool(Parallel(workers=4)) as workers:
        workers.run(job, watched(range(n, n + 1) for n in range(200)), done)
    assert under_way == 0
    assert 4 <= most <= 8


def test_a_loop_that_is_left_drops_the_tasks_that_wait() -> None:
    waiting: list[Future[int]] = []

    def submit(task: int) -> Future[int]:
        waiting.append(Future())
        if task == 0:
            waiting[0].set_result(0)
        return waiting[-1]

    with backends._ended(submit, range(9), lambda: 3) as ended:
        assert next(ended)[0] == 0
    assert [future.cancelled() for future in waiting] == [False, True, True]


def test_ranges_are_merged_and_what_is_missing_is_known() -> None:
    finished: tuple[range, ...] = ()
    for start in np.random.default_rng(0).permutation(50).tolist():
        assert len(list(missing(finished, 50))) <= 51
        finished = union(finished, range(start, start + 1))
        there = set(itertools.chain(*finished))
        assert set(itertools.chain(*missing(finished, 50))) == set(range(50)) - there
        assert all(a.stop < b.start for a, b in itertools.pairwise(finished))
    assert finished == (range(50),)


@pytest.mark.parametrize("job", [counted(), kept()], ids=["sums", "kept"])
def test_a_block_is_counted_once_and_rows_bring_results_back(job: Samples) -> None:
    results, again = (Sums(job) if job.draw.adds_up else Kept(job) for _ in range(2))
    for blocks in (range(3, 6), range(9, 10)):
        results.add(blocks, job.run(blocks))
    before = [x.copy() for x in results.arrays]
    once = r"^blocks must be counted once, got range\(\d, \d\) beside range\(3, 6\)"
    for twice in (range(5, 7), range(3, 4), range(2, 7)):
        with pytest.raises(ValueError, match=once):
            results.add(twice, job.run(twice))
    for number, row in results.rows(results.finished).items():
        again.load(number, row)
    assert again.finished == results.finished == (range(3, 6), range(9, 10))
    if job.draw.adds_up:
        assert np.array_equal(results.arrays, before)
        assert np.array_equal(again.arrays, before)
    else:
        assert np.array_equal(again.arrays[1][100:300], results.arrays[1][100:300])


def test_samples_that_do_not_fit_their_blocks_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"^100 samples must come from range\(0, 1\), got 101$"):
        Kept(kept()).add(range(1), np.zeros(101))


@pytest.mark.parametrize(
    ("name", "there", "got"),
    [
        ("numba", {"numba": "0.1"}, r"0\.1 there and \d"),
        ("random numbers", {}, "none there and stream"),  # of versions before streams had numbers
    ],
)
def test_a_worker_with_other_software_is_refused(monkeypatch, name, there, got):
    def elsewhere(*given: Any) -> Any:
        here = answer(*given)
        others = {one: version for one, version in here.software.items() if one != name}
        return here._replace(software={**others, **there})

    monkeypatch.setattr(backends, "answer", elsewhere)
    with pytest.raises(
        ValueError, match=f"^{name} must be the same version on all workers, got {got}"
    ):
        run_job(counted())


def test_an_answer_that_does_not_come_back_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = runner.tasks
    monkeypatch.setattr(runner, "tasks", lambda *given: itertools.islice(real(*given), 5))
    with pytest.raises(RuntimeError, match=r"^\d+ of 60 blocks came back$"):
        run_job(counted(), backend=Parallel(workers=1))


def test_the_default_is_a_thread_for_each_core() -> None:
    with pool(Parallel()) as workers:
        assert workers.workers == available_threads()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "^workers must be a whole number of at least 1, got 0$"),
        ({"kind": "dask"}, "^kind must be a Backend, got 'dask'$"),
        ({"address": "tcp://x:1"}, "^address must be None with threads, got 'tcp://x:1'$"),
        ({"kind": Backend.LOKY, "address": "auto"}, "^address must be None with loky, got 'auto'$"),
        ({"kind": Backend.DASK}, "^address must be that of a running cluster, got None$"),
        (
            {"kind": Backend.RAY, "address": ""},
            "^address must be that of a running cluster, got ''$",
        ),
        (
            {"kind": Backend.DASK, "address": "tcp://x:1", "workers": 2},
            "^workers must be None with dask: the cluster decides, got 2$",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parallel(**given)
