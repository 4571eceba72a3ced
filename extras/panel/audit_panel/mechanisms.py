"""The standard panel: mechanisms of many regimes, on which a statement is judged.

Mechanisms are drawn from a fixed sequence. The panel of a statement is chosen from those that its
assumptions admit, and combines the properties that occur among them: short and long runs, weak and
strong pushes, high and low privacy, bounded and unbounded domains. Statements with similar
assumptions share most mechanisms.

The second half of the sequence draws rare kinds more often, such as runs of one epoch or random
allocation, and takes stronger pushes and losses that change over time as well.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from audit.mechanism import Batching, Divisor, Losses, NoisySGD, Relation, Release

_Value = TypeVar("_Value")

DRAWS = 12_000
"""Number of mechanisms of the sequence, from which panels are chosen."""

_FIRST_HALF = 6000  # numbers of the first half

_DIGITS = 3  # of drawn numbers, so that a mechanism can be read and written
_MAX_STEPS = 1500  # with walls, or of fixed batches
_MAX_MIXED_STEPS = 30  # of sampled batches without walls, whose laws are mixtures
_MAX_SHUFFLED = 12  # shuffled batches, whose laws are mixtures over all positions
_ENDLESS = 10**5  # of full batches without walls, whose laws are normal
_MAX_SCHEDULE = 50  # steps with step sizes of their own


class Length(enum.Enum):
    """Length of a run, compared with the time that the record needs to push across the domain."""

    ONE_STEP = "one step"
    ONE_EPOCH = "one epoch"
    BEFORE = "before burn-in"
    AFTER = "after burn-in"
    OPEN = "several steps, no walls"
    ENDLESS = "100 000 steps or more, no walls"


class Push(enum.Enum):
    """Move of the iterate by the record in one step, in deviations of the noise of a step."""

    WEAK = "weak push"
    MEDIUM = "medium push"
    STRONG = "strong push"
    VERY_STRONG = "very strong push"


class Privacy(enum.Enum):
    """The pushes of the whole run as if they came together, in deviations of their noise.

    They are the mu of releasing every iterate of fixed batches. Epsilon is about linear in them
    where they are few, and quadratic where they are many.
    """

    HIGH = "high privacy"
    MODERATE = "moderate privacy"
    LOW = "low privacy"
    HARDLY_ANY = "hardly any privacy"


class Domain(enum.Enum):
    """Width of the domain, in deviations of the noise of a step."""

    NARROW = "narrow domain"
    MEDIUM = "medium domain"
    WIDE = "wide domain"
    UNBOUNDED = "no walls"


class LossClass(enum.Enum):
    """The losses that the mechanism allows."""

    CONVEX = "convex"
    STRONGLY_CONVEX = "strongly convex"
    NOT_CONVEX = "not convex"
    CLIPPED = "clipped gradients"
    HOLDER = "Hoelder gradients"
    NOT_SMOOTH = "not smooth"


# largest pushes of a step, and of a run together
_PUSHES = (
    (0.15, Push.WEAK),
    (1.0, Push.MEDIUM),
    (2.5, Push.STRONG),
    (math.inf, Push.VERY_STRONG),
)
_PRIVACY = (
    (0.3, Privacy.HIGH),
    (3.0, Privacy.MODERATE),
    (30.0, Privacy.LOW),
    (math.inf, Privacy.HARDLY_ANY),
)


@dataclass(frozen=True)
class Regime:
    """Regime that a mechanism of the panel represents.

    Attributes
    ----------
    batches, length, push, privacy, domain, losses, in_time, relation, release
        Full batches are those of all records, whatever the scheme. The others are those of the
        mechanism, or as above.
    """

    batches: Batching
    length: Length
    push: Push
    privacy: Privacy
    domain: Domain
    losses: LossClass
    in_time: Losses
    relation: Relation
    release: Release


def regime_of(m: NoisySGD) -> Regime:
    """Return the regime of a mechanism."""
    if m.clip_norm is not None and (m.lipschitz is None or m.lipschitz > m.clip_norm):
        losses = LossClass.CLIPPED
    elif m.holder is not None:
        losses = LossClass.HOLDER
    elif not m.convex:
        losses = LossClass.NOT_CONVEX
    elif m.smoothness is None:
        losses = LossClass.NOT_SMOOTH
    else:
        losses = LossClass.STRONGLY_CONVEX if m.strong_convexity > 0 else LossClass.CONVEX
    push = 1 / m.noise_multiplier
    if m.steps == 1:
        length = Length.ONE_STEP
    elif 1 < m.steps_per_epoch <= m.steps < 2 * m.steps_per_epoch:
        length = Length.ONE_EPOCH
    elif m.diameter is None:
        length = Length.ENDLESS if m.steps >= _ENDLESS else Length.OPEN
    else:
        moved = float(m.step_sizes.sum()) * m.sampling_rate * m.sensitivity / m.batch_size
        length = Length.AFTER if moved >= m.diameter else Length.BEFORE
    together = push * math.sqrt(m.steps * m.sampling_rate)
    return Regime(
        batches=Batching.FULL if _is_full(m) else m.batching,
        losses=losses,
        length=length,
        relation=m.relation,
        release=m.release,
        push=next(level for most, level in _PUSHES if push <= most),
        privacy=next(level for most, level in _PRIVACY if together <= most),
        domain=_domain(m),
        in_time=m.losses,
    )


def _domain(m: NoisySGD) -> Domain:
    if m.diameter is None:
        return Domain.UNBOUNDED
    width = m.diameter / float(m.step_sizes[0] * m.noise_std)
    return Domain.NARROW if width < 1.5 else Domain.WIDE if width > 15 else Domain.MEDIUM


def _is_full(m: NoisySGD) -> bool:
    sizes = (Batching.POISSON, Batching.TRUNCATED_POISSON)
    return m.batch_size == m.dataset_size and m.batching not in sizes


# the sequence


@functools.cache
def drawn(number: int) -> NoisySGD | None:
    """Return a mechanism of the sequence by its number; None if these numbers give none."""
    draw = _Draw(number)
    try:
        return draw.mechanism()
    except ValueError:  # contradicting parameters
        return None


@dataclass(frozen=True)
class _Losses:
    """The parameters of the losses, and the sensitivity that follows from them."""

    sensitivity: float
    lipschitz: float | None = None
    gradient_sensitivity: float | None = None
    clip_norm: float | None = None
    smoothness: float | None = None
    strong_convexity: float = 0.0
    convex: bool = True
    holder: tuple[float, float] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the mechanism."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name != "sensitivity"}


class _Draw:
    """Independent choices for one mechanism, the same on every machine and in every version."""

    def __init__(self, number: int) -> None:
        # only random() is promised to keep its sequence
        self._random = random.Random(f"panel {number}")
        self._second_half = number >= _FIRST_HALF

    def one_of(self, *choices: tuple[float, _Value]) -> _Value:
        """Return a choice with a probability in proportion to its weight."""
        left = self._random.random() * sum(weight for weight, _ in choices)
        for weight, value in choices:
            left -= weight
            if left < 0:
                return value
        return choices[-1][1]

    def kind(self, *choices: tuple[float, _Value]) -> _Value:
        """Return a choice as `one_of`; in the second half, rare ones are less rare."""
        if self._second_half:
            choices = tuple((weight**0.5, value) for weight, value in choices)
        return self.one_of(*choices)

    def between(self, low: float, high: float) -> float:
        """Return a number between two positive ones, uniform in its logarithm and rounded."""
        share = self._random.random()
        return float(f"{math.exp(math.log(low) + share * math.log(high / low)):.{_DIGITS}g}")

    def whole(self, low: int, high: int) -> int:
        """Return a whole number between two others, uniform in its logarithm."""
        return round(self.between(low, high))

    def mechanism(self) -> NoisySGD:
        """Return the mechanism of these choices."""
        release = self.kind(
            (70, Release.LAST_ITERATE),
            (12, Release.ALL_ITERATES),
            (6, Release.RANDOM_STOP),
            (6, Release.RANDOM_SKIP),
            (6, Release.EXPONENTIAL_MECHANISM),
        )
        stopped = release in (Release.RANDOM_STOP, Release.RANDOM_SKIP)
        drawn_once = release is not Release.EXPONENTIAL_MECHANISM
        one_pass = self.one_of((12 * drawn_once, True), (88, False)) or stopped
        batching = self._batching(release, one_pass)
        n, b = self._sizes(batching, one_pass)
        relation = self._relation(release, batching)
        eta = self.one_of((2, 1.0), (1, 0.1), (1, self.between(0.01, 2.0)))
        endless = batching is Batching.FULL and self.kind((1, True), (9, False))
        losses = self._losses(relation, eta)
        noise, diameter, steps = self._run(release, batching, one_pass, endless, n, b, losses, eta)
        schedule: float | tuple[float, ...] = eta
        if 1 < steps <= _MAX_SCHEDULE and not one_pass and self.one_of((8, True), (92, False)):
            schedule = tuple(float(f"{eta * t**-0.5:.6g}") for t in range(1, steps + 1))
        in_time = Losses.FIXED
        if self._second_half and self.one_of((1, True), (2, False)):
            in_time = Losses.CHANGING
        actual = batching is Batching.POISSON and release is Release.ALL_ITERATES
        return NoisySGD(
            steps=steps,
            dataset_size=n,
            batch_size=b,
            step_size=schedule,
            noise_std=noise,
            diameter=diameter,
            batching=batching,
            relation=relation,
            release=release,
            divisor=self.one_of((8, Divisor.NOMINAL), (2 * actual, Divisor.ACTUAL)),
            max_batch_size=b + 1 if batching is Batching.TRUNCATED_POISSON else None,
            losses=in_time,
            **losses.fields(),
        )

    def _run(
        self,
        release: Release,
        batching: Batching,
        one_pass: bool,
        endless: bool,
        n: int,
        b: int,
        losses: _Losses,
        eta: float,
    ) -> tuple[float, float | None, int]:
        """Return noise, diameter and number of steps."""
        # of a batch with the record, in deviations of the noise
        strongest = 20.0 if self._second_half else 5.0
        push = self.between(0.01, 0.2) if endless else self.between(0.01, strongest)
        noise = float(f"{losses.sensitivity / b / push:.{_DIGITS}g}")
        walls = self.one_of((3, False), (7, True)) and not endless
        if not walls and release is not Release.EXPONENTIAL_MECHANISM:
            return noise, None, self._open_steps(batching, one_pass, endless, n, b)
        width = self.between(0.3, 60.0)  # in deviations of a step's noise
        diameter = float(f"{width * eta * noise:.{_DIGITS}g}")
        burn_in = width * max(n // b, 1) / push
        steps = round(burn_in * self.between(0.1, 20.0))
        return noise, diameter, self._steps(batching, one_pass, n, b, steps)

    def _batching(self, release: Release, one_pass: bool) -> Batching:
        if release is Release.EXPONENTIAL_MECHANISM:
            return Batching.FULL
        if one_pass:
            return Batching.CYCLIC
        rare = 3 if release is Release.ALL_ITERATES else 1
        return self.kind(
            (30, Batching.FULL),
            (25, Batching.CYCLIC),
            (22, Batching.WITHOUT_REPLACEMENT),
            (14, Batching.POISSON),
            (3, Batching.SHUFFLED),
            (rare, Batching.RESHUFFLED),
            (rare, Batching.RANDOM_ALLOCATION),
            (rare, Batching.TRUNCATED_POISSON),
        )

    def _sizes(self, batching: Batching, one_pass: bool) -> tuple[int, int]:
        if one_pass:
            return self.one_of((2, 1), (2, 2), (6, self.whole(3, 40))), 1
        if batching is Batching.FULL:
            n = self.one_of((2, 1), (8, self.whole(2, 1000)))
            return n, n
        batches = self.one_of((3, 2), (5, self.whole(3, 20)), (2, self.whole(20, 100)))
        b = self.one_of((5, 1), (5, self.whole(2, 20)))
        if batching is Batching.SHUFFLED:
            batches = min(batches, _MAX_SHUFFLED)
        return batches * b, b

    def _relation(self, release: Release, batching: Batching) -> Relation:
        added = 10 if release is Release.ALL_ITERATES else 0
        if batching in (Batching.POISSON, Batching.RANDOM_ALLOCATION, Batching.TRUNCATED_POISSON):
            return self.one_of(
                (4, Relation.REPLACE_ONE), (6, Relation.ZERO_OUT), (added, Relation.ADD_REMOVE)
            )
        return self.one_of(
            (6, Relation.REPLACE_ONE), (4, Relation.ZERO_OUT), (added / 5, Relation.ADD_REMOVE)
        )

    def _losses(self, relation: Relation, eta: float) -> _Losses:
        bound = self.one_of((4, 1.0), (1, 0.5), (1, self.between(0.1, 10.0)))
        difference = (2 if relation is Relation.REPLACE_ONE else 1) * bound
        kind = self.kind(
            (45, LossClass.CONVEX),
            (30, LossClass.STRONGLY_CONVEX),
            (9, LossClass.NOT_CONVEX),
            (6, LossClass.CLIPPED),
            (5, LossClass.HOLDER),
            (5, LossClass.NOT_SMOOTH),
        )
        share = self.one_of((3, 1.0), (2, 2.0), (5, self.between(0.05, 2.0)))
        smoothness = float(f"{share / eta:.6g}")
        if kind is LossClass.CLIPPED:
            return _Losses(difference, clip_norm=bound, convex=self.one_of((1, True), (1, False)))
        if kind is LossClass.HOLDER:
            order = self.one_of((1, 1.0), (3, self.between(0.1, 0.9)))
            holder = (smoothness, order)
            return _Losses(difference, lipschitz=bound, holder=holder, convex=False)
        if kind is LossClass.NOT_SMOOTH:
            return _Losses(difference, lipschitz=bound)
        if kind is LossClass.NOT_CONVEX:
            return _Losses(difference, lipschitz=bound, smoothness=smoothness, convex=False)
        least = 0.0
        if kind is LossClass.STRONGLY_CONVEX:
            least = self.one_of((2, 1e-3), (6, self.between(0.005, 0.7)), (1, 1.0))
            if self.one_of((1, True), (3, False)):  # the step size at which contraction is best
                smoothness = 2 / (eta * (1 + least))
        known = self.one_of((6, "records"), (3, "difference"), (1, "both"))
        if known == "both":
            difference = float(f"{difference * self.between(0.2, 1.0):.6g}")
        return _Losses(
            difference,
            lipschitz=None if known == "difference" else bound,
            gradient_sensitivity=None if known == "records" else difference,
            smoothness=smoothness,
            strong_convexity=smoothness * least,
        )

    def _open_steps(self, batching: Batching, one_pass: bool, endless: bool, n: int, b: int) -> int:
        if endless:
            return self.whole(_ENDLESS, 100 * _ENDLESS)
        steps = self.whole(2, 2000)
        if batching not in (Batching.FULL, Batching.CYCLIC):
            steps = min(steps, _MAX_MIXED_STEPS)
        return self._steps(batching, one_pass, n, b, steps)

    def _steps(self, batching: Batching, one_pass: bool, n: int, b: int, steps: int) -> int:
        """Return the number of steps, near the one that is wanted."""
        if one_pass:
            return n
        cycle = max(n // b, 1)
        if self.kind((15, True), (85, False)):
            return self.kind((3, 1), (1, cycle))
        steps = min(max(steps, 2), _MAX_STEPS)
        if batching in (Batching.CYCLIC, Batching.SHUFFLED) and self.one_of((8, True), (2, False)):
            steps = max(steps // cycle, 1) * cycle
        return steps


# the choice


def chosen(admits: Callable[[NoisySGD], bool], size: int, draws: int = DRAWS) -> tuple[int, ...]:
    """Return the numbers of the mechanisms on which a statement is judged, in the sequence's order.

    Each choice is the mechanism with the most combinations of two properties of regimes that no
    earlier one has; of several the first one, from both halves of the sequence in turn. When all
    combinations are there, it begins anew.

    Parameters
    ----------
    admits
        Whether the assumptions of the statement admit a mechanism.
    size
        Number of mechanisms, at most.
    draws
        Length of the sequence.
    """
    left = {n for n in range(draws) if (m := drawn(n)) is not None and admits(m)}
    kept: list[int] = []
    combined: set[tuple[str, str]] = set()
    place = {number: (number % _FIRST_HALF, number) for number in left}
    gains = [(-math.inf, *place[number]) for number in left]
    heapq.heapify(gains)
    while len(kept) < size and left:
        *_, number = heapq.heappop(gains)
        new = set(itertools.combinations(_properties(number), 2)) - combined
        if gains and (-len(new), *place[number]) > gains[0]:  # a gain falls, but never rises
            heapq.heappush(gains, (-len(new), *place[number]))
        elif new:
            kept.append(number)
            left.remove(number)
            combined |= new
        else:
            combined.clear()
            gains = [(-math.inf, *place[each]) for each in left]
            heapq.heapify(gains)
    return tuple(sorted(kept))


@functools.cache
def _properties(number: int) -> tuple[str, ...]:
    m = drawn(number)
    assert m is not None
    regime = regime_of(m)
    fields = dataclasses.fields(regime)
    return tuple(f"{field.name}: {getattr(regime, field.name).value}" for field in fields)
