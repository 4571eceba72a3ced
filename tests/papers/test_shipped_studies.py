"""Every study that a shipped scenario names is registered where it is defined."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from audit.mechanism import Batching
from audit.results import Verdict
from audit.scenario.definition import load
from audit.scenario.folders import scenario_files, scenarios_folder
from audit.scenario.studies import STUDIES, read_study
from papers import batch_samplers
from papers.batch_samplers import BatchSamplers
from tests.test_imports import imported

ROOT = Path(__file__).resolve().parents[2]


def named() -> dict[str, dict[str, object]]:
    found = {}
    for name in scenario_files():
        text = (scenarios_folder() / f"{name}.yaml").read_text(encoding="utf-8")
        for setting, content in yaml.safe_load(text)["settings"].items():
            if "study" in content:
                found[f"{name}:{setting}"] = content["study"]
    return found


@pytest.mark.parametrize(("place", "plain"), named().items())
def test_a_named_study_is_registered_and_read(place: str, plain: dict[str, object]) -> None:
    function = str(plain["function"])
    target = load(function)
    assert STUDIES[function] is target
    assert dataclasses.is_dataclass(target)
    assert type(read_study(plain).parameters) is target


def test_shipped_studies_are_found_from_any_folder(tmp_path: Path) -> None:
    """Without the path that pytest sets up for these tests."""
    code = (
        "from audit.scenario.studies import read_study; "
        "print(read_study({'function': 'papers.side_statements:SideStatements', 'delta': 1e-5, "
        "'renyi_order': 2, 'mixtures': 1}).parameters.mixtures)"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr


def test_every_study_of_the_papers_is_named_by_a_scenario() -> None:
    asked = {str(plain["function"]) for plain in named().values()}
    shipped = {name for name in STUDIES if name.startswith("papers.")}
    assert shipped <= asked
    modules = {name.partition(":")[0] for name in asked}
    assert len(modules) == len(asked)  # one study a file


@pytest.mark.parametrize(
    "path", sorted((ROOT / "scenarios" / "papers").glob("*.py")), ids=lambda path: path.stem
)
def test_studies_use_public_names_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parts = {part for name in imported(text, f"papers.{path.stem}") for part in name.split(".")}
    attributes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    used = {one.attr for one in attributes if getattr(one.value, "id", "") not in ("self", "cls")}
    assert [name for name in parts | used if re.match(r"_(?!_)", name)] == []


# -------------------- The study of batch samplers: verdicts, and what a planted error does to them


STUDY = BatchSamplers(
    delta=1e-5, epochs=2, batch_size=50, truncation=1.5, batches=20, noise_multipliers=(0.7, 1.0),
    noise_multiplier=1.0, numbers_of_batches=(2, 10), last_iterate_steps=4,
)  # fmt: skip


@pytest.mark.slow
def test_shuffling_refutes_accounting_for_poisson_batches() -> None:
    findings = STUDY.find(progress=lambda done, total: None)
    verdicts = [Verdict.REFUTED, Verdict.CONSISTENT, Verdict.HOLDS, Verdict.CONSISTENT]
    assert [one.verdict for one in findings.statements] == verdicts
    assert len(findings.charts) == 2
    for noise, poisson, allocated, low, high, enough in findings.tables[0].rows:
        assert allocated < poisson < low < high
        assert enough > noise
    assert findings.notes[0].startswith("What to take home: account for the batches that you draw.")


def test_a_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poisson batches under another name do not refute; full ones for random allocation do."""
    names = ("Poisson", "random allocation", "shuffled every epoch")
    kinds = (Batching.POISSON, Batching.RESHUFFLED, Batching.POISSON)
    monkeypatch.setattr(batch_samplers, "SAMPLERS", dict(zip(names, kinds, strict=True)))
    findings = replace(STUDY, last_iterate_steps=0).find(progress=lambda done, total: None)
    verdicts = [one.verdict for one in findings.statements]
    assert verdicts[:2] == [Verdict.CONSISTENT, Verdict.REFUTED]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="noise_multipliers must be two or more rising numbers"):
        replace(STUDY, noise_multipliers=(1.0, 0.7))
    with pytest.raises(ValueError, match="truncation must be"):
        replace(STUDY, truncation=0.5)
