"""Train one weight with Opacus' flat and adaptive clipping, and ask its accountant for epsilon."""

import math
import warnings

import numpy as np
import torch
from scalar_steps import check_law, exact, make_private, released, sampled, tell

RECORDS, BATCH, EPOCHS = 1000, 10, 10  # 1000 steps at rate 0.01
NOISE_MULTIPLIER, UNCLIPPED_NUM_STD = 1.0, 0.6
DELTA = 1e-5
# Theorem 1 of Andrew, Thakkar, McMahan and Ramaswamy (2021)
GRADIENT_STD = (NOISE_MULTIPLIER**-2 - (2 * UNCLIPPED_NUM_STD) ** -2) ** -0.5
OTHERS, INPUT, RUNS, ONE_STEP_DELTA = 50, 0.999, 4000, 1e-2
ADAPTIVE = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 1e3,
    "min_clipbound": 1e-3,
    "unclipped_num_std": UNCLIPPED_NUM_STD,
}


def trained(name, **options):
    """Return the claim of the engine on a training, which Opacus itself does step by step."""
    torch.manual_seed(1)
    training = make_private(
        torch.linspace(0, 2, RECORDS)[:, None],
        batch_size=BATCH,
        noise_multiplier=NOISE_MULTIPLIER,
        **options,
    )
    released(training, EPOCHS)
    epsilon = float(training.engine.get_epsilon(DELTA))
    print(name, training.engine.accountant.history, epsilon)
    return {"id": name, "mechanism": "training", "epsilon": epsilon, "delta": DELTA}


def first_steps(with_record):
    """Return the gradient and the count that each first step releases.

    All other records are clipped, and their gradients cancel out. The gradient of the differing
    record is just below the threshold. An adversary sees the new weight and the new threshold,
    whose logarithm falls by the noisy share of unclipped gradients.
    """
    inputs = [1e3, -1e3] * (OTHERS // 2) + [INPUT] * with_record
    training = make_private(
        np.array(inputs)[:, None],
        noise_multiplier=NOISE_MULTIPLIER,
        accountant="prv",
        **{**ADAPTIVE, "target_unclipped_quantile": 0.0, "clipbound_learning_rate": 1.0},
    )
    found = []
    for _ in range(RUNS):
        training.optimizer.max_grad_norm = 1.0
        gradient = released(training, 1)[0, 0, 0]
        found.append((gradient, -math.log(float(training.optimizer.max_grad_norm))))
    return len(inputs) * np.array(found)


def one_step():
    """Return the claims of the engine on one step on all records: its law, and recorded steps.

    The score is the sum of both numbers, each over the variance of its noise.
    """
    torch.manual_seed(1)
    stds, found = np.array([GRADIENT_STD, UNCLIPPED_NUM_STD]), []
    for with_record in (1, 0):
        steps = first_steps(with_record)
        check_law(steps, with_record * np.array([INPUT, 1.0]), stds)
        found.append((steps / stds**2).sum(axis=1))
    training = make_private(
        [[1.0]], noise_multiplier=NOISE_MULTIPLIER, accountant="prv", **ADAPTIVE
    )
    released(training, 1)
    epsilon = training.engine.get_epsilon(ONE_STEP_DELTA)
    distance = math.hypot(INPUT / stds[0], 1 / stds[1])
    print("one step", epsilon, stds, distance)
    laws = {"gaussian": {"sensitivity": distance, "noise_std": 1.0}}
    return [
        sampled("one_step", *found, epsilon, ONE_STEP_DELTA),
        exact("one_step.law", laws, epsilon, ONE_STEP_DELTA),
    ]


warnings.filterwarnings("ignore")
claims = [trained("adaptive", **ADAPTIVE), trained("flat"), *one_step()]
training = {
    "history": [[NOISE_MULTIPLIER, BATCH / RECORDS, EPOCHS * RECORDS // BATCH]],
    "dataset_size": RECORDS,
    "relation": "add remove",
}
tell(claims, {"training": training})
