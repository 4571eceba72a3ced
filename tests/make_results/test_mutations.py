"""A few of the mutations of `results.claims.mutations`, and its tables."""

from __future__ import annotations

import pytest

from audit.results import Verdict
from results.claims.mutations import MUTATIONS, bases, rows, write


def chosen():
    """The smallest sizes: exact for full batches, sampled batches and their Renyi divergence."""
    wanted = {
        ("bsa24.theorem_4_1", "10 steps"),
        ("bsa24.theorem_4_2", "10 steps"),
        ("at22.b_1", "10 steps"),
        ("at22.sampled_gaussian", "1 step of 2 in 10"),
    }
    found = [base for base in bases() if (base.bound, base.size) in wanted]
    assert len(found) == len(wanted)
    return found


@pytest.fixture(scope="module")
def judged():
    return rows(chosen())


def test_bounds_that_are_not_spoilt_stand(judged):
    untouched = [row for row in judged if row.mutation == "none"]
    assert len(untouched) == 4
    for row in untouched:
        assert row.judgement.verdict is Verdict.CONSISTENT
        assert row.judgement.tightness == pytest.approx(1, abs=0.03)


def test_a_spoilt_bound_is_refuted_where_the_pair_reaches_it(judged):
    spoilt = [row for row in judged if row.mutation != "none" and row.claimed < row.true]
    assert {row.mutation for row in spoilt} == set(MUTATIONS)
    for row in spoilt:
        reached = row.judgement.certified
        assert reached is not None
        assert row.caught == (row.claimed * (1 + 1e-9) < reached), row.judgement.message
        if row.claimed < 0.97 * row.true:
            assert row.caught, row.judgement.message
            assert row.judgement.witness is not None


def test_tables_are_written(judged, tmp_path):
    write(judged, tmp_path)
    table = (tmp_path / "mutations.md").read_text(encoding="utf-8")
    line = next(line for line in table.splitlines() if line.startswith("| bsa24.theorem_4_1 |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2] == "1.0000"
    marks = dict(zip(MUTATIONS, cells[3:], strict=True))
    assert marks["lowered by 0.1%"] == "yes"
    assert marks["one order forgotten"] == "-"
    numbers = (tmp_path / "mutations.csv").read_text(encoding="utf-8").splitlines()
    assert len(numbers) == 1 + len(judged)
