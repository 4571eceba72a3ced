"""Stored numbers come out again to their last digit: a sample of every kind of row.

``python -m results.check`` computes all rows again. A number may move only where it was wrong.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from results.check import __main__ as command
from results.check import sources
from results.check.rows import Row

SAMPLE = (
    # exact numbers and bounds of every setting with a pair
    "*/result.json: [!pw]*",
    "catalogue/catalogue.csv: [!o]*",
    "claims.json: *",
    "catalogue/witnesses.csv: survey.section_iii_a",
    "claims/mutations.csv: [!as]*",
    # tests/make_results/test_zoo.py judges a claim of each verdict of every case
    "zoo/zoo.csv: nvflare 2.0.16, *",
    "panel/points.csv: survey.gaussian_mechanism",
    "scenarios/found/*",
    "map/points.csv: strongly convex, full batch, A=100, s=0.05",
    "allocation/allocation.csv: 1, 20, 16, 1",
    "trainings/trainings.csv: *",
)
# rows of some seconds, which `make test` leaves to `make test-all`
SLOW = (  # of claims also what is stored of them elsewhere
    "at22_lower_bound/result.json: sampled",
    "scenarios/holder_gradients/result.json: [!pw]*",
    # samples of the user's mechanism; of walks: tests/simulation/test_bits.py
    "scenarios/own_pure_dp/result.json: whole run",
    "scenarios/resets/result.json: huber",
    "scenarios/step_sizes/result.json: full_batch",
    "c*: accounting.[pr]*",
    "c*: cl25.corollary_a_3_reshuffled",
    "c*: [es][vu]*.theorem_3_[3a]",  # evd26, of which zeros are stored, and sun24
    "c*: fmtt18.corollary_31",
    "c*: survey.*_l[ai]*",  # the last iterate, a literal reading
    "claims/mutations.csv: bsa24.theorem_4_[28]*",
    "map/points.csv: convex, full batch, A=10, s=0.2",
    "map/points.csv: cyclic batches, A=3, s=0.2",
    "last_iterate/leaked.csv: first line",
)
PATTERNS = [*SAMPLE, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
# rows of these that take longer, which ``python -m results.check`` computes
SECONDS = (
    "scenarios/fixed_order_epochs/result.json: four_epochs",
    "scenarios/holder_gradients/result.json: absolute",
    "scenarios/without_replacement/result.json: one_in_ten",
    "scenarios/step_sizes/result.json: sampled",
    "catalogue/catalogue.csv: at22.theorem_4_1*",
    "catalogue/catalogue.csv: fmtt18.lemma_25",
    "catalogue/catalogue.csv: fs25.theorem_4_1",
    "claims/mutations.csv: bsa24.theorem_4_8, 5 steps*",
    "catalogue/catalogue.csv: printed numbers",  # by tests/make_results/test_catalogue.py
    "claims.json: at22.theorem_4_1*",
)


@cache
def rows() -> dict[str, Row]:
    return {row.name: row for row in sources.rows()}


@cache
def computed(name: str) -> Any:
    """The numbers of a row as they are computed now, once for all tests."""
    return rows()[name].again()


def sampled(pattern: str) -> list[Row]:
    left_out = SECONDS if pattern in SLOW else SECONDS + SLOW
    found = [
        row
        for name, row in rows().items()
        if fnmatchcase(name, pattern) and not any(fnmatchcase(name, one) for one in left_out)
    ]
    assert found, f"no row is named {pattern}"
    return [replace(row, again=partial(computed, row.name)) for row in found]


def numbers(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of all finite numbers of a row that are not zero; of brackets, their ends."""
    if isinstance(data, dict):
        bracket = {"low", "high"} <= data.keys()
        for key, value in data.items():
            if bracket and key not in ("low", "high"):
                continue
            yield from numbers(value, (*place, key))
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            yield from numbers(value, (*place, number))
    elif not isinstance(data, bool):
        try:
            value = float(data)
        except (TypeError, ValueError):
            return
        if 0 < abs(value) < float("inf"):
            yield place


