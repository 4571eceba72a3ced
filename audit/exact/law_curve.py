"""The exact privacy curve of two computed laws, with a bracket that contains the truth.

The laws are held on the same panels. Everything is an integral over {log p - log q > epsilon}.
Summing max(p - e^epsilon q, 0) over nodes would err at the kink; here the roots of the
log-likelihood ratio are found and the panels that contain them are cut there. The ratio need not be
monotone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from audit import validate
from audit.curves import Order
from audit.exact.bracketed import EPSILONS, Bracket, BracketedCurve, MuBracket, gaussian_mu
from audit.exact.law import Law
from audit.numerics.panels import gauss_legendre, interpolate_log, log_interpolant
from audit.numerics.roots import bracketed_root

Array = NDArray[np.float64]
_Piece = tuple[Array, Array, Array]

_UNIT_ROUNDOFF = 2.0**-53
# Renyi integrands vary faster than the densities by the order: panels are halved until this.
_RENYI_TOLERANCE = 1e-13
_MOST_HALVINGS = 8
_RENYI_RANGE = 45.0  # panels that matter, in logarithms below the largest
# Panels whose log mass is smaller than a sum by so much are left out of it.
_NEGLIGIBLE = 50.0
# Pieces of cut panels are so short that the log-likelihood ratio varies by this much at most.
_RATIO_RANGE = 8.0
_MOST_PARTS = 100
_LARGEST_EPSILON = 1e12
# Relative distance within which the epsilons of nearly the same laws and delta are looked for.
_NEAR = 1e-7


class LawPair:
    """Two laws P and Q on the same panels, in one order."""

    def __init__(self, first: Law, second: Law) -> None:
        if first.panels is not second.panels:
            raise ValueError("the two laws must be on the same panels")
        self.panels = first.panels
        self.log_p, self.log_q = first.state.log_values, second.state.log_values
        self.atoms_p, self.atoms_q = first.state.log_atoms, second.state.log_atoms
        self.log_weights = np.log(self.panels.weights)
        self.followed = _both_followed(first, second)

    @cached_property
    def _ratio(self) -> Array:
        """Log p - log q at the ends and nodes of every panel, shape (panels, order + 2)."""
        ends = np.array([-1.0, 1.0])
        sides = np.stack(
            [
                _log_ratio(interpolate_log(p, ends), interpolate_log(q, ends))
                for p, q in zip(self.log_p, self.log_q, strict=True)
            ]
        )
        inner = _log_ratio(self.log_p, self.log_q)
        return np.concatenate([sides[:, :1], inner, sides[:, 1:]], axis=1)

    @cached_property
    def _ratio_range(self) -> tuple[Array, Array]:
        ratio = self._ratio
        return np.nanmin(ratio, axis=1, initial=np.inf), np.nanmax(ratio, axis=1, initial=-np.inf)

    @cached_property
    def _atom_ratio(self) -> Array:
        return _log_ratio(self.atoms_p, self.atoms_q)

    @cached_property
    def _log_masses(self) -> tuple[Array, Array]:
        """Log of P and Q of every panel."""
        return (
            np.asarray(logsumexp(self.log_p + self.log_weights, axis=1)),
            np.asarray(logsumexp(self.log_q + self.log_weights, axis=1)),
        )

    def log_delta(self, epsilon: float) -> float:
        """Log of sup_S P(S) - e^epsilon Q(S); a sum of positive terms only."""
        lowest, highest = self._ratio_range
        # where the ratio is steep, 1 - e^(epsilon - ratio) has a boundary layer
        with np.errstate(invalid="ignore"):  # where one law vanishes on a whole panel
            smooth = (lowest > epsilon + 40) | (highest - lowest <= _RATIO_RANGE)
        full = (lowest > epsilon) & smooth
        inner = self._ratio[full, 1:-1]
        total = _log_sum(
            [
                self._excess(self.atoms_p, self._atom_ratio, epsilon),
                self._excess(self.log_p[full] + self.log_weights[full], inner, epsilon),
            ]
        )
        masses = self._log_masses[0]
        mixed = np.flatnonzero(~full & (highest > epsilon))
        for panel in mixed[np.argsort(-masses[mixed])]:
            if masses[panel] < total - _NEGLIGIBLE:
                break
            for log_p, log_q, log_weights in self._pieces(int(panel), epsilon)[0]:
                ratio = _log_ratio(log_p, log_q)
                excess = self._excess(log_p + log_weights, ratio, epsilon)
                total = float(np.logaddexp(total, _log_sum([excess])))
        return total

    def log_errors(self, c: float) -> tuple[float, float]:
        """Log of P(log p - log q <= c) and of Q(log p - log q > c), sums of positive terms."""
        chosen = self._atom_ratio > c
        lowest, highest = self._ratio_range
        full, empty = lowest > c, highest <= c
        masses_p, masses_q = self._log_masses
        type_one = _log_sum([self.atoms_p[~chosen], masses_p[empty]])
        type_two = _log_sum([self.atoms_q[chosen], masses_q[full]])
        mixed = np.flatnonzero(~full & ~empty)
        for panel in mixed[np.argsort(-np.maximum(masses_p, masses_q)[mixed])]:
            if (
                masses_p[panel] < type_one - _NEGLIGIBLE
                and masses_q[panel] < type_two - _NEGLIGIBLE
            ):
                continue
            above, below = self._pieces(int(panel), c)
            type_one = _log_sum([np.array(type_one), *(p + w for p, _, w in below)])
            type_two = _log_sum([np.array(type_two), *(q + w for _, q, w in above)])
        return type_one, type_two

    def epsilon(self, log_delta: float, near: float = 0.0) -> float:
        """Return the root epsilon of delta(epsilon) = e^log_delta, or 0 if it is negative.

        The search begins around ``near`` where that is positive.
        """
        if log_delta == -np.inf:
            return np.inf

        @cache  # the ends are asked for again by the search for the root
        def gap(epsilon: float) -> float:
            # below -1e300 the logarithm only has to be on the right side
            return max(self.log_delta(epsilon) - log_delta, -1e300)

        low, high = near * (1 - _NEAR), near * (1 + _NEAR)
        if not 0 < near < np.inf or not gap(low) > 0 >= gap(high):
            if gap(0.0) <= 0:
                return 0.0
            low, high = 0.0, 1.0
            while gap(high) > 0:
                low, high = high, 2 * high
                if high > _LARGEST_EPSILON:
                    return np.inf
        return bracketed_root(gap, low, high, xtol=1e-14 * max(1.0, high), rtol=8.9e-16)

    def largest_ratio(self, lost_q: float) -> float:
        """Return the largest log-likelihood ratio that the laws show, where both are followed.

        On a line, where a mass ``lost_q`` of Q is missing, that of events with a certain mass;
        elsewhere that of points.
        """
        parts_p, parts_q = (self.log_p, self.log_q) if lost_q == 0 else self._log_masses
        atoms = self.followed[[0, -1]]
        log_p = np.concatenate([parts_p[self.followed].ravel(), self.atoms_p[atoms]])
        log_q = np.concatenate([parts_q[self.followed].ravel(), self.atoms_q[atoms]])
        # noise reaches everywhere: what vanished has underflowed
        held = np.isfinite(log_p) & np.isfinite(log_q)
        log_p, log_q = log_p[held], log_q[held]
        if log_p.size == 0:
            return 0.0
        if lost_q == 0:
            return float(np.max(log_p - log_q))
        rank = np.argsort(log_q - log_p, kind="stable")
        p, q = (np.logaddexp.accumulate(logs[rank]) for logs in (log_p, log_q))
        return float(np.max(p - np.logaddexp(q, math.log(lost_q))))

    def beta(self, alpha: float) -> float:
        """Least type II error of a test of P against Q at type I error alpha."""
        return self.beta_range(alpha)[0]

    def beta_range(self, alpha: float) -> tuple[float, float]:
        """Return (low, high) around the least type II error at type I error alpha.

        By duality it is the supremum over c of 1 - Q(S) - e^-c (alpha - P(S)) with
        S = {log p - log q <= c}; the best c has P(S) about alpha, and any c gives a value that
        is not above the true one: ``low``. A test that draws between the two sets next to the best
        one reaches ``high``.
        """
        if alpha >= 1:
            return 0.0, 0.0
        if alpha <= 0:
            beta = float(np.clip(self._below(-np.inf)[1], 0.0, 1.0))
            return beta, beta

        @cache
        def excess(c: float) -> float:
            return float(np.clip(self.log_errors(c)[0] - np.log(alpha), -1e300, 1e300))

        low, high = -2.0, 2.0
        while excess(low) > 0 and low > -_LARGEST_EPSILON:
            low *= 2
        while excess(high) <= 0 and high < _LARGEST_EPSILON:
            high *= 2
        tolerance = 1e-13 * max(1.0, high, -low)
        if excess(low) < 0 < excess(high):
            root = bracketed_root(excess, low, high, xtol=tolerance, rtol=8.9e-16)
            low, high = root - 2 * tolerance, root + 2 * tolerance
        lines, errors = [], [(0.0, 1.0), (1.0, 0.0)]
        for c in (low, high):
            type_one, type_two = self._below(c)
            errors.append((type_one, type_two))
            # alpha = 0 at an unbounded ratio: the tangent is vertical
            slope = np.exp(-c) if c > -700 else 0.0
            lines.append(type_two - slope * (alpha - type_one))
        reached = max(pair for pair in errors if pair[0] <= alpha)
        beyond = min(pair for pair in errors if pair[0] > alpha)
        share = (alpha - reached[0]) / (beyond[0] - reached[0])
        chord = reached[1] + share * (beyond[1] - reached[1])
        return float(np.clip(max(lines), 0.0, 1.0)), float(np.clip(chord, 0.0, 1.0))

    def renyi(self, alpha: float) -> float:
        """Renyi divergence D_alpha(P || Q), of the panels that `followed` allows."""
        return self.renyi_and_rest(alpha)[0]

    def renyi_and_rest(self, alpha: float) -> tuple[float, bool]:
        """Return the divergence on followed panels, and whether the others are sure not to matter.

        The integrand p^alpha q^(1-alpha) may peak where q is unknown. Leaving panels out makes the
        divergence smaller. They do not matter where the integrand has fallen off before them.
        """
        with np.errstate(invalid="ignore"):
            atoms = alpha * self.atoms_p + (1 - alpha) * self.atoms_q
        atoms = np.where(np.isneginf(self.atoms_p), -np.inf, atoms)
        coarse = self._renyi_panels(alpha, 0)
        allowed = self.followed
        # the atoms are as far out as the panels next to them
        atoms = np.where(allowed[[0, -1]], atoms, -np.inf)
        coarse = np.where(allowed, coarse, -np.inf)
        largest = float(np.max(np.concatenate([coarse, atoms])))
        if not np.isfinite(largest):
            return largest, False
        relevant = coarse > largest - _RENYI_RANGE
        total = coarse
        if not relevant.any():  # the atoms outweigh everything
            return float(logsumexp(np.concatenate([coarse, atoms]))) / (alpha - 1), True
        for halvings in range(1, _MOST_HALVINGS + 1):
            finer = coarse.copy()
            finer[relevant] = self._renyi_panels(alpha, halvings, relevant)
            change = abs(logsumexp(finer) - logsumexp(total))
            total = finer
            if change < _RENYI_TOLERANCE:
                break
        value = float(logsumexp(np.concatenate([total, atoms]))) / (alpha - 1)
        return value, self._falls_off(coarse, largest)

    def _falls_off(self, logs: Array, largest: float) -> bool:
        """Whether the integrand is negligible, and falling, at the last followed panels."""
        places = np.flatnonzero(self.followed)
        first, last = int(places[0]), int(places[-1])
        sides = []
        if first > 0:
            sides.append(logs[first : first + 3])
        if last < len(logs) - 1:
            sides.append(logs[max(last - 2, 0) : last + 1][::-1])
        return all(
            side[0] < largest - _RENYI_RANGE and bool(np.all(np.diff(side) > 0)) for side in sides
        )

    def _below(self, c: float) -> tuple[float, float]:
        """Type I and II errors of rejecting P where log p - log q <= c."""
        type_one, type_two = self.log_errors(c)
        return float(np.exp(min(type_one, 0.0))), float(np.exp(min(type_two, 0.0)))

    @staticmethod
    def _excess(log_p: Array, ratio: Array, epsilon: float) -> Array:
        """Log of p - e^epsilon q where it is positive."""
        chosen = ratio > epsilon
        gap = np.minimum(epsilon - ratio[chosen], -1e-300)
        return np.asarray(log_p[chosen] + np.log(-np.expm1(gap)))

    def _pieces(self, panel: int, epsilon: float) -> tuple[list[_Piece], list[_Piece]]:
        """Cut a panel at the roots of the ratio into pieces above epsilon, and pieces below.

        Each piece is (log p, log q, log weights) at its own Legendre nodes.
        """
        nodes, weights = gauss_legendre(self.panels.order)
        places = np.concatenate([[-1.0], nodes, [1.0]])
        log_p, log_q = log_interpolant(self.log_p[panel]), log_interpolant(self.log_q[panel])

        def ratio_at(place: Array) -> Array:
            return _log_ratio(log_p(place), log_q(place))

        @cache
        def gap(place: float) -> float:
            value = float(ratio_at(np.array(place))) - epsilon
            return float(np.clip(np.nan_to_num(value, nan=-1e300), -1e300, 1e300))

        above = np.nan_to_num(self._ratio[panel], nan=-np.inf) > epsilon
        cuts = [-1.0]
        for k in np.flatnonzero(above[1:] != above[:-1]):
            left, right = float(places[k]), float(places[k + 1])
            if gap(left) * gap(right) < 0:
                cuts.append(bracketed_root(gap, left, right, xtol=1e-15))
            else:  # an end that is the root itself
                cuts.append(left if abs(gap(left)) <= abs(gap(right)) else right)
        cuts.append(1.0)
        half_panel = 0.5 * float(self.panels.edges[panel + 1] - self.panels.edges[panel])
        spread = float(np.ptp(self._ratio[panel])) if np.isfinite(self._ratio[panel]).all() else 0.0
        parts = int(np.clip(np.ceil(spread / _RATIO_RANGE), 1, _MOST_PARTS))
        pieces: tuple[list[_Piece], list[_Piece]] = ([], [])
        state = bool(above[0])
        for start, end in itertools.pairwise(cuts):
            count = parts if end > start else 0
            for left, right in itertools.pairwise(np.linspace(start, end, count + 1)):
                half = 0.5 * (right - left)
                points = 0.5 * (left + right) + half * nodes
                logs = log_p(points), log_q(points)
                pieces[not state].append((*logs, np.log(half * half_panel * weights)))
            state = not state
        return pieces

    def _renyi_panels(
        self, alpha: float, halvings: int, chosen: NDArray[np.bool_] | None = None
    ) -> Array:
        """Log of the integral of p^alpha q^(1-alpha) over each (chosen) panel, on halved panels."""
        rows_p = self.log_p if chosen is None else self.log_p[chosen]
        rows_q = self.log_q if chosen is None else self.log_q[chosen]
        log_weights = self.log_weights if chosen is None else self.log_weights[chosen]
        if halvings:
            nodes, weights = gauss_legendre(self.panels.order)
            parts = 2**halvings
            places = ((np.arange(parts)[:, None] * 2 + 1 + nodes) / parts - 1).ravel()
            rows_p = np.stack([interpolate_log(row, places) for row in rows_p])
            rows_q = np.stack([interpolate_log(row, places) for row in rows_q])
            scale = log_weights[:, :1] - np.log(weights[0])
            log_weights = scale + np.log(np.tile(weights, parts) / parts)
        with np.errstate(invalid="ignore"):
            logs = alpha * rows_p + (1 - alpha) * rows_q + log_weights
        return np.asarray(logsumexp(np.where(np.isneginf(rows_p), -np.inf, logs), axis=1))


def _both_followed(first: Law, second: Law) -> NDArray[np.bool_]:
    """Whether each panel is followed in both laws; at least the one where P is largest."""
    result = np.ones(len(first.state.log_values), dtype=np.bool_)
    for law in (first, second):
        if law.followed is not None:
            result &= law.followed
    return result


def _log_ratio(log_p: Array, log_q: Array) -> Array:
    """Log p - log q; NaN where both vanish, which belongs to no set."""
    with np.errstate(invalid="ignore"):
        return np.asarray(log_p - log_q)


def _log_sum(parts: list[Array]) -> float:
    joined = np.concatenate([part.ravel() for part in parts])
    top = float(joined.max(initial=-np.inf))
    if not math.isfinite(top):
        return top
    # ten times as fast as SciPy's logsumexp, which is made for arrays of every kind
    return top + math.log(float(np.exp(joined - top).sum()))


@dataclass(frozen=True, eq=False)
class LawCurve(BracketedCurve):
    """The curve of two computed laws.

    ``first`` and ``second`` are the laws of X and X' at the fine resolution; ``coarse`` holds both
    at a coarser one. Values come from the fine laws. A bracket takes in

    - the discretisation error, as the distance between the two resolutions (convergence is
      geometric, so the fine value is closer to the truth than to the coarse value by far);
    - the relative rounding error rho of either law: (1 +- rho) on every probability, which moves
      epsilon by log((1 + rho)/(1 - rho)) and delta by a factor 1 +- rho;
    - the mass that left a truncated line, by which an event's probability may be off.
    """

    first: Law
    second: Law
    coarse: tuple[Law, Law]
    _pairs: dict[tuple[Order, bool], LawPair] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        x, y = self.coarse
        pairs = {
            (Order.FORWARD, True): LawPair(self.first, self.second),
            (Order.REVERSE, True): LawPair(self.second, self.first),
            (Order.FORWARD, False): LawPair(x, y),
            (Order.REVERSE, False): LawPair(y, x),
        }
        object.__setattr__(self, "_pairs", pairs)

    @property
    def relative_error(self) -> float:
        """Bound on the relative rounding error of either law."""
        return max(self.first.relative_error, self.second.relative_error)

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return (low, high) that contain the true epsilon at ``delta``."""
        validate.half_open_unit(delta=delta)
        if delta == 0:
            return worse_bracket(self._pure_bracket, order)
        return worse_bracket(lambda o: self._epsilon_bracket(delta, o), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return (low, high) that contain the true delta at ``epsilon``."""
        validate.finite(epsilon=epsilon)
        return worse_bracket(lambda o: self._delta_bracket(epsilon, o), order)

    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return (low, high) that contain the true Renyi divergence of order ``alpha``."""
        validate.above_one(alpha=alpha)
        return worse_bracket(lambda o: self._renyi_bracket(alpha, o), order)

    def beta_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return (low, high) that contain the true type II error at type I error ``alpha``.

        ``alpha`` moves by the errors of the laws, so that the bracket is as wide as the slope of
        the tradeoff function demands: it is steep near alpha = 0.
        """
        validate.open_unit(alpha=alpha)
        rho = self.relative_error
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        gap = abs(fine.beta(alpha) - coarse.beta(alpha)) + 8 * _UNIT_ROUNDOFF
        most = fine.beta_range((alpha - lost_p) / (1 + rho))[1]
        least = fine.beta_range((alpha + lost_p) / (1 - rho))[0]
        low, high = least * (1 - rho) - lost_q - gap, most * (1 + rho) + lost_q + gap
        return max(low, 0.0), min(high, 1.0)

    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return (low, high) that contain the power 1 - beta of the best test at ``alpha``."""
        low, high = self.beta_bracket(alpha, order)
        return 1 - high, 1 - low

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu of the pair in one order, open above."""
        low, epsilon = gaussian_mu(lambda e: self.delta_bracket(e, order)[0], EPSILONS)
        return MuBracket(low, math.inf, epsilon)

    def may_exceed(self, epsilon: float, delta: float, order: Order) -> bool:
        """Whether epsilon at ``delta`` can be above ``epsilon``: one delta in place of a root."""
        return self.delta_bracket(epsilon, order)[1] > delta

    def _lost(self, order: Order) -> tuple[float, float]:
        lost = self.first.lost_mass, self.second.lost_mass
        return lost if order is Order.FORWARD else (lost[1], lost[0])

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        rho = self.relative_error
        shift = math.log1p(rho) - math.log1p(-rho)
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        value = fine.epsilon(math.log(delta))
        other = coarse.epsilon(math.log(delta), near=value)
        if not math.isfinite(value):
            return (0.0, math.inf)
        gap = abs(value - other)
        least = (delta - lost_p) / (1 + rho)
        high = math.inf if least <= 0 else fine.epsilon(math.log(least), near=value) + shift + gap
        most = (delta + math.exp(min(value + shift, 700.0)) * lost_q) / (1 - rho)
        low = 0.0 if most >= 1 else fine.epsilon(math.log(most), near=value) - shift - gap
        return max(low, 0.0), high

    def _pure_bracket(self, order: Order) -> Bracket:
        """Return (low, high) around epsilon at delta = 0, open above where mass was lost."""
        rho = self.relative_error
        lost = max(self._lost(order))
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        value = fine.largest_ratio(lost)
        error = math.log1p(rho) - math.log1p(-rho) + abs(value - coarse.largest_ratio(lost))
        complete = lost == 0 and bool(fine.followed.all())
        return max(value - error, 0.0), max(value, 0.0) + error if complete else math.inf

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        rho = self.relative_error
        shift = math.log1p(rho) - math.log1p(-rho)
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        gap = abs(math.exp(fine.log_delta(epsilon)) - math.exp(coarse.log_delta(epsilon)))
        high = (1 + rho) * math.exp(fine.log_delta(epsilon - shift)) + lost_p + gap
        low = (1 - rho) * math.exp(fine.log_delta(epsilon + shift)) - gap
        low -= math.exp(min(epsilon, 700.0)) * lost_q
        return max(low, 0.0), min(high, 1.0)

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        value, complete = fine.renyi_and_rest(alpha)
        if not math.isfinite(value):
            # where one law vanishes and the other does not, or nothing was followed
            return (value, value) if value > 0 and fine.followed.all() else (0.0, math.inf)
        other, coarse_complete = coarse.renyi_and_rest(alpha)
        # a divergence of order above 1 may gain without limit in the lost tails
        lost = max(self._lost(order)) > 0 or not (complete and coarse_complete)
        rho = self.relative_error
        # the coarse law is followed less far: it may lack what the fine one has, never the reverse
        gap = abs(value - other) if coarse_complete and complete else max(value - other, 0.0)
        slack = (alpha * math.log1p(rho) - (alpha - 1) * math.log1p(-rho)) / (alpha - 1) + gap
        return max(value - slack, 0.0), math.inf if lost else value + slack

    def _pure_epsilon(self, order: Order) -> float:
        lost = max(self._lost(order))
        return math.inf if lost > 0 else max(self._pairs[order, True].largest_ratio(0.0), 0.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([pair.epsilon(math.log(d)) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([min(1.0, math.exp(pair.log_delta(float(e)))) for e in epsilon])

    def _beta(self, alpha: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([pair.beta(float(a)) for a in alpha])

    def _renyi(self, alpha: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([pair.renyi(float(a)) for a in alpha])


def worse_bracket(bracket: Callable[[Order], Bracket], order: Order | None) -> Bracket:
    """Return the bracket of one order, or that of the worse one where none is named."""
    if order is not None:
        validate.instance(Order, order=order)
        return bracket(order)
    (low_a, high_a), (low_b, high_b) = bracket(Order.FORWARD), bracket(Order.REVERSE)
    return max(low_a, low_b), max(high_a, high_b)
