"""The transfer operator of a long interval: a band of blocks, every panel with its own exponent.

The noise reaches only a few standard deviations, so a panel receives from a few panels only. The
densities of long walks span thousands of orders of magnitude; each panel is stored as doubles
times its own power of two, so that no part of the law underflows and every value keeps its
relative accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from audit.numerics.panels import Panels
from audit.numerics.transfer import NoisyMap, State

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_EMPTY = -(2**40)  # exponent of a panel that holds nothing
_LOG_2 = float(np.log(2.0))


@dataclass(frozen=True, eq=False)
class BandedOperator:
    """One step: where each panel receives from, and the blocks that it receives through.

    Block matrices are stored source node by source node, targets contiguous, one target panel
    after the other from ``offset[panel]``. Atoms send through ``from_atoms`` (2, panels, order) and
    receive through ``to_atoms`` (2, panels, order); ``between_atoms`` is 2 by 2, target first. The
    ``..._reach`` arrays hold the power of two above the largest entry of each row of these.
    """

    first: Integers
    last: Integers
    offset: Integers
    blocks: Array
    from_atoms: Array
    to_atoms: Array
    between_atoms: Array
    from_reach: Integers
    to_reach: Integers
    between_reach: Integers

    @classmethod
    def of(
        cls, step: NoisyMap, panels: Panels, absorbing: tuple[bool, bool], reach: float
    ) -> BandedOperator:
        """Build the operator of one step, with noise beyond ``reach`` deviations left out."""
        first, last = _band(step, panels, reach)
        order = panels.order
        sizes = (last - first) * order * order
        offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        blocks = np.empty(int(offset[-1]))
        for target in range(len(panels)):
            sources = slice(first[target], last[target])
            x = panels.nodes[sources].reshape(-1, 1)
            block = panels.weights[sources].reshape(-1, 1) * step.kernel(panels.nodes[target], x)
            blocks[offset[target] : offset[target + 1]] = block.ravel()
        ends = panels.edges[[0, -1]]
        from_atoms = np.stack([step.kernel(panels.nodes, np.array(end)) for end in ends])
        beyond = [(float(ends[0]), -1), (float(ends[1]), 1)]
        to_atoms = np.stack(
            [panels.weights * np.exp(step.log_beyond(e, s, panels.nodes)) for e, s in beyond]
        )
        between = np.stack([np.exp(step.log_beyond(e, s, ends)) for e, s in beyond])
        for index, stays in enumerate(absorbing):
            if stays:
                from_atoms[index] = 0
                between[:, index] = 0
                between[index, index] = 1
        return cls(
            first,
            last,
            offset,
            blocks,
            from_atoms,
            to_atoms,
            between,
            _power_of_two_above(from_atoms.max(axis=2)),
            _power_of_two_above(to_atoms.max(axis=2)),
            _power_of_two_above(between),
        )

    def apply(self, state: State, panels: Panels, times: int = 1) -> State:
        """Apply the step ``times`` times."""
        values, exponents = _scaled(state.log_values)
        atoms, atom_exponents = _scaled(state.log_atoms[:, None])
        for _ in range(times):
            new_values, new_exponents = np.zeros_like(values), np.empty_like(exponents)
            new_atoms, new_atom_exponents = np.zeros_like(atoms), np.empty_like(atom_exponents)
            arguments = (values, exponents, atoms, atom_exponents)
            _to_panels(
                *arguments,
                self.first,
                self.last,
                self.offset,
                self.blocks,
                self.from_atoms,
                self.from_reach,
                new_values,
                new_exponents,
            )
            _to_ends(
                *arguments,
                self.to_atoms,
                self.to_reach,
                self.between_atoms,
                self.between_reach,
                new_atoms,
                new_atom_exponents,
            )
            values, exponents = new_values, new_exponents
            atoms, atom_exponents = new_atoms, new_atom_exponents
        return State(_unscaled(values, exponents), _unscaled(atoms, atom_exponents)[:, 0])


def _band(step: NoisyMap, panels: Panels, reach: float) -> tuple[Integers, Integers]:
    """For each target panel the first source panel and the one after the last."""
    count = len(panels)
    first, last = np.full(count, count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    places = np.concatenate([panels.edges[:-1, None], panels.nodes, panels.edges[1:, None]], axis=1)
    for phi, weight in zip(step.maps, step.weights, strict=True):
        if weight == 0:
            continue
        image = phi(places)
        low = image.min(axis=1) - reach * step.std
        high = image.max(axis=1) + reach * step.std
        from_target = np.searchsorted(panels.edges, low, side="right") - 1
        to_target = np.searchsorted(panels.edges, high, side="left")
        for source in range(count):
            targets = slice(max(int(from_target[source]), 0), min(int(to_target[source]), count))
            first[targets] = np.minimum(first[targets], source)
            last[targets] = np.maximum(last[targets], source + 1)
    return np.minimum(first, last), last


def _power_of_two_above(values: Array) -> Integers:
    with np.errstate(divide="ignore"):
        exponents = np.ceil(np.log2(values))
    return np.where(np.isfinite(exponents), exponents, _EMPTY).astype(np.int64)


def _scaled(logs: Array) -> tuple[Array, Integers]:
    """Split logarithms, row by row, into doubles of at most about 1 and powers of two."""
    top = logs.max(axis=1)
    some = np.isfinite(top)
    exponents = np.where(some, np.ceil(np.where(some, top, 0.0) / _LOG_2), _EMPTY).astype(np.int64)
    shift = np.where(some, exponents * _LOG_2, 0.0)
    return np.exp(logs - shift[:, None]), exponents


def _unscaled(values: Array, exponents: Integers) -> Array:
    with np.errstate(divide="ignore"):
        shift = np.where(exponents == _EMPTY, 0, exponents) * _LOG_2
        return np.asarray(np.log(values) + shift[:, None])


@njit(nogil=True)
def _times_power(value: float, exponent: int) -> float:
    """Return value * 2^exponent; in two halves, since the power alone may overflow."""
    if exponent < -2200:
        return 0.0
    half = exponent // 2
    return value * 2.0**half * 2.0 ** (exponent - half)


@njit(nogil=True)
def _normalise(row: Any, exponent: int) -> int:
    """Bring the largest entry to about 1 and return the row's exponent."""
    top = 0.0
    for i in range(row.shape[0]):
        top = max(top, row[i])
    if top == 0.0:
        return _EMPTY
    if 1e-3 < top < 1e3:
        return exponent
    shift = int(np.ceil(np.log2(top)))
    for i in range(row.shape[0]):
        row[i] = _times_power(row[i], -shift)
    return exponent + shift


