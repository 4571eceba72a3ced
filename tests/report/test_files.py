from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from audit import report
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
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: result must be JSON: "):
        report.load(tmp_path)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        report.load(tmp_path)


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"folder that can be written to, got '.*file'"):
        report.write(result(study()), tmp_path / "file")


def test_importing_the_report_does_not_import_matplotlib() -> None:
    code = (
        "import sys, audit.report;"
        "heavy = {'matplotlib', 'audit.bounds', 'audit.exact', 'audit.simulation',"
        " 'audit.estimation', 'audit.scenario', 'audit.constructions'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


def test_reading_results_does_not_import_matplotlib() -> None:
    code = (
        "import sys; from audit.report import gather, load, terminal;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
