"""Gradients of all records are as far apart, and as long, as a mechanism allows."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from audit import Relation
from audit.constructions import PiecewiseLinear, kinds
from audit.constructions.base import PositionedPair
from tests.bounds.grid import any_mechanism, random_mechanism


def excess(pair):
    """The largest gradient, or distance of two, in multiples of what the mechanism allows.

    Gradients are read off the updates of batches, on a grid; far out where there are no walls. They
    include the regulariser, unless batches have a random size.
    """
    m, bound, found = pair.mechanism, pair.mechanism.gradient_bound or np.inf, []
    x = np.linspace(-1, 1, 201) * (1e4 if m.diameter is None else m.diameter / 2)
    for one, other in zip(*(process.batches for process in pair.processes()), strict=True):
        cycle = [update for count, update in one.others for _ in range(count)]
        own, scale = cycle[one.position], one.step_size / m.batch_size
        if one.empty is None:
            rest = x + (1 - 1 / m.batch_size) * (own(x) - x)
            others = [(x - update(x)) / one.step_size for update in cycle]
        else:
            rest = one.empty(x)
            others = [(rest - own(x)) / scale]
        records = [(rest - b.record(x)) / scale for b in (one, other) if b.record is not None]
        every = np.array(records + others * (m.dataset_size > 1)) + getattr(pair, "cancelled", 0.0)
        compared = every if m.gradient_sensitivity is not None else every[: len(records)]
        found.append(np.ptp(compared, axis=0).max() / m.sensitivity)
        if m.strong_convexity == 0 or m.clip_norm is not None or m.batching.has_random_size:
            found.append(np.abs(every).max() / bound)
        elif m.relation is Relation.ZERO_OUT:  # what is left of the record is the regulariser
            found.append(np.abs(every - every[1]).max() / bound)
        else:  # some regulariser is close enough to all
            found.append(np.ptp(every, axis=0).max() / (2 * bound))
    return max(found)


def changed(pair, random):
    """The pair with some of its numbers and gradients changed; itself if that is refused."""
    changes = {}
    for name in (f.name for f in fields(pair)[1:] if random.random() < 0.4):
        value, factor = getattr(pair, name), float(random.choice([-1, 0.5, 2, random.normal()]))
        if isinstance(value, float):
            changes[name] = factor * (value or 1.0)
        elif isinstance(value, PiecewiseLinear):
            changes[name] = PiecewiseLinear.total([(factor, value)])
    try:
        found = replace(pair, **changes)
        found.processes()
    except ValueError:
        return pair
    return found


def most(assumption):
    """The largest excess of members of each kind, for mechanisms with a given assumption."""
    random, found = np.random.default_rng(20240607), {}
    for number in range(120):
        m = any_mechanism(random, number // 2) if number % 2 else random_mechanism(random)
        for name, kind in kinds().items() if getattr(m, assumption) is not None else ():
            for pair in itertools.islice(kind.random(m, random), 1):
                tried = [excess(pair), *(excess(changed(pair, random)) for _ in range(4))]
                found[name] = max(found.get(name, 0.0), *tried)
    return found


@pytest.mark.parametrize(
    ("assumption", "check"),
    [("gradient_sensitivity", "_check_sensitivity"), ("lipschitz", "_check_others")],
)
def test_gradients_are_within_what_is_assumed(assumption, check, monkeypatch):
    found = most(assumption)
    assert max(found.values()) <= 1 + 1e-8
    assert set(kinds()) - set(found) <= {"LatticeWalk", "HolderPair"}  # of few mechanisms
    monkeypatch.setattr(PositionedPair, check, lambda *_: None)
    assert max(most(assumption).values()) > 1.5
