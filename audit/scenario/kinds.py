"""Kinds of settings of a scenario, each registered where it is defined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from audit.codec import decode, encode
from audit.codec.hints import did_you_mean
from audit.codec.schemas import FieldsOf

if TYPE_CHECKING:
    from audit.progress import StageProgress
    from audit.results import SettingResult
    from audit.scenario.drawn_ahead import DrawnAhead
    from audit.scenario.sampling import Sampling

KINDS: dict[str, type[Setting]] = {}
COMMON = ("name", "title", "summary")  # fields of every setting
_Kind = TypeVar("_Kind", bound="type[Setting]")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a scenario passes to each of its settings when it runs.

    Parameters
    ----------
    seed : int
        Seed of the setting.
    confidence : float
        Confidence level of everything that the setting certifies.
    threads : int
        Number of threads for exact laws and studies.
    bounds : tuple of str
        Ids of the catalogue to compare with the settings.
    sampling : Sampling or DrawnAhead
        Where samples are drawn.
    progress : Progress
        Where progress is shown.
    """

    seed: int
    confidence: float
    threads: int
    bounds: tuple[str, ...]
    sampling: Sampling | DrawnAhead
    progress: StageProgress


@dataclass(frozen=True, kw_only=True)
class Setting(ABC):
    """Setting of a scenario; each kind is a subclass that registers itself.

    Parameters
    ----------
    name, title : str
        Short name for files, and texts for readers.
    summary : str, default: ""
        Short name for files, and texts for readers.
    """

    key: ClassVar[str]

    name: str
    title: str
    summary: str = ""

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind, with the hints of their values.

        By default a kind has one key, ``key``, with its own fields. ``title`` and ``summary`` are
        keys of every setting.

        Returns
        -------
        mapping of str to object
            Hints by key.
        """
        return {cls.key: FieldsOf(cls, COMMON)}

    @classmethod
    def from_plain(cls, name: str, plain: Mapping[str, Any], folders: Sequence[Path] = ()) -> Self:
        """Return the setting described by a scenario file.

        By default a kind's own fields are in a mapping under its ``key``.

        Parameters
        ----------
        name : str
            Name of the setting.
        plain : mapping of str to object
            Its keys and values, as a YAML reader returns them.
        folders : sequence of Path, optional
            Where modules of the user are searched for, besides the current folder.

        Returns
        -------
        Self
            The setting.

        Raises
        ------
        ValueError
            If a key is unknown or missing, or a value is out of range; the message begins with
            ``settings.`` and the name.
        """
        values = known_keys(cls, name, plain)
        own = needed(cls, name, values, cls.key)
        where = f"settings.{name}.{cls.key}"
        given = {"name": name, "title": values["title"], "summary": values.get("summary", "")}
        setting: Self = decode(cls, own, where, given=given)
        return setting

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values for a scenario file; the inverse of `from_plain`.

        Returns
        -------
        dict of str to object
            Plain data.
        """
        own: dict[str, Any] = encode(self)
        del own["name"]
        return {"title": own.pop("title"), "summary": own.pop("summary"), self.key: own}

    @abstractmethod
    def run(self, context: RunContext) -> SettingResult:
        """Compute the setting's result; its ``wall_seconds`` may be None.

        Parameters
        ----------
        context : RunContext
            What the scenario passes to its settings.

        Returns
        -------
        SettingResult
            The result.
        """


def setting_kind(cls: _Kind) -> _Kind:
    """Register a kind of setting by its ``key``, as a class decorator."""
    if KINDS.setdefault(cls.key, cls) is not cls:
        raise ValueError(f"key must be one that no other kind of setting has, got {cls.key!r}")
    return cls


def known_keys(cls: type[Setting], name: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a setting gives, with its title; keys without a value are dropped."""
    known = ("title", "summary", *cls.keys())
    given = {str(key): value for key, value in plain.items() if value is not None}
    for key, value in given.items():
        if key not in known:
            got = "a mapping" if isinstance(value, Mapping) else repr(value)
            close = did_you_mean(key, known) or f"; known are {', '.join(known)}"
            raise ValueError(
                f"settings.{name}.{key} must be left out of a setting with the key {cls.key}, "
                f"got {got}{close}"
            )
    if given.get("title", "") == "":
        given["title"] = name
    return given


def needed(cls: type[Setting], name: str, values: dict[str, Any], key: str) -> Any:
    """Take a value out of those that a setting gives; ``ValueError`` if there is none."""
    if key not in values:
        raise ValueError(
            f"settings.{name}.{key} must be given for a setting with the key {cls.key}, got nothing"
        )
    return values.pop(key)
