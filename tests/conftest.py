"""The order of the files, and compiled kernels that the processes of tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Files whose tests take half a minute or more begin first: one of them left for the end would keep
# one core busy and the other one waiting.
LONG = (
    "test_readme.py",
    "bounds/test_soundness.py",
    "exact/test_values.py",
    "simulation/runs/test_command.py",
    "scenario/test_shipped.py",
    "cli/test_audit.py",
    "exact/test_brackets.py",
    "test_extending.py",
    "claims/test_judge.py",
    "scenario/test_run_scenario.py",
    "simulation/runs/test_kills.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first, the longest on top; all others stay as they were."""
    tests = Path(__file__).parent
    places = {tests / name: place for place, name in enumerate(LONG)}
    if gone := [str(file) for file in places if not file.is_file()]:
        raise pytest.UsageError(f"LONG must name files of tests, got {gone}")
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def shared_kernels() -> Iterator[None]:
    """Commands that tests run take kernels that an earlier one has compiled.

    Each worker of pytest-xdist has a folder of its own, which goes when it ends: nothing stale can
    be found there, and no two tests write to it at once.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUDIT_SHARE_KERNELS", "1")
        patch.setenv("NUMBA_CACHE_DIR", folder)
        yield
