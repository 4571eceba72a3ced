"""Run one training in a worker process.

One task answers both questions, so that the same process serves them: the digest of the training's
source file, and the scores of one training.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.isolation import UserCodeError
from audit.training.scores import detached

Array = NDArray[np.float64]

_MOST = 40_000  # scores of one training; a reply is at most a megabyte


def answer(function: Any, question: str, *arguments: Any) -> Any:
    """Answer a question: ``source`` or ``trial``."""
    return (source if question == "source" else trial)(function, *arguments)


def source(function: Any, reference: str) -> str:
    """Return a digest of the source file of the module that ``module:function`` names."""
    if not callable(function):
        raise UserCodeError(str(validate.fail("train", f"a function ({reference})", function)))
    file = getattr(sys.modules[reference.partition(":")[0]], "__file__", None)
    return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()


def trial(
    function: Callable[..., Any],
    reference: str,
    included: list[bool],
    seed: int,
    arguments: Mapping[str, Any],
) -> list[float]:
    """Train once; return a score for each canary, or for each column if there is one canary."""
    one = len(included) == 1
    first: Any = included[0] if one else np.array(included)
    seed_generators(seed)
    returned = function(first, seed, **arguments)
    by_step = isinstance(returned, Iterator)
    # copied, as a training may reuse one array for all steps; exceptions of the training propagate
    steps = [_copied(scores) for scores in (returned if by_step else [returned])]
    try:
        rows = _rows(reference, steps, by_step)
        if not one and (wrong := [row.size for row in rows if row.size != len(included)]):
            raise ValueError(
                f"{reference} must return one score for each of the {len(included)} canaries, "
                f"got {wrong[0]}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.concatenate(rows) if one else np.sum(rows, axis=0)
        scores = validate.sample(**{f"what {reference} returns": scores})
        if scores.size > _MOST:
            requirement = f"at most {_MOST} numbers"
            raise ValueError(
                f"what {reference} returns must be {requirement}, got {scores.size}; sum some of "
                "them"
            )
    except ValueError as error:
        raise UserCodeError(str(error)) from None
    return [float(score) for score in scores]


def seed_generators(seed: int) -> None:
    """Seed the generators that are global to a process.

    Processes start with equal states, so trainings that draw from them would repeat each other.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 the global one is meant
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def _rows(reference: str, steps: list[Any], by_step: bool) -> list[Array]:
    """Return the scores of each step, shape (scores,)."""
    if not steps:
        raise ValueError(f"{reference} must yield one score per step, got none")
    rows = []
    for step, scores in enumerate(steps, start=1):
        place = f"what {reference} {f'yields at step {step}' if by_step else 'returns'}"
        if scores is None or isinstance(scores, str):
            raise validate.fail(place, "a number or an array of numbers", scores)
        rows.append(validate.sample(**{place: np.atleast_1d(scores)}))
    return rows


def _copied(scores: Any) -> Any:
    try:
        refused = scores is None or isinstance(scores, str)
        return scores if refused else np.array(detached(scores))
    except Exception:  # not an array of numbers: `_rows` reports it
        return scores
