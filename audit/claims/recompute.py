"""Recompute a refutation from its witness file, in two ways that are independent of the judge.

This module needs NumPy and SciPy and nothing else of this package. It can be read, copied and run
alone::

    python recompute.py lie.witness.json

A witness describes two laws P and Q by plain numbers, a quantity that measures their difference
(epsilon at a delta, a Renyi divergence, the delta at an epsilon that refutes a mu, the power of a
test), and a claimed value that the quantity exceeds. Both ways must exceed the claimed value to
confirm it:

- Quadrature: both laws as masses at Gauss-Legendre nodes, and the quantity as a sum over them. The
  error is the distance to a coarser rule, plus the possible contribution of nodes next to a kink.
- Draws: the laws are simulated, and events fixed in advance are counted. Clopper-Pearson limits
  turn the counts into a lower confidence limit of the quantity. Quadrature only plans which event
  or proposal is used; the limit is valid for every plan.
"""

from __future__ import annotations

import enum
import functools
import itertools
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr
from scipy.stats import beta

Array = NDArray[np.float64]
Plain = Mapping[str, Any]  # part of the file
Normals = list[tuple[float, float, float]]  # weight, mean, standard deviation
Motion = tuple[float, float, float, float]  # weight p of x -> a x + b + N(0, v)
Draw = Callable[[np.random.Generator, int], Array]
Ratio = Callable[[Array], Array]

# Quadrature
_FINE, _COARSE = 10, 7  # nodes a panel
_ROUNDING = 1e-9
_MASS_ERROR = 1e-11  # relative error of a sum of masses
_REACH = 14.0  # standard deviations of an unbounded line that are kept
_PANELS = 150
_CELLS = 8  # of a panel
_CELL_FLOOR = 1e-9  # of a panel's densest cell
_MOST_RECTANGLES = 1_000_000
_MOST_COUNTS = 300_000  # of the outcomes of several draws, that are listed one by one
_MOST_SUMS = 2**20  # points of a grid for sums of losses
_LEAST_TILTED = 1e-60  # likelier draws are kept
_DRAW_ERROR = 1e-13  # relative error of the mass of a cell, for each draw
_MOST_NODES, _MOST_WORK = 5000, 4e11
_MOST_BRANCHES = 256  # sequences of maps of a short chain
_STAY: Motion = (1.0, 1.0, 0.0, 0.0)
_MOST_STAIRS = 40_000_000  # nodes times normals
_NOTHING = math.log(1e-290)  # mass of a wall that is not there
_LEAST_EVENT = 1e-35  # an event whose probability the masses at nodes tell to many digits
_LOST = 1e-42  # and what lies beyond the nodes of a line
_FLOOR = 1e-290  # smaller masses may have underflowed and count as this, against a refutation

# Draws
ERROR = 1e-6  # of each Clopper-Pearson limit, and of all limits of a ladder together
_ROUNDS = ((200_000, 1_000_000), (4_000_000,), (16_000_000,), (40_000_000,))
_FEWEST_DRAWS, _MOST_DRAWS = 20_000, 40_000_000
_MOST_STEPS = 200_000_000  # of all draws together
_CHUNK = 500_000
_LEVELS = 300
_LARGEST_LOG = 700.0
_WIDER = 1.3  # a proposal's spread over that of the integrand, so that no weight is large


# ---------------------------------------------------------------------------- the outcome


class Outcome(enum.Enum):
    """The conclusion of one way."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    CANNOT_DECIDE = "cannot decide"
    NOT_COMPUTABLE = "not computable by this way"
    NOT_SAMPLEABLE = "not sampleable"


@dataclass(frozen=True)
class Way:
    """The number of one way, compared with ``claimed``.

    Attributes
    ----------
    value, error
        The number and a bound on its error. A sampled number is a lower confidence limit, and its
        error the probability that it is wrong.
    claimed
        The value that the number must exceed.
    outcome, how
        The conclusion, and a description of the computation.
    """

    value: float
    error: float
    claimed: float
    outcome: Outcome
    how: str

    @property
    def confirms(self) -> bool:
        """Whether this way confirms the refutation."""
        return self.outcome is Outcome.CONFIRMED


@dataclass(frozen=True)
class Recomputed:
    """The results of both ways, and a title that names the witness."""

    title: str
    exact: Way
    sampled: Way

    @property
    def confirmed(self) -> bool:
        """Whether both ways confirm the refutation."""
        return self.exact.confirms and self.sampled.confirms

    @property
    def stands(self) -> bool:
        """Whether one way confirms the refutation and the other one does or cannot decide."""
        outcomes = {self.exact.outcome, self.sampled.outcome}
        return Outcome.CONFIRMED in outcomes and Outcome.NOT_CONFIRMED not in outcomes

    def lines(self) -> tuple[str, ...]:
        """Return the findings as lines of text."""
        exact, sampled = self.exact, self.sampled
        least = f"at least {sampled.value:.6g}, " if math.isfinite(sampled.value) else ""
        conclusion = "not confirmed"
        if self.stands:
            conclusion = "confirmed in one way; the other cannot decide"
        if self.confirmed:
            conclusion = "confirmed in both ways"
        return (
            f"{self.title}; claimed {exact.claimed:.6g}",
            f"  quadrature: {exact.value:.6g} +- {exact.error:.2g}, "
            f"{exact.outcome.value} ({exact.how})",
            f"  draws: {least}{sampled.outcome.value} ({sampled.how})",
            f"  {conclusion}",
        )


def recompute(witness: Any, *, seed: int = 0) -> Recomputed:
    """Recompute a refutation by quadrature and by draws.

    Parameters
    ----------
    witness
        The content of a witness file as a mapping, or an object that writes it (``to_json``).
    seed
        Seed of the draws, a non-negative integer.

    Returns
    -------
    Recomputed
        The outcome of both ways. An event too rare to be counted is ``NOT_SAMPLEABLE``, and a chain
        too long for this simple quadrature ``NOT_COMPUTABLE``; a number whose error bracket
        contains the claimed one is ``CANNOT_DECIDE``. None of these confirms anything.

    Raises
    ------
    ValueError
        If the witness is invalid.
    """
    if seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    content: Plain = witness if isinstance(witness, Mapping) else json.loads(witness.to_json())
    try:
        quantity = _quantity_of(content)
        pair, swap = content["pair"], content["order"] == "reverse"
        order = "second against first law" if swap else "first against second law"
        title = f"{content['claim']}: {quantity.title}, {content['construction']}, {order}"
        fine, coarse = _fine_and_coarse(pair, swap, quantity)
    except OutOfReach as reason:
        why = "no law by quadrature to choose events from"
        return Recomputed(
            title,
            Way(math.nan, math.inf, quantity.threshold, Outcome.NOT_COMPUTABLE, str(reason)),
            Way(math.nan, math.inf, quantity.threshold, Outcome.NOT_SAMPLEABLE, why),
        )
    except (KeyError, TypeError, IndexError) as fault:
        raise ValueError(
            f"pair must be plain numbers as this package writes them: {fault!r}"
        ) from None
    exact = _by_quadrature(quantity, fine, coarse)
    return Recomputed(title, exact, _by_draws(pair, swap, quantity, fine, seed))


def _fine_and_coarse(pair: Plain, swap: bool, quantity: _Quantity) -> tuple[Nodes, Nodes]:
    """Return both laws by two rules."""
    if _is_composed(pair) and quantity.is_pure:
        return _alike(pair, swap, _FINE), _alike(pair, swap, _COARSE)
    return nodes_of(pair, swap, _FINE, quantity), nodes_of(pair, swap, _COARSE, quantity)


def _by_quadrature(quantity: _Quantity, fine: Nodes, coarse: Nodes) -> Way:
    """Return a number as a sum over nodes; an error that leaves the claim open decides nothing."""
    value, error = _with_error(quantity, fine, coarse)
    if fine.x is not None and not quantity.is_pure:
        # cells have a lower number and no kinks: the larger lower end is used
        cells = (cells_of(nodes, quantity.raised_by_p) for nodes in (fine, coarse))
        least, off = _with_error(quantity, *cells)
        low, high = max(value - error, least - off), value + error
        value, error = (low + high) / 2, abs(high - low) / 2
    outcome = Outcome.CANNOT_DECIDE
    if value - error > quantity.threshold:
        outcome = Outcome.CONFIRMED
    elif value + error <= quantity.threshold:
        outcome = Outcome.NOT_CONFIRMED
    return Way(value, error, quantity.threshold, outcome, f"{fine.log_p.size} nodes")


def _with_error(quantity: _Quantity, fine: Nodes, coarse: Nodes) -> tuple[float, float]:
    """Return a number and a bound on its error that includes the distance to a coarser rule."""
    value, other = quantity.value(fine), quantity.value(coarse)
    if not math.isfinite(value):
        return (value, 0.0) if value == other else (0.0, math.inf)
    if not math.isfinite(other):
        return value, math.inf
    return value, abs(value - other) + quantity.error(fine, value)


# ---------------------------------------------------------------------------- the quantities


@dataclass(frozen=True, eq=False)
class Nodes:
    """Log masses of two laws P and Q at the same nodes; ``x`` is None for finite laws.

    With ``atoms`` the first and the last node are the atoms at two walls. ``lost`` is the mass that
    Q may have where there are no nodes. ``far`` holds log p - log q beyond the nodes, by formula;
    it is None if the densities have no formula. ``mass_error`` is the relative error of a sum of
    masses, in addition to that of the rule; ``merged`` is the possible reduction of losses by
    merging. ``inside`` is by how much losses differ inside a cell; None to read it off neighbours.
    """

    log_p: Array
    log_q: Array
    x: Array | None = None
    atoms: bool = False
    order: int = 0  # nodes a panel
    lost: float = 0.0
    far: Array | None = None
    mass_error: float = _MASS_ERROR
    merged: float = 0.0
    inside: Array | None = None

    @functools.cached_property
    def ratio(self) -> Array:
        """Log p - log q at the nodes; -inf where P has no mass."""
        with np.errstate(invalid="ignore"):
            ratio = self.log_p - self.log_q
        return np.where(np.isneginf(self.log_p), -np.inf, ratio)

    def without_atoms(self, masses: Array) -> Array:
        """Replace the atoms by the masses of the adjacent nodes, because an atom has no kink."""
        if not self.atoms:
            return masses
        p = np.exp(self.log_p)
        ends = np.maximum(masses[[1, -2]], p[[1, -2]])
        return np.concatenate([ends[:1], masses[1:-1], ends[1:]])


class _Quantity(ABC):
    """A number of two laws that exceeds ``threshold`` if the witness is right.

    A number is obtained in three ways: from its value at the nodes; from the rates (p, q) of one
    event under P and Q; and, if ``least`` is not None, from the mean under P of an increasing
    function of log p - log q that is 0 up to ``least``.
    """

    least: float | None = None
    raised_by_p: bool = True  # whether more of P, and less of Q, makes it larger

    def __init__(self, at: float, threshold: float) -> None:
        self.at, self.threshold = at, threshold

    @property
    def is_pure(self) -> bool:
        """Whether it is the largest log-likelihood ratio, epsilon at delta = 0."""
        return False

    @property
    @abstractmethod
    def title(self) -> str:
        """The quantity in words."""

    @abstractmethod
    def value(self, nodes: Nodes) -> float:
        """Return the number, as a sum over nodes."""

    @abstractmethod
    def error(self, nodes: Nodes, value: float) -> float:
        """Return the error of ``value`` from rounding and from kinks between two nodes."""

    @abstractmethod
    def tilt(self, draws: _Draws) -> float:
        """Return the tilt that makes the sums that contribute to the number likely."""

    @abstractmethod
    def by_event(self, p: Array, q: Array) -> Array:
        """Return the number that an event with these rates under P and Q implies."""

    def log_rising(self, ratio: Array) -> Array:
        """Return the logarithm of the increasing function."""
        raise NotImplementedError

    def by_mean(self, mean: float) -> float:
        """Return the number that a mean of the increasing function implies."""
        raise NotImplementedError


class _Epsilon(_Quantity):
    """The epsilon at which delta(epsilon) falls to ``at``; at 0 the largest log p - log q."""

    def __init__(self, at: float, threshold: float) -> None:
        super().__init__(at, threshold)
        self.least = threshold

    @property
    def is_pure(self) -> bool:
        return self.at == 0

    @property
    def title(self) -> str:
        return f"epsilon at delta {self.at:g}"

    def value(self, nodes: Nodes) -> float:
        return epsilon_at(nodes, self.at)

    def error(self, nodes: Nodes, value: float) -> float:
        """Divide the error of delta by its slope: it falls by e^epsilon Q(S) for each unit."""
        if self.is_pure:
            # events and points of a known ratio, not where a difference vanishes
            return _ROUNDING * max(1.0, value)
        chosen = nodes.ratio > value
        if not chosen.any():
            return 0.0
        mass = float(np.sum(np.exp(nodes.log_p[chosen])))
        slope = float(np.exp(value + _log_sum(nodes.log_q[chosen])))
        off = crossing_error(nodes, value) + nodes.mass_error * mass
        rounding = _ROUNDING * max(1.0, value) + nodes.merged
        return off / slope + rounding if slope > 0 else math.inf

    def tilt(self, draws: _Draws) -> float:
        return draws.tail_tilt(self.at, 1.0) if self.at > 0 else 0.0

    def by_event(self, p: Array, q: Array) -> Array:
        """Return log((P(S) - delta)/Q(S)), a lower bound on epsilon at delta."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(p - self.at) - np.log(q)
        return np.asarray(np.nan_to_num(value, nan=0.0, neginf=0.0))

    def log_rising(self, ratio: Array) -> Array:
        return _log_excess(self.threshold, ratio)

    def by_mean(self, mean: float) -> float:
        # delta at the threshold shows that epsilon is larger, but not by how much
        return math.nextafter(self.threshold, math.inf) if mean > self.at else 0.0


