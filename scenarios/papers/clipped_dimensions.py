"""DP-SGD with Poisson batches and clipped gradients, in many dimensions.

The mechanism is Algorithm 1 of Boninsegna 2023.

Over a box the first coordinate of linear losses is the clamped walk in one dimension, whose law is
exact: the samples are tested against it. Over a ball the coordinates are dependent and the losses
are clipped quadratics; only samples are available there.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit import bounds, estimation, exact, validate
from audit.constructions import DriftedWalk
from audit.mechanism import Batching, NoisySGD, Relation
from audit.results import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Series,
    Statement,
    Verdict,
    judge_upper_bound,
)
from audit.scenario import Progress, study
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Dataset,
    Domain,
    Linear,
    NoisySGDPair,
    Quadratic,
    scores,
)
from papers.checks import short

Array = NDArray[np.float64]

CITATION = "Boninsegna's survey, Algorithm 1"
_FAR = 50.0  # of the differing record: its gradient is clipped wherever the iterate is
_BINS = 40
_NOTHING = 1e-14  # probability: rounding errors of a total of 1


class Shape(enum.Enum):
    """The domain, and the losses that go with it."""

    BOX = "box, linear losses"
    BALL = "ball, clipped quadratics"


@study
@dataclass(frozen=True, kw_only=True)
class ClippedInDimensions:
    """Compare accountants' claims on DP-SGD with samples of its last iterate in d dimensions.

    Parameters
    ----------
    dimensions
        Numbers of coordinates.
    mechanism
        DP-SGD in one dimension: Poisson batches, a record's loss replaced by zero, clipped
        gradients. Its diameter is the side of the box and the diameter of the ball.
    pull
        The gradient of the other records, at most ``clip_norm``.
    start
        Where the iterates begin along the record's direction.
    claims
        Ids of the catalogue.
    delta
        At which epsilons are compared.
    trials
        Runs on either dataset, for each dimension and domain.
    """

    dimensions: tuple[int, ...]
    mechanism: NoisySGD
    pull: float
    start: float
    claims: tuple[str, ...]
    delta: float
    trials: int

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise validate.fail("dimensions", "one or more whole numbers", self.dimensions)
        validate.integer(1, **{f"dimensions[{i}]": d for i, d in enumerate(self.dimensions)})
        validate.integer(1000, trials=self.trials)
        validate.open_unit(delta=self.delta)
        m = self.mechanism
        wanted = (Batching.POISSON, Relation.ZERO_OUT)
        if (m.batching, m.relation) != wanted or m.clip_norm is None or m.diameter is None:
            raise ValueError(
                "mechanism must have Poisson batches, ZERO_OUT, a clip_norm and a diameter, "
                f"got {m}"
            )
        if not 0 <= self.pull <= m.clip_norm:
            raise validate.fail("pull", f"in [0, clip_norm={m.clip_norm}]", self.pull)
        if not abs(self.start) <= m.diameter / 2:
            raise validate.fail("start", "in the domain", self.start)

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Sample every dimension and domain, and judge the claims by what samples certify.

        One confidence covers all samples together: each run of the table spends its share.
        """
        cases = [(d, shape) for d in self.dimensions for shape in Shape]
        # a half for the certified epsilons, a half for the tests of the law
        share = (1 - confidence) / 2 / len(cases)
        curve = exact.curve(self._walk)
        assert isinstance(curve, exact.LawCurve)  # a bounded domain
        certified: list[float] = []
        statements: list[Statement] = []
        for number, (dimension, shape) in enumerate(cases):
            one = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint32)[0])
            x, x_prime = scores(
                self.pair(dimension, shape),
                np.eye(dimension)[0],
                trials=self.trials,
                seed=one,
                threads=threads,
            )
            found = estimation.audit_samples(
                x, x_prime, confidence=1 - share, deltas=(self.delta,), seed=one
            )
            certified.append(float(found.epsilon_lower(self.delta)))
            if shape is Shape.BOX:
                laws = (curve.first, curve.second)
                p = min(agreement(law, s) for law, s in zip(laws, (x, x_prime), strict=True))
                # two laws are tested
                statements.append(_law_statement(dimension, p, share / 2, confidence))
            progress(number + 1, len(cases))
        claimed = {id: self._claimed(id) for id in self.claims}
        statements += [
            _claim_statement(id, value, max(certified), confidence) for id, value in claimed.items()
        ]
        low, high = curve.epsilon_bracket(self.delta)
        return Findings(
            statements=tuple(statements),
            tables=(self._table(cases, certified, low, min(claimed.values())),),
            charts=(self._chart(cases, certified, low, claimed),),
            notes=(
                "A claim holds for every dimension, so the largest certified epsilon of all runs "
                f"is compared with it; each comes from {self.trials:,} runs on either dataset. The "
                "exact value of the walk in one dimension is that of the pair over a box.",
            ),
            numbers={"exact": [low, high], "certified": certified},
        )

    @property
    def _walk(self) -> DriftedWalk:
        return DriftedWalk(
            self.mechanism, drift=-self.mechanism.constant_step_size * self.pull, start=self.start
        )

    def pair(self, dimension: int, shape: Shape) -> NoisySGDPair:
        """Return the two datasets in d dimensions; the record is zeroed in the second one."""
        m = self.mechanism
        side, norm = m.diameter, m.clip_norm
        assert side is not None  # checked when the study was made
        assert norm is not None
        records = np.zeros((m.dataset_size, dimension))
        domain: Domain
        start = np.zeros(dimension)
        start[0] = self.start
        if shape is Shape.BOX:
            # gradients: the others pull to the left, the record far more to the right
            records[:, 0], records[-1, 0] = self.pull, -_FAR
            loss = Clipped(Linear(), norm)
            domain = Box(side)
            m = dataclasses.replace(m, diameter=side * math.sqrt(dimension))
        else:
            # minimisers: the others' at the left end, the record's far to the right
            records[:, 0], records[-1, 0] = -side / 2, _FAR
            loss = Clipped(Quadratic(1.0), norm)
            domain = Ball(side)
        dataset = Dataset(records)
        return NoisySGDPair(
            mechanism=m,
            loss=loss,
            dataset=dataset,
            dataset_prime=dataset.zeroing(m.dataset_size - 1),
            domain=domain,
            start=start,
        )

    def _claimed(self, id: str) -> float:
        return float(bounds.evaluate(id, self.mechanism).epsilon(self.delta))

    def _table(
        self,
        cases: list[tuple[int, Shape]],
        certified: list[float],
        exact_low: float,
        least: float,
    ) -> FoundTable:
        rows = tuple(
            (d, shape.value, value, exact_low if shape is Shape.BOX else "not known", least)
            for (d, shape), value in zip(cases, certified, strict=True)
        )
        return FoundTable(
            caption=(
                f"Epsilon at δ = {short(self.delta)}: the dimension does not change what a box "
                f"leaks of a linear loss, {exact_low:.4g}; the tightest claim is {least:.4g}"
            ),
            columns=("dimension", "domain and losses", "certified by samples", "exact", "claimed"),
            rows=rows,
        )

    def _chart(
        self,
        cases: list[tuple[int, Shape]],
        certified: list[float],
        exact_low: float,
        claimed: dict[str, float],
    ) -> Chart:
        of_shape = {
            shape: [v for (_, s), v in zip(cases, certified, strict=True) if s is shape]
            for shape in Shape
        }
        points = [
            Series(
                name=f"certified, {shape.value}",
                x=tuple(float(d) for d, s in cases if s is shape),
                y=tuple(values),
                drawn=Drawn.POINTS,
            )
            for shape, values in of_shape.items()
        ]
        reached = " and ".join(f"{max(v):.4g} ({shape.value})" for shape, v in of_shape.items())
        ends = (float(min(self.dimensions)), float(max(self.dimensions)))
        lines = [("exact in one dimension", exact_low), *claimed.items()]
        return Chart(
            name="dimensions",
            title="DP-SGD in many dimensions",
            caption=(
                f"The largest epsilon that samples certify is {reached}. The walk "
                f"in one dimension, to which the box comes down, has {exact_low:.4g}; the least "
                f"claim is {min(claimed.values()):.4g}."
            ),
            x_label="number of dimensions",
            y_label=f"epsilon at δ = {short(self.delta)}",
            series=(*points, *(Series(name=n, x=ends, y=(v, v)) for n, v in lines)),
            x_logarithmic=True,
            y_logarithmic=True,
        )


