"""The harness of the zoo, on tiny packages with and without a bug; nothing is downloaded."""

from __future__ import annotations

import csv
import functools
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from audit.claims import check_file
from audit.claims.claims_file import load
from audit.claims.judge import Outcome, Verification, judge_all
from results.zoo import make, page
from results.zoo.cases import Case, read_all
from results.zoo.environments import environment
from tests.verifying import is_refuted

# Adds Laplace noise for sensitivity 1; the bug makes its scale a fifth.
_SCALE = """
import json
from importlib.metadata import version

import tinydp

claims = [
    {"id": "scale", "laws": {"laplace": {"sensitivity": 1, "scale": tinydp.scale(1.0)}},
     "epsilon": 1.0, "delta": 0},
]
"""
_SAMPLED = """
import numpy as np

rng = np.random.default_rng(1)
x, x_prime = (tinydp.release(value, 1.0, rng.laplace(size=400)) for value in (1.0, 0.0))
np.save("x.npy", x)
np.save("x_prime.npy", x_prime)
samples = {"x": "x.npy", "x_prime": "x_prime.npy", "favours": "forward"}
claims.append({"id": "sampled", "samples": samples, "epsilon": 1.0, "delta": 0})
"""
_WRITE = """
with open("claims.json", "w") as file:
    json.dump({"version": version("tinydp"), "claims": claims}, file)
"""
_QUICK = _SCALE + _WRITE  # needs no NumPy
_PACKAGE = """
def scale(epsilon):
    return {factor} / epsilon

def release(value, epsilon, noise):
    return value + scale(epsilon) * noise
"""


