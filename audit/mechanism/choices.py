"""The choices of a mechanism: batching, adjacency, release, divisor and losses."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Self


class Epochs(enum.Enum):
    """Epochs of a batch sampler."""

    NONE = "none"  # batches do not depend on each other
    REPEATED = "repeated"  # every epoch has the same batches
    FRESH = "fresh"  # every epoch has new ones


@dataclass(frozen=True)
class _Sampler:
    """Facts of a batch sampler that other modules ask for.

    value: Spelling in files.
    batches: Its batches, as an assumption of a theorem names them.
    sentence: Its batches in a report: {b} of {n} records, each at rate {q}.
    is_random: Whether the contents of the batches are random.
    has_random_size: Whether their sizes are.
    epochs: What an epoch is.
    drops_rest: Whether records that fill no batch of an epoch are left out.
    fields: Fields of a mechanism that belong to this sampler.
    """

    value: str
    batches: str
    sentence: str
    is_random: bool = True
    has_random_size: bool = False
    epochs: Epochs = Epochs.NONE
    drops_rest: bool = False
    fields: tuple[str, ...] = ()


class Batching(enum.Enum):
    """Batch sampler: the scheme that chooses the batch of a step.

    The scheme, n, b and the number of steps are public. The contents of the batches are public for
    full and cyclic batches only. An epoch has n/b steps (k n/b for random allocation).

    Attributes
    ----------
    FULL
        All n records in every step.
    CYCLIC
        Fixed batches in a fixed, public order.
    SHUFFLED
        The records are put into one uniformly random order before the run and cut into batches;
        every epoch uses the same batches in the same order.
    WITHOUT_REPLACEMENT
        A fresh uniform batch of size b in each step, independent of the others:
        ``SampledWithoutReplacementDpEvent`` of dp-accounting, ``FixedBatchSampling`` of
        jax-privacy.
    POISSON
        Each record is included independently with probability b/n in each step, so the batch size
        is random: ``UniformWithReplacementSampler`` of Opacus (used with
        ``poisson_sampling=True``), ``PoissonSampledDpEvent`` of dp-accounting,
        ``CyclicPoissonSampling(cycle_length=1)`` of jax-privacy.
    RESHUFFLED
        Like ``SHUFFLED``, with a fresh independent order in every epoch. The data loaders of
        PyTorch (``shuffle=True``; also those of Opacus with ``poisson_sampling=False``) and
        TensorFlow do this; many accountants treat it as Poisson batches.
    DROP_LAST
        Like ``RESHUFFLED``, for a b that need not divide n: an epoch has n/b batches, rounded down,
        and the last records of its order are in none of them. The data loaders of PyTorch
        (``shuffle=True, drop_last=True``) and TensorFlow (``drop_remainder=True``) do this.
    RANDOM_ALLOCATION
        In every epoch each record is assigned to k batches (``participations``), chosen uniformly
        and independently of the other records and epochs, so the batch size is random. Known as
        "balls and bins" for k = 1 (Chua et al. 2024). ``BallsInBinsSampling`` of jax-privacy does
        this within one epoch, but reuses the same batches in later epochs.
    TRUNCATED_POISSON
        Poisson batches; a batch larger than ``max_batch_size`` is reduced to a uniformly random
        subset of that size: ``TruncatedSubsampledGaussianDpEvent`` of dp-accounting,
        ``truncated_batch_size`` of jax-privacy.
    """

    FULL = _Sampler("full", "full batches", "all {n} records in every step", is_random=False)
    CYCLIC = _Sampler(
        "cyclic",
        "cyclic batches",
        "batches of {b} of the {n} records, always the same ones in the same order",
        is_random=False,
        epochs=Epochs.REPEATED,
    )
    SHUFFLED = _Sampler(
        "shuffled",
        "batches of records that are shuffled once",
        "batches of {b} of the {n} records, shuffled once",
        epochs=Epochs.REPEATED,
    )
    WITHOUT_REPLACEMENT = _Sampler(
        "without replacement",
        "batches sampled without replacement",
        "a fresh batch of {b} of the {n} records in every step",
    )
    POISSON = _Sampler(
        "poisson",
        "Poisson batches",
        "each of the {n} records in a step by itself with probability {q}",
        has_random_size=True,
        fields=("poisson_rate",),
    )
    RESHUFFLED = _Sampler(
        "reshuffled",
        "batches of records that are reshuffled in every epoch",
        "batches of {b} of the {n} records, shuffled anew in every epoch",
        epochs=Epochs.FRESH,
    )
    DROP_LAST = _Sampler(
        "drop last",
        "batches of records that are reshuffled in every epoch, without incomplete ones",
        "batches of {b} of the {n} records, shuffled anew in every epoch; the rest is left out",
        epochs=Epochs.FRESH,
        drops_rest=True,
    )
    RANDOM_ALLOCATION = _Sampler(
        "random allocation",
        "random allocation",
        "each of the {n} records in randomly chosen batches of an epoch, {b} in a batch on average",
        has_random_size=True,
        epochs=Epochs.FRESH,
        fields=("participations",),
    )
    TRUNCATED_POISSON = _Sampler(
        "truncated poisson",
        "truncated Poisson batches",
        "each of the {n} records in a step by itself with probability {q}, and large batches cut",
        has_random_size=True,
        fields=("poisson_rate", "max_batch_size"),
    )

    batches: str
    sentence: str
    is_random: bool
    has_random_size: bool
    epochs: Epochs
    drops_rest: bool
    fields: tuple[str, ...]

    def __new__(cls, sampler: _Sampler) -> Self:
        """Make a member with the facts of its description."""
        member = object.__new__(cls)
        member._value_ = sampler.value
        member.batches, member.sentence = sampler.batches, sampler.sentence
        member.is_random, member.has_random_size = sampler.is_random, sampler.has_random_size
        member.epochs, member.drops_rest = sampler.epochs, sampler.drops_rest
        member.fields = sampler.fields
        return member

    @property
    def repeats(self) -> bool:
        """True if every epoch has the same batches."""
        return self.epochs is Epochs.REPEATED

    @property
    def renews(self) -> bool:
        """True if every epoch has new batches."""
        return self.epochs is Epochs.FRESH

    @property
    def is_poisson(self) -> bool:
        """True if each record is drawn on its own in each step."""
        return self.has_random_size and self.epochs is Epochs.NONE

    @property
    def cuts(self) -> bool:
        """True if the records are cut into the batches of an epoch."""
        return not self.has_random_size and self.epochs is not Epochs.NONE


class Relation(enum.Enum):
    """Adjacency: which datasets are neighbours.

    Attributes
    ----------
    REPLACE_ONE
        One record is replaced by another; both datasets have n records.
    ZERO_OUT
        One record's loss is replaced by zero; the record keeps its place in the batches, and a
        regulariser that all records share. X holds the record. ``REPLACE_SPECIAL`` of
        dp-accounting.
    ADD_REMOVE
        X holds a record that X' does not: forward is the removal of the record, reverse its
        addition. n and b/n are those of X and public, so both datasets use the same sampling rate
        and, with ``Divisor.NOMINAL``, the same divisor. Equivalent to ``ZERO_OUT`` if the batches
        of the other records do not depend on the record (Poisson batches, random allocation, full
        batches). ``ADD_OR_REMOVE_ONE`` of dp-accounting, and what the accountants of Opacus
        compute.
    """

    REPLACE_ONE = "replace one"
    ZERO_OUT = "zero out"
    ADD_REMOVE = "add remove"


class Release(enum.Enum):
    """Output that the adversary sees.

    Attributes
    ----------
    LAST_ITERATE
        The iterate after the last step.
    RANDOM_STOP
        The iterate after a random step (Feldman et al. 2018, Stop-PNSGD).
    RANDOM_SKIP
        The last iterate of a run that skips a random number of first records (Feldman et al. 2018,
        Skip-PNSGD).
    EXPONENTIAL_MECHANISM
        One draw from exp(-2 F/(eta sigma^2)), F the mean loss: the limit of the last iterate as the
        number of steps grows and eta falls at fixed eta sigma^2 (Bok, Su and Altschuler 2024,
        section 5).
    ALL_ITERATES
        Every noisy gradient, and so every iterate: the release for which the accountants of Opacus,
        TensorFlow Privacy, jax-privacy and dp-accounting are stated. Without a domain the iterates
        tell as much. An upper bound for all iterates holds for the last iterate; a lower bound for
        the last iterate holds for all iterates.
    """

    LAST_ITERATE = "last iterate"
    RANDOM_STOP = "random stop"
    RANDOM_SKIP = "random skip"
    EXPONENTIAL_MECHANISM = "exponential mechanism"
    ALL_ITERATES = "all iterates"


class Divisor(enum.Enum):
    """Divisor of the noisy sum of a batch's gradients.

    A step moves by eta (sum_{i in B} grad f_i + N(0, b^2 sigma^2 I)) over the divisor, with b the
    nominal batch size. The two values agree for batches of a fixed size.

    Attributes
    ----------
    NOMINAL
        The nominal batch size b, a public constant: TensorFlow Privacy, jax-privacy
        (``normalize_by``) and, if n is public, Opacus (``expected_batch_size``, n over the number
        of batches, rounded down).
    ACTUAL
        The number of records in the batch (1 for an empty batch). Two datasets of different size
        then differ in every record's contribution and in the noise, which accountants do not cover.
        Nor do they cover a divisor computed from each dataset's own n, as in Opacus when n is
        private (meta-pytorch/opacus issues 571 and 819).
    """

    NOMINAL = "nominal"
    ACTUAL = "actual"


class Losses(enum.Enum):
    """Constancy of a record's loss over the steps.

    Attributes
    ----------
    FIXED
        One dataset for the whole run: a record has the same loss whenever it is used.
    CHANGING
        Each step uses losses of its own, chosen before the run: a stream of data, a curriculum,
        fresh augmentations. Each of them meets the assumptions, and both datasets share all of them
        except for the differing record's. A bound for changing losses holds for fixed ones; a lower
        bound for changing losses says nothing about fixed ones.
    """

    FIXED = "fixed"
    CHANGING = "changing"


Choice = Batching | Relation | Release | Divisor | Losses

COVERED_BY_DEFAULT: frozenset[Choice] = frozenset(
    {
        Batching.FULL,
        Batching.CYCLIC,
        Batching.SHUFFLED,
        Batching.WITHOUT_REPLACEMENT,
        Batching.POISSON,
        Relation.REPLACE_ONE,
        Relation.ZERO_OUT,
        Release.LAST_ITERATE,
        Release.RANDOM_STOP,
        Release.RANDOM_SKIP,
        Release.EXPONENTIAL_MECHANISM,
        Divisor.NOMINAL,
        Losses.FIXED,
    }
)
"""Choices that every bound, construction and kernel either supports or refuses explicitly.

Code that does not list another choice as covered refuses it.
"""
