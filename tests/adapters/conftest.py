"""Tests in ``real`` need the other packages; only ``make test-adapters`` runs them."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

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
