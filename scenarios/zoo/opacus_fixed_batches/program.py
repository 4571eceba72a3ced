"""Train with Opacus on batches that are not sampled, and ask its accountant for epsilon."""

import warnings

import torch
from scalar_steps import check_law, make_private, noise_free, released, sampled, tell

RECORDS, BATCH, EPOCHS = 1010, 10, 10
NOISE_MULTIPLIER = 1.0
DELTA = 1e-5
RUNS, FIRST_STEP_DELTA = 2000, 1e-3
# Only the gradient of the first record is not 0, in X; it is 0, too, in X'.
X, X_PRIME = [[[held]] + [[0.0]] * (RECORDS - 1) for held in (1.0, 0.0)]
BATCHES = {"in_order": "cyclic", "shuffled": "reshuffled", "poisson": "poisson"}


def options(batches):
    """Return the arguments of ``make_private``."""
    return {
        "batch_size": BATCH,
        "shuffle": batches == "shuffled",
        "poisson_sampling": batches == "poisson",
    }


def training(inputs, batches):
    """Return the private training with these batches."""
    return make_private(inputs, noise_multiplier=NOISE_MULTIPLIER, **options(batches))


def ten_epochs(batches):
    """Return the engine's claim after ten epochs, and the mechanism that ran."""
    private = training(X, batches)
    steps = released(private, EPOCHS)
    print(batches, steps.shape)
    mechanism = {
        "steps": steps.shape[0] * steps.shape[1],
        "dataset_size": RECORDS,
        "batch_size": BATCH,
        "step_size": 1,
        "noise_std": private.step_std(),
        "clip_norm": private.optimizer.max_grad_norm,
        "convex": False,
        "batching": BATCHES[batches],
        "relation": "zero out",
        "release": "all iterates",
    }
    epsilon = float(private.engine.get_epsilon(DELTA))
    return mechanism, {"id": batches, "mechanism": batches, "epsilon": epsilon, "delta": DELTA}


def first_steps(batches):
    """Return the engine's claim after one epoch, with the first step of many epochs."""
    torch.manual_seed(1)
    private, other = training(X, batches), training(X_PRIME, batches)
    released(private, 1)
    epsilon = private.engine.get_epsilon(FIRST_STEP_DELTA)
    steps, steps_prime = (released(one, RUNS, batches=1)[:, 0] for one in (private, other))
    if batches == "in_order":
        check_law(steps, noise_free(X, **options(batches))[0], private.step_std())
        check_law(steps_prime, 0.0, other.step_std())
    print(batches, epsilon, steps.mean(), steps_prime.mean(), steps.std())
    name = f"first_step.{batches}"
    return sampled(name, steps[:, 0], steps_prime[:, 0], epsilon, FIRST_STEP_DELTA)


warnings.filterwarnings("ignore")
torch.manual_seed(0)
mechanisms, claims = {}, []
for name in BATCHES:
    mechanisms[name], claim = ten_epochs(name)
    claims.append(claim)
tell([*claims, first_steps("in_order"), first_steps("poisson")], mechanisms)
