"""The scenarios that ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FIRST_LINE = "# @package _global_"  # in every scenario file, for Hydra
_OTHERS = ("claims", "found", "zoo")


def scenarios_folder() -> Path:
    """Return the folder of shipped scenarios: in a checkout at the top, else in the package."""
    package = Path(__file__).resolve().parents[1]
    bundled = package / "_scenarios"
    return bundled if bundled.is_dir() else package.parent / "scenarios"


def scenario_files(folder: Path | None = None) -> Mapping[str, Path]:
    """Return the scenario files in a folder and its subfolders by name, in order.

    The name is what follows ``audit scenario=``: the path in the folder without its suffix, such as
    ``papers/langevin``.
    """
    folder = scenarios_folder() if folder is None else folder
    files = {file.relative_to(folder): file for file in folder.rglob("*.yaml")}
    names = {
        path.with_suffix("").as_posix(): file
        for path, file in files.items()
        if path.parts[0] not in _OTHERS
    }
    return dict(sorted(names.items()))
