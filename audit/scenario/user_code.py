"""Code that a scenario names as ``package.module:name``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit import isolation
from audit.scenario.shipped import scenarios_folder


def load(reference: str, *, name: str = "function", folders: Sequence[Path] = ()) -> Any:
    """Return what ``package.module:name`` names: see `audit.isolation.load`.

    It is run in this process: a sampler or a study is the work of the run itself. Modules are
    looked for in ``folders`` too, in the current folder, and in that of shipped scenarios.
    """
    places = [*folders, Path.cwd(), scenarios_folder()]
    return isolation.load(reference, name=name, folders=places)


def reference(found: Any) -> str | None:
    """Return the ``package.module:name`` of a user's function or class, None for the package's."""
    module = str(found.__module__)
    ours = module.partition(".")[0] == __name__.partition(".")[0]
    return None if ours else f"{module}:{found.__qualname__}"
