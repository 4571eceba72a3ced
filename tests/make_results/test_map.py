import csv
import dataclasses
import json
from pathlib import Path

import pytest

from audit import bounds
from audit.constructions import decode_pair
from audit.search import check_admissible, worst_case
from results.map import make, page
from results.map.grid import NOISES, STRENGTHS, TIMES, Kind, Point, points

FEW = tuple(
    Point(kind, 10.0, x, NOISES[0]) for kind in (Kind.CONVEX, Kind.CYCLIC) for x in (0.3, 1.0)
)
COUPLED = Point(Kind.CONVEX, 3.0, 3.0, 0.2)


MAP = Path(__file__).parents[2] / "results" / "map"
# searched again here; tests/test_stored_numbers.py computes a group of rows again
SAMPLE = (
    Point(Kind.CONVEX, 30.0, 100.0, 0.2),
    Point(Kind.CYCLIC, 3.0, 100.0, 0.2),
)


def sound(row):
    """Whether the certified lower bound of a row is above none of its upper bounds."""
    sides = [row[side] for side in ("published", "forgetting", "coupling", "upper")]
    return all(float(row["lower"]) <= float(side) for side in sides if side)


def _place(row):
    return row["kind"], *(float(row[name]) for name in ("A", "x", "noise"))


def _of(point):
    return point.kind.value, point.strength, point.time, point.noise


def _stored(folder):
    with (folder / "points.csv").open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


@pytest.fixture(scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "points", lambda: FEW)
        patch.setattr(make, "_EVALUATIONS", 8)
        yield


