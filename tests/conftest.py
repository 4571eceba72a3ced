"""Compiled kernels shared by the processes that tests start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


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
