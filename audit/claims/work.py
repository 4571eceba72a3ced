"""The order in which claims are judged, and the threads that judge them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from audit.claims.claim import Claim
from audit.mechanism import Composition, NoisySGD

_Task = TypeVar("_Task")
_Outcome = TypeVar("_Outcome")


def work_order(claims: Sequence[Claim]) -> list[int]:
    """Return the indices of claims in the order of work, in which neighbours share the most.

    Claims of one quantity on one mechanism are adjacent, sorted by their deltas, orders or alphas.
    """
    groups: dict[tuple[NoisySGD | Composition | None, type | None], list[tuple[float, int]]] = {}
    for number, claim in enumerate(claims):
        first = next(iter(claim.statement.quantities), None)
        place = 0.0 if first is None or first.at is None else first.at
        groups.setdefault((claim.mechanism, type(first)), []).append((place, number))
    return [number for group in groups.values() for _, number in sorted(group)]


def in_threads(
    function: Callable[[_Task], _Outcome], tasks: Sequence[_Task], jobs: int
) -> tuple[_Outcome, ...]:
    """Return the results of a function for each task, in the order of the tasks.

    The threads do not keep the process alive: an interrupt is raised here at once, whatever they
    are doing.
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
