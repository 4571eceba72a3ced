from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from audit import report
from audit.report.files import store
from audit.results import to_json

from .example import example, result, study


def test_load_gives_back_what_was_stored(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(to_json(example()), encoding="utf-8")
    assert report.load(tmp_path) == example()


def test_missing_folder_or_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"readable result\.json, got '.*nowhere' \(No such file"):
        report.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"must hold a readable result\.json"):
        report.load(tmp_path)


def test_what_is_no_result_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for written, message in (
        (b"{", f"^{re.escape(str(path))}: result must be JSON: "),
        (b"\xff\xfe\x00", f"got '{re.escape(str(tmp_path))}' \\(not UTF-8 text"),
    ):
        path.write_bytes(written)
        with pytest.raises(ValueError, match=message):
            report.load(tmp_path)


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"folder that can be written to, got '.*file'"):
        report.write(result(study()), tmp_path / "file")


def test_a_full_disk_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page").write_text("the former one")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"can be written to, got '.*' \(No space left on device"):
        store({"page": b"new"}, tmp_path)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"page": "the former one"}


def test_neither_importing_the_report_nor_reading_results_imports_matplotlib() -> None:
    code = (
        "import sys, audit.report;"
        "heavy = {'matplotlib', 'audit.bounds', 'audit.exact', 'audit.simulation',"
        " 'audit.estimation', 'audit.scenario', 'audit.constructions'} & set(sys.modules);"
        "from audit.report import gather, load, terminal;"
        "heavy |= {'matplotlib'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
