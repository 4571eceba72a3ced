"""The pairs that may test a claim, with laws and brackets that claims on one subject share.

A claim is tested by the pair that it names, or by all that fit its mechanism (`Candidates`). Claims
on one subject take numbers at many places: a pair's numbers are computed for a block of places at a
time, and only where the pair may exceed those before it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from audit import exact
from audit.claims.claim import Claim, Pair, Search, UserPair, described
from audit.claims.sources import InvalidClaim
from audit.claims.witness import describable
from audit.constructions import Construction, suggested_members
from audit.constructions.explicit import Repeated
from audit.curves import Order
from audit.curves.brackets import Bracket, BracketError
from audit.curves.quantities import EpsilonAtDelta, Quantity, RenyiAtOrder
from audit.exact.from_pair import exact_seconds
from audit.mechanism import Composition, NoisySGD, Release
from audit.numerics.arrays import Array
from audit.search import Epsilon, RenyiDivergence, worst_case
from audit.search.evaluation import quick_seconds
from audit.search.found_pairs import shipped

Subject = NoisySGD | Composition | Pair

_MAX_LAWS = 128  # laws kept at a time; brackets are always kept
_BRACKET_SECONDS = 0.02  # seconds for the brackets of a computed law
_NO_TIME = 0.05  # seconds; faster pairs are tried in the order of the candidates
# Number of places computed together, and number at which a pair is compared with others.
_MAX_BATCH, _MAX_CHECKS = 1024, 32
_TIE_TOLERANCE = 1e-9  # relative

# The default search: this many pairs, on mechanisms where that takes a second or two.
_DEFAULT_EVALUATIONS = 60
_MAX_DEFAULT_SECONDS = 0.02  # for one pair
# ... of objectives that claims share: at these deltas and Renyi orders
_SHARED_DELTAS = tuple(10.0**-k for k in (1, 3, 5, 8, 12))
_SHARED_ORDERS = (2.0, 8.0, 32.0)
# Limit on the time of a requested search, as estimated from the sizes of the laws.
_MAX_REQUESTED_SECONDS = 60.0
# For mu and for the power of a test the search maximises epsilon.
_TYPICAL_DELTA = 1e-3


class LawTooSlow(Exception):
    """The computation of a law was stopped at its deadline."""


class NoExactLaw(Exception):
    """A pair has no law at this precision; the message says why."""


@dataclass
class Deadline:
    """The end of the work on one claim, in the time of `time.perf_counter`."""

    at: float


class KnownPair:
    """A pair, and what has been computed of it so far; one thread computes its law at a time.

    ``used`` is called with the pair whenever its law is needed.
    """

    def __init__(self, pair: Pair, used: Callable[[KnownPair], None]) -> None:
        self.pair = pair
        self.brackets: dict[tuple[Quantity, Order], Bracket] = {}
        self._used = used
        self._law: exact.BracketedCurve | ValueError | None = None
        self._given_up = 0.0  # seconds after which the law was not there
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The pair in words."""
        return described(self.pair)

    @cached_property
    def seconds(self) -> float:
        """Estimated time of the pair's law and brackets, the same on every machine; 0 if closed."""
        estimate = exact_seconds(self.pair) if isinstance(self.pair, Construction) else 0.0
        return estimate + _BRACKET_SECONDS if estimate else 0.0

    @property
    def rank(self) -> float:
        """A sort key: the time in powers of two; infinite for pairs without an exact law."""
        if math.isinf(self.seconds):
            return math.inf
        return 0 if self.seconds < _NO_TIME else math.ceil(math.log2(self.seconds / _NO_TIME))

    def law(self, until: float = math.inf) -> exact.BracketedCurve:
        """Return the exact curve, computed once.

        Raises `LawTooSlow` if it is not there by the time ``until``, `NoExactLaw` if there is none.
        """
        found = self._law
        if found is None:
            left = max(until - time.perf_counter(), 0.0)
            if not self._lock.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
                raise LawTooSlow
            try:
                found = self._law = self._law or self._computed(until)
            finally:
                self._lock.release()
        self._used(self)
        if isinstance(found, ValueError):
            raise NoExactLaw(str(found)) from found
        return found

    def forget(self) -> None:
        """Release the law's memory; it is computed again if it is needed."""
        self._law = None

    def _computed(self, until: float) -> exact.BracketedCurve | ValueError:
        began = time.perf_counter()
        if until - began <= self._given_up:
            raise LawTooSlow

        def check(done: int, total: int) -> None:
            if time.perf_counter() > until:
                self._given_up = until - began
                raise LawTooSlow

        try:
            return exact.curve(self.pair, progress=check)
        except ValueError as error:  # no law at this precision
            return error


