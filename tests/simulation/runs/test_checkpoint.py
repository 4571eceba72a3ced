"""Folders of records: resumed, refused, damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.simulation import checkpoint, fingerprint, sealed_files
from audit.simulation.backends import Parallel
from audit.simulation.checkpoint import count_checkpoint
from audit.simulation.scheduler import run_job

from .jobs import Normals, Stopping, changed, expected

ONE = Parallel(workers=1)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The folder of a run that was interrupted after half its blocks."""
    folder = tmp_path / "deep" / "run"
    with pytest.raises(KeyboardInterrupt):
        run_job(Stopping(), backend=ONE, folder=folder, record_every=0)
    return folder


def run_half(folder: Path, **changes: Any) -> Any:
    return run_job(changed(Normals(), **changes), backend=ONE, folder=folder, record_every=0)


def latest(folder: Path) -> Path:
    """The record with the most blocks."""

    def blocks(path: Path) -> int:
        finished = json.loads(path.read_text())["body"]["finished"]
        return sum(stop - start for start, stop in finished)

    return max(folder.glob("counts-*.json"), key=blocks)


def test_an_interrupted_run_goes_on_where_it_was(half: Path) -> None:
    seen: list[int] = []
    counts = run_job(Normals(), folder=half, progress=lambda done, _: seen.append(done))
    assert np.array_equal(counts, expected(Normals()))
    assert seen[0] == sum(Normals().work(number) for number in range(31))


def test_what_is_recorded_is_used_and_not_counted_again(half: Path) -> None:
    path = latest(half)
    body = sealed_files.read_sealed(path)
    body["counts"][0] += 1  # a planted error that carries a right checksum
    sealed_files.write_sealed(path, body)
    difference = run_half(half) - expected(Normals())
    assert difference.ravel().tolist() == [1, 0, 0, 0, 0, 0]


def test_a_finished_run_only_reads_its_counts(half: Path) -> None:
    first = run_half(half)
    before = {path: path.read_bytes() for path in half.iterdir()}
    again = run_job(Stopping(at=0), backend=ONE, folder=half)
    assert np.array_equal(first, again)
    assert before == {path: path.read_bytes() for path in half.iterdir()}


def test_an_interrupt_loses_no_finished_block_however_rare_records_are(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_job(Stopping(), backend=ONE, folder=tmp_path, record_every=1000)
    seen: list[int] = []
    run_job(Normals(), folder=tmp_path, progress=lambda done, _: seen.append(done))
    assert seen[0] > 0


def test_files_stay_few_and_small(tmp_path: Path) -> None:
    run_job(Normals(blocks=3000, draws=1), backend=Parallel(workers=2), folder=tmp_path)
    names = ["counts-0.json", "job.json", "lock"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000


def test_records_wait_for_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = 0.0, list[float]()
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now)
    real = sealed_files.write_sealed

    def slow(path: Path, body: Any) -> None:
        nonlocal now
        real(path, body)
        if path.name.startswith("counts"):
            written.append(now)
            now += 2.0 if len(written) == 2 else 0.0

    monkeypatch.setattr(sealed_files, "write_sealed", slow)
    with count_checkpoint(tmp_path, Normals(), seconds=5) as book:
        for number in range(60):
            now += 1.0
            book.add(range(number, number + 1), Normals().counts(number))
    # after the slow one, 2 s are to be at most 5 % of the time
    assert written == [5.0, 10.0, 52.0, 57.0, 62.0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 2}, r"where seed is 1 \(here 2\)$"),
        ({"draws": 7}, r"where walk\.draws is 100 \(here 7\)$"),
        ({"blocks": 61}, r"where blocks is 60 \(here 61\)$"),
        ({"blocks": 61, "seed": 0}, r"where blocks is 60 \(here 61\); seed is 1 \(here 0\)$"),
    ],
)
def test_the_folder_of_another_configuration_is_refused(
    half: Path, change: dict[str, int], named: str
) -> None:
    before = {path: path.read_bytes() for path in half.iterdir()}
    with pytest.raises(ValueError, match=named) as caught:
        run_half(half, **change)
    assert str(caught.value).startswith(
        f"folder must be new or that of the same configuration, got {str(half)!r}, where "
    )
    assert "\n" not in str(caught.value)
    assert before == {path: path.read_bytes() for path in half.iterdir()}
    assert np.array_equal(run_half(half), expected(Normals()))


