"""YAML text as all input files read it."""

from __future__ import annotations

import pytest

from audit.codec.yaml_text import Lines, YamlError, read_yaml


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
    found = read_yaml(f"a: {text}")[0]["a"]
    assert found == value
    assert type(found) is type(value)


def test_lines_of_paths() -> None:
    """A number is where it stands, a mapping or a list where its key stands."""
    _, lines = read_yaml("a:\n  b: 1\n  c:\n    - 2\n    - {d:\n        3}\ne: 4\n")
    places = {
        (): 1,
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 4,
        ("a", "c", 1): 5,
        ("a", "c", 1, "d"): 6,
        ("a", "c", 1, "none"): 5,
        ("a", "c", 7): 3,
        ("e",): 7,
        ("e", "none"): 7,
        ("none", "a"): 1,
    }
    assert {path: lines.at(path) for path in places} == places
    assert lines.parts["a"][1].line == 2
    assert read_yaml("") == (None, Lines(1))


def bomb(values: int, levels: int) -> str:
    lines = [f"a0: &a0 [{', '.join('x' * values)}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


def test_aliases_are_one_value_and_not_too_many() -> None:
    read, lines = read_yaml(bomb(9, 4))
    assert read["a3"][0] is read["a3"][8]
    assert lines.size == 1 + sum(map(size, read.values()))
    with pytest.raises(YamlError, match="aliases must leave at most 1000000 values") as refused:
        read_yaml(bomb(1, 60))  # 9^59 words if they were copied
    assert refused.value.line == 7


def size(value: object) -> int:
    return 1 + sum(map(size, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: " + "9" * 5000, 2, "not readable as a number: '9999"),
        ("a: 1\nb: !x 2", 2, "tags must be left out, got '!x'"),
        ("a:\n- !!python/tuple [1]", 2, "tags must be left out, got 'tag:yaml.org,2002:python/tup"),
        ("a: 1\n[b]: 2", 2, "a key must be a word or a number"),
        ("a: 1\nb: 2\na: 3", 3, "key 'a' is repeated, first on line 1"),
        ("a: 1\nb: [", 2, "not YAML: while parsing a flow node"),
        ("[" * 1000, 1, "not readable: nested too deeply"),
    ],
)
def test_what_is_refused(text: str, line: int, message: str) -> None:
    with pytest.raises(YamlError) as refused:
        read_yaml(text)
    assert refused.value.line == line
    assert str(refused.value).startswith(message)


MERGED = """\
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, b: 5}
several: {<<: [*base, *more], d: 6}
quoted: {"<<": 7}
"""


def test_merge_keys_take_entries_in() -> None:
    """Own keys come first, then those of earlier mappings; in quotes it is a key like any other."""
    read, lines = read_yaml(MERGED)
    assert read["one"] == {"b": 5, "a": 1}
    assert read["several"] == {"d": 6, "a": 1, "b": 2, "c": 4}
    assert read["quoted"] == {"<<": 7}
    assert [lines.at(("several", key)) for key in "abcd"] == [1, 1, 2, 4]


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
    with pytest.raises(YamlError) as refused:
        read_yaml(text)
    assert (refused.value.line, str(refused.value)) == (1, message)
