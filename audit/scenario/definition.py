"""Scenarios: settings of some kind, the code that they name, and what all samples share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from audit import isolation, validate
from audit.codec import encode
from audit.codec.hints import hints_of, init_fields
from audit.numerics.display import ShortRepr
from audit.scenario.shipped import scenarios_folder
from audit.simulation import Backend, Parallel

if TYPE_CHECKING:
    from audit.estimation.verdicts import UserClaim
    from audit.progress import StageProgress
    from audit.results import SettingResult
    from audit.simulation import Pool


def load(reference: str, *, name: str = "function", folders: Sequence[Path] = ()) -> Any:
    """Return what ``package.module:name`` names: see `audit.isolation.load`.

    It is run in this process: a sampler or a study is the work of the run itself. Modules are
    looked for in ``folders`` too, in the current folder, and in that of shipped scenarios.
    """
    places = [*folders, Path.cwd(), scenarios_folder()]
    return isolation.load(reference, name=name, folders=places)


def reference(found: Any) -> str | None:
    """Return the ``package.module:name`` of a user's function or class, None for the package's."""
    module = str(found.__module__)
    ours = module.partition(".")[0] == __name__.partition(".")[0]
    return None if ours else f"{module}:{found.__qualname__}"


KINDS: dict[str, type[Setting]] = {}
_Kind = TypeVar("_Kind", bound="type[Setting]")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Arguments that a scenario passes to each of its settings when it runs."""

    seed: int  #: Seed of the setting.
    confidence: float  #: Confidence level of everything that the setting certifies.
    threads: int  #: Number of threads for exact laws and studies.
    bounds: tuple[str, ...]  #: Ids of the catalogue to compare with the settings.
    workers: Parallel | Pool  #: Where samples are drawn.
    folder: Path | None  #: Checkpoints of a long run of this setting; None for none.
    progress: StageProgress  #: Where progress is shown.


@dataclass(frozen=True, kw_only=True)
class Setting(ABC):
    """Setting of a scenario; each kind is a subclass that registers itself."""

    key: ClassVar[str]  # the one of its keys in a file that tells the kind

    name: str  #: Short name for files.
    title: str  #: Title for readers.
    summary: str = ""  #: Description for readers.

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind with their hints.

        Returns
        -------
        mapping of str to object
            Hints by key.
        """
        hints = hints_of(cls)
        return {name: hints[name] for name in init_fields(cls) if name != "name"}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Take out of ``values`` those that are not read by type, and return their fields.

        Messages of errors begin with ``where``; modules of the user are searched for in
        ``folders``.
        """
        return {}

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values for a scenario file."""
        plain: dict[str, Any] = encode(self)
        del plain["name"]
        return plain

    @abstractmethod
    def run(self, context: RunContext) -> SettingResult:
        """Compute the setting's result; its ``wall_seconds`` may be None."""


def heading(setting: Setting, seed: int) -> dict[str, Any]:
    """Return the fields that the result of every setting has."""
    common = {key: getattr(setting, key) for key in ("name", "title", "summary")}
    return {**common, "seed": seed, "wall_seconds": None}


def setting_kind(cls: _Kind) -> _Kind:
    """Register a kind of setting by its ``key``, as a class decorator."""
    if KINDS.setdefault(cls.key, cls) is not cls:
        raise ValueError(f"key must be one that no other kind of setting has, got {cls.key!r}")
    return cls


def check_claims(claims: Sequence[UserClaim]) -> None:
    """Raise ``ValueError`` unless there are claims, each with a name of its own."""
    names = [claim.name for claim in claims]
    if not names or not all(names) or len(set(names)) < len(names):
        raise validate.fail("claims", "one or more, each with a name of its own", names)


HERE = Parallel()  # threads of this process


@dataclass(frozen=True, kw_only=True)
class Scenario(ShortRepr):
    """Named list of settings, with the confidence level and the seed of all its samples.

    Raises
    ------
    ValueError
        If there is no setting, a bound is unknown, or a number is out of range.
    """

    name: str  #: Short name for files.
    title: str  #: Title for readers.
    summary: str = ""  #: Description for readers.
    reference: str = ""  #: The publication that the scenario reproduces.
    settings: tuple[Setting, ...]  #: Settings, at least one.
    #: Ids of entries of `audit.bounds.CATALOGUE` to compare with the settings.
    bounds: tuple[str, ...]
    confidence: float  #: Confidence level of everything certified, in (0, 1).
    seed: int  #: Integer of at least 0.
    threads: int  #: Number of threads, at least 1.
    parallel: Parallel = HERE  #: Where blocks of samples run; no number depends on it.

    def __post_init__(self) -> None:
        from audit import bounds  # takes a while to import, which a misspelt key must not

        validate.open_unit(confidence=self.confidence)
        validate.integer(0, seed=self.seed)
        validate.integer(1, threads=self.threads)
        for index, id in enumerate(self.bounds):
            bounds.entry(id, name=f"bounds[{index}]")
        if not self.settings:
            raise ValueError(f"settings must hold one setting or more, got none in {self.name!r}")

    @property
    def backend(self) -> Parallel:
        """``parallel``, with ``threads`` workers if it runs on this machine and names none."""
        here = self.parallel.kind in (Backend.THREADS, Backend.LOKY)
        if here and self.parallel.workers is None:
            return replace(self.parallel, workers=self.threads)
        return self.parallel
