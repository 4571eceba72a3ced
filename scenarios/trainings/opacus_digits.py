"""Opacus on scikit-learn's digits: DP-SGD as it should be, and with three mistakes.

``python scenarios/trainings/opacus_digits.py`` audits all four in about two minutes on two cores,
and writes a report. It needs Opacus and scikit-learn.
"""

from __future__ import annotations

import enum
import functools
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import digits_canary as digits

Array = NDArray[np.float64]

for message in ("Secure RNG turned off", "Full backward hook is firing"):
    warnings.filterwarnings("ignore", message=message)


class Variant(enum.Enum):
    """A training, right or broken, and what is wrong with it."""

    RIGHT = "As it should be."
    FIXED_ORDER = (
        "With poisson_sampling=False the loader stays as it is, and its batches are the same in "
        "each epoch. The accountant assumes Poisson sampling all the same."
    )
    BATCH_STATISTICS = (
        "The model subtracts the batch's mean, so that a record is in the gradients of others. "
        "Opacus refuses layers such as BatchNorm, but does not look into forward."
    )
    NEW_ACCOUNTANT = (
        "Each epoch resumes from a checkpoint of the model, with a new engine: its accountant "
        "knows nothing of the epochs before."
    )


def train(canary: bool, seed: int, variant: str = "RIGHT") -> Array:
    """Train once and return its scores; see `digits_canary.scores`."""
    gradients, _ = _trained(canary, seed, Variant[variant])
    return digits.scores(gradients)


def claims(variant: str = "RIGHT") -> list[tuple[float, float]]:
    """Return (epsilon, delta) as the engine reports it at the end of a training."""
    _, engine = _trained(True, 0, Variant[variant])
    return [(float(engine.get_epsilon(delta)), delta) for delta in digits.DELTAS]


class _Centred(nn.Module):
    """A linear model of pictures from which their mean is subtracted."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = _linear()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return a logit for each picture."""
        return self.linear(pictures - pictures.mean(dim=0))


def _linear() -> nn.Module:
    layer = nn.Linear(64, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return nn.Sequential(layer, nn.Flatten(start_dim=0))


@functools.cache
def _dataset(canary: bool) -> TensorDataset:
    return TensorDataset(*map(torch.from_numpy, digits.records(canary)))


def _trained(canary: bool, seed: int, variant: Variant) -> tuple[Array, PrivacyEngine]:
    """Return the noisy sum of gradients of each step, shape (steps, 64), and the last engine."""
    torch.manual_seed(seed)
    model = _Centred() if variant is Variant.BATCH_STATISTICS else _linear()
    sgd = torch.optim.SGD(model.parameters(), lr=digits.LEARNING_RATE)
    loader = DataLoader(_dataset(canary), batch_size=digits.BATCH_SIZE)
    loss_of = nn.BCEWithLogitsLoss()
    gradients = []
    for epoch in range(digits.EPOCHS):
        if epoch == 0 or variant is Variant.NEW_ACCOUNTANT:
            engine = PrivacyEngine()
            model, optimizer, private_loader = engine.make_private(
                module=model,
                optimizer=sgd,
                data_loader=loader,
                noise_multiplier=digits.NOISE_MULTIPLIER,
                max_grad_norm=digits.CLIP_NORM,
                poisson_sampling=variant is not Variant.FIXED_ORDER,
            )
        for pictures, zeros in private_loader:
            optimizer.zero_grad()
            loss_of(model(pictures), zeros).backward()
            optimizer.step()
            (weights,) = model.parameters()
            gradients.append(weights.grad[0].double() * optimizer.expected_batch_size)
    return torch.stack(gradients).numpy(), engine


if __name__ == "__main__":
    digits.main(train, claims, Variant, library="Opacus", accountant="Opacus' PRV accountant")
