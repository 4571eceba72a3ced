"""Folders of runs appear whole, and each setting has checkpoints of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.constructions import BiasedWalk
from audit.scenario import RunFolder
from audit.scenario.sampling import Sampling
from audit.simulation import Parallel

from .small import mechanism


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
