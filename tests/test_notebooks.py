"""The stored outputs of the tutorial's notebook are what its cells show."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests import notebooks

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def test_stored_outputs_are_those_of_the_cells() -> None:
    stored = notebooks.read()["cells"]
    made = notebooks.executed(stored)
    code = [cell for cell in stored if cell["cell_type"] == "code"]
    assert len(code) >= 8
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for old, new in zip(stored, made, strict=True):
        for left, right in zip(old.get("outputs", []), new.get("outputs", []), strict=True):
            assert left["output_type"] == right["output_type"]
            same(text_of(left), text_of(right))


def text_of(output: dict[str, Any]) -> str:
    """Return the HTML of an output, else its text; a figure has no text."""
    data = output.get("data", {"text/plain": output.get("text", [])})
    return "".join(data.get("text/html", data["text/plain"]))


def same(stored: str, made: str) -> None:
    """Check that two texts differ in the last digits of their numbers at most."""
    assert _NUMBER.sub("#", stored) == _NUMBER.sub("#", made)
    numbers = [[float(number) for number in _NUMBER.findall(text)] for text in (stored, made)]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-3, abs=0.2)


def test_a_changed_output_is_found() -> None:
    same("epsilon 1.2345 at", "epsilon 1.2346 at")
    with pytest.raises(AssertionError):
        same("epsilon 100.0 at", "epsilon 101.0 at")
    with pytest.raises(AssertionError):
        same("epsilon 1.0", "delta 1.0")


def test_what_a_cell_shows() -> None:
    def cell(source: str) -> dict[str, Any]:
        return {"cell_type": "code", "source": [source]}

    shown, quiet, figure = notebooks.executed(
        [
            cell("print('a')\n1 + 1"),
            cell("1 + 1;"),
            cell("from matplotlib import pyplot\npyplot.plot([1, 2]);"),
        ]
    )
    assert [text_of(output) for output in shown["outputs"]] == ["a\n", "2"]
    assert quiet["outputs"] == []
    (picture,) = figure["outputs"]
    assert picture["data"]["image/png"].startswith("iVBOR")
    with pytest.raises(ZeroDivisionError):
        notebooks.executed([cell("1 / 0")])
