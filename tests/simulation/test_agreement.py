"""Compiled walks against exact laws, with fewer walks than ``python -m`` of `agreement` takes."""

from __future__ import annotations

import pytest

from . import agreement

TRIALS = 200_000


def test_samples_follow_exact_laws_in_thirty_settings() -> None:
    cases = agreement.settings()
    assert len(cases) >= 30
    found = list(agreement.table(cases, TRIALS, 1))
    assert [name for name, _, agrees in found if not agrees] == []


def test_a_planted_error_is_found() -> None:
    ((_, p, agrees),) = agreement.table(agreement.planted(TRIALS), TRIALS, 1)
    assert not agrees
    assert p < 1e-20  # far from a matter of luck


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_the_test_of_normals_rejects_wrong_ones(
    shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "ndtr", lambda x: _ndtr(x - shift))
    assert (agreement.normal_p_value(10**6) > agreement.LEVEL) == (shift == 0)


_ndtr = agreement.ndtr
