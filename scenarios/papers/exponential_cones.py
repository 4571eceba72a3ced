"""The exponential mechanism on cones of many dimensions.

It is compared with the bounds of section 5.2 of Bok, Su and Altschuler 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit import bounds, validate
from audit.mechanism import NoisySGD, Release
from audit.results import Chart, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers.checks import SAME, computed, short, shown
from papers.exponential_targets import LinearPair

MCSHERRY_TALWAR = "McSherry and Talwar 2007, as Bok, Su and Altschuler 2024 state it in section 5.2"
_NEAR = 1e-3  # of 2LD: a cone so near to it is called near


def mechanism(lipschitz: float, diameter: float) -> NoisySGD:
    """Return the exponential mechanism at inverse temperature 1, of L-Lipschitz losses."""
    return NoisySGD(
        steps=1,
        dataset_size=1,
        batch_size=1,
        step_size=1.0,
        noise_std=math.sqrt(2.0),
        lipschitz=lipschitz,
        smoothness=1.0,
        diameter=diameter,
        release=Release.EXPONENTIAL_MECHANISM,
    )


@study
@dataclass(frozen=True)
class ExponentialMechanismOfCones:
    """Compare the bounds of section 5.2 with F = L h and F' = -L h, h the height in a cone.

    In one dimension the cone is an interval and the pair is (LD, 0)-private, half of what McSherry
    and Talwar allow. In many dimensions nearly all of a cone lies at its base, a distance of
    nearly D from the apex, where the likelihood ratio then comes near e^(2LD).

    Parameters
    ----------
    lipschitz
        L, of each loss; losses differ by twice as much.
    height, radius
        Of the cone; it must hold a unit ball, which Corollary 5.4 asks for.
    dimensions
        Rising, the first one 1.
    delta
        Where epsilons are compared.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    lipschitz: float
    height: float
    radius: float
    dimensions: tuple[int, ...]
    delta: float

    def __post_init__(self) -> None:
        validate.positive(lipschitz=self.lipschitz, height=self.height, radius=self.radius)
        validate.open_unit(delta=self.delta)
        validate.integer(1, **{f"dimensions[{i}]": d for i, d in enumerate(self.dimensions)})
        if self.dimensions[:1] != (1,) or list(self.dimensions) != sorted(set(self.dimensions)):
            raise validate.fail("dimensions", "rising, from 1 on", self.dimensions)
        if self.inscribed < 1 or self.height < 2:
            raise ValueError(
                f"radius must leave room for a unit ball, got one of radius {self.inscribed:.4g}"
            )

    @property
    def inscribed(self) -> float:
        """Radius of the largest ball inside the cone, from two dimensions on."""
        return self.radius * self.height / (self.radius + math.hypot(self.radius, self.height))

    def diameter(self, dimensions: int) -> float:
        """Return D: the longest of the height, the slant and the base."""
        if dimensions == 1:
            return self.height
        return max(math.hypot(self.height, self.radius), 2 * self.radius)

    @property
    def _longest(self) -> float:
        return self.diameter(2)

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Compute; nothing is drawn at random."""
        rows = [self._row(d) for d in self.dimensions]
        return Findings(
            statements=self._statements(rows),
            tables=(self._table(rows),),
            charts=(self._ratios(rows), self._epsilons(rows)),
            notes=(
                "The height of a point of the cone, in units of the cone's height H, has a density "
                "proportional to u^(d-1) e^(-LHu) under the first loss and to u^(d-1) e^(LHu) "
                "under the second. The likelihood ratio falls with the height, so all is a closed "
                "form; the largest log-likelihood ratio stands at the apex.",
            ),
        )

    def _row(self, dimensions: int) -> dict[str, float]:
        pair = LinearPair(dimensions, self.lipschitz * self.height)
        m = mechanism(self.lipschitz, self.diameter(dimensions))
        return {
            "dimensions": dimensions,
            "pure": pair.pure_epsilon,
            "allowed": 2 * self.lipschitz * self.diameter(dimensions),
            "epsilon": pair.epsilon(self.delta),
            "corollary": bounds.evaluate("bsa24.corollary_5_4", m).epsilon(self.delta),
            "mcsherry": bounds.evaluate("bsa24.mcsherry_talwar", m).epsilon(self.delta),
        }

    def _statements(self, rows: list[dict[str, float]]) -> tuple[Statement, ...]:
        first, last = rows[0], rows[-1]
        one = first["pure"] / first["allowed"]
        near = last["pure"] / last["allowed"]
        largest = max(row["pure"] / row["allowed"] for row in rows)
        over = max(row["epsilon"] / min(row["corollary"], row["mcsherry"]) for row in rows)
        return (
            Statement(
                claim="In one dimension the linear pair has pure epsilon LD: over 2LD",
                citation="this package, beside McSherry and Talwar 2007",
                expected=0.5,
                found=one,
                error=SAME,
                verdict=computed(abs(one - 0.5) <= SAME),
            ),
            Statement(
                claim=(
                    "2LD is approached by cones in high dimension: pure epsilon over 2LD in "
                    f"{last['dimensions']:,} dimensions"
                ),
                citation="this package, beside McSherry and Talwar 2007",
                expected=1.0,
                found=near,
                error=_NEAR,
                # a wider cone, or few dimensions, would contradict nothing
                verdict=shown(abs(near - 1) <= _NEAR),
            ),
            Statement(
                claim="The mechanism is (2LD, 0)-private: largest pure epsilon over 2LD",
                citation=MCSHERRY_TALWAR,
                expected="at most 1",
                found=largest,
                error=SAME,
                verdict=Verdict.unless(largest > 1 + SAME),
            ),
            Statement(
                claim=(
                    f"Epsilon at δ = {short(self.delta)} over the least of G(2 sqrt(LD)) and "
                    "(2LD, 0): the largest"
                ),
                citation="Bok, Su and Altschuler 2024, Corollary 5.4",
                expected="at most 1",
                found=over,
                error=SAME,
                verdict=Verdict.unless(over > 1 + SAME),
            ),
        )

    def _table(self, rows: list[dict[str, float]]) -> FoundTable:
        return FoundTable(
            caption="The likelihood ratio at the apex grows towards e^(2LH), on ever less mass",
            columns=(
                "d",
                "pure epsilon",
                "2LD",
                "ratio",
                f"epsilon at δ = {short(self.delta)}",
                "Corollary 5.4",
            ),
            rows=tuple(
                (
                    row["dimensions"],
                    row["pure"],
                    row["allowed"],
                    row["pure"] / row["allowed"],
                    row["epsilon"],
                    row["corollary"],
                )
                for row in rows
            ),
        )

    def _ratios(self, rows: list[dict[str, float]]) -> Chart:
        x = tuple(float(row["dimensions"]) for row in rows)
        return Chart(
            name="ratio",
            title="Pure epsilon of linear losses on cones, over 2LD",
            caption=(
                "An interval reaches half of the bound of McSherry and Talwar, this cone "
                f"{rows[-1]['pure'] / rows[-1]['allowed']:.4f} of it in "
                f"{int(rows[-1]['dimensions']):,} dimensions. With more dimensions it tends to "
                f"H/D, which is {self.height / self._longest:.4f} here and nearer to 1 for a "
                "slimmer cone."
            ),
            x_label="dimension d",
            y_label="pure epsilon / 2LD",
            series=(
                Series(name="cone", x=x, y=tuple(r["pure"] / r["allowed"] for r in rows)),
                Series(name="(2LD, 0)-DP", x=x, y=(1.0,) * len(x)),
                Series(name="1 - 1/(d + 1)", x=x, y=tuple(1 - 1 / (d + 1) for d in x)),
            ),
            x_logarithmic=True,
        )

    def _epsilons(self, rows: list[dict[str, float]]) -> Chart:
        x = tuple(float(row["dimensions"]) for row in rows)
        most = max(rows, key=lambda row: row["epsilon"])
        over = max(row["epsilon"] / min(row["corollary"], row["mcsherry"]) for row in rows)
        return Chart(
            name="epsilon",
            title=f"Epsilon at δ = {short(self.delta)} of linear losses on cones",
            caption=(
                f"Of these cones that of d = {int(most['dimensions']):,} has the largest epsilon, "
                f"{most['epsilon']:.4f}; in {int(rows[-1]['dimensions']):,} dimensions it is "
                f"{rows[-1]['epsilon']:.4f}, as the mass on which the likelihood ratio is large "
                "vanishes when the dimension grows. No value is above "
                f"{math.ceil(over * 1000) / 1000:.3f} times the smaller claim."
            ),
            x_label="dimension d",
            y_label="epsilon",
            series=(
                Series(name="exact", x=x, y=tuple(row["epsilon"] for row in rows)),
                Series(name="Corollary 5.4", x=x, y=tuple(row["corollary"] for row in rows)),
                Series(name="2LD", x=x, y=tuple(row["allowed"] for row in rows)),
            ),
            x_logarithmic=True,
        )
