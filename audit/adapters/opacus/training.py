"""What is claimed of a training with Opacus, beside what is trained."""

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

# Opacus takes 1 / len(data_loader) for the rate; a history stores it as it is.
_SAME_RATE = 1e-12


class Clipping(enum.Enum):
    """How a record's gradient is clipped.

    Attributes
    ----------
    FLAT
        As a whole, by per-sample gradients or by ghost clipping.
    PER_LAYER
        Each parameter's to a norm of its own; the whole gradient has at most the norm of the vector
        of these norms, to which Opacus' noise is scaled.
    """

    FLAT = "flat"
    PER_LAYER = "per layer"


@dataclass(frozen=True, kw_only=True)
class PrivateTraining:
    """What Opacus' accountant claims of a training, beside what is trained.

    Attributes
    ----------
    history : History
        What the accountant was told, or will be.
    claimed : NoisySGD or Composition
        The mechanism that Opacus' accountants assume for it: Poisson batches.
    actual : NoisySGD or Composition
        The mechanism that the optimizer and the loader run. Ask `audit.bounds.batching_gap`, or
        `audit.exact.dominating_curve` of both, how private each is, and `claimed_epsilons` what
        Opacus says.
    loader : Loader
        How batches are drawn.
    divisor, divisor_without_record : int or None
        What the noisy sum is divided by, and what Opacus takes at the same rate for a dataset with
        a record less; None for ``loss_reduction="sum"``.
    clipping : Clipping
        How gradients are clipped, and the largest norm of a record's whole gradient.
    clip_norm : float
        How gradients are clipped, and the largest norm of a record's whole gradient.
    noise_multiplier : float
        The optimizer's, now. Both mechanisms have those of the history, which it follows unless a
        schedule changed it after the last step, or the history is of another optimizer.
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
        """Whether batches are drawn as the accountant assumes."""
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
    """Return what is claimed and what is done by what ``PrivacyEngine.make_private`` returned.

    Parameters
    ----------
    optimizer : object
        Opacus' ``DPOptimizer``, with flat clipping (hooks or ghost) or per layer.
    data_loader : object
        The loader that is iterated: Opacus' ``DPDataLoader``, or with ``poisson_sampling=False``
        any of PyTorch whose sampler `read_loader` knows; that of ``BatchMemoryManager``, too.
    relation : Relation
        What makes two datasets neighbours. Opacus means add/remove; a loader that shuffles or goes
        through the data in order has bounds for zero-out (the record's gradient is zero in one of
        the datasets), for which an accountant of Poisson batches claims the same.
    history : object, optional
        What `read_history` reads, of this loader alone and from the beginning of an epoch on.
    epochs : int, optional
        Instead of a history, before the training: how often the loader will be gone through.

    Raises
    ------
    ImportError
        If Opacus is not installed.
    ValueError
        If the optimizer or sampler has no counterpart here: distributed and adaptive ones, weighted
        sampling or sampling with replacement. If the history is not one of this loader (gradients
        that are accumulated over several batches, too).

    Notes
    -----
    Distributed training is refused. Opacus' distributed sampler leaves out what is empty of a
    worker's share of a batch, so that a worker's next share takes its place: batches are no Poisson
    batches then, and workers can end an epoch after different numbers of steps.

    Adaptive clipping is refused. `AdaClipDPOptimizer` releases the noisy number of unclipped
    gradients, which a record changes by 1, not by the 1/2 of the noise that Andrew et al. (2021,
    Theorem 1) share out, and divides it by the actual size of the batch.
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
    """Return how an optimizer clips, and the largest norm of what it clips to."""
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
