"""The transfer operator of a long interval: a band of blocks, every panel with its own exponent.

The noise reaches only a few standard deviations, so a panel receives from a few panels only. The
densities of long walks span thousands of orders of magnitude; each panel is stored as doubles
times its own power of two, so that no part of the law underflows and every value keeps its
relative accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from audit.constructions.process import Step
from audit.exact.transfer import State, log_beyond, log_kernel
from audit.numerics.arrays import Array, Integers
from audit.numerics.compiled import compiled
from audit.numerics.panels import Panels

_EMPTY = -(2**40)  # exponent of a panel that holds nothing
_LOG_2 = float(np.log(2.0))
_MAX_NUMBERS = 2**26  # entries of one operator: half a gigabyte
_BLOCKS_PER_CHUNK = 4096  # blocks that are computed together
_MIN_GAP = -1100  # exponents below the largest that still matter: entries of a block differ
# OpenBLAS shares out products of more multiply-adds among threads: they would wait for each other,
# and rounding would depend on their number.
_MAX_PRODUCT = 2**18
_POWERS = 2.0 ** -np.arange(-_MIN_GAP + 1.0)
# Products are computed as multiples of a small power of two: numbers next to the smallest double,
# of which processors are several times slower, are then far below what matters.
_LIFT_BLOCKS, _LIFT_VALUES = 2.0**400, 2.0**500
_LIFTED_POWERS = 2.0 ** (500 - np.arange(-_MIN_GAP + 1.0))
_UNLIFT = 1 / _LIFT_BLOCKS / _LIFT_VALUES


class BandedOperator(NamedTuple):
    """One step: where each panel receives from, and the blocks that it receives through.

    A target panel receives from the source panels ``first`` to ``last``, from ``first + k`` through
    block ``offset + k``. Block n is rows n order to (n + 1) order of ``blocks``, a row for each
    source node. Where the step is the same everywhere (``shared``), all pairs of panels at one
    distance share a block: target t receives through block k from panel t + k of the panels with
    ``padding``, empty panels below and above. Atoms send through ``from_atoms`` (2, panels, order)
    and receive through ``to_atoms`` (2, panels, order); ``between_atoms`` is 2 by 2, target first.
    Each block, and each row of the others, is divided by a power of two above its largest entry,
    whose exponent the ``..._reach`` arrays hold: noise of 38 standard deviations would underflow.
    Blocks are then multiplied by 2^400.
    """

    first: Integers
    last: Integers
    offset: Integers
    shared: bool
    padding: tuple[int, int]
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
        cls, step: Step, panels: Panels, absorbing: tuple[bool, bool], reach: float
    ) -> BandedOperator:
        """Build the operator of one step, with noise beyond ``reach`` deviations left out."""
        first, last = _band(step, panels, reach)
        order = panels.order
        count = last - first
        _check_memory(int(count.sum()), step, panels)
        targets = np.repeat(np.arange(len(panels)), count)
        offset = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        sources = np.arange(offset[-1]) - np.repeat(offset[:-1] - first, count)
        shared, padding = _same_everywhere(step, panels), (0, 0)
        if shared:
            # from the farthest source below to the farthest one above
            below = int(np.max(targets - sources, initial=0))
            above = int(np.max(sources - targets, initial=0))
            padding, distances = (below, above), np.arange(below, -above - 1, -1)
            middle = len(panels) // 2
            width = panels.edges[middle + 1] - panels.edges[middle]
            to = panels.nodes[middle] + distances[:, None] * width
            sources = np.full(distances.size, middle)
        else:
            to = panels.nodes[targets]
        _check_memory(len(to) * order**2, step, panels)
        log_weights = np.log(panels.weights)
        values = np.empty((len(to), order * order))
        reach_of = np.empty(len(to), dtype=np.int64)
        for k in range(0, len(to), _BLOCKS_PER_CHUNK):
            some = slice(k, k + _BLOCKS_PER_CHUNK)
            nodes = panels.nodes[sources[some], :, None]
            logs = log_weights[sources[some], :, None] + log_kernel(step, to[some, None], nodes)
            values[some], reach_of[some] = _scaled(logs.reshape(-1, order * order))
        ends = panels.edges[[0, -1]]
        beyond = [(float(ends[0]), -1), (float(ends[1]), 1)]
        from_atoms = np.stack([log_kernel(step, panels.nodes, np.array(end)) for end in ends])
        to_atoms = np.stack([log_weights + log_beyond(step, *e, panels.nodes) for e in beyond])
        between = np.stack([log_beyond(step, *end, ends) for end in beyond])
        for index, stays in enumerate(absorbing):
            if stays:
                from_atoms[index] = -np.inf
                between[:, index] = -np.inf
                between[index, index] = 0
        from_values, from_reach = _scaled(from_atoms)
        to_values, to_reach = _scaled(to_atoms)
        between_values, between_reach = _scaled(between[..., None])
        band = first, last, offset, shared, padding
        blocks = values.reshape(-1, order) * _LIFT_BLOCKS, reach_of
        atoms = from_values, to_values, between_values.reshape(2, 2)
        return cls(*band, *blocks, *atoms, from_reach, to_reach, between_reach)

    @property
    def terms(self) -> int:
        """Largest number of roundings of a sum over sources."""
        sources = len(self.block_reach) if self.shared else int(np.max(self.last - self.first))
        return int(sources * self.blocks.shape[1] + 8)

    def carry(
        self, parts: Mapping[int, ScaledState], times: int
    ) -> tuple[dict[int, ScaledState], float]:
        """Apply the step ``times`` times to the state of each memory; all errors remain."""
        return {memory: self._moved(part, times) for memory, part in parts.items()}, float(times)

    @staticmethod
    def load(state: State, panels: Panels) -> ScaledState:
        """Split a state's logarithms."""
        return ScaledState(*_scaled(state.log_values), *_scaled(state.log_atoms[:, None]))

    @staticmethod
    def unload(state: ScaledState, panels: Panels) -> State:
        """Return the logarithms of a state."""
        values, exponents, atoms, atom_exponents = state
        return State(_unscaled(values, exponents), _unscaled(atoms, atom_exponents)[:, 0])

    @staticmethod
    def total(parts: Sequence[tuple[float, ScaledState]]) -> ScaledState:
        """Return the sum of states, each times its weight, which must be above 0."""
        return ScaledState(
            *_summed([(w, part.values, part.exponents) for w, part in parts]),
            *_summed([(w, part.atoms, part.atom_exponents) for w, part in parts]),
        )

    def _moved(self, state: ScaledState, times: int) -> ScaledState:
        count, order = state.values.shape
        # empty panels beyond the ends, so that shared blocks fit everywhere
        below, above = self.padding
        inner = slice(below, below + count)
        padded = ScaledState(
            np.zeros((below + count + above, order)),
            np.full(below + count + above, _EMPTY),
            state.atoms.copy(),
            state.atom_exponents.copy(),
        )
        padded.values[inner], padded.exponents[inner] = state.values, state.exponents
        wide, tile = int(np.max(self.last - self.first)) * order, 1
        if self.shared:
            wide = len(self.blocks)
            tile = max(1, min(count, _MAX_PRODUCT // self.blocks.size))
        _take_steps(times, self, padded, np.empty(tile * wide), tile)
        values, exponents = padded.values[inner].copy(), padded.exponents[inner].copy()
        return ScaledState(values, exponents, padded.atoms, padded.atom_exponents)


class ScaledState(NamedTuple):
    """A state whose panels and atoms have exponents of their own: values times powers of two.

    ``values`` has shape (panels, order), ``atoms`` (2, 1).
    """

    values: Array
    exponents: Integers
    atoms: Array
    atom_exponents: Integers


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


def _band(step: Step, panels: Panels, reach: float) -> tuple[Integers, Integers]:
    """For each target panel the first source panel and the one after the last."""
    count = len(panels)
    first, last = np.full(count, count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    places = np.concatenate([panels.edges[:-1, None], panels.nodes, panels.edges[1:, None]], axis=1)
    for phi, weight in zip(step.maps, step.weights, strict=True):
        if weight == 0:
            continue
        image = phi(places)
        low = image.min(axis=1) - reach * step.noise_std
        high = image.max(axis=1) + reach * step.noise_std
        from_target = np.searchsorted(panels.edges, low, side="right") - 1
        to_target = np.searchsorted(panels.edges, high, side="left")
        for source in range(count):
            targets = slice(max(int(from_target[source]), 0), min(int(to_target[source]), count))
            first[targets] = np.minimum(first[targets], source)
            last[targets] = np.maximum(last[targets], source + 1)
    return np.minimum(first, last), last


def _same_everywhere(step: Step, panels: Panels) -> bool:
    """Return True if all maps are translations and all panels equally wide, but for rounding."""
    rounding = 4e-16 * float(np.max(np.abs(panels.edges)))
    shifts = [phi(panels.nodes) - panels.nodes for phi in step.maps]
    return all(bool(np.ptp(x) <= 4 * rounding) for x in [np.diff(panels.edges), *shifts])


def _check_memory(numbers: int, step: Step, panels: Panels) -> None:
    if numbers > _MAX_NUMBERS:
        size = float(panels.edges[-1] - panels.edges[0]) / step.noise_std
        raise ValueError(
            f"noise_std must be larger for a computed law: the domain spans {size:.4g} of a step's "
            f"noise deviations, got a step with {step.noise_std:g}"
        )


def _scaled(logs: Array) -> tuple[Array, Integers]:
    """Split logarithms, by rows along the last axis, into doubles of about 1 and powers of two."""
    top = logs.max(axis=-1)
    some = np.isfinite(top)
    exponents = np.where(some, np.ceil(np.where(some, top, 0.0) / _LOG_2), _EMPTY).astype(np.int64)
    shift = np.where(some, exponents * _LOG_2, 0.0)
    return np.exp(logs - shift[..., None]), exponents


def _unscaled(values: Array, exponents: Integers) -> Array:
    with np.errstate(divide="ignore"):
        shift = np.where(exponents == _EMPTY, 0, exponents) * _LOG_2
        return np.asarray(np.log(values) + shift[:, None])


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
    half = -shift // 2  # the power alone may overflow
    first, second = 2.0**half, 2.0 ** (-shift - half)
    for i in range(row.shape[0]):
        row[i] = row[i] * first * second
    return exponent + shift


@compiled
def _take_steps(
    times: int, operator: BandedOperator, padded: ScaledState, work: Array, tile: int
) -> None:
    """Apply a step ``times`` times to a state with empty panels beyond its ends, in place.

    For every target panel the values of its sources are brought to one exponent. Matrix products
    do the rest: one for many panels where blocks are shared, else one for each.
    """
    first, last, offset, shared, (below, _), blocks, block_reach = operator[:7]
    from_atoms, to_atoms, between_atoms, from_reach, to_reach, between_reach = operator[7:]
    atoms, atom_exponents = padded.atoms, padded.atom_exponents
    count, order = first.shape[0], padded.values.shape[1]
    values = padded.values[below : below + count]
    exponents = padded.exponents[below : below + count]
    received = np.zeros((count, order))
    scales = np.empty(count, np.int64)
    new_atoms, new_atom_exponents = np.empty_like(atoms), np.empty_like(atom_exponents)
    for _ in range(times):
        for target in range(count):
            low = atom_exponents[0] + from_reach[0, target]
            scales[target] = max(low, atom_exponents[1] + from_reach[1, target])
        for begin in range(0, count, tile):
            end = min(begin + tile, count)
            size = block_reach.shape[0] if shared else last[begin] - first[begin]
            if size == 0:
                continue
            source = begin if shared else first[begin]
            block = 0 if shared else offset[begin]
            gathered = work[: (end - begin) * size * order].reshape((end - begin, size * order))
            _gather(
                padded.values[source:],
                padded.exponents[source:],
                block_reach[block : block + size],
                scales[begin:end],
                gathered,
            )
            own = blocks[block * order : (block + size) * order]
            np.dot(gathered, own, received[begin:end])
        for side in range(2):
            scale, total = _EMPTY, 0.0
            for source in range(count):
                scale = max(scale, exponents[source] + to_reach[side, source])
            for other in range(2):
                scale = max(scale, atom_exponents[other] + between_reach[side, other])
            for source in range(count):
                gap = exponents[source] + to_reach[side, source] - scale
                if gap >= _MIN_GAP:
                    part = 0.0
                    for j in range(order):
                        part += to_atoms[side, source, j] * values[source, j]
                    total += part * _POWERS[-gap]
            for other in range(2):
                gap = atom_exponents[other] + between_reach[side, other] - scale
                if gap >= _MIN_GAP:
                    total += between_atoms[side, other] * atoms[other, 0] * _POWERS[-gap]
            new_atoms[side, 0] = total
            new_atom_exponents[side] = _normalise(new_atoms[side], scale)
        for target in range(count):
            scale, row = scales[target], values[target]
            for i in range(order):
                row[i] = received[target, i] * _UNLIFT
            for side in range(2):
                gap = atom_exponents[side] + from_reach[side, target] - scale
                if gap >= _MIN_GAP:
                    value = atoms[side, 0] * _POWERS[-gap]
                    for i in range(order):
                        row[i] += from_atoms[side, target, i] * value
            exponents[target] = _normalise(row, scale)
        for side in range(2):
            atoms[side, 0], atom_exponents[side] = new_atoms[side, 0], new_atom_exponents[side]


@compiled
def _gather(
    values: Array, exponents: Integers, reach: Integers, scales: Integers, gathered: Array
) -> None:
    """Bring the values of every target's source panels to one exponent, times 2^500.

    Target t receives from the panels from t on, as many as there are in ``reach``. Its exponent in
    ``scales`` becomes that of the largest contribution, if that is larger.
    """
    count, sources, order = scales.shape[0], reach.shape[0], values.shape[1]
    for k in range(sources):
        at, own = exponents[k:], reach[k]
        for target in range(count):
            scales[target] = max(scales[target], at[target] + own)
    for k in range(sources):
        at, own, source = exponents[k:], reach[k], values[k:]
        part = gathered[:, k * order : (k + 1) * order]
        for target in range(count):
            gap = at[target] + own - scales[target]
            factor = _LIFTED_POWERS[-gap] if gap >= _MIN_GAP else 0.0
            for j in range(order):
                part[target, j] = source[target, j] * factor
