"""How far one step's noise must be followed for computed laws to hold wherever they matter.

A banded operator leaves out noise beyond some standard deviations. That is harmless only while the
likeliest way to every place that matters takes shorter steps. Where one law sits on the far tail of
the other it does not: under a push of 8 deviations a step against one of -8, the second law gets
to where the first is by steps of 16.

The noise of the last step on the likeliest way to x is the slope of the log density at x, times the
variance; earlier steps take no more where no map expands. Where one does, no step's noise z can
cost more than the whole way: z^2 / 2 <= -log probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit.constructions.process import Process
from audit.exact.law import Law
from audit.numerics.log_sums import log_sum
from audit.numerics.panels import Panels

Array = NDArray[np.float64]

# Steps of more than about 85 deviations are out of reach: over two panels of 4 deviations the
# noise's density then falls by e^680, and products within a block of the operator underflow.
LARGEST_REACH = 92.0
# Noise so far from the likeliest makes 1e-15 of a density.
_AROUND = 8.0
# Places matter where a law has more than this log probability, 1e-130.
_RELEVANT = -300.0


def push_apart(processes: Sequence[Process], panels: Panels) -> float:
    """Largest distance between the mean updates of two steps, in noise standard deviations."""
    steps = [step for process in processes for step in process.distinct_steps()]
    means = [
        np.sum([w * phi(panels.edges) for phi, w in mixture], axis=0)
        for step in steps
        for mixture in step.mixtures()
    ]
    spread = np.max(np.max(means, axis=0) - np.min(means, axis=0))
    return float(spread) / min(step.noise_std for step in steps)


def needed(laws: Sequence[Law], processes: Sequence[Process], steepest: float) -> float:
    """Noise of one step, in standard deviations, on the likeliest ways to the places that matter.

    ``laws`` share their panels; ``steepest`` bounds the slopes of the processes' maps.
    """
    panels = laws[0].panels
    masses = np.stack([_panel_masses(law) for law in laws])
    relevant = masses.max(axis=0) > _RELEVANT
    if steepest > 1 + 1e-12:
        return math.sqrt(2 * max(0.0, -float(masses[:, relevant].min())))
    std = max(step.noise_std for process in processes for step in process.distinct_steps())
    width = panels.nodes[relevant, -1] - panels.nodes[relevant, 0]
    most = 0.0
    for law in laws:
        logs = law.state.log_values[relevant]
        if np.isneginf(logs).any():
            return math.inf
        most = max(most, float(np.max(np.abs(logs[:, -1] - logs[:, 0]) / width)) * std)
    return most


def followed(law: Law, std: float, steepest: float) -> NDArray[np.bool_]:
    """Whether each panel's values are accurate in spite of the noise that was left out.

    The likeliest ways to a place take noise of some standard deviations a step, give or take one;
    what lies so many beyond must have been followed, on the whole way out from where the law sits.
    ``std`` is the largest noise of a step, ``steepest`` the largest slope of a map.
    """
    logs = law.state.log_values
    if np.isinf(law.reach):
        return np.ones(len(logs), dtype=np.bool_)
    masses = _panel_masses(law)
    if steepest > 1 + 1e-12:
        noise = np.sqrt(2 * np.maximum(-masses, 0.0))
    else:
        width = law.panels.nodes[:, -1] - law.panels.nodes[:, 0]
        with np.errstate(invalid="ignore"):
            noise = np.abs(logs[:, -1] - logs[:, 0]) / width * std
    good = noise <= law.reach - _AROUND  # false for what vanished on the way
    middle = int(np.argmax(masses))
    out = np.zeros_like(good)
    out[middle:] = np.logical_and.accumulate(good[middle:])
    out[: middle + 1] = np.logical_and.accumulate(good[middle::-1])[::-1]
    return np.asarray(out)


def _panel_masses(law: Law) -> Array:
    """Log probability of each panel, the atoms counted with the panels next to them."""
    masses = log_sum(law.state.log_values + np.log(law.panels.weights))
    masses[0] = np.logaddexp(masses[0], law.state.log_atoms[0])
    masses[-1] = np.logaddexp(masses[-1], law.state.log_atoms[1])
    return masses
