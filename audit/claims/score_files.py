"""Claims about samples: scores of both laws that a user recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

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
    """Return the judgement on a claim about samples; a false refutation has at most ``error``.

    Raises
    ------
    BadClaim
        If the scores cannot be read, or there are too few.
    """
    from audit.estimation import audit_samples  # imports Numba

    x, x_prime = _both(samples)
    deltas = [n.quantity.delta for n in numbers if isinstance(n.quantity, EpsilonAtDelta)]

    def bounds(x: Array, x_prime: Array) -> list[tuple[float, Order]]:
        audit = audit_samples(
            x,
            x_prime,
            confidence=1 - error,
            seed=claim.budget.seed,
            deltas=tuple(dict.fromkeys(deltas)),
            favours=samples.favours,
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
    unable = "" if refuted else _unable(x, x_prime, samples.favours, numbers, bounds)
    if refuted:
        verdict = Verdict.CONSISTENT if claim.statement.is_lower_bound else Verdict.REFUTED
    elif unable or claim.statement.is_lower_bound:
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.CONSISTENT
    place = f" at {number.quantity.where}" if number.quantity.where else ""
    says = "exceed" if refuted else "do not exceed"
    return Judgement(
        claim=claim,
        verdict=verdict,
        claimed=number.value,
        certified=low,
        quantity=number.quantity,
        order=order,
        pair=f"samples of {x.size} and {x_prime.size} scores",
        evidence=Evidence.SAMPLED,
        error=error,
        numbers=tuple(numbers),
        message=(
            f"{unable}the samples {says} it at confidence {1 - error:g}: {number.quantity.name} "
            f"at least {low:.6g}{place}, claimed {number.value:.6g}; scores {_digest(x)} and "
            f"{_digest(x_prime)}"
        ),
    )


def _unable(
    x: Array,
    x_prime: Array,
    favours: Order | None,
    numbers: Sequence[ClaimedNumber],
    bounds: Callable[[Array, Array], list[tuple[float, Order]]],
) -> str:
    """Return why such scores could exceed no claimed number; empty where they could."""
    if np.all(x == x[0]) and np.all(x_prime == x[0]):
        return "all scores are equal: "
    first = 0.0 if favours is Order.REVERSE else 1.0
    best = bounds(np.full(x.size, first), np.full(x_prime.size, 1 - first))
    if not any(one.refuted_by(low) for one, (low, _) in zip(numbers, best, strict=True)):
        return "so few scores cannot exceed it, whatever they are: "
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
    """Return scores: a ``.npy`` file, a text file with one number a line, or the numbers."""
    try:
        if not isinstance(given, Path):
            return validate.sample(**{name: np.asarray(given)})
        if not given.is_file():
            raise BadClaim(f"samples.{name} must be a file that exists, got {str(given)!r}")
        if given.suffix == ".npy":
            return validate.sample(**{name: np.load(given, allow_pickle=False)})
        return validate.sample(**{name: np.array(_lines(given))})
    except (ValueError, OSError) as reason:
        place = f" of {given}" if isinstance(given, Path) else ""
        raise BadClaim(f"samples{place}: {' '.join(str(reason).split())[:200]}") from None


def _lines(file: Path) -> list[float]:
    """Return the numbers of a text file; its first line may be the name of the column."""
    found: list[float] = []
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    for index, line in enumerate(lines, start=1):
        word = line.strip().rstrip(",;")
        if not word:
            continue
        try:
            found.append(float(word))
        except ValueError:
            if index > 1:
                raise ValueError(
                    f"line {index} must be one number, got {validate.shown(word)}"
                ) from None
    return found


def _digest(values: Array) -> str:
    """Return the beginning of the SHA-256 of scores: which ones these were."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]
