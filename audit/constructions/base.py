"""The base class of neighbouring pairs in one dimension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np

from audit import validate
from audit.constructions.batches import kinds_of_batch
from audit.constructions.process import Process
from audit.mechanism import Choice, Composition, Losses, NoisySGD
from audit.numerics.display import ShortRepr

_MOST_KINDS_OF_BATCH = 20_000  # of more, constructing a process takes too long
_MOST_REFUSED = 30  # random members in a row, after which none is expected to be admissible


class Inadmissible(ValueError):
    """Error for a construction whose losses violate an assumption of the mechanism."""


@dataclass(frozen=True)
class Construction(ShortRepr, ABC):
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

    kind: ClassVar[str]
    citation: ClassVar[str]
    is_neighbouring: ClassVar[bool] = True
    covers: ClassVar[tuple[Choice, ...]] = ()
    unsuggested: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = cls.__name__

    def __post_init__(self) -> None:
        validate.instance(NoisySGD, mechanism=self.mechanism)
        # fixed losses are a special case of changing ones
        refusal = self.mechanism.uncovered((*self.covers, Losses.CHANGING))
        if refusal is not None:
            raise Inadmissible(f"{self.name} {refusal}")

    @property
    def name(self) -> str:
        """Name of the construction in tables and files."""
        return type(self).__name__

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
        parameters have their default values, if none is required.

        Parameters
        ----------
        mechanism : NoisySGD
            A mechanism whose choices the construction covers.

        Yields
        ------
        mapping of str to object
            Arguments of the constructor besides the mechanism.
        """
        if all(
            f.default is not MISSING and not f.metadata.get("required") for f in fields(cls)[1:]
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
        while cls._suits(mechanism) and refused < _MOST_REFUSED:
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
            and kinds_of_batch(mechanism) <= _MOST_KINDS_OF_BATCH
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


def checked_start(mechanism: NoisySGD, start: float) -> float:
    """Return a start point after checking that it lies in the domain."""
    validate.finite(start=start)
    if mechanism.diameter is not None and abs(start) > mechanism.diameter / 2:
        half = mechanism.diameter / 2
        raise ValueError(f"start must be in the domain [{-half:g}, {half:g}], got {start!r}")
    return float(start)
