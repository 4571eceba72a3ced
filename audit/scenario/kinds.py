"""Kinds of settings of a scenario, each registered where it is defined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from audit import validate
from audit.codec import decode, encode
from audit.codec.hints import did_you_mean, hints_of, init_fields
from audit.codec.schemas import FieldsOf

if TYPE_CHECKING:
    from audit.progress import StageProgress
    from audit.results import SettingResult
    from audit.results.verdicts import UserClaim
    from audit.scenario.prefetch import PrefetchedSamples
    from audit.scenario.sampling import Sampling

KINDS: dict[str, type[Setting]] = {}
COMMON = ("name", "title", "summary")  # fields of every setting
_Kind = TypeVar("_Kind", bound="type[Setting]")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Arguments that a scenario passes to each of its settings when it runs.

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
    sampling : Sampling or PrefetchedSamples
        Where samples are drawn.
    progress : Progress
        Where progress is shown.
    """

    seed: int
    confidence: float
    threads: int
    bounds: tuple[str, ...]
    sampling: Sampling | PrefetchedSamples
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
    flat: ClassVar[bool] = False  # whether the fields stand beside ``key``, not in its value

    name: str
    title: str
    summary: str = ""

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind, with the hints of their values.

        By default a kind has one key, ``key``, with its own fields; a ``flat`` one has a key for
        each field. ``title`` and ``summary`` are keys of every setting.

        Returns
        -------
        mapping of str to object
            Hints by key.
        """
        if not cls.flat:
            return {cls.key: FieldsOf(cls, COMMON)}
        hints = hints_of(cls)
        return {name: hints[name] for name in init_fields(cls) if name not in COMMON}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Take out of a setting's values those that are not read by type, and return their fields.

        Parameters
        ----------
        values : dict of str to object
            Keys and values of the setting; what is read is removed.
        where : str
            What the messages of errors begin with.
        folders : sequence of Path
            Where modules of the user are searched for.

        Returns
        -------
        dict of str to object
            Fields of this class by name; none by default.
        """
        return {}

    @classmethod
    def from_plain(cls, name: str, plain: Mapping[str, Any], folders: Sequence[Path] = ()) -> Self:
        """Return the setting described by a scenario file.

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
        where = f"settings.{name}"
        given = {key: decode(str, values.pop(key, ""), f"{where}.{key}") for key in COMMON[1:]}
        given |= {"name": name, **cls.read_fields(values, where, folders)}
        if not cls.flat:
            where, values = f"{where}.{cls.key}", values[cls.key]
        setting: Self = decode(cls, values, where, given=given)
        return setting

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values for a scenario file; the inverse of `from_plain`.

        Returns
        -------
        dict of str to object
            Plain data.
        """
        plain: dict[str, Any] = encode(self)
        common = {key: plain.pop(key) for key in COMMON}
        del common["name"]
        return {**common, **(plain if self.flat else {self.key: plain})}

    def heading(self, seed: int) -> dict[str, Any]:
        """Return the fields that the result of every setting has.

        Parameters
        ----------
        seed : int
            Seed of the setting.

        Returns
        -------
        dict of str to object
            Fields of a `SettingResult` by name.
        """
        common = {key: getattr(self, key) for key in COMMON}
        return {**common, "seed": seed, "wall_seconds": None}

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


def check_claims(claims: Sequence[UserClaim]) -> None:
    """Raise ``ValueError`` unless there are claims, each with a name of its own."""
    names = [claim.name for claim in claims]
    if not names or not all(names) or len(set(names)) < len(names):
        raise validate.fail("claims", "one or more, each with a name of its own", names)
