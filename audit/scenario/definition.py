"""Scenarios: settings, with the confidence level and the seed of all their samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit import validate
from audit.numerics.display import ShortRepr
from audit.scenario.kinds import Setting
from audit.simulation import Backend, Parallel

HERE = Parallel()  # threads of this process


@dataclass(frozen=True, kw_only=True)
class Scenario(ShortRepr):
    """Named list of settings, with the confidence level and the seed of all its samples.

    Parameters
    ----------
    name, title : str
        Short name for files, and title for readers.
    summary, reference : str, default: ""
        Description, and the publication that the scenario reproduces.
    settings : tuple of Setting
        Settings, at least one.
    bounds : tuple of str
        Ids of entries of `audit.bounds.CATALOGUE` to compare with the settings.
    confidence : float
        Confidence level of everything certified, in (0, 1).
    seed : int
        Integer of at least 0.
    threads : int
        Number of threads, at least 1.
    parallel : Parallel, optional
        Where blocks of samples run; no number depends on it.

    Raises
    ------
    ValueError
        If there is no setting, a bound is unknown, or a number is out of range.
    """

    name: str
    title: str
    summary: str = ""
    reference: str = ""
    settings: tuple[Setting, ...]
    bounds: tuple[str, ...]
    confidence: float
    seed: int
    threads: int
    parallel: Parallel = HERE

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
