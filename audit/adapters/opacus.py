"""Opacus: the histories of its accountants, and what its optimizer and data loader do.

Written for Opacus 1.6.0 with PyTorch 2.13.0. The accountants of Opacus assume Poisson batches under
add/remove, although Opacus does not name a relation. From `PrivacyEngine.make_private` they take

- the rate 1 / len(data_loader), regardless of the sampler;
- the optimizer's noise multiplier at every step: the standard deviation of the noise of a batch's
  sum over the clipping norm (per layer: over the norm of the vector of clipping norms).

The divisor: ``loss_reduction="mean"`` divides the noisy sum by ``expected_batch_size``, which is
int(n / len(data_loader)), and ``"sum"`` does not divide; no batch is divided by its actual size.
The noise is divided together with the gradients, so a divisor that is equal for both neighbours has
no effect on privacy, even if it is int(n q) instead of n q. It is equal if n is public, as
`NoisySGD` assumes, or if the neighbours have the same size. Under add/remove with private n,
however, Opacus computes it from each dataset's own n. If the number of batches divides n (as it
does if the batch size does), removing a record makes the divisor b - 1. In d dimensions and T
steps, the standard deviation of the noise alone then distinguishes the two datasets about as well
as sqrt(2 d T)/b-GDP, which no accountant counts (meta-pytorch/opacus issues 571 and 819).
`PrivateTraining` reports this; ``"sum"`` avoids it.
"""

from __future__ import annotations

import enum
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from audit import validate
from audit.adapters.libraries import ClaimedCurve, load
from audit.adapters.steps import any_dataset_size, composed, noise_over_clip_norm, runs_of, step
from audit.mechanism import Batching, Composition, Divisor, NoisySGD, Relation, Release
from audit.numerics.display import ShortRepr

__all__ = [
    "Accountant",
    "Clipping",
    "History",
    "Loader",
    "PrivateTraining",
    "claimed_curve",
    "claimed_epsilons",
    "from_history",
    "from_private",
    "rdp_divergences",
    "read_history",
    "read_loader",
    "to_history",
]

History = tuple[tuple[float, float, int], ...]
"""Noise multiplier, sample rate and number of steps of each entry, in order."""


def read_history(source: Any) -> History:
    """Return the entries of a history."""
    found = source
    if isinstance(found, Mapping):
        if "history" not in found:
            keys = ", ".join(map(str, found)) or "none"
            raise ValueError(f"history must be a state_dict with 'history', got the keys {keys}")
        found = found["history"]
    else:
        found = getattr(found, "accountant", found)  # a PrivacyEngine has one
        found = getattr(found, "history", found)
    if isinstance(found, str) or not isinstance(found, Sequence):
        kinds = "entries (noise multiplier, sample rate, steps), an accountant or its state_dict"
        raise validate.fail("history", kinds, found)
    if not found:
        raise ValueError("history must hold one entry or more, got none")
    return tuple(_entry(f"history[{place}]", entry) for place, entry in enumerate(found))


def _entry(name: str, entry: Any) -> tuple[float, float, int]:
    try:
        noise_multiplier, sample_rate, steps = entry
    except (TypeError, ValueError):
        raise validate.fail(name, "(noise multiplier, sample rate, steps)", entry) from None
    validate.positive(**{f"{name} noise multiplier": noise_multiplier})
    validate.positive(**{f"{name} sample rate": sample_rate})
    validate.closed_unit(**{f"{name} sample rate": sample_rate})
    validate.integer(1, **{f"{name} steps": steps})
    return float(noise_multiplier), float(sample_rate), int(steps)


