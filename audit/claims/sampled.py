"""Verdicts from samples, for pairs whose exact law would take too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.claims.error_shares import ErrorShare
from audit.constructions.base import Construction
from audit.curves.quantities import ClaimedNumber

if TYPE_CHECKING:
    from audit.estimation import JudgedScores


def judge_by_draws(
    pair: Construction,
    numbers: Sequence[ClaimedNumber],
    *,
    trials: int,
    error: ErrorShare,
    seed: int,
) -> JudgedScores:
    """Judge each number by samples of a pair; scores are the final iterates themselves.

    With probability at least 1 - ``error.spent`` no bound exceeds the pair's true number.
    """
    # these import Numba, so not before samples are needed
    from audit.estimation import judge_scores
    from audit.simulation import final_iterates

    scores = final_iterates(pair, trials=trials, seed=seed)
    return judge_scores(
        scores,
        numbers,
        confidence=1 - error.spent,
        planned_confidence=1 - error.planned,
        seed=seed + 1,
    )
