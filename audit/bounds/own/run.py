"""Runs that the bounds of this package share.

With s = eta sigma the noise of a step, X_(k+1) = Pi(phi_k(X_k) + s Z_k) and X' the same with
phi'_k, from a common start. Updates are c-Lipschitz, and |phi_k - phi'_k| <= v in steps that use
the differing record; otherwise they are equal. The setting of "Our own theorems" in the
documentation says why, and what it is for Poisson batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.bounds.accounting.composition import SubsampledGaussian, coarse_epsilons, compose
from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.accounting.update import contraction_gap, family_sensitivity
from audit.bounds.assumptions import domain
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.dominating.poisson import poisson_curve
from audit.mechanism import Batching, NoisySGD, Relation
from audit.numerics.arrays import Array, Integers
from audit.numerics.binomial import log_binomial

_COARSE_GRID = 1 << 14  # points of a composition; every grid gives a bound
_ACCURACY, _COARSE_ACCURACY = 3e-5, 1e-2  # relative accuracy of compositions of Poisson steps
_MAX_RATIO = 10.0  # u/s of a Poisson step; beyond, sampling is left out
_DEVIATIONS = np.concatenate(
    [[-8.0, -4.0], np.linspace(-3, 3, 13), [4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0]]
)
_FAR_DEVIATIONS, _MEETINGS_AROUND_MEAN, _NEGLECTED_MASS = 40.0, 64, 1e-40  # around the mean
_UNIT = 2.0**-53


@dataclass(frozen=True)
class WorstRun:
    """Worst run that a mechanism allows, in numbers.

    The differing record of fixed batches is taken to be in the last one, which covers the others.

    steps: Number of steps T.
    noise: Standard deviation s of a step's noise.
    shift: Distance v by which a step that uses the record separates the iterates.
    gap: Value of 1 - c, in [0, 1].
    diameter: Diameter D; infinite if the domain is unbounded.
    period: The record is used in the last step, and once in every ``period`` steps before.
    rate: Probability of its use in these steps: below 1 for sampled batches, whose period is 1.
    poisson: Relation of the datasets, for Poisson batches; None for others.
    """

    steps: int
    noise: float
    shift: float
    gap: float
    diameter: float
    period: int
    rate: float
    poisson: Relation | None = None

    @classmethod
    def of(cls, mechanism: NoisySGD, gap: float | None = None) -> WorstRun:
        """Return the run of a mechanism that meets the assumptions of this package's bounds.

        Its updates contract by ``gap``, which follows from the losses by default.
        """
        m = mechanism
        replaced = m.batching is Batching.WITHOUT_REPLACEMENT and m.batch_size < m.dataset_size
        poisson = m.batching is Batching.POISSON
        if gap is None:
            gap = 0.0 if poisson else min(max(contraction_gap(m), 0.0), 1.0)
        sensitivity = family_sensitivity(m) if replaced else m.sensitivity
        return cls(
            steps=m.steps,
            noise=m.step_std,
            shift=m.constant_step_size * sensitivity / m.batch_size,
            gap=gap,
            diameter=domain(m),
            period=m.steps_per_epoch if m.batching.repeats else 1,
            rate=m.sampling_rate if replaced or poisson else 1.0,
            poisson=m.relation if poisson and m.sampling_rate < 1 else None,
        )

    @property
    def contraction(self) -> float:
        """Lipschitz constant c of an update."""
        return 1.0 - self.gap

    @property
    def log_contraction(self) -> float:
        """Logarithm of c; -700 for c = 0."""
        return math.log1p(-self.gap) if self.gap < 1 else -700.0

    @property
    def ratio(self) -> float:
        """Gaussian parameter v/s of a step that uses the record."""
        return self.shift / self.noise

    @property
    def alone(self) -> float:
        """Distance u by which drawing the record, in one run alone, separates the iterates."""
        return self.shift / 2 if self.poisson is Relation.REPLACE_ONE else self.shift

    def composition(self, steps: int, *, coarse: bool = False) -> PrivacyCurve:
        """Return an upper bound on the composition of steps on sampled batches."""
        if self.poisson is None:
            step = SubsampledGaussian(self.rate, self.ratio)
            if coarse:
                return compose(step, steps, largest_grid=_COARSE_GRID)
            return compose(step, steps)
        if self.alone / self.noise > _MAX_RATIO:
            return GaussianCurve(self.ratio * math.sqrt(steps))
        accuracy = _COARSE_ACCURACY if coarse else _ACCURACY
        return poisson_curve(1 / self.ratio, self.rate, steps, self.poisson, accuracy=accuracy)

    def coarse_epsilons(self) -> Callable[[int, float], float]:
        """Return approximate epsilons of compositions, by number of steps and delta."""
        if self.poisson is None:
            return coarse_epsilons(SubsampledGaussian(self.rate, self.ratio))
        return lambda steps, delta: self.composition(steps, coarse=True).epsilon(delta)

    def meetings(self, steps: ArrayLike) -> Array:
        """Return the largest number of uses of the record in ``steps`` consecutive steps."""
        return np.asarray(np.ceil(np.asarray(steps, dtype=np.float64) / self.period))

    def tracked(self, steps: ArrayLike) -> Array:
        """Return a bound on the distance of the iterates after ``steps`` steps with shared noise.

        At most D, and at most v (1 + c^l + c^2l + ...) with one term per use of the record and l
        the period.
        """
        rate = self.log_contraction * self.period
        grown = self.shift * geometric(rate, self.meetings(steps))
        return np.asarray(np.minimum(grown, self.diameter))


def meetings(count: int, rate: float, most: int) -> tuple[Integers, Array, Array]:
    """Return numbers of meetings in ``count`` steps and lower and upper bounds on their chances.

    A number that is not listed counts as the next one. The last is ``most``, which stands for all
    larger ones, or ``count``. At most 1e-40 of the chances are farther than 40 deviations and 64
    meetings from the mean, by Bernstein's inequality.

    count: Number of steps.
    rate: Chance of a meeting in a step.
    most: From here on numbers need not be told apart.
    """
    last = min(count, most)
    middle, spread = count * rate, math.sqrt(count * rate * (1 - rate))
    near = np.ceil(middle + spread * _DEVIATIONS)
    numbers = np.unique(np.append(near[(near >= 0) & (near < last)], last))
    numbers = numbers.astype(np.int64)
    reach = _FAR_DEVIATIONS * spread + _MEETINGS_AROUND_MEAN
    k = np.arange(max(int(middle - reach), 0), min(math.ceil(middle + reach), count) + 1)
    logs, errors = log_binomial(k, count, rate)
    place = np.minimum(np.searchsorted(numbers, k), numbers.size - 1)
    chances = np.bincount(place, np.exp(logs), numbers.size).astype(np.float64)
    error = float(errors[logs > -700].max()) + _UNIT * (k.size + 8)
    return numbers, chances * (1 - error), chances * (1 + error) + _NEGLECTED_MASS
