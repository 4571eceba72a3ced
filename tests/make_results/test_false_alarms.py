"""A small version of `results.claims.false_alarms`, and a planted mistake that it must see."""

from __future__ import annotations

import numpy as np

from audit.claims import evidence, judge
from audit.curves import Order
from audit.results import Verdict
from audit.simulation import final_iterates
from results.claims import false_alarms
from results.claims.false_alarms import ERROR, Outcome, run, runs, true_claims, write

RUNS = 30


def test_the_claims_are_true_and_tight():
    for claim in true_claims():
        judged = judge.judge(claim)
        assert judged.verdict is Verdict.CONSISTENT
        assert judged.tightness <= 1.0101


def test_true_claims_are_not_refuted():
    """Each run errs with probability 0.1 at most: 12 of 60 with probability below 0.02."""
    found = [outcome for kind in ("intervals", "sequential") for outcome in runs(kind, RUNS, 1)]
    assert all(one.verdicts == (4 if one.kind == "intervals" else 1) for one in found)
    assert sum(bool(one.refuted) for one in found) < 12


def careless(pair, numbers, *, trials, error, seed):
    """The largest ratio of observed rates over all thresholds: chosen and certified by one draw."""
    x, x_prime = final_iterates(pair, trials=trials, seed=seed)
    found = []
    for number in numbers:
        delta, best = number.quantity.delta, 0.0
        for first, second in ((x, x_prime), (-x, -x_prime), (x_prime, x), (-x_prime, -x)):
            thresholds = np.unique(first)
            rates = 1 - np.searchsorted(np.sort(first), thresholds) / trials
            others = 1 - np.searchsorted(np.sort(second), thresholds) / trials
            inside = (rates > delta) & (others > 0)
            ratios = np.log((rates[inside] - delta) / others[inside])
            best = max(best, float(np.max(ratios, initial=0.0)))
        found.append((best, Order.FORWARD))
    return found


def test_a_planted_mistake_is_seen(monkeypatch):
    monkeypatch.setattr(evidence, "sampled_bounds", careless)
    alarms = sum(bool(run("sequential", seed).refuted) for seed in range(RUNS))
    assert alarms > 3 * ERROR * RUNS


def test_tables_are_written(tmp_path):
    outcomes = [
        *(Outcome("intervals", seed, ("mu",) if seed < 2 else (), 4) for seed in range(100)),
        *(Outcome("sequential", seed, (), 1) for seed in range(100)),
    ]
    write(outcomes, tmp_path)
    table = (tmp_path / "false_alarms.md").read_text(encoding="utf-8")
    assert "| intervals | 100 | 2 | 0.02000 |" in table
    assert "| sequential | 100 | 0 | 0.00000 |" in table
    assert f"{false_alarms.ERROR:g}" in table
    counts = (tmp_path / "false_alarms.csv").read_text(encoding="utf-8").splitlines()
    assert "intervals,100,mu,2" in counts
