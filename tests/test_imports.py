"""Rooms are ordered, and imports point down: who may import whom."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
ROOT = TOP / "audit"

# From the top; rooms of one row do not import each other.
ROWS = (
    {"cli"},
    {"scenario", "report", "pytest_plugin", "testing"},
    {"claims", "training"},
    {"search", "results"},
    {"exact", "simulation", "estimation", "bounds"},
    {"constructions", "adapters", "dominating"},
    {"curves", "mechanism", "isolation"},
    {"codec"},
    {"numerics", "progress", "validate"},
)
ROW = {room: number for number, rooms in enumerate(ROWS) for room in rooms}
# A report is drawn from what was computed before: it may know types, and computes nothing.
COMPUTING = {"claims", "exact", "search", "simulation"}
HYDRA = {"hydra", "omegaconf"}
# Modules that import another one of their room when they need it, which keeps importing fast.
LATE = {
    ("audit.constructions.registry", "audit.constructions.explicit"),
}
# What stands beside the package and uses it from outside.
OUTSIDE = {"papers", "results", "tests"}


def walked(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node of a source file that can run, those inside functions too."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield other
                yield from walked(other)
            continue
        yield child
        yield from walked(child)


parsed = functools.cache(ast.parse)


def imported(source: str, module: str, *, hints: bool = False) -> set[str]:
    """Absolute names of all that a source file imports, for type checkers too with ``hints``."""
    names: set[str] = set()
    for node in (ast.walk if hints else walked)(parsed(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "audit":  # the package loads its rooms when they are asked for
                names.add(f"audit.{node.attr}")
        elif isinstance(node, ast.Constant) and re.match(r"audit\.\S+$", str(node.value)):
            names.add(str(node.value).partition(":")[0])
    return names


def room(name: str) -> str | None:
    """The room that a module belongs to: ``audit.exact.law`` is in ``exact``."""
    pieces = name.split(".")
    return pieces[1] if pieces[0] == "audit" and len(pieces) > 1 and pieces[1] in ROW else None


def allowed(importer: str, target: str) -> bool:
    """Whether one room may import another."""
    if importer == target:
        return True
    if importer == "report" and target in COMPUTING:
        return False
    return ROW[importer] < ROW[target]


def violations(source: str, module: str) -> list[str]:
    """What a source file imports and may not."""
    importer = room(module)
    found = []
    for name in sorted(imported(source, module)):
        if name.split(".")[0] in HYDRA and importer != "cli":
            found.append(f"{module} imports {name}")
        if name.split(".")[0] in OUTSIDE:
            found.append(f"{module} imports {name}")
        target = room(name)
        if importer is not None and target is not None and not allowed(importer, target):
            found.append(f"{module} imports {name}")
    return found


def modules() -> list[tuple[str, Path]]:
    """Every module of the package but the one that only names the public names."""
    files = sorted(ROOT.rglob("*.py"))
    named = [(".".join(["audit", *f.relative_to(ROOT).with_suffix("").parts]), f) for f in files]
    return [(name, f) for name, f in named if name != "audit.__init__"]


def test_every_import_points_down() -> None:
    found = [v for name, f in modules() for v in violations(f.read_text(encoding="utf-8"), name)]
    assert not found, "\n".join(found)


def circle(sources: Mapping[str, str]) -> list[str]:
    """Modules that import each other in a circle; none if there is none."""
    known = set(sources)
    graph = {n: imported(s, n, hints=True) & (known - {n}) for n, s in sources.items()}
    for importer, target in LATE:
        graph.get(importer, set()).discard(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not circle({name: f.read_text(encoding="utf-8") for name, f in modules()})


def test_a_planted_circle_is_found() -> None:
    hint = "if TYPE_CHECKING:\n    from audit.claims.judge import Shared\n"
    both = {
        "audit.claims.judge": "from audit.claims.claim import Claim",
        "audit.claims.claim": hint,
    }
    assert set(circle(both)) == set(both)


def test_every_room_has_a_row() -> None:
    places = {f.name for f in ROOT.iterdir() if f.is_dir() and any(f.rglob("*.py"))}
    places |= {f.stem for f in ROOT.glob("*.py") if f.stem != "__init__"}
    assert places - {"_scenarios", "__pycache__"} <= set(ROW)


def test_the_walk_sees_the_package() -> None:
    assert {"audit.exact.law", "audit.cli.audit"} <= {name for name, _ in modules()}


def private(name: str) -> bool:
    """Whether a name is that of a file inside a room; folders and rooms of one file are public."""
    path = TOP.joinpath(*name.split("."))
    return name.count(".") > 1 and name.startswith("audit.") and not path.is_dir()


def test_what_reproduces_papers_uses_public_names() -> None:
    found = []
    for file in sorted((TOP / "scenarios").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found += [f"{file.name}: {a.name}" for a in node.names if private(a.name)]
            elif isinstance(node, ast.ImportFrom) and node.module:
                hidden = [a.name for a in node.names if a.name.startswith("_")]
                if private(node.module) or (hidden and node.module.startswith("audit")):
                    found.append(f"{file.name}: {node.module} {hidden}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("audit.exact.law", "from audit.simulation import final_iterates"),
        ("audit.exact.law", "import audit.estimation"),
        ("audit.exact.law", "from audit import bounds"),
        ("audit.exact.law", "import audit\naudit.bounds.evaluate"),
        ("audit.exact.law", "def f():\n    from ..simulation import blocks\n"),
        ("audit.exact.law", "import importlib\nimportlib.import_module('audit.claims.judge')"),
        ("audit.numerics.panels", "from audit.constructions import Process"),
        ("audit.numerics.panels", "from audit import validate"),
        ("audit.search.found", "from audit.claims import judge"),
        ("audit.claims.judge", "def f():\n    from audit.scenario import run\n"),
        ("audit.report.html", "from audit.exact import curve"),
        ("audit.report.study_section", "from papers.langevin import LangevinOnQuadratics"),
        ("audit.curves.base", "from audit.mechanism import NoisySGD"),
        ("audit.testing", "from audit.pytest_plugin import pytest_collect_file"),
        ("audit.scenario", "from hydra.core.config_store import ConfigStore"),
        ("audit.claims.files", "from omegaconf import OmegaConf"),
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
        ("audit.mechanism.noisy_sgd", "from audit.codec import encode"),
        ("audit.search.found", "if TYPE_CHECKING:\n    from audit.claims import Claim\n"),
        ("audit.claims.judge", "from audit import results, search"),
        ("audit.cli.audit", "import hydra"),
        ("audit.scenario", "from audit import exact, simulation"),
        ("audit.report.html", "from audit.results import Result"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert not violations(source, module)
