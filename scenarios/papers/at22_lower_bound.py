"""Altschuler and Talwar (2022), Theorem 4.1: a lower bound for batches without replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.bounds import CATALOGUE, NotApplicable, Source
from audit.mechanism import Batching, NoisySGD


@dataclass(frozen=True)
class RenyiLowerBound:
    """Claim that a mechanism is not (``order``, ``divergence``)-Renyi private.

    Some neighbouring pair of the mechanism's class has a larger divergence of this order.

    id: Paper and number.
    cite: Where it is published.
    statement: The statement in one line.
    order: Renyi order.
    divergence: Divergence in nats that some pair exceeds.
    """

    id: str
    cite: Source
    statement: str
    order: float
    divergence: float


def theorem_4_1(mechanism: NoisySGD) -> RenyiLowerBound:
    """Lower bound for linear losses in one dimension (Theorem 4.1).

    Not (100, 1e-7 * 100 L^2/(n^2 sigma^2) min{T, T-bar})-Renyi private, with T-bar = 0.75 D n/(L
    eta), if D >= 1000 eta L and sigma^2 <= 1e-3 D^2/(eta^2 T-bar), from any start (with the loss
    mirrored for a start right of the middle).
    """
    name, lipschitz, diameter = "at22.theorem_4_1", mechanism.lipschitz, mechanism.diameter
    if mechanism.batching is not Batching.WITHOUT_REPLACEMENT or lipschitz is None:
        raise NotApplicable(f"{name} needs Lipschitz losses and batches without replacement")
    if diameter is None:
        raise NotApplicable(f"{name} needs a bounded domain, got diameter=None")
    eta, n = mechanism.constant_step_size, mechanism.dataset_size
    if diameter < 1e3 * eta * lipschitz * (1 - 1e-12):
        raise NotApplicable(f"{name} needs D >= 1000 eta L, got diameter={diameter!r}")
    crossing = 0.75 * diameter * n / (lipschitz * eta)
    most = math.sqrt(1e-3 / crossing) * diameter / eta
    if mechanism.noise_std > most * (1 + 1e-12):
        raise NotApplicable(
            f"{name} needs sigma^2 <= 1e-3 D^2/(eta^2 T-bar), got noise_std={mechanism.noise_std!r}"
        )
    ratio = lipschitz / n / mechanism.noise_std
    return RenyiLowerBound(
        id=name,
        cite=CATALOGUE["at22.b_1"].source.at("Theorem 4.1, with the constants of footnote 9"),
        statement="linear losses: not (100, 1e-5 L^2/(n^2 sigma^2) min{T, T-bar})-Renyi private",
        order=100.0,
        divergence=1e-5 * ratio**2 * min(mechanism.steps, crossing),
    )
