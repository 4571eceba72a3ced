"""Non-convex losses for which the last iterate retains the evidence of all steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.base import Construction, Inadmissible, both_hold_record
from audit.constructions.batches import batched_process, check_position
from audit.constructions.process import Process
from audit.constructions.registry import construction
from audit.constructions.updates import Staircase
from audit.mechanism import Batching, Choice, NoisySGD, Relation
from audit.numerics.arrays import Array

_MAX_STAIR = 1.0  # largest width of a stair, in standard deviations
_MAX_CELLS = 400
# Wider cells keep more tails, narrower ones round less; full batches tell all with wide ones.
_SPACINGS = (13.0, 16.0, 10.0, 20.0, 8.0)
_DEVIATIONS = 7.0  # range of the lattice, in standard deviations of the total evidence


def _random_spacing(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    return float(rng.uniform(6.0, 20.0))


@construction
@dataclass(frozen=True)
class LatticeWalk(Construction):
    """Pair whose gradients move the iterate between lattice points by the evidence of each step.

    One noisy step distinguishes the two datasets by its log-likelihood ratio. For sampled batches
    this is not linear in the noise, so the sum of the steps, which a walk releases, is less
    informative than all steps. Here the iterate is on a lattice before noise is added. The noise
    moves it by some u within its cell, and the next gradient moves it to the lattice point
    ``round(l(u)/resolution)`` cells away, with l the log-likelihood ratio of a step. So the
    position accumulates the rounded log-likelihood ratios of all steps, and later noise does not
    destroy them. Every gradient has norm at most the clipping norm C; the losses are neither convex
    nor smooth. The more a batch of b gradients can move the iterate relative to the noise, C/sigma
    = b/(noise multiplier), the finer the rounding and the wider the cells can be, and the curve
    approaches that of the composition of all steps.

    The differing record has the gradient of the others plus a push with what remains of the
    clipping norm: to the right in X, to the left in X' (``REPLACE_ONE``); X' has another record in
    its place for ``ADD_REMOVE``. So a batch always sends the iterate to a lattice point, up to the
    push.

    Parameters
    ----------
    spacing : float, default: 8.0
        Distance between lattice points, in standard deviations of a step's noise.
    below : float, default: 4.0
        Part of the spacing below a lattice point that belongs to its cell, in the same unit.
    resolution : float, default: 0.1
        Log-likelihood ratio per cell.
    down, up : int, default: 10
        Number of lattice points below and above the start; the outermost ones collect larger moves.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    Inadmissible
        If the losses violate an assumption of the mechanism; the message names it.
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=10, dataset_size=1600, batch_size=16, step_size=1.0,
    ...                    noise_std=1 / 32, clip_norm=1.0, convex=False,
    ...                    batching=audit.Batching.WITHOUT_REPLACEMENT,
    ...                    relation=audit.Relation.ADD_REMOVE)
    >>> pair = audit.constructions.LatticeWalk.suited(m, spacing=9.0)
    >>> linear = audit.constructions.DriftedWalk(m, drift=0.0)
    >>> audit.exact.curve(pair).epsilon(1e-3) > 4 * audit.exact.curve(linear).epsilon(1e-3)
    True
    """

    spacing: float = field(default=8.0, metadata={"draw": _random_spacing, **REQUIRED})
    below: float = field(default=4.0, metadata=REQUIRED)
    resolution: float = field(default=0.1, metadata=REQUIRED)
    down: int = field(default=10, metadata=REQUIRED)
    up: int = field(default=10, metadata=REQUIRED)
    position: int | None = None

    citation: ClassVar[str] = (
        "this package; the losses of Annamalai 2024 and Cebere, Bellet and Papernot 2025 likewise "
        "keep what every step leaks"
    )
    covers: ClassVar[tuple[Choice, ...]] = (Batching.RESHUFFLED, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        m = self.mechanism
        validate.positive(spacing=self.spacing, below=self.below, resolution=self.resolution)
        validate.integer(0, down=self.down, up=self.up)
        check_position(m, self.position)
        if self.below >= self.spacing:
            raise ValueError(
                f"below must be less than spacing ({self.spacing:g}), got {self.below!r}"
            )
        if self.down + self.up >= _MAX_CELLS:
            raise ValueError(f"down + up must be less than {_MAX_CELLS}, got {self.down + self.up}")
        self._require(
            not m.convex and m.smoothness is None and m.holder is None,
            "convex=False, smoothness=None and holder=None because its gradients jump",
            f"convex={m.convex}, smoothness={m.smoothness!r}, holder={m.holder!r}",
        )
        self._require(
            m.gradient_bound is not None and m.gradient_sensitivity is None,
            "clip_norm or lipschitz, and no gradient_sensitivity",
            f"gradient_sensitivity={m.gradient_sensitivity!r}",
        )
        self._require(m.diameter is None, "diameter=None", repr(m.diameter))
        self._require(m.dataset_size > 1, "other records", "dataset_size=1")
        varies = isinstance(m.step_size, tuple) and len(set(m.step_size)) > 1
        self._require(not varies, "one step size", "a schedule that varies")
        batching = f"batching={m.batching.value!r}"
        self._require(not m.batching.has_random_size, "batches of a fixed size", batching)
        self._require(
            m.relation is not Relation.ZERO_OUT,
            "another record in place of the differing one",
            "relation='zero out'",
        )
        sampled = m.batching is Batching.WITHOUT_REPLACEMENT and m.batch_size < m.dataset_size
        self._require(
            sampled or both_hold_record(m),
            "batching='without replacement', of fewer than all records, where X' does not hold the "
            "record",
            f"{batching}, batch_size={m.batch_size}, dataset_size={m.dataset_size}",
        )
        self._require(
            self._reach > max(self.below, self.spacing - self.below),
            "gradients that reach beyond the side of a cell",
            f"clip_norm/noise_std={self._reach:g} for below={self.below:g} and "
            f"spacing={self.spacing:g}",
        )

    @classmethod
    def suited(
        cls, mechanism: NoisySGD, *, spacing: float = 11.0, below: float | None = None
    ) -> LatticeWalk:
        """Return a lattice with suitable resolution and size for a mechanism.

        The resolution is the finest for which the largest move is within reach of a gradient and
        the lattice covers seven standard deviations of the total evidence.

        Parameters
        ----------
        mechanism : NoisySGD
            The mechanism of both datasets.
        spacing : float, default: 11.0
            Distance between lattice points, in standard deviations of a step's noise.
        below : float, optional
            As in `LatticeWalk`; defaults to half the spacing.

        Returns
        -------
        LatticeWalk
            The construction.

        Raises
        ------
        Inadmissible
            If there is so little noise that all ratios of densities underflow.
        """
        from scipy.special import ndtr  # slow to import, and `audit --help` imports this module

        symmetric = both_hold_record(mechanism)
        low = spacing / 2 if below is None else below
        rough = cls(mechanism, spacing, low, 1e9, 0, 0)
        u = np.linspace(-low, spacing - low, 2001)
        ratios = rough._ratio(u)
        edges = np.concatenate([[-np.inf], (u[1:] + u[:-1]) / 2, [np.inf]])
        rate, s = mechanism.sampling_rate, rough._signal
        far = []
        for push in (s, -s if symmetric else 0.0):
            p = (1 - rate) * np.diff(ndtr(edges)) + rate * np.diff(ndtr(edges - push))
            mean = float(p @ ratios)
            std = math.sqrt(float(p @ (ratios - mean) ** 2) * mechanism.steps)
            far += [mechanism.steps * mean + side * _DEVIATIONS * std for side in (-1, 1)]
        largest = float(np.max(np.abs(ratios)))
        top, bottom = max(far) + largest, min(far) - largest
        if not largest > 0:
            raise Inadmissible(f"{cls.name} needs more noise: all its ratios underflow")
        cells = max(math.floor(rough._reach / spacing), 1)
        resolution = max(largest / (cells + 0.5), (top - bottom) / (_MAX_CELLS - 4))
        return cls(
            mechanism, spacing, low, resolution,
            math.ceil(max(-bottom, 0.0) / resolution), math.ceil(max(top, 0.0) / resolution),
        )  # fmt: skip

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield spacings that were best for batches of 16 to 256 records and 10 to 1,000 steps."""
        for spacing in _SPACINGS:
            yield {"spacing": spacing}

    @classmethod
    def _member(cls, mechanism: NoisySGD, **parameters: Any) -> LatticeWalk:
        return cls.suited(mechanism, **parameters)

    @property
    def _reach(self) -> float:
        """Distance that a batch of clipped gradients moves the iterate, in standard deviations."""
        assert self.mechanism.gradient_bound is not None  # checked at construction
        return self.mechanism.gradient_bound / self.mechanism.noise_std

    @property
    def _signal(self) -> float:
        """Distance that the differing record moves the iterate, in standard deviations."""
        return self._reach / self.mechanism.batch_size

    def _ratio(self, u: Array) -> Array:
        """Return the log-likelihood ratio of a step that moved the iterate by ``u``."""
        rate, s = self.mechanism.sampling_rate, self._signal
        if rate == 1:  # below, the logarithm of 0
            return 2 * s * u
        towards = np.log1p(rate * np.expm1(s * u - s * s / 2))
        if not both_hold_record(self.mechanism):
            return np.asarray(towards)
        return np.asarray(towards - np.log1p(rate * np.expm1(-s * u - s * s / 2)))

    def _place(self, ratio: float) -> float:
        """Return the u at which a step's log-likelihood ratio is ``ratio``; may be infinite."""
        rate, s = self.mechanism.sampling_rate, self._signal
        if not both_hold_record(self.mechanism):
            grown = math.expm1(ratio) / rate + 1
            return (math.log(grown) + s * s / 2) / s if grown > 0 else -math.inf
        k, half = rate * math.exp(-s * s / 2), -(1 - rate) * math.expm1(ratio) / 2
        root = math.hypot(half, k * math.exp(ratio / 2))
        e = (root - half) / k if half < 0 else k * math.exp(ratio) / (root + half)
        return math.log(e) / s

    @cached_property
    def _stairs(self) -> tuple[tuple[float, float, int], ...]:
        """(from, to, cells moved) within a cell around 0, in standard deviations."""
        above = self.spacing - self.below
        first, last = (
            round(float(self._ratio(np.array(u))) / self.resolution) for u in (-self.below, above)
        )
        jumps = [self._place((j + 0.5) * self.resolution) for j in range(first, last)]
        pieces = math.ceil(self.spacing / _MAX_STAIR)
        grid = [-self.below + self.spacing * k / pieces for k in range(pieces + 1)]
        inner = sorted({*grid, *(u for u in jumps if -self.below < u < above)})
        # jumps close to the grid would give stairs of zero width
        kept = [inner[0], *(b for a, b in itertools.pairwise(inner) if b - a > 1e-6)]
        stairs = []
        for a, b in itertools.pairwise([*kept[:-1], above]):
            ratio = float(self._ratio(np.array((a + b) / 2)))
            low = math.ceil((b - self._reach) / self.spacing)
            high = math.floor((a + self._reach) / self.spacing)
            stairs.append((a, b, min(max(round(ratio / self.resolution), low), high)))
        return tuple(stairs)

    def _staircase(self, side: float) -> Staircase:
        """Return the update of a batch whose record pushes to one side, or not (0)."""
        edges, values = [], []

        def add(low: float, high: float, target: float) -> None:
            farthest = max(abs(target - low), abs(target - high))
            push = side * self._signal * max(1 - farthest / self._reach, 0.0)
            edges.append(low)
            values.append(target + push)

        ends = -self.down * self.spacing, self.up * self.spacing
        add(ends[0] - self._reach, ends[0] - self.below, ends[0])
        for k in range(-self.down, self.up + 1):
            for low, high, moved in self._stairs:
                target = min(max(k + moved, -self.down), self.up) * self.spacing
                add(k * self.spacing + low, k * self.spacing + high, target)
        top = ends[1] + self.spacing - self.below
        add(top, ends[1] + self._reach, ends[1])
        edges.append(ends[1] + self._reach)
        scale = self.mechanism.step_std
        return Staircase(
            tuple(edge * scale for edge in edges),
            tuple(value * scale for value in values),
            self._reach * scale,
        )

    def processes(self) -> tuple[Process, Process]:
        """Return the processes pushed right, and left (or with another record)."""
        still, right, left = (self._staircase(side) for side in (0.0, 1.0, -1.0))
        present = both_hold_record(self.mechanism)

        def process(pushed: Staircase, present: bool) -> Process:
            return batched_process(
                self.mechanism,
                0.0,
                lambda eta, holds, count: pushed if holds else still,
                self.position,
                present,
            )

        return process(right, True), process(left, present)
