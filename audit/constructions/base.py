"""The base class of neighbouring pairs in one dimension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from audit import validate
from audit.constructions.process import Process
from audit.mechanism import Choice, NoisySGD


class Inadmissible(ValueError):
    """The construction's losses break an assumption of the mechanism."""


@dataclass(frozen=True)
class Construction(ABC):
    """A pair of neighbouring datasets for a mechanism, as one-dimensional processes (X, X').

    Admissibility (convexity, Lipschitz constant, smoothness, sensitivity, relation) is checked
    when the construction is made; a construction that exists is a valid lower-bound witness
    where ``is_neighbouring`` is true. A subclass that checks its own parameters calls
    ``super().__post_init__()`` first, which refuses choices of the mechanism that are neither
    covered by default (`audit.mechanism.COVERED_BY_DEFAULT`) nor named in ``covers``. Files name
    a construction by ``kind``, its class name; see `audit.constructions.registry`.

    Raises
    ------
    Inadmissible
        If the losses break an assumption of the mechanism; the message names it.
    ValueError
        If a parameter is out of its range.
    """

    mechanism: NoisySGD

    kind: ClassVar[str]
    citation: ClassVar[str]
    is_neighbouring: ClassVar[bool] = True
    covers: ClassVar[tuple[Choice, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = cls.__name__

    def __post_init__(self) -> None:
        validate.instance(NoisySGD, mechanism=self.mechanism)
        refusal = self.mechanism.uncovered(self.covers)
        if refusal is not None:
            raise Inadmissible(f"{self.name} {refusal}")

    @property
    def name(self) -> str:
        """The construction's name in tables and files."""
        return type(self).__name__

    @abstractmethod
    def processes(self) -> tuple[Process, Process]:
        """Return the processes X and X'."""


def checked_start(mechanism: NoisySGD, start: float) -> float:
    """Return ``start`` if it is a point of the domain, and raise ``ValueError`` otherwise."""
    validate.finite(start=start)
    if mechanism.diameter is not None and abs(start) > mechanism.diameter / 2:
        half = mechanism.diameter / 2
        raise ValueError(f"start must be in the domain [{-half:g}, {half:g}], got {start!r}")
    return float(start)
