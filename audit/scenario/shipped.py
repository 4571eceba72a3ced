"""The folder of the scenarios that ship with the package."""

from __future__ import annotations

from pathlib import Path


def scenarios_folder() -> Path:
    """Return the folder of shipped scenarios: in a checkout at the top, else in the package."""
    package = Path(__file__).resolve().parents[1]
    bundled = package / "_scenarios"
    return bundled if bundled.is_dir() else package.parent / "scenarios"
