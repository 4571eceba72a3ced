"""The ways to compute one law agree: dense or banded, squared or stepped, shared blocks or not."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import norm

from audit.constructions import (
    Affine,
    BiasedWalk,
    Construction,
    Mapped,
    Process,
    Segment,
    Staircase,
    Step,
    TwoSidedWalk,
)
from audit.constructions.process import Path
from audit.constructions.updates import PowerUpdate
from audit.exact import Law, LawCurve, banded, curve, curves, law, node_laws, propagation, transfer
from audit.exact import step_panels as step_panels_module
from audit.exact.banded import BandedOperator, _same_everywhere
from audit.exact.law import cell_masses, edge_table
from audit.exact.node_laws import _ProcessLaws
from audit.exact.propagation import domain_ends
from audit.exact.step_panels import step_panels
from audit.exact.transfer import DenseOperator, State, first_step, log_beyond, log_kernel
from audit.numerics.panels import Panels
from tests.exact.cases import CASES, mechanism, noisy, process


def computed(one: Process, *, banded: bool = False) -> Law:
    panels = step_panels([one], *domain_ends([one], 38.0))
    laws = _ProcessLaws(one, panels, 39.0, banded, lambda steps: None)
    [found] = laws.after([len(one)])
    return found


def _same(first: Law, second: Law, rtol: float = 1e-10) -> None:
    ends = [first.lower, first.upper]
    std = first.narrowest
    low, high = np.where(np.isfinite(ends), ends, [first.means[0] - std, first.means[-1] + std])
    places = np.linspace(low, high, 101)
    densities = [law.log_density(places) for law in (first, second)]
    np.testing.assert_allclose(np.exp(densities[0] - densities[1]), 1, rtol=rtol)
    np.testing.assert_allclose(first.atoms, second.atoms, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("name", CASES)
def test_dense_and_banded_agree(name: str) -> None:
    for one in CASES[name]().processes():
        _same(computed(one), computed(one, banded=True))


def squared_and_stepped(one: Process, monkeypatch: pytest.MonkeyPatch) -> list[Law]:
    laws = []
    for squared in (True, False):
        for module in (propagation, transfer):
            monkeypatch.setattr(module, "squaring_pays", lambda *_, pays=squared: pays)
        laws.append(computed(one))
    return laws


@pytest.mark.parametrize("name", ["full, two-sided", "cyclic", "schedule", "absorbing"])
def test_squaring_and_stepping_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _same(*squared_and_stepped(CASES[name]().processes()[0], monkeypatch))


def test_squaring_and_stepping_agree_after_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    one = process(noisy(Affine(0.1)), times=20_003, lower=-6.0, upper=6.0)
    laws, places = squared_and_stepped(one, monkeypatch), np.linspace(-6.0, 6.0, 101)
    difference = np.max(np.abs(laws[0].log_density(places) - laws[1].log_density(places)))
    assert difference < min(1e-10, laws[0].rounding + laws[1].rounding)


@pytest.mark.parametrize("name", ["full, two-sided", "without replacement, drifted", "shuffled"])
def test_shared_blocks_are_the_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = CASES[name]().processes()[0]
    shared = computed(one, banded=True)
    monkeypatch.setattr(banded, "_same_everywhere", lambda *_: False)
    _same(shared, computed(one, banded=True), rtol=1e-12)
    alone = computed(one.truncated(2), banded=True)  # one step from a density
    assert shared.quadrature == pytest.approx((len(one) - 1) * alone.quadrature, abs=0)


def test_the_operator_on_a_line_finds_the_closed_form() -> None:
    """The closed form steps aside: the same mechanism through panels on a cut line."""
    pair = CASES["full, two-sided"]()
    free = type(pair)(mechanism(diameter=None))
    processes = free.processes()
    closed = curve(free)
    for own, truth in zip(processes, (closed.first, closed.second), strict=True):
        found = computed(own, banded=True)
        x = np.linspace(-20, 20, 201)
        np.testing.assert_allclose(found.density(x), truth.density(x), rtol=1e-11)
        np.testing.assert_allclose(found.cdf(x), truth.cdf(x), rtol=1e-10)
        assert found.log_probability(15.0, np.inf) == pytest.approx(
            truth.log_probability(15.0, np.inf), rel=1e-11
        )
        assert found.lost_mass < 1e-290


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


@pytest.mark.parametrize("steps", [[], [0, 3], [3, 2], [2, 2], [11], [-1]], ids=str)
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
    assert seen[-1][0] == seen[-1][1] == 2 * 4 * 4
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(seen))


def test_plain_doubles_are_left_where_they_underflow() -> None:
    """The interval is 100 deviations long: dense matrices would return zeros and denormal noise."""
    exact = curve(TwoSidedWalk(mechanism(steps=2, lipschitz=12.0, diameter=82.0)))
    assert isinstance(exact, LawCurve)
    assert np.isfinite(exact.first.log_density(np.linspace(-30.0, 30.0, 9))).all()
    assert exact.first.log_lost < -300


@pytest.mark.parametrize("slope", [1.2, 30.0])
def test_coarse_panels_state_their_errors(slope: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the noise after a steep map is narrow beside a panel."""
    one = process(noisy(Affine(0.1, slope)), times=2, lower=-12.0, upper=12.0)
    places, fine = np.linspace(-12.0, 12.0, 201), computed(one)
    for name, value in (("_DENSITIES", (3.0,)), ("_GOAL", 9.0), ("_SMOOTH_ORDERS", (8,))):
        monkeypatch.setattr(step_panels_module, name, value)
    coarse = computed(one)
    missed = np.max(np.abs(fine.log_density(places) - coarse.log_density(places)))
    assert 1e-9 < missed < coarse.quadrature


