"""The schemas of scenario files, and their translation into domain objects.

Hydra checks keys and types against these classes, so a misspelt key fails by itself; ranges are
checked by the domain objects. The classes are mutable because Hydra needs them so.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    TwoSidedWalk,
)
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit.scenario.definition import Scenario, Setting

MISSING: Any = "???"  # OmegaConf's mark of a value that must be given


class Kind(enum.Enum):
    """The constructions that a scenario file can name."""

    BiasedWalk = "BiasedWalk"
    TwoSidedWalk = "TwoSidedWalk"
    DriftedWalk = "DriftedWalk"


@dataclass
class MechanismConfig:
    """Fields of `audit.NoisySGD`; enums by name, ``step_size`` a number or a list."""

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
    """A construction: its kind, and what that kind takes."""

    kind: Kind = MISSING
    start: float = 0.0
    drift: float | None = None
    position: int | None = None


@dataclass
class SettingConfig:
    """One mechanism, the pair that is computed and sampled, and others that are computed."""

    title: str = ""
    summary: str = ""
    mechanism: MechanismConfig = field(default_factory=MechanismConfig)
    pair: PairConfig = field(default_factory=PairConfig)
    other_pairs: list[PairConfig] = field(default_factory=list)
    deltas: list[float] = MISSING
    renyi_orders: list[float] = field(default_factory=list)
    trials: int = MISSING
    steps_shown: list[int] = field(default_factory=list)
    check_proof: bool = False


@dataclass
class AuditConfig:
    """The whole configuration of the ``audit`` command."""

    name: str = MISSING
    title: str = ""
    summary: str = ""
    reference: str = ""
    settings: dict[str, SettingConfig] = MISSING
    bounds: list[str] = MISSING
    confidence: float = MISSING
    seed: int = MISSING
    threads: int | None = None
    output: str = "results/runs"


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
        settings=tuple(_setting(name, s) for name, s in config.settings.items()),
        bounds=tuple(config.bounds),
        confidence=config.confidence,
        seed=config.seed,
        threads=_threads() if config.threads is None else config.threads,
    )


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _setting(name: str, config: SettingConfig) -> Setting:
    try:
        mechanism = to_mechanism(config.mechanism)
        return Setting(
            name=name,
            title=config.title or name,
            summary=config.summary,
            pair=_pair(config.pair, mechanism),
            other_pairs=tuple(_pair(other, mechanism) for other in config.other_pairs),
            deltas=tuple(config.deltas),
            renyi_orders=tuple(config.renyi_orders),
            trials=config.trials,
            steps_shown=tuple(config.steps_shown),
            check_proof=config.check_proof,
        )
    except ValueError as error:
        raise ValueError(f"settings.{name}: {error}") from error


def to_mechanism(config: MechanismConfig) -> NoisySGD:
    """Turn the fields of a mechanism into the mechanism; ``ValueError`` if one is out of range."""
    values = {key: getattr(config, key) for key in MechanismConfig.__dataclass_fields__}
    for name in ("step_size", "holder"):
        if isinstance(values[name], list):
            values[name] = tuple(values[name])
    return NoisySGD(**values)


def _pair(config: PairConfig, mechanism: NoisySGD) -> Construction:
    if config.kind is Kind.DriftedWalk:
        if config.drift is None:
            raise ValueError("drift must be given for a DriftedWalk, got None")
        return DriftedWalk(mechanism, config.drift, config.start, config.position)
    if config.drift is not None:
        raise ValueError(f"drift must be left out for a {config.kind.value}, got {config.drift!r}")
    walk = BiasedWalk if config.kind is Kind.BiasedWalk else TwoSidedWalk
    return walk(mechanism, config.start, config.position)
