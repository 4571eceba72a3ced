"""Folders of runs appear whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.scenario import RunFolder


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    with folder.write() as draft:
        (draft / "a").write_text("1")
        assert not (tmp_path / "run").exists()
    assert folder.place == tmp_path / "run"
    assert (folder.place / "a").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]

    def fails() -> None:
        with RunFolder(tmp_path, "run").write() as draft:
            (draft / "b").write_text("1")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    # what cannot be written to is told before the work
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.TemporaryFile", lambda dir: (dir / "no" / "file").open())
        with pytest.raises(ValueError, match="can be written to"):
            RunFolder(tmp_path, "run")
    # a name that is taken gets a number
    with RunFolder(tmp_path, "run").write():
        pass
    assert {p.name for p in tmp_path.iterdir()} == {"run", "run-2"}
