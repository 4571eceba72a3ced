"""jax-privacy: scores of its auditor, and mechanisms of its execution plans.

Written for jax-privacy 2.0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from audit import validate
from audit.adapters.dp_accounting import from_dp_event, relation_of
from audit.adapters.libraries import load
from audit.adapters.scores import CanaryScores
from audit.mechanism import Composition, NoisySGD, Relation

__all__ = ["from_auditor", "from_execution_plan"]


def from_auditor(auditor: Any) -> CanaryScores:
    """Return the scores held by a ``CanaryScoreAuditor``, not its conclusions.

    The scores keep their order, those of canaries in the training first. The auditor does not
    record whether each score comes from a separate run. If so, the scores are independent draws,
    for `audit.estimation.audit_samples`. Scores of many canaries of one run depend on each other:
    use `audit.estimation.audit_one_run`, which requires that an independent fair coin decided on
    each canary. Both account for the error of all thresholds.

    Parameters
    ----------
    auditor : CanaryScoreAuditor
        A ``jax_privacy.auditing.CanaryScoreAuditor``.

    Returns
    -------
    CanaryScores
        ``x`` holds the scores of canaries in the training, ``x_prime`` those of the others.

    Raises
    ------
    ImportError
        If jax-privacy is not installed.
    ValueError
        If ``auditor`` is something else, a score is not finite, or its version keeps no scores.

    Examples
    --------
    >>> import jax_privacy  # doctest: +SKIP
    >>> auditor = jax_privacy.auditing.CanaryScoreAuditor([2.1, 1.7], [0.3, 0.9])  # doctest: +SKIP
    >>> from_auditor(auditor).x  # doctest: +SKIP
    array([2.1, 1.7])
    """
    kind = load("jax_privacy.auditing", extra="jax-privacy").CanaryScoreAuditor
    if not isinstance(auditor, kind):
        raise validate.fail("auditor", "a CanaryScoreAuditor", auditor)
    try:
        # private attributes of jax-privacy 2.0.0, which has no public names for them
        sides = auditor._in_canary_scores, auditor._out_canary_scores
    except AttributeError as error:
        wrong = "auditor must keep its scores as that of jax-privacy 2.0 does"
        raise ValueError(f"{wrong}, got {error}") from None
    held_in, held_out = (validate.real_sample(scores=side) for side in sides)
    member = np.repeat([True, False], [held_in.size, held_out.size])
    return CanaryScores(np.concatenate([held_in, held_out]), member)


def from_execution_plan(
    plan: Any, *, dataset_size: int, relation: Relation, clip_norm: float = 1.0
) -> NoisySGD | Composition:
    """Return the mechanism of an execution plan, from its ``dp_event``.

    Parameters
    ----------
    plan : DPExecutionPlan
        A ``jax_privacy.experimental.execution_plan.DPExecutionPlan``.
    dataset_size : int
        Number of records n, which the plan does not contain.
    relation : Relation
        Relation of the accountant that the plan was configured with.
    clip_norm : float, default: 1.0
        Norm to which gradients are clipped.

    Returns
    -------
    NoisySGD or Composition
        The mechanism.

    Raises
    ------
    ImportError
        If jax-privacy is not installed.
    ValueError
        If ``plan`` is something else, or its event does not determine the mechanism: for noise that
        is correlated over bands the event belongs to another mechanism that bounds it; for
        replace-one it does not say whether noise was scaled by twice the clipping norm.

    Examples
    --------
    >>> from_execution_plan(  # doctest: +SKIP
    ...     plan, dataset_size=60_000, relation=Relation.ADD_REMOVE
    ... ).noise_multiplier
    1.1
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
    relation = relation_of(relation)
    if relation is Relation.REPLACE_ONE:
        raise ValueError(
            "relation must be 'add remove' or 'zero out' for a plan, because its event does not "
            "contain the sensitivity by which noise was scaled, got 'replace one'"
        )
    return from_dp_event(
        plan.dp_event, dataset_size=dataset_size, relation=relation, clip_norm=clip_norm
    )
