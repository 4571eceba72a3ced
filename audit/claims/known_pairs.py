"""Pairs with their laws and brackets, shared by the claims on one mechanism."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit import exact
from audit.constructions import Construction, suggested_members
from audit.constructions.explicit import ExplicitPair
from audit.curves import Order
from audit.curves.brackets import Bracket, BracketError
from audit.curves.quantities import Quantity
from audit.exact.from_pair import exact_seconds
from audit.mechanism import Composition, NoisySGD
from audit.search.found_pairs import shipped

Array = NDArray[np.float64]
Pair = Construction | ExplicitPair
_Subject = NoisySGD | Composition | Pair

_MOST_LAWS = 128  # laws kept at a time; brackets are always kept
_BRACKETS = 0.02  # seconds for the brackets of a computed law
_NO_TIME = 0.05  # seconds; faster pairs are tried in the order of the candidates
# Number of places computed together, and number at which a pair is compared with others.
_MOST_TOGETHER, _MOST_CHECKS = 1024, 32
_EQUAL = 1e-9  # relative


class LawTooSlow(Exception):
    """The computation of a law was stopped at its deadline."""


class NoExactLaw(Exception):
    """A pair has no law at this precision; the message says why."""


class KnownPair:
    """A pair, and what has been computed of it so far."""

    def __init__(self, pair: Pair, laws: _Laws) -> None:
        self.pair = pair
        self._laws = laws
        self._brackets: dict[tuple[Quantity, Order], Bracket] = {}
        self._witnessed: dict[tuple[Quantity, Order], float] = {}
        self.many_at_once: bool | None = None  # None until the law is computed

    @cached_property
    def seconds(self) -> float:
        """Estimated time of the pair's law and brackets, the same on every machine; 0 if closed."""
        estimate = exact_seconds(self.pair) if isinstance(self.pair, Construction) else 0.0
        return estimate + _BRACKETS if estimate else 0.0

    @property
    def rank(self) -> float:
        """A sort key: the time in powers of two, so that the fastest refutations come first.

        Infinite for pairs without an exact law.
        """
        if math.isinf(self.seconds):
            return math.inf
        return 0 if self.seconds < _NO_TIME else math.ceil(math.log2(self.seconds / _NO_TIME))

    def law(self, until: float = math.inf) -> exact.BracketedCurve:
        """Return the exact curve, computed once.

        Raises `LawTooSlow` if it is not there by the time ``until``, `NoExactLaw` if there is none.
        """
        curve = self._laws.of(self.pair, until)
        self.many_at_once = curve.many_at_once
        return curve

    def known(self, quantity: Quantity, order: Order) -> Bracket | None:
        """Return a bracket that was computed before, or None."""
        return self._brackets.get((quantity, order))

    def keep(self, quantity: Quantity, order: Order, bracket: Bracket) -> None:
        """Store (low, high) around the number of the pair."""
        self._brackets[quantity, order] = bracket

    def witness_at(self, quantity: Quantity, order: Order) -> float:
        """Return the place at which a witness compares the number, computed once."""
        key = quantity, order
        if key not in self._witnessed:
            self._witnessed[key] = quantity.witness_at(self.law(), order)
        return self._witnessed[key]


class Deadline:
    """The end of the work on one claim, in the time of `time.perf_counter`."""

    def __init__(self, seconds: float) -> None:
        self.at = time.perf_counter() + seconds

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self.at

    @contextlib.contextmanager
    def shared_by(self, count: int) -> Iterator[None]:
        """Charge this claim with one share of work that serves several claims."""
        began = time.perf_counter()
        yield
        self.at += (time.perf_counter() - began) * (1 - 1 / count)


