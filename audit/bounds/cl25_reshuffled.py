"""Chien and Li (2025), Appendix A.2 as printed: records shuffled anew in every epoch.

`NoisySGD` shuffles once (``Batching.SHUFFLED``), so these are no entries of the catalogue: what
averages over fresh shuffles is no bound for records that keep their place. The public parameters
are those of such a mechanism. Theorem A.1 bounds the run for any one sequence of batches, and
Corollary A.3 averages over all sequences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.assumptions import CONSTANT_STEP_SIZE, LAST_ITERATE, SMOOTH
from audit.bounds.cl25_batches import SHUFFLED, MixedDivergence
from audit.bounds.cl25_tracking import Losses, clip_speed, domain, excess, step_shift
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD

Array = NDArray[np.float64]

_MOST_SEQUENCES = 4096
_ASSUMPTIONS = (SHUFFLED, LAST_ITERATE, CONSTANT_STEP_SIZE, SMOOTH)


def _epochs(mechanism: NoisySGD) -> tuple[int, int]:
    """Return the batches in an epoch, and how many epochs are begun."""
    period = mechanism.dataset_size // mechanism.batch_size
    return period, -(-mechanism.steps // period)


def _square(mechanism: NoisySGD, places: Sequence[int], losses: Losses | None) -> float:
    """Return the minimum of equation (25) for one sequence, in units of the squared noise."""
    period, _ = _epochs(mechanism)
    steps, shift = mechanism.steps, step_shift(mechanism, mechanism.batch_size)
    surplus, speed, widest = (
        excess(mechanism, losses),
        clip_speed(mechanism),
        domain(mechanism),
    )
    met = np.zeros(steps, dtype=np.bool_)
    times = np.arange(len(places)) * period + np.asarray(places, dtype=np.int64)
    met[times[times < steps]] = True
    if not np.any(met):
        return 0.0
    distances = [0.0]
    for meets in met:  # Lemma A.2 with c d for g(d)
        moved = (1 + surplus) * distances[-1] + shift * meets
        distances.append(min(moved, distances[-1] + speed, widest))
    starts = list(range(steps))
    if surplus <= 0:  # to start later than just after a meeting gains nothing
        starts = [0, *(int(t) + 1 for t in np.flatnonzero(met) if t + 1 < steps)]
    best = min(_cheapest(met[start:], shift, 1 + surplus, distances[start]) for start in starts)
    return best / mechanism.step_std**2


def _cheapest(met: NDArray[np.bool_], shift: float, contraction: float, distance: float) -> float:
    """Return the least sum of b_t^2 with sum of (b_t - s_t) c^-(t-tau+1) >= d and b_t >= s_t.

    b_t = max(s_t, theta w_t), w_t the weights; those of s_t with the largest weights are raised
    first.
    """
    powers = np.arange(met.size - 1, -1, -1.0)
    if contraction <= 1:  # weights c^(T-1-t), against c^(T-tau) d
        weights, target = contraction**powers, contraction**met.size * distance
    else:  # the same, divided by c^(T-tau-1)
        weights, target = contraction ** -powers[::-1], contraction * distance
    own = np.sort(weights[met])[::-1]
    free = float(np.sum(weights[~met] ** 2))
    squares = free + np.concatenate([[0.0], np.cumsum(own**2)])
    needed = target + shift * np.concatenate([[0.0], np.cumsum(own)])
    raised = np.arange(own.size + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.where(needed > 0, needed / squares, 0.0)
        costs = np.where(needed > 0, needed * theta, 0.0) + (own.size - raised) * shift**2
        # where all raised ones end above s the choice is feasible; the optimum is one of those
        feasible = np.concatenate([[True], theta[1:] * own >= shift * (1 - 1e-12)])
    return float(np.min(np.where(feasible, costs, np.inf)))


def theorem_a_1_sequence(
    mechanism: NoisySGD, places: Sequence[int], *, losses: Losses | None = None
) -> PrivacyCurve:
    """Return Theorem A.1 for one sequence of batches, smooth losses.

    Parameters
    ----------
    mechanism
        The public parameters, with ``Batching.SHUFFLED``; here each epoch has its own order.
    places
        The place of the record's batch in each epoch that is begun, from 0.
    losses
        The branch; by default the one with the smallest Lipschitz constant that applies.

    Raises
    ------
    NotApplicable
        If an assumption fails.
    ValueError
        If ``places`` are not one for each epoch, or no places of an epoch.
    """
    for assumption in _ASSUMPTIONS:
        assumption.require(mechanism, "cl25_reshuffled.theorem_a_1_sequence")
    period, epochs = _epochs(mechanism)
    if len(places) != epochs:
        raise ValueError(f"places must be one for each of the {epochs} epochs, got {len(places)}")
    for place in places:
        validate.integer(0, places=place)
        if place >= period:
            raise ValueError(
                f"places must be below dataset_size/batch_size ({period}), got {place}"
            )
    return RenyiCurve.linear(_square(mechanism, places, losses) / 2)


def corollary_a_3_reshuffled(mechanism: NoisySGD, *, losses: Losses | None = None) -> PrivacyCurve:
    """Return Corollary A.3 with fresh shuffles: Theorem A.1 averaged over all sequences.

    D_alpha <= log(E exp((alpha - 1) eps(alpha, B)))/(alpha - 1), B uniform over the (n/b)^E
    sequences of places of the record's batch in E epochs, by joint convexity.

    Raises
    ------
    NotApplicable
        If an assumption fails.
    ValueError
        If there are more than 4096 sequences.
    """
    for assumption in _ASSUMPTIONS:
        assumption.require(mechanism, "cl25_reshuffled.corollary_a_3_reshuffled")
    period, epochs = _epochs(mechanism)
    if period**epochs > _MOST_SEQUENCES:
        raise ValueError(
            f"(dataset_size/batch_size)^epochs must be at most {_MOST_SEQUENCES}, "
            f"got {period}^{epochs}"
        )
    squares = [_square(mechanism, places, losses) for places in sequences(period, epochs)]
    weights = np.full(len(squares), 1 / len(squares))
    return RenyiCurve(MixedDivergence(np.array(squares) / 2, weights), points=101)


def sequences(period: int, epochs: int) -> Iterator[tuple[int, ...]]:
    """Return all sequences of places, one place in ``range(period)`` for each epoch."""
    return itertools.product(range(period), repeat=epochs)
