"""The committed results: a sample of their numbers is reproduced from stored data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from audit import bounds, exact, report
from audit.cli.audit import read_job
from audit.codec import encode
from audit.exact.from_pair import exact_seconds
from audit.report import joined_rows
from audit.results import Number, PairResult
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
_QUICK = 0.1  # estimated seconds for the exact laws of a setting that is computed again
_SETTINGS = 2  # of a scenario
_MEGABYTES = 15.0


def quick_settings(name: str) -> list[tuple[PairSetting, PairResult]]:
    """Settings whose pair is computed quickly, each with its stored part."""
    folder = FOLDERS[name]
    config = OmegaConf.load(folder / "config.yaml")
    assert isinstance(config, DictConfig)
    scenario = read_job(config, []).scenario
    stored = {one.name: one for one in report.load(folder).settings if isinstance(one, PairResult)}
    pairs = [one for one in scenario.settings if isinstance(one, PairSetting)]
    quick = [one for one in pairs if exact_seconds(one.pair) < _QUICK]
    return [(one, stored[one.name]) for one in quick[:_SETTINGS]]


def differences(setting: PairSetting, stored: PairResult) -> list[str]:
    """What of the stored numbers does not come out again."""
    mechanism, found = setting.pair.mechanism, []
    curve = exact.curve(setting.pair)
    row = stored.deltas[0]
    low, high = curve.epsilon_bracket(row.delta)
    assert row.exact is not None
    kept = row.exact.worst
    # both brackets hold the true value; on other machines their ends may move within the other
    if not (low <= kept.high and kept.low <= high):
        found.append(f"exact {low} to {high}, stored {kept.low} to {kept.high}")
    if not math.isclose(low, kept.low, rel_tol=1e-8):
        found.append(f"certified {low}, stored {kept.low}")
    for bound in row.bounds:
        entry = bounds.CATALOGUE.get(bound.id)
        if entry is None or entry.slow or bound.value is None:
            continue
        claimed = float(entry.evaluate(mechanism).epsilon(row.delta))
        # optimised parameters are found to about 1e-9 (relative)
        if not math.isclose(claimed, bound.value, rel_tol=1e-7):
            found.append(f"{entry.id} {claimed}, stored {bound.value}")
    return found


def test_the_example_of_the_readme_is_there() -> None:
    assert SHOWN in FOLDERS
    assert quick_settings(SHOWN)


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_a_sample_comes_out_again(name: str) -> None:
    for setting, stored in quick_settings(name):
        assert differences(setting, stored) == []


def test_a_changed_number_is_found() -> None:
    setting, stored = quick_settings(SHOWN)[0]
    first, *others = stored.deltas
    assert first.exact is not None
    worst = first.exact.worst
    factor = 1.000001
    wrong = Number(factor * worst.value, factor * worst.low, factor * worst.high)
    changed = replace(first, exact=replace(first.exact, worst=wrong))
    assert len(differences(setting, replace(stored, deltas=(changed, *others)))) == 2
    rows = list(first.bounds)
    at, value = next((i, b.value) for i, b in enumerate(rows) if b.value is not None)
    rows[at] = replace(rows[at], value=value * 0.999999)
    changed = replace(first, bounds=tuple(rows))
    assert len(differences(setting, replace(stored, deltas=(changed, *others)))) == 1


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
    assert content["rows"] == [encode(row.columns) for row in rows]


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
