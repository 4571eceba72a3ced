"""Compute a refutation again from its witness alone, in two ways that share no engine with it."""

from audit.claims.recompute.outcomes import Outcome, Recomputed, Way
from audit.claims.recompute.ways import recompute

__all__ = ["Outcome", "Recomputed", "Way", "recompute"]