class Candidates:
    """The pairs that are tried against claims on one subject, in their order, and their numbers.

    The subject is a pair, the only candidate, or a mechanism. Records are in one of the allowed
    ``batches``.
    """

    def __init__(self, known: KnownPairs, subject: Subject, batches: range | None) -> None:
        self._known, self._subject, self._batches = known, subject, batches
        self._blocks: dict[Quantity, PlaceRange] = {}
        self._done: set[tuple[KnownPair, Quantity, Order]] = set()

    @cached_property
    def pairs(self) -> tuple[KnownPair, ...]:
        """The pairs in the order in which they are tried.

        The order depends on the mechanism only: fast pairs come first, and among those the ones
        that were found for this mechanism and those that are suggested first.
        """
        subject = self._subject
        if not isinstance(subject, NoisySGD | Composition):
            return (self._known.one(subject),)
        pairs = filter(describable, (*shipped(subject), *suggested_members(subject)))
        placed = dict.fromkeys(_placed(pair, self._batches) for pair in pairs)
        found = [self._known.one(pair) for pair in placed if pair is not None]
        return tuple(sorted(found, key=lambda known: known.rank))

    def searched(self, claim: Claim, quantity: Quantity) -> KnownPair | None:
        """Return the pair that the worst-case search finds for a number; None without a search.

        A claim with ``search`` gets its own, with fewer pairs if that many would take minutes. Any
        other claim on a bounded convex mechanism shares a small one, of an objective near its
        quantity, with the others on that mechanism.
        """
        mechanism, search = claim.mechanism, claim.search
        if mechanism is None or isinstance(mechanism, Composition) or _other_runs(claim):
            return None
        shared = search is None
        if search is None:
            if claim.pair is not None or not _is_cheap(mechanism):
                return None
            search = Search(evaluations=_DEFAULT_EVALUATIONS)
        affordable = _MAX_REQUESTED_SECONDS / max(quick_seconds(mechanism), 1e-6)
        evaluations = min(search.evaluations, int(min(affordable, 1e9)))
        if evaluations == 0:
            return None
        objective = _objective(quantity, shared=shared)
        found = _found(mechanism, replace(search, evaluations=evaluations), objective)
        placed = None if found is None else _placed(found, self._batches)
        return None if placed is None else self._known.one(placed)

    def bracket(
        self, known: KnownPair, quantity: Quantity, order: Order, deadline: Deadline, until: float
    ) -> Bracket | None:
        """Return (low, high) around a number of a pair; None if another pair has a larger one.

        Raises as `KnownPair.law` does, if the law is not there by the time ``until``.
        """
        key = quantity, order
        if key in known.brackets:
            return known.brackets[key]
        if (known, *key) in self._done:
            return None  # whether or not the law is still kept
        curve = known.law(until)
        if quantity.at is None:
            return known.brackets.setdefault(key, quantity.bracket(curve, order))
        block = self._block(quantity)
        asked = block.quantities if curve.many_at_once else (quantity,)
        began = time.perf_counter()
        try:
            with block.lock:
                if (known, *key) not in self._done:  # by another thread
                    block.add(known, order, curve, asked, leads=known in self.pairs)
                    self._done.update((known, one, order) for one in asked)
            # several claims share the work, of which this one takes one part
            deadline.at += (time.perf_counter() - began) * (1 - 1 / len(asked))
        except BracketError:  # perhaps at the place of another claim
            known.brackets[key] = quantity.bracket(curve, order)
        return known.brackets.get(key)

    def _block(self, quantity: Quantity) -> PlaceRange:
        """Return the block of a place, made of all places that claims expect so far."""
        with self._known.lock:
            if quantity not in self._blocks:
                kind = type(quantity)
                expected = {quantity, *self._known.expected[self._subject]} - self._blocks.keys()
                found = (one.at for one in expected if type(one) is kind and one.at is not None)
                places = np.array(sorted(found, reverse=not kind.rises))
                for part in np.array_split(places, -(-places.size // _MAX_BATCH)):
                    block = PlaceRange(kind, part)
                    self._blocks.update(dict.fromkeys(block.quantities, block))
            return self._blocks[quantity]


class PlaceRange:
    """Neighbouring places of one kind of number, along which the numbers of any pair increase."""

    def __init__(self, kind: type[Quantity], places: Array) -> None:
        self.quantities = tuple(kind(float(at)) for at in places)
        self._kind, self._places = kind, places
        self._most = np.full(places.size, -1.0)  # largest known numbers of the candidates
        self.lock = threading.Lock()

    def add(
        self,
        known: KnownPair,
        order: Order,
        curve: exact.BracketedCurve,
        asked: tuple[Quantity, ...],
        *,
        leads: bool,
    ) -> None:
        """Compute the numbers of a pair at all places, or one, where they may exceed others.

        They increase along the block: what does not exceed at the last of several places what
        others have at the first exceeds at none. With ``leads`` they exclude other pairs.
        """
        first = self.quantities.index(asked[0])
        own = slice(first, first + len(asked))
        places, most = self._places[own], self._most[own]
        starts = np.arange(0, places.size, -(-places.size // _MAX_CHECKS))
        ends = np.append(starts[1:], places.size)
        # numbers equal up to rounding, such as the other order of a symmetric pair, do not exceed
        levels = np.minimum.reduceat(most, starts) * (1 + _TIE_TOLERANCE)
        open_ = levels < 0  # nothing is known there
        compared = np.isfinite(levels) & ~open_  # nothing exceeds an infinite epsilon
        if compared.any():
            last = places[ends - 1][compared]
            open_[compared] = self._kind.may_exceed(curve, last, levels[compared], order)
        wanted = first + np.flatnonzero(np.repeat(open_, ends - starts))
        if not wanted.size:
            return
        lows, highs = self._kind.brackets(curve, self._places[wanted], order)
        for place, low, high in zip(wanted, lows.tolist(), highs.tolist(), strict=True):
            known.brackets[self.quantities[place], order] = low, high
        if leads:
            self._most[wanted] = np.maximum(self._most[wanted], lows)


class KnownPairs:
    """All pairs that the claims judged together have used, and their most recent laws."""

    def __init__(self) -> None:
        self.expected: defaultdict[Subject, set[Quantity]] = defaultdict(set)
        self.lock = threading.RLock()
        self._pairs: dict[Pair, KnownPair] = {}
        self._recent: OrderedDict[KnownPair, None] = OrderedDict()
        self._candidates: dict[tuple[Subject, range | None], Candidates] = {}

    def expect(self, claims: Iterable[Claim]) -> None:
        """Register claims in advance, so that numbers of one subject are computed together."""
        with self.lock:
            for claim in claims:
                subject = claim.mechanism if claim.pair is None else claim.pair
                if subject is None or isinstance(subject, UserPair):
                    continue
                for quantity in claim.statement.quantities:
                    with contextlib.suppress(ValueError):  # a wrong place is left to the verdict
                        quantity.check()
                        self.expected[subject].add(quantity)

    def one(self, pair: Pair) -> KnownPair:
        """Return a pair with its known numbers."""
        return self._pairs.setdefault(pair, KnownPair(pair, self._keep))

    def of(self, subject: Subject, batches: range | None = None) -> Candidates:
        """Return the candidates for claims on a subject."""
        with self.lock:
            new = Candidates(self, subject, batches)
            return self._candidates.setdefault((subject, batches), new)

    def _keep(self, known: KnownPair) -> None:
        with self.lock:
            self._recent[known] = None
            self._recent.move_to_end(known)
            if len(self._recent) > _MAX_LAWS:
                self._recent.popitem(last=False)[0].forget()


def candidates_for(claim: Claim, known: KnownPairs) -> Candidates:
    """Return the pairs to try, of a record that the claim is about: its own, or all that fit."""
    (entry, options), pair = claim.bound, claim.pair
    batches, runs = None, 1  # None for any batch
    if entry is not None and isinstance(claim.mechanism, NoisySGD):
        batches = entry.record_scope.batches(claim.mechanism, options)
        runs = entry.released_runs(options)
    if pair is None:
        if claim.mechanism is None:
            raise InvalidClaim("mechanism or pair must be given, got neither")
        for name in _other_runs(claim):
            raise InvalidClaim(f"pair must be given for a bound with the option {name!r}")
        return known.of(claim.mechanism, batches)
    assert not isinstance(pair, UserPair)  # judged in a worker
    if isinstance(pair, Repeated) and pair.times > runs:
        needed = f"a bound on at least {pair.times} tasks"
        raise InvalidClaim(f"Repeated needs {needed}, got tasks={runs}")
    if not describable(pair):
        wanted = "pair must have piecewise linear updates, which a witness can describe"
        raise InvalidClaim(f"{wanted}, got {pair.name}")
    if getattr(pair, "mechanism", None) not in (None, claim.mechanism):
        wanted = "pair must be of the claim's mechanism"
        raise InvalidClaim(f"{wanted}, got {described(pair)} of another")
    placed = _placed(pair, batches)
    if placed is None:
        wanted = "pair must differ in a record that the bound is about"
        raise InvalidClaim(f"{wanted}, got {described(pair)}")
    return known.of(placed)


def _other_runs(claim: Claim) -> list[str]:
    """Return the options of a claim's bound that change what is run, so that no other pair fits."""
    entry, options = claim.bound
    return [] if entry is None else [name for name in entry.other_runs if name in options]


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


@functools.lru_cache(maxsize=256)
def _found(
    mechanism: NoisySGD, search: Search, objective: Epsilon | RenyiDivergence
) -> Construction | None:
    try:
        return worst_case(mechanism, objective=objective, **vars(search)).construction
    except ValueError:  # no pair whose laws can be computed
        return None


@functools.lru_cache(maxsize=256)
def _is_cheap(mechanism: NoisySGD) -> bool:
    return (
        mechanism.release is Release.LAST_ITERATE
        and mechanism.convex
        and mechanism.diameter is not None
        and quick_seconds(mechanism) <= _MAX_DEFAULT_SECONDS
    )


def _objective(quantity: Quantity, *, shared: bool) -> Epsilon | RenyiDivergence:
    """Return the objective of a search for a number, or the nearest of those that claims share."""
    kind: type[Epsilon | RenyiDivergence] = Epsilon
    at, choices = _TYPICAL_DELTA, _SHARED_DELTAS
    if isinstance(quantity, RenyiAtOrder):
        kind, at, choices = RenyiDivergence, quantity.at, _SHARED_ORDERS
    elif isinstance(quantity, EpsilonAtDelta):
        at = quantity.at
    if shared and at:
        at = min(choices, key=lambda choice: abs(math.log(choice / at)))
    return kind(at)
