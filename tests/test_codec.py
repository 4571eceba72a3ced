"""The codec: round trips through JSON text, refusals with their path, and schemas."""

import enum
import functools
import json
import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import validate
from audit.codec import DecodeError, decode, encode
from audit.codec.hints import REQUIRED
from audit.codec.schemas import Schemas
from audit.mechanism import Batching, NoisySGD, Relation, Release

MECHANISM = {
    "steps": 10,
    "dataset_size": 4,
    "batch_size": 2,
    "step_size": 0.1,
    "noise_std": 1.0,
    "lipschitz": 1.0,
    "batching": "poisson",
}


class Colour(enum.Enum):
    DARK_RED = "dark red"
    BLUE = "blue"


@dataclass(frozen=True)
class Dot:
    """A point of a chart."""

    x: float
    y: float | None = None


@dataclass(frozen=True)
class Circle:
    """A circle."""

    kind: ClassVar[str] = "circle"

    centre: Dot
    radius: float = 1.0

    def __post_init__(self) -> None:
        validate.positive(radius=self.radius)


@dataclass(frozen=True)
class Polygon:
    """A polygon."""

    kind: ClassVar[str] = "polygon"

    corners: tuple[Dot, ...]
    colour: Colour = Colour.BLUE


@dataclass(frozen=True)
class Drawing:
    """Many things."""

    shapes: tuple[Circle | Polygon, ...]
    size: tuple[int, float]
    path: Path
    names: Mapping[str, int] = field(default_factory=dict)
    by_number: Mapping[int, str] = field(default_factory=dict)
    by_colour: Mapping[Colour, float] = field(default_factory=dict)
    style: Literal["thin", "thick", 3] = "thin"
    number: int | float | str | None = None
    closed: bool = False
    rest: Any = None


# all characters of st.text() itself, which takes seconds to ask UTF-8 for each
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
dots = st.builds(Dot, st.floats(allow_nan=False), st.none() | st.floats(allow_nan=False))
shapes = st.builds(Circle, dots, st.floats(0.1, 10)) | st.builds(
    Polygon, st.lists(dots).map(tuple), st.sampled_from(Colour)
)
drawings = st.builds(
    Drawing,
    shapes=st.lists(shapes, max_size=4).map(tuple),
    size=st.tuples(st.integers(), st.floats(allow_nan=False)),
    path=st.sampled_from([Path("a"), Path("/b/c.csv")]),
    names=st.dictionaries(TEXTS, st.integers(), max_size=3),
    by_number=st.dictionaries(st.integers(), TEXTS, max_size=3),
    by_colour=st.dictionaries(st.sampled_from(Colour), st.floats(allow_nan=False)),
    style=st.sampled_from(["thin", "thick", 3]),
    number=st.one_of(
        st.none(),
        st.integers(),
        st.floats(allow_nan=False),
        TEXTS.filter(lambda text: text not in ("inf", "-inf", "nan")),
    ),
    closed=st.booleans(),
    rest=st.lists(st.integers() | TEXTS),
)


def json_schema(hint: Any, **options: Any) -> dict[str, Any]:
    schemas = Schemas(**options)
    described = schemas.document(schemas.of(hint), title="x", id="y")
    jsonschema.Draft202012Validator.check_schema(described)
    return described


@functools.cache
def validator(hint: Any, **options: Any) -> Any:
    return jsonschema.Draft202012Validator(json_schema(hint, **options))


SCHEMA = json_schema(Drawing, exact=True)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(encode(value), allow_nan=False))


@given(drawings)
def test_round_trip_through_json_text(drawing):
    plain = through_json(drawing)
    read = decode(Drawing, plain)
    assert read == drawing
    assert type(read.number) is type(drawing.number)
    assert validator(Drawing, exact=True).is_valid(plain)


@given(drawings)
def test_round_trip_without_defaults(drawing):
    assert decode(Drawing, encode(drawing, defaults=False)) == drawing


