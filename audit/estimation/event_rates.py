"""Rates of the events of a score under both laws of a known pair."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from audit.curves import Order, PrivacyCurve

Array = NDArray[np.float64]

_FARTHEST = 7.5  # normal score of the smallest rate of an event, 3e-14
_SPACING, _HALVINGS = 0.5, 6  # of a table of rates, refined where interpolation is inaccurate
_STRAIGHT = 1e-3
_CELL = 0.1  # normal scores


@dataclass(frozen=True, eq=False)
class EventRates:
    """The rates of the events {score >= t} under both laws of a pair."""

    # normal scores of the rates under X', ascending, and under X; a line joins them, and for two
    # normal laws all is one straight line
    second: Array
    first: Array

    @classmethod
    def of(cls, curve: PrivacyCurve) -> EventRates:
        """Return the rates of the events that a privacy curve's tradeoff functions describe."""
        return cls(*_table(lambda rate: np.asarray(curve.beta(rate, Order.REVERSE))))

    @functools.cached_property
    def cells(self) -> tuple[Array, Array]:
        """Return the masses of both laws in cells of the score, the highest scores first."""
        even = np.arange(-_FARTHEST, _FARTHEST, _CELL)
        alike = np.interp(even, self.first, self.second)
        edges = np.unique(np.concatenate([self.second, even, alike]))
        return _masses(np.interp(edges, self.second, self.first)), _masses(edges)

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw scores of X and of X'; those of X' are standard normal."""
        rates = generator.standard_normal(size)
        return -np.interp(rates, self.first, self.second), generator.standard_normal(size)

    def above(self, threshold: float) -> tuple[float, float]:
        """Return the rates of {score >= threshold} under X and X'."""
        first = np.interp(-threshold, self.second, self.first)
        return float(ndtr(first)), float(ndtr(-threshold))


def _table(beta: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return normal scores of rates, ascending, and of 1 - beta there; a line joins them."""

    def high(scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(-ndtri(beta(ndtr(scores))), -40.0, 40.0))

    scores = np.arange(-_FARTHEST, _FARTHEST + _SPACING / 2, _SPACING)
    values = high(scores)
    new = np.ones(scores.size - 1, dtype=np.bool_)  # intervals that were not refined yet
    for _ in range(_HALVINGS):
        left = np.flatnonzero(new)
        middle = 0.5 * (scores[left] + scores[left + 1])
        found = high(middle)
        bent = np.abs(found - 0.5 * (values[left] + values[left + 1])) > _STRAIGHT
        scores, values = (
            np.insert(scores, left + 1, middle),
            np.insert(values, left + 1, found),
        )
        new = np.zeros(scores.size - 1, dtype=np.bool_)
        places = left + np.arange(left.size)  # of the halves' left ends
        new[places[bent]] = new[places[bent] + 1] = True
        if not np.any(new):
            break
    return scores, np.maximum.accumulate(values)


def _masses(scores: Array) -> Array:
    """Return the normal law's masses between and beyond ascending scores."""
    below, above = ndtr(scores), ndtr(-scores)
    inner = np.where(scores[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    masses = np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])
    return np.asarray(masses / np.sum(masses))
