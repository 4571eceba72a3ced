"""The scenarios that ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FIRST_LINE = "# @package _global_"  # of every scenario file; tells Hydra where its keys belong


def scenarios_folder() -> Path:
    """Return the folder of shipped scenarios: in a checkout at the top, else in the package."""
    package = Path(__file__).resolve().parents[1]
    bundled = package / "_scenarios"
    return bundled if bundled.is_dir() else package.parent / "scenarios"


def scenario_files(folder: Path) -> Mapping[str, Path]:
    """Return the scenario files in a folder and its subfolders by name.

    The name is the path in the folder without its suffix, such as ``papers/langevin``. Files that
    do not begin with ``# @package _global_`` are left out: claims, found pairs.
    """
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*.yaml")):
        with file.open(encoding="utf-8") as lines:
            if lines.readline().strip() == FIRST_LINE:
                found[file.relative_to(folder).with_suffix("").as_posix()] = file
    return found
