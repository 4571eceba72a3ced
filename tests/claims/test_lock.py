"""The value lock: changed numbers fail until they are accepted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from audit.claims import lock
from audit.claims.claim import Asked, NumberSource, statement_of
from audit.curves.quantities import EpsilonAtDelta, Mu
from audit.results import Verdict

from .test_formats import HELD, ONE_STEP, REFUTED, judged


def locked() -> lock.Lock:
    return lock.accept(lock.Lock(), lock.entries([HELD, REFUTED]), reason="new", date="2024-01-02")


def test_nothing_changes_by_itself() -> None:
    assert lock.changes(locked(), lock.entries([HELD, REFUTED])) == ()


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "claims.json"
    assert lock.read(path) == lock.Lock()
    lock.write(path, locked())
    assert lock.read(path) == locked()
    lock.write(path, lock.Lock())
    assert lock.read(path) == lock.Lock()
    assert list(path.parent.iterdir()) == [path]


def test_a_bound_is_locked_at_each_of_its_places() -> None:
    statement = Asked(NumberSource.BOUND, "bsa24.theorem_4_1", deltas=(1e-5, 1e-3), orders=(4.0,))
    mechanism = dataclasses.replace(ONE_STEP, smoothness=1.0, diameter=1.0)
    judgement = judged(statement=statement, mechanism=mechanism)
    numbers = lock.entries([judgement])["true"].numbers
    assert list(numbers) == [
        "claimed epsilon at delta 1e-5",
        "claimed epsilon at delta 0.001",
        "claimed Renyi divergence at order 4",
        "certified epsilon at delta 1e-5",
    ]
    # one step, mu = 1: the divergence of order 4 is 4/2
    assert numbers["claimed Renyi divergence at order 4"] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        (judged(certified=4.377 * (1 + 1e-7)), ()),  # rounding
        (
            judged(certified=4.3771),
            ("claim 'true': numbers, certified epsilon at delta 1e-5 was 4.377, now 4.3771",),
        ),
        (
            judged(statement=statement_of(epsilon=5.1, delta=1e-5), claimed=5.1),
            (
                "claim 'true': statement, epsilon was 5.0, now 5.1",
                "claim 'true': numbers, claimed epsilon at delta 1e-5 was 5.0, now 5.1",
            ),
        ),
        (
            judged(quantity=EpsilonAtDelta(1e-3)),
            (
                "claim 'true': numbers, certified epsilon at delta 1e-5 was 4.377, now nothing",
                "claim 'true': numbers, certified epsilon at delta 0.001 was nothing, now 4.377",
            ),
        ),
        (
            judged(Verdict.INCONCLUSIVE),
            ("claim 'true': verdict was consistent, now inconclusive",),
        ),
        (
            judged(mechanism=dataclasses.replace(ONE_STEP, noise_std=3.0)),
            ("claim 'true': mechanism, noise_std was 2.0, now 3.0",),
        ),
        (judged(id="other"), ("claim 'other' is new", "claim 'true' is gone")),
    ],
)
def test_every_change_is_told(now: object, lines: tuple[str, ...]) -> None:
    assert lock.changes(locked(), lock.entries([now, REFUTED])) == lines  # type: ignore[list-item]


def test_reasons_are_kept() -> None:
    now = lock.entries([judged(certified=4.4), REFUTED])
    later = lock.accept(locked(), now, reason=" a sharper pair ", date="2024-02-03")
    assert lock.changes(later, now) == ()
    first, second = later.accepted
    assert first.reason == "new"
    assert first.changes == ("claim 'true' is new", "claim 'x' is new")
    assert (second.reason, second.date) == ("a sharper pair", "2024-02-03")
    assert len(second.changes) == 1
    with pytest.raises(ValueError, match="the reason to accept must be given, got '  '"):
        lock.accept(locked(), now, reason="  ", date="2024-02-03")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a lock file"),
        ("[]", "not a lock file"),
        ("{}", "format must be 2, got None"),
        ('{"format": 1}', "format must be 2, got 1"),
        ('{"format": 2, "claims": 3, "accepted": []}', "claims must be a mapping, got 3"),
        (
            '{"format": 2, "claims": {"x": {"verdict": "luck"}}, "accepted": []}',
            "claims.x.mechanism, statement, pair, numbers must be given for a LockedClaim, got no",
        ),
    ],
)
def test_a_file_that_is_no_lock(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        lock.read(path)


def test_infinity_is_kept(tmp_path: Path) -> None:
    endless = judged(statement=statement_of(mu=1.0), quantity=Mu(), certified=float("inf"))
    kept = lock.Lock(lock.entries([endless]))
    lock.write(tmp_path / "claims.json", kept)
    text = (tmp_path / "claims.json").read_text()
    assert json.loads(text)["claims"]["true"]["numbers"]["certified mu"] == "inf"
    assert lock.changes(lock.read(tmp_path / "claims.json"), lock.entries([endless])) == ()


def test_what_nothing_certifies_has_no_certified_number() -> None:
    nothing = judged(Verdict.INCONCLUSIVE, certified=None)
    assert list(lock.entries([nothing])["true"].numbers) == ["claimed epsilon at delta 1e-5"]
