"""Scenarios as plain data: what a YAML file says, its JSON Schema, and a scenario written back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit import validate
from audit.codec import decode, encode
from audit.codec.hints import did_you_mean
from audit.codec.schemas import Schemas, about, by_value, holds, one_of, types_of
from audit.codec.yaml_text import read_yaml
from audit.constructions import Construction, kinds
from audit.constructions.schema import of_pairs
from audit.isolation import search_in
from audit.scenario import pair, studies, user_mechanism  # noqa: F401 each registers its kind
from audit.scenario.definition import KINDS, Scenario, Setting, load, reference
from audit.scenario.folders import scenario_files
from audit.scenario.studies import STUDIES, Study, parameters_of
from audit.simulation.blocks import available_threads

# Stand-ins for any value until Hydra has composed the file: an interpolation, or the mark of a
# value that is given on the command line.
_LATER = r"\$\{|^\?\?\?$"
_HYDRA: dict[str, Any] = {"^_.*_$": {}}  # keys of Hydra's own, such as _target_
_OWN = {"type": "string", "pattern": ":"}  # module:function


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
            problem = f"must be left out of a setting with the key {cls.key}, got {got}{close}"
            raise ValueError(f"{where}.{key} {problem}")
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


def schema(*output: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of scenario files.

    It knows the constructions, bounds, kinds of setting and studies that are registered. Of a file
    with a ``defaults`` list the settings are not looked into: the files that it builds on complete
    them.
    """
    from audit.bounds.statements import of_ids  # takes a while to import

    schemas = Schemas(placeholder=_LATER)
    schemas.ready(Construction, of_pairs(schemas, kinds()))
    schemas.ready(Study, _of_study(schemas))
    setting = schemas.defined("Setting", _of_setting(schemas))
    ids = schemas.defined("Bound", {"anyOf": [*of_ids(), schemas.open(_OWN)]})
    own, *beside = (schemas.of_fields(cls, ("settings",)) for cls in (Scenario, *output))
    bounds = own["properties"].pop("bounds")
    several = schemas.open({"type": "object", "minProperties": 1})
    properties = {
        **own["properties"],
        **{name: one for fields in beside for name, one in fields["properties"].items()},
        "bounds": {**bounds, "items": ids},
        "settings": {"description": about(Setting), **several},
        "defaults": {"description": "Files that this one builds on; see Hydra's defaults list."},
        "hydra": {"description": "Settings of Hydra itself."},
    }
    filled_in = ("title", "threads")  # by `read_scenario`
    needed = [name for name in own["required"] if name not in (*filled_in, "bounds")]
    needed += ["bounds", "settings"]
    described = {
        "description": about(Scenario),
        "type": "object",
        "properties": _or_null(properties, needed),
        "patternProperties": _HYDRA,
        "additionalProperties": False,
        "if": {"required": ["defaults"]},
        "else": {"properties": {"settings": {"additionalProperties": setting}}, "required": needed},
    }
    title, id = "Scenario of a Noisy-SGD audit", "scenario.schema.json"
    return schemas.document(described, title=title, id=id)


def _of_setting(schemas: Schemas) -> dict[str, Any]:
    """Return the schema of a setting; its kind is that of the key that it holds."""
    missing = {"errorMessage": f"must hold one of {', '.join(KINDS)}"}
    return {
        "description": about(Setting),
        **schemas.open({"type": "object"}),
        "properties": {key: {"description": about(cls)} for key, cls in KINDS.items()},
        "patternProperties": _HYDRA,
        "allOf": [
            {"if": holds(key), "then": schemas.defined(cls.__name__, _of_kind(schemas, cls))}
            for key, cls in KINDS.items()
        ],
        "if": {"type": "object"},
        "then": {"anyOf": [{**holds(key), **missing} for key in KINDS]},
    }


def _of_kind(schemas: Schemas, cls: type[Setting]) -> dict[str, Any]:
    """Return the schema of the settings of one kind; a key without a value is no key."""
    fields = schemas.of_fields(cls, cls.hidden)
    needed = [name for name in fields["required"] if name != "title"]  # which the reader fills in
    needed += [key for key, hint in cls.beside.items() if isinstance(hint, type)]
    beside = {key: schemas.of(hint) for key, hint in cls.beside.items()}
    return {
        "description": about(cls),
        **fields,
        "properties": _or_null({**beside, **fields["properties"]}, needed),
        "patternProperties": _HYDRA,
        "required": needed,
    }


def _or_null(properties: Mapping[str, Any], needed: Collection[str]) -> dict[str, Any]:
    """Return properties with room for null, which is no value, in those that are not needed."""
    found = {}
    for name, described in properties.items():
        about = {key: described[key] for key in ("description", "default") if key in described}
        rest = {key: one for key, one in described.items() if key not in about}
        if name in needed or not rest:
            found[name] = described
        elif "type" in rest:
            every = dict.fromkeys((*types_of(described), "null"))
            found[name] = {**described, "type": list(every)}
        else:
            found[name] = {**about, "anyOf": [rest, {"type": "null"}]}
    return found


def _of_study(schemas: Schemas) -> dict[str, Any]:
    """Return the schema of a study: its function, and the parameters of those that are known."""
    known = one_of({name: about(target) for name, target in STUDIES.items()})
    which, parameters = "The study, as `package.module:function`.", {}
    for name, target in STUDIES.items():
        described = schemas.of_fields(parameters_of(target))
        described["properties"]["function"] = {}  # it chose the definition
        parameters[name] = schemas.defined(name, {**described, "patternProperties": _HYDRA})
    return {
        "description": about(Study),
        **schemas.open({"type": "object"}),
        "properties": {"function": {"description": which, "anyOf": [*known, schemas.open(_OWN)]}},
        "required": ["function"],
        **by_value("function", parameters),
    }


def load_shipped_studies() -> None:
    """Import the studies that shipped scenarios name, so that they are registered."""
    for file in scenario_files().values():
        plain, _ = read_yaml(file.read_text(encoding="utf-8"))
        for setting in plain["settings"].values():
            if "study" in setting:
                load(setting["study"]["function"])
