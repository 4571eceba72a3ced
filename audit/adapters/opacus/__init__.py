"""Opacus: what its accountants were told, and what its optimizer and data loader do.

Read from Opacus 1.6.0 with PyTorch 2.13.0. Opacus has no name for a relation; its accountants are
those of Poisson batches under add/remove. They take from `PrivacyEngine.make_private`

- the rate 1 / len(data_loader), whatever draws the batches;
- the optimizer's noise multiplier at every step: the deviation of the noise of a batch's sum over
  the norm to which gradients are clipped (per layer: over the norm of the vector of these norms).

The divisor: ``loss_reduction="mean"`` divides the noisy sum by ``expected_batch_size``, which is
int(n / len(data_loader)), and ``"sum"`` by nothing; no batch is divided by its actual size. The
noise is divided with the gradients, so a constant that is the same for both neighbours changes
nothing: not int(n q) in place of n q either. It is the same if n is public, as `NoisySGD` takes it,
and for neighbours of one size. But under add/remove, with n private, Opacus makes it of each
dataset's own n. If the number of batches divides n, which it does where the batch size does, a
record less makes the divisor b - 1. In d coordinates and T steps the deviation of the noise alone
then tells the two apart about like sqrt(2 d T)/b-GDP, which no accountant counts
(meta-pytorch/opacus issues 571 and 819). `PrivateTraining` says where that is so; "sum" avoids it.
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