def test_whole_numbers_written_with_a_point():
    assert repr(decode(int, 1e6)) == "1000000"
    assert repr(decode(int | float, 1e6)) == "1000000.0"
    for plain in (1.5, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^value must be a whole number, got"):
            decode(int, plain)


def test_encoded_order_and_kind():
    plain = encode(Circle(Dot(1.0)))
    assert list(plain.items()) == [
        ("kind", "circle"),
        ("centre", {"x": 1.0, "y": None}),
        ("radius", 1.0),
    ]
    assert encode(Circle(Dot(1.0)), defaults=False) == {"kind": "circle", "centre": {"x": 1.0}}


def test_numbers_that_json_lacks():
    assert encode([math.inf, -math.inf, math.nan]) == ["inf", "-inf", "nan"]
    read = decode(tuple[float, ...], ["inf", "-inf", "nan", math.inf])
    assert read[:2] == (math.inf, -math.inf)
    assert math.isnan(read[2])
    assert read[3] == math.inf


def test_numpy():
    plain = encode({"a": np.array([[1.0, math.inf]]), "b": np.float64(2.5), "c": np.int64(3)})
    assert plain == {"a": [[1.0, "inf"]], "b": 2.5, "c": 3}
    assert type(plain["b"]) is float
    assert type(plain["c"]) is int
    assert decode(int, np.int64(3)) == 3


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {None: 1}, {True: 1}, len])
def test_encode_refuses_what_has_no_plain_form(value):
    with pytest.raises(TypeError, match="must be"):
        encode([value] if not isinstance(value, dict) else value)


@pytest.mark.parametrize("kind", [Batching, Relation, Release, Colour])
def test_every_member_in_any_spelling(kind):
    for member in kind:
        words, name = member.value, member.name
        hyphens = name.title().replace("_", "-")
        for written in (member, words, words.upper(), name, name.lower(), hyphens):
            assert decode(kind, written) is member


def test_enum_refused_with_suggestion():
    message = (
        r"^mechanism.batching must be one of full, cyclic, shuffled, without replacement, poisson"
        r".*, got 'poison'; did you mean 'poisson'\?$"
    )
    with pytest.raises(ValueError, match=message):
        decode(NoisySGD, {**MECHANISM, "batching": "poison"}, "mechanism")


def drawing(**changes: Any) -> dict[str, Any]:
    plain = encode(Drawing((Circle(Dot(1.0)), Polygon(())), (1, 2.0), Path("a")))
    return {**plain, **changes}


POINT = {"x": 1}
# conditions on keys, on one number and of the class itself are those of the reader only
READER_ONLY = (
    f"[1] must be a number, got 1{99 * '0'}...",
    " must be a mapping whose keys are whole numbers, got 'x'",
    ".bleu must be one of dark red, blue, got 'bleu'; did you mean 'blue'?",
    "[0].radius must be a positive finite number, got -1.0",
)


@pytest.mark.parametrize(
    ("field", "plain", "message"),
    [
        ("size", [1], " must be a list of 2, got [1]"),
        ("size", ["x", 2.0], "[0] must be a whole number, got 'x'"),
        ("size", [1.5, 2.0], "[0] must be a whole number, got 1.5"),
        ("size", [True, 2.0], "[0] must be a whole number, got True"),
        ("size", [1, True], "[1] must be a number, got True"),
        ("size", [1, "infinite"], "[1] must be a number, got 'infinite'"),
        ("size", "12", " must be a list, got '12'"),
        ("size", [1, 10**400], READER_ONLY[0]),
        ("path", 3, " must be a path, got 3"),
        ("closed", 1, " must be true or false, got 1"),
        ("names", {"a": "b"}, ".a must be a whole number, got 'b'"),
        ("names", [1], " must be a mapping, got [1]"),
        ("by_number", {"x": "y"}, READER_ONLY[1]),
        ("by_colour", {"bleu": 1.0}, READER_ONLY[2]),
        ("style", "thikc", " must be one of thin, thick, 3, got 'thikc'; did you mean 'thick'?"),
        ("number", [1], " must be a whole number or a number or text or null, got [1]"),
        ("shapes", [{"kind": "square"}], "[0].kind must be one of circle, polygon, got 'square'"),
        ("shapes", [{"kind": "circel"}], "[0].kind must be one of circle, polygon, got 'circel'; "
         "did you mean 'circle'?"),
        ("shapes", [{"centre": POINT}], "[0].kind must be one of circle, polygon, got nothing"),
        ("shapes", [{"kind": "circle", "centre": POINT, "corners": []}], "[0].corners must be left "
         "out of a Circle, got []; known are centre, radius"),
        ("shapes", [{"kind": "circle", "centre": POINT, "radios": 3}], "[0].radios must be left "
         "out of a Circle, got 3; did you mean 'radius'?"),
        ("shapes", [{"kind": "circle", "centre": 7}], "[0].centre must be a mapping with the "
         "fields of a Dot, got 7"),
        ("shapes", [{"kind": "circle", "centre": POINT, "radius": -1}], READER_ONLY[3]),
        ("shapes", [{"kind": "polygon", "corners": [], "colour": "dark blue"}], "[0].colour must "
         "be one of dark red, blue, got 'dark blue'; did you mean 'dark red'?"),
        ("pth", "x", " must be left out of a Drawing, got 'x'; did you mean 'path'?"),
        ("shapes", [{"kind": "circle"}], "[0].centre must be given for a Circle, got nothing"),
    ],
)  # fmt: skip
def test_refusals_name_the_path(field, plain, message):
    changed = drawing(**{field: plain})
    for exact in (True, False):
        assert validator(Drawing, exact=exact).is_valid(changed) == (message in READER_ONLY)
    with pytest.raises(DecodeError) as refusal:
        decode(Drawing, changed, "page")
    assert str(refusal.value) == f"page.{field}{message}"
    assert message.endswith(refusal.value.problem)


