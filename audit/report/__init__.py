"""Reports of results: HTML, Markdown, LaTeX, terminal and figures. Nothing is run for them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.report.files import write, write_joined
    from audit.report.runs import Run, gather, load

_WHERE = {
    "Run": "runs",
    "gather": "runs",
    "load": "runs",
    "write": "files",
    "write_joined": "files",
}

__all__ = ["Run", "gather", "load", "write", "write_joined"]


def __getattr__(name: str) -> Any:
    """Load what is asked for: reading results needs no Matplotlib, which takes long to import."""
    if name in _WHERE:
        return getattr(importlib.import_module(f"audit.report.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
