"""Draws from the laws of a witness, with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.claims.recompute.plainlaws import (
    Normals,
    log_density,
    moved,
    normals_of,
    steps_of,
)

Array = NDArray[np.float64]
Plain = Mapping[str, Any]
Draw = Callable[[np.random.Generator, int], Array]
Ratio = Callable[[Array], Array]


def drawing(pair: Plain, name: str, *, follow: bool = True) -> Draw:
    """Return what draws ``count`` independent values of a law.

    A chain is followed step by step, unless ``follow`` is False and its law is a mixture of normals
    in closed form. Of a finite law the value is the log-likelihood ratio of the draws.
    """
    kind = pair["kind"]
    if kind == "finite":
        return _finite_drawing(pair, name)
    if kind == "densities":
        slope = float(pair["slope"]) * (1 if name == "first" else -1)
        low, width = float(pair["low"]), float(pair["high"]) - float(pair["low"])

        def exponential(rng: np.random.Generator, count: int) -> Array:
            u = rng.random(count)
            return np.asarray(low + np.log1p(u * np.expm1(slope * width)) / slope)

        return exponential
    if kind == "mixtures" or not follow:
        normals = normals_of(pair, name)
        assert normals is not None
        return _normal_drawing(normals)
    law = pair[name]
    return lambda rng, count: _chain(law, rng, count)


def closed_ratio(pair: Plain) -> Ratio | None:
    """Return log first - log second as a formula of the value, or None where there is none."""
    kind = pair["kind"]
    if kind == "finite":
        return lambda value: value
    if kind == "densities":
        return lambda value: 2 * float(pair["slope"]) * value
    first, second = normals_of(pair, "first"), normals_of(pair, "second")
    if first is None or second is None:
        return None
    return lambda value: log_density(first, value) - log_density(second, value)


def _normal_drawing(normals: Normals) -> Draw:
    weights = np.array([weight for weight, _, _ in normals])
    means = np.array([mean for _, mean, _ in normals])
    stds = np.array([std for _, _, std in normals])

    def draw(rng: np.random.Generator, count: int) -> Array:
        if weights.size == 1:
            return np.asarray(means[0] + stds[0] * rng.standard_normal(count))
        which = rng.choice(weights.size, size=count, p=weights / weights.sum())
        return np.asarray(means[which] + stds[which] * rng.standard_normal(count))

    return draw


def _finite_drawing(pair: Plain, name: str) -> Draw:
    first, second = np.array(pair["first"], dtype=float), np.array(pair["second"], dtype=float)
    with np.errstate(divide="ignore"):
        gains = np.log(first) - np.log(second)
    own = first if name == "first" else second
    possible = own > 0

    def draw(rng: np.random.Generator, count: int) -> Array:
        counts = rng.multinomial(int(pair["times"]), own / own.sum(), size=count)
        gained = np.where(counts[:, possible] > 0, counts[:, possible] * gains[possible], 0.0)
        return np.asarray(gained.sum(axis=1))

    return draw


def _chain(law: Plain, rng: np.random.Generator, count: int) -> Array:
    lower = -np.inf if law["lower"] is None else law["lower"]
    upper = np.inf if law["upper"] is None else law["upper"]
    odds = np.array([path["probability"] for path in law["paths"]], dtype=float)
    parts = []
    for path, size in zip(law["paths"], rng.multinomial(count, odds / odds.sum()), strict=True):
        x = np.full(size, float(law["start"]))
        for step in steps_of(path):
            y = _mapped(step, rng, x) + step["noise_std"] * rng.standard_normal(size)
            y = np.clip(y, lower, upper)
            if law["lower_wall"] == "absorb":
                y = np.where(x <= lower, x, y)
            if law["upper_wall"] == "absorb":
                y = np.where(x >= upper, x, y)
            x = y
        parts.append(x)
    return np.concatenate(parts)


def _mapped(step: Plain, rng: np.random.Generator, x: Array) -> Array:
    maps = step["maps"]
    if len(maps) == 1:
        return moved(maps[0], x)
    below = np.cumsum([phi["weight"] for phi in maps])
    which = np.searchsorted(below / below[-1], rng.random(x.size), side="right")
    y = np.empty_like(x)
    for k, phi in enumerate(maps):
        here = which == k
        y[here] = moved(phi, x[here])
    return y
