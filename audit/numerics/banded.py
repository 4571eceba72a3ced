"""The transfer operator of a long interval: a band of blocks, every panel with its own exponent.

The noise reaches only a few standard deviations, so a panel receives from a few panels only. The
densities of long walks span thousands of orders of magnitude; each panel is stored as doubles
times its own power of two, so that no part of the law underflows and every value keeps its
relative accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.numerics.compiled import compiled
from audit.numerics.panels import Panels
from audit.numerics.transfer import NoisyMap, State

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_EMPTY = -(2**40)  # exponent of a panel that holds nothing
_LOG_2 = float(np.log(2.0))
_MOST_NUMBERS = 2**26  # entries of one operator: half a gigabyte


@dataclass(frozen=True, eq=False)
class BandedOperator:
    """One step: where each panel receives from, and the blocks that it receives through.

    Block k of a target panel, from source panel ``first + k``, starts at ``where[offset + k]`` of
    ``blocks``, source node by source node, targets contiguous. Where the step is the same
    everywhere, all pairs of panels at one distance share a block. Atoms send through
    ``from_atoms`` (2, panels, order) and receive through ``to_atoms`` (2, panels, order);
    ``between_atoms`` is 2 by 2, target first. Each block, and each row of the others, is divided
    by a power of two above its largest entry, whose exponent the ``..._reach`` arrays hold: noise
    of 38 standard deviations would underflow.
    """

    first: Integers
    last: Integers
    offset: Integers
    where: Integers
    blocks: Array
    block_reach: Integers
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
        count = last - first
        _check_memory(int(count.sum()), step, panels)
        targets = np.repeat(np.arange(len(panels)), count)
        offset = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        sources = np.arange(offset[-1]) - np.repeat(offset[:-1] - first, count)
        if _same_everywhere(step, panels):
            distances, which = np.unique(targets - sources, return_inverse=True)
            middle = len(panels) // 2
            width = panels.edges[middle + 1] - panels.edges[middle]
            pairs = [(panels.nodes[middle] + d * width, middle) for d in distances]
        else:
            which = np.arange(offset[-1])
            pairs = [(panels.nodes[t], s) for t, s in zip(targets, sources, strict=True)]
        _check_memory(len(pairs) * order**2, step, panels)
        log_weights = np.log(panels.weights)
        values = np.empty((len(pairs), order * order))
        reach_of = np.empty(len(pairs), dtype=np.int64)
        for i, (y, s) in enumerate(pairs):
            logs = log_weights[s][:, None] + step.log_kernel(y, panels.nodes[s][:, None])
            values[i : i + 1], reach_of[i : i + 1] = _scaled(logs.reshape(1, -1))
        ends = panels.edges[[0, -1]]
        beyond = [(float(ends[0]), -1), (float(ends[1]), 1)]
        from_atoms = np.stack([step.log_kernel(panels.nodes, np.array(end)) for end in ends])
        to_atoms = np.stack([log_weights + step.log_beyond(e, s, panels.nodes) for e, s in beyond])
        between = np.stack([step.log_beyond(e, s, ends) for e, s in beyond])
        for index, stays in enumerate(absorbing):
            if stays:
                from_atoms[index] = -np.inf
                between[:, index] = -np.inf
                between[index, index] = 0
        shape = from_atoms.shape
        from_values, from_reach = _scaled(from_atoms.reshape(-1, order))
        to_values, to_reach = _scaled(to_atoms.reshape(-1, order))
        between_values, between_reach = _scaled(between.reshape(-1, 1))
        return cls(
            first,
            last,
            offset,
            which.astype(np.int64) * order * order,
            values.ravel(),
            reach_of[which],
            from_values.reshape(shape),
            to_values.reshape(shape),
            between_values.reshape(2, 2),
            from_reach.reshape(shape[:2]),
            to_reach.reshape(shape[:2]),
            between_reach.reshape(2, 2),
        )

    def apply(self, state: State, panels: Panels, times: int = 1) -> State:
        """Apply the step ``times`` times."""
        scaled = ScaledState.of(state)
        for _ in range(times):
            scaled = self.step(scaled)
        return scaled.state()

    def step(self, state: ScaledState) -> ScaledState:
        """Apply the step once."""
        values, exponents = np.zeros_like(state.values), np.empty_like(state.exponents)
        atoms, atom_exponents = np.zeros_like(state.atoms), np.empty_like(state.atom_exponents)
        arguments = (state.values, state.exponents, state.atoms, state.atom_exponents)
        _to_panels(
            *arguments,
            self.first,
            self.last,
            self.offset,
            self.where,
            self.blocks,
            self.block_reach,
            self.from_atoms,
            self.from_reach,
            values,
            exponents,
        )
        _to_ends(
            *arguments,
            self.to_atoms,
            self.to_reach,
            self.between_atoms,
            self.between_reach,
            atoms,
            atom_exponents,
        )
        return ScaledState(values, exponents, atoms, atom_exponents)


@dataclass(frozen=True, eq=False)
class ScaledState:
    """A state whose panels and atoms have exponents of their own: values times powers of two.

    ``values`` has shape (panels, order), ``atoms`` (2, 1).
    """

    values: Array
    exponents: Integers
    atoms: Array
    atom_exponents: Integers

    @staticmethod
    def of(state: State) -> ScaledState:
        """Split a state's logarithms."""
        return ScaledState(*_scaled(state.log_values), *_scaled(state.log_atoms[:, None]))

    def state(self) -> State:
        """Return the logarithms."""
        return State(
            _unscaled(self.values, self.exponents),
            _unscaled(self.atoms, self.atom_exponents)[:, 0],
        )

    @staticmethod
    def total(parts: Sequence[tuple[float, ScaledState]]) -> ScaledState:
        """Return the sum of states, each times its weight, which must be above 0."""
        return ScaledState(
            *_summed([(w, part.values, part.exponents) for w, part in parts]),
            *_summed([(w, part.atoms, part.atom_exponents) for w, part in parts]),
        )


