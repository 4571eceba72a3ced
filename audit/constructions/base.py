"""The base class of neighbouring pairs in one dimension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from audit import validate
from audit.constructions.process import Process
from audit.mechanism import Choice, Losses, NoisySGD


class Inadmissible(ValueError):
    """Error for a construction whose losses violate an assumption of the mechanism."""


@dataclass(frozen=True)
class Construction(ABC):
    """Neighbouring pair of a mechanism, as one-dimensional processes (X, X').

    The constructor checks admissibility: convexity, Lipschitz constant, smoothness, sensitivity and
    relation. An existing construction is therefore a valid lower-bound witness if
    ``is_neighbouring`` is true.

    A subclass that checks its own parameters calls ``super().__post_init__()`` first. This refuses
    choices of the mechanism that are neither covered by default
    (`audit.mechanism.COVERED_BY_DEFAULT`) nor listed in ``covers``. ``Losses.CHANGING`` needs no
    listing: a pair of fixed losses is one of changing losses. Files refer to a construction by
    ``kind``, its class name; see `audit.constructions.registry`.

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


def checked_start(mechanism: NoisySGD, start: float) -> float:
    """Return a start point after checking that it lies in the domain.

    Parameters
    ----------
    mechanism : NoisySGD
        The mechanism, whose domain is [-D/2, D/2].
    start : float
        The start point.

    Returns
    -------
    float
        The start point.

    Raises
    ------
    ValueError
        If the start point is outside the domain.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=4, step_size=1.0, noise_std=1.0,
    ...                    lipschitz=1.0, diameter=2.0)
    >>> checked_start(m, -1)
    -1.0
    """
    validate.finite(start=start)
    if mechanism.diameter is not None and abs(start) > mechanism.diameter / 2:
        half = mechanism.diameter / 2
        raise ValueError(f"start must be in the domain [{-half:g}, {half:g}], got {start!r}")
    return float(start)
