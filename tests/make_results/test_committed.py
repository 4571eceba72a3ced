"""The committed results fit their configurations, the index and the pages.

``tests/test_stored_numbers.py`` computes a sample of their numbers again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from audit import report
from audit.cli.audit import read_job
from audit.report import joined_rows
from audit.results import PairResult
from audit.scenario.pair import PairSetting
from results.scenarios.make import names
from results.scenarios.publish import SHOWN, place_of

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
INDEX = RESULTS / "scenarios"
FOLDERS = {
    name: place_of(name, RESULTS)
    for name in names(ROOT / "scenarios")
    if (place_of(name, RESULTS) / "result.json").is_file()
}
_MEGABYTES = 15.0


def test_the_example_of_the_readme_is_there() -> None:
    assert SHOWN in FOLDERS


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_results_are_of_the_committed_configuration(name: str) -> None:
    config = OmegaConf.load(FOLDERS[name] / "config.yaml")
    assert isinstance(config, DictConfig)
    scenario, stored = read_job(config, []).scenario, report.load(FOLDERS[name])
    assert [one.name for one in scenario.settings] == [one.name for one in stored.settings]
    for setting, result in zip(scenario.settings, stored.settings, strict=True):
        if isinstance(setting, PairSetting) and setting.search is None:
            assert isinstance(result, PairResult)
            assert result.pair == setting.pair
            assert {row.delta for row in result.deltas} == set(setting.deltas)


def test_every_scenario_has_its_committed_results() -> None:
    """Nothing is skipped: without its results a scenario says nothing to a reader."""
    missing = sorted(set(names(ROOT / "scenarios")) - set(FOLDERS))
    assert not missing, f"make results has to be run: {', '.join(missing)}"


def test_every_scenario_is_in_the_index_without_an_error() -> None:
    content = json.loads((INDEX / "results.json").read_text(encoding="utf-8"))
    assert content["errors"] == 0
    known = names(ROOT / "scenarios")
    assert set(FOLDERS) == set(known)
    assert {row["scenario"] for row in content["rows"]} == {Path(name).name for name in known}
    page = (INDEX / "index.html").read_text(encoding="utf-8")
    assert all(f"scenario={name}" in page for name in known)


def test_the_index_holds_the_numbers_of_the_folders() -> None:
    content = json.loads((INDEX / "results.json").read_text(encoding="utf-8"))
    rows = joined_rows.rows(report.gather([RESULTS / SHOWN, INDEX]))
    assert content["rows"] == [row.columns for row in rows]


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in (RESULTS / "catalogue" / "catalogue.md", INDEX / "index.md", INDEX / "README.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        assert links
        for link in links:
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_dates_are_in_the_provenance_alone() -> None:
    details = json.loads((INDEX / "provenance.json").read_text(encoding="utf-8"))
    assert set(details) == set(FOLDERS)
    for name, folder in FOLDERS.items():
        assert report.load(folder).provenance.environment is None, name
        assert details[name]["started"], name


def test_the_committed_results_are_small() -> None:
    files = [f for place in (INDEX, RESULTS / SHOWN) for f in place.rglob("*") if f.is_file()]
    assert sum(file.stat().st_size for file in files) < _MEGABYTES * 1e6
