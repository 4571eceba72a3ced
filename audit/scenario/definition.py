"""Scenarios: settings of some kind, what all their samples share, and how they are run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from audit import isolation, results, validate
from audit.codec import encode
from audit.codec.hints import hints_of, init_fields
from audit.numerics.display import ShortRepr
from audit.progress import Silent, StageProgress
from audit.scenario.folders import scenarios_folder
from audit.simulation import Backend, Parallel

if TYPE_CHECKING:
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


Plain = dict[str, Any]  # the keys of a setting in a file, with their values
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
    beside: ClassVar[Mapping[str, Any]] = {}  # hints of keys in a file that are no fields
    hidden: ClassVar[tuple[str, ...]] = ("name",)  # fields that are no keys in a file

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
        fields = [name for name in init_fields(cls) if name not in cls.hidden]
        return {**cls.beside, **{name: hints_of(cls)[name] for name in fields}}

    @classmethod
    def read_fields(cls, values: Plain, where: str, folders: Sequence[Path]) -> Plain:
        """Return the fields of ``values`` that are not read by type; take out what is no field.

        Messages of errors begin with ``where``; modules of the user are searched for in
        ``folders``.
        """
        return {}

    def to_plain(self) -> Plain:
        """Return the keys and values for a scenario file.

        Returns
        -------
        dict of str to object
            Plain data, which `read_fields` and the types of the fields read back.
        """
        return {"title": self.title, "summary": self.summary, **self.own_plain()}

    def own_plain(self) -> Plain:
        """Return those that not every setting has."""
        plain: Plain = encode(self)
        del plain["name"]
        return plain

    def _heading(self, seed: int) -> dict[str, Any]:
        """Return the fields that the result of every setting has."""
        common = {key: getattr(self, key) for key in ("name", "title", "summary")}
        return {**common, "seed": seed, "wall_seconds": None}

    @abstractmethod
    def run(self, context: RunContext) -> results.SettingResult:
        """Compute the setting's result; its ``wall_seconds`` may be None."""


def setting_kind(cls: _Kind) -> _Kind:
    """Register a kind of setting by its ``key``, as a class decorator."""
    if KINDS.setdefault(cls.key, cls) is not cls:
        raise ValueError(f"key must be one that no other kind of setting has, got {cls.key!r}")
    return cls


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
    #: Where blocks of samples run; no number depends on it.
    parallel: Parallel = field(default_factory=Parallel)

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


def run(
    scenario: Scenario,
    *,
    progress: StageProgress | None = None,
    command: str = "",
    workers: Pool | None = None,
    folder: Path | None = None,
    finished: Callable[[results.SettingResult], object] = lambda setting: None,
) -> results.Result:
    """Compute, sample and bound every setting of a scenario.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    progress : Progress, optional
        Where progress is shown; nowhere by default.
    command : str, default: ""
        Command to record in the provenance.
    workers : Pool, optional
        Workers that draw samples, if already started; by default those of the scenario.
    folder : Path, optional
        Folder of checkpoints, from which a long run goes on; none by default.
    finished : callable, optional
        Called with the result of each setting as it ends.

    Returns
    -------
    Result
        One value per setting, and the provenance; see `audit.results`.

    Examples
    --------
    >>> result = audit.scenario.run(scenario)  # doctest: +SKIP
    >>> result.settings[0].name  # doctest: +SKIP
    'full_batch'
    """
    from audit.results.result import provenance_of  # takes a while to import

    started, clock = datetime.now(UTC), time.perf_counter()
    found = []
    for index, setting in enumerate(scenario.settings):
        clock_of_setting = time.perf_counter()
        seed = setting_seed(scenario.seed, index)
        result = setting.run(
            RunContext(
                seed=seed,
                confidence=scenario.confidence,
                threads=scenario.threads,
                bounds=scenario.bounds,
                workers=workers or scenario.backend,
                folder=None if folder is None else folder / str(seed),
                progress=progress or Silent(),
            )
        )
        seconds = round(time.perf_counter() - clock_of_setting, 3)
        found.append(replace(result, wall_seconds=seconds))
        finished(found[-1])
    heading = {key: getattr(scenario, key) for key in init_fields(results.ScenarioHeading)}
    return results.Result(
        scenario=results.ScenarioHeading(**heading),
        provenance=provenance_of(
            seed=scenario.seed,
            command=command,
            started=started.isoformat(timespec="seconds"),
            wall_seconds=time.perf_counter() - clock,
            threads=scenario.threads,
        ),
        confidence=scenario.confidence,
        settings=tuple(found),
    )


def setting_seed(seed: int, index: int) -> int:
    """Return the seed of a setting, so that settings draw independent samples."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0])
