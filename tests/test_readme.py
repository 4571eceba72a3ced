"""The README's Python runs, and says what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_there_is_something_to_run() -> None:
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_block(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(block, str(README), "exec"), names)
    low, high = names["low"], names["high"]
    assert isinstance(low, float)
    assert low <= 1.842379526623 <= high
    printed = capsys.readouterr().out
    assert printed.startswith("1.993")
    lower, exact, claimed = (float(word) for word in printed.splitlines()[-1].split(" <= "))
    assert 0 < lower <= exact <= claimed


def test_named_files_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", text):
        assert (README.parent / link).exists(), link
