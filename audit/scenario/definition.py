"""What a scenario is: a few settings, each a mechanism with a pair, scores, or a study."""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit import bounds, validate
from audit.constructions import Construction
from audit.scenario.own import OwnSetting
from audit.scenario.positions import moved
from audit.scenario.searched import SearchPlan
from audit.scenario.study import StudySetting
from audit.simulation import Kind, Parallel

HERE = Parallel()  # threads of this process


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One mechanism, the pair that attacks it, and what is computed.

    Parameters
    ----------
    name, title, summary
        A short name for files, and words for people.
    pair
        The construction; its mechanism is the setting's. It is computed and sampled.
    other_pairs
        More constructions for the same mechanism, computed only.
    deltas
        Where epsilons are compared.
    renyi_orders
        Orders of the Renyi divergences.
    trials
        Samples of each of the two laws.
    steps_shown
        Numbers of steps of the figure of epsilon against T.
    positions
        Batches of the cycle, from 0, for whose records the leak is computed (cyclic batches).
    check_proof
        Whether the statements of paper 000's proof (appendix A.4) are checked too.
    search
        The plan of a search whose best pair joins the other ones; None for no search.
    """

    name: str
    title: str
    summary: str
    pair: Construction
    other_pairs: tuple[Construction, ...]
    deltas: tuple[float, ...]
    renyi_orders: tuple[float, ...]
    trials: int
    steps_shown: tuple[int, ...]
    check_proof: bool
    positions: tuple[int, ...] = ()
    search: SearchPlan | None = None

    def __post_init__(self) -> None:
        if not self.deltas:
            raise validate.fail("deltas", "one or more numbers in (0, 1)", self.deltas)
        validate.open_unit(**{f"deltas[{i}]": d for i, d in enumerate(self.deltas)})
        validate.above_one(**{f"renyi_orders[{i}]": a for i, a in enumerate(self.renyi_orders)})
        validate.integer(1000, trials=self.trials)
        validate.integer(1, **{f"steps_shown[{i}]": t for i, t in enumerate(self.steps_shown)})
        for position in self.positions:
            for pair in (self.pair, *self.other_pairs):
                moved(pair, position)  # refuses a place that the cycle does not have


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A named list of settings, with the confidence and the seed of all its samples.

    ``bounds`` names the entries of `audit.bounds.CATALOGUE` that are held against the settings.
    ``parallel`` says where blocks of samples run; no number depends on it.
    """

    name: str
    title: str
    summary: str
    reference: str
    settings: tuple[Setting | OwnSetting | StudySetting, ...]
    bounds: tuple[str, ...]
    confidence: float
    seed: int
    threads: int
    parallel: Parallel = HERE

    def __post_init__(self) -> None:
        validate.open_unit(confidence=self.confidence)
        validate.integer(0, seed=self.seed)
        validate.integer(1, threads=self.threads)
        for name in self.bounds:
            bounds.entry(name)  # an unknown id names its neighbours
        if not self.settings:
            raise ValueError(f"settings must hold one setting or more, got none in {self.name!r}")

    @property
    def backend(self) -> Parallel:
        """``parallel``, with ``threads`` workers where it names none on this machine."""
        here = self.parallel.kind in (Kind.THREADS, Kind.LOKY)
        if here and self.parallel.workers is None:
            return replace(self.parallel, workers=self.threads)
        return self.parallel
