"""Curves behind the figures of a result: laws, tradeoff functions, epsilon against steps."""

from __future__ import annotations

from dataclasses import dataclass

from audit.results.comparisons import Number

Floats = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class BoundCurve:
    """The values of a bound along a curve."""

    id: str  #: The id of the bound.
    values: tuple[float | None, ...]  #: One value per point; None where the bound does not apply.


@dataclass(frozen=True, kw_only=True)
class LawCurves:
    """One law of the last iterate, computed and sampled."""

    density: Floats  #: The density at the points of the grid.
    histogram: Floats  #: The sampled density in each bin.
    atoms: tuple[float, float]  #: The mass at the two ends of the domain.
    atom_frequencies: tuple[float, float]  #: The sampled mass there.


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The laws of X and X' over the range that holds the mass of either."""

    grid: Floats  #: The points of the densities.
    edges: Floats  #: The edges of the histograms' bins.
    ends: tuple[float, float]  #: The ends of the domain; infinite if it is unconstrained.
    first: LawCurves  #: The law of X.
    second: LawCurves  #: The law of X'.


@dataclass(frozen=True, kw_only=True)
class TradeoffCurves:
    """Tradeoff functions on one grid of type I errors: exact, an upper bound, and claimed ones."""

    alpha: Floats  #: The type I errors.
    exact: Floats  #: The exact tradeoff function of the pair.
    sampled_upper: Floats  #: The upper bound on it from samples.
    bounds: tuple[BoundCurve, ...]  #: The claimed lower bounds on the tradeoff function.


@dataclass(frozen=True, kw_only=True)
class BurnIn:
    """The number of steps after which epsilon stops growing, according to a theorem."""

    steps: float  #: The number of steps.
    theorem: str  #: The theorem's citation.


@dataclass(frozen=True, kw_only=True)
class EpsilonAgainstSteps:
    """The exact epsilon and the bounds after each number of steps, at one delta."""

    delta: float  #: The delta, in [0, 1).
    steps: tuple[int, ...]  #: The numbers of steps.
    exact: tuple[Number, ...]  #: The exact epsilon after each.
    bounds: tuple[BoundCurve, ...]  #: The claimed upper bounds after each.
    burn_in: BurnIn | None  #: The burn-in of a theorem that applies; None if there is none.


@dataclass(frozen=True, kw_only=True)
class ScoreHistograms:
    """Histograms of the scores of X and X'."""

    edges: Floats  #: The edges of the bins.
    first: Floats  #: The share of the scores of X in each bin.
    second: Floats  #: The share of those of X' in each bin.
