"""The base classes of neighbouring pairs in one dimension, and limits on their gradients."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np

from audit import validate
from audit.codec import Tagged
from audit.constructions.batches import (
    SAMPLERS,
    BatchUpdate,
    batched_process,
    check_position,
    cycle_length,
    domain,
    kinds_of_batch,
)
from audit.constructions.process import Process
from audit.constructions.updates import PiecewiseLinear
from audit.mechanism import Batching, Choice, Composition, Losses, NoisySGD, Relation
from audit.numerics.display import ShortRepr

SLACK = 1 + 1e-12  # tolerates rounding of parameters computed from a limit
_MAX_BATCH_KINDS = 20_000  # with more, constructing a process takes too long
_ALONE = "dataset_size=1"
_MAX_REFUSALS = 30  # random members in a row, after which none is expected to be admissible


class Inadmissible(ValueError):
    """Error for a construction whose losses violate an assumption of the mechanism."""


class Pair(Tagged):
    """Two neighbouring datasets, which may refuse mechanisms."""

    covers: ClassVar[tuple[Choice, ...]] = ()
    unsuggested: ClassVar[str] = ""

    def __post_init__(self) -> None:
        validate.convert_numbers(self)

    @property
    def name(self) -> str:
        """Name of the pair in tables and files."""
        return type(self).__name__

    def _require_covered(self, mechanism: NoisySGD, *also: Choice) -> None:
        refusal = mechanism.uncovered((*self.covers, *also))
        if refusal is not None:
            raise Inadmissible(f"{self.name} {refusal}")

    def _require(self, holds: bool, wanted: str, got: str = "") -> None:
        """Raise `Inadmissible` unless something holds that the pair needs."""
        require(self.name, holds, wanted, got)

    def _require_choice(self, choice: Choice, wanted: Choice, why: str = "") -> None:
        name = type(choice).__name__.lower()
        self._require(choice is wanted, f"{name}={wanted.value!r}{why}", f"{name}={choice.value!r}")


@dataclass(frozen=True)
class Construction(Pair, ShortRepr, ABC):
    """Neighbouring pair of a mechanism, as one-dimensional processes (X, X').

    The constructor checks admissibility: convexity, Lipschitz constant, smoothness, sensitivity and
    relation. An existing construction is therefore a valid lower-bound witness if
    ``is_neighbouring`` is true.

    A subclass that checks its own parameters calls ``super().__post_init__()`` first. This refuses
    choices of the mechanism that are neither covered by default
    (`audit.mechanism.COVERED_BY_DEFAULT`) nor listed in ``covers``. ``Losses.CHANGING`` needs no
    listing: a pair of fixed losses is one of changing losses. Files refer to a construction by
    ``kind``, its class name; see `audit.constructions.registry`.

    The judge and the search try the members that ``suggested`` yields, and the tests of soundness
    those of ``random`` as well. A subclass gives the parameters of the first in ``suggestions``, or
    says in ``unsuggested`` why there are none. The metadata of a field may hold a function "draw"
    of the mechanism and a `numpy.random.Generator`, which returns the field's value in random
    members; without any such field these are suggested ones.

    Parameters
    ----------
    mechanism : NoisySGD
        The mechanism of both datasets.

    Raises
    ------
    Inadmissible
        If the losses violate an assumption of the mechanism; the message names it.
    ValueError
        If a parameter is out of range.
    """

    mechanism: NoisySGD

    citation: ClassVar[str]
    is_neighbouring: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.instance(NoisySGD, mechanism=self.mechanism)
        # fixed losses are a special case of changing ones
        self._require_covered(self.mechanism, Losses.CHANGING)

    @abstractmethod
    def processes(self) -> tuple[Process, Process]:
        """Return the processes X and X'.

        Returns
        -------
        tuple of (Process, Process)
            Processes of the first and the second dataset.
        """

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[Mapping[str, Any]]:
        """Yield the parameters of members worth trying, the strongest first.

        They depend on the mechanism only, and need not be admissible. By default, the member whose
        parameters have their default values, if none is required; none if ``unsuggested``.

        Parameters
        ----------
        mechanism : NoisySGD
            A mechanism whose choices the construction covers.

        Yields
        ------
        mapping of str to object
            Arguments of the constructor besides the mechanism.
        """
        own = fields(cls)[1:]
        if not cls.unsuggested and all(
            f.default is not MISSING and not f.metadata.get("required") for f in own
        ):
            yield {}

    @classmethod
    def suggested(cls, mechanism: NoisySGD | Composition) -> Iterator[Self]:
        """Yield admissible members that are worth trying, the strongest first.

        Parameters
        ----------
        mechanism : NoisySGD or Composition
            The mechanism of both datasets.

        Yields
        ------
        Construction
            Members; none if the assumptions of the mechanism exclude them, or it has so many
            different batches that constructing a process would take too long.

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=2, step_size=1.0, noise_std=1.0,
        ...                    lipschitz=1.0, batching=audit.Batching.WITHOUT_REPLACEMENT,
        ...                    relation=audit.Relation.ADD_REMOVE)
        >>> next(audit.constructions.DriftedWalk.suggested(m)).drift
        -1.0
        """
        if cls._suits(mechanism):
            for parameters in cls.suggestions(mechanism):
                yield from cls._admissible(mechanism, parameters)

    @classmethod
    def random(cls, mechanism: NoisySGD | Composition, rng: np.random.Generator) -> Iterator[Self]:
        """Yield admissible random members.

        Parameters
        ----------
        mechanism : NoisySGD or Composition
            The mechanism of both datasets.
        rng : numpy.random.Generator
            The source of randomness.

        Yields
        ------
        Construction
            Members without end; none, or no more, after 30 inadmissible ones in a row.

        Examples
        --------
        >>> import audit, numpy
        >>> m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=4, step_size=1.0, noise_std=1.0,
        ...                    lipschitz=1.0)
        >>> walks = audit.constructions.DriftedWalk.random(m, numpy.random.default_rng(1))
        >>> abs(next(walks).drift) <= 0.75
        True
        """
        refused = 0
        while cls._suits(mechanism) and refused < _MAX_REFUSALS:
            refused += 1
            for member in cls._admissible(mechanism, cls._drawn(mechanism, rng)):
                refused = 0
                yield member

    @classmethod
    def _drawn(cls, mechanism: NoisySGD, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return random parameters: those of the fields that say how, or suggested ones."""
        draws = {f.name: f.metadata["draw"] for f in fields(cls) if "draw" in f.metadata}
        if draws:
            return {name: draw(mechanism, rng) for name, draw in draws.items()}
        known = tuple(cls.suggestions(mechanism))
        return known[int(rng.integers(len(known)))] if known else {}

    @classmethod
    def _suits(cls, mechanism: NoisySGD | Composition) -> TypeGuard[NoisySGD]:
        return (
            isinstance(mechanism, NoisySGD)
            and mechanism.uncovered((*cls.covers, Losses.CHANGING)) is None
            and kinds_of_batch(mechanism) <= _MAX_BATCH_KINDS
        )

    @classmethod
    def _admissible(cls, mechanism: NoisySGD, parameters: Mapping[str, Any]) -> Iterator[Self]:
        """Yield the member with the given parameters, unless it is refused."""
        try:
            member = cls._member(mechanism, **parameters)
            member.processes()
        except ValueError:  # breaks an assumption, or needs a parameter that the mechanism lacks
            return
        yield member

    @classmethod
    def _member(cls, mechanism: NoisySGD, **parameters: Any) -> Self:
        return cls(mechanism, **parameters)


