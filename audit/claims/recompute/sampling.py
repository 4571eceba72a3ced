"""The second way: draws."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from audit.claims.recompute.counting import (
    ERROR,
    Ladder,
    best_event,
    ladder,
    lower_limit,
    unlucky,
    upper_limit,
)
from audit.claims.recompute.draws import Draw, Ratio, closed_ratio, drawing
from audit.claims.recompute.numbers import ratios
from audit.claims.recompute.outcomes import Outcome, Way
from audit.claims.recompute.plainlaws import Nodes, length, log_density, normals_of
from audit.claims.recompute.questions import Question, Rising
from audit.claims.witness import Witness

Array = NDArray[np.float64]

_CHUNK = 500_000
_MOST_STEPS = 200_000_000  # of all draws together
_MOST_DRAWS = 40_000_000
_FEWEST_DRAWS = 20_000
_WIDER = 1.3  # than what the mean consists of, so that no weight is large


def sampled(witness: Witness, question: Question, nodes: Nodes, swap: bool, seed: int) -> Way:
    """Show a number by draws.

    In this order, with more and more draws, the first way that may be expected to show it: one
    event counted under both laws; the mean under P of a function of log p - log q, where that is a
    formula; the same by importance sampling. The way and its event follow from ``nodes`` alone, so
    nothing is chosen after looking at draws.
    """
    names = ("second", "first") if swap else ("first", "second")
    closed = closed_ratio(witness.pair)
    ratio = _signed(closed, swap) if closed is not None else _table(nodes)
    steps = (
        max(length(witness.pair[name]) for name in names)
        if witness.pair["kind"] == "process"
        else 1
    )
    most = min(_MOST_DRAWS, _MOST_STEPS // steps)
    follow = most >= _FEWEST_DRAWS
    if not follow:
        if closed is None:
            return _unsampleable(question, f"a draw takes {steps} steps")
        most = _MOST_DRAWS
    draws = [drawing(witness.pair, name, follow=follow) for name in names]
    note = "" if follow else ", the chain's normal law in closed form"
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    weighings = []
    if closed is not None and question.rising is not None:
        weighings = _weighings(witness, question.rising, nodes, names[0], draws[0], ratio)
    for counts in _rounds(most):
        for count in counts:
            event, planned = best_event(nodes, question.proof, count)
            if planned > question.claimed:
                level = np.array([event.level])
                inside, inside_q = (_hits(draw, ratio, level, rng, count) for draw in draws)
                p, q = lower_limit(inside, count), upper_limit(inside_q, count)
                how = f"{count} draws of each law{note}; "
                how += f"the event has {int(inside[0])} and {int(inside_q[0])}"
                return _counted(question, float(question.proof(p, q)[0]), 2 * ERROR, how)
        for count, way in itertools.product(counts, weighings):
            assert question.rising is not None
            proven = question.rising.proven
            if proven(way.planned(count)) > question.claimed:
                hits = _hits(way.draw, way.variable, way.ladder.levels, rng, count)
                mean = way.ladder.mean_at_least(hits, count)
                how = f"{count} {way.how}, {way.ladder.levels.size} levels, mean >= {mean:.3g}"
                return _counted(question, proven(mean), ERROR, how + note)
    return _unsampleable(question, f"{most} draws would not show it")


def _weighings(
    witness: Witness, rising: Rising, nodes: Nodes, name: str, draw: Draw, ratio: Ratio
) -> list[_Weighing]:
    """Return the ways to bound the mean of the rising function under P."""
    own = _Weighing(
        draw,
        ratio,
        ladder(ratios(nodes), nodes.log_p, rising.log_integrand, rising.least),
        ratios(nodes),
        nodes.log_p,
        "draws of one law, log p - log q by formula",
    )
    shifted = _importance(witness, rising, nodes, name, ratio)
    return [own] if shifted is None else [own, shifted]


@dataclass(frozen=True, eq=False)
class _Weighing:
    """Draws of a variable W whose mean, or that of a function of it, is to be bounded below."""

    draw: Draw
    variable: Ratio
    ladder: Ladder
    values: Array  # W by quadrature, and its law, to plan with
    log_masses: Array
    how: str

    def planned(self, count: int) -> float:
        """Return what so many draws may be expected to prove."""
        masses = np.exp(self.log_masses)
        rates = np.array([np.sum(masses[self.values > level]) for level in self.ladder.levels])
        return self.ladder.mean_at_least(unlucky(np.minimum(rates, 1.0), count), count)


def _importance(
    witness: Witness, rising: Rising, nodes: Nodes, name: str, ratio: Ratio
) -> _Weighing | None:
    """Return draws from a normal law around what the mean consists of, weighed by formula."""
    if nodes.x is None or witness.pair["kind"] not in ("mixtures", "process"):
        return None
    normals = normals_of(witness.pair, name)
    if normals is None:
        return None
    x, values = nodes.x, ratios(nodes)
    logs = np.where(values > rising.least, nodes.log_p + rising.log_integrand(values), -np.inf)
    if not np.isfinite(np.max(logs)):
        return None
    shares = np.exp(logs - logsumexp(logs))
    mean = float(shares @ x)
    spread = math.sqrt(float(shares @ (x - mean) ** 2))
    std = _WIDER * max(spread, 1e-3 * min(std for _, _, std in normals))
    proposal = [(1.0, mean, std)]

    def log_weight(state: Array) -> Array:
        at = ratio(state)
        factor = log_density(normals, state) - log_density(proposal, state)
        return np.where(at > rising.least, rising.log_integrand(at) + factor, -np.inf)

    log_masses = nodes.log_p - log_density(normals, x) + log_density(proposal, x)
    log_weights = log_weight(x)
    return _Weighing(
        lambda rng, count: np.asarray(mean + std * rng.standard_normal(count)),
        log_weight,
        ladder(log_weights, log_masses, lambda log: log),
        log_weights,
        log_masses,
        f"draws of N({mean:.4g}, {std:.3g}^2), weighed by formula",
    )


def _rounds(most: int) -> list[list[int]]:
    """How many draws are considered, few first; within a round counts of both laws come first."""
    rounds = [[200_000, 1_000_000], [4_000_000], [16_000_000], [_MOST_DRAWS]]
    capped = [[min(count, most) for count in counts] for counts in rounds]
    return [list(dict.fromkeys(counts)) for counts in capped]


def _hits(draw: Draw, ratio: Ratio, levels: Array, rng: np.random.Generator, count: int) -> Array:
    """Count how many draws have a ratio above each level."""
    hits = np.zeros(levels.size)
    done = 0
    while done < count:
        size = min(_CHUNK, count - done)
        places = np.searchsorted(levels, ratio(draw(rng, size)), side="left")
        below = np.bincount(places, minlength=levels.size + 1)
        hits += size - np.cumsum(below)[: levels.size]
        done += size
    return hits


def _signed(ratio: Ratio, swap: bool) -> Ratio:
    return (lambda value: -ratio(value)) if swap else ratio


def _table(nodes: Nodes) -> Ratio:
    """Return the ratio by quadrature as a fixed function of the state, exact at the walls."""
    assert nodes.x is not None
    x, values = nodes.x, ratios(nodes)
    inner_x, inner = x[1:-1], np.maximum(values[1:-1], -1e300)

    def ratio(state: Array) -> Array:
        found = np.interp(state, inner_x, inner)
        found = np.where(state <= x[0], values[0], found)
        return np.where(state >= x[-1], values[-1], found)

    return ratio


def _counted(question: Question, value: float, error: float, how: str) -> Way:
    outcome = Outcome.CONFIRMED if value > question.claimed else Outcome.NOT_CONFIRMED
    return Way(value, error, question.claimed, outcome, f"{how}, error {error:g}")


def _unsampleable(question: Question, why: str) -> Way:
    return Way(math.nan, math.nan, question.claimed, Outcome.NOT_SAMPLEABLE, why)
