"""The ids of the catalogue's bounds, for schemas of what people write."""

from __future__ import annotations

from typing import Any

from audit.bounds.registry import REGISTRY
from audit.codec import one_of


def of_ids() -> list[dict[str, Any]]:
    """Return the schemas of the registered ids, each with what it says: parts of an ``anyOf``."""
    entries = REGISTRY.entries.values()
    return one_of({e.id: f"{e.cite}: {e.statement} ({e.status.value})" for e in entries})