def with_error(row: Row, place: tuple[Any, ...]) -> Row:
    """Return the row with one stored number that is wrong by two units of a digit it holds.

    The last digit that the row compares; of whole numbers the sixth, as ends of wide brackets do.
    """
    stored = copy.deepcopy(row.stored)
    inner = stored
    for key in place[:-1]:
        inner = inner[key]
    text = str(inner[place[-1]])
    if row.digits is None:
        decimals = len(text.partition(".")[2])
        inner[place[-1]] = f"{float(text) + 2 * 10.0**-decimals:.{decimals}f}"
    else:
        inner[place[-1]] = float(text) * (1 + max(2e-6, 20 * 10.0**-row.digits))
    return replace(row, stored=stored)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_stored_numbers_come_out_again(pattern: str) -> None:
    assert [str(one) for row in sampled(pattern) for one in row.moved()] == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_changed_digit_is_named(pattern: str) -> None:
    sample = [(row, list(numbers(row.stored))) for row in sampled(pattern)]
    with_numbers = [(row, places) for row, places in sample if places]
    assert with_numbers  # of some claims no number is stored
    for row, places in with_numbers:
        for place in {places[0], places[len(places) // 2], places[-1]}:
            (found,) = with_error(row, place).moved()
            words = [str(key) for key in place]
            # of a bracket both ends are shown
            assert found.place in (", ".join(words), ", ".join(words[:-1]))
            named = ": ".join(filter(None, (row.name, found.place)))
            assert str(found).startswith(f"{named}: stored ")


def row(stored: Any, now: Any, digits: int | None = 10) -> Row:
    return Row("table.csv: first", stored, lambda: now, digits)


@pytest.mark.parametrize(
    ("stored", "now", "digits"),
    [
        ("4.5874", "4.5876", None),
        ("2.0", "2.2", None),
        ("1.25", "1.2521", 4),
        (1.0, 1.0 + 2.1e-9, 10),
        (7, 8, 10),
        (0.0, 1e-15, 10),
        (None, 0.5, 10),
        ("", "0.5", 8),
        ("inf", "1e300", 8),
        ("refuted", "consistent", 8),
        ([1.0, 2.0], [1.0], 10),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, 10),
        # brackets: apart, wider, moved by more than the width, and a wide one in the sixth digit
        ({"low": 1.0, "high": 1.1}, {"low": 1.2, "high": 1.3}, 10),
        ({"low": 1.0, "high": 1.0 + 1e-8}, {"low": 1.0 - 2e-8, "high": 1.0 + 1e-8}, 10),
        ({"low": 1.0, "high": 1.0 + 1e-8}, {"low": 1.0, "high": 1.0 + 3e-8}, 10),
        ({"low": 1.0, "high": 1.1}, {"low": 1.00001, "high": 1.1}, 10),
        ({"low": 0.0, "high": 1e-12}, {"low": 0.0, "high": 1e-8}, 10),
    ],
)
def test_what_moved_is_found(stored: Any, now: Any, digits: int | None) -> None:
    assert len(row(stored, now, digits).moved()) == 1
    assert row(stored, stored, digits).moved() == row(now, now, digits).moved() == ()


@pytest.mark.parametrize(
    ("stored", "now", "digits"),
    [
        ("4.5874", "4.5875", None),  # rounded to the other side
        ("0.1234567800", 0.12345678, 8),
        ("1e-05", 1e-5, 8),
        ("", None, 8),
        (1.0, 1.0 + 1e-13, 10),
        # narrower, or moved by less than the width
        ({"low": 1.0, "high": 1.0 + 1e-8}, {"low": 1.0 + 4e-9, "high": 1.0 + 6e-9}, 10),
        ({"low": 1.0, "high": 1.0 + 1e-8}, {"low": 1.0 - 9e-9, "high": 1.0 + 5e-9}, 10),
        ({"low": 0.0, "high": 1e-12}, {"low": 0.0, "high": 1e-10}, 10),
    ],
)
def test_rounding_is_no_move(stored: Any, now: Any, digits: int | None) -> None:
    assert row(stored, now, digits).moved() == ()


def test_a_row_that_cannot_be_computed_is_named() -> None:
    def broken() -> None:
        raise ValueError("steps must be positive, got 0")

    (found,) = Row("table.csv: first", 1.0, broken).moved()
    assert str(found) == (
        "table.csv: first: stored numbers, now ValueError: steps must be positive, got 0"
    )


def test_the_command_names_what_moved_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "runs" / "check.jsonl"
    made = (row({"x": "1.5"}, {"x": 1.7}, 2), Row("other.csv: second", 1.0, lambda: 1.0))
    monkeypatch.setattr(command, "rows", lambda: made)
    assert command.main(["--log", str(log), "other*"]) == 0
    assert command.main(["--log", str(log)]) == 1
    assert "table.csv: first: x: stored 1.5, now 1.7\n" in capsys.readouterr().out
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    assert [json.loads(line)["row"] for line in lines] == [one.name for one in made]
    log.write_text("".join(lines) + lines[0][:9], encoding="utf-8")  # torn
    refused = [replace(one, again=lambda: pytest.fail("computed twice")) for one in made]
    monkeypatch.setattr(command, "rows", lambda: refused)
    for _ in range(2):
        assert command.main(["--log", str(log), "--resume"]) == 1
    assert log.read_text(encoding="utf-8") == "".join(lines)
    assert "2 rows: 1 numbers moved" in capsys.readouterr().out
    assert command.main(["--log", str(log), "nothing"]) == 2
    assert "PATTERN must name a row, got nothing" in capsys.readouterr().err
