"""Journals: resumed, refused, damaged."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.simulation import fingerprint, runner
from audit.simulation.backends import Parallel
from audit.simulation.blocks import Counts
from audit.simulation.journal import FILE, Journal, UnusableFolderError, held
from audit.simulation.runner import Kept, Record, Sums, run_job
from audit.simulation.samples import Samples

from .jobs import ROOT, Normals, Stopping, blocks_in, counted, expected, kept, recorded, steps_of
from .runner import BLOCKS

ONE = Parallel(workers=1)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The folder of a run that was interrupted after half its blocks."""
    folder = tmp_path / "deep" / "run"
    counted().run(range(1))  # compiled before: tasks are cut by time
    with pytest.raises(KeyboardInterrupt):
        run_job(counted(Stopping()), backend=ONE, folder=folder, record_every=0)
    return folder


def run_half(folder: Path, **changes: Any) -> Any:
    return np.stack(run_job(counted(**changes), backend=ONE, folder=folder, record_every=0))


# The folder says nothing of errors that are planted in a block.
@pytest.fixture(autouse=True)
def descriptions() -> None:
    assert Stopping().description == Normals().description


def test_an_interrupted_run_goes_on_where_it_was(half: Path) -> None:
    seen: list[int] = []
    counts = run_job(counted(), folder=half, progress=lambda done, _: seen.append(done))
    assert np.array_equal(counts, expected())
    assert seen[0] == steps_of(31)


def test_what_is_recorded_is_used_and_not_counted_again(half: Path) -> None:
    job = counted()
    identity = identity_of(half)
    journal = Journal(half, identity)
    row = dict(journal.read())[0].copy()
    row[3] += 1  # a planted error with a right checksum: the first count, after one range
    journal.write({0: row})
    journal.close()
    difference = run_half(half) - expected()
    assert difference.ravel().tolist() == [1, *[0] * 7]
    assert job.trials == 3000


def identity_of(folder: Path) -> Any:
    with contextlib.closing(sqlite3.connect(folder / FILE)) as database:
        return json.loads(database.execute("SELECT identity FROM job").fetchone()[0])


def test_a_finished_run_only_reads_its_counts(half: Path) -> None:
    first = run_half(half)
    before = {path: path.read_bytes() for path in half.iterdir()}
    assert [path.name for path in before] == [FILE]
    again = run_job(counted(Stopping(at=0)), backend=ONE, folder=half)
    assert np.array_equal(first, again)
    assert before == {path: path.read_bytes() for path in half.iterdir()}