class _Renyi(_Quantity):
    """The Renyi divergence of order ``at``."""

    least = -math.inf

    @property
    def title(self) -> str:
        return f"Renyi divergence of order {self.at:g}"

    def value(self, nodes: Nodes) -> float:
        return renyi_at(nodes, self.at)

    def error(self, nodes: Nodes, value: float) -> float:
        return (
            nodes.mass_error * self.at / (self.at - 1) + _ROUNDING * max(1.0, value) + nodes.merged
        )

    def tilt(self, draws: _Draws) -> float:
        return self.at - 1

    def by_event(self, p: Array, q: Array) -> Array:
        """Return the divergence of the two-point laws of an event."""
        a = self.at
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inside = a * np.log(p) + (1 - a) * np.log(q)
            outside = a * np.log1p(-p) + (1 - a) * np.log1p(-q)
            value = np.logaddexp(inside, outside) / (a - 1)
        return np.asarray(np.where(p > q, np.nan_to_num(value, nan=0.0, neginf=0.0), 0.0))

    def log_rising(self, ratio: Array) -> Array:
        return (self.at - 1) * ratio

    def by_mean(self, mean: float) -> float:
        return math.log(mean) / (self.at - 1) if mean > 0 else 0.0


class _Mu(_Quantity):
    """Delta at the epsilon ``at``, compared with the largest delta that the claimed mu allows."""

    def __init__(self, at: float, mu: float) -> None:
        super().__init__(at, gaussian_delta(at, mu))
        self.mu, self.least = mu, at

    @property
    def title(self) -> str:
        return f"delta at epsilon {self.at:g}, against mu = {self.mu:g}"

    def value(self, nodes: Nodes) -> float:
        return math.exp(log_delta(nodes, self.at))

    def error(self, nodes: Nodes, value: float) -> float:
        chosen = nodes.ratio > self.at
        mass = float(np.sum(np.exp(nodes.log_p[chosen])))
        rounding = (nodes.mass_error + nodes.merged) * mass + _ROUNDING * value
        return crossing_error(nodes, self.at) + rounding

    def tilt(self, draws: _Draws) -> float:
        return draws.level_tilt(self.at)

    def by_event(self, p: Array, q: Array) -> Array:
        """Return P(S) - e^epsilon Q(S)."""
        return np.asarray(p - math.exp(self.at) * q)

    def log_rising(self, ratio: Array) -> Array:
        return _log_excess(self.at, ratio)

    def by_mean(self, mean: float) -> float:
        return mean


class _Power(_Quantity):
    """1 - beta: Q(reject) of the best test with P(reject) = ``at``."""

    raised_by_p = False

    @property
    def title(self) -> str:
        return f"1 - beta at alpha {self.at:g}"

    def value(self, nodes: Nodes) -> float:
        rank = np.argsort(nodes.ratio, kind="stable")
        p, q = np.exp(nodes.log_p[rank]), np.exp(nodes.log_q[rank])
        spent, won = np.cumsum(p), np.cumsum(q)
        ends = np.concatenate([[0], spent]), np.concatenate([[0], won])
        return float(np.interp(self.at, *ends))

    def error(self, nodes: Nodes, value: float) -> float:
        """Return twice the masses of the nodes where the test's event ends."""
        rounding = (_ROUNDING + nodes.mass_error + nodes.merged) * value
        if nodes.x is None:
            return rounding
        rank = np.argsort(nodes.ratio, kind="stable")
        spent = np.cumsum(np.exp(nodes.log_p[rank]))
        level = nodes.ratio[rank][min(int(np.searchsorted(spent, self.at)), rank.size - 1)]
        inside = nodes.ratio <= level
        kinks = np.flatnonzero(inside[1:] != inside[:-1])
        ends = np.unique(np.concatenate([kinks, kinks + 1]))
        masses = nodes.without_atoms(np.exp(np.maximum(nodes.log_p, nodes.log_q)))
        return float(2 * np.sum(masses[ends])) + rounding

    def tilt(self, draws: _Draws) -> float:
        return min(draws.tail_tilt(self.at, -1.0), -0.5)  # both laws are near the test's level

    def by_event(self, p: Array, q: Array) -> Array:
        """Return the power of rejecting P outside S, where its type I error is at most alpha."""
        return np.asarray(np.where(1 - p <= self.at, 1 - q, 0.0))


