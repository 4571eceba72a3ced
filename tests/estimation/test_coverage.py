"""All statements of an audit hold simultaneously at the stated confidence, and tell something.

Each check of an error allows the stated error and three standard errors. An estimator that errs
exactly at its stated rate fails one check with probability 0.6% at most (the binomial tail, skew
included), and one that errs at three times that rate passes the checks of all six laws with
probability below 0.1%. Seeds are fixed, so a pass stays a pass; and the certificates are
conservative (they err at .07 at most where .1 is allowed), so the real chance is far smaller. The
rates themselves are in results/calibration, from 10,000 audits a cell, with planted mistakes that
nothing was paid for: here a gross error is found at each change of the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from audit.curves import Order
from audit.estimation import (
    Audit,
    Certifying,
    FixedThresholds,
    PilotSplit,
    Rates,
    SimultaneousBand,
    audit_samples,
    split,
)

from .audited_laws import (
    COIN,
    GAUSSIAN,
    IDENTICAL,
    LAPLACE,
    PAIRS,
    KnownPair,
    allowed,
    wrong_anywhere,
)

CONFIDENCE = 0.9
ERROR = 1 - CONFIDENCE
Array = np.ndarray


@dataclass(frozen=True)
class Repeated:
    """An audit that is repeated on fresh samples."""

    thresholds: Any = None
    deltas: tuple[float, ...] = ()
    repeats: int = 40
    sizes: tuple[int, int] = (300, 200)
    confidence: float = CONFIDENCE
    favours: Order | None = None

    def audit(self, first: Array, second: Array, seed: int) -> Audit:
        names = "confidence", "deltas", "favours", "thresholds"
        asked = {name: getattr(self, name) for name in names}
        return audit_samples(first, second, seed=seed, **asked)

    def audits(self, pair: KnownPair, seed: int) -> Iterator[Audit]:
        """Yield the audits of fresh samples."""
        for number, stream in enumerate(np.random.SeedSequence(seed).spawn(self.repeats)):
            drawn = pair.draw(np.random.default_rng(stream), *self.sizes)
            yield self.audit(*drawn, number)

    def wrong(self, pair: KnownPair, seed: int) -> int:
        """Count the audits with any wrong statement."""
        return sum(wrong_anywhere(audit, pair) for audit in self.audits(pair, seed))

    def above(self, pair: KnownPair, seed: int) -> int:
        """Count the audits whose bound at the first delta is above the truth."""
        (delta, *_) = self.deltas
        truth = max(float(pair.epsilon(np.array([delta]), order)[0]) for order in Order)
        bounds = (audit.epsilon_lower(delta) for audit in self.audits(pair, seed))
        return sum(bound > truth + 1e-6 for bound in bounds)


AUDITS = {
    "ranks": Repeated(),
    "pilot": Repeated(PilotSplit(), deltas=(1e-2,)),
    "band": Repeated(SimultaneousBand()),
    "fixed": Repeated(FixedThresholds((0.0, 1.0))),
    "fixed, joint": Repeated(FixedThresholds((0.0, 1.0), rates=Rates.JOINT)),
}


@pytest.mark.parametrize(
    "pair",
    [pytest.param(p, marks=[] if p in (IDENTICAL, COIN) else pytest.mark.slow) for p in PAIRS],
    ids=lambda pair: pair.name,
)
@pytest.mark.parametrize("name", AUDITS)
def test_all_statements_hold_together(name: str, pair: KnownPair) -> None:
    repeated = AUDITS[name]
    assert repeated.wrong(pair, 11) <= allowed(ERROR, repeated.repeats)


def test_an_audit_of_less_confidence_is_found() -> None:
    planted = Repeated(confidence=0.5)
    assert planted.wrong(IDENTICAL, 11) > allowed(ERROR, planted.repeats)


@pytest.mark.parametrize(
    ("pair", "favours"),
    [  # the orders of each are alike
        (IDENTICAL, None),
        (IDENTICAL, Order.FORWARD),
        (COIN, Order.REVERSE),
        pytest.param(COIN, None, marks=pytest.mark.slow),
        pytest.param(LAPLACE, None, marks=pytest.mark.slow),
    ],
)
def test_the_level_of_few_scores(pair: KnownPair, favours: Order | None) -> None:
    repeated = Repeated(deltas=(0.0,), repeats=200, sizes=(100, 80), favours=favours)
    assert repeated.above(pair, 5) <= allowed(ERROR, repeated.repeats)


# A choice and a statement at which it has little to spare, and the rate of errors below which error
# would be wasted.
SHARP = {
    # Where the laws are alike each of the tests can err. The default errs at .066 (4000 seeds):
    # it shows less than .04 with probability below 1%.
    "default": (Repeated(deltas=(0.0,), repeats=500, sizes=(500, 500)), IDENTICAL, 0.04),
    # The coin has one event, and its named test, with a share of .171, bounds the true epsilon
    # with nothing to spare. It errs at .105 of .2 (1500 seeds), and shows less than .07 with
    # probability below 5%.
    "pilot": (Repeated(PilotSplit(), (1e-2,), 200, (2000, 2000), 0.8), COIN, 0.07),
}


@pytest.mark.parametrize("name", ["default", pytest.param("pilot", marks=pytest.mark.slow)])
def test_the_error_is_used_and_not_exceeded(name: str) -> None:
    repeated, pair, least = SHARP[name]
    repeats, error = repeated.repeats, 1 - repeated.confidence
    assert least * repeats <= repeated.above(pair, 3) <= allowed(error, repeats)


def test_a_reused_pilot_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: the scores that certify also choose."""

    def wrong() -> int:
        plan = PilotSplit(band_thresholds=2, band_share=0.01, lead_share=0.99)
        few = Repeated(plan, deltas=(0.0,), repeats=40, sizes=(60, 60), confidence=0.8)
        return few.above(IDENTICAL, 31)

    def reused(*samples: Array, **options: Any) -> tuple[Certifying, Certifying]:
        _, rest = split(*samples, **options)
        return rest, rest

    # Over 200 seeds the honest one errs at .01 and the other one at .58, where .2 is allowed: it is
    # missed with a probability of 1%.
    assert wrong() <= allowed(0.2, 40)
    monkeypatch.setattr("audit.estimation.pilot_split.split", reused)
    assert wrong() > allowed(0.2, 40)


