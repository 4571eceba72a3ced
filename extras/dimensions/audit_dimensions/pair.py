"""Neighbouring datasets in d dimensions, and the admissibility of their losses.

Admissibility is checked for every record of both datasets and all over the domain. Where the
supremum of a gradient has no closed form an upper bound is taken, so a pair that passes is
admissible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.constructions.base import SLACK, Inadmissible, check_slopes
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit_dimensions.dataset import Dataset
from audit_dimensions.domains import Domain, WholeSpace
from audit_dimensions.losses import Loss
from audit_dimensions.program import SAMPLERS, Program, compiled

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
    uniform on 0, ..., floor(n/2) (Feldman et al. 2018, section 4). The number of steps is not
    released.

    Admissibility is checked when the pair is made: a pair that exists is a valid lower-bound
    witness for the mechanism.

    Parameters
    ----------
    mechanism : NoisySGD
        Public parameters of the run.
    loss : Loss
        Family of losses, which defines the meaning of the records.
    dataset, dataset_prime : Dataset
        Datasets of X and of X'. They differ in one record. Under ``ZERO_OUT`` one of them has it
        ``zeroed``.
    domain : Domain, optional
        Convex set onto which iterates are projected; its diameter is the mechanism's.
    start : array_like, default: 0.0
        First iterate, shape ``(d,)``, or one number for all coordinates.

    Raises
    ------
    Inadmissible
        If the losses violate an assumption of the mechanism; the message names it.
    ValueError
        If the datasets are not neighbours, or sizes do not match.
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
        refusal = self.mechanism.uncovered(SAMPLERS)
        if refusal is not None:
            raise Inadmissible(f"a pair in d dimensions {refusal}")
        self._check_datasets()
        self._check_neighbours()
        self._check_release()
        self._check_domain()
        object.__setattr__(self, "start", self._checked_start())
        check_losses(self.mechanism, self.loss, self.domain, self.dataset, self.dataset_prime)

    @cached_property
    def dimension(self) -> int:
        """Number of coordinates, d."""
        return self.loss.dimension(self.dataset.records)

    @cached_property
    def differing(self) -> int:
        """Index of the differing record, from 0."""
        return int(differing_records(self.dataset, self.dataset_prime)[0])

    @cached_property
    def programs(self) -> tuple[Program, Program]:
        """Tables of X and of X' for the compiled loop."""
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
                f"relation={self.mechanism.relation.value!r} needs {count} with a zeroed record, "
                f"got {zeroed} of them"
            )

    def _check_release(self) -> None:
        m = self.mechanism
        if m.release is Release.EXPONENTIAL_MECHANISM:
            raise ValueError(
                "release must be 'last iterate', 'random stop' or 'random skip' to be simulated, "
                f"got {m.release.value!r}"
            )
        if m.release is not Release.RANDOM_SKIP:
            return
        in_order = m.batching in (Batching.CYCLIC, Batching.FULL) and m.batch_size == 1
        if not (in_order and m.steps == m.dataset_size):
            raise ValueError(
                "release must be 'last iterate' or 'random stop' but for one pass over the "
                "records, one at a time in fixed order (Feldman et al. 2018 skip records there "
                f"only), got 'random skip' with batching={m.batching.value!r}, "
                f"batch_size={m.batch_size}, steps={m.steps} and dataset_size={m.dataset_size}"
            )
        if isinstance(m.step_size, tuple) and len(set(m.step_size)) > 1:
            raise ValueError(
                "step_size must be one number for release='random skip', got a schedule that varies"
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


def check_losses(
    mechanism: NoisySGD, loss: Loss, domain: Domain, dataset: Dataset, dataset_prime: Dataset
) -> None:
    """Raise `Inadmissible` where a loss breaks an assumption of the mechanism."""
    used = _used_records(dataset, dataset_prime)
    zeroed = dataset.zeroed is not None or dataset_prime.zeroed is not None
    _check_clipping(mechanism, loss, domain, used)
    _check_curvatures(mechanism, loss, domain, used, zeroed)
    _check_holder(mechanism, loss.unclipped, domain, used)
    if mechanism.lipschitz is not None:
        norms = loss.gradient_norms(used, domain)
        if loss.clip is not None or mechanism.strong_convexity == 0:
            # theorems read lipschitz <= clip_norm as "never clipped", regulariser and all; and a
            # regulariser is left out only where losses are strongly convex, as in QuadraticPair
            norms = loss.unclipped.whole_gradient_norms(used, domain)
        _check_at_most(
            loss,
            "gradients of norm at most lipschitz",
            float(np.max(norms)),
            mechanism.lipschitz,
        )
    _check_at_most(
        loss,
        "the differing record's gradients within the sensitivity",
        _differing(loss, domain, dataset, dataset_prime),
        mechanism.sensitivity,
    )
    if mechanism.gradient_sensitivity is not None:
        farthest = _farthest(loss, domain, used, mechanism.gradient_sensitivity)
        if zeroed:
            farthest = max(farthest, float(np.max(loss.gradient_norms(used, domain))))
        _check_at_most(
            loss,
            "any two records' gradients within gradient_sensitivity",
            farthest,
            mechanism.gradient_sensitivity,
        )


def differing_records(dataset: Dataset, dataset_prime: Dataset) -> NDArray[np.intp]:
    """Return the indices of the records that are not the same in both datasets."""
    different = np.any(dataset.records != dataset_prime.records, axis=1)
    for zeroed in {dataset.zeroed, dataset_prime.zeroed} - {None}:
        different[zeroed] = dataset.zeroed != dataset_prime.zeroed
    return np.flatnonzero(different)


def _used_records(dataset: Dataset, dataset_prime: Dataset) -> Floats:
    """Return the different rows of both datasets whose losses are not replaced by zero."""
    rows = [
        np.delete(d.records, [] if d.zeroed is None else [d.zeroed], axis=0)
        for d in (dataset, dataset_prime)
    ]
    return np.unique(np.concatenate(rows), axis=0)


def _differing(loss: Loss, domain: Domain, dataset: Dataset, dataset_prime: Dataset) -> float:
    (index,) = differing_records(dataset, dataset_prime)
    row, row_prime = dataset.records[[index]], dataset_prime.records[[index]]
    if dataset.zeroed is not None:
        return float(loss.gradient_norms(row_prime, domain)[0])
    if dataset_prime.zeroed is not None:
        return float(loss.gradient_norms(row, domain)[0])
    return float(loss.gradient_differences(row, row_prime, domain)[0])


def _farthest(loss: Loss, domain: Domain, records: Floats, enough: float) -> float:
    """Return a bound on the difference of any two records' gradients.

    The triangle inequality through the first record comes first: what it shows to be at most
    ``enough`` needs no look at every pair.
    """
    if len(records) == 1:
        return 0.0
    from_first = np.sort(loss.gradient_differences(records[:1], records, domain))
    bound = float(from_first[-1] + from_first[-2])
    if bound <= enough:
        return bound
    return max(
        float(np.max(loss.gradient_differences(records[[i]], records[i + 1 :], domain)))
        for i in range(len(records) - 1)
    )


def _check_clipping(mechanism: NoisySGD, loss: Loss, domain: Domain, used: Floats) -> None:
    given = mechanism.clip_norm
    if loss.clip is not None:
        if given is None or not math.isclose(given, loss.clip, rel_tol=SLACK - 1):
            raise Inadmissible(
                f"{loss.name} needs clip_norm={loss.clip!r}, the norm it clips to, "
                f"got clip_norm={given!r}"
            )
    elif given is not None:
        largest = float(np.max(loss.whole_gradient_norms(used, domain)))
        if not largest <= given * SLACK:
            raise Inadmissible(
                f"{loss.name} needs clip_norm=None, or gradients that are never clipped, because "
                f"they are not, got clip_norm={given!r} and gradients of norm up to {largest:.6g}"
            )


def _check_curvatures(
    mechanism: NoisySGD, loss: Loss, domain: Domain, used: Floats, zeroed: bool
) -> None:
    least, most = loss.curvatures(used, domain)
    if zeroed:  # that record keeps the regulariser alone
        ridge = loss.ridge(loss.dimension(used))
        least, most = min(least, float(np.min(ridge))), max(most, float(np.max(ridge)))
    for curvature in (least, most):
        got = f"curvature={curvature!r}"
        check_slopes(loss.name, mechanism, "curvature", (curvature, curvature), got)


def _check_holder(mechanism: NoisySGD, loss: Loss, domain: Domain, used: Floats) -> None:
    """Check |grad f(x) - grad f(y)| <= constant |x - y|^order.

    Gradients that change by at most M r over a distance r, and by at most V over any, need
    M r^(1 - order) at the distance min(D, V/M).
    """
    if mechanism.holder is None:
        return
    constant, order = mechanism.holder
    steepest = max(abs(c) for c in loss.curvatures(used, domain))
    needed = 0.0
    if steepest > 0:
        diameter = domain.diameter_in(loss.dimension(used))
        needed = steepest * min(diameter, loss.variation(used, domain) / steepest) ** (1 - order)
    _check_at_most(loss, f"gradients with a Hoelder constant of order {order:g}", needed, constant)


def _check_at_most(loss: Loss, requirement: str, found: float, most: float) -> None:
    if not found <= most * SLACK:
        raise Inadmissible(f"{loss.name} needs {requirement} {most:.6g}, got up to {found:.6g}")
