"""Curves behind the figures of a result: laws, tradeoff functions, epsilon against steps."""

from __future__ import annotations

from dataclasses import dataclass

from audit.results.comparisons import Number

Floats = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class BoundCurve:
    """The values of a bound along a curve; None where it does not apply."""

    id: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class LawCurves:
    """One law of the last iterate, computed and sampled.

    Parameters
    ----------
    density
        The density at the points of the grid.
    histogram
        The sampled density in each bin.
    atoms, atom_frequencies
        Computed and sampled mass at the two ends of the domain.
    """

    density: Floats
    histogram: Floats
    atoms: tuple[float, float]
    atom_frequencies: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The laws of X (``first``) and X' (``second``) over the range where either has mass.

    ``grid`` holds the points of the densities, ``edges`` those of the histograms' bins, and
    ``ends`` the ends of the domain (infinite where it is unconstrained).
    """

    grid: Floats
    edges: Floats
    ends: tuple[float, float]
    first: LawCurves
    second: LawCurves


@dataclass(frozen=True, kw_only=True)
class TradeoffCurves:
    """Tradeoff functions on one grid of type I errors: exact, an upper bound, and claimed ones."""

    alpha: Floats
    exact: Floats
    sampled_upper: Floats
    bounds: tuple[BoundCurve, ...]


@dataclass(frozen=True, kw_only=True)
class BurnIn:
    """The number of steps after which a theorem says that epsilon stops growing."""

    steps: float
    theorem: str


@dataclass(frozen=True, kw_only=True)
class EpsilonAgainstSteps:
    """The exact epsilon and the bounds after each number of steps, at one delta."""

    delta: float
    steps: tuple[int, ...]
    exact: tuple[Number, ...]
    bounds: tuple[BoundCurve, ...]
    burn_in: BurnIn | None


@dataclass(frozen=True, kw_only=True)
class ScoreHistograms:
    """The share of the scores of X (``first``) and X' (``second``) in each bin."""

    edges: Floats
    first: Floats
    second: Floats
