from __future__ import annotations

from pathlib import Path

import pytest

from audit import report

from .example import example


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example's report."""
    folder = tmp_path_factory.mktemp("report")
    report.write(example(), folder)
    return folder
