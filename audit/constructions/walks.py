"""Pairs of linear, quadratic and Huber losses.

The displacement of a linear loss does not depend on the state, so the iterates are random walks
projected onto an interval. They are admissible for convex and non-convex losses of any smoothness,
but not for strongly convex ones. Quadratic losses have Gaussian iterates on an unbounded domain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.base import (
    SLACK,
    PositionedPair,
    others_range,
    random_curvature,
    random_others,
    random_position,
    random_start,
    record_pushes,
)
from audit.constructions.batches import (
    SAMPLERS,
    BatchUpdate,
    GradientUpdate,
    cycle_length,
    domain,
    record_position,
)
from audit.constructions.registry import construction
from audit.constructions.updates import Affine, PiecewiseLinear, UpdateMap, gradient_step
from audit.mechanism import Batching, Choice, NoisySGD, Relation, Release

# Suggested drifts, as shares of the largest one, and in multiples of the one that crosses the
# domain once within the run.
_SHARES = (1.0, 0.25, 0.5)
_CROSSINGS = (1.0, 0.5, 1.5, 0.75, 2.0, 3.0)
_CURVATURES = 9  # suggested curvatures of the record's batch, from the smallest to the largest


def _drift_per_gradient(mechanism: NoisySGD) -> float:
    """Return the displacement of the first step by other records of negative gradient 1."""
    m = mechanism
    share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
    return float(m.step_sizes[0]) * share


def _random_drift(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    return random_others(mechanism, rng) * _drift_per_gradient(mechanism)


def _random_cap(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    return abs(random_others(mechanism, rng))


def _may_stop_early(mechanism: NoisySGD) -> bool:
    """Return True if a run may be shorter than a cycle: only the first record is always used."""
    stops = mechanism.release is not Release.LAST_ITERATE
    return stops and mechanism.batching is Batching.CYCLIC


def _suggested_starts(mechanism: NoisySGD) -> tuple[float, ...]:
    """Return the start points worth trying: the middle of the domain and its left end."""
    return (0.0,) if mechanism.diameter is None else (0.0, -mechanism.diameter / 2)


def _suggested_curvatures(mechanism: NoisySGD) -> tuple[float, ...]:
    """Return the strong convexity, the smoothness, and the curvature that resets in one step."""
    resetting = 1 / float(mechanism.step_sizes[-1])
    most = math.inf if mechanism.smoothness is None else mechanism.smoothness
    wanted = [mechanism.strong_convexity, min(resetting, most), most]
    return tuple(dict.fromkeys(c for c in wanted if math.isfinite(c)))


def _nearest(mechanism: NoisySGD, curvature: float, wanted: float) -> float:
    """Return the curvature nearest to a wanted one that the record's batch may have.

    Gradients of the record and of other batches, of a given curvature, differ most at an end of the
    domain.
    """
    m = mechanism
    if cycle_length(m) == 1:
        return wanted
    room = 0.0 if m.lipschitz is not None else m.sensitivity - max(map(abs, record_pushes(m)))
    apart = room / domain(m)[1]
    return min(max(wanted, curvature - apart), curvature + apart)


class _AffinePair(PositionedPair):
    """Pair of losses k/2 x^2 - p x, whose updates are affine."""

    @property
    def _batches(self) -> tuple[tuple[float, float], ...]:
        """The other records' p, and k, in each batch of a cycle; one if all are alike."""
        return ((0.0, 0.0),)

    def __post_init__(self) -> None:
        super().__post_init__()
        slopes, curvatures = zip(*self._batches, strict=True)
        if not any(curvatures):
            self._require_no_strong_convexity("its losses are linear")
        self._check_removable(any(curvatures))
        self._check_others(min(slopes), max(slopes))
        self._check_quadratics(*dict.fromkeys(curvatures))

    def _check_quadratics(self, *curvatures: float) -> None:
        """Refuse losses of given curvatures, and of one under a bound on whole gradients.

        Without strong convexity no regulariser is assumed, so that the curvature counts. The record
        pushes farthest: `others_range` leaves the other records nothing beyond.
        """
        m = self.mechanism
        for curvature in curvatures:
            self._require(
                m.clip_norm is None or not curvature,
                "clip_norm=None because its gradients are not bounded",
                f"clip_norm={m.clip_norm!r}",
            )
            self._check_curvature(curvature)
        self._check_holder(*map(PiecewiseLinear.linear, curvatures))
        bound, curved = m.gradient_bound, max(map(abs, curvatures))
        if curved and bound is not None and m.strong_convexity == 0:
            steepest = curved * domain(m)[1] + max(map(abs, record_pushes(m)))
            self._require(
                steepest <= bound * SLACK,
                f"gradients of at most {bound:g} on the domain if a Lipschitz constant without "
                "strong convexity is assumed",
                f"{steepest:.6g}",
            )

    def _updates(self, record: float) -> tuple[BatchUpdate, ...]:
        batches = self._batches
        made = {batch: self._affine(record, *batch) for batch in set(batches)}
        return tuple(made[batch] for batch in batches)

    def _affine(self, record: float, others: float, curvature: float) -> BatchUpdate:
        def update(eta: float, holds_record: bool, count: int) -> Affine:
            push = (record if holds_record else 0.0) + count * others
            return Affine(eta * push / self.mechanism.batch_size, 1 - eta * curvature)

        own, other = map(PiecewiseLinear.constant, (-record, -others))
        return GradientUpdate(update, own, other, PiecewiseLinear.linear(curvature))


