"""The choices of a mechanism: batching, adjacency, release and divisor."""

from __future__ import annotations

import enum


class Batching(enum.Enum):
    """How the batch of a step is chosen.

    The scheme, n, b and the number of steps are public; which records a batch holds is not, but for
    full and cyclic batches. An epoch is n/b steps (k n/b for random allocation).

    Attributes
    ----------
    FULL
        All n records in every step. Nothing is random.
    CYCLIC
        Fixed batches in a fixed, public order. Nothing is random.
    SHUFFLED
        The records are put into one uniformly random order before the run and cut into batches,
        which every epoch takes in the same order.
    WITHOUT_REPLACEMENT
        A fresh uniform batch of size b in each step, independent of the others:
        ``SampledWithoutReplacementDpEvent`` of dp-accounting, ``FixedBatchSampling`` of
        jax-privacy.
    POISSON
        Each record by itself with probability b/n in each step, so that the size of a batch is
        random: Opacus' ``UniformWithReplacementSampler``, which ``poisson_sampling=True`` puts in
        place, ``PoissonSampledDpEvent`` of dp-accounting, ``CyclicPoissonSampling(cycle_length=1)``
        of jax-privacy.
    RESHUFFLED
        As ``SHUFFLED`` with a fresh order, independent of the others, in every epoch. What the data
        loaders of PyTorch (``shuffle=True``, Opacus' with ``poisson_sampling=False`` too) and
        TensorFlow do; many accountants take it for Poisson batches.
    RANDOM_ALLOCATION
        In every epoch each record goes into k batches (``participations``), a uniformly random
        choice that is independent of the other records and epochs. The size of a batch is random.
        "Balls and bins" for k = 1 (Chua et al. 2024). ``BallsInBinsSampling`` of jax-privacy is
        this for a run of one epoch: it draws once, and later epochs take the same batches again.
    TRUNCATED_POISSON
        Poisson batches, from which a uniformly random subset of ``max_batch_size`` records is kept
        where a batch is larger: ``TruncatedSubsampledGaussianDpEvent`` of dp-accounting,
        ``truncated_batch_size`` of jax-privacy.
    """

    FULL = "full"
    CYCLIC = "cyclic"
    SHUFFLED = "shuffled"
    WITHOUT_REPLACEMENT = "without replacement"
    POISSON = "poisson"
    RESHUFFLED = "reshuffled"
    RANDOM_ALLOCATION = "random allocation"
    TRUNCATED_POISSON = "truncated poisson"


class Relation(enum.Enum):
    """What makes two datasets neighbours.

    Attributes
    ----------
    REPLACE_ONE
        One record is replaced by another; both datasets have n records.
    ZERO_OUT
        One record's loss is replaced by zero; the record keeps its place in the batches. X holds
        the record. ``REPLACE_SPECIAL`` of dp-accounting.
    ADD_REMOVE
        X holds a record that X' does not: forward is the removal of the record, reverse its
        addition. n and b/n are those of X, and public, so both datasets use the same sampling rate
        and, with ``Divisor.NOMINAL``, the same divisor. Where the batches of the other records do
        not depend on the record (Poisson batches, random allocation, full batches) this is
        ``ZERO_OUT``. ``ADD_OR_REMOVE_ONE`` of dp-accounting; Opacus' accountants compute it, which
        name no relation.
    """

    REPLACE_ONE = "replace one"
    ZERO_OUT = "zero out"
    ADD_REMOVE = "add remove"


class Release(enum.Enum):
    """What the adversary sees.

    Attributes
    ----------
    LAST_ITERATE
        The iterate after the last step.
    RANDOM_STOP
        The iterate after a random step (Feldman et al. 2018, Stop-PNSGD).
    RANDOM_SKIP
        The last iterate where the first records are left out at random (Feldman et al. 2018,
        Skip-PNSGD).
    EXPONENTIAL_MECHANISM
        One draw from exp(-2 F/(eta sigma^2)), F the mean loss: what the last iterate tends to as
        the steps grow and eta falls at a fixed eta sigma^2 (Bok, Su and Altschuler 2024, section
        5).
    ALL_ITERATES
        Every iterate, or every noisy gradient: what the accountants of Opacus, TensorFlow Privacy,
        jax-privacy and dp-accounting claim for. An upper bound for all iterates is one for the last
        iterate; a lower bound for the last iterate is one for all.
    """

    LAST_ITERATE = "last iterate"
    RANDOM_STOP = "random stop"
    RANDOM_SKIP = "random skip"
    EXPONENTIAL_MECHANISM = "exponential mechanism"
    ALL_ITERATES = "all iterates"


class Divisor(enum.Enum):
    """What a batch's sum of gradients, with its noise, is divided by.

    A step moves by eta (sum_{i in B} grad f_i + N(0, b^2 sigma^2 I)) over the divisor, b the
    nominal batch size. Batches of one fixed size give the two values the same meaning.

    Attributes
    ----------
    NOMINAL
        The nominal batch size b, a public constant: TensorFlow Privacy, jax-privacy
        (``normalize_by``), and, where n is public, Opacus' ``expected_batch_size``, which is n over
        the number of batches, rounded down.
    ACTUAL
        The number of records in the batch (1 for an empty batch). Two datasets of different size
        then differ in every record's contribution, and in the noise; accountants do not cover it.
        Neither do they cover a divisor that is made of each dataset's own n, as Opacus' where n is
        not public (meta-pytorch/opacus issues 571 and 819).
    """

    NOMINAL = "nominal"
    ACTUAL = "actual"


Choice = Batching | Relation | Release | Divisor

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
    }
)
"""The choices that every bound, construction and kernel was written for, or refuses by itself.

Any other choice is refused by whatever does not name it.
"""
