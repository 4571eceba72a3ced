"""Kinds of setting register themselves; a new one needs no other file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from audit.results import Findings, StudyResult
from audit.scenario import KINDS, Setting, run, setting_kind
from audit.scenario.config import read_setting
from audit.scenario.definition import RunContext, setting_seed

from .small import scenario


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(KINDS)
    yield
    KINDS.clear()
    KINDS.update(before)


@dataclass(frozen=True)
class Found:
    value: float


@dataclass(frozen=True, kw_only=True)
class Constant(Setting):
    """A setting that finds the same number always."""

    key: ClassVar[str] = "constant"

    constant: Found

    def run(self, context: RunContext) -> StudyResult:
        return StudyResult(
            name=self.name,
            title=self.title,
            summary=self.summary,
            seed=context.seed,
            wall_seconds=None,
            function="constant",
            parameters={"value": self.constant.value, "threads": context.threads},
            findings=Findings(statements=()),
        )


def test_a_new_kind_runs(registry: None) -> None:
    assert setting_kind(Constant) is Constant
    assert KINDS["constant"] is Constant
    given = (Constant(name="one", title="One", constant=Found(1.5)),)
    (setting,) = run(replace(scenario(), settings=given)).settings
    assert isinstance(setting, StudyResult)
    assert setting.parameters == {"value": 1.5, "threads": 2}
    assert setting.seed == setting_seed(3, 0)
    assert setting.wall_seconds is not None


def test_a_new_kind_is_read_from_a_file(registry: None) -> None:
    setting_kind(Constant)
    plain = {"title": "One", "summary": "", "constant": {"value": 1.5}}
    setting = read_setting("one", plain)
    assert setting == Constant(name="one", title="One", constant=Found(1.5))
    assert setting.to_plain() == plain
    message = r"settings\.one\.constant\.valeu must be left out of .* did you mean 'value'"
    with pytest.raises(ValueError, match=message):
        read_setting("one", {"constant": {"valeu": 1.5}})


def test_two_kinds_cannot_have_one_key(registry: None) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other(Constant):
        key: ClassVar[str] = "pair"

    with pytest.raises(ValueError, match="key must be one that no other kind of setting has, got"):
        setting_kind(Other)
