"""Noisy-SGD trial by trial in plain NumPy, with the draws that the kernels document."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit import Batching, Release
from audit.simulation import LANES, draw
from audit.simulation.rng import normal_pair
from audit_dimensions import Dataset, NoisySGDPair

Floats = NDArray[np.float64]


class Lane:
    """The generator of one lane, and what its runs leave to its next ones."""

    def __init__(self, words: NDArray[np.uint64], lane: int, records: int, slots: int) -> None:
        self.words, self.lane = words, lane
        self.order, self.slots = list(range(records)), list(range(slots))

    def bits(self) -> int:
        return int(draw(self.words, self.lane))

    def random(self) -> float:
        return (self.bits() >> 11) * 2.0**-53

    def normals(self, size: int) -> Floats:
        pairs = [
            normal_pair(np.uint64(self.bits()), np.uint64(self.bits()))
            for _ in range(math.ceil(size / 2))
        ]
        return np.array(pairs).reshape(-1)[:size]


def released(
    pair: NoisySGDPair, dataset: Dataset, words: NDArray[np.uint64], trials: int
) -> Floats:
    """What the mechanism releases on a dataset, shape (trials, d)."""
    lanes = [
        Lane(words, lane, len(dataset), pair.mechanism.steps_per_epoch) for lane in range(LANES)
    ]
    return np.array([_run(pair, dataset, lanes[i % LANES]) for i in range(trials)])


def _run(pair: NoisySGDPair, dataset: Dataset, rng: Lane) -> Floats:
    order, slots = rng.order, rng.slots
    m = pair.mechanism
    first, last = 0, m.steps
    if m.release is Release.RANDOM_STOP:
        last = 1 + math.floor(rng.random() * m.steps)
    if m.release is Release.RANDOM_SKIP:
        first = math.floor(rng.random() * (m.steps // 2 + 1))
    if m.batching is Batching.SHUFFLED:
        _shuffle(rng, order, len(order) - 1)
    x = np.array(pair.start)
    places: list[list[int]] = []
    for step in range(m.steps):
        if not first <= step < last:
            rng.normals(x.size)
            continue
        if step % m.steps_per_epoch == 0 and m.batching is Batching.RESHUFFLED:
            _shuffle(rng, order, len(order) - 1)
        if step % m.steps_per_epoch == 0 and m.batching is Batching.RANDOM_ALLOCATION:
            places = []
            for _ in range(m.dataset_size):
                _shuffle(rng, slots, m.participations)
                places.append(slots[: m.participations])
        if m.batching is Batching.RANDOM_ALLOCATION:
            batch = [i for i, own in enumerate(places) if step % m.steps_per_epoch in own]
        else:
            batch = _batch(pair, rng, order, step)
        gradients = pair.loss.gradients(dataset.records, x[None, :], dataset.zeroed)[0]
        once = 1 - len(batch) / m.batch_size  # what is missing of one regulariser
        ridge = once * pair.loss.ridge(x.size) * x
        mean = sum((gradients[i] for i in batch), np.zeros_like(x)) / m.batch_size + ridge
        noise = m.noise_std * rng.normals(x.size)
        x = pair.domain.project(x - m.step_sizes[step] * (mean - noise))
    return x


def _shuffle(rng: Lane, order: list[int], count: int) -> None:
    for i in range(count):
        j = i + math.floor(rng.random() * (len(order) - i))
        order[i], order[j] = order[j], order[i]


def _batch(pair: NoisySGDPair, rng: Lane, order: list[int], step: int) -> list[int]:
    m = pair.mechanism
    n, b = m.dataset_size, m.batch_size
    if m.batching is Batching.FULL:
        return list(range(n))
    place = step % (n // b) * b
    if m.batching is Batching.CYCLIC:
        return list(range(place, place + b))
    if m.batching in (Batching.SHUFFLED, Batching.RESHUFFLED):
        return order[place : place + b]
    if m.batching in (Batching.POISSON, Batching.TRUNCATED_POISSON):
        members, i = [], 0
        while True:
            u = (rng.bits() + 0.5) * 2.0**-64
            i += math.floor(math.log(u) / math.log1p(-b / n)) if b < n else 0
            if i >= n:
                break
            members.append(i)
            i += 1
        if m.max_batch_size is not None and len(members) > m.max_batch_size:
            _shuffle(rng, members, m.max_batch_size)
            members = members[: m.max_batch_size]
        return members
    _shuffle(rng, order, min(b, n - b))
    return order[:b] if b <= n - b else order[n - b :]
