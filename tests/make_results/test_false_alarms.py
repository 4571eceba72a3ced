"""A small version of `results.claims.false_alarms`, and a planted mistake that it must see."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from audit import estimation
from audit.claims import judge
from audit.curves import Order
from audit.curves.quantities import EpsilonAtDelta
from audit.results import Verdict
from results.claims import false_alarms
from results.claims.false_alarms import ERROR, Outcome, run, runs, true_claims, write

RUNS = 5  # with the planted mistake


def test_the_claims_are_true_and_tight():
    for claim in true_claims():
        judged = judge.judge(claim)
        assert judged.verdict is Verdict.CONSISTENT
        assert judged.tightness <= 1.0101


def test_true_claims_are_not_refuted():
    """Each run errs with probability 0.1 at most: 3 of 6 with probability below 0.02."""
    found = [outcome for kind in false_alarms.TRIALS for outcome in runs(kind, 3, 1)]
    assert all(one.verdicts == 4 for one in found)
    assert sum(bool(one.refuted) for one in found) < 3


class Judged(list):
    """Bounds without the audit behind them."""

    audit = None


def careless(samples, numbers, **options):
    """The largest ratio of observed rates over all thresholds: chosen and certified by one draw."""
    x, x_prime = samples
    found = []
    for number in numbers:
        at_delta = isinstance(number.quantity, EpsilonAtDelta)
        delta, best = number.quantity.at if at_delta else 0.5, 0.0
        for first, second in ((x, x_prime), (-x, -x_prime), (x_prime, x), (-x_prime, -x)):
            thresholds = np.unique(first)
            rates = 1 - np.searchsorted(np.sort(first), thresholds) / x.size
            others = 1 - np.searchsorted(np.sort(second), thresholds) / x.size
            inside = (rates > delta) & (others > 0)
            ratios = np.log((rates[inside] - delta) / others[inside])
            best = max(best, float(np.max(ratios, initial=0.0)))
        found.append(SimpleNamespace(certified=best, order=Order.FORWARD, reason=""))
    return Judged(found)


def test_a_planted_mistake_is_seen(monkeypatch):
    monkeypatch.setattr(estimation, "judge_scores", careless)
    alarms = sum("epsilon" in run("order statistics", seed).refuted for seed in range(RUNS))
    assert alarms > 3 * ERROR * RUNS


def test_tables_are_written(tmp_path):
    outcomes = [
        *(Outcome("pilot split", seed, ("mu",) if seed < 2 else (), 4) for seed in range(100)),
        *(Outcome("order statistics", seed, (), 4) for seed in range(100)),
    ]
    write(outcomes, tmp_path)
    table = (tmp_path / "false_alarms.md").read_text(encoding="utf-8")
    assert "| pilot split | 100 | 2 | 0.02000 |" in table
    assert "| order statistics | 100 | 0 | 0.00000 |" in table
    assert f"{false_alarms.ERROR:g}" in table
    counts = (tmp_path / "false_alarms.csv").read_text(encoding="utf-8").splitlines()
    assert "pilot split,100,mu,2" in counts
