"""What type checkers see of the alias; `make lint` checks this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

import audit
import noisy_sgd_audit
import noisy_sgd_audit.adapters.opacus
import noisy_sgd_audit.bounds.assumptions
from noisy_sgd_audit import claims
from noisy_sgd_audit.bounds import best
from noisy_sgd_audit.curves import PrivacyCurve
from noisy_sgd_audit.testing import assert_bound_holds


def same(mechanism: noisy_sgd_audit.NoisySGD, curve: PrivacyCurve) -> audit.NoisySGD:
    assert_type(curve.epsilon(1e-5), float)
    assert_type(best(mechanism, delta=1e-5), audit.bounds.BestBound)
    assert_type(claims.check_file("x.claims.yaml"), tuple[audit.claims.Judgement, ...])
    assert_type(mechanism.batching, audit.Batching)
    assert_type(noisy_sgd_audit.bounds.assumptions.CONVEX, audit.bounds.assumptions.Assumption)
    assert_bound_holds(curve, mechanism, deltas=[1e-5])
    return mechanism