class PositionedPair(Construction):
    """Pair with a common start, whose datasets have the same updates but for the differing record.

    A subclass is a dataclass with the following fields among its own.

    Parameters
    ----------
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.
    """

    start: float
    position: int | None

    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)
        numbers = (f.name for f in fields(self) if f.type == "float")
        validate.finite(**{name: getattr(self, name) for name in numbers})

    def _records(self) -> tuple[Any, Any]:
        """Return the record in X and in X': by default negative gradients, farthest apart."""
        return record_pushes(self.mechanism)

    @abstractmethod
    def _updates(self, record: Any) -> Sequence[BatchUpdate] | BatchUpdate:
        """Return the updates of the batches of a cycle; one if all batches have the same."""

    def processes(self) -> tuple[Process, Process]:
        """Return the processes X and X', whose record may be missing."""
        m, present = self.mechanism, (True, both_hold_record(self.mechanism))
        first, second = (
            batched_process(m, self.start, self._updates(record), self.position, held)
            for record, held in zip(self._records(), present, strict=True)
        )
        return first, second

    def _check_others(self, lowest: float, highest: float) -> None:
        """Refuse other records whose negative gradients range over too much."""
        low, high = others_range(self.mechanism)
        self._require(
            low * SLACK <= lowest and highest * SLACK**-1 <= high,
            f"the other records' gradients in [{-high:.6g}, {-low:.6g}], which the Lipschitz "
            "constant and the gradient sensitivity allow",
            f"[{-highest:.6g}, {-lowest:.6g}]",
        )
        alone = self.mechanism.dataset_size == 1
        self._require(not alone or not (lowest or highest), "other records to push", _ALONE)

    def _require_others(self) -> None:
        self._require(self.mechanism.dataset_size > 1, "another record", _ALONE)

    def _require_no_strong_convexity(self, losses: str) -> None:
        curvature = self.mechanism.strong_convexity
        wanted = f"strong_convexity = 0 because {losses}"
        self._require(curvature == 0, wanted, f"strong_convexity={curvature!r}")

    def _check_curvature(self, curvature: float) -> None:
        got = f"curvature={curvature!r}"
        check_slopes(self.name, self.mechanism, "curvature", (curvature, curvature), got)

    def _check_removable(self, regularised: bool) -> None:
        """Refuse a record whose removal would remove its regulariser as well."""
        self._require(
            not regularised or both_hold_record(self.mechanism),
            "no regulariser if X' does not hold the record, because the regulariser's gradients "
            "are unbounded",
            "relation='add remove'",
        )

    def _check_sensitivity(self, gradients: Mapping[str, PiecewiseLinear]) -> None:
        """Refuse records whose gradients differ too much; the first two are the differing record's.

        A gradient sensitivity bounds any two records of the family (Bok, Su and Altschuler 2024,
        Definition 2.10).
        """
        m = self.mechanism
        compared = list(gradients.items())
        if m.gradient_sensitivity is None:
            compared = compared[:2]
        names = {line: name for name, line in reversed(compared)}
        for (line, a), (other, b) in itertools.combinations(reversed(names.items()), 2):
            difference = PiecewiseLinear.total([(1.0, line), (-1.0, other)])
            least, most = difference.value_range(*domain(m))
            self._require(
                max(-least, most) <= m.sensitivity * SLACK,
                f"gradients of {a} and {b} to differ by at most {m.sensitivity:g}, the sensitivity",
                f"{max(-least, most):.6g}",
            )

    def _check_holder(self, *gradients: PiecewiseLinear) -> None:
        """Refuse gradients without the mechanism's Hoelder constant and order.

        Between two breakpoints a difference of values is linear and a power of the distance
        concave, so that their ratio is largest at breakpoints and ends of the domain.
        """
        if self.mechanism.holder is None:
            return
        constant, order = self.mechanism.holder
        low, high = domain(self.mechanism)
        for line in gradients:
            ends = [low, high] if math.isfinite(high) else []
            x = np.unique([*(point for point in line.points if low < point < high), *ends])
            values = line(x)
            distance = np.abs(x[:, None] - x)
            # what a value may be off by rounding
            rounding = 2.0**-50 * np.max(np.abs(values), initial=0.0)
            change = np.abs(values[:, None] - values) - rounding
            apart = distance > 0
            needed = float(np.max(change[apart] / distance[apart] ** order, initial=0.0))
            steepest = 0.0 if math.isfinite(high) else max(map(abs, line.slopes))
            if steepest > 0:
                needed = max(needed, steepest) if order == 1 else math.inf
            self._require(
                needed <= constant * SLACK,
                f"gradients with a Hoelder constant of order {order:g} of at most {constant:g}",
                f"{needed:.6g}",
            )


