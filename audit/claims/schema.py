"""The JSON Schema of claims files, from the types and registries that the reader uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.bounds import CATALOGUE
from audit.bounds.statements import of_ids
from audit.claims import claims_file
from audit.claims.claim import ACCOUNTANTS, FORMS, PLACES, TARGET, Claim, NumberSource
from audit.claims.claims_file import BASE, WRITTEN
from audit.codec.hints import hints_of, init_fields
from audit.codec.schemas import Schemas, about, about_fields, field_text, holds, one_of
from audit.constructions import all_kinds
from audit.constructions.schema import of_laws, of_pairs
from audit.curves.quantities import QUANTITIES
from audit.mechanism import Composition, NoisySGD


def _matching(pattern: str, wanted: str) -> dict[str, str]:
    return {"type": "string", "pattern": pattern, "errorMessage": f"must be {wanted}"}


_TEXT = _matching(r"\S", "a text")
_ID = _matching(f"^({claims_file.ID.pattern})$", "letters, digits, '.', '_' and '-'")
_TARGET = _matching(f"^({TARGET.pattern})$", "package.module:function")
# Keys of a mapping from numbers, as texts.
_NUMBER = r"^[-+]?(\.\d+|\d[\d_]*(\.\d*)?)([eE][-+]?\d+)?$|^-?\.?(inf|nan)$"
# Keys whose schema is more than their type hint.
_KEYS = {
    "mechanism": "The name of a mechanism, or its fields, or a `base` and the fields that differ.",
    "pair": "The pair to judge with; by default every construction that fits is tried.",
    "laws": "Explicit laws that the claim is about, instead of a mechanism.",
}


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of claims files.

    It contains the registered constructions and bounds. Conditions on other files, or on several
    values together, are checked by the reader only.
    """
    schemas = Schemas()
    needed = "a claim needs 'mechanism', 'laws' or 'samples'"
    subjects = [{"required": [key], "errorMessage": needed} for key in claims_file.ABOUT]
    has_subject = {"type": "object", "anyOf": subjects}
    shared = _of_common_keys(schemas)
    mechanisms = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Mechanism"}}
    known = {
        "include": {
            "description": "Claims files whose claims and mechanisms are read first.",
            "anyOf": [_TEXT, _list_of(_TEXT)],
        },
        "defaults": {
            "description": "Values that the claims of this file share.",
            **_closed(shared),
        },
        "mechanisms": {"description": "Mechanisms by name.", **mechanisms},
        "claims": {
            "description": "The claims, in any order.",
            **_list_of(schemas.defined("Claim", _of_claim(schemas, shared))),
        },
    }
    described = {
        **_closed({key: known[key] for key in claims_file.FILE_KEYS}),
        "anyOf": [{"required": [key]} for key in ("claims", "include", "mechanisms")],
        # the subject of a claim is in it, unless it is in the file's defaults
        "if": {"properties": {"defaults": {"not": has_subject}}},
        "then": {"properties": {"claims": {"items": has_subject}}},
    }
    title, id = "Claims of differential privacy", "claims.schema.json"
    return schemas.document(described, title=title, id=id)


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _of_common_keys(schemas: Schemas) -> dict[str, Any]:
    """Return the schema of every key that claims and defaults share."""
    mechanism = schemas.defined("Mechanism", _of_mechanism(schemas))
    known: dict[str, dict[str, Any]] = {
        "citation": _TEXT,
        "mechanism": {"anyOf": [{"type": "string"}, mechanism, {"type": "null"}]},
        "pair": {
            "anyOf": [*of_pairs(schemas, all_kinds(), filled=True)["anyOf"], {"type": "null"}]
        },
        "laws": {"anyOf": [of_laws(schemas, all_kinds()), {"type": "null"}]},
    }
    hints = hints_of(Claim)
    return {
        key: {
            **({"description": _KEYS[key]} if key in _KEYS else field_text(Claim, key)),
            **(known[key] if key in known else schemas.of(hints[key])),
        }
        for key in claims_file.COMMON_KEYS
    }


