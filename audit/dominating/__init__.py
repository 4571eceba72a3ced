"""Dominating pairs: the privacy of clipped DP-SGD, all iterates released, whatever the losses.

A pair of explicit laws (P, Q) dominates a mechanism if no neighbouring datasets have a larger
delta(epsilon), at any epsilon and in either order. Here P belongs to X, which holds the record, and
Q to X'. Steps are composed on a grid of the logarithm of dP/dQ:

- `GridPair` (`grid.py`) is one side of a pair: cells of losses with their masses under P and Q.
  An upper one dominates the true pair, a lower one is dominated by it (data processing);
  `dominating` and `dominated` make them of any two laws on finitely many outcomes.
- `compose` (`curve.py`) takes (lower, upper, times), ... and returns a `DominatingCurve`: a
  `PrivacyCurve` whose brackets hold the true value in each order. Each side is a `GridComposition`
  (`grid_composition.py`), which convolves the pairs with errors relative to delta.
- `RefinedCurve` (`curve.py`) makes the grid finer where a bracket is wide. Its runs (`runs.py`) can
  be put on any grid, so that runs of several kinds are composed on one.
- One file a sampler holds a function from numbers (noise multiplier, rate or steps of an epoch,
  steps or epochs, relation) to such a curve, and says which pair it is and who proved it.
- `dominating_curve` (`dispatch.py`) takes a `NoisySGD` or a `Composition` of them. What no file
  speaks of is refused.

Composition is exact for all iterates: an adversarial loss gives in every step the gradients that
attain the step's pair, whatever came before (the gradient of the record is C, that of the others
0), and the composition of dominating pairs dominates adaptive compositions (Dong, Roth and Su 2022;
Zhu, Dong and Wang 2022, Theorem 10).
"""

from audit.dominating.curve import ComposedCurve, DominatingCurve, compose
from audit.dominating.dispatch import SAMPLERS, dominating_curve
from audit.dominating.grid import GridPair

__all__ = [
    "SAMPLERS",
    "ComposedCurve",
    "DominatingCurve",
    "GridPair",
    "compose",
    "dominating_curve",
]
