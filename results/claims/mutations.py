"""Test which mistakes in a bound the judge catches: ``python results/claims/mutations.py``.

True bounds get typical mistakes: a factor lost, a square forgotten, a step dropped, one order of
the divergence left out. Each mutated number is judged as a claim by a pair that is strong at its
setting. Writes ``results/claims/mutations.csv`` and ``.md``.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from audit import Batching, NoisySGD, Order, bounds, exact
from audit.claims.claim import Claim, statement_of
from audit.claims.evidence import Judgement
from audit.claims.judge import judge_all
from audit.constructions import decode_pair
from audit.results import Verdict

COLUMNS = (
    "bound",
    "size",
    "pair",
    "at",
    "mutation",
    "true bound",
    "claimed",
    "certified",
    "caught",
)
FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Base:
    """A true bound, and the pair that comes close to it; ``delta`` or else the order 2."""

    bound: str
    size: str
    mechanism: NoisySGD
    pair: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    delta: float | None = 1e-5

    def value(self, mechanism: NoisySGD) -> float:
        """Return the number that the bound claims for a mechanism."""
        curve = bounds.evaluate(self.bound, mechanism)
        return float(curve.renyi(2.0) if self.delta is None else curve.epsilon(self.delta))

    def claim(self, mutation: str, claimed: float) -> Claim:
        """Return the claim that this number is an upper bound."""
        statement = (
            statement_of(renyi={2.0: claimed})
            if self.delta is None
            else statement_of(epsilon=claimed, delta=self.delta)
        )
        return Claim(
            id=f"{self.bound}, {self.size}: {mutation}",
            mechanism=self.mechanism,
            statement=statement,
            pair=decode_pair({"kind": self.pair, **self.parameters}, self.mechanism),
        )


def bases() -> list[Base]:
    """Return true bounds at several sizes, from those that a pair reaches to loose ones."""
    line = NoisySGD(
        steps=1,
        dataset_size=10,
        batch_size=10,
        step_size=0.1,
        noise_std=0.5,
        lipschitz=1.0,
        smoothness=1.0,
    )
    found = [
        Base("bsa24.theorem_4_1", f"{t} steps", replace(line, steps=t), "TwoSidedWalk")
        for t in (2, 10, 100, 1000)
    ]
    strong = replace(line, lipschitz=None, gradient_sensitivity=2.0, strong_convexity=0.5)
    found += [
        Base(
            "bsa24.theorem_4_2",
            f"{t} steps",
            replace(strong, steps=t),
            "QuadraticPair",
            {"curvature": 0.5},
        )
        for t in (2, 10, 100)
    ]
    walled = replace(line, diameter=1.0, dataset_size=20, batch_size=20)
    found += [
        Base(
            "at22.b_1",
            f"{t} steps",
            replace(walled, steps=t),
            "DriftedWalk",
            {"drift": 1.5 / t if t > 50 else 0.03, "start": -0.5},
            delta=None,
        )
        for t in (10, 100, 400)
    ]
    cycle = replace(
        line, batch_size=2, batching=Batching.CYCLIC, diameter=20.0, noise_std=0.8, step_size=1.0
    )
    resets = {"curvature": 1.0, "cap": 1.0}
    found += [
        Base(
            "survey.section_vi_a_corrected",
            f"{epochs} epoch{'s' * (epochs > 1)} of 5 batches",
            replace(cycle, steps=5 * epochs),
            "ResetWalk",
            resets,
            delta=None,
        )
        for epochs in (1, 4)
    ]
    sampled = replace(line, batch_size=2, batching=Batching.WITHOUT_REPLACEMENT, step_size=1.0)
    found += [
        Base(
            "bsa24.theorem_4_8",
            f"{t} step{'s' * (t > 1)} of 2 in 10",
            replace(sampled, steps=t, diameter=60.0),
            "DriftedWalk",
            {"drift": 1.0, "start": -30.0 if t > 1 else 0.0},
        )
        for t in (1, 5)
    ]
    found += [
        Base(
            "at22.sampled_gaussian",
            f"{t} step{'s' * (t > 1)} of 2 in 10",
            replace(sampled, steps=t, diameter=60.0),
            "DriftedWalk",
            {"drift": 1.0, "start": -30.0 if t > 1 else 0.0},
            delta=None,
        )
        for t in (1, 5)
    ]
    return found


Mutation = Callable[[Base], float | None]


def lowered(share: float) -> Mutation:
    """Return the mutation that lowers the number by a share."""
    return lambda base: (1 - share) * base.value(base.mechanism)


def half_sensitivity(base: Base) -> float:
    """L for 2L."""
    m = base.mechanism
    if m.lipschitz is not None:
        return base.value(replace(m, lipschitz=m.lipschitz / 2))
    return base.value(replace(m, gradient_sensitivity=m.sensitivity / 2))


def sigma_for_its_square(base: Base) -> float:
    """Sigma where sigma^2 should be: as if the noise were its square root."""
    return base.value(replace(base.mechanism, noise_std=base.mechanism.noise_std**0.5))


def step_dropped(base: Base) -> float | None:
    """One step fewer; one epoch fewer where the bound wants whole ones."""
    m = base.mechanism
    unit = m.dataset_size // m.batch_size if m.batching is Batching.CYCLIC else 1
    return base.value(replace(m, steps=m.steps - unit)) if m.steps > unit else None


def order_forgotten(base: Base) -> float | None:
    """Return the smaller of the two orders of one step's pair, composed; for sampled batches."""
    m = base.mechanism
    if m.batching is not Batching.WITHOUT_REPLACEMENT or base.delta is not None:
        return None
    one = replace(m, steps=1)
    pair = decode_pair({"kind": base.pair, **base.parameters, "start": 0.0}, one)
    law = exact.curve(pair)
    return m.steps * min(law.renyi(2.0, order) for order in Order)