def from_history(
    history: Any, *, dataset_size: int | None = None, relation: Relation, clip_norm: float = 1.0
) -> NoisySGD | Composition:
    """Return the mechanism that Opacus' accountants assume for a history.

    It has Poisson batches (full batches at rate 1) and releases all iterates. Consecutive entries
    of equal noise multiplier and rate become one run; several runs become a `Composition`. The step
    size is 1, which has no effect if all iterates are released.

    Parameters
    ----------
    history : object
        Anything that `read_history` reads.
    dataset_size : int, optional
        Number of records n. The rate is kept exactly even if rate times n is not a whole number.
        Privacy depends on the rate only: None takes a size that suits the rates.
    relation : Relation
        Opacus assumes ``Relation.ADD_REMOVE``. The noise multiplier is relative to the clipping
        norm in every relation.
    clip_norm : float, default: 1.0
        Norm to which gradients are clipped.

    Returns
    -------
    NoisySGD or Composition
        The mechanism.

    Raises
    ------
    ValueError
        If the history or a number is out of range.

    Examples
    --------
    >>> m = from_history([(1.1, 0.01, 600), (1.1, 0.01, 400)], relation=Relation.ADD_REMOVE)
    >>> m.steps, m.sampling_rate, m.batching.value, round(m.noise_multiplier, 12)
    (1000, 0.01, 'poisson', 1.1)
    """
    entries = read_history(history)
    if dataset_size is None:
        dataset_size = any_dataset_size(*(rate for _, rate, _ in entries))
    validate.integer(1, dataset_size=dataset_size)
    once = partial(step, dataset_size=dataset_size, relation=relation, clip_norm=clip_norm)
    made = []
    for noise_multiplier, rate, steps in entries:
        batching = Batching.FULL if rate == 1 else Batching.POISSON
        size = max(int(dataset_size * rate), 1)  # Opacus' expected_batch_size
        made.append((once(noise_multiplier, rate, batching=batching, batch_size=size), steps))
    return composed(made)


def to_history(mechanism: NoisySGD | Composition) -> History:
    """Return a mechanism as the history of an Opacus accountant.

    Parameters
    ----------
    mechanism : NoisySGD or Composition
        Has Poisson or full batches, all iterates released, the nominal divisor, and add/remove or
        zero-out neighbours, whose pairs of laws are the same.

    Returns
    -------
    tuple of (float, float, int)
        Noise multiplier, sample rate and number of steps of each run.

    Raises
    ------
    ValueError
        If Opacus' accountants do not cover the mechanism.

    Examples
    --------
    >>> m = from_history([(1.1, 0.01, 9)], dataset_size=500, relation=Relation.ADD_REMOVE)
    >>> to_history(m)
    ((1.1, 0.01, 9),)
    """
    if not isinstance(mechanism, NoisySGD | Composition):
        raise validate.fail("mechanism", "a NoisySGD or a Composition", mechanism)
    covered = {
        "batching": (Batching.POISSON, Batching.FULL),
        "release": (Release.ALL_ITERATES,),
        "relation": (Relation.ADD_REMOVE, Relation.ZERO_OUT),
        "divisor": (Divisor.NOMINAL,),
    }
    for run, (name, choices) in itertools.product(runs_of(mechanism), covered.items()):
        choice = getattr(run, name)
        if choice not in choices:
            known = " or ".join(repr(known.value) for known in choices)
            raise validate.fail(f"{name} for a history of Opacus", known, choice.value)
    return tuple(
        (noise_over_clip_norm(run), run.sampling_rate, run.steps) for run in runs_of(mechanism)
    )


class Accountant(enum.Enum):
    """Accountants of Opacus, with their names in ``PrivacyEngine(accountant=...)``."""

    RDP = "rdp"
    PRV = "prv"
    GDP = "gdp"


def claimed_epsilons(
    history: Any, *, accountant: Accountant | str, deltas: Sequence[float]
) -> tuple[float, ...]:
    """Return the epsilons that an accountant of Opacus claims for a history.

    The accountant has its default settings.

    Parameters
    ----------
    history : object
        Anything that `read_history` reads, or a mechanism that `to_history` takes.
    accountant : Accountant or str
        ``Accountant.RDP`` and ``Accountant.PRV`` claim upper bounds; ``Accountant.GDP`` claims a
        central limit approximation, which may be too small according to Opacus.
    deltas : sequence of float
        Values in (0, 1), shape ``(k,)``.

    Returns
    -------
    tuple of float
        Epsilon at each delta, in nats.

    Raises
    ------
    ImportError
        If Opacus is not installed.
    ValueError
        If an argument is out of range, the accountant fails, or the GDP accountant is given several
        entries, of which it reads only the last.

    Examples
    --------
    >>> claimed_epsilons(  # doctest: +SKIP
    ...     [(1.1, 0.01, 1000)], accountant=Accountant.RDP, deltas=(1e-5,)
    ... )
    (1.7118,)
    """
    try:
        kind = Accountant(accountant)
    except ValueError:
        known = " or ".join(repr(kind.value) for kind in Accountant)
        raise validate.fail("accountant", known, accountant) from None
    for delta in deltas:
        validate.open_unit(delta=delta)
    entries = _entries(history)
    if kind is Accountant.GDP and len(entries) > 1:
        raise ValueError(f"history must hold one entry for the gdp accountant, got {len(entries)}")
    library = load("opacus.accountants", extra="opacus")

    def ask() -> list[float]:
        told = library.create_accountant(kind.value)
        told.load_state_dict({"history": list(entries), "mechanism": kind.value})
        return [told.get_epsilon(delta) for delta in deltas]

    return _asked(ask, kind.value)


