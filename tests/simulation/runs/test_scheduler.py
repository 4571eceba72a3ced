"""Runs in this process: sums, tasks, progress, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from audit.simulation import scheduler
from audit.simulation.backends import Kind, Parallel, pool
from audit.simulation.backends.base import answer
from audit.simulation.blocks import available_threads
from audit.simulation.checkpoint import Tally, added
from audit.simulation.scheduler import Pace, Summed, run_job, tasks

from .jobs import Normals, Slow, Stopping, changed, expected


@pytest.mark.parametrize("threads", [1, 2, 8, None])
def test_same_bits_for_any_number_of_threads(threads: int | None) -> None:
    job = Normals(blocks=101)
    counts = run_job(job, backend=Parallel(Kind.THREADS, threads))
    assert counts.dtype == np.int64
    assert np.array_equal(counts, expected(job))


def test_counts_are_those_of_all_draws() -> None:
    job = Normals(blocks=7, draws=50)
    assert run_job(job).sum() == 50 * (1 + 2 + 3 + 1 + 2 + 3 + 1)


@pytest.mark.parametrize("change", [{"seed": 2}, {"blocks": 59}, {"draws": 101}])
def test_another_job_has_other_counts(change: dict[str, int]) -> None:
    assert not np.array_equal(run_job(changed(Normals(), **change)), run_job(Normals()))


def test_a_job_without_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^blocks must be a whole number of at least 1, got 0$"):
        run_job(Normals(blocks=0))


def test_an_error_in_a_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_job(Stopping(error=ZeroDivisionError), backend=Parallel(workers=2))


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_is_in_steps_and_reaches_the_end(threads: int) -> None:
    job, seen = Normals(blocks=100), list[tuple[int, int]]()
    run_job(job, backend=Parallel(workers=threads), progress=lambda *now: seen.append(now))
    total = sum(job.work(number) for number in range(100))
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    assert all(a < b for (a, _), (b, _) in itertools.pairwise(seen))


@dataclass(frozen=True)
class Sized:
    """A job of blocks of one size that are never run."""

    blocks: int
    steps: int
    description: Any = None

    def __len__(self) -> int:
        return self.blocks

    def work(self, number: int) -> int:
        return self.steps

    def counts(self, number: int) -> Any:
        raise NotImplementedError


def paced(steps_a_second: float) -> Pace:
    pace = Pace()
    pace.steps_a_second = steps_a_second
    return pace


@pytest.mark.parametrize("workers", [1, 3, 1000])
@pytest.mark.parametrize("rate", [0.0, 200.0, 1e9])
def test_tasks_cover_what_is_left_and_nothing_else(workers: int, rate: float) -> None:
    left = [range(10), range(17, 18), range(100, 3000)]
    cut = list(tasks(Sized(3000, 10), left, workers, paced(rate)))
    assert list(itertools.chain(*cut)) == list(itertools.chain(*left))
    assert all(any(set(task) <= set(gap) for gap in left) for task in cut)


@pytest.mark.parametrize(
    ("blocks", "rate", "workers", "size"),
    [
        (10**5, 0.0, 2, 1),  # nothing is known yet
        (10**5, 1000.0, 2, 50),  # half a second
        (10**5, 0.1, 2, 1),
        (10**5, 1000.0, 64, 97),  # four times the workers take four times as long, but
        (320, 1e9, 2, 10),  # there are 16 for each worker
    ],
)
def test_tasks_are_of_a_good_size(blocks: int, rate: float, workers: int, size: int) -> None:
    cut = list(tasks(Sized(blocks, 10), [range(blocks)], workers, paced(rate)))
    assert {len(task) for task in cut[:-1]} == {size}


def test_tasks_are_cut_as_they_are_asked_for_and_follow_the_pace() -> None:
    pace = Pace()
    cut = tasks(Sized(10**12, 10), [range(10**12)], 2, pace)
    assert next(cut) == range(1)
    pace.learn(10, 0.01)
    assert next(cut) == range(1, 51)
    pace.learn(500, 50.0)
    assert next(cut) == range(51, 52)


def test_few_tasks_are_under_way_at_a_time() -> None:
    under_way, most = 0, 0

    def counted(cut: Iterator[range]) -> Iterator[range]:
        nonlocal under_way, most
        for task in cut:
            under_way += 1
            most = max(most, under_way)
            yield task

    job = Slow(blocks=200, seconds=0.0)

    def done(_: object) -> None:
        nonlocal under_way
        under_way -= 1

    with pool(Parallel(workers=4)) as workers:
        workers.run(Summed(job), counted(range(n, n + 1) for n in range(200)), done)
    assert under_way == 0
    assert 4 <= most <= 8


def test_a_tally_merges_ranges_and_knows_what_is_missing() -> None:
    tally = Tally()
    for start in np.random.default_rng(0).permutation(50):
        assert len(list(tally.missing(50))) <= 51
        tally = tally.plus(range(start, start + 1), np.array([2**start]))
        there = set(itertools.chain(*tally.finished))
        assert set(itertools.chain(*tally.missing(50))) == set(range(50)) - there
        assert tally.counts == sum(2**block for block in there)
        assert all(a.stop < b.start for a, b in itertools.pairwise(tally.finished))
    assert tally.finished == (range(50),)


def test_a_block_is_counted_once() -> None:
    tally = Tally().plus(range(3, 6), np.array([1]))
    with pytest.raises(ValueError, match=r"^blocks must be counted once, got range\(5, 7\) beside"):
        tally.plus(range(5, 7), np.array([1]))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.zeros(2), "^counts of a block must be an array of int64, got float64$"),
        (np.zeros(2, dtype=np.int32), "^counts of a block must be .*, got int32$"),
        ([1, 2], "^counts of a block must be an array of int64, got list$"),
        (np.zeros(1, dtype=np.int64), r"^counts must have one shape .* got \(1,\) and \(2,\)$"),
    ],
)
def test_counts_of_another_kind_are_refused(counts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        added(np.zeros(2, dtype=np.int64), counts)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_wraps_around_is_found(sign: int) -> None:
    large = np.array([0, sign * (2**62)])
    with pytest.raises(OverflowError, match="left the range of 64-bit integers"):
        added(added(large, large), np.array([0, sign * (2**62)]))


def test_the_largest_sum_is_right() -> None:
    assert added(np.array([2**63 - 2]), np.array([1])) == 2**63 - 1
    assert added(np.array([-(2**63)]), np.array([2**63 - 1])) == -1


def test_a_worker_with_other_software_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*given: Any) -> Any:
        there = answer(*given)
        return there._replace(software={**there.software, "numba": "0.1"})

    monkeypatch.setattr("audit.simulation.backends.threads.answer", elsewhere)
    with pytest.raises(
        ValueError, match=r"^numba must be the same version on all workers, got 0\.1 there and"
    ):
        run_job(Normals())


def test_a_worker_that_does_not_name_its_random_numbers_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Versions before streams were numbered left them out."""

    def older(*given: Any) -> Any:
        there = answer(*given)
        named = {name: v for name, v in there.software.items() if name != "random numbers"}
        return there._replace(software=named)

    monkeypatch.setattr("audit.simulation.backends.threads.answer", older)
    with pytest.raises(
        ValueError,
        match=r"^random numbers must be the same version on all workers, got none there and stream",
    ):
        run_job(Normals())


def test_an_answer_that_does_not_come_back_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scheduler.tasks
    monkeypatch.setattr(scheduler, "tasks", lambda *given: itertools.islice(real(*given), 5))
    with pytest.raises(RuntimeError, match=r"^\d+ of 60 blocks came back$"):
        run_job(Normals(), backend=Parallel(workers=1))


def test_the_default_is_a_thread_for_each_core() -> None:
    with pool(Parallel()) as workers:
        assert workers.workers == available_threads()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "^workers must be a whole number of at least 1, got 0$"),
        ({"kind": "dask"}, "^kind must be a Kind, got 'dask'$"),
        ({"address": "tcp://x:1"}, "^address must be None with threads, got 'tcp://x:1'$"),
        ({"kind": Kind.LOKY, "address": "auto"}, "^address must be None with loky, got 'auto'$"),
        ({"kind": Kind.DASK}, "^address must be that of a running cluster, got None$"),
        ({"kind": Kind.RAY, "address": ""}, "^address must be that of a running cluster, got ''$"),
        (
            {"kind": Kind.DASK, "address": "tcp://x:1", "workers": 2},
            "^workers must be None with dask: the cluster decides, got 2$",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parallel(**given)
