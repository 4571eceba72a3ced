"""Samples are drawn one setting ahead, which changes no number; folders of runs appear whole."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.constructions import BiasedWalk, Construction
from audit.progress import Report
from audit.scenario import RunFolder
from audit.scenario.sampling import MOST_AHEAD, PrefetchedSamples, SampleRequest, Samples, Sampling
from audit.simulation import Parallel

from .small import mechanism

PAIR = BiasedWalk(mechanism())


@dataclass
class Recorded:
    """Stands for `Sampling`: notes each draw, and holds those of ``held`` seeds back."""

    folder: Path | None = None
    held: dict[int, threading.Event] = field(default_factory=dict)
    drawn: list[tuple[int, str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def final_iterates(
        self, pair: Construction, trials: int, seed: int, progress: Report
    ) -> Samples:
        self.drawn.append((seed, threading.current_thread().name))
        if seed == 13:
            raise ValueError("noise_std must be positive, got -1")
        try:
            while seed in self.held and not self.held[seed].wait(0.002):
                progress(0, 1)
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        progress(1, 1)
        return np.full(2, float(seed)), np.full(2, -float(seed))


def ahead(sampling: Recorded, *seeds: int, trials: int = 1000) -> PrefetchedSamples:
    given: Any = sampling
    return PrefetchedSamples(given, [SampleRequest(PAIR, trials, seed) for seed in seeds])


def take(drawn: PrefetchedSamples, seed: int, trials: int = 1000) -> float:
    x, x_prime = drawn.final_iterates(PAIR, trials, seed, lambda done, total: None)
    assert np.array_equal(x, -x_prime)
    return float(x[0])


def until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_next_draw_begins_when_one_is_taken() -> None:
    sampling = Recorded()
    with ahead(sampling, 1, 2, 3) as drawn:
        assert take(drawn, 1) == 1.0
        until(lambda: len(sampling.drawn) == 2)  # the second, though nobody asked for it
        assert [take(drawn, seed) for seed in (2, 3)] == [2.0, 3.0]
    assert [seed for seed, _ in sampling.drawn] == [1, 2, 3]
    assert all(name.startswith("samples") for _, name in sampling.drawn)


def test_what_was_not_named_is_drawn_when_it_is_asked_for() -> None:
    sampling = Recorded()
    with ahead(sampling, 1) as drawn:
        assert take(drawn, 7) == 7.0
        assert take(drawn, 1, trials=2000) == 1.0
    here = threading.current_thread().name
    assert {(7, here), (1, here)} <= set(sampling.drawn)


def test_many_trials_wait_until_they_are_asked_for() -> None:
    sampling = Recorded()
    with ahead(sampling, 1, trials=MOST_AHEAD + 1) as drawn:
        assert sampling.drawn == []
        assert take(drawn, 1, trials=MOST_AHEAD + 1) == 1.0


def test_a_failure_in_the_thread_is_that_of_the_setting() -> None:
    with ahead(Recorded(), 1, 13) as drawn:
        assert take(drawn, 1) == 1.0
        with pytest.raises(ValueError, match="noise_std must be positive, got -1"):
            take(drawn, 13)


def test_a_run_that_fails_does_not_wait_for_samples() -> None:
    sampling = Recorded(held={2: threading.Event()})

    def interrupted() -> None:
        with ahead(sampling, 1, 2) as drawn:
            take(drawn, 1)
            until(lambda: len(sampling.drawn) == 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sampling.ended == ["_Stopped"]


def test_progress_is_shown_from_the_time_of_the_question() -> None:
    sampling, shown = Recorded(held={1: threading.Event()}), []
    with ahead(sampling, 1) as drawn:
        until(lambda: sampling.drawn)
        threading.Timer(0.05, sampling.held[1].set).start()
        drawn.final_iterates(PAIR, 1000, 1, lambda done, total: shown.append((done, total)))
    assert shown[0] == (0, 1)
    assert shown[-1] == (1, 1)


def test_a_folder_appears_at_the_end(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    with folder.write() as draft:
        (draft / "a").write_text("1")
        assert not (tmp_path / "run").exists()
    assert folder.place == tmp_path / "run"
    assert (folder.place / "a").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")

    def fails() -> None:
        with folder.write() as draft:
            (draft / "a").write_text("1")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder(tmp_path, "run").write():
            pass
    assert {p.name for p in tmp_path.iterdir()} == {"run", "run-2"}


def test_each_setting_has_checkpoints_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.scenario.sampling.SECONDS", 0.0)
    for seed in (1, 2):
        sampling, pair = Sampling(Parallel(), tmp_path), BiasedWalk(mechanism(steps=3))
        sampling.final_iterates(pair, 1000, seed, lambda done, total: None)
    assert {p.name for p in tmp_path.iterdir()} == {"1", "2"}
