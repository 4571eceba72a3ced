"""Noisy-SGD: the public parameters of one run, all known to the adversary.

The update is

    X_{k+1} = Pi_K[ X_k - eta ( (1/b) sum_{i in B_k} grad f_i(X_k) + Z_k ) ],  Z_k ~ N(0, sigma^2 I)

with eta the step size, b the (nominal) batch size, sigma ``noise_std`` and K a convex set of
diameter D. `Divisor.ACTUAL` multiplies both terms by b over the actual size of the batch. This is
the convention of Altschuler and Talwar 2022, Feldman et al. 2018 (with b = 1) and Bok, Su and
Altschuler 2024. Bounds of other papers are translated to it where they are implemented.

A regulariser r that all records share (f_i = l_i + r) enters a step once, as grad r: with |B_k|/b
copies the size of a random batch would tell whether a record is in it, and no bound on the
gradients of the l_i would hide that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import codec, validate
from audit.mechanism.choices import (
    COVERED_BY_DEFAULT,
    Batching,
    Choice,
    Divisor,
    Epochs,
    Losses,
    Relation,
    Release,
)
from audit.numerics.display import ShortRepr

# Fields that belong to some samplers (`Batching.fields`), and what they are for the others.
_SAMPLER_DEFAULTS = {"participations": 1, "max_batch_size": None, "poisson_rate": None}

_MAX_COUNT = 10**15  # steps or records
_OPTIONAL = ("lipschitz", "gradient_sensitivity", "smoothness", "diameter", "clip_norm")
_CHOICES = {
    "batching": Batching,
    "relation": Relation,
    "release": Release,
    "divisor": Divisor,
    "losses": Losses,
}


@dataclass(frozen=True)
class StepSchedule:
    """Step size first * t^power at step t, counted from 1: ``{first: a, power: p}``."""

    first: float
    power: float


@dataclass(frozen=True, kw_only=True)
class NoisySGD(ShortRepr):
    """Noisy-SGD with public parameters, and what it releases.

    Parameters
    ----------
    steps : int
        Number of updates, T.
    dataset_size, batch_size : int
        Number of records n, and batch size b. ``batch_size`` is nominal where batches have a random
        size: n times the sampling rate for Poisson batches, and k n over the number of steps of an
        epoch for random allocation.
    step_size : float or tuple of float
        Step size eta: one number, or a tuple with one number per step.
    noise_std : float
        Standard deviation sigma of the gradient noise. The iterate moves by ``step_std = eta *
        sigma``.
    lipschitz : float, optional
        Bound L on the gradient of each record's (unregularised) loss. None: not assumed.
    gradient_sensitivity : float, optional
        Bound on the difference of any two records' gradients (Bok, Su and Altschuler 2024,
        Definition 2.10). Defaults to what ``lipschitz`` and ``relation`` imply.
    smoothness : float, optional
        Smoothness M of the losses. None: not assumed.
    strong_convexity : float, default: 0.0
        Strong convexity m of the losses; 0 for merely convex losses.
    convex : bool, default: True
        Whether the losses are convex.
    diameter : float, optional
        Diameter D of the domain. None: unconstrained.
    batching : Batching, default: Batching.FULL
        How batches are chosen.
    relation : Relation, default: Relation.REPLACE_ONE
        Which datasets are neighbours.
    release : Release, default: Release.LAST_ITERATE
        Output that the adversary sees.
    holder : tuple of (float, float), optional
        ``(constant, order)`` of gradients that are Hoelder continuous on the whole space (Chien and
        Li 2025). None: not assumed.
    clip_norm : float, optional
        Norm to which each record's gradient is clipped. Clipped gradients need not be gradients of
        any convex loss. None: no clipping.
    divisor : Divisor, default: Divisor.NOMINAL
        Divisor of the noisy sum of a batch's gradients.
    max_batch_size : int, optional
        Size to which the batches of ``Batching.TRUNCATED_POISSON`` are truncated; None for other
        batches.
    participations : int, default: 1
        Number k of batches per epoch that hold a given record, for ``Batching.RANDOM_ALLOCATION``;
        1 for other batches.
    poisson_rate : float, optional
        Probability q with which a (truncated) Poisson batch includes a record, for rates where q n
        is not a whole number; ``batch_size`` is then the divisor only. Requires the release of all
        iterates. Defaults to b/n.
    losses : Losses, default: Losses.FIXED
        Whether a record has the same loss in every step.

    Raises
    ------
    ValueError
        If a parameter is out of range or parameters contradict each other.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=1000, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5,
    ...                    lipschitz=1.0, smoothness=1.0, diameter=1.0)
    >>> m.sensitivity, m.step_std, m.contraction, m.epochs
    (2.0, 0.05, 1.0, 1000.0)
    """

    steps: int
    dataset_size: int
    batch_size: int
    step_size: float | tuple[float, ...]
    noise_std: float
    lipschitz: float | None = None
    gradient_sensitivity: float | None = None
    smoothness: float | None = None
    strong_convexity: float = 0.0
    convex: bool = True
    diameter: float | None = None
    batching: Batching = Batching.FULL
    relation: Relation = Relation.REPLACE_ONE
    release: Release = Release.LAST_ITERATE
    holder: tuple[float, float] | None = None
    clip_norm: float | None = None
    divisor: Divisor = Divisor.NOMINAL
    max_batch_size: int | None = None
    participations: int = 1
    poisson_rate: float | None = None
    losses: Losses = Losses.FIXED

    shorthands: ClassVar[Mapping[str, Any]] = MappingProxyType({"step_size": StepSchedule})

    def __post_init__(self) -> None:
        for name in ("step_size", "holder"):
            given = getattr(self, name)
            if isinstance(given, list) or getattr(given, "ndim", False):
                object.__setattr__(self, name, tuple(given))
        validate.convert_numbers(self)
        validate.integer(
            1, steps=self.steps, dataset_size=self.dataset_size, batch_size=self.batch_size
        )
        for name in ("steps", "dataset_size"):
            if getattr(self, name) > _MAX_COUNT:
                raise validate.fail(name, f"at most {_MAX_COUNT:g}", getattr(self, name))
        self._check_step_size()
        validate.positive(noise_std=self.noise_std)
        validate.nonnegative(strong_convexity=self.strong_convexity)
        optional = {name: getattr(self, name) for name in _OPTIONAL}
        validate.positive(**{name: v for name, v in optional.items() if v is not None})
        validate.instance(bool, convex=self.convex)
        for name, kind in _CHOICES.items():
            validate.instance(kind, **{name: getattr(self, name)})
        self._check_batches()
        self._check_losses()

    def _check_step_size(self) -> None:
        sizes = self.step_size if isinstance(self.step_size, tuple) else (self.step_size,)
        if isinstance(self.step_size, tuple) and len(sizes) != self.steps:
            raise ValueError(
                f"step_size must have one number a step ({self.steps}), got {len(sizes)} numbers"
            )
        for size in sizes:
            validate.positive(step_size=size)

    def _check_batches(self) -> None:
        n, b = self.dataset_size, self.batch_size
        if b > n:
            raise ValueError(f"batch_size must be at most dataset_size ({n}), got {b}")
        if self.batching is Batching.FULL and b != n:
            raise ValueError(f"batch_size must be dataset_size ({n}) for full batches, got {b}")
        self._check_sampler()

    def _check_sampler(self) -> None:
        for name, default in _SAMPLER_DEFAULTS.items():
            value = getattr(self, name)
            if name not in self.batching.fields and value != default:
                raise ValueError(
                    f"{name} must be {default} for {self.batching.value} batches, got {value!r}"
                )
        validate.integer(1, participations=self.participations)
        records = self.participations * self.dataset_size
        whole = self.batching.epochs is not Epochs.NONE and not self.batching.drops_rest
        if whole and records % self.batch_size:
            several = "participations * " * ("participations" in self.batching.fields)
            raise ValueError(
                f"batch_size must divide {several}dataset_size ({records}) for "
                f"{self.batching.batches}, got {self.batch_size}"
            )
        if self.max_batch_size is not None:
            validate.integer(1, max_batch_size=self.max_batch_size)
        elif "max_batch_size" in self.batching.fields:
            raise ValueError(
                f"max_batch_size must be given for {self.batching.value} batches, got None"
            )
        if self.poisson_rate is None:
            return
        validate.positive(poisson_rate=self.poisson_rate)
        validate.closed_unit(poisson_rate=self.poisson_rate)
        if self.release is not Release.ALL_ITERATES:
            raise ValueError(
                f"poisson_rate must be None for the release of the {self.release.value}, "
                f"got {self.poisson_rate!r}"
            )
        if self.poisson_rate == self.batch_size / self.dataset_size:
            object.__setattr__(self, "poisson_rate", None)

    def uncovered(self, also: Collection[Choice] = ()) -> str | None:
        """Return why code that covers only some choices must refuse this mechanism.

        Parameters
        ----------
        also : collection of Choice, optional
            Choices that are covered in addition to `COVERED_BY_DEFAULT`.

        Returns
        -------
        str or None
            A reason such as ``"needs another release, got release='all iterates'"``; None if every
            choice is covered.
        """
        for name in _CHOICES:
            choice = getattr(self, name)
            if choice not in COVERED_BY_DEFAULT and choice not in also:
                return f"needs another {name}, got {name}={choice.value!r}"
        return None

    def _check_losses(self) -> None:
        if self.gradient_bound is None and self.gradient_sensitivity is None:
            raise ValueError(
                "lipschitz, clip_norm or gradient_sensitivity must be given, got None for all"
            )
        if self.gradient_bound is not None and self.gradient_sensitivity is not None:
            implied = self._implied_sensitivity(self.gradient_bound)
            if self.gradient_sensitivity > implied * (1 + 1e-12):
                raise ValueError(
                    f"gradient_sensitivity must be at most {implied:g}, which lipschitz and "
                    f"relation imply, got {self.gradient_sensitivity!r}"
                )
        if self.strong_convexity > 0 and not self.convex:
            raise ValueError(
                f"strong_convexity must be 0 where convex is False, got {self.strong_convexity!r}"
            )
        if self.smoothness is not None and self.strong_convexity > self.smoothness:
            raise ValueError(
                f"strong_convexity must be at most smoothness ({self.smoothness:g}), "
                f"got {self.strong_convexity!r}"
            )
        if self.holder is not None:
            try:
                constant, order = self.holder
            except (TypeError, ValueError):
                raise validate.fail("holder", "(constant, order)", self.holder) from None
            validate.nonnegative(holder_constant=constant)
            validate.closed_unit(holder_order=order)

    def _implied_sensitivity(self, lipschitz: float) -> float:
        return (2.0 if self.relation is Relation.REPLACE_ONE else 1.0) * lipschitz

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        """Expand the schedule ``step_size: {first: a, power: p}`` to one number per step.

        Parameters
        ----------
        plain : object
            Plain data, as `decode_mechanism` takes it.

        Returns
        -------
        object
            The data with the schedule written out; other data unchanged.

        Raises
        ------
        ValueError
            If the schedule has other keys than ``first`` and ``power``, or their values are out of
            range.
        """
        if not isinstance(plain, Mapping):
            return plain
        size = plain.get("step_size")
        if not isinstance(size, Mapping):
            return plain
        if set(size) != {"first", "power"}:
            raise ValueError(
                "step_size must be a number, a list or {first, power}, "
                f"got the keys {', '.join(map(str, size))}"
            )
        validate.positive(**{"step_size.first": size["first"]})
        validate.finite(**{"step_size.power": size["power"]})
        if "steps" not in plain:  # steps are refused; the schedule is not to blame
            return {**plain, "step_size": size["first"]}
        validate.integer(1, steps=plain["steps"])
        schedule = [size["first"] * t ** size["power"] for t in range(1, plain["steps"] + 1)]
        return {**plain, "step_size": schedule}

    @property
    def gradient_bound(self) -> float | None:
        """Largest norm of one record's (clipped) gradient; None if it is unbounded."""
        bounds = [float(b) for b in (self.lipschitz, self.clip_norm) if b is not None]
        return min(bounds, default=None)

    @property
    def sensitivity(self) -> float:
        """Bound on the difference of the differing record's gradients (2L, or L for zero-out)."""
        if self.gradient_sensitivity is not None:
            return float(self.gradient_sensitivity)
        assert self.gradient_bound is not None  # checked at construction
        return self._implied_sensitivity(self.gradient_bound)

    @property
    def steepest_gradient(self) -> float:
        """Largest gradient norm of a record whose neighbour's loss is zero."""
        bound = self.gradient_bound
        return self.sensitivity if bound is None else min(bound, self.sensitivity)

    @cached_property
    def step_sizes(self) -> NDArray[np.float64]:
        """Step sizes, shape ``(steps,)``."""
        return np.broadcast_to(np.asarray(self.step_size, dtype=np.float64), (self.steps,))

    @property
    def constant_step_size(self) -> float:
        """Step size if it is constant; raises ``ValueError`` for a schedule that varies."""
        if isinstance(self.step_size, tuple):
            if len(set(self.step_size)) > 1:
                raise ValueError("step_size must be one number here, got a schedule that varies")
            return float(self.step_size[0])
        return float(self.step_size)

    @property
    def step_std(self) -> float:
        """Standard deviation of one step's noise, eta * sigma, for a constant step size."""
        return self.constant_step_size * self.noise_std

    @property
    def contraction(self) -> float:
        """Lipschitz constant of one noiseless update (Bok, Su and Altschuler 2024, Lemma 2.8).

        max(|1 - eta m|, |1 - eta M|) for convex losses and 1 + eta M otherwise; the largest over
        the steps of a schedule. Infinite if smoothness is not assumed.
        """
        if self.smoothness is None:
            return math.inf
        etas = np.atleast_1d(self.step_size)
        if not self.convex:
            return float(np.max(1 + etas * self.smoothness))
        low, high = np.abs(1 - etas * self.strong_convexity), np.abs(1 - etas * self.smoothness)
        return float(np.max(np.maximum(low, high)))

    @property
    def sampling_rate(self) -> float:
        """Sampling rate q: ``poisson_rate`` if given, else b/n."""
        if self.poisson_rate is not None:
            return float(self.poisson_rate)
        return self.batch_size / self.dataset_size

    @property
    def skipping_rate(self) -> float:
        """1 - q with all its digits, also where q is a rounded quotient near 1."""
        if self.poisson_rate is not None:
            return 1 - self.sampling_rate
        return (self.dataset_size - self.batch_size) / self.dataset_size

    @property
    def epochs(self) -> float:
        """Number of passes over the data, steps * q (not rounded)."""
        if self.poisson_rate is not None:
            return self.steps * self.sampling_rate
        return self.steps * self.batch_size / self.dataset_size

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps per epoch, k n/b rounded down: one full cycle, order or allocation."""
        return self.participations * self.dataset_size // self.batch_size

    @property
    def noise_multiplier(self) -> float:
        """Noise of a step relative to the sensitivity: noise_std * b / sensitivity.

        The sensitivity is that of one record's gradient: 2C for ``REPLACE_ONE`` and C otherwise,
        with C the clipping norm. Accountants divide by C under every relation.
        """
        return self.noise_std * self.batch_size / self.sensitivity


def encode_mechanism(mechanism: NoisySGD, *, defaults: bool = True) -> dict[str, Any]:
    """Return the fields of a mechanism as plain data."""
    encoded: dict[str, Any] = codec.encode(mechanism, defaults=defaults)
    return encoded


def decode_mechanism(plain: Any, name: str = "") -> NoisySGD:
    """Return the mechanism described by plain data."""
    mechanism: NoisySGD = codec.decode(NoisySGD, plain, name)
    return mechanism
