"""Take steps of Opacus on n and on n - 1 records with gradient 0, and compare their size."""

import warnings

import numpy as np
import torch
from scalar_steps import check_law, exact, make_private, released, sampled, tell

NOISE_MULTIPLIER, BATCH, WEIGHTS = 1.0, 10, 1000
DELTA, RUNS = 1e-3, 1000


def normal(std):
    """Return the law of one coordinate of a step, whose gradient is 0."""
    return {"weights": [1.0], "means": [0.0], "stds": [std]}


def claims(name, records, **options):
    """Return the engine's claims on one step; the first dataset has one record less."""
    torch.manual_seed(1)
    stds, scores = [], []
    for count in (records - 1, records):
        private = make_private(
            np.zeros((count, WEIGHTS)),
            noise_multiplier=NOISE_MULTIPLIER,
            batch_size=BATCH,
            **options,
        )
        released(private, 1, batches=1)
        epsilon = private.engine.get_epsilon(DELTA)
        steps = released(private, RUNS, batches=1)
        stds.append(private.step_std())
        check_law(steps, 0.0, stds[-1])
        scores.append((steps**2).mean(axis=(1, 2)))
        print(name, count, epsilon, stds[-1])
    laws = {"mixtures": {"first": normal(stds[0]), "second": normal(stds[1]), "times": WEIGHTS}}
    return [
        exact(f"{name}.law", laws, epsilon, DELTA),
        sampled(f"{name}.steps", *scores, epsilon, DELTA),
    ]


warnings.filterwarnings("ignore")
tell(
    [
        *claims("1000_records", 1000),
        *claims("1005_records", 1005),
        *claims("1000_records.sum", 1000, loss_reduction="sum"),
    ]
)
