"""Measure the power of the numbers of trials that the planner proposes.

For each claim, `audit.estimation.plan` gives the number of trials that refutes it with probability
0.8. ``audit_samples`` then audits fresh samples of the mechanism at that number and at seven tenths
of it. ``python results/planner/make.py`` writes ``planner.md`` beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from audit import exact
from audit.constructions.explicit import Mixture, Mixtures
from audit.curves import GaussianCurve, LaplaceCurve, Order, PrivacyCurve, PureCurve
from audit.estimation import audit_samples, clopper_pearson, plan

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Array, Array]]

HERE = Path(__file__).parent
POWER = 0.8
FEWER = 0.7
_SCORES = 6_000_000  # in all, of a row: there are fewer audits where each takes many
_MAX_AUDITS = 400


@dataclass(frozen=True)
class Case:
    """A mechanism, a claim that is false of it, and the confidence of the audit."""

    name: str
    curve: PrivacyCurve
    draw: Draw
    epsilon: float
    delta: float
    confidence: float
    directed: bool = False


def gaussian(mu: float) -> tuple[str, PrivacyCurve, Draw]:
    """N(mu, 1) against N(0, 1)."""
    return (
        f"Gaussian, mu = {mu:g}",
        GaussianCurve(mu),
        lambda rng, n: (rng.normal(mu, 1.0, n), rng.normal(0.0, 1.0, n)),
    )


def laplace(bound: float) -> tuple[str, PrivacyCurve, Draw]:
    """Laplace noise of scale 1 on a number that changes by ``bound``."""
    return (
        f"Laplace, {bound:g}",
        LaplaceCurve(bound),
        lambda rng, n: (rng.laplace(bound, 1.0, n), rng.laplace(0.0, 1.0, n)),
    )


def response(bound: float) -> tuple[str, PrivacyCurve, Draw]:
    """Randomised response with this epsilon."""
    keep = 1 / (1 + math.exp(-bound))

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        return np.where(rng.random(n) < keep, 1.0, 0.0), np.where(rng.random(n) < keep, 0.0, 1.0)

    return f"randomised response, {bound:g}", PureCurve(bound), draw


def sampled_gaussian(rate: float, mu: float) -> tuple[str, PrivacyCurve, Draw]:
    """One step of the subsampled Gaussian mechanism."""
    moved = Mixture((1 - rate, rate), (0.0, mu), (1.0, 1.0))
    curve = exact.curve(Mixtures(moved, Mixture((1.0,), (0.0,), (1.0,))))

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        moves = np.where(rng.random(n) < rate, mu, 0.0)
        return np.asarray(rng.normal(0.0, 1.0, n) + moves), rng.normal(0.0, 1.0, n)

    return f"subsampled Gaussian, q = {rate:g}, mu = {mu:g}", curve, draw


def cases() -> list[Case]:
    """Return the rows of the table."""
    return [
        Case(*gaussian(1.0), 2.0, 1e-5, 0.95),
        Case(*gaussian(1.0), 2.0, 1e-5, 0.95, directed=True),
        Case(*gaussian(2.0), 3.0, 1e-2, 0.95),
        Case(*gaussian(1.0), 1.0, 0.0, 0.99),
        Case(*gaussian(0.5), 0.8, 1e-2, 0.95),
        Case(*laplace(1.0), 0.5, 0.0, 0.95),
        Case(*laplace(2.0), 1.0, 1e-3, 0.9),
        Case(*laplace(1.0), 0.9, 0.0, 0.95),
        Case(*response(1.0), 0.7, 0.0, 0.95),
        Case(*response(2.0), 1.5, 1e-5, 0.99),
        Case(*response(1.0), 0.95, 0.0, 0.95),
        Case(*sampled_gaussian(0.1, 2.0), 0.6, 1e-2, 0.95),
        Case(*sampled_gaussian(0.1, 2.0), 1.2, 1e-2, 0.99),
    ]


def refuted(case: Case, trials: int, audits: int, seed: int) -> int:
    """Count the audits that certify more than is claimed."""
    found = 0
    for number, stream in enumerate(np.random.SeedSequence(seed).spawn(audits)):
        x, x_prime = case.draw(np.random.default_rng(stream), trials)
        audit = audit_samples(
            x,
            x_prime,
            confidence=case.confidence,
            deltas=(case.delta,),
            seed=number,
            favours=Order.FORWARD if case.directed else None,
        )
        found += audit.epsilon_lower(case.delta) > case.epsilon
    return found


def row(case: Case, seed: int) -> str:
    """Plan, audit, and write a line of the table."""
    planned = plan(
        case.curve,
        epsilon=case.epsilon,
        delta=case.delta,
        confidence=case.confidence,
        power=POWER,
        directed=case.directed,
    )
    assert planned.trials is not None
    audits = max(50, min(_MAX_AUDITS, _SCORES // planned.trials))
    count = refuted(case, planned.trials, audits, seed)
    fewer = refuted(case, round(FEWER * planned.trials), audits, seed + 1)
    low, high = clopper_pearson(count, audits, confidence=0.95)
    name = f"{case.name}{', directed' if case.directed else ''}"
    return (
        f"| {name} | {case.epsilon:g} at {case.delta:g} | {case.confidence:g} "
        f"| {planned.true_epsilon:.4g} | {planned.trials:,} | {planned.strategy} "
        f"| {planned.reached:.3f} | {count / audits:.3f} ({float(low):.3f} to {float(high):.3f}) "
        f"| {fewer / audits:.3f} | {audits} |"
    )


def main() -> None:
    """Write the table."""
    lines = [
        "# Planned and measured power",
        "",
        "Made by `python results/planner/make.py`. Power planned for 0.8; measured with its 95 %",
        "interval of Clopper and Pearson, and at seven tenths of the trials.",
        "",
        "| mechanism | claim | confidence | true epsilon | trials a side | strategy | planned "
        "| measured | at 0.7 of the trials | audits |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, case in enumerate(cases()):
        lines.append(row(case, 100 * number))
        print(lines[-1], flush=True)
    (HERE / "planner.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
