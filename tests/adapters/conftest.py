"""Tests in ``real`` need the other packages; only ``make test-adapters`` runs them."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

if "AUDIT_TEST_ADAPTERS" not in os.environ:
    collect_ignore = ["real"]

PACKAGES = ("opacus", "torch", "jax-privacy", "jax", "dp-accounting", "pyarrow")


def installed(package: str) -> str:
    """Return a package and its version."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} missing"


def pytest_report_header() -> str:
    """Say which versions are tested."""
    return "adapters: " + ", ".join(map(installed, PACKAGES))


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let none of the packages be there."""
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.partition(".")[0] in ("opacus", "torch", "jax_privacy", "pyarrow"):
            raise ImportError(f"No module named {name!r}")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