def rdp_divergences(history: Any, *, orders: Sequence[float]) -> tuple[float, ...]:
    """Return the Renyi divergences that Opacus' RDP accountant computes for a history."""
    for order in orders:
        validate.above_one(order=order)
    entries = _entries(history)
    library = load("opacus.accountants.analysis.rdp", extra="opacus")

    def ask() -> Any:
        return sum(
            np.asarray(library.compute_rdp(q=q, noise_multiplier=z, steps=t, orders=list(orders)))
            for z, q, t in entries
        )

    return _asked(ask, Accountant.RDP.value)


def claimed_curve(accountant: Any) -> ClaimedCurve:
    """Return the curve claimed by an accountant of Opacus.

    Parameters
    ----------
    accountant : RDPAccountant, PRVAccountant or GaussianAccountant
        An accountant with a history.

    Returns
    -------
    ClaimedCurve
        Opacus' epsilons, unchecked. Renyi divergences are available for an ``RDPAccountant`` only,
        at its own orders.

    Raises
    ------
    ImportError
        If Opacus is not installed.
    ValueError
        If ``accountant`` is something else, or has no history.

    Examples
    --------
    >>> claimed_curve(privacy_engine.accountant).epsilon(1e-5)  # doctest: +SKIP
    1.7118
    """
    library = load("opacus.accountants", extra="opacus")
    if not isinstance(accountant, library.IAccountant):
        raise validate.fail("accountant", "an accountant of Opacus", accountant)
    history = read_history(accountant)
    divergences: dict[float, float] = {}
    if isinstance(accountant, library.RDPAccountant):
        orders = [float(order) for order in accountant.DEFAULT_ALPHAS]
        divergences = dict(zip(orders, rdp_divergences(history, orders=orders), strict=True))

    def epsilon_at(delta: float) -> float:
        return _asked(lambda: [accountant.get_epsilon(delta)], accountant.mechanism())[0]

    return ClaimedCurve(f"Opacus' {type(accountant).__name__}", epsilon_at, None, divergences)


def _entries(history: Any) -> History:
    if isinstance(history, NoisySGD | Composition):
        return to_history(history)
    return read_history(history)


