"""The programs of the tables of rare events and of families of claims, on a small scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from results.family import make as family
from results.rare_events import make as rare_events


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
