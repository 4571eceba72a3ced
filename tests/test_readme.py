"""The README's Python runs, and says what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    first, *others = BLOCKS
    exec(compile(first, str(README), "exec"), names)
    low, high = names["low"], names["high"]
    assert isinstance(low, float)
    assert low <= 1.842379526623 <= high
    printed = capsys.readouterr().out
    assert printed.startswith("1.993")
    lower, exact, claimed = (float(word) for word in printed.splitlines()[-1].split(" <= "))
    assert 0 < lower <= exact <= claimed
    for block in others:  # they go on where the first one ended
        exec(compile(block, str(README), "exec"), names)
    found = names["low"]
    assert isinstance(found, float)
    # searched for, and at least as good as the walk that was written down
    assert 1.84 < found <= claimed


def test_named_files_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", text):
        assert (README.parent / link).exists(), link
