"""YAML text as claims files read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.claims.yaml_tree import Broken, MappingNode, Scalar, parse, plain

FILE = Path("a.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        (".5", 0.5),
        ("-3.", -3.0),
        ("1_000", 1000),
        ("007", 7),
        ("'1'", "1"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("true", True),
        ("~", None),
        ("-.inf", float("-inf")),
    ],
)
def test_numbers_and_words(text: str, value: object) -> None:
    node = parse(f"a: {text}", Path("f"))
    assert isinstance(node, MappingNode)
    ((_, found),) = node.entries
    assert isinstance(found, Scalar)
    assert found.value == value
    assert type(found.value) is type(value)


def test_aliases_of_aliases_are_read_once() -> None:
    lines = ["a0: &a0 [x]"] + [
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 60)
    ]
    assert isinstance(
        parse("\n".join(lines), Path("f")), MappingNode
    )  # 9^59 words if they were copied


def test_a_number_too_long_to_be_one() -> None:
    with pytest.raises(Broken, match="f:2: not readable as a number"):
        parse("a: 1\nb: " + "9" * 5000, Path("f"))


MERGED = """\
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, b: 5}
several: {<<: [*base, *more], d: 6}
quoted: {"<<": 7}
"""


def test_merge_keys_take_entries_in() -> None:
    """Own keys come first, then those of earlier mappings; in quotes it is a key like any other."""
    read = plain(parse(MERGED, FILE))
    assert read["one"] == {"b": 5, "a": 1}
    assert read["several"] == {"d": 6, "a": 1, "b": 2, "c": 4}
    assert read["quoted"] == {"<<": 7}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {<<: 3}", "<< must be a mapping or a list of mappings, got 3"),
        ("a: {<<: [{b: 1}, [2]]}", "<< must be a mapping or a list of mappings, got a list"),
        ("a: &x {<<: *x}", "an alias must not be inside the value that it names"),
        ("a: {<<: {b: 1}, <<: {c: 1}}", "key '<<' is repeated, first on line 1"),
    ],
)
def test_bad_merge_keys(text: str, message: str) -> None:
    with pytest.raises(Broken) as refused:
        parse(text, FILE)
    assert str(refused.value) == f"{FILE}:1: {message}"
