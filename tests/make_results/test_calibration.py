"""The harness passes valid estimators, catches planted mistakes, and resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from results.calibration import cells, figures, front, other_packages, power, tables
from results.calibration.cells import Cell
from results.calibration.make import main
from results.calibration.mechanisms import DELTAS, mechanisms
from results.family import make as family
from results.rare_events import make as rare_events


def slow(*case: object) -> Any:
    return pytest.param(*case, marks=pytest.mark.slow)


# The planted ones err at .3 to 1 where .1 is stated, the others at most at .1.
@pytest.mark.parametrize(
    ("name", "mechanism", "repeats", "word"),
    [
        ("planted: thresholds reused", "identical normal", 60, "caught"),
        ("planted: epsilon made from mu", "Laplace", 60, "caught"),
        slow("planted: ranks unpaid", "identical normal", 60, "caught"),
        slow("planted: columns unpaid", "identical normal", 20, "caught"),
        ("planted: guesses unpaid", "identical normal", 150, "caught"),
        ("simultaneous band", "identical normal", 60, "passes"),
        slow("order statistics", "identical normal", 60, "passes"),
        slow("best of five columns", "identical normal", 60, "passes"),
        ("one run, independent canaries", "identical normal", 150, "passes"),
    ],
)
def test_planted_mistakes_are_caught_and_others_pass(
    name: str, mechanism: str, repeats: int, word: str
) -> None:
    assert tables.verdict(cells.run(Cell(name, mechanism, 0.9, repeats))) == word


def test_true_epsilons() -> None:
    known = mechanisms()
    at = {name: dict(zip(DELTAS.tolist(), m.epsilon(), strict=True)) for name, m in known.items()}
    assert at["Gaussian mu=1"][1e-5] == pytest.approx(4.3772, abs=1e-4)
    assert at["Gaussian mu=1"][1e-2] == pytest.approx(2.318, abs=1e-3)
    assert at["Laplace"][1e-6] == pytest.approx(1.0, abs=1e-5)
    assert at["Laplace"][0.0] == pytest.approx(1.0, abs=1e-9)
    assert at["Gaussian mu=1"][0.0] == at["sampled Gaussian"][0.0] == np.inf
    assert at["randomised response"][1e-2] == pytest.approx(np.log(0.74 / 0.25), abs=1e-12)
    assert at["point masses"][0.3] == np.inf
    assert at["point mass of 0.05"][0.03] == np.inf
    assert at["point mass of 0.05"][0.1] == 0.0
    # Cauchy laws s apart differ in ratio by at most (1 + s^2/2 + s sqrt(1 + s^2/4)).
    s = 1.5
    largest = np.log(1 + s**2 / 2 + s * np.sqrt(1 + s**2 / 4))
    assert largest - 2e-3 < at["Cauchy shift"][1e-6] <= largest
    assert [name for name, m in known.items() if m.null] == ["identical normal", "identical coin"]


def test_draws_have_the_rates_that_the_truth_is_made_of() -> None:
    for name, one in mechanisms().items():
        generator = np.random.default_rng(1)
        for draw, rates in ((one.draw_first, one.first), (one.draw_second, one.second)):
            scores = draw(generator, 40_000)
            seen = np.array([np.mean(scores >= t) for t in one.fixed])
            # every observed rate is one of the stated rates, to five standard errors
            gap = np.min(np.abs(seen[:, None] - rates), axis=1)
            assert np.all(gap <= 5 * np.sqrt(0.25 / scores.size)), name
            assert np.all(np.isfinite(scores)), name


@pytest.mark.parametrize("processes", ["1", slow("2")])
def test_runs_resumes_and_draws(processes: str, tmp_path: Path) -> None:
    """What processes of their own have run is what this one runs in place of it."""

    def run(processes: str) -> str:
        given = ["--repeats", "3", "--processes", processes, "--only", "planted: one"]
        main([*given, "--store", str(tmp_path / "store"), "--out", str(out)])
        return (out / "coverage.csv").read_text(encoding="utf-8")

    out = tmp_path / "out"
    table = run(processes)
    files = sorted((tmp_path / "store" / "coverage").glob("*.json"))
    assert len(files) == 3
    stored = json.loads(files[1].read_text(encoding="utf-8"))
    files[0].unlink()  # interrupted
    changed = {**stored, "first_values": (0.1 + np.array(stored["first_values"])).tolist()}
    files[1].write_text(json.dumps({**changed, "wrong": 77}), encoding="utf-8")  # other code
    stamp = files[2].stat().st_mtime_ns
    (files[0].parent / "something_else.json").write_text("{}", encoding="utf-8")
    assert run("1") == table
    again = json.loads(files[1].read_text(encoding="utf-8"))
    assert {**again, "seconds": 0} == {**stored, "seconds": 0}
    assert files[0].exists()
    assert files[2].stat().st_mtime_ns == stamp
    assert len(table.splitlines()) == 1 + 3
    page = (out / "calibration.md").read_text(encoding="utf-8")
    assert "## planted: one direction unpaid" in page
    assert "over 3 audits a cell" in page
    assert f"numpy {np.__version__}" in page
    assert (out / "mistakes.png").stat().st_size > 10_000
    assert not (out / "coverage.png").exists()


def test_says_which_packages_are_not_run_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(other_packages.PACKAGES, "absent", "there_is_no_such_module.at_all")
    (tmp_path / "broken_module.py").write_text("raise OSError('no library')", encoding="utf-8")
    (tmp_path / "needy_module.py").write_text("import there_is_no_such_module", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(other_packages.PACKAGES, "broken", "broken_module")
    monkeypatch.setitem(other_packages.PACKAGES, "needy", "needy_module")
    assert other_packages.reason_not_run("absent") == "not installed"
    assert other_packages.reason_not_run("broken") == "OSError: no library"
    assert other_packages.reason_not_run("needy") == "there_is_no_such_module is not installed"
    tables.write([], [], tmp_path / "out", {"absent": "not installed"})
    page = (tmp_path / "out" / "calibration.md").read_text(encoding="utf-8")
    assert "  - absent: not run: not installed." in page


def test_power_stands_beside_the_oracle(tmp_path: Path) -> None:
    chunks = [power.Chunk("Laplace", 100, start, 2) for start in (0, 2)]
    found = [power.run(chunk) | {"software": {}} for chunk in chunks]
    rows = tables.power_rows(found)
    ours = [row for row in rows if row["estimator"] == power.OURS]
    assert [row["delta"] for row in ours] == list(power.POWER_DELTAS)
    assert {row["seeds"] for row in rows} == {4}
    assert all(row["median"] < row["truth"] for row in ours)
    assert {row["verdict"] for row in ours} == {"best"}
    ranks = [row for row in rows if row["estimator"] == power.RANK_ORACLE]
    assert all(oracle["median"] >= row["median"] for oracle, row in zip(ranks, ours, strict=True))
    one = front.run(front.FrontCell(30, 0.05, 20)) | {"software": {}}
    tables.write([], found, tmp_path, {}, [one])
    page = (tmp_path / "calibration.md").read_text(encoding="utf-8")
    assert "best of all valid ones in 3" in page
    assert "| 30 | 0.05 | 20 |" in page
    figures.draw([], found, tmp_path)
    assert (tmp_path / "power.png").stat().st_size > 10_000


def test_a_front_of_few_thresholds_is_counted_after_looking() -> None:
    x, y = np.array([0.0, 1, 2, 3, 4]), np.array([0.0, 3, 3.5, 5, 5])
    assert front.upper_hull(x, y).tolist() == [0, 1, 3, 4]
    found = front.run(front.FrontCell(1000, 0.05, 600))
    assert found["thresholds"] < 12
    assert found["wrong"] / 600 > 0.06  # .09 of 10,000


def test_figures_need_no_cells(tmp_path: Path) -> None:
    figures.draw([], [], tmp_path)
    tables.write([], [], tmp_path, {})
    assert (tmp_path / "calibration.md").exists()


# ----------- The programs of the tables of rare events and of families of claims, on a small scale


def test_families(tmp_path: Path) -> None:
    family.main(["--repeats", "20", "--out", str(tmp_path)])
    lines = (tmp_path / "family.md").read_text(encoding="utf-8").splitlines()
    refuted = [line.split("|")[4].strip() for line in lines if line.startswith("| 8")]
    for k in (0, 3):  # Holm's procedure, an equal split, the planted mistake
        assert float(refuted[k + 1]) <= float(refuted[k]) <= float(refuted[k + 2])


@pytest.mark.parametrize("case", [rare_events.two_sided(0.9), rare_events.quadratics(0.175)])
def test_rows_certify_more_than_counts(case: rare_events.Case) -> None:
    cells = rare_events.bound_row(case, 2000).split("|")
    exact, certified, counted = (float(cell) for cell in cells[2:5])
    assert counted < 0.5 * certified < 0.5 * exact


def test_small_audits_and_planted_mistakes() -> None:
    above, below, whole, small, best, reused = rare_events.calibration_rows(20)
    counts = [row.split("|")[2].strip() for row in (above, below, whole, reused)]
    assert counts == ["0", "0", "0", "0"]
    assert small.split("|")[2].strip() == "20"
    assert "of 40" in best
