"""Pairs with their laws and brackets, which claims on one mechanism share."""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cached_property

from audit import exact
from audit.claims.candidates import candidate_pairs
from audit.claims.quantities import Bracket, Quantity
from audit.constructions import Construction
from audit.constructions.explicit import ExplicitPair
from audit.curves import Order
from audit.exact.from_pair import exact_seconds
from audit.mechanism import Composition, NoisySGD

Pair = Construction | ExplicitPair

_MOST_LAWS = 128  # that are kept at a time; brackets are kept always
_BRACKETS = 0.02  # seconds that the brackets of a computed law take
_NO_TIME = 0.05  # seconds; pairs below it are tried in the order of the candidates


class TooLong(Exception):
    """A law was given up at its deadline."""


class KnownPair:
    """A pair, and what was computed of it so far."""

    def __init__(self, pair: Pair, laws: _Laws) -> None:
        self.pair = pair
        self._laws = laws
        self._brackets: dict[tuple[Quantity, Order], Bracket] = {}
        self._sorted: dict[tuple[type[Quantity], Order], _Sorted] = {}
        self._witnessed: dict[tuple[Quantity, Order], float] = {}

    @cached_property
    def seconds(self) -> float:
        """Estimated time of the pair's law and brackets, the same on every machine; 0 if closed."""
        estimate = exact_seconds(self.pair) if isinstance(self.pair, Construction) else 0.0
        return estimate + _BRACKETS if estimate else 0.0

    @property
    def rank(self) -> float:
        """Sorts the pairs that refute soonest first: by their time, in powers of two.

        Infinite for pairs without an exact law.
        """
        if math.isinf(self.seconds):
            return math.inf
        return 0 if self.seconds < _NO_TIME else math.ceil(math.log2(self.seconds / _NO_TIME))

    def law(self, until: float = math.inf) -> exact.BracketedCurve:
        """Return the exact curve, computed once.

        Raises
        ------
        TooLong
            If it is not there at the time ``until`` of `time.perf_counter`.
        ValueError
            If there is no law to be had.
        """
        return self._laws.of(self.pair, until)

    def known(self, quantity: Quantity, order: Order) -> Bracket | None:
        """Return a bracket that was computed before."""
        return self._brackets.get((quantity, order))

    def bracket(self, quantity: Quantity, order: Order, curve: exact.BracketedCurve) -> Bracket:
        """Return (low, high) around the number of the pair, whose curve is given."""
        found = self._brackets[quantity, order] = quantity.bracket(curve, order)
        self._keep(quantity, order, found)
        return found

    def may_exceed(
        self, quantity: Quantity, order: Order, level: float, curve: exact.BracketedCurve
    ) -> bool:
        """Whether the number of the pair can be above ``level``: False is certain."""
        if quantity.may_exceed(curve, order, level):
            return True
        self._keep(quantity, order, (0.0, level))
        return False

    def about(self, quantity: Quantity, order: Order) -> Bracket:
        """Return (low, high) around the number, by what is known of numbers next to it."""
        known = self._brackets.get((quantity, order))
        if known is not None:
            return known
        ranked = self._sorted.get((type(quantity), order))
        return (0.0, math.inf) if ranked is None else ranked.about(quantity)

    def witness_at(self, quantity: Quantity, order: Order) -> float:
        """Return where a witness compares the number, computed once."""
        key = quantity, order
        if key not in self._witnessed:
            self._witnessed[key] = quantity.witness_at(self.law(), order)
        return self._witnessed[key]

    def _keep(self, quantity: Quantity, order: Order, bracket: Bracket) -> None:
        if quantity.rises is not None:
            ranked = self._sorted.setdefault((type(quantity), order), _Sorted())
            ranked.add(quantity, bracket)


class _Sorted:
    """Brackets of one number of a pair, sorted by where it is taken; the number is monotone."""

    def __init__(self) -> None:
        self._at: list[float] = []
        self._brackets: list[Bracket] = []

    def add(self, quantity: Quantity, bracket: Bracket) -> None:
        key = self._key(quantity)
        place = bisect.bisect_left(self._at, key)
        if place < len(self._at) and self._at[place] == key:
            low, high = self._brackets[place]
            self._brackets[place] = max(low, bracket[0]), min(high, bracket[1])
        else:  # the brackets first: readers look for places among the keys
            self._brackets.insert(place, bracket)
            self._at.insert(place, key)

    def about(self, quantity: Quantity) -> Bracket:
        key = self._key(quantity)
        before = bisect.bisect_right(self._at, key) - 1
        after = bisect.bisect_left(self._at, key)
        low = self._brackets[before][0] if before >= 0 else 0.0
        high = self._brackets[after][1] if after < len(self._at) else math.inf
        return low, high

    @staticmethod
    def _key(quantity: Quantity) -> float:
        """Return a number with which the quantity rises."""
        assert quantity.at is not None
        return quantity.at if quantity.rises else -quantity.at


class KnownPairs:
    """All pairs that claims judged together have met."""

    def __init__(self) -> None:
        self._laws = _Laws()
        self._pairs: dict[Pair, KnownPair] = {}
        self._candidates: dict[NoisySGD | Composition, tuple[Pair, ...]] = {}
        self._placed: dict[tuple[NoisySGD | Composition, range | None], tuple[KnownPair, ...]] = {}
        self._lock = threading.Lock()

    def one(self, pair: Pair) -> KnownPair:
        """Return a pair with what is known of it."""
        return self._pairs.setdefault(pair, KnownPair(pair, self._laws))

    def candidates(
        self,
        mechanism: NoisySGD | Composition,
        batches: range | None,
        placed: Callable[[Iterable[Pair]], Iterable[Pair]],
    ) -> tuple[KnownPair, ...]:
        """Return the candidates of a mechanism, in the order in which they are tried.

        ``placed`` puts their records where ``batches`` allows. The order depends on the mechanism
        alone: what is quick comes first, and then what is strongest as a rule.
        """
        key = mechanism, batches
        with self._lock:
            if mechanism not in self._candidates:
                self._candidates[mechanism] = tuple(candidate_pairs(mechanism))
            if key not in self._placed:
                found = [self.one(pair) for pair in placed(self._candidates[mechanism])]
                self._placed[key] = tuple(sorted(found, key=lambda known: known.rank))
            return self._placed[key]


class _Laws:
    """The laws used last; each is computed by one thread, and others wait for it."""

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
                raise TooLong
            try:
                found = self._ready(pair) or self._computed(pair, until)
            finally:
                busy.release()
        if isinstance(found, ValueError):
            raise found
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
            raise TooLong

        def check(done: int, total: int) -> None:
            if time.perf_counter() > until:
                self._given_up[pair] = until - began
                raise TooLong

        found: exact.BracketedCurve | ValueError
        try:
            found = exact.curve(pair, progress=check)
        except ValueError as error:  # no law to be had at this precision
            found = error
        with self._lock:
            self._found[pair] = found
            if len(self._found) > _MOST_LAWS:
                self._found.popitem(last=False)
        return found
