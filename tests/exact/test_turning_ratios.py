"""Likelihood ratios that turn between the nodes of a panel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy.special import ndtr

from audit import Order
from audit.constructions import Affine
from audit.exact import LawCurve, curve, from_pair, law_curve
from audit.numerics.panels import LogInterpolants, gauss_legendre
from audit.numerics.turning_points import TurningPoints, _rule, turning_points
from tests.exact.cases import Pair, noisy, process

# Means of mixtures of normals: what one step from 0 by maps with these shifts leads to.
_WEIGHTS = (0.4, 0.3, 0.3)
_MEANS = [(float(a), float(b), 0.17 * a) for a in (1.0, 1.7, 2.3) for b in (-1.1, 2.6)]
_SHIFT = 0.3


def _mixtures(means: tuple[float, ...]) -> LawCurve:
    """One step; the first law moves two of the means."""
    moved = (means[0] + _SHIFT, means[1] + _SHIFT, means[2])
    pair = Pair(
        *(
            process(noisy(*(Affine(m) for m in shifts), weights=_WEIGHTS), lower=-5.0, upper=5.0)
            for shifts in (means, moved)
        )
    )
    found = curve(pair)
    assert isinstance(found, LawCurve)
    return found


def _cells(means: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the masses of both laws between places so close that their ratio is constant."""
    edges = np.concatenate([[-np.inf], np.linspace(-5, 5, 200_001), [np.inf]])
    moved = (means[0] + _SHIFT, means[1] + _SHIFT, means[2])
    first, second = (
        sum(w * np.diff(ndtr(edges - m)) for w, m in zip(_WEIGHTS, shifts, strict=True))
        for shifts in (means, moved)
    )
    return np.asarray(first), np.asarray(second)


def _far_places(found: LawCurve, order: Order, means: tuple[float, ...]) -> float:
    """Return by how much brackets of delta next to the largest ratios miss the truth."""
    p, q = _cells(means) if order is Order.FORWARD else _cells(means)[::-1]
    inner = np.log(p[1:-1] / q[1:-1])
    turns = np.flatnonzero(np.diff(np.sign(np.diff(inner)))) + 1
    missed = 0.0
    for top in inner[turns]:
        for below in (1e-4, 1e-3):
            # an error of cells is of the second order in their size
            truth = float(np.sum(np.maximum(p - np.exp(top - below) * q, 0.0)))
            low, high = found.delta_bracket(float(top - below), order)
            missed = max(missed, (low - truth) / truth, (truth - high) / truth)
    return missed


@pytest.mark.parametrize("means", _MEANS)
@pytest.mark.parametrize("order", list(Order))
def test_brackets_contain_the_truth_next_to_a_turn(means: tuple[float, ...], order: Order) -> None:
    # the truth is known to 1e-9 by its cells: where the excess is 1e-6 of a mass, to 1e-5
    assert _far_places(_mixtures(means), order, means) < 1e-5


def test_a_ratio_that_turns_unseen_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the turning points, some brackets of the same test miss by more than that."""
    nothing = turning_points(LogInterpolants(np.zeros((2, 1, 20))))
    monkeypatch.setattr(law_curve, "turning_points", lambda _: nothing)
    monkeypatch.setattr(from_pair, "resolved_panels", lambda _, panels: panels)
    missed = [_far_places(_mixtures(m), order, m) for m in _MEANS[:2] for order in Order]
    assert max(missed) > 1e-2


def _turns(logs: np.ndarray) -> TurningPoints:
    return turning_points(LogInterpolants(logs))


def test_every_turn_is_found() -> None:
    nodes, _ = gauss_legendre(20)
    fine = np.linspace(-1, 1, 20_001)
    for seed in range(20):
        random = np.random.default_rng(seed)
        centres, heights = random.uniform(-3, 3, (2, 4)), random.uniform(0.2, 1, (2, 4))

        def log(
            x: np.ndarray, k: int, c: np.ndarray = centres, h: np.ndarray = heights
        ) -> np.ndarray:
            return np.asarray(np.log((h[k] * np.exp(-2 * (x[:, None] - c[k]) ** 2)).sum(axis=1)))

        found = _turns(np.stack([log(nodes, 0)[None], log(nodes, 1)[None]]))
        slopes = np.diff(log(fine, 0) - log(fine, 1))
        turns = fine[np.flatnonzero(slopes[1:] * slopes[:-1] < 0) + 1]
        # places that halve an interval may stand between them
        gaps = np.abs(turns[:, None] - found.places).min(axis=1, initial=np.inf)
        assert np.all(gaps < 2e-4), seed
        assert found.slack < 1e-10


def test_series_on_halves_are_those_of_the_polynomial() -> None:
    rule, places = _rule(20), np.linspace(-1, 1, 101)
    series = np.random.default_rng(0).normal(size=39) * 0.7 ** np.arange(39)
    for step in range(6):
        for half, side in zip(rule.halves, (-0.5, 0.5), strict=True):
            found = chebyshev.chebval(places, series @ half)
            wanted = chebyshev.chebval(side + 0.5 * places, series)
            # a few roundings of coefficients whose sizes sum to some 3
            assert np.max(np.abs(found - wanted)) < 1e-14
        series = series @ rule.halves[step % 2]


def test_what_is_lost_in_rounding_is_bounded_by_its_mass() -> None:
    """Between two far bumps nothing is known of a ratio, and little of either law is there."""
    nodes, _ = gauss_legendre(20)
    valley = np.abs(13 * nodes)
    found = _turns(np.stack([valley[None], (valley + 1e-3 * np.sin(40 * nodes))[None]]))
    assert found.slack <= 1e-10
    assert np.all(found.hidden_logs < valley.max() + np.log(2.0) + 1)


def test_equal_laws_turn_nowhere() -> None:
    logs = np.log(np.random.default_rng(0).uniform(0.5, 1, (3, 20)))
    found = _turns(np.stack([logs, logs]))
    assert found.places.size == found.hidden_panels.size == 0
    assert found.slack < 1e-10  # what rounding may hide
