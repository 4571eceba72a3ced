"""False alarms of the judge on true claims, by samples: ``python results/claims/false_alarms.py``.

A run judges a file of true claims in the hardest case: each claimed number is the exact value of
the pair that is tried. A budget of no time rules out exact laws, so samples decide. A run is a
false alarm if any claim of its file is refuted. Writes ``results/claims/false_alarms.csv`` and
``.md``.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from audit import NoisySGD, exact
from audit.claims.claim import Budget, Claim, Numbers
from audit.claims.judge import judge_all
from audit.constructions import DriftedWalk
from audit.curves import Order
from audit.curves.quantities import (
    AnyQuantity,
    ClaimedNumber,
    EpsilonAtDelta,
    Mu,
    PowerAtAlpha,
    Quantity,
    RenyiAtOrder,
)
from audit.estimation import clopper_pearson
from audit.results import Verdict

FOLDER = Path(__file__).resolve().parent
ERROR = 0.1
# less than any law takes: samples must decide
NO_TIME = 1e-9
# Trials of each kind; the number decides how thresholds are chosen.
TRIALS = {"pilot split": 20_000, "order statistics": 2_000}


def mechanism() -> NoisySGD:
    """Return the mechanism: a short walk between walls."""
    return NoisySGD(
        steps=4,
        dataset_size=2,
        batch_size=2,
        step_size=1.0,
        noise_std=1.0,
        lipschitz=0.8,
        smoothness=1.0,
        diameter=2.0,
    )


@cache
def true_claims() -> tuple[Claim, ...]:
    """Return true claims: epsilon at three deltas, a Renyi divergence, a mu and a power."""
    m = mechanism()
    pair = DriftedWalk(m, drift=0.4, start=-1.0)
    curve = exact.curve(pair)

    def most(quantity: Quantity) -> float:
        brackets = [quantity.bracket(curve, order) for order in Order]
        # of mu only the low end is computed: a little more is true for sure
        return max(high if math.isfinite(high) else 1.01 * low for low, high in brackets)

    claimed: dict[str, tuple[AnyQuantity, ...]] = {
        "epsilon": (EpsilonAtDelta(0.3), EpsilonAtDelta(0.1), EpsilonAtDelta(0.01)),
        "renyi": (RenyiAtOrder(2.0),),
        "mu": (Mu(),),
        "tradeoff": (PowerAtAlpha(0.1),),
    }
    return tuple(
        Claim(
            id=name,
            mechanism=m,
            statement=Numbers(tuple(ClaimedNumber(one, most(one)) for one in quantities)),
            pair=pair,
        )
        for name, quantities in claimed.items()
    )


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: the names of the refuted claims."""

    kind: str
    seed: int
    refuted: tuple[str, ...]
    verdicts: int


def run(kind: str, seed: int) -> Outcome:
    """Judge the file once, with the number of trials of a kind."""
    claims = [
        replace(
            claim,
            budget=Budget(trials=TRIALS[kind], seconds=NO_TIME, seed=1000 * seed + 10 * number),
        )
        for number, claim in enumerate(true_claims())
    ]
    judged = judge_all(claims, error=ERROR)
    refuted = tuple(j.claim.id for j in judged if j.verdict is Verdict.REFUTED)
    return Outcome(kind, seed, refuted, sum(j.evidence == "sampled" for j in judged))


def _chunk(task: tuple[str, range]) -> list[Outcome]:
    return [run(task[0], seed) for seed in task[1]]


def runs(kind: str, count: int, processes: int) -> list[Outcome]:
    """Repeat with the seeds 0 to ``count`` - 1."""
    tasks = [(kind, range(k, min(k + 50, count))) for k in range(0, count, 50)]
    if processes == 1:
        return [outcome for task in tasks for outcome in _chunk(task)]
    with ProcessPoolExecutor(processes) as pool:
        return [outcome for chunk in pool.map(_chunk, tasks) for outcome in chunk]


def write(found: Sequence[Outcome], folder: Path) -> None:
    """Write what was refuted, and the rates with their 99% upper limits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "false_alarms.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["evidence", "runs", "claim", "refuted"])
        for kind in dict.fromkeys(one.kind for one in found):
            own = [one for one in found if one.kind == kind]
            for claim in true_claims():
                hits = sum(claim.id in one.refuted for one in own)
                writer.writerow([kind, len(own), claim.id, hits])
    lines = [
        "# False alarms over true claims",
        "",
        "Made by `python results/claims/false_alarms.py`. The claims are as tight as the pair",
        f"allows, and a file may spend an error of {ERROR:g}.",
        "",
        "| evidence | runs | runs with a false alarm | rate | 99% upper limit | budget |",
        "|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(one.kind for one in found):
        own = [one for one in found if one.kind == kind]
        alarms = sum(bool(one.refuted) for one in own)
        _, upper = clopper_pearson(alarms, len(own), confidence=0.98)
        lines.append(
            f"| {kind} | {len(own)} | {alarms} | {alarms / len(own):.5f} | {float(upper):.5f} "
            f"| {ERROR:g} |"
        )
    (folder / "false_alarms.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Run and write the tables."""
    parser = argparse.ArgumentParser(
        prog="python results/claims/false_alarms.py", description=__doc__
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    found: list[Outcome] = []
    for kind in TRIALS:
        found += runs(kind, given.runs, given.processes)
        assert all(one.verdicts for one in found)
        write(found, given.out)
    print(given.out / "false_alarms.md")


if __name__ == "__main__":
    main()
