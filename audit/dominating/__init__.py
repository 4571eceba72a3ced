"""Dominating pairs: the privacy of clipped DP-SGD that releases all iterates, for any losses.

A pair of explicit laws (P, Q) dominates a mechanism if no neighbouring datasets have a larger
delta(epsilon), at any epsilon and in either order. Here P belongs to X, which holds the record, and
Q to X'. Steps are composed on a grid of the logarithm of dP/dQ:

- `GridPair` (`grid.py`) is one side of a pair: cells of losses with their masses under P and Q.
  An upper one dominates the true pair, a lower one is dominated by it (data processing).
  `dominating` and `dominated` construct them from two laws on finitely many outcomes.
- `ComposedCurve` (`curve.py`) is a `DominatingCurve`: a `PrivacyCurve` whose brackets contain the
  true value in each order. Each side is a `GridComposition`, which convolves pairs with errors
  relative to delta (`layer.py`).
- `RefinedCurve` (`runs.py`) refines the grid where a bracket is wide. Pairs that are given on grids
  are composed with its runs on one grid (`composed_runs`).
- Each sampler has a function from numbers (noise multiplier, rate or steps of an
  epoch, steps or epochs, relation) to such a curve; its docstring states the pair and the proof.
- `dominating_curve` (`dispatch.py`) takes a `NoisySGD` or a `Composition` of them. Mechanisms that
  no file covers are refused.

Composition is exact for all iterates: an adversarial loss can have in every step the gradients that
attain the step's pair, regardless of earlier steps (the gradient of the record is C, that of the
others 0), and the composition of dominating pairs dominates adaptive compositions (Dong, Roth and
Su 2022; Zhu, Dong and Wang 2022, Theorem 10).
"""

from audit.dominating.curve import ComposedCurve, DominatingCurve
from audit.dominating.dispatch import SAMPLERS, dominating_curve
from audit.dominating.grid import GridPair
from audit.dominating.matrix_mechanism import (
    MatrixMechanism,
    Participation,
    Pattern,
    Sensitivity,
    square_root_strategy,
    tree_strategy,
)

__all__ = [
    "SAMPLERS",
    "ComposedCurve",
    "DominatingCurve",
    "GridPair",
    "MatrixMechanism",
    "Participation",
    "Pattern",
    "Sensitivity",
    "dominating_curve",
    "square_root_strategy",
    "tree_strategy",
]
