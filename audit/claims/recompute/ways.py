"""The two ways: laws by simple quadrature, and draws."""

from __future__ import annotations

import math

from audit import validate
from audit.claims.recompute.outcomes import Outcome, Recomputed, Way
from audit.claims.recompute.plainlaws import OutOfReach, nodes_of
from audit.claims.recompute.questions import question_of
from audit.claims.recompute.sampling import sampled
from audit.claims.witness import Witness

_FINE, _COARSE = 10, 7  # nodes a panel
_ROUNDING = 1e-9


def recompute(witness: Witness, *, seed: int = 0) -> Recomputed:
    """Compute a refutation again in two ways, from the witness's plain numbers.

    - Quadrature: both laws on Gauss-Legendre panels (closed forms where the iterates are normal),
      with the distance to a coarser rule as the error.
    - Draws: the laws are simulated with NumPy, events that were fixed before are counted, and
      Clopper-Pearson limits are taken against the refutation, at an error of 1e-6 each. An event
      too rare to be counted is ``NOT_SAMPLEABLE``, which confirms nothing.

    Parameters
    ----------
    witness
        What to compute again.
    seed
        Of the draws, a whole number of at least 0.

    Raises
    ------
    ValueError
        If the witness's pair is not understood.
    """
    validate.instance(Witness, witness=witness)
    validate.integer(0, seed=seed)
    question = question_of(witness)
    swap = witness.order == "reverse"
    try:
        fine, coarse = (nodes_of(witness.pair, swap, order) for order in (_FINE, _COARSE))
    except OutOfReach as reason:
        return Recomputed(
            witness,
            Way(math.nan, math.inf, question.claimed, Outcome.NOT_COMPUTABLE, str(reason)),
            Way(
                math.nan,
                math.inf,
                question.claimed,
                Outcome.NOT_SAMPLEABLE,
                "no law by quadrature to choose events from",
            ),
        )
    except (KeyError, TypeError, IndexError) as fault:
        raise ValueError(
            f"pair must be plain numbers as this package writes them: {fault!r}"
        ) from None
    value, other = question.value(fine), question.value(coarse)
    error = abs(value - other) + question.kink_error(fine, value)
    error += _ROUNDING * max(1.0, abs(value))
    above = value - error > question.claimed
    exact = Way(
        value,
        error,
        question.claimed,
        Outcome.CONFIRMED if above else Outcome.NOT_CONFIRMED,
        f"{fine.log_p.size} nodes",
    )
    return Recomputed(witness, exact, sampled(witness, question, fine, swap, seed))
