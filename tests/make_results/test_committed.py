"""The committed results: a sample of their numbers comes out again from what is stored."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from audit import bounds, exact, report
from audit.config import AuditConfig, to_scenario
from audit.exact.cost import exact_seconds
from audit.report import joined
from audit.scenario.definition import Setting
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


def quick_settings(name: str) -> list[tuple[Setting, dict[str, Any]]]:
    """Settings whose pair is computed quickly, each with its stored part."""
    folder = FOLDERS[name]
    merged = OmegaConf.merge(
        OmegaConf.structured(AuditConfig), OmegaConf.load(folder / "config.yaml")
    )
    config = OmegaConf.to_object(merged)
    assert isinstance(config, AuditConfig)
    stored = {setting["name"]: setting for setting in report.load(folder)["settings"]}
    pairs = [one for one in to_scenario(config).settings if isinstance(one, Setting)]
    quick = [one for one in pairs if exact_seconds(one.pair) < _QUICK]
    return [(one, stored[one.name]) for one in quick[:_SETTINGS]]


def differences(setting: Setting, stored: dict[str, Any]) -> list[str]:
    """What of the stored numbers does not come out again."""
    mechanism, found = setting.pair.mechanism, []
    curve = exact.curve(setting.pair)
    row = stored["deltas"][0]
    low, high = curve.epsilon_bracket(row["delta"])
    kept_low, kept_high = row["exact"]["worst"]
    # both brackets hold the true value; on other machines their ends may move within the other
    if not (low <= kept_high and kept_low <= high):
        found.append(f"exact {low} to {high}, stored {kept_low} to {kept_high}")
    if not math.isclose(low, kept_low, rel_tol=1e-8):
        found.append(f"certified {low}, stored {kept_low}")
    for bound in row["bounds"]:
        entry = bounds.CATALOGUE.get(bound["id"])
        if entry is None or entry.slow or bound["epsilon"] is None:
            continue
        claimed = float(entry.evaluate(mechanism).epsilon(row["delta"]))
        # optimised parameters are found to about 1e-9 (relative)
        if not math.isclose(claimed, bound["epsilon"], rel_tol=1e-7):
            found.append(f"{entry.id} {claimed}, stored {bound['epsilon']}")
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
    changed = copy.deepcopy(stored)
    changed["deltas"][0]["exact"]["worst"] = [
        1.000001 * end for end in stored["deltas"][0]["exact"]["worst"]
    ]
    assert len(differences(setting, changed)) == 2
    changed = copy.deepcopy(stored)
    (first, *_) = [b for b in changed["deltas"][0]["bounds"] if b["epsilon"] is not None]
    first["epsilon"] *= 0.999999
    assert len(differences(setting, changed)) == 1


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
    assert content["rows"] == joined.rows(report.gather([RESULTS / SHOWN, INDEX]))


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
        kept = report.load(folder)["provenance"]
        assert "started" not in kept, name
        assert details[name]["started"], name


def test_the_committed_results_are_small() -> None:
    files = [f for place in (INDEX, RESULTS / SHOWN) for f in place.rglob("*") if f.is_file()]
    assert sum(file.stat().st_size for file in files) < _MEGABYTES * 1e6
