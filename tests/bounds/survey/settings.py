"""The mechanisms that the tests of Boninsegna (2023) share."""

from functools import partial

from audit import Batching, Relation, bounds
from tests.mechanisms import noisy_sgd

SOUND = {id for id, e in bounds.CATALOGUE.items() if id.startswith("survey.") and e.status.sound}


# Linear losses may be admitted: convex, smooth, no domain.
mechanism = partial(
    noisy_sgd, steps=10, dataset_size=10, batch_size=10, step_size=0.1, noise_std=2.0, diameter=None
)


# Ten batches of one record, one epoch, sigma = 1 in section VI.A.
cyclic = partial(mechanism, batch_size=1, batching=Batching.CYCLIC)


sampled = partial(mechanism, batch_size=1, batching=Batching.WITHOUT_REPLACEMENT)


def poisson(**changes):
    poisson_changes = {"batching": Batching.POISSON, "relation": Relation.ZERO_OUT}
    return mechanism(**{"batch_size": 1, "diameter": 50.0, **poisson_changes, **changes})


def applying(m):
    return [id for id in bounds.applicable(m) if id in SOUND]
