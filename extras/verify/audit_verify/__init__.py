"""Verify a refutation of a privacy claim in ball arithmetic: ``audit-verify WITNESS.json``.

A witness names two laws P and Q, a finite partition, and a claimed bound on how far apart the laws
are. The probabilities of the cells are enclosed in balls (python-flint). By data processing, every
divergence of the cells is at most that of the laws, so a claim that the cells exceed is refuted.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flint import arb, ctx

from audit_verify.admissible import trusted
from audit_verify.laws import explicit_cells
from audit_verify.quantities import composed, exceeds
from audit_verify.reader import NotAWitnessError, check, read
from audit_verify.walks import TooLongError, chain_cells

__all__ = ["Answer", "NotAWitnessError", "Outcome", "main", "read", "run", "verify"]

_ACCURACIES = (40, 100, 300, 1000)  # bits; the next one is tried if a ball contains the threshold


class Answer(enum.Enum):
    """The answer of the verifier; its value is the exit status."""

    REFUTED = 0
    NOT_REFUTED = 1
    NOT_A_WITNESS = 2
    TOO_LONG = 3


@dataclass(frozen=True)
class Outcome:
    """An answer, the numbers that it rests on, and what it takes on trust."""

    answer: Answer
    reason: str
    trusted: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return the outcome as lines of text."""
        words = {
            Answer.REFUTED: "refuted",
            Answer.NOT_REFUTED: "not refuted by this witness",
            Answer.NOT_A_WITNESS: "this is not a witness",
            Answer.TOO_LONG: "not verified, it would take too long",
        }
        head = f"{words[self.answer]}: {self.reason}"
        return (head, *(f"taken on trust: {what}" for what in self.trusted))


def verify(content: Mapping[str, Any]) -> Outcome:
    """Return whether a witness refutes its claim.

    Parameters
    ----------
    content
        The content of a witness file.

    Returns
    -------
    Outcome
        ``REFUTED`` only if the balls prove it; nothing is raised.
    """
    try:
        check(content)
        on_trust = trusted(content)
        for bits in _ACCURACIES:
            ctx.prec = bits + 60
            proven, resolved, sides = _decided(content, bits)
            if proven:
                return Outcome(Answer.REFUTED, sides, on_trust)
            if resolved:  # more bits do not change it
                break
    except TooLongError as reason:
        return Outcome(Answer.TOO_LONG, str(reason))
    except (ValueError, ArithmeticError) as reason:
        return Outcome(Answer.NOT_A_WITNESS, " ".join(str(reason).split()))
    return Outcome(Answer.NOT_REFUTED, sides, on_trust)


def _decided(content: Mapping[str, Any], bits: int) -> tuple[bool, bool, str]:
    pair, partition = content["pair"], content["partition"]
    times = pair.get("times", 1)
    if pair["kind"] == "process":
        cells = chain_cells(pair, partition, bits)
    else:
        cells = explicit_cells(pair, partition)
        scores = partition.get("scores")
        if scores is not None:
            if len(scores) != len(cells):
                need = f"one for each of the {len(cells)} cells, got {len(scores)}"
                raise NotAWitnessError(f"partition.scores must be {need}")
            cells, times = composed(cells, scores, partition["modulus"], times), 1
    if content["order"] == "reverse":
        cells = [(q, p) for p, q in cells]
    claimed = arb(content["claimed"]) + arb(content["slack"])
    resolved = all(x.rel_accuracy_bits() > 30 for x in itertools.chain(*cells) if not x.is_zero())
    proven, denied, sides = exceeds(content["quantity"], arb(content["at"]), claimed, cells, times)
    return proven, resolved or denied, sides


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify a witness file, print the outcome and return the exit status.

    0: refuted; 1: not refuted by this witness; 2: not a witness; 3: it would take too long.
    """
    parser = argparse.ArgumentParser(
        prog="audit-verify",
        description="Verify a refutation of a privacy claim in ball arithmetic.",
        epilog="exit status: 0 refuted; 1 not refuted by this witness; 2 not a witness, with the "
        "reason; 3 it would take too long",
    )
    parser.add_argument("file", type=Path, metavar="WITNESS.json")
    try:
        outcome = verify(read(parser.parse_args(arguments).file))
    except NotAWitnessError as reason:
        outcome = Outcome(Answer.NOT_A_WITNESS, str(reason))
    print("\n".join(outcome.lines()))
    return outcome.answer.value


def run() -> None:
    """Run the command ``audit-verify`` and exit with its status."""
    sys.exit(main())
