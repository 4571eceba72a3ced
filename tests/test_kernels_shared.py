"""Compiled kernels are shared between workers as whole functions, each published once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import kernels


def compiled(folder: Path, name: str, code: str) -> None:
    """Write what Numba's cache holds of a function with one signature."""
    place = folder / "audit_1234"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.nbi").write_text(f"index of {code}")
    (place / f"{name}.1.nbc").write_text(code)


def held(folder: Path) -> dict[str, str]:
    return {
        file.name: file.read_text() for file in sorted(folder.rglob("*.nb[ic]")) if file.is_file()
    }


def test_what_one_worker_compiles_another_takes_over(tmp_path: Path) -> None:
    first, second, shared = (tmp_path / name for name in ("first", "second", "shared"))
    compiled(first, "walk-10.py311", "walk")
    compiled(first, "walk-100.py311", "another function of a like name")
    kernels.publish(first, shared)
    kernels.take_over(shared, second)
    assert held(second) == held(first)
    assert (second / "audit_1234" / "walk-10.py311.nbi").is_file()
    kernels.publish(second, shared)
    assert not list(shared.rglob("*.draft"))


@pytest.mark.parametrize("at_once", [False, True])
def test_what_is_published_or_compiled_is_never_replaced(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, shared = (tmp_path / name for name in ("first", "second", "shared"))
    compiled(first, "walk-10.py311", "for floats")
    compiled(second, "walk-10.py311", "for whole numbers")
    kernels.publish(first, shared)
    with monkeypatch.context() as patch:
        if at_once:  # the second one looked before the first one was there
            patch.setattr(Path, "exists", lambda path: False)
        kernels.publish(second, shared)
    kernels.take_over(shared, second)
    assert held(second)["walk-10.py311.1.nbc"] == "for whole numbers"
    assert held(shared)["walk-10.py311.1.nbc"] == "for floats"
    assert not list(shared.rglob("*.draft"))