def test_a_staircase_counts_what_it_leaves_out_as_lost() -> None:
    """What lands beyond the stairs, from where no further step is followed."""
    stairs = Staircase((-2.0, 0.0, 1.0), (-0.5, 0.5), 1.0)
    for start in (-1.5, 0.5):
        own = law(process(noisy(stairs), times=3, start=start))
        assert np.exp(own.log_masses).sum() + own.lost_mass >= 1 - 1e-12
        assert own.lost_mass < 0.9


@pytest.mark.parametrize(("end", "start"), [(1.0, -5.0), (1.0, 1.0), (1.0, 5.0), (3.0, 0.0)])
def test_stairs_end_at_one_place_around_the_start(end: float, start: float) -> None:
    """Beyond its ends a map is not constant, and no state there is followed."""
    stairs = [noisy(Staircase((-2.0, 0.0, one), (-0.5, 0.5), 1.0)) for one in (1.0, end)]
    own = Process(start, (Path(1.0, tuple(Segment((step,)) for step in stairs)),))
    message = re.escape(f"start in [-2, {max(1.0, end):g}), got {start:g}")
    with pytest.raises(ValueError, match=message):
        law(own)


def test_an_even_power_is_not_smooth_where_its_sign_changes() -> None:
    bent = Mapped(PowerUpdate(0.3, 2.0, centre=0.1))
    for update in (bent, replace(bent, kink_points=(0.1,))):
        own = Process(0.0, (Path(1.0, (Segment((noisy(update),), times=3),)),), -1.0, 1.0)
        assert 0.1 in step_panels([own], -1.0, 1.0).panels.edges


def test_different_domains_are_refused() -> None:
    class OneWall(BiasedWalk):
        def processes(self) -> tuple[Process, Process]:
            first, second = super().processes()
            return first, replace(second, lower=-np.inf)

    pair: Construction = OneWall(mechanism(steps=200, lipschitz=1.0))
    with pytest.raises(ValueError, match=r"processes must share one domain, got \[-5, 5\], \[-inf"):
        curve(pair)


POINTS = np.linspace(-2.0, 3.0, 401)


