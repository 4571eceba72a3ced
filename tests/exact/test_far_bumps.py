"""Brackets of mixtures whose bumps are far apart, against sums over small cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from audit import Order
from audit.constructions import Affine
from audit.exact import LawCurve, curve
from tests.exact.cases import Pair, noisy, process

Array = NDArray[np.float64]
_HALF = 22.0
_CELLS = 500  # in a standard deviation


class _Mixture:
    """Normals of one deviation, projected on an interval."""

    def __init__(self, weights: Array, means: Array, std: float, half: float) -> None:
        self.weights, self.means, self.std, self.half = weights, means, std, half

    def logs(self, x: Array) -> Array:
        z = (x[:, None] - self.means) / self.std
        scale = math.log(self.std * math.sqrt(2 * math.pi))
        return np.asarray(logsumexp(np.log(self.weights) - z * z / 2 - scale, axis=1))

    def masses(self, edges: Array) -> Array:
        """Return those of cells, the atoms first and last."""
        total = np.zeros(edges.size + 1)
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        for weight, mean in zip(self.weights, self.means, strict=True):
            z = (ends - mean) / self.std
            total += weight * np.where(
                z[1:] > 0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1])
            )
        return total


class _Cells:
    """What sums over cells say of two mixtures, to the square of a cell's width."""

    def __init__(self, first: _Mixture, second: _Mixture) -> None:
        self.first, self.second = first, second
        self.edges = np.linspace(-first.half, first.half, int(2 * first.half * _CELLS) + 1)
        self.p, self.q = (law.masses(self.edges) for law in (first, second))
        with np.errstate(divide="ignore", invalid="ignore"):
            self.ratio = np.log(self.p) - np.log(self.q)
        x = 0.5 * (self.edges[1:] + self.edges[:-1])
        self.logs = first.logs(x), second.logs(x)
        self.ratio[1:-1] = self.logs[0] - self.logs[1]

    def delta(self, epsilon: float) -> float:
        return float(np.sum(np.maximum(self.p - math.exp(epsilon) * self.q, 0.0)))

    def errors(self, c: float) -> tuple[float, float]:
        low = self.ratio <= c
        return float(self.p[low].sum()), float(self.q[~low].sum())

    def renyi(self, alpha: float) -> float:
        heights = alpha * self.logs[0] + (1 - alpha) * self.logs[1]
        parts = [logsumexp(heights) + math.log(self.edges[1] - self.edges[0])]
        for p, q in ((self.p[0], self.q[0]), (self.p[-1], self.q[-1])):
            if min(p, q) > 1e-290:
                parts.append(alpha * math.log(p) + (1 - alpha) * math.log(q))
        return float(logsumexp(parts)) / (alpha - 1)

    def largest(self) -> float:
        held = np.isfinite(self.ratio) & (np.minimum(self.p, self.q) > 1e-290)
        inner = self.logs[0] - self.logs[1]
        return max(float(self.ratio[held].max()), float(inner.max()))


def _setting(seed: int) -> tuple[LawCurve, _Mixture, _Mixture]:
    """One step of maps 2 to 30 deviations apart with weights of 1e-12 to 1/2."""
    random = np.random.default_rng([20, seed])
    gap = random.uniform(2, 30)
    weights = np.array([1.0, math.exp(random.uniform(math.log(1e-12), 0.0))])
    weights = random.permutation(weights / weights.sum())
    means = np.array([-gap / 2, gap / 2])
    # the second law moves a bump, lacks one, or mirrors the weights
    kind = seed % 3
    moved = means + (kind == 0) * np.array([random.uniform(1, 4), 0.0])
    others = weights[::-1] if kind == 2 else weights
    if kind == 1:
        moved = np.array([means[0], means[0] + random.uniform(0.3, 1) * gap])
    laws, paths = [], []
    for shifts, chances in ((means, weights), (moved, others)):
        maps = tuple(Affine(float(shift)) for shift in shifts)
        given = tuple(float(chance) for chance in chances)
        paths.append(process(noisy(*maps, weights=given), lower=-_HALF, upper=_HALF))
        laws.append(_Mixture(chances, shifts, 1.0, _HALF))
    found = curve(Pair(*paths))
    assert isinstance(found, LawCurve)
    return found, laws[0], laws[1]


def _missed(seed: int) -> dict[str, float]:
    """Return by how much brackets miss the truth, beyond what cells leave open."""
    found, first, second = _setting(seed)
    random = np.random.default_rng([21, seed])
    missed = dict.fromkeys(("delta", "beta", "renyi", "pure"), 0.0)

    def compare(name: str, bracket: tuple[float, float], truth: float, unit: float) -> None:
        low, high = bracket
        missed[name] = max(missed[name], (low - truth) / unit, (truth - high) / unit)

    for order in Order:
        cells = _Cells(first, second) if order is Order.FORWARD else _Cells(second, first)
        top = cells.largest()
        # ratios that are met between the bumps
        between = np.linspace(first.means.min(), first.means.max(), 100)
        ratios = cells.first.logs(between) - cells.second.logs(between)
        for epsilon in np.minimum(np.abs(random.choice(ratios, 2)), 300.0):
            truth = cells.delta(epsilon)
            compare("delta", found.delta_bracket(epsilon, order), truth, truth + 1e-16)
        for c in random.choice(ratios, 2):
            one, two = cells.errors(c)
            if 1e-14 < one < 0.999:
                # a cell more or less of the test
                bracket = found.beta_bracket(one, order)
                compare("beta", bracket, two, two + math.exp(-max(c, -300.0)) * one)
        for alpha in (1.5, 20.0):
            truth = cells.renyi(alpha)
            compare("renyi", found.renyi_bracket(alpha, order), truth, max(truth, 1e-3))
        compare("pure", found.epsilon_bracket(0.0, order), max(top, 0.0), max(top, 0.1))
    return missed


# cells hold little less than the truth; a crossing is off by a cell
_TOLERANCES = {"delta": 1e-3, "beta": 1e-2, "renyi": 1e-5, "pure": 1e-5}


@pytest.mark.parametrize("seed", range(12))
def test_brackets_contain_the_truth(seed: int) -> None:
    missed = _missed(seed)
    assert all(missed[name] <= most for name, most in _TOLERANCES.items()), missed