@njit(nogil=True)
def _to_panels(
    values: Any,
    exponents: Any,
    atoms: Any,
    atom_exponents: Any,
    first: Any,
    last: Any,
    offset: Any,
    blocks: Any,
    from_atoms: Any,
    from_reach: Any,
    new_values: Any,
    new_exponents: Any,
) -> None:
    count, order = values.shape
    for target in range(count):
        scale = _EMPTY  # of the largest contribution
        for source in range(first[target], last[target]):
            scale = max(scale, exponents[source])
        for end in range(2):
            scale = max(scale, atom_exponents[end] + from_reach[end, target])
        if scale <= _EMPTY:
            new_exponents[target] = _EMPTY
            continue
        row = new_values[target]
        position = offset[target]
        for source in range(first[target], last[target]):
            if exponents[source] - scale < -1100:
                position += order * order
                continue
            factor = 2.0 ** (exponents[source] - scale)
            for j in range(order):
                value = values[source, j] * factor
                for i in range(order):
                    row[i] += blocks[position + i] * value
                position += order
        for end in range(2):
            if atom_exponents[end] + from_reach[end, target] > _EMPTY:
                gap = atom_exponents[end] - scale
                for i in range(order):
                    row[i] += _times_power(from_atoms[end, target, i] * atoms[end, 0], gap)
        new_exponents[target] = _normalise(row, scale)


@njit(nogil=True)
def _to_ends(
    values: Any,
    exponents: Any,
    atoms: Any,
    atom_exponents: Any,
    to_atoms: Any,
    to_reach: Any,
    between_atoms: Any,
    between_reach: Any,
    new_atoms: Any,
    new_atom_exponents: Any,
) -> None:
    count, order = values.shape
    for end in range(2):
        scale = _EMPTY
        for source in range(count):
            scale = max(scale, exponents[source] + to_reach[end, source])
        for other in range(2):
            scale = max(scale, atom_exponents[other] + between_reach[end, other])
        if scale <= _EMPTY:
            new_atom_exponents[end] = _EMPTY
            continue
        total = 0.0
        for source in range(count):
            if exponents[source] + to_reach[end, source] - scale > -1100:
                part = 0.0
                for j in range(order):
                    part += to_atoms[end, source, j] * values[source, j]
                total += _times_power(part, exponents[source] - scale)
        for other in range(2):
            if atom_exponents[other] + between_reach[end, other] > _EMPTY:
                part = between_atoms[end, other] * atoms[other, 0]
                total += _times_power(part, atom_exponents[other] - scale)
        new_atoms[end, 0] = total
        new_atom_exponents[end] = _normalise(new_atoms[end], scale)
