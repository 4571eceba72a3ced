"""Chien and Li (2025), Theorem 3.12: batches drawn without replacement.

See `audit.bounds.cl25.distance_tracking` for the paper's K, L and sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.bounds.accounting.shift_allocation import (
    HolderModulus,
    HolderShifts,
    LipschitzShifts,
    Meetings,
)
from audit.bounds.assumptions import HOLDER, SMOOTH
from audit.bounds.cl25.distance_tracking import (
    Growth,
    clip_speed,
    domain,
    excess,
    holder_modulus,
    lipschitz_growth,
)
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import CostlyRenyiCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

_SPLITS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92, 0.97, 1.0)
_LONGEST = 4096


def _sampled_growth(mechanism: NoisySGD) -> list[tuple[Growth, HolderModulus | None, float]]:
    """Return (tracking, modulus or None, c - 1) for each condition that the mechanism meets."""
    b = mechanism.batch_size
    speed, widest = clip_speed(mechanism), domain(mechanism)
    branches: list[tuple[Growth, HolderModulus | None, float]] = []
    if HOLDER.holds(mechanism):
        met = holder_modulus(mechanism, (b - 1) / b)
        growth = Growth(met, met, speed / b, speed, widest)
        branches.append((growth, holder_modulus(mechanism), 0.0))
    if SMOOTH.holds(mechanism):
        surplus = excess(mechanism)
        base = lipschitz_growth(mechanism, b, surplus * ((b - 1) / b if surplus > 0 else 1.0))
        growth = Growth(base.free, base.met, speed / b, speed, widest)
        branches.append((growth, None, surplus))
    return branches


def _absorbing_costs(mechanism: NoisySGD) -> tuple[Array, Array]:
    """Return lengths k and small sums of a_t^2 that absorb the distance at T - k."""
    steps = mechanism.steps
    dense = np.arange(1, min(steps, _LONGEST) + 1)
    sparse = np.rint(np.geomspace(1, steps, 256)).astype(np.int64)
    lengths = np.unique(np.concatenate([dense, sparse, steps + 1 - sparse]))
    best = np.full(lengths.size, np.inf)
    every = Meetings(steps)
    for growth, modulus, surplus in _sampled_growth(mechanism):
        distances = growth.after(every)(steps - lengths)
        if modulus is not None and modulus.order < 1:
            costs = np.full(lengths.size, np.inf)
            shifts = HolderShifts(every, 0.0, modulus)
            costs[: dense.size] = shifts.costs(distances[: dense.size])
            costs = np.where(distances == 0, 0.0, costs)
        else:
            constant = surplus if modulus is None else modulus.constant
            costs = LipschitzShifts(every, 0.0, constant).costs(lengths, distances)
        best = np.minimum(best, costs)
    return lengths.astype(np.float64), best


@dataclass(frozen=True, eq=False)
class _SampledDivergence:
    """The minimum of equation (19) over tau and a constant split, for each order."""

    lengths: Array
    absorbed: Array
    rate: float
    noise: float  # sigma b/(2 eta K)
    order: Order
    square_root: bool
    splits: tuple[float, ...]

    def __call__(self, alpha: ArrayLike) -> Array:
        orders, splits = np.atleast_1d(np.asarray(alpha)), np.array(self.splits)
        noises = self.noise * (np.sqrt(splits) if self.square_root else splits)
        steps = sampled_gaussian_renyi(orders[:, None], self.rate, noises, self.order)
        return np.array(
            [self._one(float(a), step) for a, step in zip(orders, np.asarray(steps), strict=True)]
        )

    def _one(self, alpha: float, steps: Array) -> float:
        best = math.inf
        for split, step in zip(self.splits, steps, strict=True):
            # without a distance all noise may hide the gradients
            room = alpha / (2 * (1 - split)) if split < 1 else math.inf
            moved = np.zeros_like(self.absorbed)
            np.multiply(self.absorbed, room, out=moved, where=self.absorbed > 0)
            best = min(best, float(np.min(self.lengths * step + moved)))
        return best


def _theorem_3_12(
    mechanism: NoisySGD, beta: float | None, order: Order, square_root: bool
) -> PrivacyCurve:
    splits: tuple[float, ...] = _SPLITS
    if beta is not None:
        validate.positive(beta=beta)
        validate.closed_unit(beta=beta)
        splits = (float(beta),)
    lengths, absorbed = _absorbing_costs(mechanism)
    divergence = _SampledDivergence(
        lengths,
        absorbed / mechanism.step_std**2,
        mechanism.sampling_rate,
        mechanism.step_std * mechanism.batch_size / clip_speed(mechanism),
        order,
        square_root,
        splits,
    )
    return CostlyRenyiCurve(divergence, search=(1e-2, 1e3), points=41, refinements=2)


@bound("cl25.theorem_3_12")
def theorem_3_12(mechanism: NoisySGD, *, beta: float | None = None) -> PrivacyCurve:
    """Batches drawn without replacement, Hoelder continuous gradients (Theorem 3.12, as printed).

    The minimum is over tau, beta_t and a_t with A_tau >= D_tau as in Theorem 3.7 and D_t =
    min(g(D_(t-1); eta L (b-1)/b) + 2 eta K/b, D_(t-1) + 2 eta K, D). S_alpha is one order of the
    pair (Definition 3.11), and a mechanism is private only if both are bounded: one step of one of
    two records with gradients +L, +L against +L, -L refutes it. The split is constant here, and one
    of 12 values.

    beta: Noise split, in (0, 1]. Default: the best of 12 values for each order alpha.
    """
    return _theorem_3_12(mechanism, beta, Order.REVERSE, False)


@bound("cl25.theorem_3_12_both_orders")
def theorem_3_12_both_orders(mechanism: NoisySGD, *, beta: float | None = None) -> PrivacyCurve:
    """Theorem 3.12 with the larger of both orders of S_alpha, and sqrt(beta_t) in it.

    The noise Z_t has variance beta_t sigma^2, so its standard deviation has the square root.
    Unproven: given the shifted noise, the law of the batch differs for the second process, so the
    two processes do not share their maps, as the proof requires.
    """
    # D(mixture || N) is the larger one (Mironov, Talwar and Zhang 2019, Theorem 5)
    return _theorem_3_12(mechanism, beta, Order.FORWARD, True)
