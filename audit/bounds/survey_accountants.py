"""Boninsegna (paper 003), sections II and III: (epsilon, delta) of the steps, and two shortcuts.

All but the subsampling results speak about the release of every iterate, and hold for the last one
by post-processing. The noise of one step is measured in units of the sensitivity: the paper's
sigma is `audit.bounds.survey_shared.noise_multiplier`. Amplification by Poisson sampling (II.4)
compares a record with its absence, which is zero-out here: the divisor of a batch is fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.assumptions import FULL_BATCHES, LAST_ITERATE
from audit.bounds.registry import Entry, Status
from audit.bounds.subsampling import SubsampledGaussian
from audit.bounds.survey_shared import (
    FULL_OR_POISSON,
    ONE_STEP,
    POISSON_ZERO_OUT,
    cite,
    noise_multiplier,
)
from audit.bounds.tails import TailCurve
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD

Array = NDArray[np.float64]

_STEP_EPSILONS = 2000  # that advanced composition chooses from


def gaussian_mechanism(mechanism: NoisySGD) -> PrivacyCurve:
    """One step on the full batch (Theorem II.2): epsilon = sqrt(2 ln(1.25/delta))/sigma.

    For epsilon in (0, 1) only; the curve is infinite beyond. The exact curve of the same step is
    ``bsa24.theorem_4_1``.
    """
    return TailCurve.gaussian(math.sqrt(2) / noise_multiplier(mechanism), factor=1.25, limit=1.0)


@dataclass(frozen=True, eq=False)
class AdvancedComposition:
    """k steps, each (epsilon_0, delta_0)-DP: the best of many epsilon_0.

    For every epsilon_0 the claim is epsilon = slope sqrt(2k ln(1/delta')) epsilon_0 + constant with
    delta = k delta_0 + delta', which can be solved for either.
    """

    epsilons: Array
    deltas: Array
    times: int
    shortcut: bool

    @property
    def _slopes(self) -> Array:
        return self.epsilons * math.sqrt(2 * self.times) * (2 if self.shortcut else 1)

    @property
    def _constants(self) -> Array:
        if self.shortcut:
            return np.zeros_like(self.epsilons)
        with np.errstate(over="ignore"):
            return self.times * self.epsilons * np.expm1(self.epsilons)

    def epsilon_at(self, delta: Array) -> Array:
        """Return the least epsilon claimed for each delta."""
        spare = delta[:, None] - self.times * self.deltas
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = np.sqrt(np.maximum(-np.log(np.where(spare > 0, spare, 1.0)), 0.0))
            claimed = np.where(spare > 0, self._slopes * depth + self._constants, np.inf)
        return np.asarray(np.min(claimed, axis=1, initial=np.inf))

    def delta_at(self, epsilon: Array) -> Array:
        """Return the least delta claimed for each epsilon, its inverse."""
        depth = (epsilon[:, None] - self._constants) / self._slopes
        with np.errstate(over="ignore"):
            rest = np.exp(-np.square(np.maximum(depth, 0.0)))
        claimed = np.where(depth >= 0, self.times * self.deltas + rest, 1.0)
        return np.asarray(np.min(claimed, axis=1, initial=1.0))


def _step_profile(mechanism: NoisySGD, step_epsilon: float | None) -> tuple[Array, Array]:
    """Return epsilons of one step and their deltas, amplified by Poisson sampling (II.4)."""
    mu = 1 / noise_multiplier(mechanism)
    rate = mechanism.sampling_rate
    curve = SubsampledGaussian(rate, mu) if rate < 1 else GaussianCurve(mu)
    if step_epsilon is not None:
        validate.positive(step_epsilon=step_epsilon)
        epsilons = np.array([float(step_epsilon)])
    else:
        largest = mu * (mu / 2 + 12)  # delta is below 1e-30 there
        epsilons = largest * np.geomspace(1e-6, 1, _STEP_EPSILONS)
    return epsilons, np.asarray(curve.delta(epsilons))


def advanced_composition(mechanism: NoisySGD, *, step_epsilon: float | None = None) -> PrivacyCurve:
    """Composition of (epsilon, delta) guarantees of the steps (Theorem II.3).

    T steps of (e, d)-DP are (sqrt(2T ln(1/d')) e + T e (e^e - 1), T d + d')-DP. The steps are
    Gaussian mechanisms with their exact d(e), amplified by Theorem II.4 for Poisson batches.

    Parameters
    ----------
    mechanism
        The public parameters.
    step_epsilon
        e, the guarantee of one step; by default the best of 2000 for each question.
    """
    epsilons, deltas = _step_profile(mechanism, step_epsilon)
    claim = AdvancedComposition(epsilons, deltas, mechanism.steps, shortcut=False)
    return TailCurve(claim.epsilon_at, claim.delta_at)


def advanced_composition_shortcut(
    mechanism: NoisySGD, *, step_epsilon: float | None = None
) -> PrivacyCurve:
    """Take the shortcut of Theorem II.3 for e < 1: 2 sqrt(2T ln(1/d')) e for both terms.

    False, because the second term grows with T and the first with its root: 1000 randomised
    responses with e=.9 have 486.5 at delta=1e-5 against the 273.1 claimed, and 4 * 10^6 steps on
    linear losses with noise of 10 sensitivities, full batches and no domain refute it too.

    Parameters
    ----------
    mechanism
        The public parameters.
    step_epsilon
        e, below 1; by default the best for each question.
    """
    if step_epsilon is not None and not 0 < step_epsilon < 1:
        raise ValueError(f"step_epsilon must be in (0, 1), got {step_epsilon!r}")
    epsilons, deltas = _step_profile(mechanism, step_epsilon)
    small = epsilons < 1
    claim = AdvancedComposition(epsilons[small], deltas[small], mechanism.steps, shortcut=True)
    return TailCurve(claim.epsilon_at, claim.delta_at)


def subsampling(mechanism: NoisySGD) -> PrivacyCurve:
    """One step on a Poisson batch (Theorem II.4): (log(1 + q (e^eps - 1)), q delta)-DP.

    With the exact (eps, delta) of the Gaussian mechanism. The theorem is for a record that is added
    or removed; the pair reaches it in one order.
    """
    mu = 1 / noise_multiplier(mechanism)
    rate = mechanism.sampling_rate
    return SubsampledGaussian(rate, mu) if rate < 1 else GaussianCurve(mu)


def section_iii_a(mechanism: NoisySGD) -> PrivacyCurve:
    """One step on a Poisson batch as section III.A takes it: (q eps, q delta)-DP for eps < 1.

    With eps and delta of Theorem II.2. False: log(1 + q (e^eps - 1)) is above q eps.
    """
    rate, noise = mechanism.sampling_rate, noise_multiplier(mechanism)
    return TailCurve.gaussian(rate * math.sqrt(2) / noise, factor=1.25 * rate, limit=rate)


ENTRIES = (
    Entry(
        id="survey.gaussian_mechanism",
        cite=cite("Theorem II.2"),
        statement=(
            "full batches, one step: (eps, delta)-DP with eps = sqrt(2 ln(1.25/delta))/sigma, "
            "for eps < 1"
        ),
        assumptions=(FULL_BATCHES, ONE_STEP, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=gaussian_mechanism,
    ),
    Entry(
        id="survey.advanced_composition",
        cite=cite("Theorem II.3"),
        statement=(
            "T steps of (eps, delta)-DP each: (sqrt(2T ln(1/delta')) eps + T eps (e^eps - 1), "
            "T delta + delta')-DP"
        ),
        assumptions=(FULL_OR_POISSON, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=advanced_composition,
    ),
    Entry(
        id="survey.advanced_composition_shortcut",
        cite=cite("Theorem II.3, high privacy regime"),
        statement=(
            "T steps of (eps, delta)-DP each, eps < 1: (2 sqrt(2T ln(1/delta')) eps, "
            "T delta + delta')-DP"
        ),
        assumptions=(FULL_OR_POISSON, LAST_ITERATE),
        status=Status.REFUTED,
        function=advanced_composition_shortcut,
    ),
    Entry(
        id="survey.subsampling",
        cite=cite("Theorem II.4"),
        statement="Poisson batches, one step: (log(1 + q (e^eps - 1)), q delta)-DP",
        assumptions=(POISSON_ZERO_OUT, ONE_STEP, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=subsampling,
    ),
    Entry(
        id="survey.section_iii_a",
        cite=cite("Section III.A"),
        statement="Poisson batches, one step, eps < 1: (q eps, q delta)-DP",
        assumptions=(POISSON_ZERO_OUT, ONE_STEP, LAST_ITERATE),
        status=Status.REFUTED,
        function=section_iii_a,
    ),
)
