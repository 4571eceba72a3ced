"""The mechanisms that the tests of Boninsegna (2023) share."""

from audit import Batching, Relation, bounds
from tests.mechanisms import noisy_sgd

SOUND = {id for id, e in bounds.CATALOGUE.items() if id.startswith("survey.") and e.status.sound}


def mechanism(**changes):
    """Linear losses may be admitted: convex, smooth, no domain."""
    values = {
        "steps": 10,
        "dataset_size": 10,
        "batch_size": 10,
        "step_size": 0.1,
        "noise_std": 2.0,
        "diameter": None,
    }
    return noisy_sgd(**(values | changes))


def cyclic(**changes):
    """Ten batches of one record, one epoch, sigma = 1 in section VI.A."""
    return mechanism(**{"batch_size": 1, "batching": Batching.CYCLIC, **changes})


def sampled(**changes):
    return mechanism(**{"batch_size": 1, "batching": Batching.WITHOUT_REPLACEMENT, **changes})


def poisson(**changes):
    poisson_changes = {"batching": Batching.POISSON, "relation": Relation.ZERO_OUT}
    return mechanism(**{"batch_size": 1, "diameter": 50.0, **poisson_changes, **changes})


def applying(m):
    return [id for id in bounds.applicable(m) if id in SOUND]
