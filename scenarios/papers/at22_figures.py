"""Figures 1 and 2 of Altschuler and Talwar (2022): privacy loss against the number of iterations.

The paper draws them without numbers and with all constants left out ("for simplicity"). Here the
rates are drawn with the constant 1, and beside them what is proven with constants, and exact laws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from audit import exact, validate
from audit.constructions import TwoSidedWalk
from audit.mechanism import NoisySGD
from audit.results import Chart, Drawn, Findings, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers.checks import (
    checked_times,
    close,
    computed,
    knee,
    line,
    over_times,
    renyi,
    shown,
)

PAPER = "Altschuler and Talwar 2022"
_LATE = 100  # times the burn-in, where curves are flat
_SETTLED = 1e-4  # relative growth of an exact divergence that counts as none


def rate(mechanism: NoisySGD, order: float, steps: float) -> float:
    """Return alpha L^2 T/(n^2 sigma^2), the rate (1.1) of earlier analyses."""
    assert mechanism.lipschitz is not None
    return order * (mechanism.lipschitz / mechanism.dataset_size / mechanism.noise_std) ** 2 * steps


def burn_in(mechanism: NoisySGD) -> int:
    """Return T-bar = ceil(D n/(L eta))."""
    assert mechanism.lipschitz is not None
    assert mechanism.diameter is not None
    crossing = mechanism.diameter * mechanism.dataset_size
    return math.ceil(crossing / (mechanism.lipschitz * mechanism.constant_step_size) * (1 - 1e-12))


def _marked(time: float, low: float, high: float) -> Series:
    """Return an upright line where the burn-in ends."""
    return line("burn-in time T-bar", [time, time], [low, high])


@study
@dataclass(frozen=True, kw_only=True)
class AltschulerTalwarFigures:
    """Draw Figures 1, 2(a) and 2(b) of Altschuler and Talwar 2022; check shapes and burn-in times.

    Parameters
    ----------
    sampled
        Figure 1: batches without replacement, convex losses, in the range of Theorem 3.1.
    cyclic
        Figure 2(a): batches in fixed order.
    strongly_convex
        Figure 2(b): as ``sampled``, strongly convex, with eta = 2/(M + m).
    full
        Full batches, for which bounds with constants and exact laws are drawn. All four are
        bounded; their numbers of steps are not used.
    renyi_order
        alpha.
    times
        Numbers of iterations, rising, from before the burn-in to after it.
    """

    sampled: NoisySGD
    cyclic: NoisySGD
    strongly_convex: NoisySGD
    full: NoisySGD
    renyi_order: float
    times: tuple[int, ...]

    def __post_init__(self) -> None:
        validate.above_one(renyi_order=self.renyi_order)
        checked_times(self.times)
        for name in ("sampled", "cyclic", "strongly_convex", "full"):
            m = getattr(self, name)
            if m.diameter is None or m.lipschitz is None:
                raise validate.fail(
                    name, "on a bounded domain with Lipschitz losses", (m.diameter, m.lipschitz)
                )

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Compute; nothing is drawn at random."""
        found_law, chart_law = self._with_constants(threads)
        return Findings(
            statements=(
                self._knee("Figure 1", "at22.theorem_3_1", self.sampled),
                self._knee("Figure 2(a)", "at22.eq_5_5", self.cyclic),
                self._transient(),
                self._logarithmic(),
                *found_law,
            ),
            charts=(self._figure_1(), self._figure_2a(), self._figure_2b(), chart_law),
            notes=(
                "The paper's figures have no numbers on their axes. Rates are drawn with the "
                "constant 1 and are no bounds; a burn-in time is where the straight line of the "
                "first steps meets the final value.",
            ),
        )

    def _knee(self, figure: str, id: str, m: NoisySGD) -> Statement:
        expected = burn_in(m)

        def loss(steps: int) -> float:
            return renyi(id, replace(m, steps=steps), self.renyi_order)

        found = knee(loss, _LATE * expected)
        flat = close(loss(expected), loss(_LATE * expected))
        return Statement(
            claim="linear in T up to T-bar = D n/(L eta), and constant afterwards",
            citation=f"{PAPER}, {figure}",
            expected=expected,
            found=found,
            verdict=computed(flat and abs(found / expected - 1) < 1e-6),
        )

    def _transient(self) -> Statement:
        m = self.cyclic
        assert m.lipschitz is not None
        expected = self.renyi_order * (m.lipschitz / m.batch_size / m.noise_std) ** 2
        once = renyi("at22.eq_5_5", replace(m, steps=1), self.renyi_order)
        found = once - rate(m, self.renyi_order, 1)
        # a real pair does leak so much: its record is in the first batch, and one step is made
        pair = TwoSidedWalk(replace(m, steps=1, diameter=None))
        low = float(exact.curve(pair).renyi(self.renyi_order))
        return Statement(
            claim=(
                "cyclic batches leak alpha L^2/(b^2 sigma^2) from the start, as the record may be "
                f"in an early batch; two linear losses have {low:.4g} after one step"
            ),
            citation=f"{PAPER}, Figure 2(a), section 5.2",
            expected=expected,
            found=found,
            # a pair that leaks less would contradict nothing
            verdict=shown(abs(found / expected - 1) < 1e-6 and low >= expected),
        )

    def _logarithmic(self) -> Statement:
        m = self.strongly_convex
        assert m.smoothness is not None
        kappa = m.smoothness / m.strong_convexity

        def length(times_n: int) -> float:
            many = replace(m, dataset_size=m.dataset_size * times_n, steps=10**9)
            return renyi("at22.theorem_5_1", many, self.renyi_order) / rate(
                many, self.renyi_order, 1
            )

        expected, found = 2 * kappa * math.log(10), length(10) - length(1)
        return Statement(
            claim="strong convexity: constant from O~(kappa) on; ten times n adds 2 kappa ln 10",
            citation=f"{PAPER}, Figure 2(b), Theorem 5.1",
            expected=expected,
            found=found,
            verdict=computed(abs(found / expected - 1) < 1e-6),
        )

    def _with_constants(self, threads: int) -> tuple[tuple[Statement, ...], Chart]:
        m, order = self.full, self.renyi_order
        last = self.times[-1]
        laws = exact.curves(TwoSidedWalk(replace(m, steps=last)), self.times, threads=threads)
        brackets = [law.renyi_bracket(order) for law in laws]
        claims = over_times("at22.b_1", m, order, self.times)
        newer = over_times("bsa24.theorem_3_3", m, order, self.times)
        composed = over_times("bsa24.theorem_4_1", m, order, self.times)
        crossing = burn_in(m)
        settled = brackets[-1][0] / composed[0] * self.times[0]
        late = [b for t, b in zip(self.times, brackets, strict=True) if t >= 4 * crossing]
        flat = len(late) > 1 and late[-1][0] <= late[0][1] * (1 + _SETTLED)
        below = all(low <= claim for (low, _), claim in zip(brackets, claims, strict=True))
        statements = (
            Statement(
                claim="full batches: an exact pair leaks no more after a few T-bar either",
                citation=f"{PAPER}, Theorem 1.3",
                expected=f"constant from a multiple of T-bar = {crossing} on",
                found=f"reaches {brackets[-1][0]:.6g}, what composition has at T = {settled:.4g}",
                # "a few" is no number, so that growth would contradict nothing
                verdict=shown(flat),
            ),
            Statement(
                claim="full batches: B.1 stays above the exact pair, within a constant factor",
                citation=f"{PAPER}, Theorem 1.3 and Appendix B.1",
                expected=claims[-1],
                found=brackets[-1][0],
                error=brackets[-1][1] - brackets[-1][0],
                verdict=Verdict.unless(not below),
            ),
        )
        stop = "stop as well" if flat else "are not seen to stop"
        ratio = claims[-1] / brackets[-1][0]
        chart = Chart(
            name="figure_1_exact",
            title="Figure 1 with constants, full batches",
            caption=(
                f"D of order {order:g}: composition grows for ever, Appendix B.1 stops near "
                f"2 T-bar = {2 * crossing}, and the exact laws of two linear losses {stop}; at "
                f"T = {last} they are {ratio:.3g} times lower."
            ),
            x_label="iterations T",
            y_label=f"Renyi divergence of order {order:g}",
            x_logarithmic=True,
            y_logarithmic=True,
            series=(
                line("composition", self.times, composed),
                line("Appendix B.1", self.times, claims),
                line("Bok, Su and Altschuler 2024, Theorem 3.3", self.times, newer),
                line("exact, linear losses", self.times, [b[0] for b in brackets], Drawn.POINTS),
            ),
        )
        return statements, chart

    def _figure_1(self) -> Chart:
        m, order = self.sampled, self.renyi_order
        return Chart(
            name="figure_1",
            title="Figure 1: convex losses",
            caption=(
                "Rates with the constant 1. Earlier analyses grow without limit; Theorem 3.1 stops "
                f"at T-bar = D n/(L eta) = {burn_in(m)}."
            ),
            x_label="iterations T",
            y_label=f"rate of the divergence of order {order:g}",
            x_logarithmic=True,
            y_logarithmic=True,
            series=(
                line("earlier, (1.1)", self.times, [rate(m, order, t) for t in self.times]),
                line(
                    "Theorem 3.1", self.times, over_times("at22.theorem_3_1", m, order, self.times)
                ),
                _marked(burn_in(m), rate(m, order, 1), rate(m, order, burn_in(m))),
            ),
        )

    def _figure_2a(self) -> Chart:
        m, order = self.cyclic, self.renyi_order
        assert m.lipschitz is not None
        once = order * (m.lipschitz / m.batch_size / m.noise_std) ** 2
        period = m.dataset_size // m.batch_size
        whole = sorted({max(t // period, 1) * period for t in self.times})
        return Chart(
            name="figure_2a",
            title="Figure 2(a): cyclic batches",
            caption=(
                "A large loss from the start, and no more of it after T-bar = "
                f"{burn_in(m)}. Rates have the constant 1; the bounds with constants, (5.4) and "
                "the sum of Theorem 5.6, have the same shape."
            ),
            x_label="iterations T",
            y_label=f"divergence of order {order:g}",
            x_logarithmic=True,
            y_logarithmic=True,
            series=(
                line("rate (5.4)", self.times, [once + rate(m, order, t) for t in self.times]),
                line("rate (5.5)", self.times, over_times("at22.eq_5_5", m, order, self.times)),
                line("(5.4) with constants", whole, over_times("at22.eq_5_4", m, order, whole)),
                line("Theorem 5.6", whole, over_times("at22.theorem_5_6", m, order, whole)),
                _marked(burn_in(m), once, once + rate(m, order, burn_in(m))),
            ),
        )

    def _figure_2b(self) -> Chart:
        m, order = self.strongly_convex, self.renyi_order
        convex = replace(m, strong_convexity=0.0)
        values = over_times("at22.theorem_5_1", m, order, self.times)
        stop = values[-1] / rate(m, order, 1)
        return Chart(
            name="figure_2b",
            title="Figure 2(b): strongly convex losses",
            caption=(
                f"Rates with the constant 1. Theorem 5.1 stops at {stop:.4g} iterations, which "
                f"grows with ln n; without strong convexity it takes {burn_in(convex)}."
            ),
            x_label="iterations T",
            y_label=f"rate of the divergence of order {order:g}",
            x_logarithmic=True,
            y_logarithmic=True,
            series=(
                line("earlier, (1.1)", self.times, [rate(m, order, t) for t in self.times]),
                line(
                    "convex, Theorem 3.1",
                    self.times,
                    over_times("at22.theorem_3_1", convex, order, self.times),
                ),
                line("strongly convex, Theorem 5.1", self.times, values),
                _marked(stop, values[0], values[-1]),
            ),
        )
