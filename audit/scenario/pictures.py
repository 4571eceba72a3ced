"""The numbers behind a report's figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from audit import bounds, exact
from audit.constructions import BiasedWalk, Construction
from audit.estimation import Audit
from audit.mechanism import Batching, Release
from audit.scenario.comparison import Claim, ExactCurve

Array = NDArray[np.float64]
Report = Callable[[int, int], None]

_SHOWN_MASS = 1e-7  # a law's picture leaves out tails lighter than this
_BINS = 80
# Paper 000: burn-in D n / (L eta) of Theorem 3.1, and 0.75 of it in the proof of Theorem 4.1.
_LOWER_BURN_IN = 0.75
_THEOREM_3_1 = "Altschuler and Talwar 2022, Theorem 3.1"
_THEOREM_4_1 = "Altschuler and Talwar 2022, Theorem 4.1"


def curves_against_steps(
    pair: Construction, steps: Sequence[int], threads: int, progress: Report
) -> list[ExactCurve]:
    """Exact curves of the pair's mechanism with each number of steps."""
    m = pair.mechanism
    if (
        m.batching in (Batching.CYCLIC, Batching.SHUFFLED)
        or isinstance(m.step_size, tuple)
        or m.release is not Release.LAST_ITERATE
    ):
        # the record's place, or the mixture over lengths, depends on how many steps there are
        curves = [exact.curve(with_steps(pair, t), threads=threads) for t in steps]
        progress(1, 1)
        return curves
    longest = with_steps(pair, steps[-1])
    return list(exact.curves(longest, steps, threads=threads, progress=progress))


def with_steps(pair: Construction, steps: int) -> Construction:
    """Return the same construction for the mechanism with another number of steps."""
    m = pair.mechanism
    if isinstance(m.step_size, tuple) and steps > m.steps:
        raise ValueError(
            f"steps_shown must be at most the {m.steps} steps of the schedule, got {steps}"
        )
    size = m.step_size[:steps] if isinstance(m.step_size, tuple) else m.step_size
    return dataclasses.replace(pair, mechanism=dataclasses.replace(m, steps=steps, step_size=size))


def epsilon_against_steps(
    pair: Construction,
    steps: Sequence[int],
    curves: Sequence[ExactCurve],
    delta: float,
    names: Sequence[str],
    progress: Report,
) -> dict[str, Any]:
    """Exact epsilon and the named bounds after each number of steps."""
    values: dict[str, list[float | None]] = {name: [] for name in names}
    for done, count in enumerate(steps):
        mechanism = with_steps(pair, count).mechanism
        for name, row in values.items():
            try:
                row.append(bounds.evaluate(name, mechanism).epsilon(delta))
            except bounds.NotApplicable:
                row.append(None)
        progress(done + 1, len(steps))
    burn_in, theorem = _burn_in(pair)
    shown = {name: row for name, row in values.items() if any(v is not None for v in row)}
    return {
        "delta": delta,
        "steps": list(steps),
        "exact": [curve.epsilon_bracket(delta) for curve in curves],
        "bounds": [{"id": name, "epsilon": row} for name, row in shown.items()],
        "burn_in": burn_in,
        "burn_in_of": theorem,
    }


def _burn_in(pair: Construction) -> tuple[float | None, str | None]:
    """Return paper 000's burn-in time and its theorem; None where no theorem has one.

    Theorem 4.1 is on the biased walk; Theorem 3.1 takes convex, smooth and Lipschitz losses.
    """
    m = pair.mechanism
    if m.diameter is None or isinstance(m.step_size, tuple):
        return None, None
    time = m.diameter * m.dataset_size / (m.steepest_gradient * m.constant_step_size)
    if isinstance(pair, BiasedWalk):
        return _LOWER_BURN_IN * time, _THEOREM_4_1
    meets = (
        m.convex
        and m.strong_convexity == 0
        and m.lipschitz is not None
        and m.smoothness is not None
        and m.constant_step_size <= 2 / m.smoothness
        and m.batching in (Batching.FULL, Batching.WITHOUT_REPLACEMENT)
        and m.release is Release.LAST_ITERATE
    )
    return (time, _THEOREM_3_1) if meets else (None, None)


