"""Steps of Opacus' optimizers whose law is known: thousands of runs take seconds.

The model is linear and has no bias; the loss of a record is its prediction plus a constant. So the
gradient of a record is its input, wherever the weights are. The learning rate is 1: minus the
displacement of the weights in one step is the gradient that the optimizer releases. Its law is
normal: the sum of the clipped inputs over the divisor of the optimizer, plus noise of the
optimizer's standard deviation in each coordinate.

Programs of cases import this file. It needs NumPy, PyTorch and Opacus, and nothing else.
"""

import contextlib
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import opacus
import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader, TensorDataset

try:  # the interface of ghost clipping up to 1.5.2; later releases wrap the criterion
    from opacus.utils.fast_gradient_clipping_utils import double_backward
except ImportError:
    double_backward = None

# So far below all predictions that an absolute error has slope 1.
TARGET = -1e6


class Inputs(torch.nn.Module):
    """A linear model that starts at 0; the gradient of a record is its input."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 1, bias=False)
        torch.nn.init.zeros_(self.linear.weight)

    def forward(self, x):
        """Return one prediction a record."""
        return self.linear(x).squeeze(-1)


@dataclass
class Training:
    """Return value of ``make_private``, with the engine that accounts for it."""

    engine: Any
    model: Any
    optimizer: Any
    criterion: Any
    loader: Any

    @property
    def weights(self):
        """The trained parameters."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def step_std(self):
        """Return the standard deviation of the noise in a step, by the optimizer's own numbers."""
        own = self.optimizer
        divisor = own.expected_batch_size if own.loss_reduction == "mean" else 1
        return own.noise_multiplier * own.max_grad_norm / divisor


def make_private(
    inputs,
    *,
    noise_multiplier,
    batch_size=None,
    mode="hooks",
    model=None,
    accountant="rdp",
    shuffle=False,
    wrap=lambda model: model,
    **options,
):
    """Return a private training on records with these inputs, one row each.

    All records are one batch unless ``batch_size`` is given. ``options`` go to the engine's
    ``make_private``; ``wrap`` is applied to the model before.
    """
    x = torch.as_tensor(inputs, dtype=torch.float32)
    model = wrap(Inputs(x.shape[1]) if model is None else model)
    weights = [p for p in model.parameters() if p.requires_grad]
    target = torch.full((len(x),), TARGET)
    loader = DataLoader(TensorDataset(x, target), batch_size=batch_size or len(x), shuffle=shuffle)
    reduction = options.get("loss_reduction", "mean")
    criterion = torch.nn.L1Loss(reduction=reduction)
    if mode != "hooks":
        options["grad_sample_mode"] = mode
    if mode == "ghost":
        options.update({"clipping": "ghost"} if double_backward else {"criterion": criterion})
    engine = opacus.PrivacyEngine(accountant=accountant)
    private = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(weights, lr=1.0),
        data_loader=loader,
        noise_multiplier=noise_multiplier,
        **{"max_grad_norm": 1.0, **options},
    )
    if len(private) == 4:
        return Training(engine, *private)
    model, optimizer, loader = private
    if mode == "ghost":
        criterion.reduction = "none"
    return Training(engine, model, optimizer, criterion, loader)


def _backward(training, x, target):
    """Compute gradients in the way that the installed release documents."""
    criterion = training.criterion
    if getattr(criterion, "reduction", None) == "none":
        double_backward(training.model, training.optimizer, criterion(training.model(x), target))
    else:
        criterion(training.model(x), target).backward()


def released(training, runs, *, batches=None, physical_batch_size=None):
    """Return the released gradients of ``runs`` epochs, each from the weights 0.

    Each run ends after the first ``batches`` batches if they are given.

    Returns
    -------
    numpy.ndarray
        Its shape is (runs, batches, weights). With ``physical_batch_size``, a
        ``BatchMemoryManager`` splits the batches; only the last part of each makes a step, and the
        others release 0.
    """
    weights = training.weights
    splitting = contextlib.nullcontext(training.loader)
    if physical_batch_size is not None:
        splitting = BatchMemoryManager(
            data_loader=training.loader,
            max_physical_batch_size=physical_batch_size,
            optimizer=training.optimizer,
        )
    found = []
    with splitting as loader:
        for _ in range(runs):
            with torch.no_grad():
                for weight in weights:
                    weight.zero_()
            last, steps = 0.0, []
            for x, target in itertools.islice(loader, batches):
                training.optimizer.zero_grad()
                _backward(training, x, target)
                training.optimizer.step()
                now = torch.cat([weight.detach().flatten() for weight in weights]).numpy()
                steps.append(last - now)
                last = now
            found.append(steps)
    return np.array(found, dtype=np.float64)


def noise_free(inputs, *, physical_batch_size=None, **options):
    """Return the released gradients of one epoch without noise, of shape (batches, weights)."""
    training = make_private(inputs, noise_multiplier=0.0, **options)
    return released(training, 1, physical_batch_size=physical_batch_size)[0]


def check_law(steps, means, std):
    """End the program unless the steps of many runs have the known means and deviation.

    Both tests are at 6 standard errors: a right program fails once in 10^8 runs or so.
    """
    residues = (steps - means) / std
    count = residues.size
    if abs(residues.mean()) > 6 / math.sqrt(count):
        raise SystemExit(f"the steps have another mean, by {residues.mean():.3g} deviations")
    if abs((residues**2).mean() - 1) > 6 * math.sqrt(2 / count):
        raise SystemExit(f"the steps have another variance, by {(residues**2).mean():.3g}")


def sampled(name, scores, scores_prime, epsilon, delta):
    """Return a claim about recorded scores, which are large if the record is there."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    np.save(files["x"], np.asarray(scores, dtype=np.float32))
    np.save(files["x_prime"], np.asarray(scores_prime, dtype=np.float32))
    samples = {**files, "favours": "forward"}
    return {"id": name, "samples": samples, "epsilon": float(epsilon), "delta": delta}


def exact(name, laws, epsilon, delta):
    """Return a claim about laws in closed form."""
    return {"id": name, "laws": laws, "epsilon": float(epsilon), "delta": delta}


def tell(claims, mechanisms=None):
    """Write the claims for the judge."""
    told = {"version": opacus.__version__, "claims": claims}
    if mechanisms is not None:
        told["mechanisms"] = mechanisms
    Path("claims.json").write_text(json.dumps(told))
