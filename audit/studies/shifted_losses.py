"""Pairs of losses for the shifted interpolated process, in any number of dimensions."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.constructions import Construction, GradientPair, PiecewiseLinear, QuadraticPair
from audit.mechanism import Batching, NoisySGD, Release

Array = NDArray[np.float64]


class Losses(enum.Enum):
    """What the losses of the two datasets are; S is the gradient sensitivity.

    The differing record pulls apart along the first axis: with gradients -S/2 and +S/2, or, for
    ``ONE_SIDED``, with a gradient that rises from 0 to S beside one that is 0, so that the
    distance of the two updates depends on the place.
    """

    LINEAR = "linear"  # no curvature
    QUADRATIC = "quadratic"  # of the strong convexity
    HUBER = "Huber"  # of the smoothness around 0, of the strong convexity far from it
    ONE_SIDED = "one-sided"  # the differing record bends, the others have the strong convexity


@dataclass(frozen=True)
class LossPair:
    """Two datasets for full-batch Noisy-SGD, whose updates are c-Lipschitz and s apart.

    Parameters
    ----------
    mechanism
        Full batches, convex smooth losses, one step size eta <= 2/M; a ball of its diameter
        around 0 is the domain.
    losses
        Their form.
    bend
        The radius inside which Huber losses have the curvature M.

    Raises
    ------
    ValueError
        If the mechanism is none of these.
    """

    mechanism: NoisySGD
    losses: Losses
    bend: float

    def __post_init__(self) -> None:
        m = self.mechanism
        validate.positive(bend=self.bend)
        if m.batching is not Batching.FULL or m.release is not Release.LAST_ITERATE:
            raise ValueError("mechanism must take full batches and release the last iterate")
        if not m.convex or m.smoothness is None or np.ptp(m.step_sizes) != 0:
            raise ValueError("mechanism must have convex, smooth losses and one step size")
        if m.constant_step_size * m.smoothness > 2:
            raise validate.fail("step_size", f"at most 2/M = {2 / m.smoothness:g}", m.step_size)
        if self.losses is Losses.LINEAR and m.strong_convexity > 0:
            raise validate.fail("strong_convexity", "0 for linear losses", m.strong_convexity)
        if self.losses is Losses.ONE_SIDED and m.smoothness == m.strong_convexity:
            raise validate.fail("smoothness", "above the strong convexity", m.smoothness)

    @property
    def shift(self) -> float:
        """By how far the two updates of one point differ at most: s = eta S/n."""
        m = self.mechanism
        return m.constant_step_size * m.sensitivity / m.dataset_size

    @property
    def contraction(self) -> float:
        """The Lipschitz constant of an update: c = max(|1 - eta m|, |1 - eta M|)."""
        m = self.mechanism
        assert m.smoothness is not None  # checked when it was made
        eta = m.constant_step_size
        return max(abs(1 - eta * m.strong_convexity), abs(1 - eta * m.smoothness))

    def updates(self, x: Array, x_prime: Array) -> tuple[Array, Array]:
        """Return phi(x) and phi'(x_prime), without noise and walls; shapes (paths, dimensions)."""
        return self._moved(x, first=True), self._moved(x_prime, first=False)

    def _moved(self, x: Array, *, first: bool) -> Array:
        eta, n = self.mechanism.constant_step_size, self.mechanism.dataset_size
        moved = x - eta * self._shared(x)
        moved[:, 0] -= eta / n * self._record(x[:, 0], first=first)
        return moved

    def _shared(self, x: Array) -> Array:
        m = self.mechanism
        gradient = m.strong_convexity * x
        if self.losses is Losses.HUBER:
            assert m.smoothness is not None  # checked when it was made
            lengths = np.linalg.norm(x, axis=1, keepdims=True)
            inside = np.minimum(1.0, self.bend / np.maximum(lengths, self.bend))
            gradient += (m.smoothness - m.strong_convexity) * inside * x
        return np.asarray(gradient)

    def _record(self, along: Array, *, first: bool) -> Array | float:
        size = self.mechanism.sensitivity
        if self.losses is not Losses.ONE_SIDED:
            return -size / 2 if first else size / 2
        return np.clip(along * self._rise, 0.0, size) if first else 0.0

    @property
    def _rise(self) -> float:
        """The curvature that is left for the differing record."""
        m = self.mechanism
        assert m.smoothness is not None  # checked when it was made
        return m.smoothness - m.strong_convexity

    def project(self, x: Array) -> Array:
        """Return the nearest points of the domain, shape (paths, dimensions)."""
        if self.mechanism.diameter is None:
            return x
        radius = self.mechanism.diameter / 2
        if x.shape[1] == 1:
            return np.asarray(np.clip(x, -radius, radius))
        lengths = np.linalg.norm(x, axis=1, keepdims=True)
        return np.asarray(x * (radius / np.maximum(lengths, radius)))

    def in_one_dimension(self, start: float) -> Construction:
        """Return the pair as a construction, whose laws can be computed."""
        m = self.mechanism
        assert m.smoothness is not None  # checked when it was made
        low, size = m.strong_convexity, m.sensitivity
        if self.losses in (Losses.LINEAR, Losses.QUADRATIC):
            return QuadraticPair(m, curvature=low, start=start)
        if self.losses is Losses.ONE_SIDED:
            width = size / self._rise
            record = PiecewiseLinear((0.0, width), (0.0, size), (0.0, 0.0))
            prime = PiecewiseLinear.constant(0.0)
            line = PiecewiseLinear((0.0,), (0.0,), (low, low))
        else:
            record, prime = (PiecewiseLinear.constant(g) for g in (-size / 2, size / 2))
            top = m.smoothness * self.bend
            line = PiecewiseLinear((-self.bend, self.bend), (-top, top), (low, low))
        return GradientPair(m, record=record, record_prime=prime, shared=line, start=start)


def rounding_of(steps: int, largest: float) -> float:
    """Bound on the rounding error of a distance between states of size ``largest``."""
    return 64 * math.ulp(1.0) * steps * largest