def require(name: str, holds: bool, wanted: str, got: str = "") -> None:
    """Raise `Inadmissible` unless something holds that the pair of a name needs."""
    if not holds:
        raise Inadmissible(f"{name} needs {wanted}{', got ' * bool(got)}{got}")


def checked_start(mechanism: NoisySGD, start: float) -> float:
    """Return a start point after checking that it lies in the domain."""
    validate.finite(start=start)
    low, high = domain(mechanism)
    if not low <= start <= high:
        raise ValueError(f"start must be in the domain [{low:g}, {high:g}], got {start!r}")
    return float(start)


def check_slopes(
    name: str, mechanism: NoisySGD, wanted: str, slopes: tuple[float, float], got: str
) -> None:
    """Raise `Inadmissible` unless gradients may have the least and the largest of ``slopes``."""
    most = math.inf if mechanism.smoothness is None else mechanism.smoothness
    least = mechanism.strong_convexity if mechanism.convex else -most
    allowed = least - (SLACK - 1) * abs(least) <= slopes[0] and slopes[1] <= most * SLACK
    wanted = f"{wanted} in [{least:g}, {most:g}], which convexity and smoothness allow"
    require(name, allowed, wanted, got)


def both_hold_record(mechanism: NoisySGD) -> bool:
    """Return whether X' holds the differing record as well, possibly with zero loss."""
    return mechanism.relation is not Relation.ADD_REMOVE