def test_all_errors_are_told_at_once():
    plain = drawing(size=["x", True], closed=1, names2="x", shapes=[{"kind": "circle"}])
    del plain["path"]
    with pytest.raises(DecodeError) as refusal:
        decode(Drawing, plain, "page")
    told = {
        ("names2",): "page.names2 must be left out of a Drawing, got 'x'; did you mean 'names'?",
        ("shapes", 0, "centre"): "page.shapes[0].centre must be given for a Circle, got nothing",
        ("size", 0): "page.size[0] must be a whole number, got 'x'",
        ("size", 1): "page.size[1] must be a number, got True",
        ("closed",): "page.closed must be true or false, got 1",
    }
    assert {error.path: str(error) for error in refusal.value.errors} == told
    assert str(refusal.value) == "; ".join(told.values())
    with pytest.raises(DecodeError, match=r"^page.shapes, size must be given for a Drawing, got n"):
        decode(Drawing, {"path": "a"}, "page")
    with pytest.raises(DecodeError) as refusal:  # of many, the first
        decode(Mapping[str, tuple[int, ...]], {"a": ["x"] * 9, "b": "x"})
    assert [error.path for error in refusal.value.errors] == [
        *(("a", place) for place in range(8)),
        ("b",),
    ]


def test_path_without_a_name():
    with pytest.raises(
        DecodeError, match=r"^settings\[0\].steps must be a whole number"
    ) as refusal:
        decode(Mapping[str, tuple[NoisySGD, ...]], {"settings": [{**MECHANISM, "steps": "x"}]})
    assert refusal.value.path == ("settings", 0, "steps")
    with pytest.raises(DecodeError, match=r"^value must be a number, got 'x'$"):
        decode(float, "x")


def test_errors_reach_other_processes():
    with pytest.raises(DecodeError) as refusal:
        decode(NoisySGD, {**MECHANISM, "steps": "x"}, "m")
    error = pickle.loads(pickle.dumps(refusal.value))
    assert str(error) == "m.steps must be a whole number, got 'x'"
    assert error.path == ("steps",)
    assert error.problem == "must be a whole number, got 'x'"


def test_errors_of_the_class_itself_get_the_path():
    with pytest.raises(DecodeError, match=r"^m.steps must be a whole number of at least 1, got 0$"):
        decode(NoisySGD, {**MECHANISM, "steps": 0}, "m")
    plain = {k: v for k, v in MECHANISM.items() if k != "lipschitz"}
    with pytest.raises(ValueError, match=r"^lipschitz, clip_norm or gradient_sensitivity must be"):
        decode(NoisySGD, plain)
    with pytest.raises(ValueError, match=r"^m: lipschitz, clip_norm or gradient_sensitivity must"):
        decode(NoisySGD, plain, "m")


