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

from audit_verify.laws import (
    Draw,
    TooLongError,
    composed,
    exceeds,
    explicit_cells,
)
from audit_verify.reader import NotAWitnessError, chains_of, check, read
from audit_verify.runs import chains, laws_of_iterates
from audit_verify.samples import rejects
from audit_verify.walks import chain_cells

__all__ = ["Answer", "NotAWitnessError", "Outcome", "main", "read", "run", "verify"]

_LEAST_BITS, _MOST_BITS = 50, 2000


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
        bits = max((content["partition"] or {}).get("bits", 0), _LEAST_BITS)
        while True:
            ctx.prec = bits + 60
            proven, resolved, sides = _decided(content, bits)
            if proven:
                return Outcome(Answer.REFUTED, sides, _trusted(content))
            if resolved or bits == _MOST_BITS:  # more bits do not change it
                break
            bits = min(2 * bits, _MOST_BITS)  # a ball contains the threshold
    except TooLongError as reason:
        return Outcome(Answer.TOO_LONG, str(reason))
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as reason:
        return Outcome(Answer.NOT_A_WITNESS, " ".join(str(reason).split()))
    return Outcome(Answer.NOT_REFUTED, sides)


def _trusted(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a witness leaves to trust."""
    if content["evidence"] == "sampled":
        return (
            "the counts: that the draws are independent, and of neighbouring datasets",
            "that the event was chosen, and the error divided, without the counted draws",
        )
    if content["mechanism"] is None:
        return ("that the two laws belong to neighbouring datasets",)
    return ()


def _decided(content: Mapping[str, Any], bits: int) -> tuple[bool, bool, str]:
    at, claimed = arb(content["at"]), arb(content["claimed"]) + arb(content["slack"])
    if content["evidence"] == "sampled":
        return rejects(content["quantity"], at, claimed, content["samples"])
    draws = _draws(content["pair"], content["partition"], content["mechanism"], bits)
    if content["order"] == "reverse":
        draws = [Draw([(q, p) for p, q in d.cells], d.times, d.lost[::-1]) for d in draws]
    every = itertools.chain.from_iterable(cell for draw in draws for cell in draw.cells)
    resolved = all(x.rel_accuracy_bits() > 30 for x in every if not x.is_zero())
    resolved &= all(mass.is_zero() for draw in draws for mass in draw.lost)
    proven, denied, sides = exceeds(content["quantity"], at, claimed, draws)
    return proven, resolved or denied, sides


def _draws(
    pair: Mapping[str, Any], partition: dict[str, Any], mechanism: Any, bits: int
) -> list[Draw]:
    """Return the cells of each kind of draw."""
    if pair["kind"] in ("run", "process"):
        both = chains(pair, mechanism) if pair["kind"] == "run" else chains_of(pair)
        return [Draw(chain_cells(both, partition, bits))]
    parts, partitions = [pair], [partition]
    if pair["kind"] == "product":
        parts, partitions = pair["parts"], partition["parts"]
    if mechanism is not None:
        mechanisms = mechanism if isinstance(mechanism, list) else [mechanism]
        parts = [laws_of_iterates(m, p) for m, p in zip(mechanisms, parts, strict=True)]
    draws = [
        Draw(explicit_cells(part, own), part.get("times", 1))
        for part, own in zip(parts, partitions, strict=True)
    ]
    if "modulus" not in partition:
        return draws
    scores = [own["scores"] for own in partitions]
    for draw, own in zip(draws, scores, strict=True):
        if len(own) != len(draw.cells):
            need = f"one for each of the {len(draw.cells)} cells, got {len(own)}"
            raise NotAWitnessError(f"partition.scores must be {need}")
    return [composed(draws, scores, partition["modulus"])]


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
