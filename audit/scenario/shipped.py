"""The scenarios that ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_OTHERS = ("claims", "found")

FIRST_LINE = "# @package _global_"  # of every scenario file; tells Hydra where its keys belong


def scenarios_folder() -> Path:
    """Return the folder of shipped scenarios: in a checkout at the top, else in the package."""
    package = Path(__file__).resolve().parents[1]
    bundled = package / "_scenarios"
    return bundled if bundled.is_dir() else package.parent / "scenarios"


def scenario_names(folder: Path | None = None) -> tuple[str, ...]:
    """Return what follows ``audit scenario=`` for each file of a folder: ``papers/langevin``.

    Parameters
    ----------
    folder
        A folder of scenarios; by default the shipped one. Its folders ``claims`` and ``found`` hold
        files of other kinds.
    """
    folder = scenarios_folder() if folder is None else folder
    files = [file.relative_to(folder).with_suffix("") for file in folder.rglob("*.yaml")]
    return tuple(sorted(file.as_posix() for file in files if file.parts[0] not in _OTHERS))


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
