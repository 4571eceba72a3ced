from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit import report
from audit.results import to_json

from .example import bare, example, pair_settings, result, study


def test_load_gives_back_what_was_stored(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(to_json(example()), encoding="utf-8")
    assert report.load(tmp_path) == example()


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
        ('{"version": NaN}', "must be JSON: numbers must be finite, got NaN"),
        ("[]", "result must be a JSON object, got \\[\\]"),
        ("{}", "version must be 2, got None"),
        ('{"version": 7}', "version must be 2, got 7"),
        ('{"format": 1}', "version must be 2, got 1; run the scenario again"),
        ('{"version": 2}', "scenario, provenance, confidence, settings must be"),
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
        (("settings",), [], r"settings must be a list with at least one entry, got \[\]"),
        (("settings", 1, "name"), None, r"settings\[1\].name must be .*, got None"),
        (("settings", 0, "deltas"), None, r"settings\[0\].deltas must be .*, got None"),
        (("settings", 0, "mechanism"), 3, r"settings\[0\].mechanism must be .*, got 3"),
        (("settings", 0, "deltas", 0, "delta"), -0.5, r"delta must be in \[0, 1\), got -0.5"),
        (
            ("settings", 0, "deltas", 0, "exact"),
            {},
            r"exact.forward, reverse, worst must be",
        ),
        (("settings", 0, "deltas", 0, "verdict"), 1, r"deltas\[0\].verdict must be left out"),
        (("settings", 2, "findings", "statements"), 3, r"statements must be .*, got 3"),
        (("settings", 2, "findings", "charts"), [3], r"findings.charts\[0\] must be .*, got 3"),
    ],
)
def test_a_file_that_is_no_result_is_refused(
    tmp_path: Path, path: tuple[str | int, ...], value: object, message: str
) -> None:
    pair = bare(pair_settings()[0])
    stored = json.loads(to_json(result(pair, pair, study())))
    node = stored
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    (tmp_path / "result.json").write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        report.load(tmp_path)
    assert "\n" not in str(caught.value)


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