@pytest.fixture(scope="module")
def whole(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, make.run(folder, jobs=1)


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


def test_a_stopped_run_goes_on(whole, tmp_path):
    folder, rows = whole
    lines = (folder / "lower.jsonl").read_text().splitlines()
    assert {json.loads(line)["point"] for line in lines} == {p.name for p in FEW}
    again = tmp_path / "stopped"
    again.mkdir()
    for name in ("lower.jsonl", "upper.jsonl"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        kept, torn = lines[:-2], lines[-2][:20]
        (again / name).write_text("".join(kept) + torn)
    counts = []
    resumed = make.run(again, jobs=1, progress=lambda done, total: counts.append((done, total)))

    def timeless(some):
        return [dataclasses.replace(row, seconds=0.0) for row in some]

    assert timeless(resumed) == timeless(rows)
    assert counts[-1] == (2 * len(FEW), 2 * len(FEW))
    assert len(counts) == 4  # two points of either side were missing, in groups that were not whole


def test_rows_hold_both_sides(whole):
    _, rows = whole
    for row, p in zip(rows, FEW, strict=True):
        assert 0 < row.lower <= row.lower_high
        assert row.lower <= row.upper <= row.published
        best = bounds.best(p.mechanism, delta=make.DELTA)
        assert row.upper <= best.epsilon * (1 + 1e-9)
        # of bounds that are equal but for rounding the published one is named
        assert row.coupling is None or row.coupling >= row.upper * (1 - 1e-9)
        assert not row.published_theorem.startswith("own.")


def test_of_bounds_equal_but_for_rounding_the_oldest_is_named():
    near = {"own.forgetting": 1.0 - 1e-11, "own.coupling": 1.0 - 2e-11}
    assert make._smallest({**near, "published": 1.0}).theorem == "published"
    assert make._smallest({**near, "published": 1.1}).theorem == "own.forgetting"


@pytest.mark.slow
def test_couplings_are_asked_where_the_gap_is_open():
    group = [dataclasses.replace(COUPLED, time=x) for x in (0.3, 3.0)]
    closed, open_ = make.upper(group, [100.0, 8.0])
    assert closed.coupling is None
    assert open_.theorem == "own.coupling"
    best = bounds.best(COUPLED.mechanism, delta=make.DELTA, slow=True)
    assert open_.upper == open_.coupling == best.epsilon
    assert open_.upper < 0.95 * open_.forgetting
    # within half a percent of the lower bound there is nothing to close
    [row] = make.upper(group[1:], [open_.forgetting / 1.004])
    assert row.coupling is None
    assert row.upper == pytest.approx(min(row.forgetting, row.published), rel=1e-9)


def test_the_page_says_it_in_words(whole, tmp_path):
    _, rows = whole
    assert page.known_pairs(tmp_path) == {}  # without a map nothing is known
    page.write(rows, tmp_path / "map")
    files = {path.name for path in (tmp_path / "map").iterdir()}
    assert {"README.md", "points.csv", "pairs.json", "ratio_cyclic_batches.png"} <= files
    text = (tmp_path / "map" / "README.md").read_text()
    assert "At 4 mechanisms" in text
    assert "Strong pushes (A from 10): before burn-in the ratio is" in text
    table = _stored(tmp_path / "map")
    assert [float(row["A"]) for row in table] == [10.0] * 4
    assert page.known_pairs(tmp_path / "map") == {row.point.name: row.construction for row in rows}
    page.write(rows, tmp_path / "twice")
    for name in files:
        assert (tmp_path / "map" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_the_committed_map_is_sound():
    rows = _stored(MAP)
    assert all(sound(row) for row in rows)
    assert {_place(row) for row in rows} == {_of(point) for point in points()}
    # a lower bound above an upper one is found
    row = rows[100]
    for side in ("published", "upper", "coupling", "forgetting"):
        assert not sound({**row, side: str(0.999 * float(row["lower"]))})
    assert not sound({**row, "lower": str(1.001 * float(row["upper"]))})


@pytest.mark.parametrize(
    "point",
    [pytest.param(p, marks=[] if p.kind is Kind.CYCLIC else pytest.mark.slow) for p in SAMPLE],
    ids=lambda point: point.name,
)
def test_found_pairs_stay_below_couplings_in_a_search_of_other_seeds(point):
    """The lower sides again, from another seed and as far as few trials get."""
    [row] = [r for r in _stored(MAP) if _place(r) == _of(point)]
    found = worst_case(point.mechanism, delta=make.DELTA, budget=100.0, seed=3, evaluations=40)
    assert found.bracket[0] <= float(row["upper"])
    assert found.bracket[0] >= 0.9 * float(row["lower"])


def test_a_renewed_map_keeps_the_pairs_of_the_last_one(small):
    known, point = page.known_pairs(MAP), Point(Kind.CYCLIC, 0.01, 1.0, 0.05)  # drifts a batch
    [row] = [r for r in _stored(MAP) if _place(r) == _of(point)]
    unaided = make.lower(point)
    renewed = make.lower(point, known=known[point.name])
    # brackets of the same pair differ by rounding
    assert renewed.lower >= (1 - 1e-9) * float(row["lower"]) > unaided.lower
    assert renewed.construction == known[point.name]
    assert renewed.evaluations == unaided.evaluations


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_the_stored_pairs_are_those_that_the_map_names(every):
    known = page.known_pairs(MAP)
    assert set(known) == {point.name for point in points()}
    for row, point in list(zip(_stored(MAP), points(), strict=True))[::every]:
        pair = decode_pair(known[point.name], point.mechanism)
        check_admissible(pair)
        assert row["pair"] == make._name(pair)


def test_an_inadmissible_pair_of_an_earlier_map_is_skipped(small):
    point = Point(Kind.CONVEX, 0.3, 0.1, 0.05)
    unaided = make.lower(point)
    m = point.mechanism
    strong = 3 * m.sensitivity / m.batch_size
    for refused in (
        {"kind": "GradientPair", "record": -strong, "record_prime": strong},
        {"kind": "GradientPair", "unknown": 1.0},
        {"kind": "NoSuchPair"},
    ):
        assert dataclasses.replace(make.lower(point, known=refused), seconds=0.0) == (
            dataclasses.replace(unaided, seconds=0.0)
        )
