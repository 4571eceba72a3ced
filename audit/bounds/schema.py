"""Ids of the catalogue, for schemas of input files."""

from __future__ import annotations

from typing import Any

from audit.bounds import CATALOGUE
from audit.codec.schemas import one_of


def of_ids() -> list[dict[str, Any]]:
    """Return the schemas of the registered ids, with their statements: members of an ``anyOf``."""
    return one_of({e.id: f"{e.cite}: {e.statement} ({e.status.value})" for e in CATALOGUE.values()})
