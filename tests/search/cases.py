"""Mechanisms and searches that the tests share."""

import functools

from audit.search import worst_case
from tests.mechanisms import noisy_sgd

DELTA = 1e-5


def mechanism(a, step_std, steps):
    """D = 1, eta = 1, M = 1, n = 1000, and a = (drift difference) D/step_std^2."""
    return noisy_sgd(
        steps=steps, dataset_size=1000, noise_std=step_std, lipschitz=500 * a * step_std**2
    )


@functools.cache
def search(m, evaluations, **options):
    # the budget in seconds is far: the number of evaluations ends the search
    given = {"delta": DELTA, **options}
    return worst_case(m, budget=100.0, seed=0, evaluations=evaluations, **given)