def _of_mechanism(schemas: Schemas) -> dict[str, Any]:
    """Return the schema of a mechanism: its own fields, or an object of another library."""
    described = _of_form(schemas, NoisySGD)
    for key, form in WRITTEN.items():
        described["properties"][key] = {"description": about(form)}  # to complete
    parts = {"anyOf": [{"required": ["kind"]}, {"required": ["parts"]}]}
    described = {"if": parts, "then": _of_form(schemas, Composition), "else": described}
    for key, form in WRITTEN.items():
        then = _of_form(schemas, form)
        described = {"if": {"required": [key]}, "then": then, "else": described}
    return {"type": "object", **described}


def _of_form(schemas: Schemas, form: type) -> dict[str, Any]:
    """Return the schema of one form of a mechanism, whole or with a base."""
    own = schemas.of_fields(form)
    base = {"type": "string", "description": "The mechanism from which this one differs."}
    required = own.pop("required")
    return {
        "description": about(form),
        **own,
        "properties": {BASE: base, **own["properties"]},
        "if": {"not": {"required": [BASE]}},
        "then": {"required": required},
    }


def _of_claim(schemas: Schemas, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a claim: its subject, and one statement."""
    statements = _of_statements(schemas)
    forms = []
    for key, form in FORMS.items():
        others = {one: False for one in statements if one not in init_fields(form)}
        then = {"required": schemas.of_fields(form)["required"], "properties": others}
        forms.append({"if": {"required": [key]}, "then": then})
    excluded = (
        {"if": holds(key), "then": {"properties": {one: {"type": "null"} for one in keys}}}
        for key, keys in claims_file.EXCLUDED.items()
    )
    about_id = "The name of the claim, unique over all files."
    nothing_said = f"a claim needs one of {', '.join(FORMS)}"
    somewhere = {"anyOf": [{"required": [key]} for key in PLACES]}
    return {
        **_closed({"id": {"description": about_id, **_ID}, **statements, **common}),
        "required": ["id"],
        "anyOf": [{"required": [key], "errorMessage": nothing_said} for key in FORMS],
        "allOf": [
            *forms,
            *excluded,
            *({"if": {"required": [source.value]}, "then": somewhere} for source in NumberSource),
            {"if": {"required": ["callable"]}, "then": {"not": {"required": list(PLACES)}}},
            {"if": {"required": ["bound"]}, "then": {"allOf": _of_options()}},
        ],
    }


def _of_statements(schemas: Schemas) -> dict[str, Any]:
    """Return the schemas of all keys of statements, from their forms and the registry."""
    about = {"options": "Parameters of the bound by name; those not given are optimised."}
    for kind, cls in QUANTITIES.items():
        about[kind] = cls.written.replace("``", "`")
        if cls.rows:
            about[kind] = f"The claimed {cls.name}, {cls.limits}."
            about[cls.place] = f"The {cls.place} at which it is claimed."
            about[cls.rows] = f"A list of claims with {kind} and {cls.place}."
        about[cls.exceeds] = f"The claim that the {cls.name} exceeds a number."
        about[cls.places] = f"The {cls.places} of the claim."
    known = one_of(dict.fromkeys(ACCOUNTANTS, ""))
    written_as = {
        NumberSource.BOUND: schemas.defined("Bound", {"anyOf": of_ids()}),
        NumberSource.CALLABLE: _TARGET,
        NumberSource.ACCOUNTANT: {"anyOf": [*known, _TARGET]},
    }
    found = {
        key: {"description": about[key], **schemas.of(hint)}
        for form in FORMS.values()
        for key, hint in hints_of(form).items()
        if key in about
    }
    for described in found.values():
        if described.get("type") == "array":
            described["minItems"] = 1
        elif "additionalProperties" in described and described is not found["options"]:
            described |= {"minProperties": 1, "propertyNames": {"pattern": _NUMBER}}
    for source, described in written_as.items():
        found[source.value] = {"description": about_fields(NumberSource)[source.name], **described}
    return found


def _list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


def _of_options() -> list[dict[str, Any]]:
    """Return the names of the options of each bound."""
    bounds: dict[tuple[str, ...], list[str]] = {}
    for entry in CATALOGUE.values():
        bounds.setdefault(entry.options, []).append(entry.id)
    found = []
    for options, ids in bounds.items():
        own = {"properties": {name: {} for name in options}, "additionalProperties": False}
        then = {"properties": {"options": own}}
        found.append({"if": {"properties": {"bound": {"enum": ids}}}, "then": then})
    return found
