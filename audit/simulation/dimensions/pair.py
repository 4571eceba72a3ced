"""Two neighbouring datasets in d dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.constructions.base import Inadmissible
from audit.constructions.gradient_limits import SLACK
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit.simulation.dimensions.admissibility import check_losses, differing_records
from audit.simulation.dimensions.dataset import Dataset
from audit.simulation.dimensions.domains import Domain, WholeSpace
from audit.simulation.dimensions.losses import Loss
from audit.simulation.dimensions.program import Program, compiled

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisySGDPair:
    """Noisy-SGD on two neighbouring datasets (X, X') of d-dimensional losses.

    The update is that of `audit.NoisySGD`: the mean of the batch's gradients (their sum divided by
    the nominal batch size), noise in every coordinate, projection onto the domain. Batch k of a
    cycle holds the records k b to (k + 1) b - 1, so the place of the differing record in the
    dataset says when it is used. Shuffled batches permute the records once a run.

    Releases: LAST_ITERATE; RANDOM_STOP, the iterate after a uniform number of steps from 1 to
    ``steps``; RANDOM_SKIP, the last iterate of a pass that leaves out its first t_0 records, t_0
    uniform on 0, ..., floor(n/2) (paper 001, section 4). The number of steps is not released.

    Admissibility is checked when the pair is made: a pair that exists is a valid lower-bound
    witness for the mechanism.

    Parameters
    ----------
    mechanism
        The public parameters.
    loss
        What the records' numbers mean.
    dataset, dataset_prime
        The datasets of X and of X'. They differ in one record; under ``ZERO_OUT`` one of them has
        it ``zeroed``, and the other has not.
    domain
        The convex set onto which iterates are projected; its diameter is the mechanism's.
    start
        The first iterate, shape (d,), or one number for all coordinates.

    Raises
    ------
    Inadmissible
        If the losses break an assumption of the mechanism; the message names it.
    ValueError
        If the datasets are no neighbours, or sizes do not fit each other.
    """

    mechanism: NoisySGD
    loss: Loss
    dataset: Dataset
    dataset_prime: Dataset
    domain: Domain = field(default_factory=WholeSpace)
    start: ArrayLike = 0.0

    def __post_init__(self) -> None:
        validate.instance(NoisySGD, mechanism=self.mechanism)
        validate.instance(Loss, loss=self.loss)
        validate.instance(Dataset, dataset=self.dataset, dataset_prime=self.dataset_prime)
        validate.instance(Domain, domain=self.domain)
        self._check_datasets()
        self._check_neighbours()
        self._check_release()
        self._check_domain()
        object.__setattr__(self, "start", self._checked_start())
        check_losses(self.mechanism, self.loss, self.domain, self.dataset, self.dataset_prime)

    @cached_property
    def dimension(self) -> int:
        """The number of coordinates, d."""
        return self.loss.dimension(self.dataset.records)

    @cached_property
    def differing(self) -> int:
        """The index of the differing record, from 0."""
        return int(differing_records(self.dataset, self.dataset_prime)[0])

    @cached_property
    def programs(self) -> tuple[Program, Program]:
        """The tables of X and of X' for the compiled loop."""
        first, second = (
            compiled(self.mechanism, self.loss, dataset, self.domain, np.asarray(self.start))
            for dataset in (self.dataset, self.dataset_prime)
        )
        return first, second

    def _check_datasets(self) -> None:
        for name, dataset in (("dataset", self.dataset), ("dataset_prime", self.dataset_prime)):
            if len(dataset) != self.mechanism.dataset_size:
                raise ValueError(
                    f"{name} must have dataset_size={self.mechanism.dataset_size} records, "
                    f"got {len(dataset)}"
                )
            self.loss.dimension(dataset.records)
        width, width_prime = (d.records.shape[1] for d in (self.dataset, self.dataset_prime))
        if width != width_prime:
            raise ValueError(
                f"dataset_prime must have {width} numbers a record, as dataset has, "
                f"got {width_prime}"
            )

    def _check_neighbours(self) -> None:
        different = differing_records(self.dataset, self.dataset_prime)
        if different.size != 1:
            raise ValueError(
                f"dataset_prime must differ from dataset in one record, got {different.size} "
                "that differ"
            )
        zeroed = sum(d.zeroed is not None for d in (self.dataset, self.dataset_prime))
        wanted = 0 if self.mechanism.relation is Relation.REPLACE_ONE else 1
        if zeroed != wanted:
            count = "neither dataset" if wanted == 0 else "one of the datasets"
            raise Inadmissible(
                f"relation={self.mechanism.relation.name} needs {count} with a zeroed record, "
                f"got {zeroed} of them"
            )

    def _check_release(self) -> None:
        m = self.mechanism
        if m.release is Release.EXPONENTIAL_MECHANISM:
            raise ValueError(
                "release must be LAST_ITERATE, RANDOM_STOP or RANDOM_SKIP to be simulated, "
                f"got {m.release.name}"
            )
        if m.release is not Release.RANDOM_SKIP:
            return
        in_order = m.batching in (Batching.CYCLIC, Batching.FULL) and m.batch_size == 1
        if not (in_order and m.steps == m.dataset_size):
            raise ValueError(
                "release must be LAST_ITERATE or RANDOM_STOP but for one pass over the records, "
                "one at a time in fixed order (paper 001 skips records there only), got "
                f"RANDOM_SKIP with batching={m.batching.name}, batch_size={m.batch_size}, "
                f"steps={m.steps} and dataset_size={m.dataset_size}"
            )
        if isinstance(m.step_size, tuple) and len(set(m.step_size)) > 1:
            raise ValueError(
                "step_size must be one number for RANDOM_SKIP, got a schedule that varies"
            )

    def _check_domain(self) -> None:
        found = self.domain.diameter_in(self.dimension)
        wanted = math.inf if self.mechanism.diameter is None else self.mechanism.diameter
        if found != wanted and not math.isclose(found, wanted, rel_tol=SLACK - 1):
            raise ValueError(
                f"domain must have the mechanism's diameter ({self.mechanism.diameter!r}), "
                f"got {self.domain!r} of diameter {found:.12g} in {self.dimension} dimensions"
            )

    def _checked_start(self) -> Floats:
        d = self.dimension
        try:
            start = np.array(np.broadcast_to(np.asarray(self.start, dtype=np.float64), (d,)))
        except (TypeError, ValueError):
            raise validate.fail("start", f"one number or {d} numbers", self.start) from None
        if not np.all(np.isfinite(start)):
            raise validate.fail("start", "a point of finite numbers", self.start)
        if not self.domain.contains(start):
            raise ValueError(f"start must be in the domain {self.domain!r}, got {self.start!r}")
        start.setflags(write=False)
        return start
