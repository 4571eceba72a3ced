"""Compute what the last iterate leaks under random batches, and write the tables.

Exact laws are compared with simulated runs. Clipped gradients for which the last iterate leaks much
are compared with linear losses, and with all iterates of Poisson batches.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from audit import Batching, NoisySGD, Relation, Release, exact
from audit.constructions import Construction, DriftedWalk, LatticeWalk, TwoSidedWalk
from audit.simulation import count_thresholds

FOLDER = Path(__file__).resolve().parent
_PLACES = 9
_SEED = 20


def walks() -> Iterator[tuple[str, Construction]]:
    """Yield walks on [-3, 3] whose exact laws are compared with runs."""
    given: dict[str, Any] = {
        "steps": 30,
        "dataset_size": 8,
        "batch_size": 1,
        "step_size": 1.0,
        "noise_std": 0.5,
        "lipschitz": 1.0,
        "diameter": 6.0,
    }
    fresh = NoisySGD(**given, batching=Batching.RESHUFFLED)
    allocated = NoisySGD(**given, batching=Batching.RANDOM_ALLOCATION)
    twice = NoisySGD(
        **{**given, "batch_size": 2}, batching=Batching.RANDOM_ALLOCATION, participations=2
    )
    cut = NoisySGD(
        **{**given, "batch_size": 2}, batching=Batching.TRUNCATED_POISSON, max_batch_size=2
    )
    yield "reshuffled", DriftedWalk(fresh, drift=-0.4, start=3.0)
    yield "random allocation", DriftedWalk(allocated, drift=-0.4, start=3.0)
    yield "random allocation, 2 of 8", TwoSidedWalk(twice)
    yield "truncated poisson", DriftedWalk(cut, drift=0.2)


def sampled(trials: int) -> Iterator[dict[str, object]]:
    """Yield one row a walk: the least p-value of the counts at thresholds, both laws."""
    for name, pair in walks():
        law = exact.curve(pair)
        thresholds = np.linspace(-2.9, 2.9, _PLACES)
        counts = count_thresholds(pair, thresholds=thresholds, trials=trials, seed=_SEED)
        ps = [
            binomtest(trials - int(k), trials, float(p)).pvalue
            for found, own in zip(counts, (law.first, law.second), strict=True)
            for k, p in zip(found, own.cdf(thresholds), strict=True)
        ]
        yield {
            "batches": name,
            "runs": trials,
            "places": len(ps),
            "least p-value times places": f"{min(1.0, min(ps) * len(ps)):.3g}",
        }


def leaked() -> Iterator[dict[str, object]]:
    """Yield one row a batch size: epsilon of the lattice, and of linear losses.

    No bound on all iterates of these batches is known. The last column is that of Poisson batches
    of the same size, which the last iterate of other batches may exceed.
    """
    for multiplier, rate, steps, delta in ((0.5, 0.01, 100, 1e-6), (1.0, 0.01, 100, 1e-5)):
        for batch, spacing in ((16, 9.0), (64, 10.0), (256, 11.0)):
            m = NoisySGD(
                steps=steps,
                dataset_size=round(batch / rate),
                batch_size=batch,
                step_size=1.0,
                noise_std=multiplier / batch,
                clip_norm=1.0,
                convex=False,
                batching=Batching.WITHOUT_REPLACEMENT,
                relation=Relation.ADD_REMOVE,
            )
            low, high = exact.curve(LatticeWalk.suited(m, spacing=spacing)).epsilon_bracket(delta)
            linear = max(
                exact.curve(walk).epsilon_bracket(delta)[0] for walk in DriftedWalk.suggested(m)
            )
            yield {
                "noise multiplier": multiplier,
                "sampling rate": rate,
                "steps": steps,
                "delta": delta,
                "batch size": batch,
                "linear losses, worst drift tried": f"{linear:.4f}",
                "lattice, low": f"{low:.4f}",
                "lattice, high": f"{high:.4f}",
                "all iterates, Poisson batches": f"{composed(multiplier, rate, steps, delta):.4f}",
            }


def composed(multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Return epsilon of all steps: the dominating pair of Poisson batches."""
    m = NoisySGD(
        steps=steps,
        dataset_size=round(1000 / rate),
        batch_size=1000,
        step_size=1.0,
        noise_std=multiplier / 1000,
        clip_norm=1.0,
        convex=False,
        batching=Batching.POISSON,
        relation=Relation.ADD_REMOVE,
        release=Release.ALL_ITERATES,
    )
    return exact.dominating_curve(m).epsilon_bracket(delta)[1]


def write(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write a table and print it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(path.read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write ``sampled.csv`` and ``leaked.csv``: some minutes on one core."""
    parser = argparse.ArgumentParser(
        prog="python results/last_iterate/make.py", description="Write the tables."
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the tables go")
    parser.add_argument("--trials", type=int, default=10**7, help="runs a dataset")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / "sampled.csv", list(sampled(options.trials)))
    write(options.out / "leaked.csv", list(leaked()))


if __name__ == "__main__":
    main()