class Candidates:
    """The pairs that are tried against a claim, in their order, and their numbers.

    Claims on one subject take numbers at many places. A pair's numbers are computed for many places
    at a time, and only where the pair may exceed those before it.
    """

    def __init__(self, pairs: Iterable[KnownPair], blocks: _Blocks) -> None:
        self.pairs = tuple(pairs)
        self._blocks = blocks
        self._compared: dict[_Block, _Compared] = {}

    def bracket(
        self,
        known: KnownPair,
        quantity: Quantity,
        order: Order,
        deadline: Deadline,
        *,
        law_until: float = math.inf,
    ) -> Bracket | None:
        """Return (low, high) around a number of a pair; None if another pair has a larger one."""
        found = known.known(quantity, order)
        if found is not None:
            return found
        if quantity.at is None:
            found = quantity.bracket(known.law(law_until), order)
            known.keep(quantity, order, found)
            return found
        if known.many_at_once is None:
            known.law(law_until)
        block = self._blocks.of(quantity, alone=not known.many_at_once)
        compared = self._compared.setdefault(block, _Compared(block))
        if not compared.done(known, order):
            curve = known.law(law_until)
            try:
                with deadline.shared_by(len(block.quantities)):
                    compared.add(known, order, curve, leads=known in self.pairs)
            except BracketError:  # perhaps at the place of another claim
                known.keep(quantity, order, quantity.bracket(curve, order))
        return known.known(quantity, order)


class _Block:
    """Neighbouring places of numbers of one kind, along which the numbers increase."""

    def __init__(self, kind: type[Quantity], places: Array) -> None:
        self.kind, self.places = kind, places
        self.quantities = tuple(kind(float(at)) for at in places)


