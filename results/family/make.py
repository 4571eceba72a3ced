"""Measure Holm's procedure against an equal split: ``python results/family/make.py``.

A file has 40 claims about randomised response, each audited by the guesses about 1,000 canaries of
one run. Writes ``family.md``: how many of 8 false claims are refuted, and how often any true claim
is, by Holm's procedure, by an equal split of the error, and by a planted mistake that spends the
whole error on each claim.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from audit.estimation import Canaries, GuessCounts, clopper_pearson, holm, one_run_p_value

HERE = Path(__file__).parent
ERROR = 0.05
CLAIMS, FALSE = 40, 8
CLAIMED, CANARIES = 1.0, 1000
LEAKED = (1.26, 1.3)  # true epsilons of false claims: hard and less hard to refute

Array = NDArray[np.float64]


def p_values(repeats: int, false: int, leaked: float, seed: int) -> Array:
    """Draw the p-values of all claims, the false ones first, shape (repeats, claims)."""
    table = np.array(
        [
            one_run_p_value(
                GuessCounts(count, CANARIES, CANARIES),
                canaries=Canaries.ARBITRARY,
                epsilon=CLAIMED,
                delta=0.0,
            )
            for count in range(CANARIES + 1)
        ]
    )
    rates = np.full(CLAIMS, expit(CLAIMED))
    rates[:false] = expit(leaked)
    counts = np.random.default_rng(seed).binomial(CANARIES, rates, (repeats, CLAIMS))
    return np.asarray(table[counts])


def rows(repeats: int) -> list[str]:
    """Return the lines of the table."""
    lines = []
    for false, leaked in ((0, CLAIMED), *((FALSE, one) for one in LEAKED)):
        p = p_values(repeats, false, leaked, 1 + false)
        ways = {
            "Holm": np.array([holm(one, error=ERROR) for one in p]),
            "equal split": p <= ERROR / CLAIMS,
            "planted: no split": p <= ERROR,
        }
        for name, refuted in ways.items():
            wrong = int(np.sum(np.any(refuted[:, false:], axis=1)))
            low, high = clopper_pearson(wrong, repeats, confidence=0.99)
            right = f"{np.mean(np.sum(refuted[:, :false], axis=1)):.3f}" if false else "-"
            lines.append(
                f"| {false} | {leaked if false else '-'} | {name} | {right} | {wrong} of {repeats} "
                f"| {float(low):.4f} to {float(high):.4f} |"
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=HERE)
    given = parser.parse_args(arguments)
    holm([1.0], error=ERROR)  # imports statsmodels, which collects garbage in each call
    gc.freeze()
    lines = [
        "# Many claims of one file",
        "",
        f"Made by `python results/family/make.py`. Of {CLAIMS} claims of epsilon {CLAIMED:g} some",
        f"are false; the error of all together is {ERROR:g}.",
        "",
        "| false | their epsilon | procedure | refuted of these | files with a true one refuted "
        "| rate, 99 % |",
        "|---|---|---|---|---|---|",
        *rows(given.repeats),
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "family.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
