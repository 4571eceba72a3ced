"""Trainings with Opacus: the claimed mechanism and the actual one."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

from audit import validate
from audit.adapters.opacus.history import History, from_history, read_history
from audit.adapters.opacus.loaders import Loader, named, read_loader
from audit.adapters.optional import load
from audit.mechanism import Composition, NoisySGD, Relation
from audit.numerics.display import ShortRepr

# A history stores Opacus' rate 1 / len(data_loader) exactly.
_SAME_RATE = 1e-12


class Clipping(enum.Enum):
    """Clipping of a record's gradient.

    Per layer, the whole gradient has at most the norm of the vector of the layers' norms, to which
    Opacus scales the noise.
    """

    FLAT = "flat"
    PER_LAYER = "per layer"


@dataclass(frozen=True, kw_only=True)
class PrivateTraining(ShortRepr):
    """Claimed and actual mechanism of a training with Opacus.

    Attributes
    ----------
    history : tuple of (float, float, int)
        History of the accountant, recorded or planned.
    claimed : NoisySGD or Composition
        The mechanism that Opacus' accountants assume: Poisson batches.
    actual : NoisySGD or Composition
        The mechanism that the optimizer and the loader run. Compare the two with
        `audit.bounds.batching_gap` or `audit.exact.dominating_curve`, and with Opacus by
        `claimed_epsilons`.
    loader : Loader
        How batches are drawn.
    divisor, divisor_without_record : int or None
        Divisor of the noisy sum, and the one that Opacus would use at the same rate for a dataset
        with one record less; None for ``loss_reduction="sum"``.
    clipping : Clipping
        How gradients are clipped.
    clip_norm : float
        Largest norm of a record's whole gradient.
    noise_multiplier : float
        Current noise multiplier of the optimizer. Both mechanisms use those of the history, which
        differ only if a schedule changed it after the last step or the history belongs to another
        optimizer.
    """

    history: History
    claimed: NoisySGD | Composition
    actual: NoisySGD | Composition
    loader: Loader
    divisor: int | None
    divisor_without_record: int | None
    clipping: Clipping
    clip_norm: float
    noise_multiplier: float

    @property
    def as_claimed(self) -> bool:
        """True if batches are drawn as the accountant assumes."""
        return self.claimed == self.actual

    def __str__(self) -> str:
        rates = ", ".join(dict.fromkeys(f"{rate:.6g}" for _, rate, _ in self.history))
        divisor = "the sum of a batch" if self.divisor is None else f"the sum over {self.divisor}"
        if self.divisor_without_record != self.divisor:
            divisor += f" (n must be public: over {self.divisor_without_record} for a record less)"
        verdict = "as the accountant assumes" if self.as_claimed else "NOT what is assumed"
        last = self.history[-1][0]
        noise = ""
        if not math.isclose(last, self.noise_multiplier, rel_tol=_SAME_RATE):
            noise = (
                f"\nnoise: multiplier {last:.6g} at the end of the history, but the optimizer's is "
                f"{self.noise_multiplier:.6g} now; if no schedule changed it, the history is wrong"
            )
        return (
            f"assumed by Opacus: poisson batches at rate {rates}\n"
            f"drawn: {self.loader}, {verdict}\n"
            f"released: {divisor}, clipping {self.clipping.value} to norm {self.clip_norm:g}"
            f"{noise}"
        )


def from_private(
    optimizer: Any,
    data_loader: Any,
    *,
    relation: Relation,
    history: Any = None,
    epochs: int | None = None,
) -> PrivateTraining:
    """Return the claimed and the actual mechanism of ``PrivacyEngine.make_private``.

    Parameters
    ----------
    optimizer : DPOptimizer
        Opacus' optimizer, with flat clipping (hooks or ghost) or per-layer clipping.
    data_loader : DataLoader
        The loader used for training: Opacus' ``DPDataLoader``; with ``poisson_sampling=False`` any
        loader of PyTorch whose sampler `read_loader` knows; or that of ``BatchMemoryManager``.
    relation : Relation
        Adjacency. Opacus assumes add/remove. For loaders that shuffle or read the data in order,
        bounds are known for zero-out (the record's gradient is zero in one dataset), for which
        accountants of Poisson batches claim the same.
    history : object, optional
        Anything that `read_history` reads, recorded with this loader only and from the start of an
        epoch.
    epochs : int, optional
        Number of epochs, for a training that has not started; replaces ``history``.

    Returns
    -------
    PrivateTraining
        The two mechanisms and what they were read from.

    Raises
    ------
    ImportError
        If Opacus is not installed.
    ValueError
        If the optimizer or the sampler is not supported (distributed or adaptive optimizers,
        weighted sampling, sampling with replacement), or the history does not belong to this loader
        (for example because gradients are accumulated over several batches).

    Notes
    -----
    Distributed training is refused. Opacus' distributed sampler drops empty shares of a batch, so
    that the next share of a worker takes their place: the batches are not Poisson batches, and
    workers may end an epoch after different numbers of steps.

    Adaptive clipping is refused. `AdaClipDPOptimizer` releases the noisy number of unclipped
    gradients, which a record changes by 1, whereas the noise is split for a change of 1/2 (Andrew
    et al. 2021, Theorem 1), and divides it by the actual batch size.

    Examples
    --------
    >>> training = from_private(  # doctest: +SKIP
    ...     optimizer, data_loader, relation=Relation.ZERO_OUT, epochs=10
    ... )
    >>> training.as_claimed  # doctest: +SKIP
    False
    """
    clipping, clip_norm = _read_clipping(optimizer)
    loader = read_loader(data_loader)
    if (history is None) == (epochs is None):
        raise ValueError(
            "history or epochs must be given, and not both, got "
            + ("neither" if history is None else "both")
        )
    if epochs is not None:
        validate.integer(1, epochs=epochs)
        history = [(optimizer.noise_multiplier, loader.assumed_rate, epochs * loader.batches)]
    entries = read_history(history)
    for place, (_, rate, _) in enumerate(entries):
        if not math.isclose(rate, loader.assumed_rate, rel_tol=_SAME_RATE):
            raise ValueError(
                f"history[{place}] sample rate must be 1 / len(data_loader) = "
                f"{loader.assumed_rate!r} for a history of this loader without accumulated "
                f"gradients, got {rate!r}"
            )
    mean = optimizer.loss_reduction == "mean"
    less = len(data_loader.dataset) - 1
    return PrivateTraining(
        history=entries,
        claimed=from_history(
            entries, dataset_size=loader.records, relation=relation, clip_norm=clip_norm
        ),
        actual=loader.mechanism(entries, relation=relation, clip_norm=clip_norm),
        loader=loader,
        divisor=int(optimizer.expected_batch_size) if mean else None,
        divisor_without_record=int(less * loader.assumed_rate) if mean else None,
        clipping=clipping,
        clip_norm=clip_norm,
        noise_multiplier=float(optimizer.noise_multiplier),
    )


def _read_clipping(optimizer: Any) -> tuple[Clipping, float]:
    """Return how an optimizer clips, and the largest norm after clipping."""
    library = load("opacus.optimizers", extra="opacus")
    known = {
        library.DPOptimizer: Clipping.FLAT,
        library.DPOptimizerFastGradientClipping: Clipping.FLAT,
        library.DPPerLayerOptimizer: Clipping.PER_LAYER,
    }
    if type(optimizer) not in known:
        names = " or ".join(kind.__name__ for kind in known)
        raise ValueError(f"optimizer must be a {names}, got {named(optimizer)}")
    clip_norm = float(optimizer.max_grad_norm)
    validate.positive(max_grad_norm=clip_norm)
    return known[type(optimizer)], clip_norm
