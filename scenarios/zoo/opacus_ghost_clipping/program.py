"""Take many independent first steps with Opacus' ghost clipping, on one record and without it."""

import json
import warnings
from pathlib import Path

import numpy as np
import opacus
import torch
from opacus.utils import fast_gradient_clipping_utils
from torch.utils.data import DataLoader, TensorDataset

DELTA = 1e-3
RUNS = 2000
LENGTH = 100
# the interface up to 1.5.2; later ones wrap the criterion
DOUBLE_BACKWARD = getattr(fast_gradient_clipping_utils, "double_backward", None)


class Slope(torch.nn.Module):
    """One weight; the gradient of a record is its input."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1, bias=False)

    def forward(self, x):
        """Return one prediction a record."""
        return self.linear(x).squeeze(-1)


class SequenceBias(torch.nn.Module):
    """One bias, used at each of LENGTH places; the weight is frozen."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.linear.weight.requires_grad = False

    def forward(self, x):
        """Return one prediction a record."""
        return (x[:, :, 0] * self.linear(torch.ones_like(x)).squeeze(-1)).sum(1)


# Two records. The input of the first is 0, and so is its gradient; that of the other is below.
# The targets are so far below the predictions that an absolute error has slope 1.
TARGET = -1e6
SLOPE = {"model": Slope, "x": torch.tensor([1.0]), "max_grad_norm": 0.1}
SEQUENCE = {"model": SequenceBias, "x": torch.full((LENGTH, 1), 0.1), "max_grad_norm": 1.0}


def backward(model, optimizer, criterion, x, target):
    """Compute gradients, in the way that each release documents for ghost clipping."""
    if DOUBLE_BACKWARD is not None and criterion.reduction == "none":
        DOUBLE_BACKWARD(model, optimizer, criterion(model(x), target))
    else:
        criterion(model(x), target).backward()


def first_steps(setting, mode, with_record, seed):
    """Return the displacement of the parameter in each run, and epsilon of one step."""
    torch.manual_seed(seed)
    # without the record its gradient is 0, so that the sum is the same as if it were not there
    x = torch.stack([torch.zeros_like(setting["x"]), with_record * setting["x"]])
    model = setting["model"]()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    loader = DataLoader(TensorDataset(x, torch.full((2,), TARGET)), batch_size=2)
    criterion = torch.nn.L1Loss()
    options = {"clipping": "ghost"} if DOUBLE_BACKWARD else {"criterion": criterion}
    engine = opacus.PrivacyEngine()
    private = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=setting["max_grad_norm"],
        grad_sample_mode=mode,
        **(options if mode == "ghost" else {}),
    )
    if len(private) == 4:
        model, optimizer, criterion, loader = private
    else:
        model, optimizer, loader = private
        criterion.reduction = "none" if mode == "ghost" else "mean"
    epsilon, found = None, []
    for _ in range(RUNS):
        with torch.no_grad():
            for p in parameters:
                p.zero_()
        for batch, target in loader:
            optimizer.zero_grad()
            backward(model, optimizer, criterion, batch, target)
            optimizer.step()
        if epsilon is None:
            epsilon = engine.get_epsilon(DELTA)
        found.append(-sum(p.item() for p in parameters))
    return np.array(found), epsilon


def claim(name, setting, mode):
    """Return the claim of the engine about one step, with the recorded parameters."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    scores, epsilon = first_steps(setting, mode, True, seed=1)
    scores_prime, _ = first_steps(setting, mode, False, seed=2)
    np.save(files["x"], scores.astype(np.float32))
    np.save(files["x_prime"], scores_prime.astype(np.float32))
    print(name, epsilon, scores.mean(), scores.std(), scores_prime.mean(), scores_prime.std())
    return {
        "id": name,
        "samples": {**files, "favours": "forward"},
        "epsilon": float(epsilon),
        "delta": DELTA,
    }


warnings.filterwarnings("ignore")
claims = [
    claim("max_grad_norm", SLOPE, "ghost"),
    claim("sequence_bias", SEQUENCE, "ghost"),
    claim("hooks.max_grad_norm", SLOPE, "hooks"),
    claim("hooks.sequence_bias", SEQUENCE, "hooks"),
]
Path("claims.json").write_text(json.dumps({"version": opacus.__version__, "claims": claims}))
