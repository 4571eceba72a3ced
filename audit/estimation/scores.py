"""Scores of samples of any dimension, and the split that keeps them valid.

A score maps every draw to one number; a high value indicates the first law of the pair. The
log-likelihood ratio of known laws needs no samples. Any other score is learned, and must not be
applied to the samples it was trained on: `split` returns a `Training` part for learners and a
`Certifying` part for their scores.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate

Array = NDArray[np.float64]

# Represents an infinite log-likelihood ratio: finite, and larger than any ratio of densities.
LARGEST_SCORE = 1e300
_FEWEST_ROWS = 4


@runtime_checkable
class KnownLaw(Protocol):
    """A law with a density, such as `audit.exact.Law`; it may have an atom at each end."""

    def log_density(self, x: ArrayLike, /) -> Array:
        """Return the log density at x, without the atoms."""
        ...

    @property
    def log_atoms(self) -> tuple[float, float]:
        """Logarithms of the probabilities of the lower and the upper end; -inf for no atom."""
        ...


@dataclass(frozen=True)
class LogRatio:
    """The exact log-likelihood ratio of two known laws on a line: the most powerful score.

    At an end with an atom of either law the ratio is that of the atoms, elsewhere that of the
    densities. Where only one law has mass the score is plus or minus ``LARGEST_SCORE``; where
    neither has, 0.
    """

    first: KnownLaw
    second: KnownLaw
    # of the clamped domain, where the atoms are: the outer edges of the panels of `audit.exact.Law`
    ends: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        validate.instance(KnownLaw, first=self.first, second=self.second)
        if self.ends is None:
            if max(*self.first.log_atoms, *self.second.log_atoms) > -np.inf:
                raise validate.fail("ends", "given where a law has atoms", self.ends)
            return
        low, high = self.ends
        validate.finite(lower_end=low, upper_end=high)
        if not low < high:
            raise validate.fail("ends", "ascending", self.ends)

    def __call__(self, samples: ArrayLike) -> Array:
        """Return the score of each draw; ``samples`` is finite and one-dimensional, not empty."""
        x = validate.real_sample(samples=samples)
        p, q = (np.array(law.log_density(x), dtype=np.float64) for law in (self.first, self.second))
        if self.ends is not None:
            atoms = zip(self.ends, self.first.log_atoms, self.second.log_atoms, strict=True)
            for end, atom_p, atom_q in atoms:
                if max(atom_p, atom_q) > -np.inf:
                    p[x == end], q[x == end] = atom_p, atom_q
        both = (p == -np.inf) & (q == -np.inf)
        if np.any(np.isnan(p) | np.isnan(q) | (p == np.inf) | (q == np.inf)):
            raise ValueError("log_density must give numbers below infinity")
        ratio = np.where(both, 0.0, p) - np.where(both, 0.0, q)
        return np.asarray(np.clip(ratio, -LARGEST_SCORE, LARGEST_SCORE))


@dataclass(frozen=True, eq=False)
class _ScorePart:
    samples: Array  # draws of X and X', shapes (n, d) and (n', d), read-only
    samples_prime: Array
    digest: str  # identifies the split: a hash of the data, the fraction and the seed

    @property
    def scores(self) -> tuple[Array, Array]:
        """The draws of both laws where d is 1, shapes (n,) and (n',)."""
        return self.samples[:, 0], self.samples_prime[:, 0]


class Training(_ScorePart):
    """The part of a split that learners may see. Made by `split`."""


class Certifying(_ScorePart):
    """The part of a split that only fixed scores may see. Made by `split`."""


@dataclass(frozen=True, eq=False)
class Fresh:
    """Draws that the caller declares to be independent of all training samples.

    Parameters
    ----------
    samples, samples_prime : array_like
        Draws of X and X', shapes (n, d), or (n,) for d = 1; finite.

    Raises
    ------
    ValueError
        If they are empty, not finite, or differ in d.
    """

    samples: ArrayLike
    samples_prime: ArrayLike
    rows: tuple[Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", checked_rows(self.samples, self.samples_prime))


def split(
    samples: ArrayLike, samples_prime: ArrayLike, *, fraction: float, seed: int
) -> tuple[Training, Certifying]:
    """Split both samples at random into a part to learn from and a part to certify with.

    Parameters
    ----------
    samples, samples_prime : array_like
        Draws of X and X', shapes (n, d) and (n', d), or (n,) for d = 1; finite, at least 4 each.
    fraction : float
        Share of each sample, in (0, 1), that trains; at least 2 draws are left on either side.
    seed : int
        Seed of the split; a non-negative integer, chosen before looking at the data.

    Returns
    -------
    training : Training
        The part to learn from.
    certifying : Certifying
        The part to certify with, which belongs to the same split. Given the training part, the
        certifying draws are independent of it, so a score learned from it is a fixed function.

    Raises
    ------
    ValueError
        If a sample is too small, not finite or of another shape, or an argument is out of its
        range.

    Examples
    --------
    >>> rows = np.arange(20.0).reshape(10, 2)
    >>> training, certifying = split(rows, rows, fraction=0.4, seed=1)
    >>> training.samples.shape, certifying.samples.shape
    ((4, 2), (6, 2))
    """
    validate.open_unit(fraction=fraction)
    validate.integer(0, seed=seed)
    rows = checked_rows(samples, samples_prime)
    digest = hashlib.blake2b(f"{float(fraction)!r} {int(seed)}".encode(), digest_size=16)
    parts: list[Array] = []
    streams = np.random.SeedSequence(int(seed)).spawn(2)
    for name, points, stream in zip(("samples", "samples_prime"), rows, streams, strict=True):
        size = points.shape[0]
        if size < _FEWEST_ROWS:
            raise ValueError(
                f"{name} must hold at least {_FEWEST_ROWS} draws to be split, got {size}"
            )
        digest.update(str(points.shape).encode())
        digest.update(np.ascontiguousarray(points).tobytes())
        chosen = np.zeros(size, dtype=np.bool_)
        generator = np.random.default_rng(stream)
        count = part_size(fraction, size)
        chosen[generator.choice(size, count, replace=False, shuffle=False)] = True
        parts += [points[chosen], points[~chosen]]
    for part in parts:
        part.flags.writeable = False
    name_of_split = digest.hexdigest()
    return (
        Training(parts[0], parts[2], name_of_split),
        Certifying(parts[1], parts[3], name_of_split),
    )


def part_size(fraction: float, size: int) -> int:
    """Return how many of ``size`` draws choose: at least 2, and at least 2 draws remain."""
    return min(max(2, round(fraction * size)), size - 2)


def held_out_rows(
    held_out: Certifying | Fresh, training: Training, dimension: int
) -> tuple[Array, Array]:
    """Return the draws of ``held_out`` if a score learned from ``training`` may be applied to them.

    They are refused if they come from another split, or are declared fresh but mostly equal
    training samples that have no ties.
    """
    if isinstance(held_out, Training):
        raise TypeError("held_out must not be training samples of the score")
    if not isinstance(held_out, (Certifying, Fresh)):
        raise TypeError(f"held_out must be Certifying or Fresh, got {type(held_out).__name__}")
    if isinstance(held_out, Certifying):
        if held_out.digest != training.digest:
            raise ValueError(
                "held_out must come from the split that trained the score: "
                "another split may contain its training samples"
            )
        rows = held_out.samples, held_out.samples_prime
    else:
        rows = held_out.rows
        for part in rows:
            for learned in (training.samples, training.samples_prime):
                if np.may_share_memory(part, learned) or _mostly_known(part, learned):
                    raise ValueError("held_out must be fresh, got samples that trained the score")
    if rows[0].shape[1] != dimension:
        raise validate.fail("held_out", f"of dimension {dimension}", rows[0].shape[1])
    return rows


def _mostly_known(rows: Array, learned: Array) -> bool:
    if rows.shape[1] != learned.shape[1]:
        return False
    known = {row.tobytes() for row in learned}
    if len(known) < len(learned):  # with ties, equal rows are no evidence of reuse
        return False
    return sum(row.tobytes() in known for row in rows) > len(rows) / 2


def checked_rows(samples: ArrayLike, samples_prime: ArrayLike) -> tuple[Array, Array]:
    """Return both samples as finite arrays of shape (n, d) with the same d."""
    first, second = _rows("samples", samples), _rows("samples_prime", samples_prime)
    if first.shape[1] != second.shape[1]:
        raise validate.fail(
            "samples_prime", f"of dimension {first.shape[1]} like samples", second.shape[1]
        )
    return first, second


def _rows(name: str, value: ArrayLike) -> Array:
    value = validate.real_numbers(**{name: value})
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise validate.fail(name, "an array of numbers", value) from None
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"{name} must be a non-empty array of shape (n,) or (n, d), got shape {array.shape}"
        )
    for row, column in np.argwhere(~np.isfinite(array))[:1]:
        raise ValueError(
            f"{name} must hold finite numbers only, got {array[row, column]} in row {row}"
        )
    return array
