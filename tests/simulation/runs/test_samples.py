"""Samples on any backend: stored, resumed, refused, damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import simulation
from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    Mapped,
    Process,
    Step,
    TwoSidedWalk,
    UpdateMap,
)
from audit.simulation import Kind, Parallel, blocks, checkpoint, final_iterates
from audit.simulation.checkpoint import SampleCheckpoint, sample_checkpoint
from audit.simulation.fingerprint import digest_of
from audit.simulation.iterates import Iterates
from audit.simulation.sealed_files import locked

from ..cases import mechanism, process
from .test_dask import cluster

TRIALS = 20_000


@dataclass(frozen=True)
class Waves(Construction):
    """Two processes with a map that NumPy runs, so that other processes need not compile."""

    citation = "a test"

    def processes(self) -> tuple[Process, Process]:
        step = Step((Mapped(np.sin),), (1.0,), 1.0)
        return process(*[step] * 3), process(*[step] * 3)


PAIR = BiasedWalk(mechanism())


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.simulation.iterates.LARGEST_OF_WALKS", 256)


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


def test_samples_are_the_same_in_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # which know nothing of the small blocks
    drawn = [
        final_iterates(Waves(mechanism()), trials=200_000, seed=3, backend=backend)
        for backend in (Parallel(workers=1), Parallel(Kind.LOKY, 2))
    ]
    assert np.array_equal(drawn[0], drawn[1])
    assert np.unique(drawn[0]).size > 390_000


def test_samples_are_the_same_wherever_they_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    plain = draw(trials=300_000)
    assert np.array_equal(draw(trials=300_000, backend=Parallel(workers=8)), plain)
    with cluster(n_workers=2, processes=False, protocol="tcp://") as running:
        backend = Parallel(Kind.DASK, address=running.scheduler_address)
        assert np.array_equal(draw(trials=300_000, backend=backend), plain)
        with simulation.pool(backend) as workers:  # made ready once for several runs
            for _ in range(2):
                assert np.array_equal(draw(trials=300_000, backend=workers), plain)


def test_an_interrupted_run_goes_on_where_it_was(half: Path) -> None:
    seen: list[tuple[int, int]] = []
    x = draw(half, progress=lambda *now: seen.append(now), threads=2)
    assert 0.4 < seen[0][0] / seen[0][1] < 0.7
    assert seen[-1][0] == seen[-1][1]
    assert np.array_equal(x, draw())


def test_what_is_kept_is_used_and_not_drawn_again(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = draw(half)
    monkeypatch.setattr(Iterates, "values", None)  # nothing can be drawn
    assert np.array_equal(draw(half), whole)
    assert np.array_equal(whole, draw_apart(monkeypatch))


def draw_apart(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.undo()
    monkeypatch.setattr("audit.simulation.iterates.LARGEST_OF_WALKS", 256)
    return draw()


def test_little_more_than_the_samples_is_kept(tmp_path: Path) -> None:
    draw(tmp_path, threads=2)
    files = sorted(tmp_path.iterdir())
    assert {path.name.split("-")[0] for path in files} == {"blocks", "job.json", "lock"}
    sizes = sum(path.stat().st_size for path in files)
    assert 16 * TRIALS < sizes < 16 * TRIALS + 400 * len(files) + 2000


def test_a_short_run_writes_nothing(tmp_path: Path) -> None:
    draw(tmp_path / "none", record_every=100.0)
    assert list(tmp_path.iterdir()) == []


def test_files_stay_few_in_a_long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now)
    parts = Iterates(((PAIR.processes()[0], blocks.Stream.X),), 256 * 3000, 0, PAIR)
    folder = tmp_path / "long"
    with sample_checkpoint(folder, parts, seconds=5.0) as records:
        for number in range(3000):
            records.add(range(number, number + 1), np.zeros(256))
            now += 1.0
            if number == 3:
                assert list(tmp_path.iterdir()) == []
    # one each 5 blocks up to 250 blocks, then each file is a fiftieth more
    assert 100 < len(list(folder.glob("blocks-*.bin"))) < 50 + 50 * np.log(3000 / 250) + 2
    with sample_checkpoint(folder, parts, seconds=5.0) as records:
        assert sum(len(found) for found, _ in records.found()) == 3000
        assert records.finished == (range(3000),)


@pytest.mark.parametrize("place", [5, 90, 300, -1])
def test_a_damaged_file_is_refused_and_can_be_removed(half: Path, place: int) -> None:
    path = sorted(half.glob("blocks-*.bin"))[1]
    broken = bytearray(path.read_bytes())
    broken[place] ^= 1
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=r"\.bin is damaged; remove that file to draw its") as said:
        draw(half)
    assert str(path) in str(said.value)
    path.unlink()
    assert np.array_equal(draw(half), draw())


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_file_that_was_cut_is_refused(half: Path, size: int) -> None:
    path = sorted(half.glob("blocks-*.bin"))[0]
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"\.bin is damaged; remove that file"):
        draw(half)


def test_a_draft_that_a_kill_left_is_removed(half: Path) -> None:
    (half / "blocks-9.bin.new").write_bytes(b"half of i")
    assert np.array_equal(draw(half), draw())
    assert not list(half.glob("*.new"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 4}, r"where seed is 3 \(here 4\)"),
        ({"trials": 20_001}, r"where trials is 20000 \(here 20001\)"),
    ],
)
def test_the_folder_of_another_configuration_is_refused(
    half: Path, change: dict[str, int], named: str
) -> None:
    kept = {path: path.read_bytes() for path in half.iterdir()}
    with pytest.raises(ValueError, match=rf"{named}; remove .*samples to draw all samples again$"):
        draw(half, **change)
    assert kept == {path: path.read_bytes() for path in half.iterdir()}


def test_another_pair_other_software_and_other_files_are_refused(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r'where pair\.type is ".*BiasedWalk" \(here ".*Two'):
        final_iterates(TwoSidedWalk(mechanism()), trials=TRIALS, seed=3, folder=half)
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "9.9")
        with pytest.raises(ValueError, match=r'where software\.numpy is ".*" \(here "9\.9"\)'):
            draw(half)
    (half / "job.json").unlink()
    with pytest.raises(ValueError, match=r"bin holds samples of another configuration"):
        draw(half, seed=4)


def test_a_folder_in_use_is_refused(half: Path) -> None:
    with locked(half), pytest.raises(ValueError, match="folder must not be in use by another run"):
        draw(half)


def test_a_run_that_began_at_the_same_time_is_noticed(half: Path) -> None:
    job = Iterates(((PAIR.processes()[0], blocks.Stream.X),), TRIALS, 3, PAIR)
    (half / "job.json").unlink()
    records = SampleCheckpoint(half, job, seconds=0.0)
    with pytest.raises(ValueError, match=r"holds samples that another run has drawn meanwhile"):
        records.add(range(1), np.zeros(256))
    records.close()


def test_a_disk_that_is_full_ends_in_one_line(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"samples cannot be written to: No space left.*; \d+ blocks"):
        draw(half)
    monkeypatch.undo()
    monkeypatch.setattr("audit.simulation.iterates.LARGEST_OF_WALKS", 256)
    assert np.array_equal(draw(half), draw())


def test_samples_that_no_memory_holds_are_refused() -> None:
    for trials in (10**15, 10**19):
        with pytest.raises(ValueError, match=r"^trials must be so few that their samples fit into"):
            draw(trials=trials)


def test_the_description_is_plain_and_complete() -> None:
    job = Iterates(((PAIR.processes()[0], blocks.Stream.X),), 10, 3, PAIR)
    told = json.loads(json.dumps(job.description))
    assert told == job.description
    assert told["pair"]["type"].endswith(":BiasedWalk")
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
    counts = [
        simulation.WalkCounts(pair=p, thresholds=(0.0,), trials=9, seed=1) for p in (before, after)
    ]
    first, second = (one.description for one in counts)
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
