"""Laws of many normals as laws of few: the same law but for a proven relative error.

Let s be the smallest deviation of a law's normals. Noise of variance v >= s^2 is noise of variance
v - s2^2 and then noise of variance s2^2 = 3/4 s^2. With g the density after the first part, the
density at z is the integral of F(u) = g(u) phi((z - u)/s2)/s2. Put 1/c^2 = 1/s1^2 + 1/s2^2, with
s1^2 = s^2 - s2^2 the least variance of a normal of g.

- |F(u + it)| <= e^(t^2/2c^2) F(u), so by Trefethen (2008, Theorem 4.5) Gauss-Legendre quadrature
  with n nodes on a panel of width h errs, for every rho > 1, by at most
  (h/2) (64/15) e^(b^2/2c^2) F* rho^(-2n) / (1 - rho^-2), with b = h (rho - 1/rho)/4 and F* the
  maximum of F: beyond all means and z, F falls outward.
- (log F)'' >= -1/c^2, so that the integral is at least F* c sqrt(2 pi) but for the cut.
- Given z and the normal that leads there, u is normal with a mean between theirs and a deviation of
  at most s1 sqrt(3)/2 for each s1 of a normal. Cut 10 s1 beyond all of them, the integral loses a
  share of at most 2 Phi(-11), below 1e-27.

Values z are those between two walls, and 12 deviations past a wall: less than e^-72 of an end's
mass is farther out. On a line they are within 39 deviations of all means; e^-760 is farther out,
and lost.

Errors of rounding depend on how far the noise went, and on log g. Given z, the mean of -log of a
node's mass is at most -log p(z) and the log of the number of nodes, the largest entropy; squared
distances are bounded as in `audit.exact.node_laws`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audit.exact.law import Law
from audit.exact.tables import UNIT, WINDOW, edge_table
from audit.numerics.panels import Panels

# Variance of the second part, of the smallest; nodes of a panel, and its width over c.
_PART, _NODES, _WIDTH = 0.75, 24, 6.0
_CUT, _PAST, _LOST = 10.0, 12.0, 1e-27
_RHOS = np.geomspace(1.5, 30.0, 60)
# Laws with fewer normals for each node are left as they are.
_WORTH = 4


def condensed(law: Law) -> Law:
    """Return a law of as few normals as its density needs, or the law itself."""
    if law.means.size == 0 or law.exact:
        return law
    std, widest = law.narrowest, float(law.stds.max())
    second = math.sqrt(_PART) * std
    firsts = np.sqrt(law.stds**2 - second**2)
    both = second * math.sqrt(1 - _PART)  # c, with s1 = s/2
    reach = _CUT * float(firsts.max())
    ends = float(law.means[0]), float(law.means[-1])
    low, high = ends[0] - WINDOW * widest - reach, ends[1] + WINDOW * widest + reach
    lost = law.log_lost
    if math.isfinite(law.lower):
        low = min(ends[0], law.lower) - _PAST * widest - reach
    if math.isfinite(law.upper):
        high = max(ends[1], law.upper) + _PAST * widest + reach
    if not (math.isfinite(law.lower) and math.isfinite(law.upper)):
        lost = float(np.logaddexp(lost, -0.5 * WINDOW**2))
    panels = Panels.covering(low, high, _WIDTH * both, _NODES)
    nodes = panels.nodes.ravel()
    if law.means.size < _WORTH * nodes.size:
        return law
    first = replace(law, stds=firsts)
    weights = panels.weights.ravel()
    logs = edge_table(first, nodes, tails=False).log_density + np.log(weights)
    position = first.position_error
    size = 15 + abs(math.log(second)) + float(np.abs(np.log(weights)).max()) + math.log(nodes.size)
    return replace(
        law,
        means=nodes,
        stds=np.full(nodes.size, second),
        log_masses=logs,
        log_lost=lost,
        quadrature=law.quadrature + _error(float(np.diff(panels.edges).max()), both, panels),
        rounding=law.rounding + UNIT * (32 + 6 * math.log(2) + 2 * size) + 3 * position,
        depth_rounding=law.depth_rounding + 14 * UNIT + position,
    )


def _error(width: float, both: float, panels: Panels) -> float:
    """Bound the relative error of the quadrature."""
    b = width * (_RHOS - 1 / _RHOS) / 4
    logs = b**2 / (2 * both**2) - 2 * _NODES * np.log(_RHOS) - np.log1p(-(_RHOS**-2))
    panel = width / 2 * 64 / 15 * math.exp(float(logs.min())) / (2.5 * both)
    return (panels.edges.size - 1) * panel + _LOST
