"""Judge claims about samples: scores of both laws that a user recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.adapters.scores import read_table
from audit.claims.claim import Claim, Samples
from audit.claims.claimed_numbers import BadClaim, ClaimedNumber
from audit.claims.judgement import Evidence, Judgement, Verdict
from audit.claims.quantities import EpsilonAtDelta
from audit.curves import Order

Array = NDArray[np.float64]


def judge_by_samples(
    claim: Claim, samples: Samples, numbers: Sequence[ClaimedNumber], error: float
) -> Judgement:
    """Return the judgement on a claim about samples.

    A false refutation has probability at most ``error``.

    Raises
    ------
    BadClaim
        If the scores cannot be read, or there are too few.
    """
    from audit.estimation import audit_samples  # imports Numba

    given = _both(samples)
    deltas = [n.quantity.delta for n in numbers if isinstance(n.quantity, EpsilonAtDelta)]
    try:
        x, x_prime, favours, how = _one_score(samples, *given, deltas, claim.budget.seed)
    except (ImportError, ValueError) as reason:
        raise BadClaim(f"samples: {' '.join(str(reason).split())}") from None

    def bounds(x: Array, x_prime: Array) -> list[tuple[float, Order]]:
        audit = audit_samples(
            x,
            x_prime,
            confidence=1 - error,
            seed=claim.budget.seed,
            deltas=tuple(dict.fromkeys(deltas)),
            favours=favours,
            group_size=samples.group_size,
        )
        return [number.quantity.sampled_bound(audit) for number in numbers]

    try:
        found = bounds(x, x_prime)
    except ValueError as reason:
        raise BadClaim(f"samples: {' '.join(str(reason).split())}") from None
    number, (low, order) = min(
        zip(numbers, found, strict=True),
        key=lambda found: (not found[0].refuted_by(found[1][0]), found[0].ratio(found[1][0])),
    )
    refuted = number.refuted_by(low)
    unable = "" if refuted else _unable(x, x_prime, favours, numbers, bounds)
    if refuted:
        verdict = Verdict.CONSISTENT if claim.statement.is_lower_bound else Verdict.REFUTED
    elif unable or claim.statement.is_lower_bound:
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.CONSISTENT
    place = f" at {number.quantity.where}" if number.quantity.where else ""
    says = "exceed" if refuted else "do not exceed"
    sizes = f"samples of {len(given[0])} and {len(given[1])} {'rows' if how else 'scores'}"
    name, group = number.quantity.name, samples.group_size
    if group > 1:
        sizes += f" that differ in {group} records"
        name += " of one record"
        how += f", from a pair that differs in {group} records"
    return Judgement(
        claim=claim,
        verdict=verdict,
        claimed=number.value,
        certified=low,
        quantity=number.quantity,
        order=order,
        pair=sizes,
        evidence=Evidence.SAMPLED,
        error=error,
        numbers=tuple(numbers),
        message=(
            f"{unable}the samples {says} it at confidence {1 - error:g}: {name} "
            f"at least {low:.6g}{place}, claimed {number.value:.6g}{how}; "
            f"scores {_digest(given[0])} and {_digest(given[1])}"
        ),
    )


def _one_score(
    samples: Samples, x: Array, x_prime: Array, deltas: Sequence[float], seed: int
) -> tuple[Array, Array, Order | None, str]:
    """Return one score per run, the law that high scores favour, and the method in words."""
    from audit.estimation.columns import LinearScore, combine
    from audit.estimation.group import Group

    if x.ndim == 1 and x_prime.ndim == 1 and samples.columns is None:
        return x, x_prime, samples.favours, ""
    group = Group(samples.group_size, tuple(deltas))
    *scores, combined = combine(
        x,
        x_prime,
        columns=samples.columns or LinearScore(),
        seed=seed,
        delta=min(group.pair_deltas(), default=0.0),
    )
    favours = samples.favours
    if favours is None and combined.towards_first:
        favours = Order.FORWARD
    how = f", {combined.number} columns by {combined.choice.kind}"
    if any(combined.choosing):
        used = f"{combined.choosing[0]} and {combined.choosing[1]} rows"
        how += f" (chosen with {used}, which certify nothing)"
    return scores[0], scores[1], favours, how


def _unable(
    x: Array,
    x_prime: Array,
    favours: Order | None,
    numbers: Sequence[ClaimedNumber],
    bounds: Callable[[Array, Array], list[tuple[float, Order]]],
) -> str:
    """Return why such scores could not exceed any claimed number; empty if they could."""
    if np.all(x == x[0]) and np.all(x_prime == x[0]):
        return "all scores are equal: "
    first = 0.0 if favours is Order.REVERSE else 1.0
    best = bounds(np.full(x.size, first), np.full(x_prime.size, 1 - first))
    if not any(one.refuted_by(low) for one, (low, _) in zip(numbers, best, strict=True)):
        return "this few scores cannot exceed it, whatever their values: "
    return ""


def _both(samples: Samples) -> tuple[Array, Array]:
    """Return the scores of both laws."""
    if samples.file is None:
        assert samples.x is not None  # one form or the other
        assert samples.x_prime is not None
        return scores("x", samples.x), scores("x_prime", samples.x_prime)
    try:
        table = read_table(samples.file, score=str(samples.score), member=str(samples.member))
        return table.x, table.x_prime
    except (ImportError, ValueError) as reason:
        raise BadClaim(f"samples: {' '.join(str(reason).split())}") from None


def scores(name: str, given: Path | tuple[float, ...]) -> Array:
    """Return scores from a ``.npy`` file, a text file with one line per run, or numbers.

    Shape (n,), or (n, d) if a file holds several numbers per run.
    """
    try:
        if not isinstance(given, Path):
            return validate.sample(**{name: np.asarray(given)})
        if not given.is_file():
            raise BadClaim(f"samples.{name} must be a file that exists, got {str(given)!r}")
        if given.suffix == ".npy":
            return _checked(name, np.load(given, allow_pickle=False))
        return _checked(name, np.array(_lines(given)))
    except (ValueError, OSError) as reason:
        place = f" of {given}" if isinstance(given, Path) else ""
        raise BadClaim(f"samples{place}: {' '.join(str(reason).split())[:200]}") from None


def _checked(name: str, found: NDArray[Any]) -> Array:
    """Return numbers, one or several per run, if all are finite."""
    if found.ndim != 2:
        return validate.sample(**{name: found})
    validate.sample(**{name: found.ravel()})
    return found[:, 0] if found.shape[1] == 1 else found


def _lines(file: Path) -> list[list[float]]:
    """Return the numbers of a text file, one row per line; line 1 may contain column names."""
    found: list[list[float]] = []
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    for index, line in enumerate(lines, start=1):
        words = line.replace(",", " ").replace(";", " ").split()
        if not words:
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            if index == 1:
                continue
            several = f"{len(found[0])} numbers" if found and len(found[0]) > 1 else "one number"
            got = validate.shown(line.strip())
            raise ValueError(f"line {index} must be {several}, got {got}") from None
        if found and len(row) != len(found[0]):
            raise ValueError(
                f"line {index} must hold as many numbers as those before ({len(found[0])}), "
                f"got {len(row)}"
            )
        found.append(row)
    return found


def _digest(values: Array) -> str:
    """Return the beginning of the SHA-256 of the scores, which identifies them."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]
