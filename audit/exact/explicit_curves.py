"""Curves of explicit pairs: the closed form, the cells of one draw, or a composition of draws."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from audit.constructions.explicit import (
    Densities,
    Distributions,
    ExplicitPair,
    Finite,
    LaplaceMixtures,
    Mixture,
    Mixtures,
)
from audit.constructions.explicit_laws import AllIterates, DiscreteGaussian, Gaussian
from audit.curves import Order
from audit.curves.bracketed import BracketedCurve, bracket_width
from audit.curves.brackets import Bracket
from audit.curves.finite_pair import Cells
from audit.dominating.curve import ComposedCurve, DominatingCurve, EnclosedCurve
from audit.dominating.dispatch import collapsed, dominating_curve
from audit.dominating.grid import GridPair, dominated, dominating
from audit.dominating.poisson import poisson_curve
from audit.exact.cell_curve import CellCurve, DiscreteGaussianCurve, ExponentialCells, FiniteCells
from audit.exact.law import UNIT, Law
from audit.exact.law_curve import LawCurve
from audit.exact.normal_cells import NormalCells
from audit.exact.normal_laws import GaussianPairCurve, NormalLaw
from audit.mechanism import Composition, Relation
from audit.numerics.arrays import Array

Drawn = Mixtures | LaplaceMixtures | Finite

_MAX_ENTRIES = 1_000_000  # numbers in a table of the counts of repeated draws
# Points of the losses of one draw in a standard deviation of them, and losses that are kept.
_POINTS, _MAX_POINTS = 150, 1_000_000
_NEGLIGIBLE = math.log(1e-60)  # log probability of a draw's losses that are merged
# Cells of one draw: of a standard deviation, and in all.
_PER_DEVIATION, _PER_PAIR = 320, 40_000
_ACCURACY = 1e-6  # relative, of epsilon for subsampled Gaussian mechanisms


@dataclass(frozen=True, eq=False)
class RepeatedCurve(BracketedCurve):
    """Curve of independent draws of a pair, from compositions below and above.

    Both ends of a bracket are certified. The Gaussian parameter mu has no upper end.
    """

    dominating: DominatingCurve
    pure: Callable[[Order], Bracket]  # bracket of epsilon at delta = 0
    divergence: Callable[[float, Order], Bracket]  # bracket of the divergence of a Renyi order

    @property
    def unrefined(self) -> Self:
        """The curve from compositions for which no grid is refined."""
        return replace(self, dominating=self.dominating.unrefined)

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        if delta == 0:
            return self.pure(order)
        low, high = self.dominating.epsilon_bracket(delta, order)
        return low, min(high, self.pure(order)[1])

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        if delta == 0:  # a sum over the draws
            return {"cells": bracket_width(self.epsilon_bracket(delta, order))}
        whole = bracket_width(self.epsilon_bracket(delta, order))  # the largest loss may cut it
        return {cause: min(w, whole) for cause, w in self.dominating.errors(delta, order).items()}

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        low, high = self.dominating.delta_bracket(epsilon, order)
        return low, high if epsilon < self.pure(order)[1] else 0.0

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        return self.divergence(alpha, order)

    def _pure_epsilon(self, order: Order) -> float:
        return self.pure(order)[1]

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.minimum(self.dominating.epsilon(delta, order), self.pure(order)[1])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.asarray(self.dominating.delta(epsilon, order))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.dominating.beta(alpha, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self.renyi_bracket(alpha, order)[1]


def explicit_curve(pair: ExplicitPair) -> CellCurve | GaussianPairCurve | RepeatedCurve:
    """Return the curve of an explicit pair; the closed form for two normals of one variance."""
    if isinstance(pair, AllIterates):
        return _of_all_iterates(pair)
    distributions = pair.distributions()
    if isinstance(distributions, Mixtures):
        normal = _normal_pair(distributions)
        if normal is not None:
            return normal
    if isinstance(pair, Gaussian) and isinstance(distributions, Mixtures) and pair.times > 1:
        rate, relation = float(pair.sampling_rate), Relation.ZERO_OUT
        noise_multiplier = pair.noise_std / pair.sensitivity
        return _repeated(
            [distributions],
            poisson_curve(noise_multiplier, rate, pair.times, relation, accuracy=_ACCURACY),
        )
    if isinstance(pair, DiscreteGaussian):
        once = DiscreteGaussianCurve(pair)
        if pair.times == 1:
            return once
        composed = ComposedCurve.of(*_grid_pairs(once.grid.cells()), pair.times)
        return _repeated([pair.distributions()], composed, once)
    few = isinstance(distributions, Finite) and distributions.entries <= _MAX_ENTRIES
    if few or isinstance(distributions, Densities) or distributions.times == 1:
        return single_curve(distributions)
    return _composed(distributions)


def single_curve(pair: Distributions) -> LawCurve | CellCurve:
    """Return the curve of one draw of a pair, of all draws of a finite one, from its cells."""
    if isinstance(pair, Mixtures):
        return LawCurve(mixture_law(pair.first), mixture_law(pair.second))
    return CellCurve(
        FiniteCells.of(pair) if isinstance(pair, Finite) else ExponentialCells.of(pair)
    )


def mixture_law(mixture: Mixture) -> Law:
    """Return a mixture as a law; weights that are written down may not sum to 1."""
    with np.errstate(divide="ignore"):
        logs = np.log(mixture.weights)
    largest = float(np.abs(logs[logs > -np.inf]).max())
    rounding = 2 * abs(math.fsum(mixture.weights) - 1) + UNIT * (8 + 4 * largest)
    means, stds = np.array(mixture.means), np.array(mixture.stds)
    return Law.of(means, stds, logs, rounding=rounding, exact_means=True)


def _of_all_iterates(pair: AllIterates) -> RepeatedCurve | GaussianPairCurve:
    curve, m = dominating_curve(pair.mechanism), pair.mechanism
    try:
        parts = collapsed(m.parts) if isinstance(m, Composition) else [m]
        laws = [AllIterates(part).distributions() for part in parts]
    except ValueError:  # no formula: epsilon and delta only, from both sides
        return RepeatedCurve(
            curve,
            pure=lambda order: (0.0, math.inf),
            divergence=lambda alpha, order: (0.0, curve.renyi(alpha, order)),
        )
    if len(laws) == 1 and (normal := _normal_pair(laws[0])) is not None:
        return normal
    found = _repeated(laws, curve)
    if not isinstance(curve, EnclosedCurve):
        return found
    # the laws are attained, and do not dominate all others
    return replace(
        found,
        pure=lambda order: (found.pure(order)[0], math.inf),
        divergence=lambda alpha, order: (
            found.divergence(alpha, order)[0],
            curve.renyi(alpha, order) * (1 + 8 * UNIT),
        ),
    )


def _normal_pair(pair: Mixtures) -> GaussianPairCurve | None:
    """Return the closed form of one draw of two normals of one variance."""
    normals = [
        NormalLaw.at(mean, std)
        for law in (pair.first, pair.second)
        for mean, std in zip(law.means, law.stds, strict=True)
    ]
    if len(normals) != 2 or normals[0].std != normals[1].std or pair.times > 1:
        return None
    return GaussianPairCurve(abs(normals[0].mean - normals[1].mean) / normals[0].std, *normals)


def _composed(pair: Drawn) -> RepeatedCurve:
    """Return the curve of several draws of a pair of laws."""
    once = replace(pair, times=1)
    if isinstance(once, Mixtures):
        laws = mixture_law(once.first), mixture_law(once.second)
        cells = NormalCells.of(*laws, _PER_DEVIATION).cells()
    elif isinstance(once, Finite):
        cells = FiniteCells.of(once).cells()
    else:
        cells = ExponentialCells.of(once, _PER_PAIR).cells()
    return _repeated([pair], ComposedCurve.of(*_grid_pairs(cells), pair.times))


def _grid_pairs(cells: Cells) -> tuple[GridPair, GridPair]:
    """Return pairs on a grid of losses below and above a pair, in both orders.

    A pair whose masses of cells are within the factors e^(+-error) is that of other masses on each
    cell, times such factors, and its losses then are in a range that is wider by 2 error.
    """
    # the losses of cells that do not matter may be far away
    far = np.maximum(cells.log_p, cells.log_q) < _NEGLIGIBLE
    tops = cells.log_p + cells.error_p, cells.log_q + cells.error_q
    rest = [float(np.logaddexp.reduce(log[far], initial=-np.inf)) for log in tops]
    near = cells.part(~far)
    error = float(np.max(np.maximum(near.error_p, near.error_q), initial=0.0))
    interval = _interval(near.log_p, near.log_q)
    log_p, log_q = np.append(near.log_p, rest[0]), np.append(near.log_q, rest[1])
    lower = dominated(log_p, log_q, interval, rounding=2 * error)
    none = np.zeros(near.log_p.size)
    split = replace(
        near, low=near.low - 2 * error, high=near.high + 2 * error, error_p=none, error_q=none
    ).split()
    logs = np.stack([split.log_p, split.log_q])
    # shares of cells are exponentials of differences of logarithms
    rounding = UNIT * (32 + 8 * float(np.abs(logs[np.isfinite(logs)]).max(initial=0.0)))
    upper = dominating(
        np.append(split.log_p, [rest[0], -np.inf]),
        np.append(split.log_q, [-np.inf, rest[1]]),
        interval,
        rounding=2 * error + rounding,
    )
    return lower, upper


def _repeated(
    pairs: Sequence[Drawn], dominating: DominatingCurve, once: BracketedCurve | None = None
) -> RepeatedCurve:
    """Return the curve of several draws of each pair; all but epsilon and delta add up.

    The curve of one draw is ``once``, if it is given.
    """

    @functools.cache
    def single(number: int) -> BracketedCurve:
        if once is not None:
            return once
        pair = replace(pairs[number], times=1)
        normal = _normal_pair(pair) if isinstance(pair, Mixtures) else None
        return single_curve(pair) if normal is None else normal

    def total(ask: Callable[[BracketedCurve], Bracket]) -> Bracket:
        # rounding is far below the width of any of them
        ends = [ask(single(number)) for number in range(len(pairs))]
        low, high = (
            math.fsum(pair.times * end[k] for pair, end in zip(pairs, ends, strict=True))
            for k in (0, 1)
        )
        return low, high

    return RepeatedCurve(
        dominating,
        functools.cache(lambda order: total(lambda curve: curve.epsilon_bracket(0.0, order))),
        lambda alpha, order: total(lambda curve: curve.renyi_bracket(alpha, order)),
    )


def _interval(log_p: Array, log_q: Array) -> float:
    """Return a grid's interval: a small part of the standard deviation of the losses."""
    both = np.isfinite(log_p) & np.isfinite(log_q)
    losses, weights = (log_p - log_q)[both], np.exp(log_p[both]) + np.exp(log_q[both])
    if losses.size == 0:
        return 1.0
    mean = float(np.average(losses, weights=weights))
    spread = math.sqrt(float(np.average((losses - mean) ** 2, weights=weights)))
    return max(spread / _POINTS, float(np.ptp(losses)) / _MAX_POINTS, 1e-9)