def agreement(law: exact.Law, samples: Array) -> float:
    """Return the p-value of a chi-square test of samples against an exact law.

    Bins that expect no sample but for rounding errors are no bins: a law's total of 1 is right to
    the last digit or two only, which depend on the processor.
    """
    low, high = (float(np.quantile(samples, q)) for q in (0.005, 0.995))
    edges = np.linspace(low, high, _BINS - 1)
    probability = np.diff(np.concatenate(([0.0], np.asarray(law.cdf(edges)), [1.0])))
    counts = np.bincount(np.searchsorted(edges, samples, side="left"), minlength=_BINS)
    kept = probability * samples.size >= 5
    observed = np.append(counts[kept], counts[~kept].sum())
    expected = np.append(probability[kept], probability[~kept].sum()) * samples.size
    full = expected > _NOTHING * samples.size
    if np.any(observed[~full]):
        return 0.0  # samples where the law has nothing
    return float(stats.chisquare(observed[full], expected[full]).pvalue)


def _law_statement(dimension: int, p: float, level: float, confidence: float) -> Statement:
    return Statement(
        claim=(
            f"In {dimension} dimensions over a box, the first coordinate has the law of the walk "
            f"(chi-square, all tests together at level {1 - confidence:g})"
        ),
        citation="this package",
        expected=f"p at least {level:.2g}",
        found=p,
        verdict=Verdict.unless(p < level),
    )


def _claim_statement(id: str, claimed: float, certified: float, confidence: float) -> Statement:
    refuted = judge_upper_bound(claimed, certified) is Verdict.REFUTED
    return Statement(
        claim=f"Epsilon is at most what {id} says, in every dimension (confidence {confidence:g})",
        citation=str(bounds.entry(id).cite),
        expected=claimed,
        found=certified,
        verdict=Verdict.unless(refuted),
    )
