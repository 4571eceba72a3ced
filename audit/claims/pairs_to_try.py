"""The pairs that may test a claim: the one that it names, or all that fit its mechanism."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from audit.claims.claim import Claim, Pair, UserPair
from audit.claims.known_pairs import Candidates, KnownPair, KnownPairs
from audit.claims.searched import searched_pair
from audit.claims.sources import InvalidClaim
from audit.claims.witness import describable
from audit.claims.wording import described
from audit.constructions import Construction
from audit.constructions.explicit import Repeated
from audit.curves.quantities import Quantity
from audit.mechanism import Composition, NoisySGD


def allowed_batches(claim: Claim) -> range | None:
    """Return the batches that may contain the differing record; None for any."""
    entry, options = claim.bound
    if entry is None or not isinstance(claim.mechanism, NoisySGD):
        return None
    return entry.record_scope.batches(claim.mechanism, options)


def candidates_for(claim: Claim, batches: range | None, known: KnownPairs) -> Candidates:
    """Return the pairs to try, with their records in one of the allowed batches."""
    if claim.pair is not None:
        assert not isinstance(claim.pair, UserPair)  # judged in a worker
        return known.alone(_checked(claim, claim.pair, batches))
    if claim.mechanism is None:
        raise InvalidClaim("mechanism or pair must be given, got neither")
    for name in _other_runs(claim):
        raise InvalidClaim(f"pair must be given for a bound with the option {name!r}")
    return fitting(claim.mechanism, batches, known)


def fitting(
    mechanism: NoisySGD | Composition, batches: range | None, known: KnownPairs
) -> Candidates:
    """Return the pairs that fit a mechanism, with their records in one of the allowed batches."""

    def placed(pairs: Iterable[Pair]) -> Iterable[Pair]:
        found = (_placed(pair, batches) for pair in pairs if describable(pair))
        return dict.fromkeys(pair for pair in found if pair is not None)

    return known.candidates(mechanism, batches, placed)


def searched_for(
    claim: Claim, quantity: Quantity, batches: range | None, known: KnownPairs
) -> KnownPair | None:
    """Return the pair that the worst-case search finds for a number; None without a search."""
    if _other_runs(claim):
        return None
    found = searched_pair(claim, quantity)
    placed = None if found is None else _placed(found, batches)
    return None if placed is None else known.one(placed)


def _other_runs(claim: Claim) -> list[str]:
    """Return the options of a claim's bound that change what is run, so that no other pair fits."""
    entry, options = claim.bound
    return [] if entry is None else [name for name in entry.other_runs if name in options]


def _checked(claim: Claim, pair: Pair, batches: range | None) -> Pair:
    """Return the pair that a claim names, with its record where the statement requires it."""
    entry, options = claim.bound
    runs = 1 if entry is None else entry.released_runs(options)
    if isinstance(pair, Repeated) and pair.times > runs:
        needed = f"a bound on at least {pair.times} tasks"
        raise InvalidClaim(f"Repeated needs {needed}, got tasks={runs}")
    if not describable(pair):
        raise InvalidClaim(
            f"pair must have piecewise linear updates, which a witness can describe, "
            f"got {pair.name}"
        )
    mechanism = getattr(pair, "mechanism", None)
    if mechanism is not None and mechanism != claim.mechanism:
        wanted = "pair must be of the claim's mechanism"
        raise InvalidClaim(f"{wanted}, got {described(pair)} of another")
    placed = _placed(pair, batches)
    if placed is None:
        wanted = "pair must differ in a record that the bound is about"
        raise InvalidClaim(f"{wanted}, got {described(pair)}")
    return placed


def _placed(pair: Pair, batches: range | None) -> Pair | None:
    """Return the pair with its record in one of the allowed batches; None if it is in another.

    A pair without a given position takes the last allowed one.
    """
    if batches is None or not isinstance(pair, Construction):
        return pair
    if not hasattr(pair, "position"):  # a user's, without a choice of the batch
        return None
    if pair.position is None:
        return replace(pair, position=batches[-1])  # type: ignore[call-arg]
    return pair if pair.position in batches else None