def many(count: int = 5000, seed: int = 0) -> Law:
    """Normals of two deviations around random places, on a domain with two walls."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=count)
    means = rng.choice([-1.4, 0.2, 2.6], count) + rng.uniform(-0.7, 0.7, count)
    stds = np.where(rng.random(count) < 0.3, 0.8, 0.5)
    return Law.of(means, stds, np.log(weights / weights.sum()), lower=-2.0, upper=3.0)


def distance(law: Law, other: Law) -> float:
    """Largest difference of log densities, and of log masses beyond the walls."""
    gaps = np.abs(law.log_density(POINTS) - other.log_density(POINTS))
    ends = np.abs(np.subtract(law.log_atoms, other.log_atoms))
    return float(max(gaps.max(), ends.max()))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_few_normals_have_the_density_of_many(seed: int) -> None:
    law = many(seed=seed)
    few = node_laws.condensed(law)
    assert few.means.size < law.means.size / 4
    errors = few.error_at(few.log_density(POINTS)) + law.error_at(law.log_density(POINTS))
    assert distance(law, few) <= float(errors.max()) < 1e-12


def test_values_between_far_bumps_are_within_their_errors() -> None:
    """Of more normals than are summed in any case: at single places, and of narrow cells."""

    def total(law: Law, function: Callable[[Any], Any], x: float) -> Any:
        pairs = zip(law.log_masses.tolist(), law.means.tolist(), strict=True)
        return mp.fsum(mp.exp(w) * function(mp.mpf(x) - m) for w, m in pairs)

    for apart, middle in ((22.1, 0.0), (20.0, 1e7)):
        bumps = np.linspace(-0.005, 0.005, 8)
        means = middle + np.concatenate([bumps - apart / 2, bumps + apart / 2])
        law = Law.of(means, np.ones(16), np.full(16, -math.log(16)))
        points = middle + np.array([-1.0, -5e-4, 5e-4, 1.0])  # around the least density
        with mp.workdps(50):
            for x in points.tolist():
                table = edge_table(law, np.array([x]))
                error = law.error_at(table.log_density, table.square)[0]
                assert abs(mp.log(total(law, mp.npdf, x)) - float(table.log_density[0])) <= error
            masses = zip(*cell_masses(law, points, edge_table(law, points)), strict=True)
            for (a, b), (log, error) in zip(itertools.pairwise(points), masses, strict=True):
                exact = total(law, mp.ncdf, float(b)) - total(law, mp.ncdf, float(a))
                assert abs(mp.log(exact) - float(log)) <= error


@pytest.mark.parametrize(
    "planted", [{"_NODES": 6}, {"_CUT_DEVIATIONS": 1.0, "_WALL_DEVIATIONS": 0.0}]
)
def test_fewer_nodes_or_a_shorter_reach_are_seen(planted, monkeypatch):
    for name, value in planted.items():
        monkeypatch.setattr(node_laws, name, value)
    assert distance(many(), node_laws.condensed(many())) > 1e-9


def test_few_normals_and_exact_laws_stay_as_they_are() -> None:
    few, exact = many(100), replace(many(), lower=-np.inf, upper=np.inf)
    assert node_laws.condensed(few) is few
    assert node_laws.condensed(exact) is exact


def test_a_line_is_condensed_with_its_far_tails() -> None:
    law = replace(many(12_000), lower=-np.inf, upper=np.inf, quadrature=1e-16)
    few = node_laws.condensed(law)
    assert few.means.size < law.means.size / 4
    places = np.linspace(-28.0, 30.0, 101)
    logs = few.log_density(places)
    assert logs.min() < -500
    gaps = np.abs(law.log_density(places) - logs)
    assert np.all(gaps <= few.error_at(logs) + law.error_at(logs))
    assert gaps.max() < 1e-11
    assert few.log_lost == pytest.approx(-760.5)


# ---------------------------------------------------- Transfer operators: mass, banding, exponents


PANELS = Panels.covering(-3.0, 3.0, 4.0, 20)
STEP = Step((Affine(0.3), Affine(0.0, 0.5)), (0.4, 0.6), 1.0)
SHIFT = Step((Affine(0.3),), (1.0,), 1.0)


def moved(operator: DenseOperator | BandedOperator, state: State, panels: Panels, times: int):  # type: ignore[no-untyped-def]
    parts, _ = operator.carry({0: operator.load(state, panels)}, times)
    return operator.unload(parts[0], panels)


def test_maps_without_weight_do_not_count() -> None:
    with_nothing = Step((*SHIFT.maps, Affine(9.0)), (1.0, 0.0), 1.0)
    x, y = np.array([0.3]), np.array([0.7])
    assert log_kernel(with_nothing, x, y) == log_kernel(SHIFT, x, y)
    assert log_beyond(with_nothing, 1.0, 1, y) == log_beyond(SHIFT, 1.0, 1, y)


def test_columns_sum_to_one() -> None:
    own = DenseOperator.of(STEP, PANELS, (False, True))
    np.testing.assert_allclose(own.matrix.sum(axis=0), 1, rtol=1e-14)
    np.testing.assert_allclose(own.power(1000).matrix.sum(axis=0), 1, rtol=1e-14)
    assert own.matrix[-1, -1] == 1
    assert own.matrix[:-1, -1].max() == 0
    mixing = DenseOperator.of(SHIFT, PANELS, (False, False))
    # squares forget the errors of early steps, and have their own
    assert 2 < mixing.moved(mixing.matrix, 10_000)[1] < 10_000


@pytest.mark.parametrize("reach", [70.0, 13.0])
def test_tails_below_every_double(reach: float) -> None:
    """N(0, 3) at 150 deviations, where densities are e^-7500; a reach of 13 a step is too short."""
    panels = Panels.covering(-300.0, 300.0, 4.0, 20)
    still = Step((Affine(),), (1.0,), 1.0)
    operator = BandedOperator.of(still, panels, (True, True), reach)
    state = moved(operator, first_step(still, panels, 0.0), panels, 2)
    expected = norm.logpdf(panels.nodes, scale=np.sqrt(3))
    near, far = np.abs(panels.nodes) < (150 if reach > 30 else 10), np.abs(panels.nodes) > 120
    np.testing.assert_allclose(state.log_values[near], expected[near], rtol=0, atol=1e-9)
    assert expected[near & far].min(initial=-3701) < -3700
    assert reach > 30 or np.all(state.log_values[far] < expected[far] - 100)


def test_blocks_are_shared_where_the_step_is_the_same_everywhere() -> None:
    panels = Panels.covering(-100.0, 100.0, 4.0, 16)
    assert _same_everywhere(SHIFT, panels)
    assert not _same_everywhere(STEP, panels)
    assert not _same_everywhere(SHIFT, Panels.covering(-100.0, 100.0, 4.0, 16, (0.3,)))
    shared = BandedOperator.of(SHIFT, panels, (False, False), 13.0)
    assert shared.blocks.size < 12 * 16 * 16
    places = panels.nodes.ravel()
    reached = np.abs(places[:, None] - places - 0.3) < 13
    assert shared.terms >= reached.sum(axis=1).max()  # each product is rounded


def test_an_operator_of_gigabytes_is_refused() -> None:
    """Before anything of that size is made."""
    panels = Panels.covering(-1.0, 1.0, 1e-4, 4)
    wide = Step((Affine(),), (1.0,), 1e-2)
    with pytest.raises(ValueError, match="noise_std must be larger for a computed law"):
        BandedOperator.of(wide, panels, (False, False), 1000.0)


def test_empty_panels_stay_empty() -> None:
    panels = Panels.covering(-100.0, 100.0, 4.0, 8)
    nothing = State(np.full(panels.nodes.shape, -np.inf), np.array([0.0, -np.inf]))
    state = moved(BandedOperator.of(SHIFT, panels, (True, False), 13.0), nothing, panels, 3)
    assert state.log_atoms[0] == 0
    assert np.all(np.isneginf(state.log_values))
    assert state.log_atoms[1] == -np.inf


@pytest.mark.parametrize("breaks", [(), (0.0,), (-5.0, 0.3, 0.3, 7.0), (0.1, 0.1 + 1e-12)])
def test_covering(breaks: tuple[float, ...]) -> None:
    panels = Panels.covering(-1.0, 2.0, 0.7, 12, breaks)
    assert panels.edges[0] == -1
    assert panels.edges[-1] == 2
    assert np.all(np.diff(panels.edges) > 0)
    assert np.all(np.diff(panels.edges) <= 0.7 * (1 + 1e-12))
    assert all(b in panels.edges for b in breaks if -1 < b < 2)
    assert panels.weights.sum() == pytest.approx(3, rel=1e-14)
    assert (panels.weights * panels.nodes**5).sum() == pytest.approx(63 / 6, rel=1e-13)
    assert len(panels) == panels.nodes.shape[0] == panels.edges.size - 1


def test_an_exact_number_of_widths_takes_no_more_panels() -> None:
    assert len(Panels.covering(-0.5, 0.5, 0.1, 4)) == 10
    assert len(Panels.covering(0.0, 1e-9, 4.0, 4)) == 1
