"""Errors of masses are counted: against 60 digits, with every term, and not without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from audit.curves import Order
from audit.dominating import closed_form, mixture, poisson, random_allocation
from audit.dominating.closed_form import SampledGaussian
from audit.dominating.poisson import Truncation, others_against
from audit.numerics import binomial, normal
from tests.dominating.random_brackets import RATES, one_step

mpf = mp.mpf
Masses = tuple[np.ndarray, np.ndarray, float]
Digits = Callable[[int], tuple[mpf, mpf]]


def phi(x: Any) -> mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def recorded(module: Any, make: Callable[[], object]) -> Masses:
    """Return the log masses that a file's pair is made of, and the error that it states."""
    found: list[Masses] = []
    original = module.dominated

    def dominated(log_p: np.ndarray, log_q: np.ndarray, width: float, *, rounding: float) -> Any:
        found.append((log_p, log_q, rounding))
        return original(log_p, log_q, width, rounding=rounding)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "dominated", dominated)
        make()
    return found[0]


def largest_sums() -> tuple[Masses, Digits]:
    """The largest of 50 sums, one of mean 2 or 1, between edges."""
    z, steps, of = 0.8, 50, 60
    masses = recorded(
        random_allocation, lambda: random_allocation.largest_sum(z, steps, of, (2.0, 1.0))
    )
    edges = np.linspace(-10 * z, 2 + 10 * z, random_allocation._MAX_SUM_CELLS[0])

    def digits(k: int) -> tuple[mpf, mpf]:
        def below(edge: float, mean: float) -> mpf:
            here, moved = phi(mpf(edge) / z), phi((mpf(edge) - mean) / z)
            return here ** (steps - 1) * ((1 - mpf(steps) / of) * here + mpf(steps) / of * moved)

        low, high = float(edges[k - 1]), float(edges[k])
        return tuple(below(high, mean) - below(low, mean) for mean in (2, 1))  # type: ignore[return-value]

    return masses, digits


def second_adversaries() -> tuple[Masses, Digits]:
    """Sums of other gradients of -1, of batches of at most 6 of 30."""
    z, n, rate, largest = 0.7, 30, 0.2, 6
    cut = Truncation.of(n, rate, largest)
    masses = recorded(poisson, lambda: others_against(z, n, largest, cut, 0.01))
    edges = np.linspace(-largest - 10 * z, 2 + 10 * z, poisson._CELLS_ON_THE_LINE)

    def digits(cell: int) -> tuple[mpf, mpf]:
        q = mpf(rate)
        chances = [mp.binomial(n - 1, j) * q**j * (1 - q) ** (n - 1 - j) for j in range(n)]
        low, high = (mpf(float(edges[j])) for j in (cell - 1, cell))

        def mass(mean: int) -> mpf:
            return phi((high - mean) / mpf(z)) - phi((low - mean) / mpf(z))

        with_record = without = mpf(0)
        for j, chance in enumerate(chances):
            mean = -min(j, largest)
            kept = q * (1 if j < largest else mpf(largest) / (j + 1))
            without += chance * mass(mean)
            with_record += chance * (
                (1 - kept) * mass(mean) + kept * mass(mean + (1 if j < largest else 2))
            )
        return with_record, without

    return masses, digits


def misses(case: Callable[[], tuple[Masses, Digits]], known: dict[int, tuple[mpf, mpf]]) -> int:
    (log_p, log_q, rounding), digits = case()
    count = 0
    with mp.workdps(60):
        for k in range(300, log_p.size - 300, 37):
            known[k] = known.get(k) or digits(k)
            for log, exact in zip((log_p[k], log_q[k]), known[k], strict=True):
                if exact > mpf(10) ** -280:
                    count += abs(mp.exp(mpf(float(log))) / exact - 1) > rounding
    return count


@pytest.mark.parametrize("case", [largest_sums, second_adversaries])
def test_masses_are_within_their_errors_which_are_needed(case, monkeypatch):
    """Some are not without the units of logarithms, differences and binomial probabilities."""
    known: dict[int, tuple[mpf, mpf]] = {}
    assert misses(case, known) == 0
    for module in (normal, binomial, mixture):
        monkeypatch.setattr(module, "_UNIT", 2.0**-80)
    for module in (random_allocation, poisson):
        monkeypatch.setattr(module, "UNIT_ROUNDOFF", 2.0**-80)
    monkeypatch.setattr(mixture, "panel_error", lambda *rule: 0.0)
    assert misses(case, known) > 0


def closed_forms() -> Iterator[tuple[SampledGaussian, arb, arb, float, Order]]:
    """Rates from 1e-12 to 1 - 1e-12, mu from 1e-3 to 20, in both orders."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        size, batch = RATES[rng.integers(len(RATES) - 1)]
        mu = float(10 ** rng.uniform(-3, 1.3))
        loss = -math.log((size - batch) / size) if 2 * batch > size else -math.log1p(-batch / size)
        order = Order.FORWARD if rng.random() < 0.5 else Order.REVERSE
        share = float(10 ** rng.uniform(-6, 0.7))
        epsilon = share * (mu * mu + mu) if order is Order.FORWARD else share / 5.1 * loss
        yield SampledGaussian(mu, loss), arb(mu), arb(batch) / size, epsilon, order


def missed_closed_forms() -> int:
    count = 0
    with ctx.workprec(270):
        for pair, mu, rate, epsilon, order in closed_forms():
            low, high = (pair.log_delta(epsilon, order, side) for side in (0, 1))
            exact = one_step(mu, rate, arb(epsilon), order)
            if not exact.is_zero():
                count += not low <= exact.log() <= high
    return count


def test_closed_forms_hold_and_their_roundings_are_needed(monkeypatch):
    assert missed_closed_forms() == 0
    monkeypatch.setattr(closed_form, "_UNIT", 2.0**-70)
    monkeypatch.setattr(normal, "_UNIT", 2.0**-70)
    monkeypatch.setattr(SampledGaussian.__init__, "__defaults__", (2.0**-67,))
    assert missed_closed_forms() > 10
