"""The schemas of scenario files, and their translation into domain objects.

Hydra checks keys and types against these classes, so a misspelt key fails by itself; ranges are
checked by the domain objects. The classes are mutable because Hydra needs them so.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from audit.constructions import Construction, decode_pair
from audit.mechanism import Batching, NoisySGD, Relation, Release, decode_mechanism
from audit.scenario.definition import Scenario
from audit.scenario.kinds import Setting
from audit.scenario.pair import PairSetting, SearchPlan
from audit.scenario.studies import read_study
from audit.scenario.study_setting import StudySetting
from audit.scenario.user_mechanism import (
    DrawnScores,
    StoredScores,
    UserClaim,
    UserMechanismSetting,
)
from audit.simulation import Kind as Backend
from audit.simulation import Parallel

MISSING: Any = "???"  # OmegaConf's mark of a value that must be given


class Kind(enum.Enum):
    """The constructions that a scenario file can name."""

    BiasedWalk = "BiasedWalk"
    TwoSidedWalk = "TwoSidedWalk"
    DriftedWalk = "DriftedWalk"
    ResetWalk = "ResetWalk"
    WallPinnedWalk = "WallPinnedWalk"
    QuadraticPair = "QuadraticPair"
    CyclicQuadraticPair = "CyclicQuadraticPair"
    GradientPair = "GradientPair"
    HolderPair = "HolderPair"


@dataclass
class MechanismConfig:
    """Fields of `audit.NoisySGD`; enums by name.

    ``step_size`` is a number, a list with one number a step, or ``{first: .., power: ..}`` for
    the schedule first * t^power, t from 1.
    """

    steps: int = MISSING
    dataset_size: int = MISSING
    batch_size: int = MISSING
    step_size: Any = MISSING
    noise_std: float = MISSING
    lipschitz: float | None = None
    gradient_sensitivity: float | None = None
    smoothness: float | None = None
    strong_convexity: float = 0.0
    convex: bool = True
    diameter: float | None = None
    batching: Batching = Batching.FULL
    relation: Relation = Relation.REPLACE_ONE
    release: Release = Release.LAST_ITERATE
    clip_norm: float | None = None
    holder: list[float] | None = None


@dataclass
class BoundsConfig(MechanismConfig):
    """The whole configuration of the ``audit-bounds`` command: a mechanism, and delta."""

    delta: float = MISSING


@dataclass
class SearchConfig(MechanismConfig):
    """The whole configuration of the ``audit-search`` command.

    One of ``delta`` and ``renyi_order`` says what is maximised; ``budget`` is in seconds;
    ``output`` is the file for the found pair, or null.
    """

    delta: float | None = None
    renyi_order: float | None = None
    budget: float = MISSING
    evaluations: int | None = None
    seed: int = MISSING
    output: str | None = None


@dataclass
class PairConfig:
    """A construction: its kind, and what that kind takes; see the classes of the same names.

    Gradients (``others`` of a GradientPair, ``others_after``, ``record``, ``record_prime``,
    ``shared``) are a number, or broken lines ``{points: [..], values: [..], slopes: [.., ..]}``.
    """

    kind: Kind = MISSING
    start: float | None = None
    position: int | None = None
    drift: float | None = None
    before: float | None = None
    after: float | None = None
    curvature: float | None = None
    batch_curvature: float | None = None
    cap: float | None = None
    centre: float | None = None
    scale: float | None = None
    form: str | None = None
    others: Any = None
    others_after: Any = None
    record: Any = None
    record_prime: Any = None
    shared: Any = None


@dataclass
class OwnConfig:
    """A mechanism of your own: ``function``, or two files of scores.

    ``function`` is ``package.module:function``, called as ``function(dataset, trials, seed)`` with
    dataset 0 or 1; it returns an array with one score a run. The module must be importable, or lie
    in the current folder. ``scores`` and ``scores_prime`` are .npy or .csv files.
    """

    function: str | None = None
    scores: str | None = None
    scores_prime: str | None = None


@dataclass
class OwnClaimConfig:
    """What you claim of your mechanism: that it is (epsilon, delta)-private."""

    name: str = MISSING
    epsilon: float = MISSING
    delta: float = MISSING


@dataclass
class PlannedSearchConfig:
    """A search for a worse pair, at one delta; it ends after so many evaluations."""

    delta: float = MISSING
    evaluations: int = MISSING


@dataclass
class SettingConfig:
    """One mechanism, the pair that is computed and sampled, and others that are computed.

    ``search`` adds the best pair that a search finds to the other ones.
    ``positions`` names batches of the cycle, from 0: the leak of the records there is computed.
    With ``own`` the scores of your own mechanism take the place of mechanism and pairs, and
    ``claims`` that of the catalogue's bounds. With ``study`` a study takes all their places:
    its ``function``, ``module:function``, and its parameters.
    """

    title: str = ""
    summary: str = ""
    mechanism: MechanismConfig | None = None
    pair: PairConfig | None = None
    own: OwnConfig | None = None
    study: Any = None
    claims: list[OwnClaimConfig] = field(default_factory=list)
    other_pairs: list[PairConfig] = field(default_factory=list)
    search: PlannedSearchConfig | None = None
    deltas: list[float] = field(default_factory=list)
    renyi_orders: list[float] = field(default_factory=list)
    trials: int | None = None
    steps_shown: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


@dataclass
class ParallelConfig:
    """Where blocks of samples run; see `audit.simulation.Parallel`.

    A group: ``parallel=threads``, ``loky``, ``dask`` or ``ray`` sets the kind. Without ``workers``
    threads and processes (loky) are as many as ``threads``.
    """

    kind: Backend = Backend.THREADS
    workers: int | None = None
    address: str | None = None


@dataclass
class AuditConfig:
    """The whole configuration of the ``audit`` command.

    ``sweep`` names the folder inside ``output`` that the runs of a sweep share, by default after
    the time; ``draw`` says whether each run gets a report of its own (``audit-report`` draws it
    later, too).
    """

    name: str = MISSING
    title: str = ""
    summary: str = ""
    reference: str = ""
    settings: dict[str, SettingConfig] = MISSING
    bounds: list[str] = MISSING
    confidence: float = MISSING
    seed: int = MISSING
    threads: int | None = None
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    output: str = "results/runs"
    sweep: str | None = None
    draw: bool = True


def to_scenario(config: AuditConfig) -> Scenario:
    """Turn a composed configuration into a scenario.

    Raises
    ------
    ValueError
        If a value is out of its range or a construction is not admissible; the message begins
        with the setting's name.
    """
    return Scenario(
        name=config.name,
        title=config.title or config.name,
        summary=config.summary,
        reference=config.reference,
        settings=tuple(to_setting(name, s) for name, s in config.settings.items()),
        bounds=tuple(config.bounds),
        confidence=config.confidence,
        seed=config.seed,
        threads=_threads() if config.threads is None else config.threads,
        parallel=_parallel(config.parallel),
    )


def _parallel(config: ParallelConfig) -> Parallel:
    try:
        return Parallel(config.kind, config.workers, config.address)
    except ValueError as error:
        raise ValueError(f"parallel.{error}") from error


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def to_setting(name: str, config: SettingConfig) -> Setting:
    """Turn one setting into a domain object; messages of a `ValueError` begin with its name."""
    try:
        if config.study is not None:
            return _study_setting(name, config)
        return _pair_setting(name, config) if config.own is None else _own_setting(name, config)
    except ValueError as error:
        raise ValueError(f"settings.{name}: {error}") from error


def _pair_setting(name: str, config: SettingConfig) -> PairSetting:
    _refuse(config, ("claims",), "without own")
    for part in ("mechanism", "pair", "trials"):
        if getattr(config, part) is None:
            raise ValueError(f"{part} must be given, got None")
    assert config.mechanism is not None  # looked at just now
    assert config.pair is not None
    assert config.trials is not None
    mechanism = to_mechanism(config.mechanism)
    return PairSetting(
        name=name,
        title=config.title or name,
        summary=config.summary,
        pair=_pair(config.pair, mechanism),
        other_pairs=tuple(_pair(other, mechanism) for other in config.other_pairs),
        deltas=tuple(config.deltas),
        renyi_orders=tuple(config.renyi_orders),
        trials=config.trials,
        steps_shown=tuple(config.steps_shown),
        positions=tuple(config.positions),
        search=(
            None
            if config.search is None
            else SearchPlan(delta=config.search.delta, evaluations=config.search.evaluations)
        ),
    )


_OF_PAIRS = (
    "mechanism",
    "pair",
    "other_pairs",
    "search",
    "renyi_orders",
    "steps_shown",
    "positions",
)


def _own_setting(name: str, config: SettingConfig) -> UserMechanismSetting:
    _refuse(config, _OF_PAIRS, "beside own")
    assert config.own is not None  # the caller looked
    return UserMechanismSetting(
        name=name,
        title=config.title or name,
        summary=config.summary,
        source=_source(config.own, config.trials),
        claims=tuple(UserClaim(c.name, c.epsilon, c.delta) for c in config.claims),
        deltas=tuple(config.deltas),
    )


def _study_setting(name: str, config: SettingConfig) -> StudySetting:
    _refuse(config, (*_OF_PAIRS, "own", "claims", "deltas", "trials"), "beside study")
    return StudySetting(
        name=name,
        title=config.title or name,
        summary=config.summary,
        study=read_study(config.study),
    )


def _source(own: OwnConfig, trials: int | None) -> DrawnScores | StoredScores:
    files = (own.scores, own.scores_prime)
    if own.function is not None and files == (None, None):
        if trials is None:
            raise ValueError("trials must be given, got None")
        return DrawnScores(own.function, trials)
    if own.function is None and own.scores is not None and own.scores_prime is not None:
        if trials is not None:
            raise ValueError(f"trials must be left out beside files of scores, got {trials}")
        return StoredScores(Path(own.scores), Path(own.scores_prime))
    raise ValueError("own must hold function, or scores and scores_prime, and not both")


def _refuse(config: SettingConfig, names: Sequence[str], where: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value:
            raise ValueError(f"{name} must be left out {where}")


def to_mechanism(config: MechanismConfig) -> NoisySGD:
    """Turn the fields of a mechanism into the mechanism; ``ValueError`` if one is out of range."""
    return decode_mechanism(
        {key: getattr(config, key) for key in MechanismConfig.__dataclass_fields__}
    )


def _pair(config: PairConfig, mechanism: NoisySGD) -> Construction:
    given = {f.name: getattr(config, f.name) for f in fields(config) if f.name != "kind"}
    parameters = {name: value for name, value in given.items() if value is not None}
    return decode_pair({"kind": config.kind.value, **parameters}, mechanism, name="")
