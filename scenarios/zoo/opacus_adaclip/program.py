"""Train one weight with Opacus' flat and adaptive clipping, and ask its accountant for epsilon."""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import opacus
import torch
from torch.utils.data import DataLoader, TensorDataset

RECORDS, BATCH, EPOCHS = 1000, 10, 10  # 1000 steps at rate 0.01
NOISE_MULTIPLIER, UNCLIPPED_NUM_STD = 1.0, 0.6
DELTA = 1e-5
OTHERS, RUNS, ONE_STEP_DELTA = 50, 6000, 1e-2
ADAPTIVE = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 1e3,
    "min_clipbound": 1e-3,
    "unclipped_num_std": UNCLIPPED_NUM_STD,
}


def train(**options):
    """Return the engine after the training, which Opacus itself does step by step."""
    torch.manual_seed(1)
    model = torch.nn.Linear(1, 1, bias=False)
    loader = DataLoader(TensorDataset(torch.linspace(0, 2, RECORDS)[:, None]), batch_size=BATCH)
    engine = opacus.PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        data_loader=loader,
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=1.0,
        **options,
    )
    for _ in range(EPOCHS):
        for (x,) in loader:
            if len(x) == 0:
                raise SystemExit("a batch is empty: choose another seed")
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    print(options.get("clipping", "flat"), engine.accountant.history)
    return engine


def claim(name, engine):
    """Return the claim of the engine on the training that was asked for."""
    epsilon = float(engine.get_epsilon(DELTA))
    return {"id": name, "mechanism": "training", "epsilon": epsilon, "delta": DELTA}


def first_steps(with_record, seed):
    """Return a score of each first step, and epsilon of one step.

    All other records are clipped, and their gradients cancel out. The gradient of the differing
    record is just below the threshold. An adversary sees the new weight and the new threshold; the
    score is the sum of both numbers, each over the variance of its noise.
    """
    torch.manual_seed(seed)
    x = [1e3, -1e3] * (OTHERS // 2) + [0.999] * with_record
    model = torch.nn.Linear(1, 1, bias=False)
    loader = DataLoader(TensorDataset(torch.tensor(x)[:, None]), batch_size=len(x))
    engine = opacus.PrivacyEngine(accountant="prv")
    options = {**ADAPTIVE, "target_unclipped_quantile": 0.0, "clipbound_learning_rate": 1.0}
    private, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=loader,
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=1.0,
        **options,
    )
    gradient_variance = 1 / (NOISE_MULTIPLIER**-2 - (2 * UNCLIPPED_NUM_STD) ** -2)
    epsilon, found = None, []
    for _ in range(RUNS):
        optimizer.max_grad_norm = 1.0
        with torch.no_grad():
            model.weight.zero_()
        for (batch,) in loader:
            optimizer.zero_grad()
            private(batch).mean().backward()
            optimizer.step()
        if epsilon is None:
            epsilon = float(engine.get_epsilon(ONE_STEP_DELTA))
        gradient, count = -model.weight.item(), -math.log(float(optimizer.max_grad_norm))
        found.append(OTHERS * (gradient / gradient_variance + count / UNCLIPPED_NUM_STD**2))
    return np.array(found, dtype=np.float32), epsilon


def one_step():
    """Return the claim of the engine on one step on all records, with scores of many."""
    scores, epsilon = first_steps(1, seed=1)
    scores_prime, _ = first_steps(0, seed=2)
    np.save("x.npy", scores)
    np.save("x_prime.npy", scores_prime)
    samples = {"x": "x.npy", "x_prime": "x_prime.npy", "favours": "forward"}
    return {"id": "one_step", "samples": samples, "epsilon": epsilon, "delta": ONE_STEP_DELTA}


warnings.filterwarnings("ignore")
claims = [claim("adaptive", train(**ADAPTIVE)), claim("flat", train()), one_step()]
training = {
    "history": [[NOISE_MULTIPLIER, BATCH / RECORDS, EPOCHS * RECORDS // BATCH]],
    "dataset_size": RECORDS,
    "relation": "add remove",
}
told = {"version": opacus.__version__, "mechanisms": {"training": training}, "claims": claims}
Path("claims.json").write_text(json.dumps(told))
