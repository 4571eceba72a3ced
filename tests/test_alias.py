"""The alias ``noisy_sgd_audit``, alone and beside another module that is called ``audit``."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import audit
import noisy_sgd_audit
from tests.mechanisms import noisy_sgd

ROOT = Path(__file__).resolve().parents[1]
ALIAS = ROOT / "noisy_sgd_audit"
STUBS = sorted(ALIAS.rglob("*.pyi"))
# one step: its law needs no kernel that the children, which share none, would compile
CLAIMS = """\
mechanisms:
  m: {steps: 1, dataset_size: 20, batch_size: 20, step_size: 0.1, noise_std: 0.5,
      lipschitz: 1.0, batching: full, relation: replace one}
claims:
  - {id: loose, mechanism: m, callable: "audit:claimed", deltas: [1e-5], expected: consistent}
  - {id: too_little, mechanism: m, epsilon: 0.5, delta: 1e-5, expected: refuted}
"""
OTHER = """\
def claimed(mechanism, delta):
    return 9.0
"""


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, which comes first on its path; the checkout comes after it."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "COLUMNS": "160",
            # kernels that other tests keep name the modules of the package by its first name
            "AUDIT_SHARE_KERNELS": "",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def module_of(stub: Path) -> str:
    """Return what follows the package's name in the module that a stub file is for."""
    return ".".join(stub.relative_to(ALIAS).with_suffix("").parts).removesuffix(".__init__")


def test_the_alias_is_the_package() -> None:
    assert noisy_sgd_audit is audit


@pytest.mark.parametrize("module", ["bounds", "bounds.assumptions", "claims.judge", "cli.check"])
def test_submodules_are_the_same_objects(module: str) -> None:
    alias = importlib.import_module(f"noisy_sgd_audit.{module}")
    assert alias is importlib.import_module(f"audit.{module}")
    assert alias.__name__ == f"audit.{module}"
    assert alias.__spec__ is not None
    assert alias.__spec__.name == f"audit.{module}"


def test_the_order_of_imports_does_not_matter(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from noisy_sgd_audit.bounds.assumptions import CONVEX\n"
        "import audit.bounds.assumptions\n"
        "assert CONVEX is audit.bounds.assumptions.CONVEX\n"
        "import noisy_sgd_audit.bounds as alias\n"
        "assert alias is audit.bounds and alias.REGISTRY is audit.bounds.REGISTRY\n"
        "assert sys.modules['noisy_sgd_audit'] is audit\n"
    )
    run_well(tmp_path, "-c", code)


def test_a_module_that_does_not_exist() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'noisy_sgd_audit\.nothing'"):
        importlib.import_module("noisy_sgd_audit.nothing")


def test_pickles_name_the_package() -> None:
    written = pickle.dumps(noisy_sgd_audit.Batching.POISSON)
    assert b"noisy_sgd_audit" not in written
    assert pickle.loads(written) is audit.Batching.POISSON


def test_every_public_room_has_a_stub() -> None:
    stub = (ROOT / "audit" / "__init__.pyi").read_text(encoding="utf-8")
    rooms = set(re.findall(r"^from \. import (\w+) as", stub, flags=re.MULTILINE))
    assert "bounds" in rooms
    assert rooms | {"adapters", "mechanism"} <= {module_of(file) for file in STUBS}


def test_stubs_repeat_their_modules() -> None:
    for module, stub in ((module_of(stub), stub) for stub in STUBS):
        assert stub.read_text(encoding="utf-8") == f"from audit.{module} import *\n"
        found = ROOT.joinpath("audit", *module.split("."))
        assert found.is_dir() or found.with_suffix(".py").is_file(), module


def test_entry_points_use_the_alias() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commands = project["scripts"].values()
    assert commands
    assert all(command.startswith("noisy_sgd_audit.cli.") for command in commands)


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has a module ``audit`` of its own, with a claimed bound in it."""
    folder = tmp_path_factory.mktemp("shadowed")
    (folder / "audit.py").write_text(OTHER, encoding="utf-8")
    (folder / "my.claims.yaml").write_text(CLAIMS, encoding="utf-8")
    (folder / "test_own.py").write_text(
        "import audit\n\ndef test_own():\n    assert audit.claimed(None, 0.1) == 9.0\n"
    )
    return folder


def test_the_package_leaves_another_audit_alone(shadowed: Path) -> None:
    code = """
import pickle, sys
import noisy_sgd_audit as nsa
import noisy_sgd_audit.bounds.assumptions
import noisy_sgd_audit.simulation.dimensions as dimensions
from noisy_sgd_audit import claims, simulation
from noisy_sgd_audit.constructions import TwoSidedWalk
import audit
import audit_dimensions  # a package beside it
from audit_dimensions.sampling import Stream
assert dimensions.Dataset is audit_dimensions.Dataset
assert Stream is simulation.Stream
assert audit.claimed(None, 0.1) == 9.0
assert [name for name in sys.modules if name.startswith("audit.")] == []
m = nsa.NoisySGD(steps=1, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5,
                 lipschitz=1.0, smoothness=1.0, diameter=1.0)
assert type(m).__module__ == "noisy_sgd_audit.mechanism.noisy_sgd"
assert pickle.loads(pickle.dumps(m)) == m
assert m in {m} and nsa.bounds.CATALOGUE is noisy_sgd_audit.bounds.CATALOGUE
nsa.testing.assert_bound_holds("bsa24.theorem_4_1", m, deltas=[1e-5])
print(*nsa.exact.curve(TwoSidedWalk(m)).epsilon_bracket(1e-5))
"""
    low, high = (float(word) for word in run_well(shadowed, "-c", code).split())
    m = noisy_sgd(steps=1, dataset_size=20, step_size=0.1, noise_std=0.5)
    curve = audit.exact.curve(audit.constructions.TwoSidedWalk(m))
    assert (low, high) == curve.epsilon_bracket(1e-5)


def test_an_audit_that_is_imported_first_counts_too(tmp_path: Path) -> None:
    code = (
        "import sys, types\n"
        "own = sys.modules['audit'] = types.ModuleType('audit')\n"
        "import noisy_sgd_audit\n"
        "assert noisy_sgd_audit.Order.FORWARD.value == 'forward'\n"
        "assert sys.modules['audit'] is own\n"
    )
    run_well(tmp_path, "-c", code)


@pytest.mark.slow
def test_pytest_judges_functions_of_another_audit(shadowed: Path) -> None:
    words = ["-q", "-p", "_noisy_sgd_audit_pytest", "-p", "no:cacheprovider"]
    printed = run_well(shadowed, "-m", "pytest", *words, "my.claims.yaml", "test_own.py")
    assert "3 passed" in printed


def test_pytest_does_not_import_the_package_without_claims(tmp_path: Path) -> None:
    words = ["-q", "-p", "_noisy_sgd_audit_pytest", "-p", "no:cacheprovider"]
    (tmp_path / "test_alone.py").write_text(
        "import sys\n\ndef test_alone():\n    assert 'noisy_sgd_audit' not in sys.modules\n"
        "    assert 'audit' not in sys.modules\n"
    )
    assert "1 passed" in run_well(tmp_path, "-m", "pytest", *words)


def run_well(folder: Path, *words: str) -> str:
    """Return what a program prints that must end well."""
    done = run(folder, *words)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
