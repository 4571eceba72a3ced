"""Transfer operators: mass, banding, exponents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from audit.constructions import Affine, Step
from audit.exact.banded import BandedOperator, _same_everywhere
from audit.exact.transfer import (
    DenseOperator,
    State,
    first_step,
    log_beyond,
    log_kernel,
)
from audit.numerics.panels import Panels

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
