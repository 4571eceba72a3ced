"""Imports of optional libraries."""

from __future__ import annotations

import importlib
from typing import Any


def load(name: str, *, extra: str) -> Any:
    """Return a module of an optional library."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{name} cannot be imported ({error}): pip install 'noisy-sgd-audit[{extra}]'"
        ) from error
