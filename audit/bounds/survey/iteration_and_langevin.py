"""Boninsegna (2023), sections VI and VII: iteration and Langevin dynamics.

The paper scales its noise by a sensitivity, in each section by another one. With S the sensitivity
of the differing record (`NoisySGD.sensitivity`: 2L, or L for zero-out):

- section VI.A adds N(0, 4 sigma^2 L^2) to a batch's sum, so noise_std = sigma S/b;
- section VII adds N(0, sigma^2 S^2) to the sum, so noise_std = sigma S/n (VII.1) or sigma S/b.

Either way the paper's sigma is ``noise_std * b/S``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import validate
from audit.bounds.assumptions import Assumption
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

_LONGEST = 10_000  # steps of the recursion that are computed one by one

SHORT_STEPS = Assumption(
    "eta < 1/M with M the smoothness",
    lambda m: m.smoothness is not None and m.constant_step_size * m.smoothness < 1,
    lambda m: f"step_size={m.step_size!r} and smoothness={m.smoothness!r}",
)
BALANCED_STEPS = Assumption(
    "eta < 2/(M + m) with M the smoothness",
    lambda m: (
        m.smoothness is not None and m.constant_step_size * (m.smoothness + m.strong_convexity) < 2
    ),
    lambda m: f"step_size={m.step_size!r} and smoothness={m.smoothness!r}",
)
ONE_EPOCH = Assumption(
    "n/b to be whole, and at least one epoch",
    lambda m: m.dataset_size % m.batch_size == 0 and m.epochs >= 1,
    lambda m: f"steps={m.steps}, dataset_size={m.dataset_size} and batch_size={m.batch_size}",
)


def _batch(mechanism: NoisySGD, batch: int | None) -> tuple[int, int, int]:
    """Return (Q, T, kappa): batches per epoch, epochs, and the position of the record's batch."""
    count = mechanism.dataset_size // mechanism.batch_size
    if batch is None:
        return count, mechanism.steps // count, count
    validate.integer(1, batch=batch)
    if batch > count:
        raise ValueError(f"batch must be at most dataset_size/batch_size ({count}), got {batch!r}")
    return count, mechanism.steps // count, int(batch)


@bound("survey.section_vi_a")
def section_vi_a(mechanism: NoisySGD, *, batch: int | None = None) -> PrivacyCurve:
    """Bound fixed batches by iteration: the inner expression of section VI.A, as printed.

    The last epoch's shift, 2 eta L/B over Q - kappa + 1 steps, lost its factor Q^2: linear losses
    with alpha=2, sigma=1, Q=kappa=10, T=1 have .1 against the .01 claimed. Besides, the cases of
    s_t are swapped in print, and the third a_t prints T for Q.

    batch: Position kappa of the record's batch in an epoch, counted from 1. Default: the last, for
        which the claim is largest.
    """
    count, epochs, place = _batch(mechanism, batch)
    inner = (count * (epochs - 1) + 1 / (count - place + 1)) / count**2
    return RenyiCurve.linear(inner / (2 * mechanism.noise_multiplier**2))


@bound("survey.section_vi_a_last")
def section_vi_a_last(mechanism: NoisySGD, *, batch: int | None = None) -> PrivacyCurve:
    """Bound fixed batches by iteration: the last expression of section VI.A, as printed.

    It does not follow from the inner one, and is false where earlier steps contract: for alpha=2,
    sigma=1, Q=10, T=1 it claims .1; records whose losses are Huber functions of curvature 1/eta
    reach .29 at B=1 and .99 at B=10.

    batch: Position kappa, counted from 1; it has no effect on this expression.
    """
    count, epochs, _ = _batch(mechanism, batch)
    return RenyiCurve.linear(epochs / count / (2 * mechanism.noise_multiplier**2))


@bound("survey.section_vi_a_corrected")
def section_vi_a_corrected(mechanism: NoisySGD, *, batch: int | None = None) -> PrivacyCurve:
    """Bound fixed batches by iteration: section VI.A with its own shifts, summed correctly.

    Every meeting's shift is spread over the next Q steps, the last one's over the Q - kappa + 1
    steps that are left (Theorem VI.1, which is Theorem 22 of Feldman et al. 2018).

    batch: Position kappa of the record's batch in an epoch, counted from 1. Default: the last,
        which is the worst.
    """
    count, epochs, place = _batch(mechanism, batch)
    inner = (epochs - 1) / count + 1 / (count - place + 1)
    return RenyiCurve.linear(inner / (2 * mechanism.noise_multiplier**2))