def laws(curve: ExactCurve, x: Array, x_prime: Array) -> dict[str, Any]:
    """Densities on a grid and histograms, over the range where either law is."""
    low, high = _shown_range(curve)
    grid = _grid(curve, low, high)
    edges = np.linspace(low, high, _BINS + 1)
    ends = _ends(curve)
    result: dict[str, Any] = {"x": grid, "edges": edges, "ends": ends}
    for suffix, law, sample in (("", curve.first, x), ("_prime", curve.second, x_prime)):
        at_end = [np.mean(sample == end) if np.isfinite(end) else 0.0 for end in ends]
        inner = sample[(sample != ends[0]) & (sample != ends[1])]
        counts, _ = np.histogram(inner, bins=edges)
        result[f"density{suffix}"] = law.density(grid)
        result[f"atoms{suffix}"] = law.atoms
        result[f"histogram{suffix}"] = counts / (sample.size * np.diff(edges))
        result[f"atom_frequencies{suffix}"] = at_end
    return result


def score_histograms(x: Array, x_prime: Array) -> dict[str, Any]:
    """Histograms of two samples of scores, shares of each per bin, over the range of both."""
    low, high = float(min(x.min(), x_prime.min())), float(max(x.max(), x_prime.max()))
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    shares = [np.histogram(sample, bins=edges)[0] / sample.size for sample in (x, x_prime)]
    return {"edges": edges, "share": shares[0], "share_prime": shares[1]}


def _grid(curve: ExactCurve, low: float, high: float) -> Array:
    """Even points, and finer ones beside the walls, where a biased walk crowds."""
    even = np.linspace(low, high, 401)
    if isinstance(curve, exact.GaussianPairCurve):
        return even
    edges = curve.first.panels.edges
    left = np.linspace(edges[0], edges[min(8, len(edges) - 1)], 81)
    right = np.linspace(edges[max(-9, -len(edges))], edges[-1], 81)
    points = np.union1d(even, np.concatenate([left, right]))
    return points[(points >= low) & (points <= high)]


def _ends(curve: ExactCurve) -> tuple[float, float]:
    if isinstance(curve, exact.GaussianPairCurve):
        return -np.inf, np.inf
    edges = curve.first.panels.edges
    return float(edges[0]), float(edges[-1])


def _shown_range(curve: ExactCurve) -> tuple[float, float]:
    low, high = _ends(curve)
    if isinstance(curve, exact.GaussianPairCurve):
        means, std = (curve.first.mean, curve.second.mean), curve.first.std
        return min(means) - 5.5 * std, max(means) + 5.5 * std
    edges = curve.first.panels.edges
    left = np.minimum(curve.first.cdf(edges), curve.second.cdf(edges))
    inside = np.maximum(curve.first.cdf(edges), curve.second.cdf(edges)) > _SHOWN_MASS
    below = left < 1 - _SHOWN_MASS
    first, last = int(np.argmax(inside)), len(edges) - 1 - int(np.argmax(below[::-1]))
    return (
        low if first == 0 else float(edges[first - 1]),
        high if last >= len(edges) - 2 else float(edges[last + 1]),
    )


def tradeoff(curve: ExactCurve, audited: Audit, claims: tuple[Claim, ...]) -> dict[str, Any]:
    """Tradeoff functions on a grid that is even on the normal scale."""
    alpha = ndtr(np.linspace(-6.0, 3.5, 39))
    return {
        "alpha": alpha,
        "exact": curve.beta(alpha),
        "sampled_upper": audited.beta_upper(alpha),
        "bounds": [
            {"id": claim.entry.id, "beta": claim.curve.beta(alpha)}
            for claim in claims
            if claim.curve is not None
        ],
    }
