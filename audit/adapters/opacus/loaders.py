"""Batch samplers of PyTorch and Opacus data loaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit import validate
from audit.adapters.opacus.history import History, poisson_step
from audit.adapters.optional import load
from audit.adapters.steps import composed
from audit.mechanism import Batching, Composition, NoisySGD, Relation, Release


@dataclass(frozen=True, kw_only=True)
class Loader:
    """Batches that a data loader draws for the logical steps.

    ``sampler`` is the class of PyTorch's or Opacus' sampler, and ``batches`` the number of batches
    an epoch. Poisson batches have a ``rate``, others a ``batch_size``, which the last batch of an
    epoch may not reach.
    """

    sampler: str
    batching: Batching
    records: int
    batches: int
    batch_size: int | None = None
    rate: float | None = None

    @property
    def assumed_rate(self) -> float:
        """Sampling rate that `PrivacyEngine.make_private` passes to the accountant."""
        return 1 / self.batches

    def __str__(self) -> str:
        drawn = (
            f"{self.batching.value} batches at rate {self.rate:.6g}"
            if self.batch_size is None
            else f"{self.batching.value} batches of {self.batch_size}"
        )
        return f"{drawn} from {self.records} records, {self.batches} an epoch ({self.sampler})"

    def mechanism(
        self, history: History, *, relation: Relation, clip_norm: float
    ) -> NoisySGD | Composition:
        """Return the mechanism with this loader's batches, all iterates released.

        If the last batch of an epoch is smaller, shuffled and cyclic batches are modelled as those
        of ``batches * batch_size`` records. This does not change the known privacy: each record is
        in one batch per epoch, the sums of the batches differ by public constants, and all bounds
        use statistics that treat the batches alike (or, for cyclic batches, a record of the first
        batch).
        """
        if self._cut_by(history):
            raise ValueError(
                f"history must hold whole epochs ({self.batches} steps) in every entry for "
                f"{self.batching.value} batches, got {[steps for _, _, steps in history]} steps"
            )
        return composed(
            (self._step(noise_multiplier, relation, clip_norm), steps)
            for noise_multiplier, _, steps in history
        )

    def _cut_by(self, history: History) -> bool:
        """Return whether an entry ends within an epoch whose batches depend on each other."""
        if not self.batching.cuts:
            return False
        several = len({noise_multiplier for noise_multiplier, _, _ in history}) > 1
        uneven = self.records != self.batches * (self.batch_size or 0)
        begun = sum(steps for _, _, steps in history) < self.batches
        cut = any(steps % self.batches for _, _, steps in history)
        return (several and cut) or (uneven and begun)

    def _step(self, noise_multiplier: float, relation: Relation, clip_norm: float) -> NoisySGD:
        if self.rate is not None:
            return poisson_step(noise_multiplier, self.rate, self.records, relation, clip_norm)
        assert self.batch_size is not None  # None for Poisson samplers only
        cut = self.batching.cuts and not self.batching.drops_rest
        return NoisySGD(
            steps=1,
            dataset_size=self.batches * self.batch_size if cut else self.records,
            batch_size=self.batch_size,
            step_size=1.0,
            noise_std=noise_multiplier * clip_norm / self.batch_size,
            clip_norm=clip_norm,
            convex=False,
            batching=self.batching,
            relation=relation,
            release=Release.ALL_ITERATES,
        )


def read_loader(data_loader: Any) -> Loader:
    """Return how a data loader draws its batches.

    =============================================  ==================================
    sampler                                        batches
    =============================================  ==================================
    ``UniformWithReplacementSampler`` of Opacus    Poisson, at its ``sample_rate``
    ``RandomSampler``, ``SubsetRandomSampler``     reshuffled; "drop last" with ``drop_last``
    ``RandomSampler(num_samples=b)``, one batch    without replacement
    ``SequentialSampler``                          cyclic
    any of PyTorch's with one batch of all         full
    =============================================  ==================================

    Opacus calls its Poisson sampler "uniform with replacement", although it samples without.
    """
    data = load("torch.utils.data", extra="opacus")
    samplers = load("opacus.utils.uniform_sampler", extra="opacus")
    split = load("opacus.utils.batch_memory_manager", extra="opacus").BatchSplittingSampler
    validate.instance(data.DataLoader, data_loader=data_loader)
    batches = data_loader.batch_sampler
    if type(batches) is split:  # physical batches within logical ones
        batches = batches.sampler
    if type(batches) is samplers.UniformWithReplacementSampler:
        if getattr(data_loader.collate_fn, "rand_on_empty", False):
            raise ValueError(
                "data_loader must leave empty batches empty, got rand_on_empty=True: a random "
                "record in an empty batch lets a record change a sum by twice the clipping norm"
            )
        return Loader(
            sampler=type(batches).__name__,
            batching=Batching.POISSON,
            records=batches.num_samples,
            batches=len(batches),
            rate=batches.sample_rate,
        )
    if type(batches) is not data.BatchSampler:
        raise ValueError(
            "data_loader.batch_sampler must be PyTorch's BatchSampler or Opacus' "
            f"UniformWithReplacementSampler, got {named(batches)}"
        )
    return _read_batches(batches, data)


def _read_batches(batches: Any, data: Any) -> Loader:
    """Return how PyTorch's batch sampler draws batches from its sampler of records."""
    sampler, size = batches.sampler, int(batches.batch_size)
    known = {
        data.RandomSampler: Batching.RESHUFFLED,
        data.SubsetRandomSampler: Batching.RESHUFFLED,
        data.SequentialSampler: Batching.CYCLIC,
    }
    if type(sampler) not in known:
        names = " or ".join(kind.__name__ for kind in known)
        raise ValueError(f"sampler must be a {names} of torch, got {named(sampler)}")
    records, batching = len(sampler), known[type(sampler)]
    if type(sampler) is data.RandomSampler:
        available = len(sampler.data_source)
        if sampler.replacement:
            raise ValueError("sampler must draw without replacement, got a RandomSampler with it")
        if records < available and records <= size:
            records, size, batching = available, records, Batching.WITHOUT_REPLACEMENT
        elif records != available:
            raise ValueError(
                f"RandomSampler's num_samples must be all {available} records, or one batch of "
                f"them, got {records}"
            )
    elif (
        type(sampler) is data.SubsetRandomSampler and len(set(map(int, sampler.indices))) != records
    ):
        raise ValueError("SubsetRandomSampler's indices must differ, got one that is repeated")
    cut = batching.cuts
    if cut and batches.drop_last and records % size:
        batching = {Batching.RESHUFFLED: Batching.DROP_LAST}.get(batching, batching)
        if not batching.drops_rest or size > records:
            raise ValueError(
                f"data_loader must use all {records} records in an epoch, got drop_last=True, "
                f"which leaves out {records % size}"
            )
    if cut and size >= records:
        size, batching = records, Batching.FULL
    return Loader(
        sampler=type(sampler).__name__,
        batching=batching,
        records=records,
        batches=len(batches),
        batch_size=size,
    )


def named(thing: Any) -> str:
    """Return the class of an object and its package."""
    if thing is None:
        return "None"
    return f"{type(thing).__name__} of {type(thing).__module__.partition('.')[0]}"
