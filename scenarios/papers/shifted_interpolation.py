"""The shifted interpolated process and Theorem 3.3 of Bok, Su and Altschuler 2024."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import bounds, exact, validate
from audit.constructions import checked_start
from audit.curves import GaussianCurve, PrivacyCurve
from audit.mechanism import NoisySGD
from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers.checks import SAME, computed, short
from papers.shifted_process import (
    Losses,
    LossPair,
    Plan,
    Simulated,
    cheapest,
    directly,
    distances,
    plan_from,
    rounding_of,
    simulate,
)

Array = NDArray[np.float64]

ENTRY = "bsa24.theorem_3_3"
CITATION = "Bok, Su and Altschuler 2024, Theorem 3.3"
WRONG_LAST = 0.9  # a slip that the check must catch: a last shift that does not close
_PATHS_OF_SLIPS = 1000
_ROWS = 8  # times that the table shows
_PLACES = 1999  # where distribution functions are compared


@study
@dataclass(frozen=True)
class ShiftedInterpolation:
    """Simulate X, X' and the process X~ between them, and check what Theorem 3.3 says of it.

    X~ starts at X' at the time tau, ends at X, and stays within z_k of X on every path; each step
    adds at most a_k to what X' does. In one dimension the laws at both ends are compared
    with computed ones, else with samples drawn directly. Planted errors must be found.

    Parameters
    ----------
    mechanism
        Full batches, convex smooth losses, one step size.
    losses, bend
        See `papers.shifted_process.LossPair`.
    delta
        Where the theorem's epsilon is compared with the computed one, in one dimension.
    paths
        How many are simulated.
    dimensions, start
        Of the space, and where on the first axis both processes start.
    tau
        When the interpolation begins; None for the time at which the bound is least.
    wrong_contraction
        The share of c with which z_k must be seen to be too small, another planted slip. Below
        0.9 where the pair does not come near its c.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    mechanism: NoisySGD
    losses: Losses
    delta: float
    paths: int
    dimensions: int = 1
    start: float = 0.0
    bend: float = 1.0
    tau: int | None = None
    wrong_contraction: float = 0.9

    def __post_init__(self) -> None:
        validate.open_unit(wrong_contraction=self.wrong_contraction)
        validate.open_unit(delta=self.delta)
        validate.integer(1000, paths=self.paths)
        validate.integer(1, dimensions=self.dimensions)
        checked_start(self.mechanism, self.start)
        if self.tau is not None:
            validate.integer(0, tau=self.tau)
            if self.tau >= self.mechanism.steps:
                raise validate.fail("tau", f"below steps = {self.mechanism.steps}", self.tau)
        LossPair(self.mechanism, self.losses, self.bend)  # refuses what it is not made for

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Simulate, and check; the same settings and seed give the same findings."""
        pair = LossPair(self.mechanism, self.losses, self.bend)
        plan = cheapest(pair) if self.tau is None else plan_from(pair, self.tau)
        start = np.zeros(self.dimensions)
        start[0] = self.start
        seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(4, np.uint32)]
        found = simulate(
            pair, plan, start, paths=self.paths, seed=seeds[0], threads=threads, progress=progress
        )
        statements = (
            *_on_every_path(pair, plan, found),
            *self._laws(pair, plan, found, start, seeds, 1 - confidence),
            *self._slips(pair, plan, found, start, seeds[3]),
            *self._accounting(pair, plan),
        )
        return _findings(pair, plan, found, statements, self.paths)

    def _laws(
        self,
        pair: LossPair,
        plan: Plan,
        found: Simulated,
        start: Array,
        seeds: list[int],
        error: float,
    ) -> tuple[Statement, ...]:
        steps = self.mechanism.steps
        level = error / (3 * (1 if self.dimensions == 1 else 4))
        truth = self._truth(pair, sorted({plan.tau, steps} - {0}), start, seeds[1:3])

        def compare(points: Array, time: int, *, first: bool) -> Compared:
            compared = [
                against_sample(one, other, level)
                if isinstance(other, np.ndarray)
                else against_law(one, other, level)
                for one, other in zip(projections(points), truth[time, first], strict=True)
            ]
            return max(compared, key=lambda one: one.distance / one.allowed)

        said = []
        if plan.tau:
            begun = compare(found.begun, plan.tau, first=False)
            said.append(_law("X~ at tau has the law of X' at tau", begun))
        ended = compare(found.ended, steps, first=True)
        said.append(_law("X~ at t has the law of X at t", ended))
        wrong = compare(found.prime, steps, first=True)
        said.append(
            Statement(
                claim="The same test tells X' at t from X at t",
                citation="this package, a check of the test",
                expected=f"above {wrong.allowed:.3g}",
                found=wrong.distance,
                verdict=Verdict.HOLDS if wrong.differs else Verdict.INCONCLUSIVE,
            )
        )
        return tuple(said)

    def _truth(
        self, pair: LossPair, times: list[int], start: Array, seeds: list[int]
    ) -> dict[tuple[int, bool], list[Array | Law]]:
        """Return, by time and process, computed laws or else projections of direct samples."""
        steps = self.mechanism.steps
        if self.dimensions == 1:
            curves = exact.curves(pair.in_one_dimension(self.start), times)
            return {
                (time, first): [curve.first if first else curve.second]
                for time, curve in zip(times, curves, strict=True)
                for first in (True, False)
            }
        wanted = [(steps, True)] + [(time, False) for time in times if time < steps]
        return {
            (time, first): list(
                projections(directly(pair, start, time, first=first, paths=self.paths, seed=seed))
            )
            for (time, first), seed in zip(wanted, seeds, strict=False)
        }

    def _slips(
        self, pair: LossPair, plan: Plan, found: Simulated, start: Array, seed: int
    ) -> tuple[Statement, ...]:
        """Return whether planted slips are caught by the checks that the process passed."""
        open_end = simulate(
            pair, plan.ended_at(WRONG_LAST), start, paths=_PATHS_OF_SLIPS, seed=seed, threads=1,
            progress=_nowhere,
        )  # fmt: skip
        slip = distances(plan.shifts, pair, self.wrong_contraction * pair.contraction, plan.tau)
        excess = float(np.max(found.largest - slip))
        checks = (
            (f"With a last shift of {WRONG_LAST:g} the process does not end at X",
             float(open_end.largest[-1])),
            (f"A z_k with {self.wrong_contraction:g} c in place of c is exceeded", excess),
        )  # fmt: skip
        allowed = rounding_of(self.mechanism.steps, found.size + float(plan.distances.max()))
        return tuple(
            Statement(
                claim=claim,
                citation="this package, a check of the check",
                expected="above rounding",
                found=value,
                error=allowed,
                verdict=Verdict.HOLDS if value > allowed else Verdict.INCONCLUSIVE,
            )
            for claim, value in checks
        )

    def _accounting(self, pair: LossPair, plan: Plan) -> tuple[Statement, ...]:
        m = self.mechanism
        mu = plan.total / m.step_std
        given = _mu(bounds.evaluate(ENTRY, m, tau=plan.tau, shifts=tuple(plan.shifts)))
        said = [_same("The costs a_k add up to the engine's mu for these shifts", given, mu)]
        if self.tau is None:
            best = _mu(bounds.evaluate(ENTRY, m))
            said.append(_same("Over all tau the least of them is the engine's best mu", best, mu))
        if self.dimensions == 1:
            curve = exact.curve(pair.in_one_dimension(self.start))
            low, _ = curve.epsilon_bracket(self.delta)
            claimed = GaussianCurve(mu).epsilon(self.delta)
            refuted = low > claimed * (1 + SAME)
            said.append(
                Statement(
                    claim=f"The pair's epsilon at δ = {short(self.delta)} is at most that of G(mu)",
                    citation=CITATION,
                    expected=claimed,
                    found=low,
                    error=claimed * SAME,
                    verdict=Verdict.unless(refuted),
                )
            )
        return tuple(said)


def _on_every_path(pair: LossPair, plan: Plan, found: Simulated) -> tuple[Statement, ...]:
    allowed = rounding_of(pair.mechanism.steps, found.size + float(plan.distances.max()))
    paths = f"{len(found.ended):,} paths"
    checks = (
        (f"X~ at t is X on every one of {paths}: the largest distance",
         float(np.linalg.norm(found.ended - found.target, axis=1).max())),
        (f"|X~ - X| <= z_k at every step of {paths}: the largest excess",
         float(np.max(found.largest - plan.distances))),
        ("lambda_k |phi(X) - phi'(X~)| <= a_k, which each step costs: the largest excess",
         float(np.max(found.pushes - plan.costs))),
    )  # fmt: skip
    return tuple(
        Statement(
            claim=claim,
            citation=CITATION,
            expected="at most 0",
            found=value,
            error=allowed,
            verdict=computed(value <= allowed),  # of these paths, each of which was checked
        )
        for claim, value in checks
    )


def _law(claim: str, compared: Compared) -> Statement:
    return Statement(
        claim=f"{claim}: distance of the distribution functions",
        citation=CITATION,
        expected=0.0,
        found=compared.distance,
        error=compared.allowed,
        verdict=Verdict.unless(compared.differs),
    )


def _mu(curve: PrivacyCurve) -> float:
    assert isinstance(curve, GaussianCurve)  # Theorem 3.3 is mu-GDP
    return curve.mu


def _same(claim: str, expected: float, found: float) -> Statement:
    error = SAME * expected
    return Statement(
        claim=claim,
        citation="this package, against Theorem 3.3",
        expected=expected,
        found=found,
        error=error,
        verdict=computed(abs(found - expected) <= error),
    )


def _nowhere(done: int, total: int) -> None:
    """Report no progress."""


def _findings(
    pair: LossPair,
    plan: Plan,
    found: Simulated,
    statements: tuple[Statement, ...],
    paths: int,
) -> Findings:
    """Return the statements with a table of distances and three charts."""
    steps = pair.mechanism.steps
    note = (
        f"X and X' share their noise up to tau = {plan.tau}; there X~ starts at X', and takes the "
        f"noise of X. The updates are c-Lipschitz with c = {pair.contraction:.6g} and s = "
        f"{pair.shift:.6g} apart; a step's noise has the deviation {pair.mechanism.step_std:.6g}. "
        "What holds on every path allows for rounding alone. Tests of laws share the error that "
        "the confidence leaves, each the same part of it, and compare distribution functions by "
        "the band of Dvoretzky, Kiefer and Wolfowitz."
    )
    return Findings(
        statements=statements,
        notes=(note,),
        tables=(_table(plan, found, steps),),
        charts=(_envelope(plan, found, steps, paths), _path(plan, found, steps)),
        numbers={
            "tau": plan.tau,
            "shifts": plan.shifts.tolist(),
            "distances": plan.distances.tolist(),
            "costs": plan.costs.tolist(),
            "largest": found.largest.tolist(),
            "largest_pushes": found.pushes.tolist(),
        },
    )


def _table(plan: Plan, found: Simulated, steps: int) -> FoundTable:
    times = np.unique(np.linspace(plan.tau + 1, steps, _ROWS).round().astype(int))
    rows = tuple(
        (
            int(k),
            float(plan.shifts[k - plan.tau - 1]),
            float(plan.distances[k - plan.tau]),
            float(found.largest[k - plan.tau]),
            float(plan.costs[k - plan.tau - 1]),
            float(found.pushes[k - plan.tau - 1]),
        )
        for k in times
    )
    return FoundTable(
        caption="What the theorem allows at a step, and the most that any path needed",
        columns=("k", "lambda_k", "z_k", "largest distance", "a_k", "largest push"),
        rows=rows,
    )


def _envelope(plan: Plan, found: Simulated, steps: int, paths: int) -> Chart:
    times = tuple(float(k) for k in range(plan.tau, steps + 1))
    inner = plan.distances > 0
    reached = np.max(found.largest[inner] / plan.distances[inner], initial=0.0)
    caption = (
        f"Distance of X~ from X over {paths:,} paths, from tau = {plan.tau} to t = {steps}. No "
        f"path leaves the band below z_k; the farthest one comes to {reached:.3f} of it, and all "
        "distances are 0 at the end."
        if np.all(found.largest <= plan.distances * (1 + 1e-9) + 1e-12)
        else f"Distance of X~ from X over {paths:,} paths. Some path leaves the band below z_k."
    )
    return Chart(
        name="distances",
        title="Distance of the shifted process from X",
        caption=caption,
        x_label="step k",
        y_label="|X~ - X|",
        series=(
            Series(name="up to z_k", x=times, y=(0.0,) * len(times),
                   top=tuple(plan.distances.tolist()), drawn=Drawn.BAND),
            Series(name="z_k", x=times, y=tuple(plan.distances.tolist())),
            Series(name="largest of all paths", x=times, y=tuple(found.largest.tolist()),
                   drawn=Drawn.POINTS),
            Series(name="mean", x=times, y=tuple(found.mean.tolist())),
        ),
    )  # fmt: skip


def _path(plan: Plan, found: Simulated, steps: int) -> Chart:
    all_times = tuple(float(k) for k in range(steps + 1))
    first, prime, between = found.path
    return Chart(
        name="path",
        title="One path of the three processes",
        caption=(
            f"The first simulated path, along the first axis. X~ leaves X' at k = {plan.tau} and "
            f"meets X at k = {steps}."
        ),
        x_label="step k",
        y_label="first coordinate",
        series=(
            Series(name="X", x=all_times, y=tuple(first.tolist())),
            Series(name="X'", x=all_times, y=tuple(prime.tolist())),
            Series(name="X~", x=all_times[plan.tau :], y=tuple(between.tolist())),
        ),
    )


class Law(Protocol):
    """A law with a distribution function."""

    def cdf(self, x: ArrayLike) -> Array:
        """Probability of being at most ``x``, any shape."""
        ...


@dataclass(frozen=True)
class Compared:
    """The largest distance found, and the one that is allowed for."""

    distance: float
    allowed: float

    @property
    def differs(self) -> bool:
        """Whether the laws differ, but for the test's level."""
        return self.distance > self.allowed


