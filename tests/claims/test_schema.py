"""The JSON Schema of claims files agrees with the reader."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from audit.claims import claims_file
from audit.claims import schema as claims_schema
from audit.claims.claim import KEYS as STATEMENT_KEYS
from audit.claims.claim import forms_of
from audit.claims.schema import schema
from audit.codec.yaml_text import read_yaml
from audit.curves.quantities import QUANTITIES, TotalVariation

from . import test_claims_file as written
from .written import HEAD, environment

TOP = Path(__file__).parents[2]
PUBLISHED = TOP / "docs" / "schemas" / "claims.schema.json"
SHIPPED = sorted((TOP / "scenarios" / "claims").glob("*.claims.yaml"))

# What the reader finds wrong in values of the right shape, or in other files: no schema can know.
READER_ONLY = re.compile(
    r"finite number|positive|must be in \[0, 1|of at least|must be at least|group_size must"
    "|event must|history must|training must|duplicate id|needs another record|one for each normal"
    "|unknown mechanism|for full batches|a file that exists|must not be circular"
)
NO_YAML = re.compile("not YAML|is repeated|tags must be left out|an alias must|too deeply")


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))


def plain(text: str) -> Any:
    """What the reader sees, with the keys that JSON has."""
    return json.loads(json.dumps(read_yaml(text)[0]))


def cases(test: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """The table of a test in `test_claims_file`."""
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    return list(mark.args[1])


def check_published(published: Path, module: str) -> None:
    """In a process of its own: other tests register constructions, bounds and studies."""
    printed = subprocess.run(
        [sys.executable, "-m", module, "--schema"],
        capture_output=True,
        check=True,
        env=environment(),
        timeout=100,
    ).stdout
    schema, known = json.loads(printed), json.loads(published.read_text(encoding="utf-8"))
    assert schema == known, "the reader or its descriptions have changed: run make schemas"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_what_is_published_is_the_schema_of_the_reader() -> None:
    check_published(PUBLISHED, "audit.cli.check")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.name))
def test_shipped_files_fit_and_name_the_schema(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [error.message for error in validator().iter_errors(plain(text))] == []
    named = text.partition("\n")[0].removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / named).resolve() == PUBLISHED


def test_every_form_fits() -> None:
    for body, *_ in cases(written.test_every_form):
        claims = textwrap.indent("- id: x\n" + textwrap.indent(body, "  "), "  ")
        assert validator().is_valid(plain(HEAD + claims)), body


def test_broken_claims_are_refused_as_by_the_reader() -> None:
    claims = [f"- {text}" for text in re.split(r"^- ", written.BAD, flags=re.MULTILINE)[1:]]
    for claim in claims:
        fits = validator().is_valid(plain(HEAD + textwrap.indent(claim, "  ")))
        message = claim.partition("  # ")[2]
        assert fits == bool(READER_ONLY.search(message)), (claim, message)


def test_broken_files_are_refused_as_by_the_reader() -> None:
    for text, _, message in cases(written.test_a_bad_file):
        if not NO_YAML.search(message):
            fits = validator().is_valid(plain(text))
            assert fits == bool(READER_ONLY.search(message)), (text, message)


# whatever the reader takes, the schema takes

NUMBERS = (1, 0.5, -1, 1e6, 0)
WORDS = ("x", "inf", "REPLACE_ONE", "Refuted", "m")
POOL = (*NUMBERS, *WORDS, None, True, [1], [], {}, [[1]])
KEYS = (*claims_file.COMMON_KEYS, *STATEMENT_KEYS, "title", "trials")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(item, (*path, key))


def changed(document: Any, dice: random.Random) -> Any:
    """The document with a key left out, renamed or respelt, or with another value."""
    *path, last = dice.choice(list(places(document)))
    place = document
    for key in path:
        place = place[key]
    match dice.randrange(5):
        case 0:
            del place[last]
        case 1 if isinstance(place, dict):
            place[dice.choice(KEYS)] = place.pop(last)
        case 2 if isinstance(place[last], str):
            place[last] = dice.choice([place[last].upper(), place[last].replace(" ", "_")])
        case 3:
            place[last] = dice.choice(POOL)
        case _:
            *_, other = dice.choice(list(places(document)))
            place[last] = place.get(other, 2) if isinstance(place, dict) else 2
    return document


def test_what_the_reader_takes_fits(tmp_path: Path) -> None:
    """Changed copies of the shipped claims: no false alarm, and slips are seen by both."""
    dice, path = random.Random(4), tmp_path / "changed.claims.yaml"
    texts = (file.read_text(encoding="utf-8") for file in SHIPPED)
    whole = [read_yaml(text)[0] for text in texts if "event:" not in text]  # read by workers
    both = taken = 0
    for _ in range(100):
        source = dice.choice([one for one in whole if "claims" in one])
        one = {**source, "claims": [dice.choice(source["claims"])]}
        named = one["claims"][0].get("mechanism")
        bases = list[str]()
        while isinstance(named, str):
            bases.append(named)
            named = source["mechanisms"][named].get("base")
        one["mechanisms"] = {name: source["mechanisms"][name] for name in bases}
        text = yaml.safe_dump(changed(json.loads(json.dumps(one)), dice), sort_keys=False)
        path.write_text(text, encoding="utf-8")
        complaints = claims_file.load([path]).complaints
        found = list(validator().iter_errors(plain(text)))
        errors = [error.message for error in found]
        # the reader checks defaults where a claim uses them
        read = [e.message for e in found if list(e.absolute_path)[:1] != ["defaults"]]
        assert complaints or not read, (text, read)
        taken += not complaints
        both += bool(complaints and errors)
    assert taken > 15
    assert both > 40


# nothing that the reader knows can be missing


def test_the_schema_has_the_keys_of_the_reader() -> None:
    found = validator().schema
    assert set(found["properties"]) == set(claims_file.FILE_KEYS)
    assert set(found["properties"]["defaults"]["properties"]) == set(claims_file.COMMON_KEYS)
    assert set(found["$defs"]["Claim"]["properties"]) == {
        "id",
        *claims_file.COMMON_KEYS,
        *STATEMENT_KEYS,
    }


def test_a_new_key_cannot_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_file, "COMMON_KEYS", (*claims_file.COMMON_KEYS, "colour"))
    with pytest.raises(KeyError, match="colour"):
        schema()


@dataclass(frozen=True)
class Advantage(TotalVariation):
    """A quantity from outside."""

    kind = "advantage"
    name = "advantage"
    written = "``advantage: 0.3``."


def test_a_new_quantity_is_in_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_schema, "QUANTITIES", {**QUANTITIES, "advantage": Advantage})
    monkeypatch.setattr(claims_schema, "FORMS", forms_of(claims_schema.QUANTITIES))
    found = jsonschema.Draft202012Validator(schema())
    own = found.schema["$defs"]["Claim"]["properties"]["advantage"]
    assert own["description"] == "`advantage: 0.3`."
    laws = {"laplace": {"sensitivity": 1, "scale": 2}}
    assert found.is_valid({"claims": [{"id": "x", "laws": laws, "advantage": 1}]})
    assert not found.is_valid({"claims": [{"id": "x", "laws": laws, "advantage": 1, "mu": 1}]})
    assert not found.is_valid({"claims": [{"id": "x", "laws": laws, "advantage": "much"}]})
