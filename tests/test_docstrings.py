"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WITH_EXAMPLES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((ROOT / "audit").rglob("*.py"))
    if re.search(r">>> (?!.*\+SKIP)", file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_of(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
