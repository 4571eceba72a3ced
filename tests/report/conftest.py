from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from audit import report

from .example import draw_one_pixel, example, mixed, result, study

CONTENTS = {"example": example, "studies": lambda: result(study(), study("roots")), "mixed": mixed}


@pytest.fixture
def _one_pixel(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_one_pixel(monkeypatch)


@pytest.fixture(scope="session")
def written_as(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the report of one of the contents, written once."""

    @functools.cache
    def folder_of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            draw_one_pixel(patch)
            report.write(CONTENTS[name](), folder)
        return folder

    return folder_of


@pytest.fixture(scope="session")
def written(written_as: Callable[[str], Path]) -> Path:
    """The folder of the example's report."""
    return written_as("example")
