"""The kinds of setting that a scenario can hold, each registered where it is defined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from audit.results import SettingResult
    from audit.scenario.progress import Progress
    from audit.scenario.sampling import Sampling

KINDS: dict[str, type[Setting]] = {}
_Kind = TypeVar("_Kind", bound="type[Setting]")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a scenario gives to each of its settings when it runs.

    Parameters
    ----------
    seed
        The setting's own seed.
    confidence
        The confidence level of everything that the setting certifies.
    threads
        Threads for exact laws and studies.
    bounds
        Ids of the catalogue's bounds that are held against the settings.
    sampling
        Where samples are drawn.
    progress
        Where progress is shown.
    """

    seed: int
    confidence: float
    threads: int
    bounds: tuple[str, ...]
    sampling: Sampling
    progress: Progress


@dataclass(frozen=True, kw_only=True)
class Setting(ABC):
    """One setting of a scenario; a kind of setting is a subclass that registers itself.

    Parameters
    ----------
    name, title, summary
        A short name for files, and words for people.
    """

    key: ClassVar[str]

    name: str
    title: str
    summary: str

    @abstractmethod
    def run(self, context: RunContext) -> SettingResult:
        """Compute the setting's result; its ``wall_seconds`` may be None."""


def setting_kind(cls: _Kind) -> _Kind:
    """Register a kind of setting by its ``key``, the key that selects it in a configuration.

    Raises
    ------
    ValueError
        If another kind has the key.
    """
    if KINDS.setdefault(cls.key, cls) is not cls:
        raise ValueError(f"key must be one that no other kind of setting has, got {cls.key!r}")
    return cls
