"""Verification of a refutation by ``audit-verify``, in a process of its own.

The verifier is a distribution of its own (``extras/verify``), which shares no code with this
package. A refutation that it contradicts is an error of one of the two.
"""

from __future__ import annotations

import enum
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.claims.judgement import Evidence, Judgement
from audit.claims.witness import Witness
from audit.codec.schemas import json_text
from audit.results import Verdict

SECONDS = 60.0  # limit on the time of one verification
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from audit_verify import run; run()"


class Outcome(enum.StrEnum):
    """The answer of the verifier."""

    VERIFIED = "verified"
    COUNTS_VERIFIED = "verified but for the draws"
    NOT_VERIFIED = "not verified"
    NOT_IN_TIME = "not verified in time"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Verification:
    """The answer of the verifier, and its reason in one line."""

    outcome: Outcome
    reason: str

    @property
    def line(self) -> str:
        """Outcome and reason in one line."""
        return f"{self.outcome}: {self.reason}"


def verify(witness: Witness | Mapping[str, Any], *, seconds: float = SECONDS) -> Verification:
    """Return what the verifier says about a witness within some seconds.

    It is contradicted if the verifier does not find the refutation, or refuses the witness.
    """
    text = witness.to_json() if isinstance(witness, Witness) else json_text(dict(witness))
    content = json.loads(text)
    exact = content["evidence"] == Evidence.EXACT
    if content["partition" if exact else "samples"] is None:
        lack = "no partition is known that decides it"
        combined = "its bound combines several events"
        return Verification(Outcome.NOT_VERIFIED, lack if exact else combined)
    found = importlib.util.find_spec("audit_verify")
    if found is None or found.origin is None or importlib.util.find_spec("flint") is None:
        return Verification(Outcome.NOT_VERIFIED, "audit-verify is not installed")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "witness.json"
        file.write_text(text, encoding="utf-8")
        package = str(Path(found.origin).parents[1])
        command = [sys.executable, "-I", "-c", _PROGRAM, package, str(file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return Verification(Outcome.NOT_IN_TIME, f"the limit is {seconds:g} s")
    said = (done.stdout or done.stderr).strip().splitlines()
    reason = said[0] if done.stdout and said else (said or ["no answer"])[-1]
    verified = Outcome.VERIFIED if exact else Outcome.COUNTS_VERIFIED
    outcomes = {0: verified, 3: Outcome.NOT_IN_TIME}
    return Verification(outcomes.get(done.returncode, Outcome.CONTRADICTED), reason)


def with_verification(judgement: Judgement, *, seconds: float = SECONDS) -> Judgement:
    """Return a judgement with its refutation verified; an error if the verifier contradicts it.

    Of samples the counts are verified. Other judgements are returned as they are; a refutation that
    could not be verified says why.
    """
    if judgement.verdict is not Verdict.REFUTED:
        return judgement
    if judgement.witness is None:
        found = Verification(Outcome.NOT_VERIFIED, "there is no witness")
    else:
        found = verify(judgement.witness, seconds=seconds)
    if found.outcome is Outcome.CONTRADICTED:
        message = f"audit-verify does not confirm the refutation: {found.reason}"
        return replace(
            judgement, verdict=Verdict.ERROR, verification=found.outcome.value, message=message
        )
    message = judgement.message
    if found.outcome in (Outcome.NOT_VERIFIED, Outcome.NOT_IN_TIME):
        message += f"; {found.line}"
    return replace(judgement, verification=found.outcome.value, message=message)
