"""The exact privacy curve of two computed laws, with a bracket that contains the truth.

The laws are held on the same panels. Everything is an integral over {log p - log q > epsilon}.
Summing max(p - e^epsilon q, 0) over nodes would err at the kink; here the roots of the
log-likelihood ratio are found and the panels that contain them are cut there. The ratio need not be
monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.curves.brackets import TINY, Bracket, checked_all
from audit.exact.bracketed import EPSILONS, BracketedCurve, MuBracket, gaussian_mu
from audit.exact.law import Law
from audit.numerics.log_sums import log_sum
from audit.numerics.panels import LogInterpolants, gauss_legendre
from audit.numerics.roots import decreasing_root
from audit.numerics.turning_points import TurningPoints, turning_points

Array = NDArray[np.float64]

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
# The ratio is steep on panels where it varies by more than _RATIO_RANGE.
_STEEP_MARGIN = 40.0
# Places between which roots are looked for, and values that are held at a time.
_TABLE, _MOST_VALUES = 32, 1 << 20
_BESIDE = 1e-13
# Relative errors of interpolants up to which the distance to coarser laws, which have far larger
# ones, shows what they matter; and up to which they tell where the ratio is, within this error.
_SHOWN, _TOLD = 1e-6, 0.1
# Products of two interpolants, relative to the largest, below which turns of the ratio are unseen.
_UNSEEN = 1e-10
_DOUBTED = 8  # rounds until a bracket knows what it contains
_BEND = 0.5  # what a logarithm may bend by between nodes besides
_SPARE = 1.25  # of a doubt, so that a second round is rarely needed
# Width of the bracket of a threshold, as a share of the range of the ratios.
_THRESHOLD_WIDTH = 1e-9


class LawPair:
    """Two laws P and Q on the same panels, in one order."""

    def __init__(self, first: Law, second: Law, mirror: LawPair | None = None) -> None:
        self._mirror = mirror  # the same laws in the other order
        if first.panels is not second.panels:
            raise ValueError("the two laws must be on the same panels")
        self.panels = first.panels
        self.log_p, self.log_q = first.state.log_values, second.state.log_values
        self.atoms_p, self.atoms_q = first.state.log_atoms, second.state.log_atoms
        self.log_weights = np.log(self.panels.weights)
        self.followed = _both_followed(first, second)

    @cached_property
    def _interpolants(self) -> LogInterpolants:
        return LogInterpolants(np.stack([self.log_p, self.log_q]))

    @cached_property
    def turning(self) -> TurningPoints:
        """Where the log-likelihood ratio turns between nodes and ends of panels."""
        if self._mirror is not None:
            return self._mirror.turning
        return turning_points(self._interpolants)

    @cached_property
    def unseen(self) -> float:
        """Bound on what a wrong set may gain where rounding hides where the ratio turns."""
        own, logs = self.turning.hidden_panels, self.turning.hidden_logs
        half = 0.5 * np.diff(self.panels.edges)[own]
        return float(np.sum(half * np.exp(logs[0 if self._mirror is None else 1])))

    @cached_property
    def _doubts(self) -> _Doubts:
        """What interpolants may get wrong next to each node."""
        found = self._interpolants
        nodes, _ = gauss_legendre(self.panels.order)
        errors = found.errors[..., None]
        # also that of the values between a node and its neighbours
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = errors / _over_neighbours(found.factors, np.minimum)
            relative = np.where(found.factors > 0, relative, np.inf)
        lost = np.prod(found.factors, axis=0) <= _UNSEEN
        shown = np.all(relative.sum(axis=0) <= _SHOWN, axis=-1) & ~lost.any(axis=-1)
        relative[:, shown] = 0.0
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            heights = np.exp(found.tops[..., None] + found.slopes[..., None] * nodes)
            own = np.where(shown[:, None], 0.0, heights * errors * self.panels.weights)
            wrong = np.where(lost, 1.0, np.minimum(math.e * relative[::-1], 1.0))
            sets = heights * wrong * (found.factors + errors) * self.panels.weights
            sets[:, shown] = 0.0
        own, sets = (np.nan_to_num(part, nan=0.0) for part in (own, sets))
        told = ~lost & (relative.sum(axis=0) <= _TOLD)
        bends = np.stack([_bends(logs, nodes) for logs in (self.log_p, self.log_q)])
        return _Doubts(np.flatnonzero(~shown), own, own + sets, relative, told, bends)

    @cached_property
    def _told_ratio(self) -> tuple[Array, Array]:
        """Bounds on the ratio next to each node, shape (panels, order), where it is told."""
        ratio, doubts = _log_ratio(self.log_p, self.log_q), self._doubts
        lowest, highest = self._ratio_range
        with np.errstate(invalid="ignore"):
            # what it reaches beyond its values at the nodes, at turns and at ends
            inner = np.nanmin(ratio, axis=1, initial=np.inf)
            under = np.nan_to_num(np.maximum(inner - lowest, 0.0), nan=0.0)
            inner = np.nanmax(ratio, axis=1, initial=-np.inf)
            over = np.nan_to_num(np.maximum(highest - inner, 0.0), nan=0.0)
            slack = 2 * doubts.relative.sum(axis=0)
            slack = np.where(doubts.told, slack, doubts.bends.sum(axis=0))
            low = _over_neighbours(ratio, np.fmin) - under[:, None] - slack
            high = _over_neighbours(ratio, np.fmax) + over[:, None] + slack
        return np.nan_to_num(low, nan=-np.inf), np.nan_to_num(high, nan=np.inf)

    def doubt(self, epsilons: Array) -> Array:
        """Bound what interpolants may get wrong of delta at each epsilon, shape (n,)."""
        return self._in_chunks(self._doubt, epsilons)[0]

    def _doubt(self, ratios: Array) -> tuple[Array, Array]:
        """Bound the errors at each ratio c: of delta, and of a line as times its e^c.

        A line 1 - Q(S) - e^-c (alpha - P(S)) is off by that of the integral of min(q, e^-c p).
        """
        low, high = self._told_ratio
        c = ratios[:, None]
        own = self._doubts.panels
        rows, places = np.nonzero((low[own].min(axis=1) <= c) & (c <= high[own].max(axis=1)))
        panels = own[places]
        ours, theirs = (part[panels] for part in self._doubts.sets)
        at = ratios[rows, None]
        above = np.where(high[panels] >= at, ours, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            line = np.minimum(ours * np.exp(np.clip(-at, -700.0, 700.0)), theirs)
        return _sums(rows, above, ratios.size), _sums(rows, line, ratios.size)

    def _set_doubt(self, ratios: Array) -> tuple[Array, Array]:
        """Bound the errors of P(log p - log q <= c) and Q(log p - log q > c), as sets are known."""
        low, high = self._told_ratio
        c = ratios[:, None]
        own = self._doubts.panels
        rows, places = np.nonzero((low[own].min(axis=1) <= c) & (c <= high[own].max(axis=1)))
        panels = own[places]
        ours, theirs = (part[panels] for part in self._doubts.own)
        at = ratios[rows, None]
        parts = np.where(low[panels] <= at, ours, 0.0), np.where(high[panels] >= at, theirs, 0.0)
        return _sums(rows, parts[0], ratios.size), _sums(rows, parts[1], ratios.size)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        """Places on every panel between which the ratio is monotone, and log p - log q there.

        These are the ends, the nodes and where the ratio turns, rising; shape (panels, places). The
        upper end repeats on panels where the ratio turns less often than on others.
        """
        if self._mirror is not None:
            places, ratio = self._mirror._profile
            return places, -ratio
        nodes, _ = gauss_legendre(self.panels.order)
        panels, places = self.turning.panels, self.turning.places
        count = np.bincount(panels, minlength=len(self.log_p))
        between = np.ones((count.size, 2 + int(count.max(initial=0))))
        between[:, 0] = -1.0
        ends = _log_ratio(*self._interpolants(np.arange(count.size), between[:, :2]))
        ratio = np.repeat(ends[:, 1:], between.shape[1], axis=1)
        ratio[:, 0] = ends[:, 0]
        turns = panels, 2 + np.arange(panels.size) - (np.cumsum(count) - count)[panels]
        between[turns] = places
        ratio[turns] = _log_ratio(*self._interpolants(panels, places[:, None]))[:, 0]
        lost = ~np.isfinite(ratio)  # an interpolant may dip below zero
        lost[:, :2] = False
        between, ratio = np.where(lost, 1.0, between), np.where(lost, ratio[:, 1:2], ratio)
        sites = np.concatenate([np.tile(nodes, (count.size, 1)), between], axis=1)
        rank = np.argsort(sites, axis=1)
        inner = _log_ratio(self.log_p, self.log_q)
        return (
            np.take_along_axis(sites, rank, axis=1),
            np.take_along_axis(np.concatenate([inner, ratio], axis=1), rank, axis=1),
        )

    @property
    def _ratio(self) -> Array:
        return self._profile[1]

    @cached_property
    def _ratio_range(self) -> tuple[Array, Array]:
        ratio = self._ratio
        return np.nanmin(ratio, axis=1, initial=np.inf), np.nanmax(ratio, axis=1, initial=-np.inf)

    @cached_property
    def _parts(self) -> NDArray[np.intp]:
        """How many parts each panel is cut into, so that the ratio varies little on each."""
        finite = np.all(np.isfinite(self._ratio), axis=1, keepdims=True)
        spread = np.ptp(np.where(finite, self._ratio, 0.0), axis=1)
        parts: NDArray[np.intp] = np.clip(np.ceil(spread / _RATIO_RANGE), 1, _MOST_PARTS).astype(
            np.intp
        )
        return parts

    @cached_property
    def _atom_ratio(self) -> Array:
        return _log_ratio(self.atoms_p, self.atoms_q)

    @cached_property
    def _log_masses(self) -> tuple[Array, Array]:
        """Log of P and Q of every panel."""
        return (
            log_sum(self.log_p + self.log_weights),
            log_sum(self.log_q + self.log_weights),
        )

    @cached_property
    def _far_above(self) -> tuple[Array, _Prefixes]:
        """From which epsilon on down a panel's excess is the difference of its masses.

        There is no cancellation far above epsilon. Where the ratio is steep, 1 - e^(epsilon -
        ratio) has a boundary layer, which is gone only farther above.
        """
        lowest, highest = self._ratio_range
        with np.errstate(invalid="ignore"):  # where one law vanishes on a whole panel
            margin = np.where(highest - lowest <= _RATIO_RANGE, 1.0, _STEEP_MARGIN)
            below = lowest - margin
        return below, _Prefixes(below, *self._log_masses)

    @cached_property
    def _above(self) -> _Prefixes:
        return _Prefixes(self._ratio_range[0], *self._log_masses)

    @cached_property
    def _below(self) -> _Prefixes:
        return _Prefixes(-self._ratio_range[1], *self._log_masses)

    def log_delta(self, epsilon: float) -> float:
        """Log of sup_S P(S) - e^epsilon Q(S); a sum of positive terms only."""
        return float(self.log_deltas(np.array([epsilon]))[0][0])

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """Return logs of sup_S P(S) - e^epsilon Q(S) and of Q(S) at many epsilons, shape (n,)."""
        return self._in_chunks(self._log_deltas, epsilons)

    def log_errors(self, ratios: Array) -> tuple[Array, Array]:
        """Return logs of P(log p - log q <= c) and Q(log p - log q > c) at many c, shape (n,)."""
        return self._in_chunks(self._log_errors, ratios)

    def _in_chunks(
        self, function: Callable[[Array], tuple[Array, Array]], places: Array
    ) -> tuple[Array, Array]:
        chunks = -(-places.size * self.log_p.size // _MOST_VALUES)
        if chunks <= 1:
            return function(places)
        found = [function(chunk) for chunk in np.array_split(places, min(chunks, places.size))]
        first, second = zip(*found, strict=True)
        return np.concatenate(first), np.concatenate(second)

    def _log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        lowest, highest = self._ratio_range
        below, far_above = self._far_above
        e = epsilons[:, None]
        atoms = self._atom_ratio > e
        mass_p, mass_q = far_above.beyond(epsilons)
        total = _log_add(
            _excess(mass_p, _log_ratio(mass_p, mass_q), epsilons),
            log_sum(np.where(atoms, _excess(self.atoms_p, self._atom_ratio, e), -np.inf)),
        )
        total_q = _log_add(mass_q, log_sum(np.where(atoms, self.atoms_q, -np.inf)))
        far = below > e
        with np.errstate(invalid="ignore"):
            near = (lowest > e) & (highest - lowest <= _RATIO_RANGE) & ~far
        masses_p, masses_q = self._log_masses
        rows, panels = np.nonzero(near)
        logs = self.log_p[panels] + self.log_weights[panels]
        inner = _excess(
            logs, _log_ratio(self.log_p[panels], self.log_q[panels]), epsilons[rows, None]
        )
        total = _gather(total, rows, log_sum(inner))
        total_q = _gather(total_q, rows, masses_q[panels])
        rows, panels = np.nonzero((highest > e) & ~far & ~near)
        for chosen in _heaviest_first(rows, masses_p[panels]):
            some = chosen[masses_p[panels[chosen]] >= total[rows[chosen]] - _NEGLIGIBLE]
            for piece in self._pieces(panels[some], epsilons[rows[some]]):
                up = piece.above
                owner = rows[some[piece.owner[up]]]
                ratio = _log_ratio(piece.log_p[up], piece.log_q[up])
                logs = piece.log_p[up] + piece.log_weights[up]
                inner = _excess(logs, ratio, epsilons[owner, None])
                total = _gather(total, owner, log_sum(inner))
                logs = piece.log_q[up] + piece.log_weights[up]
                total_q = _gather(total_q, owner, log_sum(logs))
        return total, total_q

    def _log_errors(self, ratios: Array) -> tuple[Array, Array]:
        lowest, highest = self._ratio_range
        c = ratios[:, None]
        atoms = self._atom_ratio > c
        type_one = _log_add(
            self._below.beyond(-ratios, also_at=True)[0],
            log_sum(np.where(atoms, -np.inf, self.atoms_p)),
        )
        type_two = _log_add(
            self._above.beyond(ratios)[1], log_sum(np.where(atoms, self.atoms_q, -np.inf))
        )
        masses_p, masses_q = self._log_masses
        rows, panels = np.nonzero(~(lowest > c) & ~(highest <= c))
        for chosen in _heaviest_first(rows, np.maximum(masses_p, masses_q)[panels]):
            own, at = panels[chosen], rows[chosen]
            some = chosen[
                (masses_p[own] >= type_one[at] - _NEGLIGIBLE)
                | (masses_q[own] >= type_two[at] - _NEGLIGIBLE)
            ]
            for piece in self._pieces(panels[some], ratios[rows[some]]):
                owner, up = rows[some[piece.owner]], piece.above
                logs = piece.log_p[~up] + piece.log_weights[~up]
                type_one = _gather(type_one, owner[~up], log_sum(logs))
                logs = piece.log_q[up] + piece.log_weights[up]
                type_two = _gather(type_two, owner[up], log_sum(logs))
        return type_one, type_two

    @cached_property
    def _places(self) -> Array:
        """Ratios that the laws take, with something beyond the first and the last."""
        ratio = np.concatenate([self._ratio.ravel(), self._atom_ratio])
        held = np.unique(ratio[np.isfinite(ratio)])
        if held.size > _TABLE:
            held = held[np.linspace(0, held.size - 1, _TABLE).astype(np.intp)]
        # P jumps at the ratios of atoms; the first and the last place have nothing beyond
        ends = np.concatenate([held[:1], held[-1:], self._atom_ratio])
        ends = ends[np.isfinite(ends)]
        ends = np.concatenate([ends * (1 + side) + side for side in (-_BESIDE, 0.0, _BESIDE)])
        return np.unique(np.concatenate([[-_LARGEST_EPSILON, _LARGEST_EPSILON], held, ends]))

    @cached_property
    def _delta_table(self) -> tuple[Array, Array]:
        """Epsilons from 0, and the logs of delta there, falling whatever the rounding."""
        places = self._places[self._places > 0]
        places = np.concatenate([[0.0], places])
        return places, np.minimum.accumulate(self.log_deltas(places)[0])

    @cached_property
    def _error_table(self) -> tuple[Array, Array]:
        """Ratios c, and the logs of P(log p - log q <= c) there, rising whatever the rounding."""
        return self._places, np.maximum.accumulate(self.log_errors(self._places)[0])

    def epsilons(self, log_deltas: Array, near: Array | None = None) -> Array:
        """Return the roots epsilon of delta(epsilon) = e^log_delta, or 0 where it is negative.

        Parameters
        ----------
        log_deltas
            Shape (n,); epsilon is infinite where the logarithm is -inf, or where delta is reached
            nowhere.
        near
            Where the roots are looked for first.
        """
        if near is not None and np.all((near > 0) & np.isfinite(near) & np.isfinite(log_deltas)):
            high = np.full(near.shape, _LARGEST_EPSILON)
            roots = self._crossing(log_deltas, near, np.zeros(near.shape), high)
            return np.where(roots < 0.5 * _LARGEST_EPSILON, roots, np.inf)
        places, table = self._delta_table
        after = np.searchsorted(-table, -log_deltas, side="left")  # the first that is not above
        result = np.where(after == 0, 0.0, np.inf)
        wanted = (after > 0) & (after < places.size) & (log_deltas > -np.inf)
        if not wanted.any():
            return result
        goals, after = log_deltas[wanted], after[wanted]
        low, high = places[after - 1], places[after]

        # delta is close to linear between two places, or falls to nothing
        f_low, f_high = table[after - 1] - goals, table[after] - goals
        with np.errstate(invalid="ignore"):
            chord = np.where(np.isfinite(f_high), f_low / (f_low - f_high), 0.0)
        start = low + np.clip(np.nan_to_num(chord), 0.0, 1.0) * (high - low)
        result[wanted] = self._crossing(goals, start, low, high)
        return result

    def _crossing(self, goals: Array, start: Array, low: Array, high: Array) -> Array:
        """Return where log delta falls below ``goals``, between ``low`` and ``high``.

        Delta is convex in e^epsilon, with slope -Q(S): a Newton step never passes the root, and is
        exact where S stays the same. Log delta is closer to linear in the tails: its step is longer
        and may pass.
        """
        point, found = start, np.zeros(goals.shape, dtype=np.bool_)
        for count in range(200):
            log_delta, log_q = self.log_deltas(point)
            above = log_delta > goals
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                scale = point + log_q
                gain = np.exp(log_delta - scale) - np.exp(goals - scale)
                newton = np.log1p(gain)
                short = np.nan_to_num(point + newton, nan=-np.inf, posinf=-np.inf)
                long = point + (log_delta - goals) * np.exp(log_delta - scale)
            high = np.where(above | found, high, np.minimum(point, high))
            low = np.where(found, low, np.minimum(np.maximum(low, short), high))
            tolerance = 1e-14 * np.maximum(1.0, np.minimum(np.abs(point), high))
            with np.errstate(invalid="ignore"):
                small = np.abs(newton) <= tolerance
            new = ~found & (small | (high - low <= tolerance))
            middle = 0.5 * (low + high)
            following = np.where((long > low) & (long < high), long, low)
            if count % 4 == 3:
                following = middle
            following = np.where(following == point, middle, following)
            point = np.where(found, point, np.where(new, np.where(small, short, middle), following))
            found |= new
            if found.all():
                break
        return np.maximum(point, 0.0)

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

    @cached_property
    def highest_ratio(self) -> float:
        """Upper bound on the log-likelihood ratio, also between the nodes."""
        atoms = np.nan_to_num(self._atom_ratio, nan=-np.inf, posinf=np.inf)
        return max(float(self._told_ratio[1].max()), float(atoms.max()))

    def betas(
        self, alphas: Array, near: Array | None = None, *, doubted: bool = False
    ) -> tuple[Array, Array, Array]:
        """Return (low, high) around the least type II error at each type I error alpha.

        By duality it is the supremum over c of 1 - Q(S) - e^-c (alpha - P(S)) with
        S = {log p - log q <= c}; the best c has P(S) about alpha, and any c gives a value that
        is not above the true one: ``low``. A test that draws between the two sets next to the best
        one reaches ``high``.

        Parameters
        ----------
        alphas
            Shape (n,).
        near
            Where the best c are looked for first.
        doubted
            Whether to count what interpolants may get wrong.

        Returns
        -------
        low, high, c
            The best c too.
        """
        # (any number in place of alpha where it is not in (0, 1))
        inside = np.clip(alphas, np.finfo(float).tiny, 1.0)
        low, high, c = self._best_thresholds(np.log(inside), near)
        ends = [self._errors(low), self._errors(high)]
        lines = [_line(end, errors, inside) for end, errors in zip((low, high), ends, strict=True)]
        if doubted:
            doubts = [self.line_doubt(end) for end in (low, high)]
            lines = [line - doubt for line, doubt in zip(lines, doubts, strict=True)]
            ends = [self._doubted_errors(*pair) for pair in zip((low, high), ends, strict=True)]
        nothing, all_ = np.zeros_like(inside), np.ones_like(inside)
        type_one = np.stack([nothing, *(one for one, _ in ends), all_])
        type_two = np.stack([all_, *(two for _, two in ends), nothing])
        reached = type_one <= inside
        x0 = np.max(np.where(reached, type_one, -1.0), axis=0)
        y0 = np.max(np.where(type_one == x0, type_two, -1.0), axis=0)
        x1 = np.min(np.where(reached, 2.0, type_one), axis=0)
        y1 = np.min(np.where(type_one == x1, type_two, 2.0), axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            chord = np.where(inside < 1, y0 + (inside - x0) / (x1 - x0) * (y1 - y0), 0.0)
        # alpha = 0: what P does not show at all
        hidden = float(np.clip(self._errors(np.array([-np.inf]))[1][0], 0.0, 1.0))
        # a coin that does not look at the iterate has the type II error 1 - alpha
        least = np.where(alphas <= 0, hidden, np.clip(np.maximum(*lines), 0.0, 1 - inside))
        most = np.where(alphas <= 0, hidden, np.clip(chord, 0.0, 1 - inside))
        return np.where(alphas >= 1, 0.0, least), np.where(alphas >= 1, 0.0, most), c

    def line(self, ratios: Array, alphas: Array) -> Array:
        """Return, by any c, a type II error below the least one at each alpha."""
        return _line(ratios, self._errors(ratios), alphas)

    def line_doubt(self, ratios: Array) -> Array:
        """Bound what interpolants may get wrong of `line`."""
        return self._in_chunks(self._doubt, ratios)[1]

    def _doubted_errors(self, ratios: Array, errors: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return ``errors`` at ``ratios`` plus what interpolants may get wrong of them."""
        doubts = self._in_chunks(self._set_doubt, ratios)
        one, two = (
            np.minimum(error + doubt, 1.0) for error, doubt in zip(errors, doubts, strict=True)
        )
        return one, two

    def rough_thresholds(self, alphas: Array) -> Array:
        """Return c with P(log p - log q <= c) roughly alpha."""
        places, table = self._error_table
        held = np.isfinite(table) & (np.abs(places) < _LARGEST_EPSILON)
        if not held.any():
            return np.zeros_like(alphas)
        with np.errstate(divide="ignore"):
            return np.interp(np.log(alphas), table[held], places[held])

    def _best_thresholds(self, log_alphas: Array, near: Array | None) -> tuple[Array, Array, Array]:
        """Return c on both sides of where P(log p - log q <= c) is alpha, and one between."""
        places, table = self._error_table
        after = np.searchsorted(table, log_alphas, side="right")  # the first that is above
        low = places[np.maximum(after - 1, 0)]
        high = places[np.minimum(after, places.size - 1)]
        wanted = (after > 0) & (after < places.size)
        low, high = np.where(wanted, low, places[0]), np.where(wanted, high, places[-1])
        between = 0.5 * (low + high)
        # errors of lines and chords are of the second order in the width
        span = float(places[-2] - places[1]) if places.size > 3 else 0.0
        least = np.minimum(np.abs(low), np.abs(high))
        width = np.maximum(_THRESHOLD_WIDTH * min(span, 1.0), 1e-13 * np.maximum(1.0, least))
        ends = low, high  # between which P does not jump
        if near is not None:  # often good enough already
            close_low, close_high = np.clip(near - width, *ends), np.clip(near + width, *ends)
            close = (self.log_errors(close_low)[0] <= log_alphas) & wanted
            close &= self.log_errors(close_high)[0] > log_alphas
            low, high = np.where(close, close_low, low), np.where(close, close_high, high)
            between = np.where(close, near, between)
            wanted &= ~close
        wanted &= high - low > 2 * width
        if wanted.any():
            goals, width = log_alphas[wanted], width[wanted]
            root = decreasing_root(
                lambda c: goals - self.log_errors(c)[0], low[wanted], high[wanted], xtol=width
            )
            low[wanted], high[wanted], between[wanted] = root - 2 * width, root + 2 * width, root
        return np.clip(low, *ends), np.clip(high, *ends), between

    def _errors(self, ratios: Array) -> tuple[Array, Array]:
        """Type I and II errors of rejecting P where log p - log q <= c."""
        type_one, type_two = self.log_errors(ratios)
        return np.exp(np.minimum(type_one, 0.0)), np.exp(np.minimum(type_two, 0.0))

    def renyi(self, alphas: Array) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Return divergences D_alpha(P || Q) of the panels that `followed` allows, shape (n,).

        Returns
        -------
        divergences, low, high
            With bounds that count what interpolants may get wrong. The integrand
            p^alpha q^(1-alpha) may peak where q is unknown: leaving panels out makes the
            divergence smaller.
        complete
            Whether the panels that are left out are sure not to matter, as the integrand has fallen
            off before them.
        """
        size = max(1, _MOST_VALUES // (4 * self.log_p.size))
        found = [self._renyi(alphas[k : k + size]) for k in range(0, max(alphas.size, 1), size)]
        values, lows, highs, complete = (
            np.concatenate(parts) for parts in zip(*found, strict=True)
        )
        return values, lows, highs, complete

    def _renyi(self, alphas: Array) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        a = alphas[:, None]
        with np.errstate(invalid="ignore"):
            atoms = a * self.atoms_p + (1 - a) * self.atoms_q
        atoms = np.where(np.isneginf(self.atoms_p), -np.inf, atoms)
        # the atoms are as far out as the panels next to them
        atoms = np.where(self.followed[[0, -1]], atoms, -np.inf)
        coarse = self._renyi_panels(alphas, 0, slice(None))
        coarse = np.where(self.followed, coarse, -np.inf)
        largest = np.maximum(coarse.max(axis=1), atoms.max(axis=1))
        finite = np.isfinite(largest)
        with np.errstate(invalid="ignore"):
            relevant = (coarse > largest[:, None] - _RENYI_RANGE) & finite[:, None]
        total = coarse.copy()
        # interpolants say nothing between the nodes of other panels
        cut = relevant & np.all(self._doubts.told, axis=-1)
        pending = np.flatnonzero(cut.any(axis=1))  # elsewhere the atoms outweigh everything
        for halvings in range(1, _MOST_HALVINGS + 1):
            if pending.size == 0:
                break
            panels = np.flatnonzero(cut[pending].any(axis=0))
            wanted = cut[np.ix_(pending, panels)]
            finer = total[pending]
            finer[:, panels] = np.where(
                wanted, self._renyi_panels(alphas[pending], halvings, panels), finer[:, panels]
            )
            with np.errstate(invalid="ignore"):  # where an interpolant dips to 0
                change = np.abs(log_sum(finer) - log_sum(total[pending]))
            total[pending] = finer
            pending = pending[change >= _RENYI_TOLERANCE]
        with np.errstate(invalid="ignore"):
            values, lows, highs = (
                np.where(finite, _log_add(log_sum(one), log_sum(atoms)) / (alphas - 1), largest)
                for one in (total, *self._doubted_renyi(alphas, total))
            )
        complete = ~relevant.any(axis=1) | self._falls_off(coarse, largest)
        return values, lows, highs, finite & complete

    def _doubted_renyi(self, alphas: Array, logs: Array) -> tuple[Array, Array]:
        """Return bounds on logs of integrals over panels, of shape (alphas, panels) like ``logs``.

        Where interpolants do not tell the ratio, p^alpha q^(1-alpha) is at least that of the masses
        of the panel (Jensen), and at most that of its nodes where q falls no deeper than it bends.
        """
        doubts = self._doubts
        a = alphas[:, None, None]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            inner = np.where(
                np.isneginf(self.log_p), -np.inf, a * self.log_p + (1 - a) * self.log_q
            )
            heights = inner + self.log_weights
            errors = a * doubts.relative[0] + (a - 1) * doubts.relative[1]
            told = np.all(doubts.told & (errors <= 0.5), axis=-1)
            shares = np.exp(heights - log_sum(heights)[..., None])
            wrong = np.sum(shares * np.expm1(np.minimum(errors, 0.5)), axis=-1)
            wrong = np.nan_to_num(wrong)
            masses_p, masses_q = self._log_masses
            mean = np.where(
                np.isneginf(masses_p), -np.inf, a[..., 0] * masses_p + (1 - a[..., 0]) * masses_q
            )
            most = log_sum(
                _over_neighbours(inner, np.fmax) + (a - 1) * doubts.bends[1] + self.log_weights
            )
            lows = np.where(told, logs + np.log1p(-wrong), mean)
            highs = np.where(told, logs + np.log1p(wrong), most)
        followed = self.followed & np.isfinite(logs)
        return np.where(followed, lows, -np.inf), np.where(followed, highs, -np.inf)

    def _falls_off(self, logs: Array, largest: Array) -> NDArray[np.bool_]:
        """Whether the integrand is negligible, and falling, at the last followed panels."""
        places = np.flatnonzero(self.followed)
        first, last = int(places[0]), int(places[-1])
        sides = []
        if first > 0:
            sides.append(logs[:, first : first + 3])
        if last < logs.shape[1] - 1:
            sides.append(logs[:, max(last - 2, 0) : last + 1][:, ::-1])
        result = np.ones(len(logs), dtype=np.bool_)
        for side in sides:
            with np.errstate(invalid="ignore"):
                result &= side[:, 0] < largest - _RENYI_RANGE
                result &= np.all(np.diff(side, axis=1) > 0, axis=1)
        return result

    def _pieces(self, panels: NDArray[np.intp], ratios: Array) -> Iterator[_Pieces]:
        """Cut panels where the log-likelihood ratio crosses a number, one number a panel.

        Yields pieces above and below the number, many at a time.
        """
        if panels.size == 0:
            return
        nodes, weights = gauss_legendre(self.panels.order)
        gaps = np.nan_to_num(self._ratio[panels], nan=-np.inf) - ratios[:, None]
        above = gaps > 0
        rows, k = np.nonzero(above[:, 1:] != above[:, :-1])
        sign = np.where(above[rows, k], 1.0, -1.0)

        def gap(place: Array) -> Array:
            log_p, log_q = self._interpolants(panels[rows], place[:, None])[..., 0]
            value = np.nan_to_num(_log_ratio(log_p, log_q), nan=-np.inf) - ratios[rows]
            return np.asarray(sign * np.clip(value, -1e300, 1e300))

        sites = self._profile[0][panels[rows]]
        sides = (np.take_along_axis(sites, k[:, None] + j, axis=1)[:, 0] for j in (0, 1))
        cuts = decreasing_root(gap, *sides, xtol=1e-15)
        # the ends of all pieces, panel by panel
        count = np.bincount(rows, minlength=panels.size) + 1
        owner = np.repeat(np.arange(panels.size), count)
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        start, end = np.full(owner.size, -1.0), np.full(owner.size, 1.0)
        inner = np.setdiff1d(np.arange(owner.size), first, assume_unique=True)
        start[inner] = cuts
        end[inner - 1] = cuts
        odd = (np.arange(owner.size) - first[owner]) % 2 == 1
        up = above[owner, 0] != odd
        parts = np.where(end > start, self._parts[panels[owner]], 0)
        part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        whole = np.repeat(np.arange(owner.size), parts)
        step = (end[whole] - start[whole]) / parts[whole]
        left = start[whole] + part * step
        half = 0.5 * step
        widths = 0.5 * np.diff(self.panels.edges)
        chunk = max(1, _MOST_VALUES // self.panels.order**2)
        for k_ in range(0, whole.size, chunk):
            some = slice(k_, k_ + chunk)
            own = owner[whole[some]]
            points = (left[some] + half[some])[:, None] + half[some, None] * nodes
            log_p, log_q = self._interpolants(panels[own], points)
            log_weights = np.log(half[some, None] * widths[panels[own], None] * weights)
            yield _Pieces(own, up[whole[some]], log_p, log_q, log_weights)

    def _renyi_panels(
        self, alphas: Array, halvings: int, chosen: slice | NDArray[np.intp]
    ) -> Array:
        """Log of the integral of p^alpha q^(1-alpha) over each chosen panel, on halved panels.

        Shape (alphas, panels).
        """
        rows_p, rows_q = self.log_p[chosen], self.log_q[chosen]
        log_weights = self.log_weights[chosen]
        if halvings:
            nodes, weights = gauss_legendre(self.panels.order)
            parts = 2**halvings
            places = ((np.arange(parts)[:, None] * 2 + 1 + nodes) / parts - 1).ravel()
            panels = np.arange(len(self.log_p))[chosen]
            rows_p, rows_q = self._interpolants(panels, np.tile(places, (panels.size, 1)))
            scale = log_weights[:, :1] - np.log(weights[0])
            log_weights = scale + np.log(np.tile(weights, parts) / parts)
        empty = np.isneginf(rows_p)
        result = np.empty((alphas.size, len(rows_p)))
        size = max(1, _MOST_VALUES // max(rows_p.size, 1))
        for k in range(0, alphas.size, size):
            a = alphas[k : k + size, None, None]
            with np.errstate(invalid="ignore"):
                logs = a * rows_p + (1 - a) * rows_q + log_weights
            result[k : k + size] = log_sum(np.where(empty, -np.inf, logs))
        return result


@dataclass(frozen=True)
class _Pieces:
    """Pieces of cut panels, each at its own Legendre nodes.

    Attributes
    ----------
    owner
        Which of the panels that were cut each piece is from, shape (pieces,).
    above
        Whether the ratio is above the number there, shape (pieces,).
    log_p, log_q, log_weights
        Shape (pieces, order).
    """

    owner: NDArray[np.intp]
    above: NDArray[np.bool_]
    log_p: Array
    log_q: Array
    log_weights: Array


@dataclass(frozen=True, eq=False)
class _Doubts:
    """What interpolants of two functions may get wrong next to each node.

    Attributes
    ----------
    panels
        Panels on which the distance to coarser laws does not show it.
    own
        Bounds on the errors of integrals of each function, shape (2, panels, order).
    sets
        Those, and what each function holds where the other one does not tell the sets.
    relative
        Bounds on the relative errors of each function, shape (2, panels, order).
    told
        Whether the ratio is known but for the relative errors, shape (panels, order).
    bends
        Bounds on how far each logarithm falls below its values at the nodes on both sides, shape
        (2, panels, order).
    """

    panels: NDArray[np.intp]
    own: Array
    sets: Array
    relative: Array
    told: NDArray[np.bool_]
    bends: Array


class _Prefixes:
    """Sums of masses over all panels whose key is above a number."""

    def __init__(self, keys: Array, log_p: Array, log_q: Array) -> None:
        rank = np.argsort(-keys, kind="stable")
        self._falling = -keys[rank]
        self._log_p, self._log_q = (
            np.concatenate([[-np.inf], np.logaddexp.accumulate(logs[rank])])
            for logs in (log_p, log_q)
        )

    def beyond(self, numbers: Array, *, also_at: bool = False) -> tuple[Array, Array]:
        """Return logs of P and Q of the panels with a key above each number, or equal to it."""
        count = np.searchsorted(self._falling, -numbers, side="right" if also_at else "left")
        return self._log_p[count], self._log_q[count]


def _both_followed(first: Law, second: Law) -> NDArray[np.bool_]:
    """Whether each panel is followed in both laws; at least the one where P is largest."""
    result = np.ones(len(first.state.log_values), dtype=np.bool_)
    for law in (first, second):
        if law.followed is not None:
            result &= law.followed
    return result


def _sums(rows: NDArray[np.intp], values: Array, count: int) -> Array:
    """Return the sums of the values, shape (len(rows), k), of each of ``count`` rows."""
    return np.bincount(rows, values.sum(axis=1), minlength=count).astype(np.float64)


def _over_neighbours(values: Array, best: np.ufunc) -> Array:
    """Return ``best`` of each entry of the last axis and the entries next to it."""
    result = values.copy()
    result[..., 1:] = best(result[..., 1:], values[..., :-1])
    result[..., :-1] = best(result[..., :-1], values[..., 1:])
    return result


def _bends(logs: Array, nodes: Array) -> Array:
    """Bound how far a law's log density falls below that at each node next to it.

    It is the logarithm of a sum of normal densities: convex but for a parabola that is almost flat
    between two nodes, so that its slopes on both sides bound how deep it falls.
    """
    widths = np.diff(nodes)
    with np.errstate(invalid="ignore"):
        slopes = np.diff(logs, axis=-1) / widths
        jumps = np.maximum(np.diff(slopes, axis=-1), 0.0)
    depths = np.zeros_like(slopes)
    depths[..., :-1] += jumps
    depths[..., 1:] += jumps
    depths[..., 1:-1] /= 2
    depths = np.nan_to_num(widths * depths, nan=np.inf)
    result = np.full_like(logs, _BEND)
    result[..., :-1] += depths
    result[..., 1:] = np.maximum(result[..., 1:], depths + _BEND)
    return result


def _log_ratio(log_p: Array, log_q: Array) -> Array:
    """Log p - log q; NaN where both vanish, which belongs to no set."""
    with np.errstate(invalid="ignore"):
        return np.asarray(log_p - log_q)


def _line(ratios: Array, errors: tuple[Array, Array], alphas: Array) -> Array:
    """Return lines that touch the tradeoff function where its slope is -e^-c, at ``alphas``."""
    type_one, type_two = errors
    # alpha = 0 at an unbounded ratio: the tangent is vertical
    slopes = np.where(ratios > -700, np.exp(-np.maximum(ratios, -700.0)), 0.0)
    return np.asarray(type_two - slopes * (alphas - type_one))


def _excess(log_p: Array, ratio: Array, epsilon: Array) -> Array:
    """Log of p - e^epsilon q, -inf where it is not positive."""
    with np.errstate(invalid="ignore"):
        gap = np.minimum(epsilon - ratio, -1e-300)
        return np.asarray(np.where(ratio > epsilon, log_p + np.log(-np.expm1(gap)), -np.inf))


def _log_add(a: Array, b: Array) -> Array:
    return np.asarray(np.logaddexp(a, b))


def _gather(total: Array, owner: NDArray[np.intp], logs: Array) -> Array:
    """Add the numbers with the logarithms ``logs`` to the entries ``owner`` of ``total``."""
    if owner.size == 0:
        return total
    top = total.copy()
    np.maximum.at(top, owner, logs)
    shift = np.where(np.isfinite(top), top, 0.0)
    added = np.bincount(owner, np.exp(logs - shift[owner]), minlength=total.size)
    with np.errstate(divide="ignore"):
        return np.asarray(shift + np.log(np.exp(total - shift) + added))


def _heaviest_first(rows: NDArray[np.intp], masses: Array) -> Iterator[NDArray[np.intp]]:
    """Yield places among ``rows``: of every row the one with the largest mass, then all others."""
    if rows.size == 0:
        return
    rank = np.lexsort((-masses, rows))
    heaviest = np.concatenate([[True], np.diff(rows[rank]) > 0])
    yield rank[heaviest]
    yield rank[~heaviest]


@dataclass(frozen=True, eq=False)
class LawCurve(BracketedCurve):
    """Curve of two computed laws.

    Values come from the laws at the fine resolution. A bracket includes

    - the discretisation error, as the distance between the two resolutions (convergence is
      geometric, so the fine value is far closer to the truth than to the coarse value);
    - the relative rounding error rho of either law: (1 +- rho) on every probability, which changes
      epsilon by log((1 + rho)/(1 - rho)) and delta by a factor 1 +- rho;
    - what the likelihood ratio varies by between places where it is known to be monotone
      (`audit.numerics.turning_points`): a part of rho where it is small, else as much as a wrong
      set may gain there;
    - the errors of interpolants between nodes, as the last coefficients of their series bound them,
      with all the mass where a law is smaller than that: in a valley between two far bumps;
    - the mass lost from a truncated line, which bounds the error of an event's probability.

    Attributes
    ----------
    first, second : Law
        Laws of X and X' at the fine resolution.
    coarse : tuple of (Law, Law)
        Both laws at a coarser resolution.
    """

    many_at_once = True

    first: Law
    second: Law
    coarse: tuple[Law, Law]
    _pairs: dict[tuple[Order, bool], LawPair] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        x, y = self.coarse
        pairs = {
            (Order.FORWARD, True): LawPair(self.first, self.second),
            (Order.FORWARD, False): LawPair(x, y),
        }
        for fine, (one, other) in ((True, (self.first, self.second)), (False, (x, y))):
            pairs[Order.REVERSE, fine] = LawPair(other, one, pairs[Order.FORWARD, fine])
        object.__setattr__(self, "_pairs", pairs)

    @property
    def relative_error(self) -> float:
        """Bound on the relative rounding error of either law."""
        return max(self.first.relative_error, self.second.relative_error)

    @cached_property
    def _error(self) -> float:
        """Bound on the relative error of either law that may decide which set is the best.

        What the log-likelihood ratio varies by unseen counts as an error of a law.
        """
        slacks = [self._pairs[Order.FORWARD, fine].turning.slack for fine in (True, False)]
        return self.relative_error + max(slacks)

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return a bracket of epsilon at ``delta``."""
        validate.half_open_unit(delta=delta)
        return worse_bracket(lambda o: _only(self.epsilon_brackets(np.array([delta]), o)), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return a bracket of delta at ``epsilon``."""
        validate.finite(epsilon=epsilon)
        return worse_bracket(lambda o: _only(self._delta_brackets(np.array([epsilon]), o)), order)

    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return a bracket of the Renyi divergence of order ``alpha``."""
        validate.above_one(alpha=alpha)
        return worse_bracket(lambda o: _only(self.renyi_brackets(np.array([alpha]), o)), order)

    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the power 1 - beta of the best test at ``alpha``."""
        validate.open_unit(alpha=alpha)
        return _only(self.power_brackets(np.array([alpha]), order))

    def beta_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the type II error at type I error ``alpha``.

        Parameters
        ----------
        alpha : float
            Type I error, in (0, 1).
        order : Order
            Order of the pair.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound.

        Raises
        ------
        ValueError
            If ``alpha`` is outside (0, 1).
        """
        validate.open_unit(alpha=alpha)
        return _only(self._beta_brackets(np.array([alpha]), order))

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu of the pair in one order, open above."""
        low, epsilon = gaussian_mu(self._delta_brackets(EPSILONS, order)[0], EPSILONS)
        return MuBracket(low, math.inf, epsilon)

    def epsilon_brackets(self, deltas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of epsilon at many deltas."""
        rho, every = self._error, deltas
        shift = math.log1p(rho) - math.log1p(-rho)
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        pure = deltas == 0
        with np.errstate(divide="ignore"):
            logs = np.log(deltas)
        values = fine.epsilons(logs)
        found = np.isfinite(values)
        lows, highs = np.zeros_like(values), np.full_like(values, np.inf)
        if pure.any():
            lows[pure], highs[pure] = self._pure_bracket(order)
        if not found.any():
            return checked_all("epsilon at delta", every, (lows, highs), order)
        values, deltas = values[found], deltas[found]
        gaps = np.abs(values - coarse.epsilons(logs[found], near=values))
        doubt = _SPARE * fine.doubt(values)
        for _ in range(_DOUBTED):
            least = np.maximum((deltas - lost_p - self._unseen(order)[0] - doubt) / (1 + rho), 0.0)
            most = deltas + np.exp(np.minimum(values + shift, 700.0)) * lost_q + doubt
            most = (most + self._unseen(order)[0]) / (1 - rho)
            with np.errstate(divide="ignore"):
                ends = np.log(np.concatenate([least, np.minimum(most, 1.0)]))
                both = fine.epsilons(ends, near=np.tile(values, 2))
            upper, lower = both[: least.size], both[least.size :]
            needed = np.maximum(fine.doubt(upper), fine.doubt(lower))
            open_ = needed > doubt
            if not open_.any():
                break
            doubt = np.where(open_, _SPARE * needed, doubt)
        highs[found] = np.where(open_, np.inf, upper + shift + gaps)
        lows[found] = np.where((most >= 1) | open_, 0.0, np.maximum(lower - shift - gaps, 0.0))
        return checked_all("epsilon at delta", every, (lows, highs), order)

    def renyi_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the Renyi divergences of many orders."""
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        values, least, most, complete = fine.renyi(alphas)
        others, _, _, coarse_complete = coarse.renyi(alphas)
        complete &= coarse_complete
        # a divergence of order above 1 may gain without limit in the lost tails
        bounded = complete & (max(self._lost(order)) == 0)
        rho = self.relative_error
        finite = np.isfinite(values)
        with np.errstate(invalid="ignore"):
            # the coarse law is followed less far: it may lack what the fine one has, never the
            # reverse
            gaps = np.where(complete, np.abs(values - others), np.maximum(values - others, 0.0))
            slack = alphas * math.log1p(rho) - (alphas - 1) * math.log1p(-rho)
            slack = slack / (alphas - 1) + gaps
            lows = np.where(finite, np.maximum(least - slack, 0.0), 0.0)
            highs = np.where(finite & bounded, most + slack, np.inf)
        # no law of noisy steps vanishes anywhere: an infinite value underflowed, certifies nothing
        return checked_all("Renyi divergence of order", alphas, (lows, highs), order)

    def power_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the power of the best tests at many type I errors."""
        lows, highs = self._beta_brackets(alphas, order)
        return 1 - highs, 1 - lows

    def epsilon_may_exceed(self, epsilons: Array, deltas: Array, order: Order) -> NDArray[np.bool_]:
        """Return whether epsilon at each delta may exceed a number, without solving for a root."""
        return self._delta_brackets(epsilons, order)[1] > deltas

    def power_may_exceed(self, powers: Array, alphas: Array, order: Order) -> NDArray[np.bool_]:
        """Return whether the power at each type I error may exceed a number, by a line."""
        rho = self._error
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        moved = (alphas + lost_p) / (1 - rho)
        ratios = fine.rough_thresholds(moved)
        values, others = (pair.line(ratios, moved) for pair in (fine, coarse))
        gaps = np.abs(values - others) + 8 * _UNIT_ROUNDOFF + self._unseen(order)[1]
        gaps += fine.line_doubt(ratios)
        return 1 - (np.maximum(values, 0.0) * (1 - rho) - lost_q - gaps) > powers

    def _beta_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around type II errors.

        ``alphas`` move by the errors of the laws, so that a bracket is as wide as the slope of
        the tradeoff function demands: it is steep near alpha = 0.
        """
        rho = self._error
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        values, _, c = fine.betas(alphas)
        gaps = np.abs(values - coarse.betas(alphas, near=c)[0]) + 8 * _UNIT_ROUNDOFF
        gaps += self._unseen(order)[1]
        most = fine.betas((alphas - lost_p) / (1 + rho), near=c, doubted=True)[1]
        least = fine.betas((alphas + lost_p) / (1 - rho), near=c, doubted=True)[0]
        lows, highs = least * (1 - rho) - lost_q - gaps, most * (1 + rho) + lost_q + gaps
        brackets = np.maximum(lows, 0.0), np.minimum(highs, 1.0)
        return checked_all("type II error at alpha", alphas, brackets, order, most=1.0)

    def _lost(self, order: Order) -> tuple[float, float]:
        lost = self.first.lost_mass, self.second.lost_mass
        return lost if order is Order.FORWARD else (lost[1], lost[0])

    def _unseen(self, order: Order) -> tuple[float, float]:
        """Bounds on what wrong sets may gain, in terms of the first and of the second law."""
        first, second = (max(self._pairs[o, fine].unseen for fine in (True, False)) for o in Order)
        return (first, second) if order is Order.FORWARD else (second, first)

    def _pure_bracket(self, order: Order) -> Bracket:
        """Return (low, high) around epsilon at delta = 0, open above where mass was lost."""
        rho = self._error
        lost = max(self._lost(order))
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        value = fine.largest_ratio(lost)
        error = math.log1p(rho) - math.log1p(-rho) + abs(value - coarse.largest_ratio(lost))
        complete = lost == 0 and bool(fine.followed.all())
        highest = max(value, fine.highest_ratio)
        return max(value - error, 0.0), max(highest, 0.0) + error if complete else math.inf

    def _delta_brackets(self, epsilons: Array, order: Order) -> tuple[Array, Array]:
        rho = self._error
        shift = math.log1p(rho) - math.log1p(-rho)
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        moved = np.concatenate([epsilons, epsilons - shift, epsilons + shift])
        logs = fine.log_deltas(moved)[0]
        # positive numbers below the range of doubles are not 0
        at, above, below = np.split(np.exp(logs) + np.where(np.isfinite(logs), TINY, 0.0), 3)
        gaps = np.abs(at - np.exp(coarse.log_deltas(epsilons)[0]))
        doubts = [fine.doubt(e) for e in np.split(moved, 3)]
        gaps += np.max(doubts, axis=0)
        highs = (1 + rho) * above + lost_p + gaps + self._unseen(order)[0]
        lows = (1 - rho) * below - gaps - np.exp(np.minimum(epsilons, 700.0)) * lost_q
        lows -= self._unseen(order)[0] + 2 * TINY
        brackets = np.maximum(lows, 0.0), np.minimum(highs, 1.0)
        return checked_all("delta at epsilon", epsilons, brackets, order, most=1.0)

    def _pure_epsilon(self, order: Order) -> float:
        lost = max(self._lost(order))
        return math.inf if lost > 0 else max(self._pairs[order, True].largest_ratio(0.0), 0.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        with np.errstate(divide="ignore"):
            return self._pairs[order, True].epsilons(np.log(delta))

    def _delta(self, epsilon: Array, order: Order) -> Array:
        log_delta = self._pairs[order, True].log_deltas(epsilon)[0]
        return np.asarray(np.minimum(1.0, np.exp(log_delta)))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return self._pairs[order, True].betas(alpha)[0]

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self._pairs[order, True].renyi(alpha)[0]


def worse_bracket(bracket: Callable[[Order], Bracket], order: Order | None) -> Bracket:
    """Return the bracket of one order, or that of the worse one for None."""
    if order is not None:
        validate.instance(Order, order=order)
        return bracket(order)
    (low_a, high_a), (low_b, high_b) = bracket(Order.FORWARD), bracket(Order.REVERSE)
    return max(low_a, low_b), max(high_a, high_b)


def _only(brackets: tuple[Array, Array]) -> Bracket:
    """Return the one bracket as numbers."""
    low, high = brackets
    return float(low[0]), float(high[0])