class Described(Normals):
    """A job that is described by what is given."""

    given: Any = None

    @property
    def description(self) -> Any:
        return self.given


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
    for given in (old, new):
        job = Described()
        object.__setattr__(job, "given", given)
        if given is old:
            run_job(job, folder=tmp_path)
        else:
            with pytest.raises(ValueError, match=named):
                run_job(job, folder=tmp_path)


def test_a_description_that_is_no_plain_data_is_refused(tmp_path: Path) -> None:
    job = Described()
    object.__setattr__(job, "given", {"a": np.float64})
    with pytest.raises(ValueError, match=r"^description of a job must be plain data, got Object"):
        run_job(job, folder=tmp_path)


def test_other_software_is_refused(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "9.9")
    with pytest.raises(ValueError, match=r'where software\.numpy is ".*" \(here "9\.9"\)$'):
        run_half(half)


def test_other_random_numbers_are_refused(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = (
        r'^folder must be new .* where software\.random numbers is "stream 2" \(here "stream 3"\)$'
    )
    monkeypatch.setattr(fingerprint, "STREAM", 3)
    with pytest.raises(ValueError, match=refused):
        run_half(half)


def test_a_folder_in_use_is_refused(half: Path) -> None:
    with (
        count_checkpoint(half, Normals(), seconds=0),
        pytest.raises(ValueError, match=r"^folder must not be in use by another run, got '.*run'$"),
    ):
        run_half(half)
    assert np.array_equal(run_half(half), expected(Normals()))


def test_every_flipped_bit_is_found_or_means_nothing(half: Path) -> None:
    for path in half.glob("*.json"):
        whole, body = path.read_bytes(), sealed_files.read_sealed(path)
        found = 0
        for place in range(8 * len(whole)):
            broken = bytearray(whole)
            broken[place // 8] ^= 1 << place % 8
            try:
                assert sealed_files.unsealed(broken) == body
            except sealed_files.DamagedFile:
                found += 1
        assert found > 0.95 * 8 * len(whole)


def test_every_cut_is_found(half: Path) -> None:
    for path in half.glob("*.json"):
        whole = path.read_bytes()
        for size in range(len(whole) - 1):  # the last byte ends the line
            with pytest.raises(sealed_files.DamagedFile):
                sealed_files.unsealed(whole[:size])


def damage(path: Path) -> None:
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])


def test_a_damaged_record_is_replaced_by_the_one_before_it(half: Path) -> None:
    damage(latest(half))
    with pytest.warns(RuntimeWarning, match=r"is damaged; the run goes on .* with \d+ of 60"):
        counts = run_half(half)
    assert np.array_equal(counts, expected(Normals()))
    assert np.array_equal(run_half(half), counts)  # and the damage is gone


def test_nothing_is_counted_again_in_silence_when_no_record_is_whole(half: Path) -> None:
    for path in half.glob("counts-*.json"):
        damage(path)
    with pytest.raises(
        ValueError, match=r"counts-0\.json and .*counts-1\.json is damaged and no other record is"
    ):
        run_half(half)


def test_a_damaged_description_is_refused_and_can_be_removed(half: Path) -> None:
    damage(half / "job.json")
    with pytest.raises(ValueError, match=r"job\.json is damaged; if it is the right folder"):
        run_half(half)
    (half / "job.json").unlink()
    with pytest.raises(ValueError, match=r"json holds counts of another configuration"):
        run_half(half, seed=2)
    assert not (half / "job.json").exists()
    assert np.array_equal(run_half(half), expected(Normals()))


def test_records_of_another_job_are_refused(half: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    run_job(Normals(seed=2), folder=other)
    shutil.copy(other / "counts-0.json", half / "counts-1.json")
    with pytest.raises(ValueError, match=r"counts-1\.json holds counts of another configuration"):
        run_half(half)


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file cannot be written to: File exists$"):
        run_half(tmp_path / "file")


def test_a_write_that_fails_leaves_the_record_before_it(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in half.iterdir()}

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError,
        match="run cannot be written to: No space left on device; 31 blocks stay recorded",
    ):
        run_half(half)
    assert before == {path: path.read_bytes() for path in half.iterdir()}
    monkeypatch.undo()
    assert np.array_equal(run_half(half), expected(Normals()))
