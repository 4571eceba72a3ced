"""The design of a training audit: everything that is chosen before a training runs."""

from __future__ import annotations

import itertools
import keyword
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audit import validate
from audit.codec import encode
from audit.estimation.one_run import Canaries
from audit.estimation.score_source import Columns, WeightedColumns
from audit.estimation.verdicts import UserClaim

Argument = bool | int | float | str

_MIN_TRAININGS = 8  # fewest trainings with one canary: four with it, four without
_MIN_CANARIES = 4


@dataclass(frozen=True, kw_only=True)
class Design:
    """The design of an audit: the training, the claims and the method.

    Examples
    --------
    >>> from audit.results import UserClaim
    >>> Design(train="my_training:train", claims=(UserClaim("", 2.0, 1e-5),), trials=400).deltas
    (1e-05,)
    """

    train: str  #: The training function, ``package.module:function``; see `audit.training.run`.
    claims: tuple[UserClaim, ...]  #: The claims about adding or removing one canary, at least one.
    #: Number of trainings. With one canary it must be even: half of them include it.
    trials: int | None = None
    #: Time, in minutes, after which no further training starts, summed over all starts of the same
    #: audit.
    minutes: float | None = None
    early_stop: bool = False  #: Whether to stop once every claim is refuted.
    #: Number of canaries. With 1, each training either includes the canary or not; with more, each
    #: training includes about half of them.
    canaries: int = 1
    #: The assumption about the dependence between several canaries of one training.
    assume: Canaries = Canaries.ARBITRARY
    #: How several scores of a training are combined into one; by default their sum, which uses no
    #: training for the choice. All others but `WeightedColumns` use a part of the trainings to
    #: choose, and need a fixed number of trainings.
    columns: Columns | None = None
    #: Further keyword arguments of the training function.
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    seconds: float = 3600.0  #: Limit on the time of one training, in seconds.
    gigabytes: float = 16.0  #: Limit on the memory of one training, in units of 1e9 bytes.

    def __post_init__(self) -> None:
        validate.reference(train=self.train)
        claims = [(claim.name, claim.delta) for claim in self.claims]
        if not claims or len(set(claims)) < len(claims):
            raise validate.fail("claims", "one or more, each with its own name or delta", claims)
        validate.integer(1, canaries=self.canaries)
        validate.positive(seconds=self.seconds, gigabytes=self.gigabytes)
        for argument, value in self.arguments.items():
            if not isinstance(value, Argument):
                raise validate.fail(f"arguments.{argument}", "a number, text or a boolean", value)
            taken = argument in ("canary", "included", "seed") or keyword.iskeyword(str(argument))
            if taken or not str(argument).isidentifier():
                requirement = "the name of a parameter of train other than its first two"
                raise validate.fail("arguments", requirement, argument)
        if self.minutes is not None:
            validate.positive(minutes=self.minutes)
        if self.canaries == 1:
            self._check_one_canary()
        else:
            self._check_many_canaries()

    def _check_one_canary(self) -> None:
        if self.trials is None and self.minutes is None:
            raise ValueError("trials or minutes must be given, got neither")
        if self.trials is not None:
            validate.integer(_MIN_TRAININGS, trials=self.trials)
            if self.trials % 2:
                raise validate.fail("trials", "even: half of them have the canary", self.trials)
        if self.assume is not Canaries.ARBITRARY:
            raise validate.fail("assume", "left out with one canary", self.assume.value)
        if self.anytime and not isinstance(self.columns, WeightedColumns | None):
            requirement = "WeightedColumns with early_stop or minutes, or left out"
            raise validate.fail("columns", requirement, self.columns.kind)

    def _check_many_canaries(self) -> None:
        validate.integer(_MIN_CANARIES, canaries=self.canaries)
        if self.trials is None:
            raise validate.fail("trials", "given with several canaries (1 is enough)", None)
        validate.integer(1, trials=self.trials)
        for name in ("minutes", "early_stop", "columns"):
            if getattr(self, name):
                raise validate.fail(name, "left out with several canaries", getattr(self, name))

    @property
    def anytime(self) -> bool:
        """Whether the number of trainings is open, so that only an e-process certifies."""
        return self.early_stop or self.minutes is not None

    @property
    def deltas(self) -> tuple[float, ...]:
        """The deltas of the claims, largest first."""
        return tuple(sorted({claim.delta for claim in self.claims}, reverse=True))

    def identity(self) -> dict[str, Any]:
        """Return all settings that the result depends on, as plain data.

        The length of an anytime-valid audit is not among them: it may change after looking.
        """
        length = ("trials", "minutes") if self.anytime else ()
        left_out = "seconds", "gigabytes", *length  # no score depends on the limits
        return {name: value for name, value in encode(self).items() if name not in left_out}


@dataclass(frozen=True)
class Trial:
    """One training of an audit."""

    number: int  # number of the trial, from 1
    seed: int  # seed of the training, in [0, 2^32), different for every trial of the audit
    included: tuple[bool, ...]  # for each canary, whether it is included

    @property
    def described(self) -> str:
        """The description of the trial in messages."""
        if len(self.included) > 1:
            which = f"{sum(self.included)} of {len(self.included)} canaries"
        else:
            which = "with the canary" if self.included[0] else "without the canary"
        return f"trial {self.number} ({which}, seed {self.seed})"


Scored = tuple[Trial, tuple[float, ...]]


def trials_of(design: Design, seed: int) -> Iterator[Trial]:
    """Yield the trials of an audit in order; a longer audit begins with those of a shorter one.

    With one canary, trials 1 and 2, 3 and 4, ... are pairs: a coin decides which includes it.
    """
    seeds = _distinct_seeds(seed)
    number = 0
    while design.trials is None or number < design.trials:
        coins = np.random.default_rng(_stream(seed, _COINS, number))
        if design.canaries > 1:
            drawn = [tuple(bool(coin) for coin in coins.integers(0, 2, design.canaries))]
        else:
            first = bool(coins.integers(0, 2))
            drawn = [(first,), (not first,)]
        for included in drawn:
            number += 1
            yield Trial(number, next(seeds), included)


def analysis_seed(seed: int) -> int:
    """Return the seed of the random choices of the analysis: tie-breaking or the pilot split."""
    return int(_stream(seed, _ANALYSIS, 0).generate_state(1)[0])


_SEEDS, _COINS, _ANALYSIS = range(3)


def _stream(seed: int, purpose: int, number: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(purpose, number))


def _distinct_seeds(seed: int) -> Iterator[int]:
    """Yield distinct 32-bit seeds, which every library accepts."""
    used: set[int] = set()
    for number in itertools.count():
        found = int(_stream(seed, _SEEDS, number).generate_state(1)[0])
        if found not in used:
            used.add(found)
            yield found


def reference_to(train: object) -> str:
    """Return ``module:function`` for a function that worker processes can import."""
    if isinstance(train, str):
        return train
    module, name = getattr(train, "__module__", None), getattr(train, "__qualname__", "<")
    found: Any = sys.modules.get(module or "")
    if module == "__main__":
        spec, file = getattr(found, "__spec__", None), getattr(found, "__file__", None)
        module = spec.name if spec else file and Path(file).stem
    for part in name.split("."):
        found = getattr(found, part, None)
    if not module or found is not train:  # a wrapper has the name of the function that it wraps
        requirement = "a function of a module, or 'module:function', that processes can import"
        raise validate.fail("train", requirement, train)
    return f"{module}:{name}"
