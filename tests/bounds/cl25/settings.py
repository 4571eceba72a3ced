"""The mechanisms that the tests of Chien and Li (2025) share."""

from functools import partial

from audit import Batching
from tests.mechanisms import noisy_sgd

FULL_IDS = ("cl25.theorem_3_1", "cl25.theorem_3_1_gaussian", "cl25.theorem_a_1")


# The setting of Figure 1: K = 2, noise 1 on the iterate, D = L = m = 1, n = 5, eta = .1.
figure_1 = partial(
    noisy_sgd, steps=200, dataset_size=5, batch_size=5, step_size=0.1, noise_std=10.0, lipschitz=2.0
)


sampled = partial(figure_1, dataset_size=20, batch_size=4, batching=Batching.WITHOUT_REPLACEMENT)
