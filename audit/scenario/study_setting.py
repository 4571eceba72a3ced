"""A setting that asks a study instead of comparing three numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from audit.codec import encode
from audit.scenario.kinds import RunContext, Setting, setting_kind
from audit.scenario.studies import Study

if TYPE_CHECKING:
    from audit.results import StudyResult
    from audit.results.result import Parameter


@setting_kind
@dataclass(frozen=True, kw_only=True)
class StudySetting(Setting):
    """A study under a name.

    Parameters
    ----------
    name, title, summary
        A short name for files, and words for people.
    study
        The study, with its parameters.
    """

    key: ClassVar[str] = "study"

    study: Study

    def run(self, context: RunContext) -> StudyResult:
        """Answer the study's question."""
        from audit.results import StudyResult

        findings = self.study.find(
            seed=context.seed,
            threads=context.threads,
            confidence=context.confidence,
            progress=context.progress.stage(f"{self.name}: {self.study.function}"),
        )
        return StudyResult(
            name=self.name,
            title=self.title,
            summary=self.summary,
            seed=context.seed,
            wall_seconds=None,
            function=self.study.function,
            parameters=flat_parameters(encode(self.study.parameters)),
            findings=findings,
        )


def flat_parameters(plain: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return nested parameters under dotted names; lists of plain values stay together.

    Examples
    --------
    >>> flat_parameters({"delta": 1e-5, "mechanism": {"steps": 3}, "orders": [2.0, 4.0]})
    {'delta': 1e-05, 'mechanism.steps': 3, 'orders': (2.0, 4.0)}
    """
    return dict(_flat("", plain))


def _flat(name: str, plain: Any) -> list[tuple[str, Parameter]]:
    if isinstance(plain, Mapping):
        inner = [(f"{name}.{key}" if name else str(key), item) for key, item in plain.items()]
    elif isinstance(plain, list) and any(isinstance(item, Mapping | list) for item in plain):
        inner = [(f"{name}[{i}]", item) for i, item in enumerate(plain)]
    else:
        return [(name, tuple(plain) if isinstance(plain, list) else plain)]
    return [pair for key, item in inner for pair in _flat(key, item)]