class _Blocks:
    """All places at which claims on one subject take numbers."""

    def __init__(self) -> None:
        self._of: dict[Quantity, _Block] = {}
        self._alone: dict[Quantity, _Block] = {}
        self._lock = threading.Lock()

    def expect(self, quantities: Iterable[Quantity]) -> None:
        """Register the numbers of later claims; close ones will be computed together."""
        with self._lock:
            new: dict[type[Quantity], set[float]] = {}
            for quantity in quantities:
                if quantity.at is not None and quantity not in self._of and _in_range(quantity):
                    new.setdefault(type(quantity), set()).add(quantity.at)
            for kind, found in new.items():
                places = np.array(sorted(found, reverse=not kind.rises))
                for part in np.array_split(places, -(-places.size // _MOST_TOGETHER)):
                    block = _Block(kind, part)
                    self._of.update(dict.fromkeys(block.quantities, block))

    def of(self, quantity: Quantity, *, alone: bool) -> _Block:
        """Return the block of a number, or a block with that number only."""
        if alone:
            own = _Block(type(quantity), np.array([quantity.at]))
            return self._alone.setdefault(quantity, own)
        if quantity not in self._of:
            self.expect([quantity])
        return self._of[quantity]


def _in_range(quantity: Quantity) -> bool:
    try:
        quantity.check()
    except ValueError:  # the claim's own verdict will report it
        return False
    return True


class _Compared:
    """The numbers of pairs at the places of a block."""

    def __init__(self, block: _Block) -> None:
        self._block = block
        self._most: Array | None = None  # largest known numbers of the candidates
        self._done: set[tuple[KnownPair, Order]] = set()
        self._lock = threading.Lock()

    def done(self, known: KnownPair, order: Order) -> bool:
        """Return whether a pair has been compared with the others."""
        return (known, order) in self._done

    def add(
        self, known: KnownPair, order: Order, curve: exact.BracketedCurve, *, leads: bool
    ) -> None:
        """Compute the numbers of a pair where they may exceed those of others.

        ``leads`` says whether its numbers exclude other pairs.
        """
        with self._lock:
            if self.done(known, order):
                return
            block = self._block
            wanted = self._open(curve, order)
            lows = highs = np.zeros(0)
            if wanted.size:
                lows, highs = block.kind.brackets(curve, block.places[wanted], order)
            for place, low, high in zip(wanted, lows.tolist(), highs.tolist(), strict=True):
                known.keep(block.quantities[place], order, (low, high))
            if leads:
                most = np.zeros(block.places.size) if self._most is None else self._most
                most[wanted] = np.maximum(most[wanted], lows)
                self._most = most
            self._done.add((known, order))

    def _open(self, curve: exact.BracketedCurve, order: Order) -> NDArray[np.intp]:
        """Return the places where a pair may exceed the others.

        The number of a pair increases along the block: if it does not exceed at the last of several
        places what others have at the first, it does not exceed it at any of them.
        """
        places, most = self._block.places, self._most
        every = np.arange(places.size)
        if most is None:
            return every
        starts = every[:: -(-places.size // _MOST_CHECKS)]
        ends = np.append(starts[1:], places.size)
        # numbers equal up to rounding, such as the other order of a symmetric pair, do not exceed
        levels = np.minimum.reduceat(most, starts) * (1 + _EQUAL)
        # nothing exceeds an infinite epsilon
        open_: NDArray[np.bool_] = np.isfinite(levels)
        if open_.any():
            last, levels = places[ends - 1][open_], levels[open_]
            open_[open_] = self._block.kind.may_exceed(curve, last, levels, order)
        chosen: NDArray[np.intp] = every[np.repeat(open_, ends - starts)]
        return chosen


class KnownPairs:
    """All pairs that the claims judged together have used."""

    def __init__(self) -> None:
        self._laws = _Laws()
        self._pairs: dict[Pair, KnownPair] = {}
        self._blocks: dict[_Subject, _Blocks] = {}
        self._fitting: dict[NoisySGD | Composition, tuple[Pair, ...]] = {}
        self._candidates: dict[_Subject | tuple[_Subject, range | None], Candidates] = {}
        self._lock = threading.Lock()

    def expect(self, subject: _Subject, quantities: Iterable[Quantity]) -> None:
        """Register the numbers that claims on a subject, a mechanism or a pair, will need."""
        self._blocks_of(subject).expect(quantities)

    def one(self, pair: Pair) -> KnownPair:
        """Return a pair with its known numbers."""
        return self._pairs.setdefault(pair, KnownPair(pair, self._laws))

    def alone(self, pair: Pair) -> Candidates:
        """Return a pair as the only candidate."""
        with self._lock:
            if pair not in self._candidates:
                self._candidates[pair] = Candidates([self.one(pair)], self._blocks_of(pair))
            return self._candidates[pair]

    def candidates(
        self,
        mechanism: NoisySGD | Composition,
        batches: range | None,
        placed: Callable[[Iterable[Pair]], Iterable[Pair]],
    ) -> Candidates:
        """Return the candidates of a mechanism, in the order in which they are tried.

        ``placed`` moves their records to the allowed ``batches``. The order depends on the
        mechanism only: fast pairs come first, and among those the ones that were found for
        this mechanism and those that are suggested first.
        """
        key = mechanism, batches
        with self._lock:
            if mechanism not in self._fitting:
                pairs = itertools.chain(shipped(mechanism), suggested_members(mechanism))
                self._fitting[mechanism] = tuple(dict.fromkeys(pairs))
            if key not in self._candidates:
                found = [self.one(pair) for pair in placed(self._fitting[mechanism])]
                ranked = sorted(found, key=lambda known: known.rank)
                self._candidates[key] = Candidates(ranked, self._blocks_of(mechanism))
            return self._candidates[key]

    def _blocks_of(self, subject: _Subject) -> _Blocks:
        return self._blocks.setdefault(subject, _Blocks())


class _Laws:
    """The most recent laws; each is computed by one thread while others wait for it."""

    def __init__(self) -> None:
        self._found: OrderedDict[Pair, exact.BracketedCurve | ValueError] = OrderedDict()
        self._given_up: dict[Pair, float] = {}
        self._busy: dict[Pair, threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, pair: Pair, until: float) -> exact.BracketedCurve:
        found = self._ready(pair)
        if found is None:
            left = until - time.perf_counter()
            with self._lock:
                busy = self._busy.setdefault(pair, threading.Lock())
            if not busy.acquire(timeout=min(max(left, 0.0), threading.TIMEOUT_MAX)):
                raise LawTooSlow
            try:
                found = self._ready(pair) or self._computed(pair, until)
            finally:
                busy.release()
        if isinstance(found, ValueError):
            raise NoExactLaw(str(found)) from found
        return found

    def _ready(self, pair: Pair) -> exact.BracketedCurve | ValueError | None:
        with self._lock:
            if pair not in self._found:
                return None
            self._found.move_to_end(pair)
            return self._found[pair]

    def _computed(self, pair: Pair, until: float) -> exact.BracketedCurve | ValueError:
        began = time.perf_counter()
        if until - began <= self._given_up.get(pair, 0.0):
            raise LawTooSlow

        def check(done: int, total: int) -> None:
            if time.perf_counter() > until:
                self._given_up[pair] = until - began
                raise LawTooSlow

        found: exact.BracketedCurve | ValueError
        try:
            found = exact.curve(pair, progress=check)
        except ValueError as error:  # no law at this precision
            found = error
        with self._lock:
            self._found[pair] = found
            if len(self._found) > _MOST_LAWS:
                self._found.popitem(last=False)
        return found
