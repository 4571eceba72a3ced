"""Opacus: what its accountants were told, and what its optimizer and data loader do.

Read from Opacus 1.6.0 with PyTorch 2.13.0. Opacus has no name for a relation; its accountants are
those of Poisson batches under add/remove. They take from `PrivacyEngine.make_private`

- the rate 1 / len(data_loader), whatever draws the batches;
- the optimizer's noise multiplier at every step: the deviation of the noise of a batch's sum over
  the norm to which gradients are clipped (per layer: over the norm of the vector of these norms).

The divisor: ``loss_reduction="mean"`` divides the noisy sum by ``expected_batch_size``, which is
int(n / len(data_loader)), and ``"sum"`` by nothing. Both are public constants, and the noise is
divided with the gradients, so privacy depends on neither: not on int(n q) in place of n q either.
No batch is divided by its actual size.
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
