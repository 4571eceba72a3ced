"""Curves behind the figures of a result: laws, tradeoff functions, epsilon against steps."""

from __future__ import annotations

from dataclasses import dataclass

from audit.results.comparisons import Number

Floats = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class BoundCurve:
    """The values of a bound along a curve.

    Parameters
    ----------
    id : str
        The id of the bound.
    values : tuple of float or None
        One value per point; None where the bound does not apply.
    """

    id: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class LawCurves:
    """One law of the last iterate, computed and sampled.

    Parameters
    ----------
    density : tuple of float
        The density at the points of the grid.
    histogram : tuple of float
        The sampled density in each bin.
    atoms, atom_frequencies : tuple of float
        Computed and sampled mass at the two ends of the domain.
    """

    density: Floats
    histogram: Floats
    atoms: tuple[float, float]
    atom_frequencies: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The laws of X and X' over the range that holds the mass of either.

    Parameters
    ----------
    grid : tuple of float
        The points of the densities.
    edges : tuple of float
        The edges of the histograms' bins.
    ends : tuple of float
        The ends of the domain; infinite if it is unconstrained.
    first, second : LawCurves
        The laws of X and X'.
    """

    grid: Floats
    edges: Floats
    ends: tuple[float, float]
    first: LawCurves
    second: LawCurves


@dataclass(frozen=True, kw_only=True)
class TradeoffCurves:
    """Tradeoff functions on one grid of type I errors: exact, an upper bound, and claimed ones.

    Parameters
    ----------
    alpha : tuple of float
        The type I errors.
    exact : tuple of float
        The exact tradeoff function of the pair.
    sampled_upper : tuple of float
        The upper bound on it from samples.
    bounds : tuple of BoundCurve
        The claimed lower bounds on the tradeoff function.
    """

    alpha: Floats
    exact: Floats
    sampled_upper: Floats
    bounds: tuple[BoundCurve, ...]


@dataclass(frozen=True, kw_only=True)
class BurnIn:
    """The number of steps after which epsilon stops growing, according to a theorem.

    Parameters
    ----------
    steps : float
        The number of steps.
    theorem : str
        The theorem's citation.
    """

    steps: float
    theorem: str


@dataclass(frozen=True, kw_only=True)
class EpsilonAgainstSteps:
    """The exact epsilon and the bounds after each number of steps, at one delta.

    Parameters
    ----------
    delta : float
        The delta, in [0, 1).
    steps : tuple of int
        The numbers of steps.
    exact : tuple of Number
        The exact epsilon after each.
    bounds : tuple of BoundCurve
        The claimed upper bounds after each.
    burn_in : BurnIn or None
        The burn-in of a theorem that applies; None if there is none.
    """

    delta: float
    steps: tuple[int, ...]
    exact: tuple[Number, ...]
    bounds: tuple[BoundCurve, ...]
    burn_in: BurnIn | None


@dataclass(frozen=True, kw_only=True)
class ScoreHistograms:
    """Histograms of the scores of X and X'.

    Parameters
    ----------
    edges : tuple of float
        The edges of the bins.
    first, second : tuple of float
        The share of the scores of X and of X' in each bin.
    """

    edges: Floats
    first: Floats
    second: Floats
