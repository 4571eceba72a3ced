"""A template: copy it, state your theorem, and run ``audit-check panel my_theorem.py``."""

from audit.bounds import Assumption, Source, Status, assumptions, bound
from audit.curves import GaussianCurve  # RenyiCurve, PureCurve and TailCurve are others


@bound(
    id="community.template",
    source=Source(("Family, Given",), 2026, "Title of the paper", "Theorem 1", arxiv="0000.00000"),
    statement="full batches: mu-GDP with mu = min(D + S eta/n, T S eta/n)/(eta sigma)",
    assumes=(
        assumptions.LAST_ITERATE,
        assumptions.FULL_BATCHES,
        assumptions.CONVEX,
        assumptions.UNCLIPPED,
        assumptions.CONTRACTIVE_STEPS,
        assumptions.CONSTANT_STEP_SIZE,
        assumptions.BOUNDED_DOMAIN,
        Assumption("two steps or more", lambda m: m.steps > 1, lambda m: f"steps={m.steps}"),
    ),
    status=Status.UNPROVEN,
)
def theorem_1(mechanism):
    """Return the privacy curve that the theorem claims for a mechanism (audit.NoisySGD)."""
    push = mechanism.sensitivity * mechanism.step_size / mechanism.dataset_size
    apart = min(mechanism.diameter + push, mechanism.steps * push)
    return GaussianCurve(apart / mechanism.step_std)
