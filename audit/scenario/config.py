"""Scenarios as plain data: what a YAML file says, and a scenario written back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit import validate
from audit.codec import decode, encode
from audit.codec.hints import did_you_mean
from audit.isolation import search_in
from audit.scenario import (  # noqa: F401 each registers its kind
    pair,
    studies,
    user_mechanism,
)
from audit.scenario.definition import KINDS, Scenario, Setting, load, reference
from audit.simulation.blocks import available_threads


def read_scenario(plain: Mapping[str, Any], folders: Sequence[Path] = ()) -> Scenario:
    """Return the scenario that plain data describes.

    Modules of the user are searched for in ``folders``, also those that the run imports.
    """
    search_in(*folders)
    values = {str(key): value for key, value in plain.items() if value is not None}
    settings = values.pop("settings", {})
    threads = values.pop("threads", None)
    given = {
        "settings": read_settings(settings, folders),
        "threads": available_threads() if threads is None else decode(int, threads, "threads"),
    }
    if "bounds" in values:
        ids = decode(tuple[str, ...], values["bounds"], "bounds")
        values["bounds"] = [_bound_id(id, f"bounds[{i}]", folders) for i, id in enumerate(ids)]
    if values.get("title", "") == "":
        values["title"] = values.get("name")
    scenario: Scenario = decode(Scenario, values, given=given)
    return scenario


def read_settings(plain: Any, folders: Sequence[Path] = ()) -> tuple[Setting, ...]:
    """Return the settings that a mapping from names to keys describes; all errors are joined."""
    if not isinstance(plain, Mapping):
        raise validate.fail("settings", "a mapping from names to settings", plain)
    found: list[Setting] = []
    wrong: list[str] = []
    for name, one in plain.items():
        others = [str(key) for key in plain if key != name]
        try:
            found.append(read_setting(str(name), one, folders, others))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(found)


def read_setting(
    name: str, plain: Any, folders: Sequence[Path] = (), others: Sequence[str] = ()
) -> Setting:
    """Return the setting that plain data describes; its kind is that of the key it holds.

    Keys without a value are dropped. Modules of the user are searched for in ``folders``.
    """
    where = f"settings.{name}"
    if not isinstance(plain, Mapping):
        raise validate.fail(where, "a mapping", plain)
    values = {str(key): value for key, value in plain.items() if value is not None}
    kinds = [key for key in KINDS if key in values]
    if not kinds:
        known, got = ", ".join(sorted(KINDS)), ", ".join(values) or "nothing"
        raise ValueError(f"{where} must hold one of {known}, got {got}{did_you_mean(name, others)}")
    if len(kinds) > 1:
        raise ValueError(f"{where} must hold only one of {', '.join(kinds)}, got all of them")
    cls = KINDS[kinds[0]]
    allowed = tuple(cls.keys())
    for key, value in values.items():
        if key not in allowed:
            got = "a mapping" if isinstance(value, Mapping) else repr(value)
            close = did_you_mean(key, allowed) or f"; known are {', '.join(allowed)}"
            raise ValueError(
                f"{where}.{key} must be left out of a setting with the key {cls.key}, "
                f"got {got}{close}"
            )
    if values.get("title", "") == "":
        values["title"] = name
    given = {"name": name, **cls.read_fields(values, where, folders)}
    setting: Setting = decode(cls, values, where, given=given)
    return setting


def _bound_id(id: str, where: str, folders: Sequence[Path]) -> str:
    """Return the id of a bound; ``module:function`` names one of the user."""
    if ":" not in id:
        return id
    from audit import bounds  # takes a while to import, which a misspelt key must not

    found = load(id, name=where, folders=folders)
    for entry in bounds.CATALOGUE.values():
        if found in (entry, entry.function):
            return entry.id
    raise validate.fail(where, "a function decorated with @bound", id)


def write_scenario(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as plain data; the inverse of `read_scenario`.

    Each pair stands there with the fields of its own kind, and choices in lower-case words.
    """
    from audit import bounds

    functions = {id: bounds.entry(id).function for id in scenario.bounds}
    return {
        **{
            field.name: encode(getattr(scenario, field.name))
            for field in dataclasses.fields(scenario)
            if field.name not in ("settings", "bounds")
        },
        "bounds": [reference(function) or id for id, function in functions.items()],
        "settings": {setting.name: setting.to_plain() for setting in scenario.settings},
    }