class _CyclicPair(_AffinePair):
    """Pair whose updates depend on where a batch is in the cycle."""

    covers: ClassVar[tuple[Choice, ...]] = ()

    @property
    def _places(self) -> tuple[int, ...]:
        """Batches of the cycle, counted from the one that holds the record."""
        why = " because its records' positions matter"
        self._require_choice(self.mechanism.batching, Batching.CYCLIC, why)
        held = record_position(self.mechanism, self.position)
        return tuple(k - held for k in range(cycle_length(self.mechanism)))


@dataclass(frozen=True)
class _PlainWalk(_AffinePair):
    """Pair whose other records have no loss."""

    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    covers: ClassVar[tuple[Choice, ...]] = SAMPLERS

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield starts in the middle and at the left end."""
        for start in _suggested_starts(mechanism):
            yield {"start": start}
        if _may_stop_early(mechanism):
            yield {"position": 0}


@construction
@dataclass(frozen=True)
class BiasedWalk(_PlainWalk):
    """Symmetric clamped walk (X) against a biased one (X').

    The pair of Altschuler and Talwar 2022, section 4: all losses are zero, except that the
    differing record of the second dataset has a linear loss of slope L. X' jumps by ``step_size * L
    / batch_size`` if the record is in the batch, away from the nearer end of the domain: to the
    right for ``start <= 0`` and to the left for ``start > 0``.
    """

    citation: ClassVar[str] = "Altschuler and Talwar 2022, section 4"

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield members where `TwoSidedWalk`, whose records push twice as far apart, is refused."""
        if mechanism.relation is not Relation.REPLACE_ONE:
            yield from super().suggestions(mechanism)

    @property
    def direction(self) -> float:
        """+1 if X' jumps to the right, -1 if it jumps to the left."""
        return 1.0 if self.start <= 0 else -1.0

    def _records(self) -> tuple[float, float]:
        return 0.0, self.direction * self.mechanism.steepest_gradient


@construction
@dataclass(frozen=True)
class TwoSidedWalk(_PlainWalk):
    """Clamped walk pushed to the right (X) against one pushed to the left (X').

    The differing record has linear losses of opposite slopes. If it is in the batch, X moves by
    ``+step_size * L / batch_size`` and X' by the opposite, twice the difference of `BiasedWalk`.
    Not admissible for ``ZERO_OUT``, where one of the two losses is zero.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=10, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5,
    ...                    lipschitz=1.0, smoothness=1.0, diameter=1.0)
    >>> audit.exact.curve(TwoSidedWalk(m)).epsilon(1e-5) < audit.bounds.best(m, delta=1e-5).epsilon
    True
    """

    citation: ClassVar[str] = "this package; linear losses of opposite slopes"

    def __post_init__(self) -> None:
        super().__post_init__()
        why = " because both of its losses are nonzero"
        self._require_choice(self.mechanism.relation, Relation.REPLACE_ONE, why)


@construction
@dataclass(frozen=True)
class DriftedWalk(_AffinePair):
    """Two clamped walks with a common drift caused by the other records.

    A drift from one end of the domain toward the other, with a start near the end that it leaves,
    makes the pair far easier to distinguish. The differing record pushes X to the right with slope
    L, and X' to the left with slope L (``REPLACE_ONE``) or not at all (``ZERO_OUT``,
    ``ADD_REMOVE``).

    Parameters
    ----------
    drift : float, default: 0.0
        Displacement per step by the other records alone, positive to the right: by all n - 1 of
        them for full batches, by a batch of them for smaller batches (a batch that holds the
        differing record has one of them fewer). For a step-size schedule, the displacement of the
        first step.
    """

    drift: float = field(default=0.0, metadata={"draw": _random_drift, **REQUIRED})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; the other records share a linear drift"

    def _check_others(self, lowest: float, highest: float) -> None:
        """Refuse a drift that other records may not cause."""
        low, high = others_range(self.mechanism)
        scale = _drift_per_gradient(self.mechanism)
        self._require(
            low * SLACK <= lowest and highest <= high * SLACK,
            f"drift in [{low * scale:.6g}, {high * scale:.6g}], which the Lipschitz constant and "
            "the gradient sensitivity allow",
            f"drift={self.drift!r}",
        )

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield drifts that cross the domain, or as large as allowed, from the end that they leave.

        The other records push against the record first: in batches drawn at random its presence
        then shows most. Only where X' holds its mirror image does the sign not matter.
        """
        drifts = cls._suggested_drifts(mechanism)
        yield from itertools.islice(drifts, 1)
        if mechanism.relation is Relation.ADD_REMOVE:  # no other walk is admissible
            yield from ({"drift": 0.0, "start": start} for start in _suggested_starts(mechanism))
        yield from drifts

    @staticmethod
    def _suggested_drifts(m: NoisySGD) -> Iterator[dict[str, Any]]:
        low, high = others_range(m)
        if m.dataset_size == 1 or not math.isfinite(high):
            return
        scale = _drift_per_gradient(m)
        stops = m.release is not Release.LAST_ITERATE
        if _may_stop_early(m):
            yield {"drift": scale * high, "position": 0}
        half = None if m.diameter is None else m.diameter / 2
        if half is None and m.batching in (Batching.FULL, Batching.CYCLIC) and not stops:
            return  # both laws would move by the same distance
        drifts: list[float | None] = [scale * high * share for share in _SHARES]
        if half is not None:
            crossing = 2 * half / m.steps
            moderate = [crossing * part for part in _CROSSINGS if crossing * part < scale * high]
            turns = itertools.zip_longest(moderate, drifts)
            drifts = list(itertools.chain.from_iterable(turns))
        signs = (1.0,) if m.relation is Relation.REPLACE_ONE else (-1.0, 1.0)
        for drift, sign in itertools.product(drifts, signs):
            if drift is not None and low <= sign * drift / scale <= high:
                for start in (0.0,) if half is None else (-sign * half, 0.0):
                    yield {"drift": sign * drift, "start": start}

    @property
    def _batches(self) -> tuple[tuple[float, float], ...]:
        if not self.drift:
            return super()._batches
        size = self.mechanism.dataset_size
        got = f"dataset_size={size}, drift={self.drift!r}"
        self._require(size > 1, "another record to drift", got)
        return ((self.drift / _drift_per_gradient(self.mechanism), 0.0),)


@construction
@dataclass(frozen=True)
class WallPinnedWalk(_CyclicPair):
    """Walks whose earlier records push the iterate into a wall and later ones push it away.

    All losses are linear. At the wall an iterate forgets the noise that it has accumulated, so the
    step of the differing record is exposed; a push away from the wall afterwards keeps its effect
    from being clamped. Without walls this is a drifted walk. The differing record pushes X to the
    right with slope L, and X' to the left with slope L (``REPLACE_ONE``) or not at all
    (``ZERO_OUT``).

    Parameters
    ----------
    before, after : float, default: 0.0
        Negative gradients (positive: to the right) of the other records, in the batches of the
        cycle up to and including the record's, and in later ones.
    """

    before: float = field(default=0.0, metadata={"draw": random_others, **REQUIRED})
    after: float = field(default=0.0, metadata={"draw": random_others, **REQUIRED})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; linear losses that push into the wall and away"

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the largest pushes into a wall and away from it, before and after the record."""
        low, high = others_range(mechanism)
        if math.isfinite(high):
            for before, after in ((high, low), (low, high), (high, high), (high, 0.0)):
                yield {"before": before, "after": after}

    @property
    def _batches(self) -> tuple[tuple[float, float], ...]:
        return tuple((self.before if place <= 0 else self.after, 0.0) for place in self._places)

    def _check_others(self, lowest: float, highest: float) -> None:
        least, most = sorted((self.before, self.after))  # whether or not later batches exist
        super()._check_others(least, most)


@construction
@dataclass(frozen=True)
class QuadraticPair(_AffinePair):
    """Quadratic losses of equal curvature whose centres differ in one record.

    Record i has the loss f_i(x) = curvature/2 x^2 - p_i x: a regulariser shared by all records, and
    a linear loss. Gradients of two records differ by a constant, so the pair is admissible under a
    gradient sensitivity, or under a Lipschitz constant with a strongly convex regulariser. A
    Lipschitz constant without strong convexity bounds the whole gradient.

    X has p = +S/2 and X' has p = -S/2 at the differing record (``REPLACE_ONE``), or L and 0
    (``ZERO_OUT``, which keeps the regulariser). Batches of random size have the regulariser once.

    Full batches and ``curvature = strong_convexity`` on an unconstrained domain attain Theorem 4.2
    of Bok, Su and Altschuler 2024 for eta <= 2/(M + m).

    Parameters
    ----------
    curvature : float, default: 0.0
        Curvature of every loss: from the strong convexity to the smoothness; from minus the
        smoothness if losses need not be convex.
    others : float, default: 0.0
        Slope p of every other record.
    """

    curvature: float = field(default=0.0, metadata={"draw": random_curvature})
    others: float = field(default=0.0, metadata={"draw": random_others})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "Bok, Su and Altschuler 2024, Theorem 4.2 and Remark 5.3"

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the smallest curvature, the one that resets in one step, and the largest.

        Without curvature it is a walk.
        """
        for curvature in _suggested_curvatures(mechanism):
            if curvature:
                yield {"curvature": curvature}

    @property
    def _batches(self) -> tuple[tuple[float, float], ...]:
        return ((self.others, self.curvature),)


@construction
@dataclass(frozen=True)
class CyclicQuadraticPair(_CyclicPair):
    """Quadratic losses with one curvature in the record's batch and another elsewhere.

    Record i has the loss f_i(x) = k_i/2 x^2 - p_i x, with k_i = ``batch_curvature`` in the batch
    that holds the differing record and ``curvature`` elsewhere. p_i is 0 except for the differing
    record: +S/2 in X and -S/2 in X' (``REPLACE_ONE``), or L and 0 (``ZERO_OUT``). Curvature 1/eta
    in the record's batch removes all earlier noise, which exposes the last step; small curvature
    keeps what earlier epochs leaked.

    The gradients of any two records differ by at most a gradient sensitivity S on the domain. So
    two curvatures need a bounded domain, where they differ by at most S/D (``REPLACE_ONE``), or a
    cycle of one batch. With one curvature it is a `QuadraticPair`, also on the whole line.

    Parameters
    ----------
    curvature, batch_curvature : float, default: 0.0
        From the strong convexity to the smoothness; from minus the smoothness to the smoothness if
        losses need not be convex.
    """

    curvature: float = field(default=0.0, metadata={"draw": random_curvature})
    batch_curvature: float = field(default=0.0, metadata={"draw": random_curvature})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; attacks Theorem 4.5 of Bok, Su and Altschuler 2024"

    def _check_quadratics(self, *curvatures: float) -> None:
        self._require(
            self.curvature == self.batch_curvature or self.mechanism.lipschitz is None,
            "lipschitz=None if its curvatures differ, because no shared regulariser has two",
            f"lipschitz={self.mechanism.lipschitz!r}",
        )
        super()._check_quadratics(self.curvature, self.batch_curvature)
        k = self.batch_curvature
        gradients = {
            name: PiecewiseLinear((0.0,), (-push,), (k, k))
            for name, push in zip(("record", "record_prime"), self._records(), strict=True)
        }
        if cycle_length(self.mechanism) > 1:
            gradients["other batches"] = PiecewiseLinear.linear(self.curvature)
        self._check_sensitivity(gradients)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield a reset in the record's batch first, then other pairs of curvatures.

        The best curvature of the record's batch may lie between the smallest and the largest. One
        that is too far from that of other batches is moved toward it.
        """
        m = mechanism
        least, most = m.strong_convexity, m.smoothness
        curvatures = _suggested_curvatures(m)
        resetting = min(1 / float(np.max(m.step_sizes)), math.inf if most is None else most)
        pairs = [(least, resetting), *itertools.permutations(curvatures, 2)]
        if most is not None:
            pairs += [(least, float(k)) for k in np.linspace(least, most, _CURVATURES)]
        near = [(curvature, _nearest(m, curvature, wanted)) for curvature, wanted in pairs]
        for curvature, batch_curvature in dict.fromkeys(near):
            if curvature != batch_curvature:
                yield {"curvature": curvature, "batch_curvature": batch_curvature}

    @classmethod
    def _drawn(cls, mechanism: NoisySGD, rng: np.random.Generator) -> Mapping[str, Any]:
        drawn = super()._drawn(mechanism, rng)
        near = _nearest(mechanism, drawn["curvature"], drawn["batch_curvature"])
        return {**drawn, "batch_curvature": near}

    @property
    def _batches(self) -> tuple[tuple[float, float], ...]:
        curvatures = (self.curvature if k else self.batch_curvature for k in self._places)
        return tuple((0.0, curvature) for curvature in curvatures)


@construction
@dataclass(frozen=True)
class ResetWalk(PositionedPair):
    """Pair whose other records pull the iterate back to a centre, by Huber losses.

    Every other record has a loss of the given curvature near the centre and a gradient of at most
    ``cap`` away from it: convex, smooth and Lipschitz. At curvature 1/eta a batch of such records
    sends the iterate to the centre, whatever noise it has accumulated. The differing record is
    linear and pushes X to the right, and X' to the left (``REPLACE_ONE``) or not at all.

    Parameters
    ----------
    curvature : float, default: 1.0
        Curvature of the other records' losses near the centre, above 0.
    cap : float, default: 1.0
        Largest gradient of the other records, above 0.
    centre : float, default: 0.0
        Minimum of the other records' losses.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
    """

    curvature: float = field(default=1.0, metadata={"draw": random_curvature, **REQUIRED})
    cap: float = field(default=1.0, metadata={"draw": _random_cap, **REQUIRED})
    centre: float = 0.0
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; the other records have Huber losses"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(curvature=self.curvature, cap=self.cap)
        self._require_no_strong_convexity("Huber losses are linear far out")
        self._require_others()
        # that of the breakpoints, which round
        self._check_curvature(max(self.curvature, self._huber.slope_range()[1]))
        self._check_holder(self._huber)
        self._check_others(-self.cap, self.cap)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the curvature that resets in one step, and the largest, at the largest gradient."""
        low, high = others_range(mechanism)
        cap = min(-low, high)
        if math.isfinite(cap) and cap > 0:
            for curvature in _suggested_curvatures(mechanism):
                if curvature > 0:
                    yield {"curvature": curvature, "cap": cap}

    @property
    def _huber(self) -> PiecewiseLinear:
        return PiecewiseLinear.clipped(self.curvature, self.centre, self.cap)

    def _updates(self, record: float) -> BatchUpdate:
        batch_size, huber = self.mechanism.batch_size, self._huber

        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            shift = eta * record / batch_size if holds_record else 0.0
            if count == 0:
                return Affine(shift)
            std = eta * self.mechanism.noise_std
            return gradient_step([(-eta * count / batch_size, huber)], shift=shift, std=std)

        own, none = map(PiecewiseLinear.constant, (-record, 0.0))
        return GradientUpdate(update, own, huber, none)
