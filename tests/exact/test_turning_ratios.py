"""Likelihood ratios that turn between the nodes of a panel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from audit import Order
from audit.constructions import Affine
from audit.curves.brackets import BracketError
from audit.exact import LawCurve, cell_curve, curve, normal_cells
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


def test_a_range_of_ratios_between_the_ends_of_cells_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the ratios at the ends of cells as their range, brackets of the same test miss."""

    def ends(width: np.ndarray, p: tuple, q: tuple, std: float) -> np.ndarray:  # type: ignore[type-arg]
        left, right = (one.log_density - other.log_density for one, other in zip(p, q, strict=True))
        return np.asarray(np.maximum(left, right))

    monkeypatch.setattr(normal_cells, "largest_ratio", ends)
    monkeypatch.setattr(cell_curve, "_ROUNDS", 1)  # cells as they are at first

    def missed(means: tuple[float, ...]) -> float:
        try:
            return _far_places(_mixtures(means), Order.FORWARD, means)
        except BracketError:
            return math.inf

    assert max(missed(means) for means in _MEANS) > 1e-3
