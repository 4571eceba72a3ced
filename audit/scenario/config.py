"""Scenarios as plain data: what a YAML file says, and a scenario written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit import validate
from audit.codec import decode, encode
from audit.codec.hints import did_you_mean
from audit.isolation import search_in
from audit.scenario import pair, studies, user_mechanism  # noqa: F401 each registers its kind
from audit.scenario.definition import KINDS, Scenario, Setting, load, reference
from audit.simulation.blocks import available_threads


def read_scenario(plain: Mapping[str, Any], folders: Sequence[Path] = ()) -> Scenario:
    """Return the scenario that plain data describes; errors of all settings are joined.

    Modules of the user are searched for in ``folders``, also those that the run imports.
    """
    search_in(*folders)
    values = _given(plain)
    if values.get("title", "") == "":
        values["title"] = values.get("name")
    values.setdefault("threads", available_threads())
    settings = values.get("settings", {})
    if not isinstance(settings, Mapping):
        raise validate.fail("settings", "a mapping from names to settings", settings)
    found, wrong = [], []
    for name, one in settings.items():
        others = [str(key) for key in settings if key != name]
        try:
            found.append(read_setting(str(name), one, folders, others))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    values["settings"] = tuple(found)
    if "bounds" in values:
        ids = decode(tuple[str, ...], values["bounds"], "bounds")
        values["bounds"] = [_bound_id(id, f"bounds[{i}]", folders) for i, id in enumerate(ids)]
    scenario: Scenario = decode(Scenario, values)
    return scenario


def _given(plain: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the keys that have a value."""
    return {str(key): value for key, value in plain.items() if value is not None}


def read_setting(
    name: str, plain: Any, folders: Sequence[Path] = (), others: Sequence[str] = ()
) -> Setting:
    """Return the setting that plain data describes; its kind is that of the key it holds.

    Keys without a value are dropped. Modules of the user are searched for in ``folders``.
    """
    where = f"settings.{name}"
    if not isinstance(plain, Mapping):
        raise validate.fail(where, "a mapping", plain)
    values = _given(plain)
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
    values["name"] = name
    setting: Setting = decode(cls, values | cls.read_fields(values, where, folders), where)
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

    values = {**vars(scenario)}
    settings, ids = values.pop("settings"), values.pop("bounds")
    return {
        **encode(values),
        "bounds": [reference(bounds.entry(id).function) or id for id in ids],
        "settings": {setting.name: setting.to_plain() for setting in settings},
    }
