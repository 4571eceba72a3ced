"""Take many first steps with Opacus on two workers, and compare them with its accountant."""

import warnings
from pathlib import Path

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from scalar_steps import check_law, exact, make_private, released, sampled, tell

WORKERS = 2
DELTA, RUNS, NOISE_MULTIPLIER = 1e-2, 1000, 1.0
# All records are in the batch; only the last one has a gradient, of norm 1, in X but not in X'.
X, X_PRIME = [[0.0], [0.0], [0.0], [1.0]], [[0.0], [0.0], [0.0], [0.0]]


def private(inputs, mode, noise_multiplier):
    """Return the private training of this worker."""
    return make_private(
        inputs,
        noise_multiplier=noise_multiplier,
        mode=mode,
        accountant="prv",
        wrap=DifferentiallyPrivateDistributedDataParallel,
    )


def claims(mode):
    """Return the engine's claims on one step; all workers have the same weights after it."""
    means, steps = [], []
    for inputs in (X, X_PRIME):
        means.append(released(private(inputs, mode, 0.0), 1)[0])
        training = private(inputs, mode, NOISE_MULTIPLIER)
        released(training, 1)
        epsilon = training.engine.get_epsilon(DELTA)
        steps.append(released(training, RUNS))
    # each worker divides by its own batch, and the sum over the workers by their number
    std = training.step_std() / WORKERS
    for mean, found in zip(means, steps, strict=True):
        check_law(found, mean, std)
    print(mode, epsilon, std, [(found.mean(), found.std()) for found in steps])
    laws = {"gaussian": {"sensitivity": float((means[0] - means[1])[0, 0]), "noise_std": std}}
    scores = [found[:, 0, 0] for found in steps]
    return [
        exact(f"{mode}.law", laws, epsilon, DELTA),
        sampled(f"{mode}.steps", *scores, epsilon, DELTA),
    ]


def worker(rank):
    """Run one of the workers; the first one writes the claims."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(rank)
    meeting = f"file://{Path('workers').absolute()}"
    torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=WORKERS)
    found = [*claims("hooks"), *claims("ghost")]
    if rank == 0:
        tell(found)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(worker, nprocs=WORKERS)
