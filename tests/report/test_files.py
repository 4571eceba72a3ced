from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit import report

from .example import example


def _store(folder: Path, result: Any) -> Path:
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


def test_load_gives_back_what_was_stored(tmp_path: Path) -> None:
    assert report.load(_store(tmp_path, example())) == json.loads(json.dumps(example()))


def test_missing_folder_or_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"readable result\.json, got '.*nowhere' \(No such file"):
        report.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"must hold a readable result\.json"):
        report.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("", "must be JSON"),
        ('{"format": NaN}', "must be JSON: numbers must be finite, got NaN"),
        ("[]", "result must be an object with named parts, got \\[\\]"),
        ("{}", "format must be 1, got None"),
        ('{"format": 7}', "format must be 1, got 7"),
        ('{"format": 1}', "scenario must be an object with named parts, got None"),
    ],
)
def test_broken_text_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        report.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert "result.json" in str(caught.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        report.load(tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("confidence",), 1.5, r"confidence must be in \(0, 1\), got 1.5"),
        (("settings",), [], r"settings must be a list with one entry or more, got \[\]"),
        (("settings", 1, "name"), None, r"settings\[1\].name must be a word, got None"),
        (("settings", 0, "deltas"), None, r"settings\[0\].deltas must be a list"),
        (("settings", 0, "mechanism"), 3, r"settings\[0\].mechanism must be an object"),
        (("settings", 0, "deltas", 0, "delta"), 0, r"deltas\[0\].delta must be in \(0, 1\), got 0"),
        (("settings", 0, "deltas", 0, "exact"), {}, r"exact.worst must be a pair"),
    ],
)
def test_write_refuses_what_is_no_result(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, message: str
) -> None:
    result: Any = example()
    node = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        report.write(result, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = example()
    result["settings"] = [_bare(result["settings"][0])]
    with pytest.raises(ValueError, match=r"folder that can be written to, got '.*file'"):
        report.write(result, tmp_path / "file")


def test_importing_the_report_does_not_import_matplotlib() -> None:
    code = (
        "import sys, audit.report;"
        "heavy = {'matplotlib', 'audit.bounds', 'audit.exact', 'audit.simulation',"
        " 'audit.estimation', 'audit.scenario', 'audit.constructions'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


def _bare(setting: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "mechanism", "deltas")
    return {key: value for key, value in setting.items() if key in kept}