# The thresholds leave room of about two standard errors of the median over fixed seeds.
@pytest.mark.parametrize(
    ("pair", "delta", "size", "repeats", "least"),
    [
        # truth 4.377; 3.44 over 100 seeds
        pytest.param(GAUSSIAN, 1e-5, 10**6, 5, 3.2, marks=pytest.mark.slow),
        # truth 2.318; 2.27 over 100 seeds
        pytest.param(GAUSSIAN, 1e-2, 10**6, 4, 2.25, marks=pytest.mark.slow),
        (LAPLACE, 1e-5, 10**5, 15, 0.96),  # truth 1; 0.98 over 200 seeds
        (GAUSSIAN, 1e-5, 400, 30, 1.30),  # 1.43 over 200 seeds; 1.05 by jax-privacy's Bonferroni
        (LAPLACE, 0.0, 400, 30, 0.70),  # .76; .65
        (COIN, 0.01, 400, 30, 0.79),  # .85; .84
    ],
)
def test_power(pair: KnownPair, delta: float, size: int, repeats: int, least: float) -> None:
    favours = Order.FORWARD if size < 1000 else None
    repeated = Repeated(deltas=(delta,), confidence=0.95, favours=favours)
    values = []
    for seed in range(repeats):
        drawn = pair.draw(np.random.default_rng([seed, size]), size)
        values.append(repeated.audit(*drawn, seed).epsilon_lower(delta))
    assert np.median(values) >= least


@pytest.mark.parametrize(
    ("choice", "epsilons", "mu", "renyi"),
    [
        (PilotSplit(), (2.85, 2.15), 0.98, 0.6),  # a named delta certifies 3.25 and 2.25
        # 3.1 to 3.2 over seeds; the truth of the divergence is 1, its best single event gives .65
        (SimultaneousBand(), (2.95, 2.18), 0.985, 0.92),
    ],
    ids=["pilot", "band"],
)
def test_power_of_a_million_scores_without_a_named_delta(
    choice: PilotSplit | SimultaneousBand, epsilons: tuple[float, float], mu: float, renyi: float
) -> None:
    drawn = GAUSSIAN.draw(np.random.default_rng(1), 10**6)
    found = Repeated(choice, confidence=0.95).audit(*drawn, 1)
    assert np.all(np.asarray(found.epsilon_lower([1e-5, 1e-2])) > epsilons)
    assert found.mu_lower() > mu
    assert found.renyi_lower(2.0) > renyi
