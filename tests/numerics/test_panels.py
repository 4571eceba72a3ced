"""Panels that cover an interval."""

from __future__ import annotations

import numpy as np
import pytest

from audit.numerics.panels import Panels


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
