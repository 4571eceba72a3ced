import csv
import json
from pathlib import Path

import pytest

from audit import bounds
from audit.report import tightness_map
from audit.search import mapping
from audit.search.grid import NOISES, STRENGTHS, TIMES, Kind, Point, points

FEW = tuple(
    Point(kind, 10.0, x, noise)
    for noise in NOISES[:2]
    for kind in (Kind.CONVEX, Kind.CYCLIC)
    for x in (0.3, 1.0)
)


def _stored(folder):
    with (folder / "points.csv").open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(mapping, "points", lambda: FEW)
    monkeypatch.setattr(mapping, "_EVALUATIONS", {0.2: 12, 0.05: 12, 0.01: 4})


def test_the_grid_is_what_the_page_says():
    every = points()
    # of either kind with small batches, (A, s) = (30, .2), (100, .05) and (100, .2) are left out
    assert len(every) == (len(Kind) * len(STRENGTHS) * len(NOISES) - 6) * len(TIMES) >= 600
    assert len({p.name for p in every}) == len(every)
    for p in every[::17]:
        m = p.mechanism
        apart = m.step_sizes[0] * m.sensitivity / m.batch_size * m.sampling_rate
        assert apart * m.diameter / m.step_std**2 == pytest.approx(p.strength)
        whole = 10 if p.kind is Kind.CYCLIC else 1
        assert m.steps == pytest.approx(p.time / apart, abs=whole / 2) or m.steps == whole


def test_a_stopped_run_goes_on(small, tmp_path):
    rows = mapping.run(tmp_path / "whole", jobs=1)
    again = tmp_path / "stopped"
    again.mkdir()
    for name in ("lower.jsonl", "upper.jsonl"):
        lines = (tmp_path / "whole" / name).read_text().splitlines(keepends=True)
        kept, torn = lines[:-2], lines[-2][:20]
        (again / name).write_text("".join(kept) + torn)
    counts = []
    resumed = mapping.run(again, jobs=1, progress=lambda done, total: counts.append((done, total)))

    def timeless(some):
        return [{k: v for k, v in row.items() if k != "seconds"} for row in some]

    assert timeless(resumed) == timeless(rows)
    assert counts[-1] == (2 * len(FEW), 2 * len(FEW))
    assert len(counts) == 4  # two points of either side were missing


def test_rows_hold_both_sides(small, tmp_path):
    rows = mapping.run(tmp_path, jobs=1)
    for row, p in zip(rows, FEW, strict=True):
        assert 0 < row["lower"] <= row["lower_high"]
        assert row["lower"] <= row["upper"] <= row["published"]
        best = bounds.best(p.mechanism, delta=mapping.DELTA)
        assert row["upper"] == best.epsilon
        assert not row["published_theorem"].startswith("own.")


def test_the_page_says_it_in_words(small, tmp_path):
    rows = mapping.run(tmp_path / "runs", jobs=1)
    tightness_map.write(rows, tmp_path / "map")
    files = {path.name for path in (tmp_path / "map").iterdir()}
    assert {"README.md", "points.csv", "ratio_cyclic_batches.png"} <= files
    page = (tmp_path / "map" / "README.md").read_text()
    assert "At 8 mechanisms" in page
    assert "Strong pushes (A from 10): before burn-in the ratio is" in page
    table = _stored(tmp_path / "map")
    assert [float(row["A"]) for row in table] == [10.0] * 8
    tightness_map.write(rows, tmp_path / "twice")
    for name in files:
        assert (tmp_path / "map" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_the_committed_map_is_sound_and_recomputes():
    by_place = {}
    for row in _stored(Path(__file__).parents[2] / "results" / "map"):
        assert float(row["lower"]) <= float(row["upper"]) <= float(row["published"])
        place = row["kind"], *(float(row[name]) for name in ("A", "x", "noise"))
        by_place[place] = row
    assert len(by_place) == len(points())
    for p in points()[5:400:97]:
        row = by_place[p.kind.value, p.strength, p.time, p.noise]
        again = mapping.upper(p)
        assert again["published"] == pytest.approx(float(row["published"]), rel=1e-6)


def test_logs_are_plain_lines(small, tmp_path):
    mapping.run(tmp_path, jobs=1)
    lines = (tmp_path / "lower.jsonl").read_text().splitlines()
    assert {json.loads(line)["point"] for line in lines} == {p.name for p in FEW}