@bound("survey.section_vii_a")
def section_vii_a(mechanism: NoisySGD) -> PrivacyCurve:
    """Claim the same Renyi divergence for any number K of steps (observation in VII.A).

    Setting T = eta K in the bound of Lemma VII.1 gives K times as much; the factor K was dropped.
    Linear losses without a domain have exactly K alpha/(2 sigma^2), ``survey.rdp_composition``.
    """
    return RenyiCurve.linear(1 / (2 * mechanism.noise_multiplier**2))


@bound("survey.theorem_vii_1", short_steps=SHORT_STEPS)
def theorem_vii_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound strongly convex losses on full batches by Langevin diffusion (Theorem VII.1).

    The paper starts at a random point, projected N(0, eta S^2 sigma^2/(m n^2)); from any other
    start it holds too, because it is nowhere below Theorem 4.2 of Bok, Su and Altschuler (2024),
    which does not ask for one.
    """
    pull = mechanism.constant_step_size * mechanism.strong_convexity
    decayed = -math.expm1(-pull * mechanism.steps / 2)
    return RenyiCurve.linear(4 / pull * decayed / (2 * mechanism.noise_multiplier**2))


@dataclass(frozen=True)
class _Recursion:
    """log S_K^0(alpha)/(alpha - 1) after ``steps`` steps from S = 1.

    S' = q e^((alpha-1) alpha/(2 sigma^2)) S + (1 - q) S^((1 - pull)^2), on the logarithmic scale.
    Beyond 10,000 steps the logarithm grows by at most its last increment a step, because increments
    fall as it grows, and stays below the fixed point where there is one.
    """

    rate: float
    noise: float
    pull: float
    steps: int

    def __call__(self, alpha: Array) -> Array:
        gain = (alpha - 1) * alpha / (2 * self.noise**2)
        value, increment = np.zeros_like(gain), gain
        done = min(self.steps, _LONGEST)
        for _ in range(done):
            after = self._step(gain, value)
            increment, value = after - value, after
        if self.steps > done:
            growth = (self.steps - done) * (np.maximum(increment, 0) + 4e-16 * value)
            value = np.minimum(value + growth, self._ceiling(gain, value))
        return np.asarray(value / (alpha - 1))

    def _step(self, gain: Array, value: Array) -> Array:
        met, free = gain + value, (1 - self.pull) ** 2 * value
        small = np.minimum(met, 1.0)
        near = np.log1p(
            self.rate * np.expm1(small) + (1 - self.rate) * np.expm1(np.minimum(free, small))
        )
        if np.all(met <= 1):
            return np.asarray(near)
        with np.errstate(divide="ignore"):
            log_rate, log_rest = np.log(self.rate), np.log1p(-self.rate)
        return np.where(met <= 1, near, np.logaddexp(log_rate + met, log_rest + free))

    def _ceiling(self, gain: Array, value: Array) -> Array:
        """Return the fixed point of the recursion; infinite if it grows without bound."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            excess = self.rate * np.expm1(gain) / (1 - self.rate)
            fixed = -np.log1p(-excess) / (self.pull * (2 - self.pull)) * (1 + 1e-12)
        return np.where(excess < 1, np.maximum(fixed, value), np.inf)


def _recursion(mechanism: NoisySGD, steps: int) -> PrivacyCurve:
    pull = mechanism.constant_step_size * mechanism.strong_convexity
    recursion = _Recursion(mechanism.sampling_rate, mechanism.noise_multiplier, pull, steps)
    return RenyiCurve(recursion, search=(1e-4, 1e6), points=401, refinements=0)


@bound("survey.theorem_vii_2", balanced_steps=BALANCED_STEPS)
def theorem_vii_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound strongly convex losses on batches drawn without replacement (Theorem VII.2).

    The paper's "S_0^j = 1 for all j" must read S_0^0 = 1: see ``survey.theorem_vii_2_literal``. Its
    epochs play no part, so the steps need not be whole epochs. Both runs are compared batch by
    batch, so the sensitivity is that of the differing record.
    """
    return _recursion(mechanism, mechanism.steps)


@bound("survey.theorem_vii_2_literal", balanced_steps=BALANCED_STEPS, one_epoch=ONE_EPOCH)
def theorem_vii_2_literal(mechanism: NoisySGD) -> PrivacyCurve:
    """Run Theorem VII.2 from S_0^j = 1 for all j = 0..n/b - 1, as printed.

    The first epoch then counts for one step. With n/b=2, K=1, sigma=1, alpha=2, eta m=.01 a pair of
    quadratics has .68865 against .62011 claimed.
    """
    count = mechanism.dataset_size // mechanism.batch_size
    return _recursion(mechanism, mechanism.steps - (count - 1))