def record_pushes(mechanism: NoisySGD) -> tuple[float, float]:
    """Return the negative gradients of the record's linear losses in X and X', farthest apart.

    The second is 0 if X' does not hold the record.
    """
    if mechanism.relation is Relation.REPLACE_ONE:
        return mechanism.sensitivity / 2, -mechanism.sensitivity / 2
    return mechanism.steepest_gradient, 0.0


def others_range(
    mechanism: NoisySGD, shift: float = 0.0, cancelled: float = 0.0
) -> tuple[float, float]:
    """Return the range of other records' negative gradients admissible with `record_pushes`.

    A gradient sensitivity bounds the difference of any two records of the family (Bok, Su and
    Altschuler 2024, Definition 2.10), including that of another record and the differing one. Both
    gradients of that one may have a ``shift``, and all gradients a part that is ``cancelled``.
    """
    bound = math.inf if mechanism.gradient_bound is None else mechanism.gradient_bound
    low, high = cancelled - bound, cancelled + bound
    if mechanism.gradient_sensitivity is not None:
        pushes = [push - shift for push in record_pushes(mechanism)]
        low = max(low, max(pushes) - mechanism.gradient_sensitivity)
        high = min(high, min(pushes) + mechanism.gradient_sensitivity)
    return low, high


def random_others(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    """Return a random negative gradient of the other records, often an extreme one."""
    if mechanism.dataset_size == 1:
        return 0.0
    low, high = others_range(mechanism)
    if math.isinf(high):
        low, high = -2 * mechanism.sensitivity, 2 * mechanism.sensitivity
    return float(rng.choice([low, high, 0.0, rng.uniform(low, high)]))


def random_curvature(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    """Return a random curvature, often an extreme one or one that resets in one step."""
    resetting = 1 / float(mechanism.step_sizes[-1])
    most = 2 * resetting if mechanism.smoothness is None else mechanism.smoothness
    least = mechanism.strong_convexity if mechanism.convex else -most
    return float(rng.choice([least, most, min(resetting, most), rng.uniform(least, most)]))


def random_start(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    """Return a random start point, often the middle or an end of the domain."""
    half = 0.0 if mechanism.diameter is None else mechanism.diameter / 2
    return float(rng.choice([0.0, -half, half, rng.uniform(-half, half)]))


def random_position(mechanism: NoisySGD, rng: np.random.Generator) -> int | None:
    """Return a random batch of the cycle, or None."""
    if mechanism.batching is not Batching.CYCLIC or rng.random() < 0.5:
        return None
    return int(rng.integers(cycle_length(mechanism)))
