"""The pytest plugin, in separate pytest processes."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from audit import pytest_plugin
from audit.claims import judge
from audit.claims.claim import Claim
from audit.claims.evidence import Judgement

from .written import HEAD_LINES, write
from .written import run as run_module

CLAIMS = """\
- {id: good, epsilon: 4.4, delta: 1e-5}
- {id: lie, epsilon: 4.3, delta: 1e-5}
- {id: known.lie, epsilon: 4.3, delta: 1e-5, expected: refuted}
- {id: doubtful, epsilon: 4.3, delta: 1e-5, severity: warn}
- {id: raises, callable: 'my_calls:raises', deltas: [1e-5]}
- {id: unread, mu: one}
"""
LIE = "claim 'lie' refuted: certified epsilon 4.37 > claimed 4.30 at delta 1e-5"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin named by hand, whether or not its entry point is installed."""
    plugins = ["-p", "audit.pytest_plugin", "-p", "no:cacheprovider"]
    return run_module(folder, "pytest", *plugins, *words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "my_calls.py").write_text("def raises(mechanism, delta):\n    return 1 / 0\n")
    (folder / "bad.claims.yaml").write_text("claims: {\n")
    (folder / "other.claims.yaml").write_text("include: [a.yaml, b.yaml]\nclaims: [{id: x}]\n")
    write(folder, CLAIMS)
    return folder


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, "-v", "-ra", "--junit-xml=out.xml")


def test_one_test_a_claim(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1
    found = re.findall(r"^my\.claims\.yaml::(\S+) (PASSED|FAILED)", done.stdout, re.MULTILINE)
    assert found == [
        ("good", "PASSED"),
        ("lie", "FAILED"),
        ("known.lie", "PASSED"),
        ("doubtful", "PASSED"),
        ("raises", "FAILED"),
        (f"line-{HEAD_LINES + 6}", "FAILED"),
    ]
    # of the other files 5: a claim lacks a statement and a subject
    assert "8 failed, 3 passed, 1 warning" in done.stdout


def test_a_failure_is_one_line(done: subprocess.CompletedProcess[str]) -> None:
    lines = done.stdout.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("___")]
    shown = [lines[i + 1 : j] for i, j in itertools.pairwise(heads)]
    assert [len(section) for section in shown] == [1] * 7  # the last is followed by the summary
    assert shown[1] == [LIE]
    assert shown[2][0].startswith(f"my.claims.yaml:{HEAD_LINES + 5}: claim 'raises': ")
    assert f"FAILED my.claims.yaml::lie - Failed: {LIE}" in lines
    assert f"my.claims.yaml:{HEAD_LINES + 6}: mu must be a number, got 'one'" in lines


def test_a_warning_is_told(done: subprocess.CompletedProcess[str]) -> None:
    assert "ClaimWarning: claim 'doubtful' refuted: certified epsilon 4.37 > claimed" in done.stdout


def test_junit_has_the_properties(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    suite = ElementTree.parse(folder / "out.xml").getroot()[0]
    cases = {case.get("name"): case for case in suite}
    facts = {p.get("name"): p.get("value") for p in cases["lie"].iter("property")}
    assert facts["verdict"] == "refuted"
    assert facts["claimed"] == "4.3"
    assert facts["where"] == "delta 1e-5"
    assert facts["pair"] == "TwoSidedWalk"
    assert float(str(facts["certified"])) == pytest.approx(4.377178, abs=1e-6)
    failure = cases["lie"].find("failure")
    assert failure is not None
    assert LIE in str(failure.get("message"))


def test_files_that_cannot_be_read_fail(done: subprocess.CompletedProcess[str]) -> None:
    for line in (
        "bad.claims.yaml::line-2 - Failed: bad.claims.yaml:2: not YAML",
        "other.claims.yaml::line-1 - Failed: other.claims.yaml:1: include must be a file that",
        "other.claims.yaml::line-1-2 - Failed: other.claims.yaml:1: include must be a file that",
        "other.claims.yaml::line-2 - Failed: other.claims.yaml:2: a claim needs",
    ):
        assert f"FAILED {line}" in done.stdout


def run_here(folder: Path, *words: str) -> int:
    """Run pytest as `run` does, in this process: what it prints is captured by its caller."""
    plugins = ["-p", "audit.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.setenv("COLUMNS", "300")
        for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
            patch.delenv(name, raising=False)
        return int(pytest.main([*plugins, *words]))


def test_each_claim_gets_its_share_of_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is selected: the shares are settled by the file. A warning may be an error."""
    spent, true_judge = [], judge.judge

    def spied(claim: Claim, *, error: float, shared: judge.Shared) -> Judgement:
        spent.append(f"{claim.id} {error} {claim.budget.seed}")
        return true_judge(claim, error=error, shared=shared)

    monkeypatch.setattr(judge, "judge", spied)
    claims = [f"- {{id: c{i}, mu: 1.1, budget: {{trials: 9, seed: 7}}}}\n" for i in range(4)]
    doubtful = "- {id: doubtful, mu: 0.9, severity: warn}\n"
    write(tmp_path, "".join([*claims, doubtful]))
    run_here(tmp_path, "-k", "c0 or c2")
    assert "2 passed, 3 deselected" in capsys.readouterr().out
    run_here(tmp_path, "--claims-seed=-1", "my.claims.yaml")
    assert "--claims-seed must be at least 0, got -1" in "".join(capsys.readouterr())
    words = ("-o", "claims_error=0.2", "--claims-seed=3", "my.claims.yaml::c3")
    strict = ("-W", "error::audit.pytest_plugin.ClaimWarning", "my.claims.yaml::doubtful")
    run_here(tmp_path, *words, *strict)
    assert "1 failed, 1 passed" in capsys.readouterr().out
    assert spent == ["c0 0.0025 7", "c2 0.0025 7", "c3 0.05 3", "doubtful 0.05 3"]


def test_a_bad_setting() -> None:
    for setting in ("2", "0", "nan", "much"):
        with pytest.raises(pytest.UsageError) as caught:
            pytest_plugin._error(setting)
        assert str(caught.value) == f"claims_error must be in (0, 1), got {setting!r}"


HEAVY = ("numpy", "numba", "scipy", "yaml", "audit.mechanism", "audit.bounds", "audit.claims")


def test_nothing_heavy_without_claims(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\n\n"
        "def test_light():\n"
        "    assert 'audit.pytest_plugin' in sys.modules\n"
        f"    assert [name for name in {HEAVY} if name in sys.modules] == []\n"
    )
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
