"""Verify a refutation of a privacy claim in ball arithmetic: ``audit-verify WITNESS.json``.

A witness names two laws P and Q, a finite partition, and a claimed bound on how far apart the laws
are. The probabilities of the cells are enclosed in balls (python-flint). By data processing, every
divergence of the cells is at most that of the laws, so a claim that the cells exceed is refuted.
"""

from __future__ import annotations

import argparse
import enum
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flint import arb, ctx

from audit_verify import laws
from audit_verify.laws import Draw, NotAWitnessError, Plain, TooLongError, require, side_by_side
from audit_verify.reader import check, read
from audit_verify.runs import chains, laws_of_iterates
from audit_verify.samples import rejects
from audit_verify.walks import chain_cells, chains_of

__all__ = ["Answer", "NotAWitnessError", "Outcome", "main", "read", "run", "verify"]

_MIN_BITS, _MAX_BITS = 60, 2000
_SETTLED = 1e-9  # twice the bits change less of what the cells prove: they prove no more
_MAX_SECONDS = 600.0
_STATUS = (
    "exit status: 0 refuted; 1 not refuted by this witness; 2 not a witness, with the reason; "
    "3 it would take too long"
)


class Answer(enum.Enum):
    """The answer of the verifier, in words; its place is the exit status."""

    REFUTED = "refuted"
    NOT_REFUTED = "not refuted by this witness"
    NOT_A_WITNESS = "this is not a witness"
    TOO_LONG = "not verified, it would take too long"


@dataclass(frozen=True)
class Outcome:
    """An answer, the numbers that it rests on, and what it takes on trust."""

    answer: Answer
    reason: str
    trusted: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return the outcome as lines of text."""
        head = f"{self.answer.value}: {self.reason}"
        return (head, *(f"taken on trust: {what}" for what in self.trusted))


def verify(content: Plain) -> Outcome:
    """Return whether the content of a witness file refutes its claim.

    It does, ``REFUTED``, only if the balls prove it; nothing is raised.
    """
    try:
        check(content)
        bits, before = max((content["partition"] or {}).get("bits", 0), _MIN_BITS), arb.nan()
        while True:
            ctx.prec = bits + 60
            proven, denied, least, sides = _decided(content, bits)
            if proven:
                return Outcome(Answer.REFUTED, sides, _trusted(content))
            settled = least > 0 and abs(least - before) < least * _SETTLED
            if denied or settled or bits == _MAX_BITS:
                return Outcome(Answer.NOT_REFUTED, sides)
            before, bits = least, min(2 * bits, _MAX_BITS)
    except TooLongError as reason:
        return Outcome(Answer.TOO_LONG, str(reason))
    except KeyError as missing:
        return Outcome(Answer.NOT_A_WITNESS, f"{missing.args[0]} must be given")
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RuntimeError) as e:
        return Outcome(Answer.NOT_A_WITNESS, " ".join(str(e).split()))


def _trusted(content: Plain) -> tuple[str, ...]:
    """Return what a witness leaves to trust."""
    if content["evidence"] == "sampled":
        return (
            "the counts: that the draws are independent, and of neighbouring datasets",
            "that the event, the error and its parts were chosen without the counted draws",
        )
    return () if content["mechanism"] else ("that the two laws belong to neighbouring datasets",)


def _decided(content: Plain, bits: int) -> laws.Decision:
    """Return what cells with this accuracy say of the claim."""
    at, claimed = arb(content["at"]), arb(content["claimed"]) + arb(content["slack"])
    if content["evidence"] == "sampled":
        return rejects(content["quantity"], at, claimed, content["samples"])
    draws = _draws(content["pair"], content["partition"], content["mechanism"], bits)
    # the power is that of the second law
    if (content["order"] == "reverse") != (content["quantity"] == "1 - beta"):
        draws = [Draw([(q, p) for p, q in own.cells], own.times) for own in draws]
    return laws.exceeds(content["quantity"], at, claimed, draws)


def _draws(pair: Plain, partition: Plain, mechanism: Any, bits: int) -> list[Draw]:
    """Return the cells of each kind of draw."""
    kind = pair["kind"]
    given = "one" if isinstance(mechanism, dict) else "several" if mechanism else "none"
    allowed = {"run": ("one",), "process": ("none",), "product": ("none", "several")}
    fits = given in allowed.get(kind, ("none", "one"))
    require(fits, f"mechanism must be of the kind that {kind!r} needs, got {given}")
    if kind in ("run", "process"):
        both = chains(pair, mechanism) if kind == "run" else chains_of(pair)
        return [Draw(chain_cells(both, partition, bits))]
    parts, partitions = (x["parts"] if kind == "product" else [x] for x in (pair, partition))
    if mechanism is not None:
        mechanisms = mechanism if isinstance(mechanism, list) else [mechanism]
        shared = {(one.get("relation", "replace one"), one["dataset_size"]) for one in mechanisms}
        require(len(shared) == 1, "mechanism must be of one relation and dataset size")
        rows = side_by_side(mechanisms=mechanisms, parts=parts)
        parts = [laws_of_iterates(own, part) for own, part in rows]
    rows = side_by_side(parts=parts, partitions=partitions)
    draws = [Draw(laws.explicit_cells(part, own), part.get("times", 1)) for part, own in rows]
    if not any("scores" in own for own in partitions):
        return draws
    return [laws.composed(draws, [own["scores"] for own in partitions], partition["modulus"])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify a witness file, print the outcome and return the exit status."""
    parser = argparse.ArgumentParser(prog="audit-verify", description=__doc__, epilog=_STATUS)
    parser.add_argument("file", type=Path, metavar="WITNESS.json")
    file = parser.parse_args(arguments).file
    until, alarm = time.monotonic() + _MAX_SECONDS, threading.Timer(_MAX_SECONDS, interrupt_main)
    alarm.start()
    try:
        outcome = verify(read(file))
    except NotAWitnessError as reason:
        outcome = Outcome(Answer.NOT_A_WITNESS, str(reason))
    except (KeyboardInterrupt, MemoryError) as reason:
        if isinstance(reason, KeyboardInterrupt) and time.monotonic() < until:
            raise  # by the user
        outcome = Outcome(Answer.TOO_LONG, f"the limits are {_MAX_SECONDS:g} s and the memory")
    finally:
        alarm.cancel()
    print("\n".join(outcome.lines()))
    return list(Answer).index(outcome.answer)


def run() -> None:
    """Run the command ``audit-verify`` and exit with its status."""
    sys.exit(main())
