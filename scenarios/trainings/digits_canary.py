"""Task, canary, scores and audit, shared by the scripts beside this file."""

from __future__ import annotations

import argparse
import enum
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from audit import report
from audit.estimation import BestColumn
from audit.results import FoundTable, UserClaim, to_json
from audit.training import Processes, TrainingAudit, gradient_score, joined, run

Array = NDArray[np.float64]
Records = tuple[NDArray[np.float32], NDArray[np.float32]]

TASK = (
    'Logistic regression on 64 of scikit-learn\'s digits: is it a zero? The canary is a "zero" '
    "with ink in one corner, where no digit has any. Its gradient points against that pixel at "
    "each iterate, is clipped, and is orthogonal to all others: no record moves a training further "
    "in a direction of its own. Without the canary its row is blank and has no gradient, so that "
    "the size of the dataset, on which batches and divisors depend, stays the same."
)
PICTURES, BATCH_SIZE, EPOCHS = 64, 16, 4
STEPS_PER_EPOCH, SAMPLING_RATE = PICTURES // BATCH_SIZE, BATCH_SIZE / PICTURES
NOISE_MULTIPLIER, CLIP_NORM, LEARNING_RATE = 1.0, 2.0, 0.05
DELTAS = (1e-1, 1e-2)
CONFIDENCE, TRIALS = 0.99, 1600

_CORNER, _DARKEST = 0, 16
_INK = 5 * CLIP_NORM  # other pixels are at most 1; the gradient stays clipped while it is learned


def records(canary: bool) -> Records:
    """Return pictures, shape (n, 64), and whether each is a zero (n,); the canary is last."""
    pixels, digits = load_digits(return_X_y=True)
    pictures, zeros = pixels[:PICTURES] / _DARKEST, digits[:PICTURES] == 0
    pictures[-1], zeros[-1] = 0, True
    pictures[-1, _CORNER] = _INK if canary else 0
    return pictures.astype(np.float32), zeros.astype(np.float32)


def scores(gradients: Array) -> Array:
    """Return three scores of one training; a high one speaks for the canary.

    Parameters
    ----------
    gradients
        What each step releases, shape (steps, 64): the sum of clipped gradients and noise, before
        it is divided by the batch size.

    Returns
    -------
    The log-likelihood ratio of all steps, if batches are Poisson samples; that of the last step of
    each epoch, in whose batch a loader without sampling has the last record; and the largest step
    minus the smallest, in which noise that repeats cancels.
    """
    canary = np.zeros(gradients.shape[1])
    canary[_CORNER] = -CLIP_NORM
    noise_std = NOISE_MULTIPLIER * CLIP_NORM
    ratios = [
        gradient_score(gradient, canary, noise_std=noise_std, sampling_rate=SAMPLING_RATE)
        for gradient in gradients
    ]
    own_batch = ratios[STEPS_PER_EPOCH - 1 :: STEPS_PER_EPOCH]
    return np.array([sum(ratios), sum(own_batch), np.ptp(gradients @ canary)])


def main(
    train: Callable[..., Array],
    claims: Callable[[str], list[tuple[float, float]]],
    variants: type[enum.Enum],
    *,
    library: str,
    accountant: str,
) -> None:
    """Audit all variants of a training, print what is certified, and write a report.

    Parameters
    ----------
    train, claims
        Of a script: ``train(canary, seed, variant=...)`` and ``claims(variant)``.
    variants
        Names of the variants; their values describe them.
    library, accountant
        What trains and what claims, for the report.
    """
    parser = argparse.ArgumentParser(description=f"Audit {library} on scikit-learn's digits.")
    parser.add_argument("--trials", type=int, default=TRIALS, help="trainings of each variant")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--folder", type=Path, default=Path(f"results/runs/{library.lower()}_digits")
    )
    options = parser.parse_args()
    titles = {variant.name.capitalize().replace("_", " "): variant for variant in variants}
    with Processes(options.processes) as processes:
        audits = {
            title: run(
                train,
                claims=[
                    UserClaim(accountant, epsilon, delta) for epsilon, delta in claims(variant.name)
                ],
                confidence=CONFIDENCE,
                seed=options.seed,
                trials=options.trials,
                columns=BestColumn(),  # a part of the trainings chooses, and certifies nothing
                arguments={"variant": variant.name},
                processes=processes,
                folder=options.folder / variant.name.lower(),
            )
            for title, variant in titles.items()
        }
    others = {title: jax_privacy_bounds(found) for title, found in audits.items()}
    result = joined(
        {title: _compared(found, others[title]) for title, found in audits.items()},
        name=f"{library.lower()}_digits",
        title=f"{library} on scikit-learn's digits, right and with mistakes",
        confidence=CONFIDENCE,
        seed=options.seed,
        summary=f"{TASK} Trained by {library} {version(library)}.",
        summaries={title: variant.value for title, variant in titles.items()},
    )
    (options.folder / "result.json").write_text(to_json(result), encoding="utf-8")
    print(_table(audits, others))
    print(f"\nThe report is {report.write(result, options.folder)[0]}")


def jax_privacy_bounds(found: TrainingAudit) -> Mapping[float, float]:
    """Return lower bounds by delta of jax-privacy's auditor; none where it is not installed."""
    if find_spec("jax_privacy") is None:
        return {}
    from jax_privacy.auditing import CanaryScoreAuditor

    auditor = CanaryScoreAuditor(found.scores, found.scores_prime)
    return {
        delta: float(auditor.epsilon_clopper_pearson(1 - CONFIDENCE, delta)) for delta in DELTAS
    }


def _compared(found: TrainingAudit, others: Mapping[float, float]) -> TrainingAudit:
    """Return an audit whose findings hold the bounds of jax-privacy, too."""
    table = FoundTable(
        caption="Bounds of jax-privacy's auditor on the same scores",
        columns=("delta", "Lower bound on epsilon (Clopper-Pearson, all thresholds)"),
        rows=tuple(others.items()),
    )
    tables = (*found.findings.tables, *([table] if others else []))
    return replace(found, findings=replace(found.findings, tables=tables))


def _table(audits: Mapping[str, TrainingAudit], others: Mapping[str, Mapping[float, float]]) -> str:
    lines = ["training            delta  claimed  certified  jax-privacy  verdict"]
    for title, found in audits.items():
        for claim, verdict in zip(found.design.claims, found.verdicts, strict=True):
            other = others[title].get(claim.delta)
            lines.append(
                f"{title:<17}{claim.delta:8g}{claim.epsilon:9.3f}"
                f"{found.epsilon_lower(claim.delta):11.3f}"
                f"{'-' if other is None else f'{other:.3f}':>13}"
                f"  {verdict.value}"
            )
    return "\n".join(lines)
