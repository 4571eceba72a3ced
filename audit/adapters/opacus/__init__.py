"""Opacus: the histories of its accountants, and what its optimizer and data loader do.

Written for Opacus 1.6.0 with PyTorch 2.13.0. The accountants of Opacus assume Poisson batches under
add/remove, although Opacus does not name a relation. From `PrivacyEngine.make_private` they take

- the rate 1 / len(data_loader), regardless of the sampler;
- the optimizer's noise multiplier at every step: the standard deviation of the noise of a batch's
  sum over the clipping norm (per layer: over the norm of the vector of clipping norms).

The divisor: ``loss_reduction="mean"`` divides the noisy sum by ``expected_batch_size``, which is
int(n / len(data_loader)), and ``"sum"`` does not divide; no batch is divided by its actual size.
The noise is divided together with the gradients, so a divisor that is equal for both neighbours has
no effect on privacy, even if it is int(n q) instead of n q. It is equal if n is public, as
`NoisySGD` assumes, or if the neighbours have the same size. Under add/remove with private n,
however, Opacus computes it from each dataset's own n. If the number of batches divides n (as it
does if the batch size does), removing a record makes the divisor b - 1. In d dimensions and T
steps, the standard deviation of the noise alone then distinguishes the two datasets about as well
as sqrt(2 d T)/b-GDP, which no accountant counts (meta-pytorch/opacus issues 571 and 819).
`PrivateTraining` reports this; ``"sum"`` avoids it.
"""

from audit.adapters.opacus.accountants import (
    Accountant,
    claimed_curve,
    claimed_epsilons,
    rdp_divergences,
)
from audit.adapters.opacus.history import History, from_history, read_history, to_history
from audit.adapters.opacus.loaders import Loader, read_loader
from audit.adapters.opacus.training import Clipping, PrivateTraining, from_private

__all__ = [
    "Accountant",
    "Clipping",
    "History",
    "Loader",
    "PrivateTraining",
    "claimed_curve",
    "claimed_epsilons",
    "from_history",
    "from_private",
    "rdp_divergences",
    "read_history",
    "read_loader",
    "to_history",
]
