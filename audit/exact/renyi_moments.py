"""Renyi moments of two mixtures of normals, by quadrature with an error bound.

With s the smallest deviation, every normal is a mixture of normals of deviation s.

The integrand f = p^alpha q^(1 - alpha) is analytic where q has no zero. With y and t real,
|p(y + it)| <= e^(t^2/2s^2) p(y), and |q(y + it)| >= e^(t^2/2s^2) q(y) ((1 - r) cos(t w) - r) if all
but a share r of the normals, weighted by their densities at y, have scores in a range of 2w: their
phases differ by 2 t w at most. So
|f(y + it)| <= e^(t^2/2s^2) f(y) ((1 - r) cos(t w) - r)^(1 - alpha).

On a panel of width h, Gauss-Legendre quadrature with n nodes errs by at most
(h/2) (64/15) M rho^(-2n) / (1 - rho^-2) (Trefethen 2008, Theorem 4.5), with M the maximum of |f| on
the ellipse with half-axes a = h (rho + 1/rho)/4 and b = h (rho - 1/rho)/4.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.curves.cells import Cells
from audit.exact.law import Law
from audit.exact.normal_cells import NormalCells, largest_ratio
from audit.numerics.panels import gauss_legendre

Array = NDArray[np.float64]

_NODES, _RHO = 20, 3.0
_SHARE = 1e-9  # of the normals that may have any score
# What the bounds may grow by on the ellipse, in logarithms: leaves some 1e-15 of an integral.
_GROWTH = 6.0
_NEGLIGIBLE = 50.0
_SEEN = 40.0  # how far above the lost mass laws are certain, in logarithms
_MOST_POINTS = 4_000_000
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


def log_moment_bracket(
    grid: NormalCells, cells: Cells, alpha: float, forward: bool, rate: float
) -> tuple[float, float]:
    """Return bounds on the log of the integral of p^alpha q^(1 - alpha), atoms included.

    Where the laws lose mass, their far tails A may hold more of the integral than is computed. With
    k > 1, Hoelder's inequality bounds that by the power 1/k of the whole integral of order k alpha,
    which is at most e^((k alpha - 1) k alpha rate), times Q(A)^(1 - 1/k).

    Parameters
    ----------
    grid
        The cells of two laws.
    cells
        Their enclosure in the order of the divergence.
    alpha
        Renyi order, above 1.
    forward
        Whether the first law of ``grid`` is that of P.
    rate
        Bound on D_a / a for every order a.
    """
    count = max(grid.points.size - 1, 0)
    p, q = (grid.first, grid.second) if forward else (grid.second, grid.first)
    lost = cells.log_lost_p, cells.log_lost_q
    error = alpha * cells.error_p + (alpha - 1) * cells.error_q
    with np.errstate(invalid="ignore"):
        merged = alpha * cells.log_p - (alpha - 1) * cells.log_q
        upper = cells.log_p + cells.error_p + (alpha - 1) * cells.high
    merged = np.where(cells.log_p == -np.inf, -np.inf, merged)
    upper = np.where(cells.log_p == -np.inf, -np.inf, upper)
    certain = np.isfinite(upper) | (cells.log_p == -np.inf)
    if max(lost) > -np.inf:  # where laws are far above what is lost
        certain &= (cells.log_p > lost[0] + _SEEN) & (cells.log_q > lost[1] + _SEEN)
        missing = np.exp(np.minimum(lost[0] - cells.log_p, 0.0)) * alpha
        error = error + missing + (alpha - 1) * np.exp(np.minimum(lost[1] - cells.log_q, 0.0))
    top = _log_sum(merged[certain])
    kept = certain & (upper > top - _NEGLIGIBLE - math.log(max(merged.size, 1)))
    rest = certain & ~kept
    inner = np.flatnonzero(kept[:count])
    ends = np.flatnonzero(kept[count:]) + count
    low, high, quadrature = _integrals(p, q, grid, inner, alpha, lost)
    lows = [_log_sum((merged - error)[ends]), low]
    at_ends = np.where(np.isfinite(cells.high - cells.low), merged + error, upper)
    highs = [_log_sum(np.minimum(at_ends, upper)[ends]), high, quadrature]
    lows.append(_log_sum((merged - error)[rest]))
    highs.append(_log_sum((upper + error)[rest]))
    total = _log_sum(np.array(lows))
    if max(lost) > -np.inf or not certain.all():
        mass = _log_sum(np.append((cells.log_q + cells.error_q)[~certain], lost[1]))
        k = 1 + np.geomspace(1e-3, 10.0, 60)
        tail = float(np.min((k * alpha - 1) * alpha * rate + (1 - 1 / k) * mass))
        # a bound that says nothing is none
        highs.append(tail if tail < total - 1 else math.inf)
    share = math.exp(min(quadrature - total, 0.0))
    least = total + math.log1p(-share) if share < 1 else -math.inf
    return least, _log_sum(np.array(highs))


def _integrals(
    p: Law,
    q: Law,
    grid: NormalCells,
    cells: NDArray[np.intp],
    alpha: float,
    lost: tuple[float, float],
) -> tuple[float, float, float]:
    """Return logs of the least and the largest sum over cells, and of the quadrature's error."""
    if cells.size == 0:
        return -math.inf, -math.inf, -math.inf
    std = min(p.narrowest, q.narrowest)
    reach = (_RHO - 1 / _RHO) / 4
    starts = np.flatnonzero(np.diff(cells, prepend=-2) > 1)
    middles, widths, turns = [], [], []
    for run in np.split(cells, starts[1:]):  # neighbours
        left, right = grid.points[run], grid.points[run + 1]
        # the ellipse of a part reaches 5/6 of its width from its middle
        scores = q.score_range(left - std, right + std, std, _SHARE)
        most = max(float(scores.max()), 1e-300)
        turn = min(math.sqrt(2 * (_GROWTH - 2) / alpha), 1.0) / most
        length = float(right[-1] - left[0])
        parts = max(math.ceil(length * reach / min(turn, 0.5 * std)), 1)
        if parts * _NODES > _MOST_POINTS:
            return -math.inf, math.inf, -math.inf
        middles.append(left[0] + length / parts * (np.arange(parts) + 0.5))
        widths.append(np.full(parts, length / parts))
        turns.append(np.full(parts, most))
    middle, h, score = (np.concatenate(part) for part in (middles, widths, turns))
    nodes, weights = gauss_legendre(_NODES)
    points = (middle[:, None] + 0.5 * h[:, None] * nodes).ravel()
    at_p, at_q = p.table(points, tails=False), q.table(points, tails=False)
    logs = alpha * at_p.log_density - (alpha - 1) * at_q.log_density
    logs = logs + np.log((0.5 * h[:, None] * weights).ravel())
    error = alpha * p.error_at(at_p.log_density, at_p.square)
    error = error + (alpha - 1) * q.error_at(at_q.log_density, at_q.square) + 2.0**-48
    for law, values, log_lost, share in ((p, at_p, lost[0], alpha), (q, at_q, lost[1], alpha - 1)):
        density = log_lost - math.log(law.narrowest) - _LOG_SQRT_TWO_PI
        error = error + share * np.exp(np.minimum(density - values.log_density, 0.0))
    # the maximum on the ellipse
    a, b = h * (_RHO + 1 / _RHO) / 4, h * reach
    ends_p, ends_q = (
        (law.table(middle - a, tails=False), law.table(middle + a, tails=False)) for law in (p, q)
    )
    ratio = largest_ratio(2 * a, ends_p, ends_q, std)
    largest = np.maximum(ends_p[0].log_density, ends_p[1].log_density) + (2 * a) ** 2 / (8 * std**2)
    least_cos = (1 - _SHARE) * np.cos(np.minimum(b * score, 1.5)) - _SHARE * np.exp(
        b**2 / (2 * std**2)
    )
    growth = b**2 / (2 * std**2) - (alpha - 1) * np.log(least_cos)
    bound = largest + (alpha - 1) * ratio + growth + np.log(0.5 * h * 64 / 15)
    bound = bound - 2 * _NODES * math.log(_RHO) - math.log1p(-(_RHO**-2))
    return _log_sum(logs - error), _log_sum(logs + error), _log_sum(bound)


def _log_sum(logs: Array) -> float:
    return float(np.logaddexp.reduce(logs, initial=-np.inf))