def _quantity_of(content: Plain) -> _Quantity:
    kinds: dict[str, type[_Quantity]] = {
        "epsilon": _Epsilon,
        "Renyi divergence": _Renyi,
        "mu": _Mu,
        "1 - beta": _Power,
    }
    name = content["quantity"]
    if name not in kinds:
        raise ValueError(f"quantity must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name](float(content["at"]), float(content["claimed"]) + float(content["slack"]))


def cells_of(nodes: Nodes, raised_by_p: bool | None = True) -> Nodes:
    """Return the laws of the cell of the line, or of the wall, that contains a point.

    Cells are less distinguishable than points, so their numbers are never too large. Their
    probabilities are integrals of smooth densities: there is no kink between two nodes. A mass that
    is too small relative to its panel to be accurate is omitted from the law whose mass raises the
    number, and counted in full in the other; with None it is counted in both.
    """
    points, weights = np.polynomial.legendre.leggauss(nodes.order)
    edges = np.linspace(-1, 1, _CELLS + 1)
    # integrals of the polynomial through a panel's nodes, by another Gauss-Legendre rule
    inner, inner_weights = np.polynomial.legendre.leggauss(nodes.order)
    half = np.diff(edges)[:, None] / 2
    x = (edges[1:] + edges[:-1])[:, None] / 2 + half * inner
    lagrange = np.ones((*x.shape, points.size))
    for j, k in itertools.permutations(range(points.size), 2):
        lagrange[..., j] *= (x - points[k]) / (points[j] - points[k])
    shares = np.einsum("cij,ci->cj", lagrange, half * inner_weights) / weights
    logs = []
    for log_masses, raises in (
        (nodes.log_p, raised_by_p is True),
        (nodes.log_q, raised_by_p is False),
    ):
        ends = log_masses[[0, -1]] if nodes.atoms else log_masses[:0]
        inside = (log_masses[1:-1] if nodes.atoms else log_masses).reshape(-1, points.size)
        largest = np.max(inside, axis=1, keepdims=True)
        largest = np.where(np.isfinite(largest), largest, 0.0)
        masses = np.exp(inside - largest) @ shares.T
        least = 0.0 if raises else _CELL_FLOOR
        with np.errstate(divide="ignore"):
            cells = np.log(np.where(masses > _CELL_FLOOR, masses, least)) + largest
        logs.append(np.concatenate([cells.ravel(), ends]))
    return Nodes(logs[0], logs[1])


def _log_sum(logs: Array) -> float:
    """Return the log of a sum; many times as fast as SciPy's, which serves any array library."""
    top = float(np.max(logs, initial=-math.inf))
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.sum(np.exp(logs - top))))


def log_delta(nodes: Nodes, epsilon: float) -> float:
    """Return the log of the sum of max(p - e^epsilon q, 0)."""
    chosen = nodes.ratio > epsilon
    if not chosen.any():
        return -math.inf
    gain = np.log(-np.expm1(np.minimum(epsilon - nodes.ratio[chosen], -1e-300)))
    return _log_sum(nodes.log_p[chosen] + gain)


def crossing_error(nodes: Nodes, epsilon: float) -> float:
    """Return the error of the sum in `log_delta`; 0 for finite laws.

    Smooth integrands are summed to many digits. Where log p - log q crosses epsilon between two
    nodes the integrand has a kink, and the sum errs by at most twice the weight of these two.
    """
    if nodes.x is None:
        return 0.0
    above = nodes.ratio > epsilon
    gains = np.exp(nodes.log_p) * -np.expm1(np.minimum(epsilon - nodes.ratio, 0.0))
    kinks = np.flatnonzero(above[1:] != above[:-1])
    return float(2 * np.sum(nodes.without_atoms(gains)[np.concatenate([kinks, kinks + 1])]))


def epsilon_at(nodes: Nodes, delta: float) -> float:
    """Return the epsilon at which delta(epsilon) falls to ``delta``, by bisection."""
    if delta == 0:
        return largest_ratio(nodes)
    low, high = 0.0, 1.0
    if log_delta(nodes, low) <= math.log(delta):
        return 0.0
    while log_delta(nodes, high) > math.log(delta):
        low, high = high, 2 * high
        if high > 1e9:
            return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        if log_delta(nodes, middle) > math.log(delta):
            low = middle
        else:
            high = middle
    return low


def largest_ratio(nodes: Nodes) -> float:
    """Return the largest log-likelihood ratio that is certain: of points, or else of events."""
    if nodes.x is None or nodes.far is not None:  # masses and densities that are formulas
        far = -math.inf if nodes.far is None else float(np.max(nodes.far))
        return max(float(np.max(nodes.ratio)), far, 0.0)
    rank = np.argsort(-nodes.ratio, kind="stable")
    p, q = (np.cumsum(np.exp(logs[rank])) for logs in (nodes.log_p, nodes.log_q))
    likely = p >= _LEAST_EVENT
    return max(float(np.max(np.log(p[likely] / (q[likely] + nodes.lost)))), 0.0)


def renyi_at(nodes: Nodes, alpha: float) -> float:
    """Return the Renyi divergence of order ``alpha``."""
    seen = np.isfinite(nodes.log_p)
    logs = nodes.log_p[seen] + (alpha - 1) * nodes.ratio[seen]
    return _log_sum(logs) / (alpha - 1)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of mu-GDP: Phi(-e/mu + mu/2) - e^e Phi(-e/mu - mu/2)."""
    at = epsilon / mu
    return float(ndtr(mu / 2 - at) - math.exp(epsilon + float(log_ndtr(-mu / 2 - at))))


def _log_excess(epsilon: float, ratio: Array) -> Array:
    """Return the log of 1 - e^(epsilon - ratio), whose mean under P is delta(epsilon)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(np.minimum(epsilon - ratio, 0.0))))


# ---------------------------------------------------------------------------- laws by quadrature


class OutOfReach(Exception):
    """The law takes too long to compute this way; the message says why."""


def nodes_of(pair: Plain, swap: bool, order: int, quantity: _Quantity | None = None) -> Nodes:
    """Return both laws at quadrature nodes, ``order`` of them per panel.

    P is the first law, or the second one with ``swap``. Sums of several draws are laid out for
    ``quantity``. Raises ``OutOfReach`` for laws that take too long, and ``ValueError`` for invalid
    pairs.
    """
    kind = pair.get("kind")
    x: Array | None = None
    atoms, lost, merged = False, 0.0, 0.0
    mass_error = _MASS_ERROR
    if _is_composed(pair):
        return _composed_nodes(pair, swap, order, quantity)
    if kind == "normalvectors":
        return _vector_nodes(pair, swap, order)
    if kind == "finite":
        first, second = _finite_masses(pair)
        mass_error += 1e-15 * float(gammaln(int(pair["times"]) + 1))
    elif kind == "laplacemixtures":
        cells = 2000 if order == _COARSE else 4000
        first, second = _laplace_masses(pair, cells)
        merged = (2 * float(np.ptp(pair["means"])) / float(pair["scale"]) / cells) ** 2
    elif kind == "densities":
        x, weights = _panels(np.linspace(float(pair["low"]), float(pair["high"]), 401), order)
        slope = float(pair["slope"])
        first, second = (s * x + np.log(weights) for s in (slope, -slope))
        first, second = first - _log_sum(first), second - _log_sum(second)
    elif kind in ("mixtures", "process"):
        laws = normals_of(pair, "first"), normals_of(pair, "second")
        atoms = laws[0] is None or laws[1] is None
        if laws[0] is not None and laws[1] is not None:
            x, first, second = _normal_masses(laws[0], laws[1], order)
        else:
            x, first, second = _chain_masses(pair, order)
            ends = (pair["first"]["lower"], pair["first"]["upper"])
            lost = _LOST if None in ends else 0.0
    else:
        raise ValueError(f"pair must be of a known kind, got {kind!r}")
    log_p, log_q = (second, first) if swap else (first, second)
    far = None if x is None else _far_ratios(pair, swap, x)
    return Nodes(log_p, log_q, x, atoms, order, lost, far, mass_error, merged)


def _is_composed(pair: Plain) -> bool:
    """Return whether the laws are of several draws, other than of counts that can be listed."""
    times = int(pair.get("times", 1))
    return times > 1 and (pair["kind"] != "finite" or _counts(pair) > _MOST_COUNTS)


def _counts(pair: Plain) -> int:
    return math.comb(int(pair["times"]) + len(pair["first"]) - 1, len(pair["first"]) - 1)


def _once(pair: Plain) -> Plain:
    """Return the pair of one draw."""
    return {**pair, "times": 1}


def _alike(pair: Plain, swap: bool, order: int) -> Nodes:
    """Return the events that all draws are equal, which have the largest ratio of several draws."""
    nodes, times = nodes_of(_once(pair), swap, order), int(pair["times"])
    far = None if nodes.far is None else times * nodes.far
    return Nodes(times * nodes.log_p, times * nodes.log_q, far=far)