def test_misspelt_and_missing_field_of_a_mechanism():
    message = r"^steppes must be left out of a NoisySGD, got 3; did you mean 'steps'\?$"
    with pytest.raises(ValueError, match=message):
        decode(NoisySGD, {**MECHANISM, "steppes": 3})
    with pytest.raises(ValueError, match=r"^noise_std must be given for a NoisySGD, got nothing$"):
        decode(NoisySGD, {k: v for k, v in MECHANISM.items() if k != "noise_std"})


def test_mechanism():
    mechanism = decode(NoisySGD, {**MECHANISM, "step_size": 1, "holder": [1, 0.5]})
    assert mechanism.holder == (1.0, 0.5)
    assert mechanism.batching is Batching.POISSON
    assert decode(NoisySGD, through_json(mechanism)) == mechanism
    assert decode(NoisySGD, mechanism) is mechanism


def test_given_fields_come_from_elsewhere():
    assert decode(Circle, {"radius": 2}, given={"centre": Dot(0.0)}) == Circle(Dot(0.0), 2.0)
    with pytest.raises(ValueError, match=r"^centre must be left out of a Circle"):
        decode(Circle, {"centre": {"x": 1}}, given={"centre": Dot(0.0)})


def test_kind_of_a_class_that_is_hinted_alone():
    plain = encode(Circle(Dot(1.0)))
    assert decode(Circle, plain) == Circle(Dot(1.0))
    del plain["kind"]
    assert decode(Circle, plain) == Circle(Dot(1.0))
    with pytest.raises(ValueError, match=r"^kind must be circle, got 'polygon'$"):
        decode(Circle, {"kind": "polygon", "centre": {"x": 1}})


@dataclass(frozen=True)
class Kinded:
    kind: str
    values: Sequence[float] = ()


def test_a_field_named_kind_is_a_field():
    value = Kinded("x", (1.0,))
    assert encode(value) == {"kind": "x", "values": [1.0]}
    assert decode(Kinded, encode(value)) == value


@dataclass(frozen=True)
class Length:
    metres: float

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        return {"metres": plain} if isinstance(plain, int | float) else plain


def test_shorthand():
    assert decode(Length, 3) == Length(3.0)
    assert decode(Length | None, 3) == Length(3.0)
    assert decode(Length | None, None) is None
    with pytest.raises(ValueError, match=r"^height must be a mapping with the fields of a Length"):
        decode(Length, "3", "height")


@dataclass(frozen=True)
class Step:
    size: float = field(default=0.0, metadata=REQUIRED)
    count: int = 1


def test_required_fields_with_a_default():
    assert Step().size == 0.0
    assert encode(Step(), defaults=False) == {"size": 0.0}
    assert json_schema(Step, exact=True)["$defs"]["Step"]["required"] == ["size"]
    with pytest.raises(ValueError, match=r"^size must be given for a Step, got nothing$"):
        decode(Step, {"count": 2})


def test_one_class_of_a_union_may_have_no_kind():
    hint = Dot | Circle | None
    for value in (Dot(1.0), Circle(Dot(1.0)), None):
        assert decode(hint, encode(value)) == value
    with pytest.raises(ValueError, match=r"^kind must be one of circle, got 'polygon'$"):
        decode(hint, {"kind": "polygon"})


def test_unions_need_kinds():
    with pytest.raises(TypeError, match="must have different kinds, got Dot, Length"):
        decode(Dot | Length, {"x": 1})
    with pytest.raises(TypeError, match="must be one that has a plain form"):
        decode(bytes, b"x")


def test_schema():
    assert (SCHEMA["title"], SCHEMA["$id"]) == ("x", "y")
    assert SCHEMA["$ref"] == "#/$defs/Drawing"
    assert SCHEMA["$defs"]["Colour"]["enum"] == ["dark red", "blue"]
    circle = SCHEMA["$defs"]["Circle"]
    assert circle["required"] == ["kind", "centre"]
    assert circle["properties"]["kind"] == {"const": "circle"}
    assert circle["description"] == "A circle."
    assert circle["additionalProperties"] is False


def test_schemas_of_two_classes_of_one_name():
    other = type("Dot", (), {"__annotations__": {"z": float}, "__module__": __name__})
    schema = json_schema(tuple[Dot, dataclass(other)])
    assert set(schema["$defs"]) == {"Dot", f"{__name__}.Dot"}