def test_an_interrupt_loses_no_finished_block_however_rare_records_are(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_job(counted(Stopping()), backend=ONE, folder=tmp_path, record_every=1000)
    assert blocks_in(tmp_path) == 31


def test_the_journal_of_counts_stays_small(tmp_path: Path) -> None:
    run_job(counted(Normals(1), blocks=3000), backend=ONE, folder=tmp_path, record_every=0)
    assert (tmp_path / FILE).stat().st_size < 20_000


def test_records_wait_for_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = 0.0, list[float]()
    real = Journal.write
    monkeypatch.setattr(runner.time, "monotonic", lambda: now)

    def slow(journal: Journal, arrays: Any) -> None:
        nonlocal now
        real(journal, arrays)
        written.append(now)
        now += 2.0 if len(written) == 2 else 0.0

    monkeypatch.setattr(Journal, "write", slow)
    job = counted()
    results = Sums(job)
    record = Record(tmp_path, job, results, 5.0)
    for number in range(60):
        blocks = range(number, number + 1)
        results.add(blocks, job.run(blocks))
        record.add(blocks)
        now += 1.0
    record.close()
    # after the slow one, 2 s are to be at most 5 % of the time
    assert written == [5.0, 10.0, 52.0, 57.0, 62.0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 2}, r"where seed is 1 \(here 2\)$"),
        ({"program": Normals(50), "blocks": 120}, r"where blocks is 60 \(here 120\); block is 100"),
        ({"blocks": 62}, r"where blocks is 60 \(here 62\); trials is 3000 \(here 3100\)$"),
    ],
)
def test_the_folder_of_another_configuration_is_refused(half, change, named):
    before = {path: path.read_bytes() for path in half.iterdir()}
    with pytest.raises(ValueError, match=named) as caught:
        run_half(half, **change)
    assert str(caught.value).startswith(
        f"folder must be new or that of the same configuration, got {str(half)!r}, where "
    )
    assert "\n" not in str(caught.value)
    assert before == {path: path.read_bytes() for path in half.iterdir()}
    assert np.array_equal(run_half(half), expected())


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, r"a\[2\] is absent \(here 3\)$"),
        ({"a": 1}, {"b": 1}, r"b is absent \(here 1\); a is 1 \(here absent\)$"),
        ({"a": None}, {"a": {}}, r"a is null \(here {}\)$"),
        ({"blocks": 60}, {"blocks": 61}, r"blocks is 60 \(here 61\)$"),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, r"a is 0\.30000000000000004 \(here 0\.3\)$"),
        ({"a": list(range(9))}, {"a": [9] * 9}, r"a\[2\] is 2 \(here 9\); and 6 more$"),
        ({"a": "x" * 99 + "y"}, {"a": "x" * 100}, r"a is \"x{56}\.\.\. \(here \"x{56}\.\.\.\)$"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, old: Any, new: Any, named: str) -> None:
    Journal(tmp_path, {"description": old}).close()
    with pytest.raises(ValueError, match=named):
        Journal(tmp_path, {"description": new})
    Journal(tmp_path, {"description": old}).close()


def test_a_description_that_is_no_plain_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^description of a job must be plain data, got Object"):
        Journal(tmp_path, {"a": np.float64})
    assert list(tmp_path.iterdir()) == []


def test_other_software_is_refused(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "9.9")
    with pytest.raises(
        UnusableFolderError,
        match=r'where software\.numpy is ".*" \(here "9\.9"\); remove it to begin again$',
    ):
        run_half(half)


def test_other_random_numbers_are_refused(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = r'where software\.random numbers is "stream 2" \(here .*; remove it to begin again$'
    monkeypatch.setattr(fingerprint, "STREAM", 3)
    with pytest.raises(ValueError, match=refused):
        run_half(half)


@pytest.mark.parametrize("name", ["job.json", "trials.jsonl"])
def test_records_of_a_former_version_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(
        ValueError, match=rf"^folder must be new .* with {name} of a former one; remove it to begin"
    ):
        run_half(tmp_path)


def test_a_folder_in_use_is_refused(half: Path) -> None:
    with (
        held(half),
        pytest.raises(ValueError, match=r"^folder must not be in use by another run, got '.*run'$"),
    ):
        run_half(half)
    assert np.array_equal(run_half(half), expected())


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_file_that_was_cut_is_refused(half: Path, share: float) -> None:
    whole = (half / FILE).read_bytes()
    (half / FILE).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        UnusableFolderError, match=rf"{FILE} is damaged; remove {half} to begin again$"
    ) as caught:
        run_half(half)
    assert "\n" not in str(caught.value)


def test_something_else_in_its_place_is_refused(half: Path) -> None:
    (half / FILE).write_bytes(b"something else\n" * 1000)
    with pytest.raises(ValueError, match=r"is damaged; remove"):
        run_half(half)


def outcome(folder: Path) -> tuple[Any, str]:
    try:
        return run_half(folder), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.filterwarnings("ignore:.*is damaged at number.*:RuntimeWarning")
