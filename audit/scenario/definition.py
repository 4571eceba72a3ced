"""What a scenario is: settings, and the confidence and seed of all their samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit import validate
from audit.scenario.kinds import Setting
from audit.simulation import Kind, Parallel

HERE = Parallel()  # threads of this process


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A named list of settings, with the confidence and the seed of all its samples.

    ``bounds`` names the entries of `audit.bounds.CATALOGUE` that are held against the settings.
    ``parallel`` says where blocks of samples run; no number depends on it.
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
        """``parallel``, with ``threads`` workers where it names none on this machine."""
        here = self.parallel.kind in (Kind.THREADS, Kind.LOKY)
        if here and self.parallel.workers is None:
            return replace(self.parallel, workers=self.threads)
        return self.parallel
