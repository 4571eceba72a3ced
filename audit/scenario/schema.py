"""The JSON Schema of scenario files, from the types and registries that the reader uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from audit.codec.schemas import Schemas, about, by_value, document, holds, one_of, types_of
from audit.codec.yaml_text import read_yaml
from audit.constructions import Construction, kinds
from audit.constructions.schema import of_pairs
from audit.scenario import config  # noqa: F401 registers the kinds of setting
from audit.scenario.definition import KINDS, Scenario, Setting, load
from audit.scenario.shipped import scenario_files
from audit.scenario.studies import STUDIES, Study, parameters_of

# Stand-ins for any value until Hydra has composed the file: an interpolation, or the mark of a
# value that is given on the command line.
_LATER = r"\$\{|^\?\?\?$"
_HYDRA: dict[str, Any] = {"^_.*_$": {}}  # keys of Hydra's own, such as _target_
_OWN = {"type": "string", "pattern": ":"}  # module:function


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
    properties = {
        **own["properties"],
        **{name: one for fields in beside for name, one in fields["properties"].items()},
        "bounds": {**bounds, "items": ids},
        "settings": {
            "description": about(Setting),
            **schemas.open({"type": "object", "minProperties": 1}),
        },
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
    return document(described, schemas.definitions, title=title, id=id)


def _of_setting(schemas: Schemas) -> dict[str, Any]:
    """Return the schema of a setting; its kind is that of the key that it holds."""
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
        "then": {
            "anyOf": [
                {**holds(key), "errorMessage": f"must hold one of {', '.join(KINDS)}"}
                for key in KINDS
            ]
        },
    }


def _of_kind(schemas: Schemas, cls: type[Setting]) -> dict[str, Any]:
    """Return the schema of the settings of one kind; a key without a value is no key."""
    fields = schemas.of_fields(cls, cls.hidden)
    needed = [name for name in fields["required"] if name != "title"]  # which the reader fills in
    needed += [key for key, hint in cls.beside.items() if isinstance(hint, type)]
    beside = {key: schemas.of(hint) for key, hint in cls.beside.items()}
    properties = {**beside, **fields["properties"]}
    return {
        "description": about(cls),
        **fields,
        "properties": _or_null(properties, needed),
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
    parameters = {}
    for name, target in STUDIES.items():
        described = schemas.of_fields(parameters_of(target))
        described["properties"]["function"] = {}  # it chose the definition
        parameters[name] = schemas.defined(name, {**described, "patternProperties": _HYDRA})
    return {
        "description": about(Study),
        **schemas.open({"type": "object"}),
        "properties": {
            "function": {
                "description": "The study, as `package.module:function`.",
                "anyOf": [*known, schemas.open(_OWN)],
            }
        },
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