def test_a_flipped_bit_never_changes_a_count(half: Path) -> None:
    whole, refused = (half / FILE).read_bytes(), 0
    places = np.random.default_rng(0).integers(8 * len(whole), size=60).tolist()
    for place in places:
        broken = bytearray(whole)
        broken[place // 8] ^= 1 << place % 8
        (half / FILE).write_bytes(broken)
        for left in half.glob(f"{FILE}-*"):
            left.unlink()
        counts, said = outcome(half)
        if said:
            assert "damaged" in said or "same configuration" in said
            refused += 1
        else:
            assert np.array_equal(counts, expected())
    assert refused < len(places)  # most of the file is empty room


def test_a_damaged_row_is_computed_again(tmp_path: Path) -> None:
    whole = run_job(kept(), folder=tmp_path, record_every=0)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute("UPDATE results SET data = zeroblob(800) WHERE number = 7")
    seen: list[int] = []
    with pytest.warns(RuntimeWarning, match=rf"{FILE} is damaged at number 7, which is computed"):
        again = run_job(kept(), folder=tmp_path, progress=lambda done, _: seen.append(done))
    assert np.array_equal(again, whole)
    assert seen == [steps_of(60) - 200, steps_of(60)]


def test_samples_take_little_more_than_their_room(tmp_path: Path) -> None:
    job = kept(Normals(1000))
    whole = np.stack(run_job(job, folder=tmp_path, record_every=0))
    rows = recorded(tmp_path)
    assert sorted(rows) == list(range(60))
    assert rows[3] == whole[1, 1000:2000].astype("<f8").tobytes()
    assert (tmp_path / FILE).stat().st_size < 1.1 * whole.nbytes + 20_000


def test_a_short_run_that_keeps_samples_writes_nothing(tmp_path: Path) -> None:
    run_job(kept(), folder=tmp_path / "none", record_every=100.0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_began_at_the_same_time_is_noticed(tmp_path: Path) -> None:
    job: Samples = kept()
    late = Record(tmp_path, job, Kept(job), 0.0)  # found nothing at its start
    run_job(job, folder=tmp_path, record_every=0)
    with pytest.raises(ValueError, match=r"holds results of another run that began meanwhile"):
        late.add(range(1))
    late._waiting = []
    late.close()


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file cannot be written to: File exists$"):
        run_half(tmp_path / "file")


# -------------------------------- Runs whose process dies: killed at any moment, or on a full disk


RUNNER = "tests.simulation.runs.runner"


def start(folder: Path, seconds: float, end: str = "never") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", RUNNER, str(folder), str(seconds), end],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path) -> tuple[int, Counts]:
    """Run to the end in this process: the steps it began with, and the counts."""
    seen: list[int] = []
    counts = run_job(
        counted(blocks=BLOCKS), folder=folder, progress=lambda done, _: seen.append(done)
    )
    return seen[0], np.stack(counts)


def killed(folder: Path, seconds: float, wait: float) -> int:
    """Kill a run so long after its beginning; the steps it began with."""
    process = start(folder, seconds)
    assert process.stdout is not None
    begun = int(process.stdout.readline())
    time.sleep(wait)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -9, "the run was over before it was killed"
    return begun


def test_kills_change_no_bit(tmp_path: Path) -> None:
    # of a run of several seconds, none of the kills comes at its end
    begun = [killed(tmp_path, 0.05, wait) for wait in (0.1, 0.3)]
    last, counts = finish(tmp_path)
    begun.append(last)
    assert begun == sorted(begun), "a kill took back what was recorded"
    assert begun[-1] > 0
    assert np.array_equal(counts, expected(BLOCKS))


def test_a_full_disk_ends_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    out, err = start(tmp_path, 0.0, "full:200").communicate(timeout=60)
    assert len(out.splitlines()) == 1  # no counts
    (line,) = err.splitlines()
    assert line.startswith(f"{tmp_path} cannot be written to: ")
    assert line.endswith("; what is recorded stays, and a new start goes on from it")
    kept = blocks_in(tmp_path)
    assert 200 <= kept < BLOCKS
    begun, counts = finish(tmp_path)
    assert begun == steps_of(kept)
    assert np.array_equal(counts, expected(BLOCKS))