def band(samples: int, level: float) -> float:
    """Return sqrt(ln(2/level)/(2 samples))."""
    return math.sqrt(math.log(2 / level) / (2 * samples))


def against_law(sample: Array, law: Law, level: float) -> Compared:
    """Compare a sample, shape (size,), with a law; errs with probability ``level`` at most."""
    places = _places(sample)
    found = np.abs(_shares(sample, places) - np.asarray(law.cdf(places)))
    return Compared(float(found.max()), band(sample.size, level))


def against_sample(sample: Array, other: Array, level: float) -> Compared:
    """Compare two independent samples; errs with probability ``level`` at most."""
    places = np.concatenate([_places(sample), _places(other)])
    found = np.abs(_shares(sample, places) - _shares(other, places))
    allowed = band(sample.size, level / 2) + band(other.size, level / 2)
    return Compared(float(found.max()), allowed)


def projections(points: Array) -> Array:
    """Return four numbers of each point: two coordinates, the diagonal and the norm; (4, points).

    In one dimension the point itself alone, shape (1, points).
    """
    dimensions = points.shape[1]
    if dimensions == 1:
        return points.T
    diagonal = points.sum(axis=1) / math.sqrt(dimensions)
    return np.stack([points[:, 0], points[:, 1], diagonal, np.linalg.norm(points, axis=1)])


def _places(sample: Array) -> Array:
    return np.unique(np.quantile(sample, np.linspace(0.0, 1.0, _PLACES)))


def _shares(sample: Array, places: Array) -> Array:
    return np.searchsorted(np.sort(sample), places, side="right") / sample.size
