"""The ways to compute one law agree: dense or banded, squared or stepped, shared blocks or not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from audit.constructions import BiasedWalk, Construction, Process
from audit.exact import LawCurve, curve, curves, from_pair, law
from audit.exact.propagation import STANDARD, _Runner, domain_panels, laws_on
from audit.numerics import banded as banded_module
from tests.exact.cases import CASES, gaussian_pair, mechanism, process

BOUNDED = list(CASES)


def _same(first, second, rtol: float = 1e-10) -> None:  # type: ignore[no-untyped-def]
    np.testing.assert_allclose(
        np.exp(first.state.log_values - second.state.log_values), 1, rtol=rtol
    )
    np.testing.assert_allclose(first.atoms, second.atoms, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("name", BOUNDED)
def test_dense_and_banded_agree(name: str) -> None:
    for one in CASES[name]().processes():
        panels = domain_panels([one], STANDARD[0], 38.0)
        dense = laws_on(one, panels, STANDARD[0])[0]
        banded = laws_on(one, panels, STANDARD[0], banded=True)[0]
        _same(dense, banded)
        if len(one) > 1:
            assert dense.reach == np.inf
            assert banded.reach == STANDARD[0].reach


def _square_always(monkeypatch: pytest.MonkeyPatch, squared: bool) -> None:
    monkeypatch.setattr(_Runner, "_squares", lambda _, times: squared and times > 1)
    monkeypatch.setattr(_Runner, "_period_pays", lambda *_: squared)


@pytest.mark.parametrize("name", ["full, two-sided", "cyclic", "schedule", "absorbing"])
def test_squaring_and_stepping_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = CASES[name]().processes()[0]
    panels = domain_panels([one], STANDARD[0], 38.0)
    laws = []
    for squared in (True, False):
        _square_always(monkeypatch, squared)
        laws.append(laws_on(one, panels, STANDARD[0])[0])
    _same(*laws)


def test_squaring_and_stepping_agree_after_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.constructions import Affine

    from .cases import noisy

    steps = 100_003
    one = process(noisy(Affine(0.1)), times=steps, lower=-6.0, upper=6.0)
    panels = domain_panels([one], STANDARD[0], 38.0)
    laws = []
    for squared in (True, False):
        _square_always(monkeypatch, squared)
        laws.append(laws_on(one, panels, STANDARD[0])[0])
    difference = np.max(np.abs(laws[0].state.log_values - laws[1].state.log_values))
    assert difference < min(1e-11, laws[0].relative_error)


@pytest.mark.parametrize("name", ["full, two-sided", "without replacement, drifted", "shuffled"])
def test_shared_blocks_are_the_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = CASES[name]().processes()[0]
    panels = domain_panels([one], STANDARD[0], 38.0)
    shared = laws_on(one, panels, STANDARD[0], banded=True)[0]
    monkeypatch.setattr(banded_module, "_same_everywhere", lambda *_: False)
    _same(shared, laws_on(one, panels, STANDARD[0], banded=True)[0], rtol=1e-12)


def test_the_operator_on_a_line_finds_the_closed_form() -> None:
    """The closed form steps aside: the same mechanism through panels on a cut line."""
    pair = CASES["full, two-sided"]()
    free = type(pair)(mechanism(diameter=None))
    processes = free.processes()
    panels = domain_panels(processes, STANDARD[0], 38.0)
    closed = curve(free)
    for own, truth in zip(processes, (closed.first, closed.second), strict=True):
        computed = laws_on(own, panels, STANDARD[0], banded=True)[0]
        x = np.linspace(-20, 20, 201)
        np.testing.assert_allclose(computed.density(x), truth.density(x), rtol=1e-11)
        np.testing.assert_allclose(computed.cdf(x), truth.cdf(x), rtol=1e-10)
        assert computed.log_probability(15.0, np.inf) == pytest.approx(
            truth.log_probability(15.0, np.inf), rel=1e-11
        )
        assert computed.lost_mass < 1e-290


@pytest.mark.parametrize("name", ["cyclic", "shuffled", "schedule", "Poisson", "double well"])
def test_many_step_counts_in_one_run(name: str) -> None:
    pair = CASES[name]()
    total = len(pair.processes()[0])
    wanted = [1, 2, total - 1, total]
    for steps, exact in zip(wanted, curves(pair, wanted), strict=True):
        assert isinstance(exact, LawCurve)
        for process_, own in zip(pair.processes(), (exact.first, exact.second), strict=True):
            alone = law(process_.truncated(steps))
            np.testing.assert_allclose(own.atoms, alone.atoms, rtol=1e-10, atol=1e-14)
            x = np.linspace(-0.9, 0.9, 7) * process_.upper
            np.testing.assert_allclose(own.density(x), alone.density(x), rtol=1e-9)


@pytest.mark.parametrize(
    "steps",
    [[], [0, 3], [3, 2], [2, 2], [11], [-1]],
    ids=["none", "0", "falls", "twice", "T+1", "-"],
)
def test_step_counts_are_checked(steps: list[int]) -> None:
    with pytest.raises(ValueError, match="steps"):
        curves(CASES["full, two-sided"](), steps)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_change_nothing(threads: int) -> None:
    pair = CASES["Poisson"]()
    assert curve(pair, threads=threads).epsilon(1e-4) == curve(pair).epsilon(1e-4)


def test_progress_ends_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    curve(CASES["shuffled"](), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == 4 * 4 * 5
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(seen))


def test_plain_doubles_are_left_where_they_underflow() -> None:
    """40 panels hold 10^-700: dense matrices would return zeros and denormal noise."""
    pair, _ = gaussian_pair(12.0, 2)
    exact = curve(pair)
    assert isinstance(exact, LawCurve)
    assert np.isfinite(exact.first.state.log_values).all()
    assert exact.first.least < from_pair._DENSE_FLOOR
    assert exact.first.reach < np.inf


def test_different_domains_are_refused() -> None:
    class OneWall(BiasedWalk):
        def processes(self) -> tuple[Process, Process]:
            first, second = super().processes()
            return first, replace(second, lower=-np.inf)

    pair: Construction = OneWall(mechanism(steps=200, lipschitz=1.0))
    with pytest.raises(ValueError, match=r"processes must share one domain, got \[-5, 5\], \[-inf"):
        curve(pair)
