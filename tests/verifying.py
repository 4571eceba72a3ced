"""Verification of witnesses in tests, in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from audit.claims.witness import Witness


def is_refuted(witness: Witness | Mapping[str, Any]) -> bool:
    """Whether ``audit-verify`` confirms a refutation; the test is skipped without python-flint."""
    pytest.importorskip("flint")
    import audit_verify

    text = witness.to_json() if isinstance(witness, Witness) else json.dumps(witness)
    outcome = audit_verify.verify(json.loads(text))
    assert outcome.answer in (audit_verify.Answer.REFUTED, audit_verify.Answer.NOT_REFUTED), outcome
    return outcome.answer is audit_verify.Answer.REFUTED
