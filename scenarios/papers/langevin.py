"""Langevin Monte Carlo on quadratics, at any step size and in its limits.

The statements are those of Bok, Su and Altschuler 2024, section 5.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from audit import bounds, exact, validate
from audit.constructions import QuadraticPair
from audit.curves import GaussianCurve, PrivacyCurve
from audit.mechanism import NoisySGD, Release
from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers.checks import SAME, computed, short, shown

PAPER = "Bok, Su and Altschuler 2024"
_STATIONARY = 40.0  # times 1/(eta m) steps: c^t is below 1e-17
_THREE_DECIMALS = 5e-4


def langevin(steps: int, step_size: float, strong_convexity: float, lipschitz: float) -> NoisySGD:
    """Return Langevin Monte Carlo as Noisy-SGD with one record: sigma = sqrt(2/eta).

    ``lipschitz`` is the Lipschitz constant of F - F'.
    """
    return NoisySGD(
        steps=steps,
        dataset_size=1,
        batch_size=1,
        step_size=step_size,
        noise_std=math.sqrt(2 / step_size),
        gradient_sensitivity=lipschitz,
        smoothness=strong_convexity,
        strong_convexity=strong_convexity,
    )


@study
@dataclass(frozen=True)
class LangevinOnQuadratics:
    """Compare Proposition 5.1 and Corollary 5.2 with F = m x^2/2, F' = m (x - L/m)^2/2.

    The iterates are Gaussian at every time, so everything is a closed form; the laws are those of
    `audit.exact`. Proposition 5.1 is reached as time goes on, and Corollary 5.2 exactly, in both
    of its statements.

    Parameters
    ----------
    strong_convexity, lipschitz
        m, and L, the Lipschitz constant of F - F'.
    step_sizes
        eta, each at most 1/m, largest first.
    times
        Values of eta t at which iterates are compared, rising; multiples of every step size.
    delta
        Where epsilons are compared.
    renyi_order
        Where Theorem VII.1 of Boninsegna 2023 is compared.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    strong_convexity: float
    lipschitz: float
    step_sizes: tuple[float, ...]
    times: tuple[float, ...]
    delta: float
    renyi_order: float

    def __post_init__(self) -> None:
        validate.positive(strong_convexity=self.strong_convexity, lipschitz=self.lipschitz)
        validate.open_unit(delta=self.delta)
        validate.above_one(renyi_order=self.renyi_order)
        for name in ("step_sizes", "times"):
            values = getattr(self, name)
            if not values:
                raise validate.fail(name, "one or more numbers", values)
            validate.positive(**{f"{name}[{i}]": v for i, v in enumerate(values)})
        if max(self.step_sizes) > 1 / self.strong_convexity:
            raise validate.fail(
                "step_sizes", f"at most 1/m = {1 / self.strong_convexity:g}", self.step_sizes
            )
        if list(self.times) != sorted(set(self.times)) or min(self.times) < max(self.step_sizes):
            raise validate.fail("times", "rising, from the largest step size on", self.times)
        for eta in self.step_sizes:
            for time in self.times:
                if not math.isclose(time / eta, round(time / eta), rel_tol=1e-9):
                    wanted = f"multiples of every step size, also of {eta:g}"
                    raise validate.fail("times", wanted, time)

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Compute; nothing is drawn at random."""
        rows = [
            self._row(eta, self._steps(eta, time), time)
            for eta in self.step_sizes
            for time in self.times
        ]
        last = [self._row(eta, self._steps(eta), math.inf) for eta in self.step_sizes]
        return Findings(
            statements=(
                *self._on_iterates(rows),
                *self._on_stationary_laws(last),
                self._on_the_mechanism(),
                self._on_renyi(rows),
            ),
            tables=(_table(rows, last),),
            charts=(self._over_time(rows), self._over_step_sizes(rows, last)),
            notes=(
                "The exact laws are normal; every ratio below is one of closed forms. A time is "
                "eta times the number of steps, so that chains of different step sizes are at one "
                "place of the diffusion that they follow.",
            ),
        )

    def _steps(self, eta: float, time: float | None = None) -> int:
        return round((_STATIONARY / self.strong_convexity if time is None else time) / eta)

    def _row(self, eta: float, steps: int, time: float) -> dict[str, float]:
        m = langevin(steps, eta, self.strong_convexity, self.lipschitz)
        curve = exact.curve(QuadraticPair(m, curvature=self.strong_convexity))
        claim = bounds.evaluate("bsa24.proposition_5_1", m)
        survey = bounds.evaluate("survey.theorem_vii_1", m)
        return {
            "eta": eta,
            "time": time,
            "steps": steps,
            "mu": _mu(curve),
            "mu_claimed": _mu(claim),
            "epsilon": curve.epsilon(self.delta),
            "claimed": claim.epsilon(self.delta),
            "renyi": curve.renyi(self.renyi_order),
            "renyi_claimed": survey.renyi(self.renyi_order),
        }

    def _on_iterates(self, rows: list[dict[str, float]]) -> tuple[Statement, ...]:
        largest = max(row["epsilon"] / row["claimed"] for row in rows)
        longest = [row for row in rows if row["time"] == self.times[-1]]
        ratio = max(row["claimed"] / row["epsilon"] for row in longest)
        missing = max(abs(row["mu"] - self._mu_of(row)) / row["mu"] for row in rows)
        return (
            Statement(
                claim="Iterates at any time: exact over claimed epsilon, the largest, at most 1",
                citation=f"{PAPER}, Proposition 5.1",
                expected="at most 1",
                found=largest,
                error=SAME,
                verdict=Verdict.unless(largest > 1 + SAME),
            ),
            Statement(
                claim=(
                    "The bound is reached as t grows: claimed over exact epsilon at time "
                    f"{self.times[-1]:g}, the largest"
                ),
                citation=f"{PAPER}, Proposition 5.1 and Remark 5.3",
                expected=1.0,
                found=ratio,
                error=_THREE_DECIMALS,
                verdict=shown(abs(ratio - 1) <= _THREE_DECIMALS),
            ),
            Statement(
                claim="mu at any time is the limit times sqrt((1 - c^t)/(1 + c^t)): distance",
                citation="this package, from the recursion of mean and variance",
                expected=0.0,
                found=missing,
                error=SAME,
                verdict=computed(missing <= SAME),
            ),
        )

    def _mu_of(self, row: dict[str, float]) -> float:
        """Means L/m (1 - c^t), variances 2 eta (1 - c^(2t))/(1 - c^2)."""
        pull = row["eta"] * self.strong_convexity
        left = (1 - pull) ** row["steps"]
        limit = math.sqrt((2 - pull) / 2) * self.lipschitz / math.sqrt(self.strong_convexity)
        return limit * math.sqrt((1 - left) / (1 + left))

    def _on_stationary_laws(self, last: list[dict[str, float]]) -> tuple[Statement, ...]:
        distance = max(abs(row["mu_claimed"] / row["mu"] - 1) for row in last)
        return (
            Statement(
                claim="Stationary laws of quadratics reach the bound: largest |claimed/exact - 1|",
                citation=f"{PAPER}, Corollary 5.2, first statement",
                expected=0.0,
                found=distance,
                error=SAME,
                verdict=computed(distance <= SAME),
            ),
        )

    def _on_the_mechanism(self) -> Statement:
        """N(0, 1/m) against N(L/m, 1/m), by quadrature of their densities."""
        m = langevin(1, self.step_sizes[-1], self.strong_convexity, self.lipschitz)
        limit = replace(m, release=Release.EXPONENTIAL_MECHANISM)
        claim = bounds.evaluate("bsa24.corollary_5_2", limit)
        epsilon = claim.epsilon(self.delta)
        std = 1 / math.sqrt(self.strong_convexity)
        far = self.lipschitz / self.strong_convexity
        # the likelihood ratio reaches e^epsilon where L x = m (L/m)^2/2 - epsilon
        edge = far / 2 - epsilon / self.lipschitz
        found, error = quad(
            lambda x: norm.pdf(x, 0, std) - math.exp(epsilon) * norm.pdf(x, far, std),
            edge - 40 * std, edge, epsabs=0, epsrel=1e-11, limit=400,
            points=[edge - k * std for k in (1, 2, 4, 8)],
        )  # fmt: skip
        allowed = error + SAME * self.delta
        return Statement(
            claim="The exponential mechanism of quadratics reaches the bound: delta at its epsilon",
            citation=f"{PAPER}, Corollary 5.2, second statement",
            expected=self.delta,
            found=found,
            error=allowed,
            verdict=computed(abs(found - self.delta) <= allowed),
        )

    def _on_renyi(self, rows: list[dict[str, float]]) -> Statement:
        ratio = min(row["renyi_claimed"] / row["renyi"] for row in rows)
        return Statement(
            claim=(
                f"Renyi divergence of order {self.renyi_order:g}: claimed over exact, the least, "
                "at least 1"
            ),
            citation="Boninsegna, Theorem VII.1",
            expected="at least 1",
            found=ratio,
            error=SAME,
            verdict=Verdict.unless(ratio < 1 - SAME),
        )

    def _over_time(self, rows: list[dict[str, float]]) -> Chart:
        series = []
        for eta in dict.fromkeys((self.step_sizes[0], self.step_sizes[-1])):
            own = [row for row in rows if row["eta"] == eta]
            series += [
                Series(
                    name=f"exact, eta = {eta:g}",
                    x=self.times,
                    y=tuple(row["epsilon"] for row in own),
                ),
                Series(
                    name=f"claimed, eta = {eta:g}",
                    x=self.times,
                    y=tuple(row["claimed"] for row in own),
                ),
            ]
        least = _least(rows, self.times[-1])
        reached = (
            "climbs to it, so that nothing smaller holds for all times: at time "
            f"{self.times[-1]:g} it is at least {least:.6f} of it"
            if abs(1 / least - 1) <= _THREE_DECIMALS
            else f"climbs towards it, to {least:.6f} of it at time {self.times[-1]:g}"
        )
        return Chart(
            name="time",
            title="Epsilon of Langevin Monte Carlo against time",
            caption=(
                "Proposition 5.1 does not depend on time; the exact epsilon of quadratics "
                f"{reached}."
            ),
            x_label="time eta t",
            y_label=f"epsilon at δ = {short(self.delta)}",
            series=tuple(series),
            x_logarithmic=True,
        )

    def _over_step_sizes(self, rows: list[dict[str, float]], last: list[dict[str, float]]) -> Chart:
        series = [
            Series(
                name=f"claimed/exact at time {time:g}",
                x=self.step_sizes,
                y=tuple(r["claimed"] / r["epsilon"] for r in rows if r["time"] == time),
            )
            for time in self.times[1:4]
        ]
        series.append(
            Series(
                name="claimed/exact, stationary",
                x=self.step_sizes,
                y=tuple(row["claimed"] / row["epsilon"] for row in last),
                drawn=Drawn.POINTS,
            )
        )
        return Chart(
            name="step-sizes",
            title="Tightness of Proposition 5.1 as eta goes to 0",
            caption=(
                "Claimed over exact epsilon falls to 1 as the time grows, and has a limit at each "
                "time as eta goes to 0. For stationary laws it is at most "
                f"{max(row['claimed'] / row['epsilon'] for row in last):.3f} at every step size."
            ),
            x_label="step size eta",
            y_label="claimed / exact",
            series=tuple(series),
            x_logarithmic=True,
        )


def _mu(curve: PrivacyCurve) -> float:
    assert isinstance(curve, GaussianCurve)  # quadratics, and bounds by mu-GDP
    return curve.mu


def _least(rows: list[dict[str, float]], time: float) -> float:
    return min(row["epsilon"] / row["claimed"] for row in rows if row["time"] == time)


def _table(rows: list[dict[str, float]], last: list[dict[str, float]]) -> FoundTable:
    times = np.unique([row["time"] for row in rows])
    kept = [row for row in rows if row["time"] in (times[0], times[-1])]
    return FoundTable(
        caption="Exact and claimed epsilon; the ratio falls to 1 as time goes on",
        columns=("eta", "time", "steps", "exact epsilon", "claimed epsilon", "claimed/exact"),
        rows=tuple(
            (
                row["eta"],
                "stationary" if math.isinf(row["time"]) else row["time"],
                row["steps"],
                row["epsilon"],
                row["claimed"],
                row["claimed"] / row["epsilon"],
            )
            for row in sorted([*kept, *last], key=lambda row: (-row["eta"], row["time"]))
        ),
    )