def _composed_nodes(pair: Plain, swap: bool, order: int, quantity: _Quantity | None) -> Nodes:
    """Return the laws of the sum of the losses log p - log q of several draws, on a grid.

    Losses of one draw that round to the same grid point are merged, and so are sums; merged events
    are less distinguishable. Both laws are tilted by e^(theta loss), so that the sums that
    determine ``quantity`` are likely, and convolved by FFT. The possible contribution of rounding
    and of sums beyond the grid is subtracted from the law whose mass raises the number, and added
    to the other one. An event may also be that every draw was one of those that are kept.
    """
    once = nodes_of(_once(pair), swap, order)
    raised_by_p = quantity is None or quantity.raised_by_p
    if once.x is not None:
        once = cells_of(once, raised_by_p)
    times = int(pair["times"])
    both = np.isfinite(once.log_p) & np.isfinite(once.log_q)
    if not both.any():
        raise OutOfReach("one draw distinguishes the laws with certainty")
    inside = np.zeros(once.log_p.size)
    if once.inside is not None:
        inside = once.inside
    elif pair["kind"] != "finite":
        with np.errstate(invalid="ignore"):
            inside = np.nan_to_num(np.gradient(once.ratio), nan=0.0, posinf=0.0, neginf=0.0)
    draws = _Draws(once.log_p[both], once.log_q[both], inside[both], times)
    theta = 0.0 if quantity is None else quantity.tilt(draws)
    log_p, log_q, merged = draws.sums(theta, raised_by_p, 2.0 if order == _COARSE else 1.0)
    # that some draw was one that only P, or only Q, gives
    ends = np.full((2, 2), -np.inf)
    for row, (own, other) in enumerate(((once.log_p, once.log_q), (once.log_q, once.log_p))):
        alone = math.fsum(np.exp(own[np.isneginf(other)]))
        with np.errstate(divide="ignore"):
            ends[row, row] = np.log(-np.expm1(times * np.log1p(-min(alone, 1.0))))
    return Nodes(
        np.append(log_p, ends[0]),
        np.append(log_q, ends[1]),
        mass_error=times * _DRAW_ERROR,
        merged=merged,
    )