def batch_squared(base: Base) -> float | None:
    """b^2 for b in L/(b sigma)."""
    m = base.mechanism
    return base.value(replace(m, noise_std=m.noise_std * m.batch_size))


MUTATIONS: Mapping[str, Mutation] = {
    "lowered by 0.1%": lowered(0.001),
    "lowered by 1%": lowered(0.01),
    "lowered by 5%": lowered(0.05),
    "lowered by 20%": lowered(0.2),
    "lowered by 50%": lowered(0.5),
    "L for 2L": half_sensitivity,
    "sigma for sigma^2": sigma_for_its_square,
    "one step (epoch) dropped": step_dropped,
    "one order forgotten": order_forgotten,
    "b^2 for b": batch_squared,
}


@dataclass(frozen=True)
class Row:
    """One mutated number and its judgement."""

    base: Base
    mutation: str
    true: float
    claimed: float
    judgement: Judgement

    @property
    def caught(self) -> bool:
        """Whether the judge refuted it."""
        return self.judgement.verdict is Verdict.REFUTED


def rows(chosen: list[Base]) -> list[Row]:
    """Judge every mutation of the bases, and the bases themselves."""
    made = []
    for base in chosen:
        true = base.value(base.mechanism)
        made.append((base, "none", true, true))
        for name, mutation in MUTATIONS.items():
            claimed = mutation(base)
            if claimed is not None:
                made.append((base, name, true, claimed))
    # a computed number is not certain to its last digit
    claims = [base.claim(name, claimed * (1 + 1e-9)) for base, name, _, claimed in made]
    judged = judge_all(claims, error=0.01)
    return [Row(*one, judgement) for one, judgement in zip(made, judged, strict=True)]


def write(found: list[Row], folder: Path) -> None:
    """Write the table of all rows, and the one of what was caught."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "mutations.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in found:
            j = row.judgement
            numbers = (row.true, row.claimed, j.certified or 0.0)
            caught = "yes" if row.caught else "no"
            place = (row.base.bound, row.base.size, row.base.pair, j.where, row.mutation)
            writer.writerow([*place, *(f"{number:.10g}" for number in numbers), caught])
    names = [*MUTATIONS]
    lines = [
        "# Bounds with a planted mistake, and which of them the judge refutes",
        "",
        "Made by `python results/claims/mutations.py`; all numbers are in `mutations.csv`. `ratio`",
        "is the true bound over what the pair certifies: what is lowered by less than that is not",
        "caught. A dash: the mutation does not apply, or makes the number no smaller.",
        "",
        f"| bound | size | ratio | {' | '.join(names)} |",
        "|---" * (3 + len(names)) + "|",
    ]
    for base in dict.fromkeys((r.base.bound, r.base.size) for r in found):
        of_base = {r.mutation: r for r in found if (r.base.bound, r.base.size) == base}
        marks: list[str] = []
        for name in names:
            mutated = of_base.get(name)
            if mutated is None or mutated.claimed >= mutated.true * (1 - 1e-9):
                marks.append("-")
            else:
                marks.append("yes" if mutated.caught else "no")
        ratio = of_base["none"].judgement.tightness
        assert ratio is not None
        lines.append(f"| {base[0]} | {base[1]} | {ratio:.4f} | {' | '.join(marks)} |")
    (folder / "mutations.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Judge all mutations and write the tables."""
    parser = argparse.ArgumentParser(prog="python results/claims/mutations.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    write(rows(bases()), given.out)
    print(given.out / "mutations.md")


if __name__ == "__main__":
    main()
