"""Settings that run a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from audit.codec import encode
from audit.scenario.kinds import RunContext, Setting, setting_kind
from audit.scenario.studies import Study, read_study

if TYPE_CHECKING:
    from audit.results import StudyResult
    from audit.results.result import Parameter


@setting_kind
@dataclass(frozen=True, kw_only=True)
class StudySetting(Setting):
    """Study with a name.

    Parameters
    ----------
    study : Study
        The study, with its parameters.
    name, title, summary : str
        Short name for files, and texts for readers.
    """

    key: ClassVar[str] = "study"
    flat: ClassVar[bool] = True

    study: Study

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Take the study out, whose parameters are those of its function, and return it."""
        try:
            return {"study": read_study(values.pop("study"), folders=folders)}
        except ValueError as error:
            separator = "." if str(error).startswith("study") else ": "
            raise ValueError(f"{where}{separator}{error}") from error

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values of a scenario file."""
        study = {"function": self.study.function, **encode(self.study.parameters)}
        return {"title": self.title, "summary": self.summary, "study": study}

    def run(self, context: RunContext) -> StudyResult:
        """Run the study."""
        from audit.results import StudyResult

        findings = self.study.find(
            seed=context.seed,
            threads=context.threads,
            confidence=context.confidence,
            progress=context.progress.stage(f"{self.name}: {self.study.function}"),
        )
        return StudyResult(
            **self.heading(context.seed),
            function=self.study.function,
            parameters=flat_parameters(encode(self.study.parameters)),
            findings=findings,
        )


def flat_parameters(plain: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return nested parameters under dotted names; lists of plain values stay together."""
    return dict(_flat("", plain))


def _flat(name: str, plain: Any) -> list[tuple[str, Parameter]]:
    if isinstance(plain, Mapping):
        inner = [(f"{name}.{key}" if name else str(key), item) for key, item in plain.items()]
    elif isinstance(plain, list) and any(isinstance(item, Mapping | list) for item in plain):
        inner = [(f"{name}[{i}]", item) for i, item in enumerate(plain)]
    else:
        return [(name, tuple(plain) if isinstance(plain, list) else plain)]
    return [pair for key, item in inner for pair in _flat(key, item)]
