"""A template: copy it, state your theorem, and run ``audit-check --panel my_theorem.py``."""

from audit.bounds import Source, Status, bound
from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FULL_BATCHES,
    LAST_ITERATE,
    UNCLIPPED,
    Assumption,
)
from audit.curves import GaussianCurve  # RenyiCurve, PureCurve and TailCurve are others

SEVERAL_STEPS = Assumption("two steps or more", lambda m: m.steps > 1, lambda m: f"T={m.steps}")


@bound(
    id="community.template",
    source=Source(("Family, Given",), 2026, "Title of the paper", "Theorem 1", arxiv="0000.00000"),
    statement="full batches: mu-GDP with mu = min(D + S eta/n, T S eta/n)/(eta sigma)",
    assumes=(LAST_ITERATE, FULL_BATCHES, CONVEX, UNCLIPPED, CONTRACTIVE_STEPS,
             CONSTANT_STEP_SIZE, BOUNDED_DOMAIN, SEVERAL_STEPS),
    status=Status.UNPROVEN,
)  # fmt: skip
def theorem_1(mechanism):
    """Return the privacy curve that the theorem claims for a mechanism (audit.NoisySGD)."""
    push = mechanism.sensitivity * mechanism.step_size / mechanism.dataset_size
    apart = min(mechanism.diameter + push, mechanism.steps * push)
    return GaussianCurve(apart / mechanism.step_std)
