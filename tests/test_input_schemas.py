"""Schemas of input files: they accept what `decode` accepts, and refuse mistakes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.codec import decode
from audit.codec.hints import REQUIRED
from audit.codec.schemas import Schemas, about, about_fields

from .test_codec import Drawing, drawings, encode, validator


@given(drawings, st.booleans())
def test_what_is_written_fits(value: Drawing, defaults: bool) -> None:
    plain = encode(value, defaults=defaults)
    plain["by_number"] = {str(key): item for key, item in plain.get("by_number", {}).items()}
    assert validator(Drawing).is_valid(plain)


class Colour(enum.Enum):
    """Colours.

    Attributes
    ----------
    DARK_RED
        As ``wine``.
    """

    DARK_RED = "crimson red"
    BLUE = "blue"


@given(st.data())
def test_choices_fit_in_exactly_the_spellings_that_are_read(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(["crimson red", "DARK_RED", "blue", "bleu", "red", "3", ""]))
    signs = [data.draw(st.sampled_from([s.lower(), s.upper(), s])) for s in word]
    ends = [data.draw(st.sampled_from(["", " ", "_", "-"])) for _ in range(2)]
    gap = data.draw(st.sampled_from([" ", "_", "-"]))
    spelt = ends[0] + re.sub("[ _]", gap, "".join(signs)) + ends[1]
    try:
        decode(Colour, spelt)
        read = True
    except ValueError:
        read = False
    assert validator(Colour).is_valid(spelt) == read


@dataclass(frozen=True)
class Line:
    """A line, drawn in one stroke.

    It may be long.

    Parameters
    ----------
    x, y
        Where it ends.

        In ``cm``.
    width : float
        Of the pen.

    Notes
    -----
    kept
        Elsewhere.
    """

    x: float
    y: float = field(default=0.0, metadata=REQUIRED)
    width: float | None = 1.0
    colour: Colour = Colour.BLUE
    style: tuple[str, ...] = ()

    shorthands: ClassVar[dict[str, Any]] = {"": float, "style": str}

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        return {"x": plain, "y": plain} if isinstance(plain, float) else plain


def test_descriptions_defaults_and_what_is_needed() -> None:
    schemas = Schemas()
    fields = schemas.of_fields(Line, ("style",))
    assert fields["required"] == ["x", "y"]
    assert list(fields["properties"]) == ["x", "y", "width", "colour"]
    assert fields["properties"]["width"] == {
        "description": "Of the pen.",
        "default": 1.0,
        "type": ["number", "string", "null"],
        "pattern": "^(-?inf|nan)$",
        "errorMessage": "must be a number",
    }
    assert fields["properties"]["colour"] == {"default": "blue", "$ref": "#/$defs/Colour"}
    red, blue, _ = schemas.definitions["Colour"]["anyOf"]
    assert red == {"const": "crimson red", "description": "As `wine`."}
    assert blue == {"const": "blue"}


def test_docstrings() -> None:
    assert about(Line) == "A line, drawn in one stroke.\n\nIt may be long."
    assert about_fields(Line) == {
        "x": "Where it ends.\n\nIn `cm`.",
        "y": "Where it ends.\n\nIn `cm`.",
        "width": "Of the pen.",
    }
    assert about(dataclass(type("Bare", (), {}))) == ""


def test_shorthands() -> None:
    lines = validator(Line)
    for plain in (1.5, {"x": 1, "y": 2}, {"x": 1, "y": 2, "style": "dots"}):
        assert lines.is_valid(plain)
    for plain in ("long", {"x": 1, "y": 2, "style": 3}):
        assert not lines.is_valid(plain)

    @dataclass
    class Forgotten:
        x: float

        @classmethod
        def expand_shorthand(cls, plain: Any) -> Any:
            return plain

    with pytest.raises(TypeError, match="Forgotten must have shorthands"):
        Schemas().of(Forgotten)


HINTS = (
    int,
    float,
    bool,
    None,
    str,
    Path,
    Colour,
    Line,
    tuple[int, ...],
    int | None,
    dict[str, int],
    Literal["thin", 3],
)


@pytest.mark.parametrize("hint", HINTS)
def test_placeholders_stand_for_any_value(hint: Any) -> None:
    later = validator(hint, placeholder=r"\$\{")
    assert later.is_valid("${other.key}")
    assert validator(hint).is_valid("${other.key}") == (hint in (str, Path))
    assert later.is_valid("word") == (hint in (str, Path))


def test_a_value_or_none_or_a_placeholder() -> None:
    schema = Schemas(placeholder=r"\$\{").of(float | None)
    assert schema["errorMessage"] == "must be a number or null"
    assert jsonschema.Draft202012Validator(schema).is_valid("inf")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Numbers, or a file and its column."""

    numbers: tuple[float, ...] | None = None
    file: Path | None = None
    column: str | None = None
    scale: float = 1.0

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (("numbers",), ("file", "column"))


@pytest.mark.parametrize(
    ("plain", "fits"),
    [
        ({"numbers": [1]}, True),
        ({"numbers": [1], "file": None, "scale": 2}, True),
        ({"file": "a.csv", "column": "x"}, True),
        ({}, False),
        ({"numbers": None}, False),
        ({"file": "a.csv"}, False),
        ({"numbers": [1], "file": "a.csv", "column": "x"}, False),
        ({"numbers": [1], "column": "x"}, False),
    ],
)
def test_one_of_several_groups_of_fields(plain: dict[str, Any], fits: bool) -> None:
    assert validator(Source).is_valid(plain) == fits


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


def test_choices_that_are_numbers() -> None:
    for plain in (1, 2, "LOW", "high", 3, "middle", True):
        try:
            decode(Level, plain)
            read = True
        except ValueError:
            read = False
        assert validator(Level).is_valid(plain) == read, plain


def test_two_definitions_of_one_name() -> None:
    schemas = Schemas()
    assert schemas.defined("Line", {"type": "string"}) == {"$ref": "#/$defs/Line"}
    assert schemas.of(Line) == {"$ref": f"#/$defs/{__name__}.Line"}
    with pytest.raises(TypeError, match="name must be that of one definition, got 'Line' twice"):
        schemas.defined("Line", {"type": "integer"})
