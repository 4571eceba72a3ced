"""The value lock: numbers of claims that may only change on purpose.

A lock file holds, for every claim, its subject, its verdict and its numbers. It also holds every
change that was accepted, with the stated reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import audit
from audit.claims.claim import encode_claim, tidy
from audit.claims.evidence import Judgement
from audit.codec import decode, encode
from audit.codec.atomic import write_atomic
from audit.curves.quantities import Quantity
from audit.results import Verdict

FORMAT = 2  # statements are written as in claims files
# Relative. Exact brackets are narrower than 1e-7 of their values and bounds are solved to 1e-9, so
# a larger change is not rounding. Samples of one seed are the same bits.
TOLERANCE = 1e-6
# absolute, for numbers that are 0 up to rounding
_ABSOLUTE = 1e-12
_SUBJECT_TOLERANCE = 1e-12  # relative, for what a claim is about: written, or adapted from code


@dataclass(frozen=True)
class LockedClaim:
    """The entry of a claim in a lock file."""

    # the subject of the claim, as `encode_claim` writes it
    mechanism: Mapping[str, Any] | None
    statement: Mapping[str, Any]
    pair: Mapping[str, Any] | None
    verdict: Verdict  #: The verdict.
    #: All numbers of the claim (a bound at each of its deltas and orders), and the best certified
    #: lower bound where the claim is tightest, by their names.
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class Accepted:
    """Changes that were accepted together, with the stated reason."""

    date: str
    version: str
    reason: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    """The content of a lock file: an entry for each claim id, and the changes accepted so far."""

    claims: Mapping[str, LockedClaim] = field(default_factory=dict)
    accepted: tuple[Accepted, ...] = ()


def entries(judgements: Iterable[Judgement]) -> dict[str, LockedClaim]:
    """Return the lock entries of the judged claims, by id."""
    found = {}
    for judged in judgements:
        numbers = {_name("claimed", one.quantity): one.value for one in judged.numbers}
        if judged.certified is not None and judged.quantity is not None:
            numbers[_name("certified", judged.quantity)] = float(judged.certified)
        subject = encode_claim(judged.claim)
        found[judged.claim.id] = LockedClaim(**subject, verdict=judged.verdict, numbers=numbers)
    return found


def _name(kind: str, quantity: Quantity) -> str:
    return f"{kind} {quantity.name}{tidy(quantity.at_where)}"


def changes(lock: Lock, now: Mapping[str, LockedClaim]) -> tuple[str, ...]:
    """Return one line per change from the lock to the `entries` of ``now``."""
    lines: list[str] = []
    for name, entry in now.items():
        if name not in lock.claims:
            lines.append(f"claim {name!r} is new")
            continue
        was, found = (dict(_leaves(encode(one))) for one in (lock.claims[name], entry))
        lines += [
            f"claim {name!r}: {path} was {_shown(was.get(path))}, now {_shown(found.get(path))}"
            for path in {**was, **found}
            if not _same(path, was.get(path), found.get(path))
        ]
    lines += [f"claim {name!r} is gone" for name in lock.claims if name not in now]
    return tuple(lines)


def _leaves(plain: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers and texts of a plain value, each with its path."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from _leaves(value, f"{path}, {key}" if path else key)
    elif isinstance(plain, list):
        for index, value in enumerate(plain):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, plain


def _same(path: str, old: object, new: object) -> bool:
    """Return whether nothing changed but the rounding of computed numbers."""
    types = {type(old), type(new)}
    if types <= {int, float} and types != {int}:  # whole numbers alone are compared exactly
        computed = path.startswith("numbers")
        relative, absolute = (TOLERANCE, _ABSOLUTE) if computed else (_SUBJECT_TOLERANCE, 0.0)
        return math.isclose(old, new, rel_tol=relative, abs_tol=absolute)  # type: ignore[arg-type]
    return type(old) is type(new) and old == new


def _shown(value: object) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)


def accept(lock: Lock, now: Mapping[str, LockedClaim], *, reason: str, date: str) -> Lock:
    """Return the lock with the numbers of ``now``, and the reason recorded with the changes."""
    if not reason.strip():
        raise ValueError(f"the reason to accept must be given, got {reason!r}")
    kept = Accepted(date, audit.__version__, reason.strip(), changes(lock, now))
    return Lock(now, (*lock.accepted, kept))


def read(path: Path) -> Lock:
    """Read a lock file; a missing file is an empty lock."""
    if not path.exists():
        return Lock()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content.pop("format", None) if isinstance(content, dict) else None
        if found != FORMAT:
            raise ValueError(f"format must be {FORMAT}, got {found!r}")
        lock: Lock = decode(Lock, content)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: not a lock file ({' '.join(str(error).split())})") from None
    return lock


def write(path: Path, lock: Lock) -> None:
    """Write a lock file; the old one stays until the new one is complete."""
    text = json.dumps({"format": FORMAT, **encode(lock)}, indent=1, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror}") from None
