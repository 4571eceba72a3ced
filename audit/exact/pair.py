"""Divergences of two laws that are held on the same panels.

Everything is an integral over {log p - log q > epsilon}. Summing max(p - e^epsilon q, 0) over nodes
would err at the kink; here the roots of the log-likelihood ratio are found and the panels that
contain them are cut there. The ratio need not be monotone.
"""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from audit.exact.law import Law
from audit.numerics.panels import gauss_legendre, interpolate_log

Array = NDArray[np.float64]
_Piece = tuple[Array, Array, Array]

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

    def epsilon(self, log_delta: float) -> float:
        """Return the root epsilon of delta(epsilon) = e^log_delta, or 0 if it is negative."""
        if log_delta == -np.inf:
            return np.inf
        if self.log_delta(0.0) <= log_delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.log_delta(high) > log_delta:
            low, high = high, 2 * high
            if high > _LARGEST_EPSILON:
                return np.inf
        # below -1e300 the logarithm only has to be on the right side
        return float(
            brentq(
                lambda e: max(self.log_delta(e) - log_delta, -1e300),
                low,
                high,
                xtol=1e-14 * max(1.0, high),
                rtol=8.9e-16,
            )
        )

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

        def excess(c: float) -> float:
            return float(np.clip(self.log_errors(c)[0] - np.log(alpha), -1e300, 1e300))

        low, high = -2.0, 2.0
        while excess(low) > 0 and low > -_LARGEST_EPSILON:
            low *= 2
        while excess(high) <= 0 and high < _LARGEST_EPSILON:
            high *= 2
        tolerance = 1e-13 * max(1.0, high, -low)
        if excess(low) < 0 < excess(high):
            root = float(brentq(excess, low, high, xtol=tolerance, rtol=8.9e-16))
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
        log_p, log_q = self.log_p[panel], self.log_q[panel]

        def ratio_at(place: Array) -> Array:
            return _log_ratio(interpolate_log(log_p, place), interpolate_log(log_q, place))

        def gap(place: float) -> float:
            value = float(ratio_at(np.array(place))) - epsilon
            return float(np.clip(np.nan_to_num(value, nan=-1e300), -1e300, 1e300))

        above = np.nan_to_num(self._ratio[panel], nan=-np.inf) > epsilon
        cuts = [-1.0]
        for k in np.flatnonzero(above[1:] != above[:-1]):
            left, right = float(places[k]), float(places[k + 1])
            if gap(left) * gap(right) < 0:
                cuts.append(float(brentq(gap, left, right, xtol=1e-15)))
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
                logs = interpolate_log(log_p, points), interpolate_log(log_q, points)
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
    return float(logsumexp(joined)) if joined.size else -np.inf