class _Draws:
    """Several draws of two laws, given by log masses of one draw that both have."""

    def __init__(self, log_p: Array, log_q: Array, inside: Array, times: int) -> None:
        self.log_p, self.log_q, self.inside, self.times = log_p, log_q, inside, times
        self.loss = log_p - log_q

    def cumulant(self, theta: float) -> tuple[float, float]:
        """Return K = log E_P[e^(theta loss)] of all draws together, and its slope."""
        logs = self.log_p + theta * self.loss
        total = _log_sum(logs)
        return self.times * total, self.times * float(np.exp(logs - total) @ self.loss)

    def tail_tilt(self, probability: float, sign: float) -> float:
        """Return the tilt with theta K' - K = -log(probability).

        P exceeds the mean of the tilted sum with about this probability. The sign of the tilt
        chooses the tail.
        """
        # what all draws at the end of their range have is as far as tilts lead
        ends = sign * self.loss
        last = ends >= np.max(ends) - 1e-9 * float(np.ptp(ends))
        limit = -self.times * min(_log_sum(self.log_p[last]), 0.0)
        goal = min(-math.log(probability), max(limit - 3, limit / 2))

        def exponent(size: float) -> float:
            value, slope = self.cumulant(sign * size)
            return sign * size * slope - value

        return sign * _root(exponent, goal)

    def level_tilt(self, level: float) -> float:
        """Return the tilt of at least 0 that makes ``level`` the mean of the sum."""
        top = self.times * float(np.max(self.loss))
        near = min(level, top - 0.1 * abs(top - self.cumulant(0.0)[1]))
        return _root(lambda theta: self.cumulant(theta)[1], near)

    def sums(self, theta: float, raised_by_p: bool, coarser: float) -> tuple[Array, Array, float]:
        """Return log masses of the sums on a grid ``coarser`` times as wide as the fine one.

        The last number is the approximate increase of losses that are not merged.
        """
        tilted = self.log_p + theta * self.loss
        tilted = tilted - _log_sum(tilted)
        weights = np.exp(tilted)
        kept = weights > _LEAST_TILTED
        weights, tilted, loss = weights[kept], tilted[kept], self.loss[kept]
        mean = float(np.average(loss, weights=weights))
        spread = math.sqrt(float(np.average((loss - mean) ** 2, weights=weights)))
        reach = _reach(tilted, loss - mean, self.times)
        step = coarser * max(spread / 200, 2 * reach / _MOST_SUMS, 1e-12 * max(1.0, abs(mean)))
        if spread > 0 and step > spread / 4 * coarser:
            raise OutOfReach(f"the sums of the losses would take {reach / spread * 400:.2g} points")
        centre = round(mean / step)
        index = np.rint(loss / step).astype(np.int64) - centre
        size = 1 << max(4, math.ceil(math.log2(2.1 * reach / step + 2 * self.times + 2)))
        size = min(size, 4 * _MOST_SUMS)
        sums = (np.arange(size) + size // 2) % size - size // 2  # against times * centre
        found = []
        for log_masses, own, is_p in ((self.log_p, theta, True), (self.log_q, theta + 1, False)):
            logs = log_masses[kept] + own * index * step
            total = _log_sum(logs)
            weighed = np.bincount(index % size, weights=np.exp(logs - total), minlength=size)
            masses = weighed.astype(np.float64)
            law, error = _power_of(masses, self.times)
            beyond = _beyond(logs - total, index, self.times, size // 2)
            with np.errstate(divide="ignore"):
                if is_p is raised_by_p:
                    log_law = np.log(np.maximum(law - error - beyond, 0.0))
                else:
                    log_law = np.log(np.maximum(law, 0.0) + error)
            found.append(log_law + self.times * total - own * step * sums)
        seen = np.isfinite(found[0] if raised_by_p else found[1])
        # rounding and cells hide, of each draw, losses of about this variance
        hidden = (step**2 + float(weights @ self.inside[kept] ** 2)) / 12
        return found[0][seen], found[1][seen], (1 + abs(theta)) * self.times * hidden / 2


def _root(rising: Callable[[float], float], goal: float) -> float:
    """Return the argument in [0, 2^20] at which an increasing function reaches ``goal``."""
    low, high = 0.0, 1.0
    if rising(low) >= goal:
        return 0.0
    while high < 2.0**20 and rising(high) < goal:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < goal else (low, middle)
    return high


def _reach(tilted: Array, centred: Array, times: int) -> float:
    """Return the largest likely distance from 0 of a sum of centred losses (Chernoff)."""
    variance = float(np.exp(tilted) @ centred**2)
    if variance == 0:
        return 0.0
    found = 0.0
    for sign in (1.0, -1.0):
        scales = np.geomspace(1e-4, 4, 60) * math.sqrt(80 / (times * variance))
        logs = np.array([_log_sum(tilted + sign * u * centred) for u in scales])
        found = max(found, float(np.min((times * logs + 44) / scales)))
    return found


def _beyond(log_masses: Array, index: NDArray[np.int64], times: int, half: int) -> float:
    """Return a bound on the mass of sums at least ``half`` away from 0 (Chernoff)."""
    variance = float(np.exp(log_masses) @ (index * 1.0) ** 2)
    if variance == 0:
        return 0.0
    bound = 0.0
    for sign in (1.0, -1.0):
        scales = np.geomspace(1e-4, 4, 60) * half / (times * variance)
        logs = [_log_sum(log_masses + sign * u * index) for u in scales]
        bound += math.exp(min(0.0, float(np.min(times * np.array(logs) - scales * half))))
    return bound


def _power_of(masses: Array, times: int) -> tuple[Array, float]:
    """Return the circular convolution of so many laws, and a bound on the error of each entry.

    A value of the transform is off by at most c u log2(n), of masses that add up to 1 (Higham
    2002, Theorem 24.2), and its power by ``times`` times as much; the inverse averages these.
    """
    size, unit = masses.size, 2.0**-53
    once = unit * 8 * math.log2(size)
    transform = np.fft.rfft(masses)
    law = np.fft.irfft(_complex_power(transform, times), size)
    largest = np.minimum(np.abs(transform) + once, 1.0 + once)
    rates = float(2 * np.sum(largest ** (times - 1))) / size  # of half of the frequencies
    return law, rates * ((once + 3 * unit) * times + once)


def _complex_power(base: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Return a power by squaring, whose error is known: about 3 u times the exponent."""
    result = np.ones_like(base)
    while times:
        if times & 1:
            result = result * base
        base, times = base * base, times >> 1
    return result


def _laplace_masses(pair: Plain, cells: int) -> tuple[Array, Array]:
    """Return the log probabilities of narrow cells between the outermost means, and beyond them.

    Beyond them the log-likelihood ratio is constant.
    """
    means, scale = np.array(pair["means"], dtype=float), float(pair["scale"])
    kinks = np.unique(means)
    edges = [np.linspace(a, b, cells + 1)[1:] for a, b in itertools.pairwise(kinks)]
    x = np.concatenate([[-np.inf], kinks[:1], *edges, [np.inf]])[:, None]
    # of every Laplace law, the side of its mean with the smaller probabilities
    low, high = (x[:-1] - means) / scale, (x[1:] - means) / scale
    low, high = np.where(low >= 0, -high, low), np.where(low >= 0, -low, high)
    with np.errstate(divide="ignore"):
        logs = high - math.log(2) + np.log(-np.expm1(low - high))
        found = [
            np.asarray(logsumexp(logs, axis=1, b=np.array(pair[name])))
            for name in ("first", "second")
        ]
    return found[0], found[1]


def _far_ratios(pair: Plain, swap: bool, x: Array) -> Array | None:
    """Return log p - log q at the ends of the nodes and, on a line, far beyond them."""
    ratio = closed_ratio(pair, swap)
    if ratio is None:
        return None
    if pair["kind"] == "densities":
        return ratio(np.array([float(pair["low"]), float(pair["high"])]))
    middle, reach = (x[0] + x[-1]) / 2, (x[-1] - x[0]) / 2
    far = middle + reach * np.concatenate([-np.geomspace(1, 1e6, 61), np.geomspace(1, 1e6, 61)])
    return ratio(far)


def _panels(edges: Array, order: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on the panels between edges."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * nodes).ravel(), (half * weights).ravel()


def _finite_masses(pair: Plain) -> tuple[Array, Array]:
    """Return the log probabilities of all counts of ``times`` draws."""
    times, outcomes = int(pair["times"]), len(pair["first"])
    # bars between stars: every way to share the draws among the outcomes
    bars = np.array(list(itertools.combinations(range(times + outcomes - 1), outcomes - 1)))
    ends = np.full((len(bars), 1), times + outcomes - 1)
    counts = np.diff(np.hstack([np.full((len(bars), 1), -1), bars, ends]), axis=1) - 1
    ways = gammaln(times + 1) - gammaln(counts + 1).sum(axis=1)
    logs = []
    for name in ("first", "second"):
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(counts > 0, counts * np.log(np.asarray(pair[name], dtype=float)), 0.0)
        logs.append(ways + terms.sum(axis=1))
    return logs[0], logs[1]


def normals_of(pair: Plain, name: str) -> Normals | None:
    """Return a law as a mixture of normals, or None if it has no such closed form.

    A chain has one if it has no walls and only straight maps: each sequence of maps gives a normal.
    """
    law = pair[name]
    if pair["kind"] == "mixtures":
        return list(zip(law["weights"], law["means"], law["stds"], strict=True))
    if law["lower"] is not None or law["upper"] is not None:
        return None
    found: Normals = []
    for path in law["paths"]:
        branches: list[Motion] = [(path["probability"], 1.0, 0.0, 0.0)]
        for segment in path["segments"]:
            steps, times = [_motions(step) for step in segment["steps"]], segment["times"]
            if all(len(options) == 1 for options in steps):
                once = functools.reduce(_then, (motion for (motion,) in steps), _STAY)
                steps, times = [[_power(once, times)]], 1
            for options in itertools.chain.from_iterable(itertools.repeat(steps, times)):
                if not options or len(branches) > _MOST_BRANCHES:
                    return None
                branches = _merged(
                    [_then(branch, motion) for branch in branches for motion in options]
                )
        found += [(p, a * law["start"] + b, math.sqrt(v)) for p, a, b, v in branches]
    return found


def _motions(step: Plain) -> list[Motion]:
    """Return the motions that a step chooses from; none if a map has bends or a memory."""
    lines = [_straight(phi) for phi in step["maps"]]
    return [
        (phi["weight"], *line, step["noise_std"] ** 2)
        for phi, line in zip(step["maps"], lines, strict=True)
        if line is not None and None not in lines and "from" not in phi
    ]


def _then(first: Motion, second: Motion) -> Motion:
    (p, a, b, v), (q, c, d, w) = first, second
    return p * q, c * a, c * b + d, c * c * v + w


def _merged(motions: list[Motion]) -> list[Motion]:
    """Return each different motion once; many sequences of shifts give the same sum."""
    weights: dict[tuple[float, float, float], Motion] = {}
    for p, a, b, v in motions:
        key = (float(f"{a:.11g}"), float(f"{v:.11g}"), round(b / math.sqrt(v), 9))
        weights[key] = (weights[key][0] + p, *weights[key][1:]) if key in weights else (p, a, b, v)
    return list(weights.values())


def _power(motion: Motion, times: int) -> Motion:
    result = _STAY
    while times:
        if times & 1:
            result = _then(result, motion)
        motion, times = _then(motion, motion), times >> 1
    return result


def _straight(phi: Plain) -> tuple[float, float] | None:
    """Return slope and shift of a line without bends, or None."""
    if "edges" in phi:
        return None
    slope = phi["slopes"][0]
    at = np.array([phi["points"][0], phi["points"][-1]])
    line = phi["values"][0] + slope * (at - at[0])
    bent = phi["slopes"][1] != slope or not np.allclose(line[-1], phi["values"][-1], rtol=1e-12)
    if bent or len(phi["points"]) > 2:
        return None
    return float(slope), float(phi["values"][0] - slope * phi["points"][0])


def log_density(normals: Normals, x: Array) -> Array:
    """Return the log density of a mixture of normals."""
    parts = [
        math.log(weight) - 0.5 * ((x - mean) / std) ** 2 - math.log(std * math.sqrt(2 * math.pi))
        for weight, mean, std in normals
        if weight > 0
    ]
    return np.asarray(parts[0] if len(parts) == 1 else logsumexp(parts, axis=0))


def _normal_masses(first: Normals, second: Normals, order: int) -> tuple[Array, Array, Array]:
    shapes = sorted({(mean, std) for _, mean, std in [*first, *second]})
    grid = np.linspace(-38, 38, 305 if len(shapes) > 4 else 1217)
    if len(shapes) > 100:
        raise OutOfReach(f"the laws are mixtures of {len(shapes)} normals")
    x, weights = _panels(np.unique(np.concatenate([m + s * grid for m, s in shapes])), order)
    log_weights = np.log(np.maximum(weights, 1e-300))
    return x, log_density(first, x) + log_weights, log_density(second, x) + log_weights


def _vectors(pair: Plain, name: str) -> Array:
    """Return the values of C g of a law, one row each."""
    strategy = np.array(pair["strategy"], dtype=float)
    return np.asarray(np.array(pair[name]["vectors"], dtype=float) @ strategy.T)


def _vector_nodes(pair: Plain, swap: bool, order: int) -> Nodes:
    """Return the laws of one draw of a normal vector, on the line or plane of its means.

    White noise is the same along all axes, and parts that have one law under P and Q tell nothing.
    """
    means = [_vectors(pair, name) for name in ("first", "second")]
    together = np.concatenate(means)
    _, lengths, axes = np.linalg.svd(together - together[0], full_matrices=False)
    rank = max(1, int(np.count_nonzero(lengths > 1e-9 * max(lengths[0], 1e-300))))
    places = [(rows - together[0]) @ axes[:rank].T for rows in means]
    std = float(pair["noise_std"])
    if rank == 1:
        laws = {
            name: {
                "weights": pair[name]["weights"],
                "means": rows[:, 0].tolist(),
                "stds": [std] * len(rows),
            }
            for name, rows in zip(("first", "second"), places, strict=True)
        }
        return nodes_of({"kind": "mixtures", "times": 1, **laws}, swap, order)
    if rank > 2:
        raise OutOfReach(f"the means span {rank} dimensions")
    width = std * (0.2 if order == _COARSE else 0.1)
    ends = np.concatenate(places)
    low, high = ends.min(axis=0) - _REACH * std, ends.max(axis=0) + _REACH * std
    edges = [
        np.append(np.append(-np.inf, np.arange(a, b, width)), np.inf)
        for a, b in zip(low, high, strict=True)
    ]
    if edges[0].size * edges[1].size > _MOST_RECTANGLES:
        raise OutOfReach(f"the plane would take {edges[0].size * edges[1].size} rectangles")
    names = ("second", "first") if swap else ("first", "second")
    logs = [
        logsumexp(
            [
                math.log(weight)
                + np.add.outer(
                    *(
                        _log_between((edge - end) / std)
                        for edge, end in zip(edges, mean, strict=True)
                    )
                )
                for weight, mean in zip(
                    pair[name]["weights"], places[name == "second"], strict=True
                )
                if weight > 0
            ],
            axis=0,
        )
        for name in names
    ]
    log_p, log_q = logs
    inside = np.hypot(*np.gradient(log_p - log_q))
    return Nodes(
        log_p.ravel(), log_q.ravel(), merged=float(inside.max()) ** 2, inside=inside.ravel()
    )


def _log_between(edges: Array) -> Array:
    """Return the log probabilities of a standard normal law between edges."""
    low, high = edges[:-1], edges[1:]
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    above = log_ndtr(high)
    return np.asarray(above + np.log(-np.expm1(np.minimum(log_ndtr(low) - above, -1e-300))))


def _steps_of(path: Plain) -> list[Plain]:
    """Return every step of a path, in order."""
    return [
        step
        for segment in path["segments"]
        for _ in range(segment["times"])
        for step in segment["steps"]
    ]


def _moved(phi: Plain, x: Array) -> Array:
    """Apply a piecewise linear map, or one that is constant between jumps."""
    if "edges" in phi:
        return _on_stairs(phi, x)
    points, values = phi["points"], phi["values"]
    inside = np.interp(x, points, values)
    below, above = np.minimum(x - points[0], 0.0), np.maximum(x - points[-1], 0.0)
    return np.asarray(inside + phi["slopes"][0] * below + phi["slopes"][1] * above)


def _on_stairs(phi: Plain, x: Array) -> Array:
    values = np.array(phi["values"], dtype=float)
    index = np.searchsorted(np.array(phi["edges"], dtype=float), x, side="right") - 1
    inside = values[np.clip(index, 0, values.size - 1)]
    beyond = np.where(index < 0, x + phi["stride"], x - phi["stride"])
    return np.asarray(np.where((index >= 0) & (index < values.size), inside, beyond))


def _slopes(phi: Plain) -> list[float]:
    inner = np.diff(phi["values"]) / np.diff(phi["points"])
    return [*phi["slopes"], *inner.tolist()]


def _chain_masses(pair: Plain, order: int) -> tuple[Array, Array, Array]:
    """Return [lower wall, nodes, upper wall] and the log masses of two chains there."""
    laws = [pair["first"], pair["second"]]
    steps = [step for law in laws for path in law["paths"] for step in _steps_of(path)]
    if not steps:
        raise ValueError("paths must have steps, got none")
    domains = {(law["lower"], law["upper"]) for law in laws}
    if len(domains) != 1:
        raise ValueError(f"both laws must have one domain, got {domains}")
    ((lower, upper),) = domains
    stairs = ["edges" in phi for step in steps for phi in step["maps"]]
    if all(stairs) and lower is None and upper is None:
        return _stair_masses(laws, steps, order)
    if any(stairs):
        raise OutOfReach("some maps have jumps")
    reached = [_range(law) for law in laws]
    low = min(r[0] for r in reached) if lower is None else lower
    high = max(r[1] for r in reached) if upper is None else upper
    slopes = [abs(s) for step in steps for phi in step["maps"] for s in _slopes(phi)]
    width = min(step["noise_std"] for step in steps) / max(1.0, *slopes)
    # finer where that is cheap: a kink is lost between two nodes
    width /= min(16, max(1, int(_PANELS * width / (high - low))))
    bends = {p for step in steps for phi in step["maps"] for p in phi["points"] if low < p < high}
    edges = [
        np.linspace(a, b, max(1, math.ceil((b - a) / width)) + 1)
        for a, b in itertools.pairwise([low, *sorted(bends), high])
    ]
    x, weights = _panels(np.unique(np.concatenate(edges)), order)
    if x.size > _MOST_NODES or x.size**2 * len(steps) > _MOST_WORK:
        raise OutOfReach(f"the chain would take {x.size} nodes over {len(steps)} steps")
    points = np.concatenate([[low], x, [high]])
    first, second = (np.log(_masses_of(law, points, weights)) for law in laws)
    return points, first, second


def _stair_masses(laws: list[Plain], steps: list[Plain], order: int) -> tuple[Array, Array, Array]:
    """Return what `_chain_masses` does if every map is constant between jumps.

    The state after a map is one of finitely many values, and the chain of the intervals between all
    jumps is finite. The law of the last iterate is a mixture of normals around the values.
    """
    edges = np.unique(np.concatenate([phi["edges"] for step in steps for phi in step["maps"]]))
    mixtures = [_mixture_on_stairs(law, edges) for law in laws]
    means = [mean for normals in mixtures for _, mean, _ in normals]
    stds = [std for normals in mixtures for _, _, std in normals]
    low, high = min(means) - _REACH * max(stds), max(means) + _REACH * max(stds)
    panels = math.ceil(4 * (high - low) / min(stds))
    if panels * order * max(map(len, mixtures)) > _MOST_STAIRS:
        raise OutOfReach(f"the law is a mixture of {len(means)} normals over {panels} panels")
    x, weights = _panels(np.linspace(low, high, panels + 1), order)
    first, second = (
        np.concatenate([[_NOTHING], log_density(normals, x) + np.log(weights), [_NOTHING]])
        for normals in mixtures
    )
    return np.concatenate([[low], x, [high]]), first, second


def _mixture_on_stairs(law: Plain, edges: Array) -> Normals:
    """Return the law of a chain on stairs as a mixture of normals."""
    middles = (edges[1:] + edges[:-1]) / 2
    found: dict[tuple[float, float], float] = {}
    for path in law["paths"]:
        start = np.zeros(middles.size)
        start[np.searchsorted(edges, float(law["start"]), side="right") - 1] = 1.0
        states, steps = {0: start}, _steps_of(path)
        for number, step in enumerate(steps, start=1):
            std, moved = float(step["noise_std"]), dict[int, Array]()
            for before, after, weight, part in _parts_of(step, list(states)):
                for phi in part["maps"]:
                    ends, index = np.unique(_moved(phi, middles), return_inverse=True)
                    share = weight * phi["weight"]
                    masses = np.bincount(index.ravel(), share * states[before], ends.size)
                    if number == len(steps):
                        for end, mass in zip(ends.tolist(), masses.tolist(), strict=True):
                            key = end, std
                            found[key] = found.get(key, 0.0) + path["probability"] * mass
                        continue
                    between = _log_between((edges[:, None] - ends) / std)
                    moved[after] = np.asarray(moved.get(after, 0.0) + np.exp(between) @ masses)
            states = moved
    lost = 1 - math.fsum(found.values())
    if lost > _MASS_ERROR:
        raise OutOfReach(f"a share {lost:.1g} of the draws leaves the stairs")
    return [(mass, end, std) for (end, std), mass in found.items() if mass > _FLOOR]


def _range(law: Plain) -> tuple[float, float]:
    """Return the range of a chain without walls, up to its far tails."""
    lowest = highest = float(law["start"])
    for path in law["paths"]:
        low = high = float(law["start"])
        variance = 0.0
        for step in _steps_of(path):
            at = np.linspace(low, high, 65)
            images = [_moved(phi, at) for phi in step["maps"]]
            low, high = min(i.min() for i in images), max(i.max() for i in images)
            slope = max(abs(s) for phi in step["maps"] for s in _slopes(phi))
            variance = slope**2 * variance + step["noise_std"] ** 2
            reach = _REACH * math.sqrt(variance)
            lowest, highest = min(lowest, low - reach), max(highest, high + reach)
    return lowest, highest


def _masses_of(law: Plain, points: Array, weights: Array) -> Array:
    """Return a chain's masses at [lower wall, nodes, upper wall]; open sides drop theirs."""
    kernels: dict[str, Array] = {}
    total = np.zeros(points.size)
    for path in law["paths"]:
        states: dict[int, Array] | None = None  # by memory
        for step in _steps_of(path):
            moved: dict[int, Array] = {}
            memories = [0] if states is None else list(states)
            for before, after, weight, part in _parts_of(step, memories):
                if states is None:
                    at = np.array([float(law["start"])])
                    image = _kernel(law, part, at, points, weights)[:, 0]
                else:
                    key = repr(part)
                    if key not in kernels:
                        if len(kernels) >= 6:
                            kernels.clear()
                        kernels[key] = _kernel(law, part, points, points, weights)
                    image = kernels[key] @ states[before]
                moved[after] = moved.get(after, 0.0) + weight * image
            states = moved
        for state in (states or {}).values():
            total += path["probability"] * state
    return np.maximum(total, _FLOOR)


def _parts_of(step: Plain, memories: list[int]) -> list[tuple[int, int, float, Plain]]:
    """Return (memory before, memory after, probability, the maps in between) of a step."""
    if "from" not in step["maps"][0]:
        return [(memory, memory, 1.0, step) for memory in memories]
    found: dict[tuple[int, int], list[Plain]] = {}
    for phi in step["maps"]:
        if phi["from"] in memories:
            found.setdefault((phi["from"], phi["to"]), []).append(phi)
    parts: list[tuple[int, int, float, Plain]] = []
    for (before, after), maps in found.items():
        total = math.fsum(phi["weight"] for phi in maps)
        shares = [
            {**phi, "weight": phi["weight"] / total, "from": 0, "to": 0}  # one kernel for many
            for phi in maps
        ]
        parts.append((before, after, total, {**step, "maps": shares}))
    return parts


def _kernel(law: Plain, step: Plain, at: Array, points: Array, weights: Array) -> Array:
    """Return the masses at ``points`` after one step from each of ``at``, shape (points, at)."""
    std = step["noise_std"]
    kernel = np.zeros((points.size, at.size))
    for phi in step["maps"]:
        image = _moved(phi, at)
        scaled = (points[1:-1, None] - image) / std
        inner = np.exp(-0.5 * scaled**2) / (std * math.sqrt(2 * math.pi)) * weights[:, None]
        low = ndtr((points[0] - image) / std) if law["lower"] is not None else 0 * image
        high = ndtr((image - points[-1]) / std) if law["upper"] is not None else 0 * image
        kernel += phi["weight"] * np.vstack([low, inner, high])
    for wall, end, row in (("lower_wall", law["lower"], 0), ("upper_wall", law["upper"], -1)):
        if end is not None and law[wall] == "absorb":
            stuck = at == end
            kernel[:, stuck] = 0.0
            kernel[row, stuck] = 1.0
    return kernel


# ---------------------------------------------------------------------------- draws


def drawing(pair: Plain, name: str, *, follow: bool = True) -> Draw:
    """Return a function that draws ``count`` independent values of a law.

    A chain is simulated step by step, unless ``follow`` is False and its law is a mixture of
    normals in closed form. For a finite law the value is the log-likelihood ratio of the draws.
    """
    kind = pair["kind"]
    if _is_composed(pair):
        return _composed_drawing(pair, name)
    if kind == "normalvectors":
        return _vector_drawing(pair, name)
    if kind == "finite":
        return _finite_drawing(pair, name)
    if kind == "laplacemixtures":
        return _laplace_drawing(pair, name)
    if kind == "densities":
        slope = float(pair["slope"]) * (1 if name == "first" else -1)
        low, width = float(pair["low"]), float(pair["high"]) - float(pair["low"])

        def exponential(rng: np.random.Generator, count: int) -> Array:
            u = rng.random(count)
            return np.asarray(low + np.log1p(u * np.expm1(slope * width)) / slope)

        return exponential
    if kind == "mixtures" or not follow:
        normals = normals_of(pair, name)
        assert normals is not None
        return _normal_drawing(normals)
    return lambda rng, count: _follow_chain(pair[name], rng, count)


def _normal_drawing(normals: Normals) -> Draw:
    weights, means, stds = (np.array(column) for column in zip(*normals, strict=True))

    def draw(rng: np.random.Generator, count: int) -> Array:
        if weights.size == 1:
            return np.asarray(means[0] + stds[0] * rng.standard_normal(count))
        which = rng.choice(weights.size, size=count, p=weights / weights.sum())
        return np.asarray(means[which] + stds[which] * rng.standard_normal(count))

    return draw


def _vector_drawing(pair: Plain, name: str) -> Draw:
    """Draw whole vectors C g + Z, one row each."""
    means, weights = _vectors(pair, name), np.array(pair[name]["weights"], dtype=float)

    def draw(rng: np.random.Generator, count: int) -> Array:
        which = rng.choice(weights.size, size=count, p=weights / weights.sum())
        noise = float(pair["noise_std"]) * rng.standard_normal((count, means.shape[1]))
        return np.asarray(means[which] + noise)

    return draw


def _vector_ratio(pair: Plain, x: Array) -> Array:
    """Return log p - log q of the first against the second law; what both share is left out."""
    variance = float(pair["noise_std"]) ** 2
    logs = []
    for name in ("first", "second"):
        means, weights = _vectors(pair, name), np.array(pair[name]["weights"], dtype=float)
        kept = weights > 0
        offsets = np.log(weights[kept]) - np.sum(means[kept] ** 2, axis=1) / (2 * variance)
        logs.append(logsumexp(x @ means[kept].T / variance + offsets, axis=1))
    return np.asarray(logs[0] - logs[1])


def _composed_drawing(pair: Plain, name: str) -> Draw:
    """Draw the sum of first against second log-likelihood ratios of several draws."""
    times, once = int(pair["times"]), drawing(_once(pair), name)
    ratio = closed_ratio(_once(pair), False)
    assert ratio is not None  # of all kinds that have times

    def draw(rng: np.random.Generator, count: int) -> Array:
        total = np.zeros(count)
        for _ in range(times):
            total += ratio(once(rng, count))
        return total

    return draw


def _laplace_drawing(pair: Plain, name: str) -> Draw:
    means, weights = np.array(pair["means"], dtype=float), np.array(pair[name], dtype=float)

    def draw(rng: np.random.Generator, count: int) -> Array:
        which = rng.choice(means.size, size=count, p=weights / weights.sum())
        return np.asarray(means[which] + rng.laplace(scale=float(pair["scale"]), size=count))

    return draw


def _finite_drawing(pair: Plain, name: str) -> Draw:
    first, second = np.array(pair["first"], dtype=float), np.array(pair["second"], dtype=float)
    with np.errstate(divide="ignore"):
        gains = np.log(first) - np.log(second)
    own = first if name == "first" else second
    possible = own > 0
    below = np.cumsum(own) / own.sum()

    def draw_once(rng: np.random.Generator, count: int) -> Array:
        return np.asarray(gains[np.searchsorted(below[:-1], rng.random(count), side="right")])

    def draw(rng: np.random.Generator, count: int) -> Array:
        counts = rng.multinomial(int(pair["times"]), own / own.sum(), size=count)
        gained = np.where(counts[:, possible] > 0, counts[:, possible] * gains[possible], 0.0)
        return np.asarray(gained.sum(axis=1))

    return draw_once if int(pair["times"]) == 1 else draw


def _follow_chain(law: Plain, rng: np.random.Generator, count: int) -> Array:
    lower = -np.inf if law["lower"] is None else law["lower"]
    upper = np.inf if law["upper"] is None else law["upper"]
    odds = np.array([path["probability"] for path in law["paths"]], dtype=float)
    parts = []
    for path, size in zip(law["paths"], rng.multinomial(count, odds / odds.sum()), strict=True):
        x, memory = np.full(size, float(law["start"])), np.zeros(size, dtype=int)
        for step in _steps_of(path):
            y = _mapped(step, rng, x, memory) + step["noise_std"] * rng.standard_normal(size)
            y = np.clip(y, lower, upper)
            if law["lower_wall"] == "absorb":
                y = np.where(x <= lower, x, y)
            if law["upper_wall"] == "absorb":
                y = np.where(x >= upper, x, y)
            x = y
        parts.append(x)
    return np.concatenate(parts)


def _mapped(step: Plain, rng: np.random.Generator, x: Array, memory: NDArray[np.int_]) -> Array:
    """Draw a map for each state, apply it and update the memories."""
    maps = step["maps"]
    if "from" in maps[0]:
        y, moved = np.empty_like(x), memory.copy()
        for state in np.unique(memory):
            here = np.flatnonzero(memory == state)
            own = [phi for phi in maps if phi["from"] == state]
            below = np.cumsum([phi["weight"] for phi in own])
            which = np.searchsorted(below / below[-1], rng.random(here.size), side="right")
            for k, phi in enumerate(own):
                y[here[which == k]] = _moved(phi, x[here[which == k]])
                moved[here[which == k]] = phi["to"]
        memory[:] = moved
        return y
    if len(maps) == 1:
        return _moved(maps[0], x)
    below = np.cumsum([phi["weight"] for phi in maps])
    which = np.searchsorted(below / below[-1], rng.random(x.size), side="right")
    y = np.empty_like(x)
    for k, phi in enumerate(maps):
        here = which == k
        y[here] = _moved(phi, x[here])
    return y


def closed_ratio(pair: Plain, swap: bool) -> Ratio | None:
    """Return log p - log q as a formula of the drawn value, or None without a formula."""
    sign = -1.0 if swap else 1.0
    if pair["kind"] == "finite" or _is_composed(pair):
        return lambda value: sign * value
    if pair["kind"] == "laplacemixtures":
        return lambda value: sign * _laplace_ratio(pair, value)
    if pair["kind"] == "normalvectors":
        return lambda value: sign * _vector_ratio(pair, value)
    if pair["kind"] == "densities":
        slope, ends = float(pair["slope"]), np.array([float(pair["low"]), float(pair["high"])])
        # both densities are exponentials over their integrals
        constant = logsumexp(-slope * ends, b=[1, -1]) - logsumexp(slope * ends, b=[-1, 1])
        return lambda value: sign * (2 * slope * value + constant)
    first, second = normals_of(pair, "first"), normals_of(pair, "second")
    if first is None or second is None:
        return None
    return lambda value: sign * (log_density(first, value) - log_density(second, value))


def _laplace_ratio(pair: Plain, x: Array) -> Array:
    means = np.array(pair["means"], dtype=float)
    logs = [np.full(x.shape, -np.inf), np.full(x.shape, -np.inf)]
    for mean, *weights in zip(means, pair["first"], pair["second"], strict=True):
        gap = -np.abs(x - mean) / float(pair["scale"])
        for which, weight in enumerate(weights):
            if weight > 0:
                logs[which] = np.logaddexp(logs[which], gap + math.log(weight))
    return np.asarray(logs[0] - logs[1])


def _table(nodes: Nodes) -> Ratio:
    """Return the ratio by quadrature as a fixed function of the state, exact at the walls."""
    assert nodes.x is not None
    x, values = nodes.x, nodes.ratio
    inner_x, inner = x[1:-1], np.maximum(values[1:-1], -1e300)

    def ratio(state: Array) -> Array:
        found = np.interp(state, inner_x, inner)
        found = np.where(state <= x[0], values[0], found)
        return np.where(state >= x[-1], values[-1], found)

    return ratio


# ---------------------------------------------------------------------------- certificates


def upper_limit(hits: Array | float, draws: float, error: float = ERROR) -> Array:
    """Return the Clopper-Pearson upper limit of a probability."""
    count = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        limit = beta.isf(error, count + 1, np.maximum(draws - count, 1e-300))
    return np.asarray(np.where(count >= draws, 1.0, limit))


def lower_limit(hits: Array | float, draws: float, error: float = ERROR) -> Array:
    """Return the Clopper-Pearson lower limit of a probability."""
    count = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        limit = beta.ppf(error, np.maximum(count, 1e-300), draws - count + 1)
    return np.asarray(np.where(count <= 0, 0.0, limit))


def _unlucky(rate: Array, draws: int) -> Array:
    """Return a count three standard deviations below the mean, for planning."""
    mean = rate * draws
    return np.asarray(np.maximum(mean - 3 * np.sqrt(mean * (1 - rate)) - 1, 0.0))


def _lucky(rate: Array, draws: int) -> Array:
    """Return a count three standard deviations above the mean, for planning."""
    mean = rate * draws
    return np.asarray(np.minimum(mean + 3 * np.sqrt(mean * (1 - rate)) + 1, float(draws)))


def _best_event(nodes: Nodes, quantity: _Quantity, draws: int) -> tuple[float, float]:
    """Return the level of the event {log p - log q > level} with the largest expected bound.

    The second number is the expected bound, with this many draws.
    """
    rank = np.argsort(-nodes.ratio, kind="stable")
    p, q = np.cumsum(np.exp(nodes.log_p[rank])), np.cumsum(np.exp(nodes.log_q[rank]))
    # a threshold between two nodes that differ
    level = nodes.ratio[rank]
    cut = np.flatnonzero(level[:-1] > level[1:] + 1e-12)
    if cut.size == 0:
        return 0.0, 0.0
    if cut.size > 4000:
        cut = cut[:: cut.size // 4000]
    few, many = _unlucky(np.clip(p[cut], 0, 1), draws), _lucky(np.clip(q[cut], 0, 1), draws)
    planned = quantity.by_event(lower_limit(few, draws), upper_limit(many, draws))
    best = int(np.argmax(planned))
    # just above the ratio of the first excluded node, so that its rounding does not matter
    middle = float(level[cut[best]] + level[cut[best] + 1]) / 2
    threshold = middle if math.isfinite(middle) else float(level[cut[best]]) - 1e-9
    return threshold, float(planned[best])


@dataclass(frozen=True)
class Ladder:
    """Ascending ``levels`` of a variable W, and the increase of e^W from each level to the next."""

    levels: Array
    rises: Array

    def mean_at_least(self, hits: Array, draws: int) -> float:
        """Return a lower limit of E[e^W] from the numbers of draws with W above each level.

        e^W is at least the sum of the increases at the levels below W; the levels share the error.
        """
        if self.levels.size == 0:
            return 0.0
        return float(np.sum(self.rises * lower_limit(hits, draws, ERROR / self.levels.size)))


def ladder(values: Array, log_masses: Array) -> Ladder:
    """Return levels at quantiles of a variable W, finer in its upper tail.

    ``values`` and ``log_masses`` are W and its law by quadrature.
    """
    rank = np.argsort(values, kind="stable")
    beyond = np.cumsum(np.exp(log_masses[rank][::-1]))[::-1]  # P(W >= this)
    half = _LEVELS // 2
    goals = np.concatenate([np.linspace(1 - 1e-3, 0.02, half), np.geomspace(0.02, 1e-8, half)])
    places = np.searchsorted(-beyond, -goals)
    levels = values[rank][places[places < rank.size]]
    levels = np.unique(levels[np.isfinite(levels) & (levels < _LARGEST_LOG)])
    return Ladder(levels, np.diff(np.exp(levels), prepend=0.0))


@dataclass(frozen=True, eq=False)
class _Mean:
    """Draws from a proposal, with the log W of their weighted values, whose mean is bounded below.

    The mean of e^W under the proposal is that of the quantity's increasing function under P.
    """

    draw: Draw
    log_weight: Ratio
    values: Array  # W by quadrature, and its law, to plan with
    log_masses: Array
    how: str

    @functools.cached_property
    def ladder(self) -> Ladder:
        """Levels of W."""
        return ladder(self.values, self.log_masses)

    def planned(self, count: int) -> float:
        """Return the mean that this many draws are expected to certify."""
        masses = np.exp(self.log_masses)
        rates = np.array([np.sum(masses[self.values > level]) for level in self.ladder.levels])
        return self.ladder.mean_at_least(_unlucky(np.minimum(rates, 1.0), count), count)


def _means(
    pair: Plain, name: str, quantity: _Quantity, nodes: Nodes, draw: Draw, ratio: Ratio
) -> list[_Mean]:
    """Return the ways to bound the mean of the increasing function under P.

    One of them may use importance sampling, from a normal law around the region that determines the
    mean.
    """
    least = quantity.least
    if least is None:
        return []

    def log_value(at: Array) -> Array:
        return np.where(at > least, quantity.log_rising(at), -np.inf)

    values = log_value(nodes.ratio)
    how = "draws of one law, log p - log q by formula"
    plain = _Mean(draw, lambda state: log_value(ratio(state)), values, nodes.log_p, how)
    single = pair["kind"] in ("mixtures", "process") and not _is_composed(pair)
    normals = normals_of(pair, name) if single else None
    if nodes.x is None or normals is None or not np.isfinite(np.max(nodes.log_p + values)):
        return [plain]
    shares = np.exp(nodes.log_p + values - logsumexp(nodes.log_p + values))
    mean = float(shares @ nodes.x)
    spread = math.sqrt(float(shares @ (nodes.x - mean) ** 2))
    std = _WIDER * max(spread, 1e-3 * min(std for _, _, std in normals))
    proposal = [(1.0, mean, std)]

    def log_factor(state: Array) -> Array:
        return log_density(normals, state) - log_density(proposal, state)

    weighed = _Mean(
        _normal_drawing(proposal),
        lambda state: log_value(ratio(state)) + log_factor(state),
        values + log_factor(nodes.x),
        nodes.log_p - log_factor(nodes.x),
        f"draws of N({mean:.4g}, {std:.3g}^2), weighted by formula",
    )
    return [plain, weighed]


def _by_draws(pair: Plain, swap: bool, quantity: _Quantity, nodes: Nodes, seed: int) -> Way:
    """Bound a number by draws, in the first way that is expected to confirm it.

    In this order, with increasing numbers of draws: one event counted under both laws; the mean
    under P of a function of log p - log q, if that has a formula; the same by importance sampling.
    The way and its event depend on ``nodes`` only, so nothing is chosen after looking at draws.
    """
    names = ("second", "first") if swap else ("first", "second")
    closed = closed_ratio(pair, swap)
    ratio = _table(nodes) if closed is None else closed
    steps = 1
    if pair["kind"] == "process":
        steps = max(_length(path) for name in names for path in pair[name]["paths"])
    elif _is_composed(pair):
        steps = 5 * int(pair["times"])
    if pair["kind"] == "normalvectors":
        steps *= len(pair["strategy"])
    most = min(_MOST_DRAWS, _MOST_STEPS // steps)
    follow = most >= _FEWEST_DRAWS
    if not follow:
        if closed is None or _is_composed(pair):
            return _unsampleable(quantity, f"a draw takes {steps} steps")
        most = _MOST_DRAWS
    draws = [drawing(pair, name, follow=follow) for name in names]
    note = "" if follow else ", the chain's normal law in closed form"
    means = [] if closed is None else _means(pair, names[0], quantity, nodes, draws[0], ratio)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    for counts in _ROUNDS:
        allowed = list(dict.fromkeys(min(count, most) for count in counts))
        for count in allowed:
            level, planned = _best_event(nodes, quantity, count)
            if planned > quantity.threshold:
                inside, inside_q = (
                    _hits(draw, ratio, np.array([level]), rng, count) for draw in draws
                )
                p, q = lower_limit(inside, count), upper_limit(inside_q, count)
                how = f"{count} draws of each law{note}; "
                how += f"the event has {int(inside[0])} and {int(inside_q[0])}"
                return _counted(quantity, float(quantity.by_event(p, q)[0]), 2 * ERROR, how)
        for count, way in itertools.product(allowed, means):
            if quantity.by_mean(way.planned(count)) > quantity.threshold:
                hits = _hits(way.draw, way.log_weight, way.ladder.levels, rng, count)
                mean = way.ladder.mean_at_least(hits, count)
                how = f"{count} {way.how}, {way.ladder.levels.size} levels, mean >= {mean:.3g}"
                return _counted(quantity, quantity.by_mean(mean), ERROR, how + note)
    return _unsampleable(quantity, f"{most} draws would not show it")


def _length(path: Plain) -> int:
    return sum(len(segment["steps"]) * int(segment["times"]) for segment in path["segments"])


def _hits(draw: Draw, ratio: Ratio, levels: Array, rng: np.random.Generator, count: int) -> Array:
    """Count the draws with a ratio above each level."""
    hits = np.zeros(levels.size)
    done = 0
    while done < count:
        size = min(_CHUNK, count - done)
        places = np.searchsorted(levels, ratio(draw(rng, size)), side="left")
        below = np.bincount(places, minlength=levels.size + 1)
        hits += size - np.cumsum(below)[: levels.size]
        done += size
    return hits


def _counted(quantity: _Quantity, value: float, error: float, how: str) -> Way:
    outcome = Outcome.CONFIRMED if value > quantity.threshold else Outcome.NOT_CONFIRMED
    return Way(value, error, quantity.threshold, outcome, f"{how}, error {error:g}")


def _unsampleable(quantity: _Quantity, why: str) -> Way:
    return Way(math.nan, math.nan, quantity.threshold, Outcome.NOT_SAMPLEABLE, why)


if __name__ == "__main__":
    found = recompute(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print("\n".join(found.lines()))
    sys.exit(0 if found.stands else 1)
