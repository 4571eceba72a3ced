"""Results as JSON: round trips, and agreement with the shipped schema."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import audit
from audit.cli import report
from audit.constructions import (
    Construction,
    DriftedWalk,
    GradientPair,
    PiecewiseLinear,
    QuadraticPair,
    TwoSidedWalk,
    encode_pair,
    kinds,
)
from audit.curves import Order
from audit.estimation import (
    BestColumn,
    CombinedColumns,
    FixedThresholds,
    Histogram,
    LearnedColumns,
    LinearScore,
    OrderStatistics,
    PilotSplit,
    Rates,
    SimultaneousBand,
    WeightedColumns,
)
from audit.results import (
    SCHEMA_FILE,
    AtDelta,
    AtOrder,
    BoundRow,
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Number,
    OtherPair,
    PairResult,
    Result,
    ScenarioHeading,
    Series,
    UserMechanismResult,
    from_json,
    schema,
    to_json,
)
from audit.results.result import SettingResult
from tests.mechanisms import noisy_sgd

M = noisy_sgd(steps=4, dataset_size=4, step_size=0.5, smoothness=2.0, diameter=4.0)
MECHANISMS = (
    M,
    dataclasses.replace(M, step_size=(0.5, 0.25, 0.125, 0.1)),
    dataclasses.replace(M, batch_size=2, batching=audit.Batching.POISSON, diameter=None),
)
FOLDER = Path(__file__).resolve().parents[2] / "results" / "scenarios"
LINE = PiecewiseLinear((-1.0, 1.0), (-0.5, 0.5), (0.0, 0.0))


def pairs_of(mechanism: audit.NoisySGD) -> list[Construction]:
    return [
        TwoSidedWalk(mechanism),
        DriftedWalk(mechanism, drift=-0.1, start=0.25),
        QuadraticPair(mechanism, curvature=0.0, others=0.25),
        GradientPair(mechanism, others=LINE, start=0.1),
    ]


# strategies that follow type hints

FLOATS = st.floats(allow_nan=False)
# all characters of st.text() itself, which takes seconds to ask UTF-8 for each
texts = functools.partial(st.text, st.characters(exclude_categories=["Cs"]))


@functools.cache
def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint, finite and infinite numbers but no NaN, which equals nothing."""
    if hint in OWN:
        own: st.SearchStrategy[Any] = OWN[hint]()
        return own
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of(*(strategy(part) for part in get_args(hint)))
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple and get_args(hint)[-1] is not Ellipsis:
        return st.tuples(*(strategy(part) for part in get_args(hint)))
    if get_origin(hint) in (tuple, Sequence):
        return st.lists(strategy(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(texts(max_size=5), strategy(get_args(hint)[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        return record(hint)
    return SIMPLE[hint]


SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    float: FLOATS,
    int: st.integers(),
    bool: st.booleans(),
    str: st.one_of(texts(max_size=5), st.sampled_from(["inf", "-inf", "nan"])),
    type(None): st.none(),
}


def record(cls: Any, **given_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    fields = {
        name: given_fields[name] if name in given_fields else strategy(hints[name])
        for name in (field.name for field in dataclasses.fields(cls))
    }
    return st.builds(cls, **fields)


def numbers() -> st.SearchStrategy[Number]:
    triples = st.tuples(FLOATS, FLOATS, FLOATS).map(sorted)
    return triples.map(lambda ends: Number(ends[1], ends[0], ends[2]))


@st.composite
def at_deltas(draw: st.DrawFn) -> AtDelta:
    rows = draw(st.lists(strategy(BoundRow), max_size=2))
    best = draw(st.sampled_from([None, *(row.id for row in rows)]))
    made = record(
        AtDelta,
        delta=st.floats(1e-12, 1 - 1e-12),
        bounds=st.just(tuple(rows)),
        best=st.just(best),
    )
    found: AtDelta = draw(made)
    return found


def rows() -> st.SearchStrategy[Any]:
    return st.lists(at_deltas(), min_size=1, max_size=2).map(tuple)


@st.composite
def series(draw: st.DrawFn) -> Series:
    size = draw(st.integers(0, 3))
    floats = st.floats()  # those that are not finite become gaps
    values = st.lists(floats, min_size=size, max_size=size).map(tuple)
    drawn = draw(st.sampled_from(list(Drawn)))
    top = draw(values) if drawn is Drawn.BAND else None
    return Series(name="a", x=draw(values), y=draw(values), drawn=drawn, top=top)


@st.composite
def tables(draw: st.DrawFn) -> FoundTable:
    columns = draw(st.lists(texts(max_size=3), max_size=2).map(tuple))
    hints = get_type_hints(FoundTable)["rows"]
    row = st.tuples(*(strategy(get_args(get_args(hints)[0])[0]) for _ in columns))
    rows = tuple(draw(st.lists(row, max_size=2)))
    return FoundTable(caption=draw(texts(max_size=3)), columns=columns, rows=rows)


@st.composite
def pair_results(draw: st.DrawFn) -> PairResult:
    mechanism = draw(st.sampled_from(MECHANISMS))
    pairs = st.sampled_from(pairs_of(mechanism))
    others = st.lists(record(OtherPair, pair=pairs), max_size=2).map(tuple)
    made = record(
        PairResult, mechanism=st.just(mechanism), pair=pairs, other_pairs=others, deltas=rows()
    )
    found: PairResult = draw(made)
    return found


def findings() -> st.SearchStrategy[Any]:
    chart = record(Chart, name=st.from_regex(r"\A\w[\w.-]{0,9}\Z").filter(str.isascii))
    charts = st.lists(chart, max_size=2, unique_by=lambda chart: chart.name).map(tuple)
    return record(Findings, charts=charts)


COLUMNS = (
    LinearScore(),
    BestColumn(0.3),
    WeightedColumns((1.0, -0.5)),
    LearnedColumns(Histogram(cells=16)),
)
OWN: dict[Any, Any] = {
    Number: numbers,
    AtDelta: at_deltas,
    AtOrder: lambda: record(AtOrder, order=st.floats(1.0, 1e6, exclude_min=True)),
    Series: series,
    FoundTable: tables,
    Findings: findings,
    PairResult: pair_results,
    UserMechanismResult: lambda: record(UserMechanismResult, deltas=rows()),
    PilotSplit: lambda: st.sampled_from([PilotSplit(), PilotSplit(fraction=0.3)]),
    CombinedColumns: lambda: record(CombinedColumns, choice=st.sampled_from(COLUMNS)),
    OrderStatistics: lambda: st.sampled_from(
        [OrderStatistics(), OrderStatistics(favours=(Order.FORWARD,))]
    ),
    SimultaneousBand: lambda: st.just(SimultaneousBand()),
    FixedThresholds: lambda: st.just(FixedThresholds((-1.0, 0.5), rates=Rates.JOINT)),
    ScenarioHeading: lambda: record(ScenarioHeading, name=texts(min_size=1, max_size=3)),
}


def results() -> st.SearchStrategy[Result]:
    kinds = st.one_of(*(strategy(kind) for kind in get_args(SettingResult)))
    return record(
        Result,
        confidence=st.floats(0.01, 0.999),
        settings=st.lists(kinds, min_size=1, max_size=3).map(tuple),
    )


@pytest.mark.parametrize("examples", [4, pytest.param(15, marks=pytest.mark.slow)])
def test_what_was_written_reads_as_an_equal_result(examples: int) -> None:
    @settings(max_examples=examples)
    @given(results())
    def check(result: Result) -> None:
        text = to_json(result)
        again = from_json(text)
        assert again == result
        assert to_json(again) == text
        validator().validate(json.loads(text))

    check()


@functools.cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(schema())


def test_the_schema_that_ships_is_the_one_of_the_types() -> None:
    shipped_schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert shipped_schema == schema(), (
        "the types have changed: run python -m audit.results.json_codec"
    )
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        report.run(["--schema"])
    assert ended.value.code in (None, 0)
    assert capsys.readouterr().out == SCHEMA_FILE.read_text(encoding="utf-8")


STORED = ("searched", "own_dp_sgd", "papers/published_figures")


def stored(name: str) -> str:
    """The committed result of a shipped scenario."""
    return (FOLDER / name / "result.json").read_text(encoding="utf-8")


def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key of a JSON document but those of mappings, whose names are free."""
    found = []
    if isinstance(node, dict):
        for key, item in node.items():
            found.append((*path, key))
            if key not in ("parameters", "numbers", "packages", "errors"):
                found += paths(item, (*path, key))
    elif isinstance(node, list):
        for i, item in enumerate(node[:1]):
            found += paths(item, (*path, i))
    return found


def shortened(node: Any) -> Any:
    """The document with the first two of every list, and of the bounds the best one."""
    if isinstance(node, list):
        return [shortened(item) for item in node[:2]]
    if not isinstance(node, dict):
        return node
    if best := [bound for bound in node.get("bounds", ()) if bound["id"] == node.get("best")]:
        node = {**node, "bounds": best}
    return {key: shortened(item) for key, item in node.items()}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_renamed_field_is_refused_wherever_it_is(every: int, name: str) -> None:
    plain = shortened(json.loads(stored(name)))
    plain["settings"] = plain["settings"][:1]
    assert validator().is_valid(plain)
    from_json(json.dumps(plain))
    for path in paths(plain)[::every]:
        place = functools.reduce(lambda node, key: node[key], path[:-1], plain)
        place[f"{path[-1]}_renamed"] = place.pop(path[-1])
        assert not validator().is_valid(plain), path
        with pytest.raises(ValueError, match=r"must be|must hold"):
            from_json(json.dumps(plain))
        place[path[-1]] = place.pop(f"{path[-1]}_renamed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "result must be JSON: Expecting property name"),
        ("", "result must be JSON: "),
        ("[" * 100_000, "result must be JSON: "),
        ("[]", "result must be a JSON object, got []"),
        ('{"version": NaN}', "result must be JSON: numbers must be finite, got NaN"),
        ('{"version": 1e400}', "result must be JSON: numbers must be finite, got 1e400"),
        ('{"format": 1}', "version must be 2, got 1; run the scenario again"),
        ("{}", "version must be 2, got None; run the scenario again"),
        ('{"version": 7}', "version must be 2, got 7; run the scenario again"),
        ('{"version": 2}', "scenario, provenance, confidence, settings must be given for a Re"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        from_json(text)
    assert "\n" not in str(caught.value)


FIRST = ("settings", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("confidence",), 1.5, r"confidence must be in \(0, 1\), got 1\.5$"),
        (("settings",), [], r"settings must be a list with at least one entry, got \[\]"),
        ((*FIRST, "kind"), "study ", r"settings\[0\]\.kind must be one of pair, user-defined"),
        ((*FIRST, "name"), None, r"settings\[0\]\.name must be .*, got None"),
        ((*FIRST, "deltas"), None, r"settings\[0\]\.deltas must be .*, got None"),
        ((*FIRST, "deltas"), [], r"settings\[0\]\.deltas must be a list with at least one"),
        (
            (*FIRST, "deltas", 0, "delta"),
            -0.5,
            r".*deltas\[0\]\.delta must be in \[0, 1\), got -0.5",
        ),
        ((*FIRST, "deltas", 0, "exact"), {}, r".*exact\.forward, reverse, worst must be"),
        ((*FIRST, "deltas", 0, "verdict"), 1, r".*deltas\[0\]\.verdict must be left out"),
        ((*FIRST, "mechanism"), 3, r"settings\[0\]\.mechanism must be .*, got 3"),
        ((*FIRST, "mechanism", "steps"), "x", r".*\.mechanism\.steps must be a whole number"),
        ((*FIRST, "pair", "kind"), "a walk", r".*\.pair\.kind must be one of .*, got 'a walk'"),
        ((*FIRST, "pair"), {"kind": "DriftedWalk"}, r".*\.pair\.drift must be given for a Drifted"),
        ((*FIRST, "pair"), {"kind": "Odd", "a b": 1}, r".*pair\.'a b' must be left out, got 1"),
        ((*FIRST, "pair"), {"kind": "Odd", "class": 1}, r".*pair\.'class' must be left out"),
        ((*FIRST, "pair"), {"kind": "Odd", "__init__": 1}, r".*'__init__' must be left out"),
        ((*FIRST, "pair"), {"kind": "Odd", "mechanism": 1}, r".*'mechanism' must be left out"),
        ((*FIRST, "findings", "statements"), 3, r".*statements must be .*, got 3"),
        (
            (*FIRST, "findings", "charts", 0, "name"),
            "a/../../../b",
            r".*name must be letters, digits, .* got 'a/\.\./\.\./\.\./b'",
        ),
        ((*FIRST, "findings", "charts"), [3], r".*findings\.charts\[0\] must be .*, got 3"),
    ],
)
def test_values_that_a_result_cannot_have(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    plain = json.loads(stored("papers/published_figures" if "findings" in path else "searched"))
    place = functools.reduce(lambda node, key: node[key], path[:-1], plain)
    place[path[-1]] = value
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        from_json(json.dumps(plain))
    assert "\n" not in str(caught.value)


def test_a_pair_of_another_program_keeps_its_parameters() -> None:
    plain = json.loads(stored("searched"))
    walk = {"kind": "TiltedWalk", "tilt": 0.5, "corners": [1.0, 2.0]}
    plain["settings"][0]["pair"] = walk
    text = json.dumps(plain)
    validator().validate(plain)
    (setting,) = from_json(text).settings
    assert isinstance(setting, PairResult)
    assert setting.pair.name == "TiltedWalk"
    assert encode_pair(setting.pair) == walk
    assert from_json(text) == from_json(text)
    with pytest.raises(
        ValueError, match=r"pair\.kind must be a registered construction, got 'Tilt"
    ):
        setting.pair.processes()
    assert "TiltedWalk" not in kinds()
    (other, *_), fewer = setting.other_pairs, dataclasses.replace(setting.mechanism, steps=1)
    other = dataclasses.replace(other, pair=dataclasses.replace(other.pair, mechanism=fewer))
    with pytest.raises(ValueError, match="mechanism must be the same for all pairs, got a pair of"):
        dataclasses.replace(setting, other_pairs=(other,))
