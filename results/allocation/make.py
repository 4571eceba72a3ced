"""Compare brackets of random allocation with those of its authors: ``pip install PLD-accounting``.

The authors' package (Feldman and Shenfeld 2025) bounds allocation to k of T steps by k allocations
to one of T/k steps. Its lower end is that of the same composition: for k > 1 it is no lower bound
on the mechanism.
"""

from __future__ import annotations

import csv
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from audit.dominating.random_allocation import random_allocation

FOLDER = Path(__file__).resolve().parent
PACKAGE = "PLD-accounting"
DELTA = 1e-6
# noise multiplier, steps of an epoch, participations, epochs
SETTINGS = [
    *((z, 100, k, 1) for z in (0.5, 1.0, 2.0) for k in (1, 2, 5, 10, 20)),
    *((z, 1000, k, 1) for z in (0.7, 2.0) for k in (1, 3, 10, 30)),
    *((1.0, 20, k, 1) for k in (4, 10, 16)),
    *((2.0, 50, k, 10) for k in (1, 2, 5, 10)),
]


def bracket(z: float, steps: int, k: int, epochs: int) -> tuple[float, float]:
    """Return our bracket of epsilon."""
    curve = random_allocation(z, steps_per_epoch=steps, steps=steps * epochs, participations=k)
    return curve.epsilon_bracket(DELTA)


def rows() -> Iterator[dict[str, object]]:
    """Yield a row a setting."""
    # in an environment that has it; its numbers are stored
    from PLD_accounting.random_allocation_api import (  # type: ignore[import-not-found]
        gaussian_allocation_epsilon_range,
    )

    for z, steps, k, epochs in SETTINGS:
        low, high = bracket(z, steps, k, epochs)
        theirs = gaussian_allocation_epsilon_range(
            delta=DELTA, sigma=z, num_steps=steps, num_selected=k, num_epochs=epochs
        )
        yield {
            "noise_multiplier": z,
            "steps_per_epoch": steps,
            "participations": k,
            "epochs": epochs,
            "low": f"{low:.6g}",
            "high": f"{high:.6g}",
            "width": f"{(high - low) / high:.2g}",
            "their_high": f"{theirs[0]:.6g}",
        }


def main() -> None:
    """Write ``allocation.csv`` and ``README.md``."""
    found = []
    for row in rows():
        print(*row.values(), flush=True)
        found.append(row)
    with (FOLDER / "allocation.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, found[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    version = importlib.metadata.version(PACKAGE)
    (FOLDER / "README.md").write_text(page(found, version), encoding="utf-8")


def page(found: list[dict[str, object]], version: str) -> str:
    """Return the table as Markdown."""
    heads = ["z", "T", "k", "epochs", "low", "high", "width", f"{PACKAGE} {version}"]
    lines = [" | ".join(map(str, row.values())) for row in found]
    return "\n".join(
        [
            "# Random allocation to k of T steps",
            "",
            f"Epsilon at delta {DELTA:g} of all iterates, the worse order, add/remove; z is the",
            "noise multiplier. `width` is relative to the upper end.",
            "",
            f"| {' | '.join(heads)} |",
            f"|{'---|' * len(heads)}",
            *(f"| {line} |" for line in lines),
            "",
            "For k > 1 both upper ends are those of k allocations to one of T/k steps, which tell",
            "the adversary more than the mechanism does. How much more is not known: the lower end",
            "is a mean over groups of outcomes, which loses some percent as well.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
