"""Upper bounds proven in this package, in any dimension: "Our own theorems" in the documentation.

`own.forgetting`: the noise of the last m steps hides what happened before. `own.parallel_moves`:
Gaussian, by the best shifts on fixed batches. `own.modulus`: the same for losses that need be
neither smooth nor convex. `own.adaptive_shifts`: Renyi divergences on sampled batches, by shifts
that depend on the batches. `own.relative_entropy`: how fast the probability of an event can rise
between the datasets. `own.coupling`: a recursion over the distance of the two iterates and the
remaining likelihood ratio.
"""

from audit.bounds.own import adaptive_shifts, coupling, forgetting, moves, relative_entropy

__all__ = ["adaptive_shifts", "coupling", "forgetting", "moves", "relative_entropy"]
