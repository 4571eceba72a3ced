"""DP-SGD as people train it: how much the way in which batches are drawn matters.

The same clipped gradients, noise and numbers of steps, with five batch samplers. All iterates are
released, the losses are the worst ones; both ends of every bracket are certain. The last iterate is
that of linear losses without a domain, where the record pushes the iterate by its clipped gradient
and no other record moves it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.optimize import brentq

from audit import exact, validate
from audit.constructions import BiasedWalk
from audit.curves import GaussianCurve
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers.checks import line, short

Bracket = tuple[float, float]

CHUA = "Chua et al. 2024, section 1"
FELDMAN = "Feldman and Shenfeld 2025, section 1"
ACCURACY = 1e-3  # relative, of brackets
_SAME_LINE = 1.05  # ends that no eye can tell apart on a logarithmic axis

SAMPLERS = {
    "Poisson": Batching.POISSON,
    "Poisson, truncated": Batching.TRUNCATED_POISSON,
    "random allocation": Batching.RANDOM_ALLOCATION,
    "shuffled every epoch": Batching.RESHUFFLED,
    "shuffled once": Batching.SHUFFLED,
}
# Their last iterates on linear losses: of a shuffle, what the record adds up to is the same.
LAST_ITERATES = {
    "Poisson": Batching.POISSON,
    "shuffled or allocated": Batching.RESHUFFLED,
}


@study
@dataclass(frozen=True, kw_only=True)
class BatchSamplers:
    """Compare epsilon under five batch samplers, from both sides.

    Parameters
    ----------
    delta
        Of every epsilon.
    epochs
        Of every run.
    batch_size
        The nominal batch size; it matters for truncated batches alone.
    truncation
        Over the nominal batch size: the size at which batches are cut.
    batches
        n/b, while the noise multiplier varies.
    noise_multipliers
        Standard deviation of a step's noise over the clipping norm, rising.
    noise_multiplier
        While the number of batches varies.
    numbers_of_batches
        n/b, rising.
    last_iterate_steps
        Up to so many steps the law of the last iterate is computed.
    """

    delta: float
    epochs: int
    batch_size: int
    truncation: float
    batches: int
    noise_multipliers: tuple[float, ...]
    noise_multiplier: float
    numbers_of_batches: tuple[int, ...]
    last_iterate_steps: int

    def __post_init__(self) -> None:
        validate.open_unit(delta=self.delta)
        validate.integer(1, epochs=self.epochs, batch_size=self.batch_size, batches=self.batches)
        validate.integer(0, last_iterate_steps=self.last_iterate_steps)
        validate.positive(noise_multiplier=self.noise_multiplier)
        validate.above_one(truncation=self.truncation)
        for name in ("noise_multipliers", "numbers_of_batches"):
            values = getattr(self, name)
            if len(values) < 2 or list(values) != sorted(set(values)):
                raise validate.fail(name, "two or more rising numbers", values)
            validate.positive(**{f"{name}[{i}]": value for i, value in enumerate(values)})

    def find(self, *, progress: Progress) -> Findings:
        """Compute; nothing is drawn at random."""
        total = len(self.noise_multipliers) + len(self.numbers_of_batches)
        by_noise = []
        for done, z in enumerate(self.noise_multipliers):
            by_noise.append(self._point(z, self.batches))
            progress(done + 1, total)
        by_batches = []
        for done, batches in enumerate(self.numbers_of_batches):
            by_batches.append(self._point(self.noise_multiplier, batches))
            progress(len(by_noise) + done + 1, total)
        points = (*by_noise, *by_batches)
        return Findings(
            statements=self._statements(points),
            tables=(self._table(by_noise),),
            charts=(
                self._chart(
                    "noise_multiplier",
                    f"n/b = {self.batches} batches an epoch",
                    self.noise_multipliers,
                    by_noise,
                    "noise multiplier",
                ),
                self._chart(
                    "batches",
                    f"noise multiplier {self.noise_multiplier:g}",
                    self.numbers_of_batches,
                    by_batches,
                    "batches an epoch, n/b",
                ),
            ),
            notes=(self._lesson(by_noise), _CONVENTIONS),
        )

    def _point(self, z: float, batches: int) -> Point:
        brackets = {name: self._all(z, batches, kind) for name, kind in self._samplers.items()}
        few = self.epochs * batches <= self.last_iterate_steps
        kinds = LAST_ITERATES if few else {}
        last = {name: self._last(z, batches, kind) for name, kind in kinds.items()}
        return Point(z, batches, brackets, last)

    @property
    def _samplers(self) -> dict[str, Batching]:
        """Those that differ: in one epoch both ways of shuffling are one."""
        return {
            name: kind
            for name, kind in SAMPLERS.items()
            if self.epochs > 1 or kind is not Batching.SHUFFLED
        }

    def _mechanism(self, z: float, batches: int, batching: Batching, **other: object) -> NoisySGD:
        truncated = batching is Batching.TRUNCATED_POISSON
        fields: dict[str, object] = {
            "steps": self.epochs * batches,
            "dataset_size": batches * self.batch_size,
            "batch_size": self.batch_size,
            "step_size": 1.0,
            "noise_std": z / self.batch_size,
            "clip_norm": 1.0,
            "convex": False,
            "batching": batching,
            "max_batch_size": int(self.truncation * self.batch_size) if truncated else None,
            "relation": Relation.ADD_REMOVE if truncated else Relation.ZERO_OUT,
            "release": Release.ALL_ITERATES,
        }
        return NoisySGD(**{**fields, **other})  # type: ignore[arg-type]

    def _all(self, z: float, batches: int, batching: Batching) -> Bracket:
        m = self._mechanism(z, batches, batching)
        return exact.dominating_curve(m, accuracy=ACCURACY).epsilon_bracket(self.delta)

    def _last(self, z: float, batches: int, batching: Batching) -> Bracket:
        m = self._mechanism(
            z,
            batches,
            batching,
            release=Release.LAST_ITERATE,
            clip_norm=None,
            lipschitz=1.0,
            convex=True,
        )
        return exact.curve(BiasedWalk(m)).epsilon_bracket(self.delta)

    def _statements(self, points: Sequence[Point]) -> tuple[Statement, ...]:
        poisson, shuffled, allocated = "Poisson", "shuffled every epoch", "random allocation"
        worst = max(points, key=lambda p: p.all[shuffled][0] - p.all[poisson][1])
        gain = max(points, key=lambda p: p.all[allocated][0] / p.all[poisson][1])
        tight = max((high - low) / high for p in points for low, high in _tight(p))
        hidden = [
            p.last[name][1] / p.all[name if name in p.all else shuffled][0]
            for p in points
            for name in p.last
        ]
        statements = [
            Statement(
                claim="accounting for Poisson batches covers batches that are shuffled",
                citation=f"the practice that {CHUA} warns of",
                expected=f"at most {worst.all[poisson][1]:.4f}",
                found=f"at least {worst.all[shuffled][0]:.4f} at {worst.place}",
                verdict=Verdict.unless(worst.all[shuffled][0] > worst.all[poisson][1]),
            ),
            Statement(
                claim="random allocation leaks no more than Poisson batches",
                citation=FELDMAN,
                expected="an epsilon that is not larger",
                found=f"{gain.all[allocated][0] / gain.all[poisson][1]:.3f} times it, "
                f"or less, the largest at {gain.place}",
                verdict=Verdict.unless(gain.all[allocated][0] > gain.all[poisson][1]),
            ),
            Statement(
                claim="Poisson batches and random allocation are known to within 1 %",
                citation="this package",
                expected="brackets of a relative width below 0.01",
                found=f"brackets of a relative width of at most {tight:.1e}",
                verdict=Verdict.HOLDS if tight < 0.01 else Verdict.INCONCLUSIVE,
            ),
        ]
        if hidden:
            statements.append(
                Statement(
                    claim="the last iterate of linear losses leaks less than all iterates",
                    citation="this package",
                    expected="an epsilon that is smaller",
                    found=f"{min(hidden):.3f} to {max(hidden):.3f} times that of all iterates",
                    verdict=Verdict.unless(max(hidden) > 1),
                )
            )
        return tuple(statements)

    def _table(self, points: Sequence[Point]) -> FoundTable:
        rows = []
        for p in points:
            claimed = p.all["Poisson"][1]
            rows.append(
                (
                    p.z,
                    round(claimed, 4),
                    round(p.all["random allocation"][1], 4),
                    round(p.all["shuffled every epoch"][0], 4),
                    round(p.all["shuffled every epoch"][1], 4),
                    round(self._enough_noise(claimed), 3),
                )
            )
        return FoundTable(
            caption=(
                f"What an accountant for Poisson batches says, and what is true if the loader "
                f"shuffles; {self.batches} batches an epoch, {self._epochs}, "
                f"delta = {short(self.delta)}. With the noise multiplier in the last column the "
                "claim is true for shuffled batches too."
            ),
            columns=(
                "noise multiplier",
                "Poisson",
                "random allocation, at most",
                "shuffled, at least",
                "shuffled, at most",
                "noise that makes it true",
            ),
            rows=tuple(rows),
        )

    def _enough_noise(self, epsilon: float) -> float:
        """Return the noise multiplier at which the bound for shuffled batches is ``epsilon``."""

        def excess(log_mu: float) -> float:
            return GaussianCurve(math.exp(log_mu)).epsilon(self.delta) - epsilon

        return math.sqrt(self.epochs) / math.exp(brentq(excess, math.log(1e-4), math.log(1e3)))

    @property
    def _epochs(self) -> str:
        return "one epoch" if self.epochs == 1 else f"{self.epochs} epochs"

    def _lesson(self, points: Sequence[Point]) -> str:
        p = max(points, key=lambda p: p.all["shuffled every epoch"][0] - p.all["Poisson"][1])
        return (
            "What to take home: account for the batches that you draw. "
            f"At {p.place}, {self._epochs} and delta = {short(self.delta)}, an accountant for "
            f"Poisson batches says {p.all['Poisson'][1]:.3f}; with a loader that shuffles some "
            f"losses leak {p.all['shuffled every epoch'][0]:.3f} or more. Put every record into "
            "one random batch of the epoch instead, each by itself (random allocation), and "
            f"{p.all['random allocation'][1]:.3f} is true, with every record used once an epoch."
        )

    def _chart(
        self,
        name: str,
        setting: str,
        places: Sequence[float],
        points: Sequence[Point],
        label: str,
    ) -> Chart:
        series = [one for sampler in self._samplers for one in _drawn(sampler, places, points)]
        series += [
            line(
                f"last iterate, linear losses, {sampler}",
                places,
                [p.last[sampler][0] if p.last else math.nan for p in points],
                Drawn.POINTS,
            )
            for sampler in LAST_ITERATES
            if any(p.last for p in points)
        ]
        return Chart(
            name=name,
            title=f"epsilon at delta = {short(self.delta)}, {setting}, {self._epochs}",
            caption=(
                "Bands reach from a certified lower bound to a proven upper bound; lines are known "
                "to less than their width. All iterates are released, but for the points."
            ),
            x_label=label,
            y_label="epsilon",
            series=tuple(series),
            x_logarithmic=True,
            y_logarithmic=True,
        )


@dataclass(frozen=True)
class Point:
    """All brackets at one noise multiplier and number of batches."""

    z: float
    batches: int
    all: dict[str, Bracket]
    last: dict[str, Bracket]

    @property
    def place(self) -> str:
        """The point in words."""
        return f"noise multiplier {self.z:g} and {self.batches} batches"


def _tight(p: Point) -> tuple[Bracket, Bracket]:
    return p.all["Poisson"], p.all["random allocation"]


def _drawn(sampler: str, places: Sequence[float], points: Sequence[Point]) -> tuple[Series, ...]:
    """Return a line where both ends agree; otherwise a band, and its lower end as a line."""
    low = [p.all[sampler][0] for p in points]
    high = [p.all[sampler][1] for p in points]
    if max(b / a for a, b in zip(low, high, strict=True)) < _SAME_LINE:
        return (line(sampler, places, high),)
    band = Series(
        name=f"{sampler}, between both bounds",
        x=tuple(float(x) for x in places),
        y=tuple(low),
        top=tuple(high),
        drawn=Drawn.BAND,
    )
    return band, line(f"{sampler}, at least", places, low)


_CONVENTIONS = (
    "Neighbours differ in one record whose gradient is zero in the other dataset; for truncated "
    "Poisson batches the record is added or removed, which for Poisson batches and random "
    "allocation is the same. In a single epoch a shuffle before the run and a fresh one in every "
    "epoch are the same. The last iterate is that of linear losses; there are non-convex losses "
    "whose last iterate keeps the evidence of all steps, so no claim for it should rest on hiding."
)
