"""The flow of data has one direction: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "audit"

GROUND = {"numerics", "curves", "mechanism", "validate", "codec"}
ROOMS = {"bounds", "exact", "simulation", "estimation"}
ROOF = {"cli", "config"}  # the console commands
# What stands beside the package and uses it from outside.
OUTSIDE = {"papers", "results", "tests"}


def imported(source: str, module: str) -> set[str]:
    """Absolute names of all modules that a source file imports, wherever it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def part(name: str) -> str | None:
    """The part of the package that a module belongs to: ``audit.exact.law`` is in ``exact``."""
    pieces = name.split(".")
    return pieces[1] if pieces[0] == "audit" and len(pieces) > 1 else None


def allowed(importer: str, target: str) -> bool:
    """Whether one part of the package may import another."""
    if importer == target or importer in ROOF:
        return True
    if importer in GROUND:
        return target in GROUND
    if importer == "constructions":
        return target in GROUND
    if importer in ROOMS:
        return target in GROUND | {"constructions"}
    if importer == "report":
        return target not in ROOF | {"scenario", "pytest_plugin", "testing"}
    return target not in ROOF


def violations(source: str, module: str) -> list[str]:
    """What a source file imports and may not."""
    importer = part(module)
    found = []
    for name in sorted(imported(source, module)):
        if name.split(".")[0] == "hydra" and importer not in ROOF:
            found.append(f"{module} imports {name}")
        if name.split(".")[0] in OUTSIDE:
            found.append(f"{module} imports {name}")
        target = part(name)
        known = target is not None and (
            (ROOT / target).is_dir() or (ROOT / f"{target}.py").is_file()
        )
        if importer is not None and target is not None and known and not allowed(importer, target):
            found.append(f"{module} imports {name}")
    return found


def modules() -> list[tuple[str, Path]]:
    """Every module of the package but the one that only names the public names."""
    files = sorted(ROOT.rglob("*.py"))
    named = [(".".join(["audit", *f.relative_to(ROOT).with_suffix("").parts]), f) for f in files]
    return [(name, f) for name, f in named if name != "audit.__init__"]


def test_every_import_goes_one_way() -> None:
    found = [v for name, f in modules() for v in violations(f.read_text(encoding="utf-8"), name)]
    assert not found, "\n".join(found)


def test_the_walk_sees_the_package() -> None:
    assert {"audit.mechanism.noisy_sgd", "audit.exact.law"} <= {name for name, _ in modules()}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("audit.exact.law", "from audit.simulation import final_iterates"),
        ("audit.exact.law", "import audit.estimation"),
        ("audit.exact.law", "from audit import bounds"),
        ("audit.exact.law", "def f():\n    from ..simulation import blocks\n"),
        ("audit.simulation.blocks", "from audit.exact.law import Law"),
        ("audit.numerics.panels", "from audit.constructions import Process"),
        ("audit.constructions.walks", "from audit.exact import curve"),
        ("audit.report.html", "from audit.scenario import run"),
        ("audit.report.study_section", "from papers.langevin import LangevinOnQuadratics"),
        ("audit.scenario", "import hydra"),
        ("audit.scenario", "from hydra.core.config_store import ConfigStore"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("audit.exact.law", "from audit.numerics.panels import Panels"),
        ("audit.exact.law", "from audit import validate"),
        ("audit.exact.law", "from .law_curve import LawCurve"),
        ("audit.cli.audit", "import hydra"),
        ("audit.cli.bounds", "import hydra"),
        ("audit.scenario", "from audit import exact, simulation"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert not violations(source, module)
