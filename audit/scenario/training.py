"""Settings that audit a user-defined training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from audit.codec import decode, encode
from audit.scenario.kinds import RunContext, Setting, setting_kind
from audit.scenario.shipped import scenarios_folder
from audit.training.design import Design

if TYPE_CHECKING:
    from audit.results import StudyResult


@setting_kind
@dataclass(frozen=True, kw_only=True)
class TrainingSetting(Setting):
    """Training, its claims, and its audit; see `audit.training.run`.

    Parameters
    ----------
    design : Design
        Fields of `audit.training.Design`. The scenario's ``threads`` is the number of simultaneous
        trainings.
    folders : tuple of Path, optional
        Folders where the module of the training is searched for.
    name, title, summary : str
        Short name for files, and texts for readers.
    """

    key: ClassVar[str] = "training"
    flat: ClassVar[bool] = True

    design: Design
    folders: tuple[Path, ...] = ()

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the key of a training, which holds the fields of its design."""
        return {cls.key: Design}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Take the fields of the design out, and return the design and the folders."""
        design: Design = decode(Design, values.pop(cls.key), f"{where}.{cls.key}")
        return {"design": design, "folders": tuple(folders)}

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values of a scenario file."""
        return {
            "title": self.title,
            "summary": self.summary,
            self.key: encode(self.design, defaults=False),
        }

    def run(self, context: RunContext) -> StudyResult:
        """Train, certify, and judge the claims; an interrupted run resumes."""
        from audit.training import Processes, audited  # estimators take a while to import

        kept = context.sampling.folder
        folders = [*self.folders, Path.cwd(), scenarios_folder()]
        with Processes(context.threads, folders=folders) as processes:
            found = audited(
                self.design,
                confidence=context.confidence,
                seed=context.seed,
                folder=None if kept is None else kept / str(context.seed),
                processes=processes,
                progress=context.progress.stage(f"{self.name}: trainings", "trainings"),
            )
        return found.study(
            name=self.name, title=self.title, summary=self.summary, seed=context.seed
        )
