"""jax-privacy: the scores of its auditor, and the mechanisms of its execution plans.

Read from jax-privacy 2.0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from audit import validate
from audit.adapters.dp_accounting import from_dp_event
from audit.adapters.optional import load
from audit.adapters.scores import CanaryScores
from audit.mechanism import Composition, NoisySGD, Relation

__all__ = ["from_auditor", "from_execution_plan"]

# Where jax-privacy 2.0.0 keeps them; it has no public name for them.
_HELD_IN, _HELD_OUT = "_in_canary_scores", "_out_canary_scores"


def from_auditor(auditor: Any) -> CanaryScores:
    """Return the scores that a ``CanaryScoreAuditor`` was given, not what it makes of them.

    The auditor keeps them as they came, neither sorted nor paired nor thinned out, and so are they
    here: those of canaries in the training first. It does not know whether each score is from a run
    of its own. If so they are independent draws, for `audit.estimation.audit_samples`; scores of
    many canaries of one run depend on each other, and are for `audit.estimation.audit_one_run`,
    where a fair coin of its own decided on each canary. Either takes the error of all thresholds
    into account.

    Parameters
    ----------
    auditor : object
        A ``jax_privacy.auditing.CanaryScoreAuditor``.

    Returns
    -------
    CanaryScores
        ``x`` are the scores of canaries that were held in, ``x_prime`` of those held out.

    Raises
    ------
    ImportError
        If jax-privacy is not installed.
    ValueError
        If it is something else, a score is not finite, or its version keeps no scores.
    """
    kind = load("jax_privacy.auditing", extra="jax-privacy").CanaryScoreAuditor
    if not isinstance(auditor, kind):
        raise validate.fail("auditor", "a CanaryScoreAuditor", auditor)
    try:
        sides = [getattr(auditor, name) for name in (_HELD_IN, _HELD_OUT)]
    except AttributeError as error:
        raise ValueError(
            f"auditor must keep its scores as that of jax-privacy 2.0 does, got {error}"
        ) from None
    held_in, held_out = (validate.real_sample(scores=side) for side in sides)
    return CanaryScores(
        np.concatenate([held_in, held_out]),
        np.repeat([True, False], [held_in.size, held_out.size]),
    )


def from_execution_plan(
    plan: Any, *, dataset_size: int, relation: Relation, clip_norm: float = 1.0
) -> NoisySGD | Composition:
    """Return the mechanism of an execution plan, by its ``dp_event``.

    Parameters
    ----------
    plan : object
        A ``jax_privacy.experimental.execution_plan.DPExecutionPlan``.
    dataset_size : int
        What the plan does not say: n, the relation of the accountant that it was configured with,
        and the norm to which gradients are clipped.
    relation : Relation
        What the plan does not say: n, the relation of the accountant that it was configured with,
        and the norm to which gradients are clipped.
    clip_norm : float, default: 1.0
        What the plan does not say: n, the relation of the accountant that it was configured with,
        and the norm to which gradients are clipped.

    Raises
    ------
    ImportError
        If jax-privacy is not installed.
    ValueError
        If it is something else, or the event is not the mechanism: for noise that is correlated
        over bands the event is that of another mechanism, which bounds it; for replace-one it is
        scaled by twice the clipping norm, of which the event does not say that it is.
    """
    module = load("jax_privacy.experimental.execution_plan", extra="jax-privacy")
    if not isinstance(plan, module.DPExecutionPlan):
        raise validate.fail("plan", "a DPExecutionPlan", plan)
    bands = getattr(plan.batch_selection_strategy, "cycle_length", 1)
    if bands > 1:
        raise ValueError(
            f"plan must have independent noise in every step, got one of {bands} bands, whose "
            "event bounds it but is not its mechanism"
        )
    if relation is Relation.REPLACE_ONE:
        raise ValueError(
            "relation must be 'add remove' or 'zero out' for a plan, whose event does not say by "
            "which sensitivity noise was scaled, got 'replace one'"
        )
    return from_dp_event(
        plan.dp_event, dataset_size=dataset_size, relation=relation, clip_norm=clip_norm
    )