def _asked(ask: Callable[[], Iterable[float]], name: str) -> tuple[float, ...]:
    """Return the library's answer; it may warn, and raise any exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = tuple(float(value) for value in ask())
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"Opacus' {name} accountant failed: {reason}") from error
    if any(math.isnan(value) for value in found):
        raise ValueError(f"Opacus' {name} accountant must return numbers, got {found}")
    return found


@dataclass(frozen=True)
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
        drawn = f"at rate {self.rate:.6g}" if self.batch_size is None else f"of {self.batch_size}"
        source = f"{self.records} records, {self.batches} an epoch ({self.sampler})"
        return f"{self.batching.value} batches {drawn} from {source}"

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
        if self.rate is not None:
            drawn = [(noise_multiplier, self.rate, steps) for noise_multiplier, _, steps in history]
            return from_history(
                drawn, dataset_size=self.records, relation=relation, clip_norm=clip_norm
            )
        assert self.batch_size is not None  # None for Poisson samplers only
        cut = self.batching.cuts and not self.batching.drops_rest
        records = self.batches * self.batch_size if cut else self.records
        once = partial(
            step,
            sampling_rate=self.batch_size / records,
            dataset_size=records,
            relation=relation,
            clip_norm=clip_norm,
            batching=self.batching,
        )
        return composed((once(noise_multiplier), steps) for noise_multiplier, _, steps in history)

    def _cut_by(self, history: History) -> bool:
        """Return whether an entry ends within an epoch whose batches depend on each other."""
        if not self.batching.cuts:
            return False
        several = len({noise_multiplier for noise_multiplier, _, _ in history}) > 1
        uneven = self.records != self.batches * (self.batch_size or 0)
        begun = sum(steps for _, _, steps in history) < self.batches
        cut = any(steps % self.batches for _, _, steps in history)
        return (several and cut) or (uneven and begun)


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
            type(batches).__name__,
            Batching.POISSON,
            records=batches.num_samples,
            batches=len(batches),
            rate=batches.sample_rate,
        )
    if type(batches) is not data.BatchSampler:
        raise ValueError(
            "data_loader.batch_sampler must be PyTorch's BatchSampler or Opacus' "
            f"UniformWithReplacementSampler, got {_named(batches)}"
        )
    sampler, size = batches.sampler, int(batches.batch_size)
    known = {
        data.RandomSampler: Batching.RESHUFFLED,
        data.SubsetRandomSampler: Batching.RESHUFFLED,
        data.SequentialSampler: Batching.CYCLIC,
    }
    if type(sampler) not in known:
        names = " or ".join(kind.__name__ for kind in known)
        raise ValueError(f"sampler must be a {names} of torch, got {_named(sampler)}")
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
    if not len(batches):
        raise ValueError("data_loader must draw a batch in every epoch, got none")
    name = type(sampler).__name__
    return Loader(name, batching, records=records, batches=len(batches), batch_size=size)


def _named(thing: Any) -> str:
    """Return the class of an object and its package."""
    if thing is None:
        return "None"
    return f"{type(thing).__name__} of {type(thing).__module__.partition('.')[0]}"


# A history stores Opacus' rate 1 / len(data_loader) exactly.
_RATE_TOLERANCE = 1e-12


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

    Compare the two with `audit.bounds.batching_gap` or `audit.exact.dominating_curve`, and with
    Opacus by `claimed_epsilons`.
    """

    history: History  #: History of the accountant, recorded or planned.
    #: The mechanism that Opacus' accountants assume: Poisson batches.
    claimed: NoisySGD | Composition
    actual: NoisySGD | Composition  #: The mechanism that the optimizer and the loader run.
    loader: Loader  #: How batches are drawn.
    divisor: int | None  #: Divisor of the noisy sum; None for ``loss_reduction="sum"``.
    #: The one that Opacus would use at the same rate for a dataset with one record less.
    divisor_without_record: int | None
    clipping: Clipping  #: How gradients are clipped.
    clip_norm: float  #: Largest norm of a record's whole gradient.
    #: Current noise multiplier of the optimizer. Both mechanisms use those of the history, which
    #: differ only if a schedule changed it after the last step or the history belongs to another
    #: optimizer.
    noise_multiplier: float

    @property
    def as_claimed(self) -> bool:
        """True if batches are drawn as the accountant assumes."""
        return self.claimed == self.actual

    @property
    def doubt(self) -> str:
        """Why the history may be that of another optimizer, in one line; empty if nothing does."""
        last = self.history[-1][0]
        if math.isclose(last, self.noise_multiplier, rel_tol=_RATE_TOLERANCE):
            return ""
        return (
            f"noise: multiplier {last:.6g} at the end of the history, but the optimizer's is "
            f"{self.noise_multiplier:.6g} now; if no schedule changed it, the history is wrong"
        )

    def __str__(self) -> str:
        rates = ", ".join(dict.fromkeys(f"{rate:.6g}" for _, rate, _ in self.history))
        divisor = "the sum of a batch" if self.divisor is None else f"the sum over {self.divisor}"
        if self.divisor_without_record != self.divisor:
            divisor += f" (n must be public: over {self.divisor_without_record} for a record less)"
        verdict = "as the accountant assumes" if self.as_claimed else "NOT what is assumed"
        doubt = f"\n{self.doubt}" if self.doubt else ""
        return (
            f"assumed by Opacus: poisson batches at rate {rates}\n"
            f"drawn: {self.loader}, {verdict}\n"
            f"released: {divisor}, clipping {self.clipping.value} to norm {self.clip_norm:g}"
            f"{doubt}"
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
    et al. 2021, Theorem 1), and divides it by the actual batch size. Ghost clipping with
    `PrivacyEngineAdaptiveClipping` releases such a number too, with noise of a twentieth of the
    batch: its optimizer looks like any other before the first backward pass, and is refused after.

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
        got = "neither" if history is None else "both"
        raise ValueError(f"history or epochs must be given, and not both, got {got}")
    if epochs is not None:
        validate.integer(1, epochs=epochs)
        history = [(optimizer.noise_multiplier, loader.assumed_rate, epochs * loader.batches)]
    entries = read_history(history)
    for place, (_, rate, _) in enumerate(entries):
        if not math.isclose(rate, loader.assumed_rate, rel_tol=_RATE_TOLERANCE):
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
        raise ValueError(f"optimizer must be a {names}, got {_named(optimizer)}")
    if hasattr(optimizer, "_adjusted_noise_multiplier"):  # set by every adaptive backward pass
        raise ValueError("optimizer must clip to a fixed norm, got one of adaptive clipping")
    clip_norm = float(optimizer.max_grad_norm)
    validate.positive(max_grad_norm=clip_norm)
    return known[type(optimizer)], clip_norm
