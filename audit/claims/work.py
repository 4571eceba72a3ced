"""The order in which many claims are judged, and the threads that judge them."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from audit.claims.claim import (
    AccountantBound,
    CallableBound,
    CatalogueBound,
    Claim,
    EpsilonDelta,
    Renyi,
    Statement,
    Tradeoff,
)
from audit.mechanism import Composition, NoisySGD

_Task = TypeVar("_Task")
_Outcome = TypeVar("_Outcome")


def work_order(claims: Sequence[Claim]) -> list[int]:
    """Return the numbers of claims in the order of work: neighbours share the most.

    Claims of one form on one mechanism come together. Of a long row of deltas or orders the ends
    come first, then the middle, and so on: what is known on both sides of a place rules out most
    pairs there, so that few brackets are left to compute.
    """
    groups: dict[tuple[NoisySGD | Composition | None, type], list[int]] = {}
    for number, claim in enumerate(claims):
        groups.setdefault((claim.mechanism, type(claim.statement)), []).append(number)
    order: list[int] = []
    for group in groups.values():
        row = sorted(group, key=lambda number: _place(claims[number].statement))
        order += [row[place] for place in _halving(len(row))]
    return order


def _place(statement: Statement) -> float:
    """Return the first delta, order or alpha of a statement; 0 where it has none."""
    match statement:
        case EpsilonDelta():
            return statement.points[0][1]
        case Renyi() | Tradeoff():
            return statement.points[0][0]
        case CatalogueBound() | CallableBound() | AccountantBound():
            return next(iter((*statement.deltas, *getattr(statement, "orders", ()))), 0.0)
    return 0.0


def _halving(size: int) -> list[int]:
    """Return the places of a row: both ends, then the middle of every gap, the widest first.

    >>> _halving(6)
    [0, 5, 2, 1, 3, 4]
    """
    places = [place for place in dict.fromkeys((0, size - 1)) if place >= 0]
    gaps = deque([(0, size - 1)])
    while gaps:
        low, high = gaps.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            places.append(middle)
            gaps += [(low, middle), (middle, high)]
    return places


def in_threads(
    function: Callable[[_Task], _Outcome], tasks: Sequence[_Task], jobs: int
) -> tuple[_Outcome, ...]:
    """Return what a function makes of each task, in their order.

    The threads do not keep the process alive: an interrupt is raised here at once, whatever they
    are at.
    """
    waiting = queue.SimpleQueue[int]()
    done = queue.SimpleQueue[tuple[int, _Outcome | BaseException]]()
    for number in range(len(tasks)):
        waiting.put(number)
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, function(tasks[number])))
            except BaseException as error:
                done.put((number, error))

    for _ in range(min(jobs, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[int, _Outcome] = {}
    try:
        while len(found) < len(tasks):
            number, outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            found[number] = outcome
    finally:
        stopped.set()
    return tuple(found[number] for number in range(len(tasks)))
