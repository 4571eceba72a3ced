"""Addresses, versions, workflows and issue forms agree with each other."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import audit

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    version, cited = PROJECT["version"], read(ROOT / "CITATION.cff")
    assert audit.__version__ == cited["version"] == version
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"version = {{{version}}}" in readme
    assert cited["title"] in readme
    assert len(readme.splitlines()) < 150  # a page to start from; the rest is in docs/
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(version)} ", changes, flags=re.MULTILINE)


def test_the_addresses_are_the_same_everywhere() -> None:
    urls = PROJECT["urls"]
    cited = read(ROOT / "CITATION.cff")
    assert cited["repository-code"] == urls["Source"]
    assert cited["url"] == urls["Documentation"]
    repository = urls["Source"].removeprefix("https://github.com/")
    text = "".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CONTRIBUTING.md")
    )
    found = set(re.findall(r"https://(?:github|raw\.githubusercontent)\.com/([\w-]+/[\w-]+)", text))
    assert found == {repository}


def test_the_workflows_test_every_python_that_is_declared() -> None:
    declared = {
        name.rpartition(" ")[2]
        for name in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    }
    tested = read(GITHUB / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert set(tested["python-version"]) == declared


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_workflows_call_targets_and_files_that_exist(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    jobs = read(workflow)["jobs"]
    assert jobs
    for job in jobs.values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            line = step.get("run", "")
            assert set(re.findall(r"\bmake ([a-z-]+)", line)) <= targets, line
            for file in re.findall(r"[\w/.-]+\.yaml", line):
                assert (ROOT / file).is_file(), line


def test_forms_are_those_that_github_takes() -> None:
    assert len(FORMS) == 3
    for found in map(read, FORMS):
        assert set(found) == {"name", "description", "labels", "body"}
        ids = [part["id"] for part in found["body"] if part["type"] != "markdown"]
        assert len(ids) == len(set(ids)) > 1
        for part in found["body"]:
            assert part["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
            assert ("value" if part["type"] == "markdown" else "label") in part["attributes"]


def test_scripts_can_be_run() -> None:
    for name in ("run", "wheel"):
        assert os.access(ROOT / ".ci" / name, os.X_OK)
