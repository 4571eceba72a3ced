"""Folders of runs appear whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.scenario import RunFolder


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
