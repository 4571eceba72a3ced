"""Take many first steps with Opacus, in one batch and in a batch that is split in two."""

import warnings

import torch
from scalar_steps import check_law, exact, make_private, noise_free, released, sampled, tell

DELTA, RUNS = 1e-2, 2000
# All records are in the batch; only the last one has a gradient, of norm 1, in X but not in X'.
X, X_PRIME = [[0.0], [0.0], [0.0], [1.0]], [[0.0], [0.0], [0.0], [0.0]]
OPTIONS = {"noise_multiplier": 1.0, "accountant": "prv"}


def claims(name, mode, physical_batch_size):
    """Return the engine's claim on one step, about its law and about recorded steps."""
    torch.manual_seed(1)
    training = make_private(X, mode=mode, **OPTIONS)
    other = make_private(X_PRIME, mode=mode, **OPTIONS)
    splitting = {"physical_batch_size": physical_batch_size}
    released(training, 1, **splitting)
    epsilon = training.engine.get_epsilon(DELTA)
    steps = released(training, RUNS, **splitting).sum(axis=1)
    steps_prime = released(other, RUNS, **splitting).sum(axis=1)
    std = training.step_std()
    mean = noise_free(X, mode=mode, **splitting).sum(axis=0)
    check_law(steps, mean, std)
    check_law(steps_prime, noise_free(X_PRIME, mode=mode, **splitting).sum(axis=0), std)
    print(name, epsilon, mean, std, steps.mean(), steps_prime.mean(), steps.std())
    laws = {"gaussian": {"sensitivity": float(mean[0]), "noise_std": std}}
    return [
        exact(f"{name}.law", laws, epsilon, DELTA),
        sampled(f"{name}.steps", steps[:, 0], steps_prime[:, 0], epsilon, DELTA),
    ]


warnings.filterwarnings("ignore")
tell(
    [
        *claims("ghost.split", "ghost", 2),
        *claims("ghost.whole", "ghost", None),
        *claims("hooks.split", "hooks", 2),
    ]
)