def _summed(parts: Sequence[tuple[float, Array, Integers]]) -> tuple[Array, Integers]:
    exponents = np.stack([rows for _, _, rows in parts])
    powers = np.array([np.frexp(weight)[1] for weight, _, _ in parts])
    raised = np.where(exponents == _EMPTY, _EMPTY, exponents + powers[:, None])
    top = raised.max(axis=0)
    total = np.zeros_like(parts[0][1])
    for (weight, values, _), own in zip(parts, raised, strict=True):
        gap = np.clip(own - top, -2200, 0).astype(np.int32)
        total += np.ldexp(np.frexp(weight)[0] * values, gap[:, None])
    return total, top


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


def _same_everywhere(step: NoisyMap, panels: Panels) -> bool:
    """Whether all maps are translations and all panels equally wide, but for rounding."""
    rounding = 4e-16 * float(np.max(np.abs(panels.edges)))
    shifts = [phi(panels.nodes) - panels.nodes for phi in step.maps]
    return all(bool(np.ptp(x) <= 4 * rounding) for x in [np.diff(panels.edges), *shifts])


def _check_memory(numbers: int, step: NoisyMap, panels: Panels) -> None:
    if numbers > _MOST_NUMBERS:
        size = float(panels.edges[-1] - panels.edges[0]) / step.std
        raise ValueError(
            f"noise_std must be larger for a computed law: the domain spans {size:.4g} of a step's "
            f"noise deviations, got a step with {step.std:g}"
        )


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


@compiled
def _times_power(value: float, exponent: int) -> float:
    """Return value * 2^exponent; in two halves, since the power alone may overflow."""
    if exponent < -2200:
        return 0.0
    half = exponent // 2
    return value * 2.0**half * 2.0 ** (exponent - half)


@compiled
def _normalise(row: Array, exponent: int) -> int:
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


@compiled
def _to_panels(
    values: Array,
    exponents: Integers,
    atoms: Array,
    atom_exponents: Integers,
    first: Integers,
    last: Integers,
    offset: Integers,
    where: Integers,
    blocks: Array,
    block_reach: Integers,
    from_atoms: Array,
    from_reach: Integers,
    new_values: Array,
    new_exponents: Integers,
) -> None:
    count, order = values.shape
    for target in range(count):
        scale = _EMPTY  # of the largest contribution
        before = offset[target] - first[target]
        for source in range(first[target], last[target]):
            scale = max(scale, exponents[source] + block_reach[before + source])
        for end in range(2):
            scale = max(scale, atom_exponents[end] + from_reach[end, target])
        if scale <= _EMPTY:
            new_exponents[target] = _EMPTY
            continue
        row = new_values[target]
        for source in range(first[target], last[target]):
            gap = exponents[source] + block_reach[before + source] - scale
            if gap < -1100:
                continue
            position = where[before + source]
            factor = 2.0**gap
            for j in range(order):
                value = values[source, j] * factor
                for i in range(order):
                    row[i] += blocks[position + i] * value
                position += order
        for end in range(2):
            gap = atom_exponents[end] + from_reach[end, target] - scale
            if gap >= -1100:
                value = _times_power(atoms[end, 0], gap)
                for i in range(order):
                    row[i] += from_atoms[end, target, i] * value
        new_exponents[target] = _normalise(row, scale)


@compiled
def _to_ends(
    values: Array,
    exponents: Integers,
    atoms: Array,
    atom_exponents: Integers,
    to_atoms: Array,
    to_reach: Integers,
    between_atoms: Array,
    between_reach: Integers,
    new_atoms: Array,
    new_atom_exponents: Integers,
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
            gap = exponents[source] + to_reach[end, source] - scale
            if gap >= -1100:
                part = 0.0
                for j in range(order):
                    part += to_atoms[end, source, j] * values[source, j]
                total += _times_power(part, gap)
        for other in range(2):
            gap = atom_exponents[other] + between_reach[end, other] - scale
            if gap >= -1100:
                total += _times_power(between_atoms[end, other] * atoms[other, 0], gap)
        new_atoms[end, 0] = total
        new_atom_exponents[end] = _normalise(new_atoms[end], scale)