def wheel(folder: Path, version: str, factor: float) -> None:
    """Write a wheel of the package ``tinydp``."""
    info = f"tinydp-{version}.dist-info"
    files = {
        "tinydp.py": _PACKAGE.format(factor=factor),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinydp\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"tinydp-{version}-py3-none-any.whl", "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)


class Zoo:
    """A folder of cases; environments are shared between tests."""

    def __init__(self, place: Path, environments: Path) -> None:
        self.place, self.environments = place, environments
        self.cases, self.results = place / "cases", place / "results"

    def case(self, releases: dict[str, dict[str, str]], *, program: str = _QUICK) -> None:
        """Write the case ``halved`` with the expected verdicts of each release."""
        folder = self.cases / "halved"
        folder.mkdir(parents=True, exist_ok=True)
        case = {
            "title": "tinydp adds too little noise",
            "package": "tinydp",
            "upstream": ["https://example.org/tinydp/issues/1"],
            "requires": [],
            "releases": {version: {"expected": told} for version, told in releases.items()},
        }
        (folder / "case.yaml").write_text(yaml.safe_dump(case, sort_keys=False), encoding="utf-8")
        path = f"import sys; sys.path.append({str(Path(np.__file__).parents[1])!r})\n"
        (folder / "program.py").write_text(path + program, encoding="utf-8")
        (folder / "README.md").write_text("# tinydp\n", encoding="utf-8")

    def run(self, *words: str) -> int:
        """Run the program of the zoo on these cases."""
        options = {"--cases": self.cases, "--results": self.results, "--work": self.place / "work"}
        options["--environments"] = self.environments
        return make.main([*words, *(str(part) for pair in options.items() for part in pair)])

    def rows(self) -> list[dict[str, str]]:
        """The rows of the table."""
        with (self.results / "zoo.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    wheel(folder / "wheels", "1.0", 0.2)
    wheel(folder / "wheels", "1.1", 1.0)
    return folder


@pytest.fixture
def zoo(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zoo:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shared / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return Zoo(tmp_path, shared / "environments")


BUGGY, FIXED = {"scale": "refuted"}, {"scale": "consistent"}


def test_a_bug_is_refuted_and_the_fixed_release_is_not(
    zoo: Zoo, capsys: pytest.CaptureFixture[str]
) -> None:
    buggy, fixed = {**BUGGY, "sampled": "refuted"}, {**FIXED, "sampled": "consistent"}
    zoo.case({"1.0": buggy, "1.1": fixed}, program=_SCALE + _SAMPLED + _WRITE)
    assert zoo.run() == 0
    assert [(row["version"], row["claim"], row["verdict"]) for row in zoo.rows()] == [
        ("1.0", "scale", "refuted"),
        ("1.0", "sampled", "refuted"),
        ("1.1", "scale", "consistent"),
        ("1.1", "sampled", "consistent"),
    ]
    assert "ok   halved: tinydp 1.0: scale: refuted: certified" in capsys.readouterr().out
    exact, sampled = zoo.rows()[:2]
    assert float(exact["certified"]) == pytest.approx(5.0)
    assert 1.0 < float(sampled["certified"]) < 5.0

    # claims files, samples and witnesses stand for themselves
    shutil.rmtree(zoo.place / "work")
    again = check_file(zoo.results / "halved" / "tinydp-1.0.claims.yaml", error=0.001)
    assert [one.verdict.value for one in again] == ["refuted", "refuted"]
    assert (zoo.results / "halved" / "tinydp-1.0.scale.witness.json").is_file()
    text = (zoo.results / "zoo.md").read_text(encoding="utf-8")
    assert "| refuted | 1 | 4.9999999 | epsilon at delta 0 | [exact](halved/" in text
    assert exact["verification"] in ("verified", "not verified")
    assert sampled["verification"] in ("verified but for the draws", "not verified")


def test_a_witness_that_is_denied_fails(
    zoo: Zoo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = Verification(Outcome.CONTRADICTED, "not refuted by this witness")
    monkeypatch.setattr(page, "verify", lambda witness: denied)
    zoo.case({"1.0": BUGGY})
    assert zoo.run() == 1
    assert (
        "FAIL halved: tinydp 1.0: scale: refuted (witness contradicted)" in capsys.readouterr().out
    )
    assert zoo.rows()[0]["verification"] == "contradicted"


def test_what_is_not_met_fails_and_what_cannot_be_installed_is_skipped(
    zoo: Zoo, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo.case({"0.9": BUGGY, "1.0": BUGGY, "1.1": BUGGY})
    assert zoo.run() == 1
    skipped = zoo.rows()[0]
    assert (skipped["version"], skipped["verdict"]) == ("0.9", "skipped")
    assert skipped["reason"] == "No matching distribution found for tinydp==0.9"
    told = capsys.readouterr().out
    assert "FAIL halved: tinydp 1.1: scale: consistent (expected refuted): the" in told
    assert "1 as expected, 1 not, 1 skipped" in told
    zoo.case({"0.9": BUGGY, "1.0": BUGGY})
    assert zoo.run() == 0  # what is skipped fails nothing


def test_a_finished_program_is_kept_until_it_or_what_it_imports_changes(zoo: Zoo) -> None:
    zoo.case({"1.0": BUGGY}, program="import tinydp_claims\n" + _QUICK)
    shared, output = zoo.cases / "tinydp_claims.py", zoo.place / "work/halved/1.0/output.txt"
    shared.write_text("print('first')\n")
    assert zoo.run() == 0
    assert output.read_text() == "first\n"
    output.write_text("kept")
    assert zoo.run() == 0
    assert output.read_text() == "kept"
    assert zoo.run("--fresh") == 0
    assert output.read_text() == "first\n"
    shared.write_text("print('second')\n")
    assert zoo.run() == 0
    assert output.read_text() == "second\n"
    zoo.case({"1.0": BUGGY}, program="import tinydp_claims\n" + _QUICK + "print('again')\n")
    assert zoo.run() == 0
    assert output.read_text() == "second\nagain\n"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('no such API')", "the program ended with status 1: no such API"),
        ("pass", "the program wrote no claims.json: "),
        (_QUICK.replace('version("tinydp")', '"2.0"'), "the program must run 1.0, it ran 2.0"),
        (
            _QUICK.replace('"id": "scale"', '"id": "scales"'),
            "the program must make the claims scale, it made scales",
        ),
        (_QUICK.replace('"delta": 0}', '"delta": 2}'), "delta must be"),
    ],
)
def test_a_broken_program_fails_and_says_why(zoo: Zoo, program: str, reason: str) -> None:
    zoo.case({"1.0": BUGGY}, program=program)
    assert zoo.run() == 1
    assert {row["verdict"] for row in zoo.rows()} == {"error"}
    assert reason in zoo.rows()[0]["reason"]


def test_orders_of_a_claim_are_numbers_again(zoo: Zoo) -> None:
    # a program writes JSON, whose keys are texts
    program = _QUICK.replace('"epsilon": 1.0, "delta": 0},', '"renyi": {2: 0.5}},')
    zoo.case({"1.0": BUGGY}, program=program)
    assert zoo.run() == 0
    (row,) = zoo.rows()
    assert (row["quantity"], row["claimed"]) == ("Renyi divergence at order 2", "0.5")
    (file,) = zoo.results.rglob("*.claims.yaml")
    assert "    2: 0.5\n" in file.read_text(encoding="utf-8")


def test_an_unknown_case_is_refused(zoo: Zoo, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.case({"1.0": BUGGY})
    assert zoo.run("halve") == 2
    assert "case must be one of halved, got 'halve'" in capsys.readouterr().err


def test_the_judge_is_not_visible_from_the_environment(zoo: Zoo) -> None:
    place = environment(zoo.environments, (), "tinydp", "1.0")
    assert place.package.name == "tinydp-1.0"
    assert "numpy" not in "".join(str(file) for file in place.python.parents[1].rglob("*"))


def test_the_witness_of_adaptive_clipping_is_verified() -> None:
    """A composition of 1000 steps."""
    file = make.HERE / "opacus_adaclip" / "opacus-1.5.2.adaptive.witness.json"
    assert is_refuted(json.loads(file.read_text(encoding="utf-8")))


COMMITTED = read_all(make.ROOT / "scenarios" / "zoo")


# by laws, samples and accountants
QUICK = ("diffprivlib_kmeans", "nvflare_svt", "opacus_fixed_batches", "opacus_noise_multiplier")


@functools.cache
def committed_rows() -> list[dict[str, str]]:
    with (make.HERE / "zoo.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_case_has_its_rows_in_the_table() -> None:
    expected = [
        (case.name, version, claim, verdict.value)
        for case in COMMITTED
        for version, release in case.releases.items()
        for claim, verdict in release.expected.items()
    ]
    names = ("case", "version", "claim", "expected")
    found = [tuple(row[name] for name in names) for row in committed_rows()]
    assert sorted(found) == sorted(expected)
    for row in committed_rows():
        assert row["verdict"] in (row["expected"], "skipped")


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[] if c.name in QUICK else pytest.mark.slow) for c in COMMITTED],
    ids=lambda case: case.name,
)
def test_committed_verdicts_are_the_expected_ones(case: Case) -> None:
    """Of one version a claim of each verdict is judged again; ``make zoo`` judges all of them."""
    rows = [row for row in committed_rows() if row["case"] == case.name]
    version = next(row["version"] for row in rows if row["verdict"] != "skipped")
    name = f"{case.package}-{version}.claims.yaml"
    loaded = load([make.HERE / case.name / name])
    assert loaded.complaints == ()
    one_each = {claim.expected: claim for claim in reversed(loaded.claims)}
    found = judge_all(list(one_each.values()), error=0.001)
    assert [one.message for one in found if not one.as_expected] == []
