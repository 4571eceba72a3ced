"""Jobs: what is drawn of the trials of neighbouring processes, block by block.

A job is a program (the processes: their updates, batches and noise) and a draw (the iterates
themselves, scores of them, or counts above thresholds). Each of its blocks is a pure function of
the job and the number of the block, so that it may run anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.numerics.arrays import Array
from audit.simulation.blocks import Block, Stream
from audit.simulation.fingerprint import described

Score = Callable[[Array], ArrayLike]
_MAX_THRESHOLDS = 10**6  # each takes 16 bytes in every result of a block


class Program(Protocol):
    """Processes whose trials are drawn in blocks; picklable."""

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Random stream of each process."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Number of steps of a trial of each process, at most."""

    @property
    def point(self) -> tuple[int, ...]:
        """Shape of an iterate: ``()`` for numbers, ``(d,)`` for points."""

    @property
    def block_size(self) -> int:
        """Number of trials in a full block."""

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data that fix every trial but for its seed, or `ValueError` if there are none."""

    def values(self, side: int, block: Block, seed: int) -> Array:
        """Return the final iterates of a block of process ``side``, shape (trials, *point)."""


@dataclass(frozen=True)
class Draw:
    """Statistic of final iterates: themselves, or a finite number for each if there is a score.

    With ascending thresholds it is the number of them at or above each, added up over all blocks.
    """

    score: Score | None = None
    thresholds: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.thresholds is None:
            return
        if np.size(self.thresholds) > _MAX_THRESHOLDS:
            raise ValueError(
                f"thresholds must be at most {_MAX_THRESHOLDS:,}, got {np.size(self.thresholds):,}"
            )
        thresholds = validate.sample(thresholds=self.thresholds)
        if np.any(np.diff(thresholds) <= 0):
            raise validate.fail("thresholds", "distinct and ascending", thresholds.tolist())
        object.__setattr__(self, "thresholds", tuple(thresholds.tolist()))

    @property
    def adds_up(self) -> bool:
        """True if results of blocks are added up; otherwise each is kept in its place."""
        return self.thresholds is not None

    def __call__(self, values: Array) -> NDArray[Any]:
        """Return the result of some iterates, one entry a trial or their counts."""
        scores = values if self.score is None else self._scored(self.score, values)
        if self.thresholds is None:
            return scores
        reached = np.searchsorted(np.array(self.thresholds), scores, side="right")  # by each score
        exactly = np.bincount(reached, minlength=np.size(self.thresholds) + 1)
        return np.cumsum(exactly[:0:-1])[::-1]

    @staticmethod
    def _scored(score: Score, values: Array) -> Array:
        found = np.asarray(score(values), dtype=np.float64)
        if found.shape != (len(values),):
            raise ValueError(
                f"score must return one number for each of {len(values)} points, "
                f"got shape {found.shape}"
            )
        if not np.all(np.isfinite(found)):
            raise ValueError(
                f"score must return finite numbers, got {found[~np.isfinite(found)][0]}"
            )
        return found


@dataclass(frozen=True)
class Samples:
    """A job: what is drawn of so many independent trials of each process of a program.

    Of two processes, block 2k is block k of the first one. The result of all blocks depends neither
    on where they run nor on their order; see `run_job`.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    program: Program  #: The processes; `walk_counts` and `audit_dimensions` make jobs with theirs.
    draw: Draw  #: What is kept of their final iterates.
    trials: int  #: Number of trials of each process.
    seed: int  #: Integer of at least 0.

    def __post_init__(self) -> None:
        validate.integer(1, trials=self.trials)
        validate.integer(0, seed=self.seed)
        for name in ("trials", "seed"):
            object.__setattr__(self, name, int(getattr(self, name)))

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data that fix every result, seed included."""
        return {
            **self.program.description,
            "draw": described(self.draw),
            "trials": self.trials,
            "block": self.program.block_size,
            "seed": self.seed,
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result of a process: trials first, unless results are added up."""
        if self.draw.thresholds is not None:
            return (np.size(self.draw.thresholds),)
        return (self.trials, *(self.program.point if self.draw.score is None else ()))

    def __len__(self) -> int:
        """Return the number of blocks."""
        return -(-self.trials // self.program.block_size) * len(self.program.streams)

    def place(self, number: int) -> tuple[int, Block]:
        """Return the process that a block is of, and its trials.

        Parameters
        ----------
        number : int
            Number of the block, from 0.

        Returns
        -------
        tuple of (int, Block)
            Index of the process, and its block.

        Raises
        ------
        ValueError
            If there is no such block.
        """
        validate.integer(0, number=number)
        if number >= len(self):
            raise ValueError(f"number must be below the {len(self)} blocks, got {number!r}")
        inner, side = divmod(int(number), len(self.program.streams))
        start = inner * self.program.block_size
        return side, Block(inner, start, min(start + self.program.block_size, self.trials))

    def work(self, blocks: range) -> int:
        """Return the number of steps in some blocks, as if all trials were of the longest kind.

        Parameters
        ----------
        blocks : range
            Numbers of the blocks.

        Returns
        -------
        int
            Number of steps.
        """
        places = (self.place(number) for number in blocks)
        return sum(len(block) * self.program.steps[side] for side, block in places)

    def run(self, blocks: range) -> NDArray[Any]:
        """Run some blocks.

        Parameters
        ----------
        blocks : range
            Numbers of the blocks, at least one.

        Returns
        -------
        ndarray
            The sums of each process, or the results one after the other.
        """
        places = map(self.place, blocks)
        return self.drawn(
            (side, self.program.values(side, block, self.seed)) for side, block in places
        )

    def drawn(self, iterates: Iterable[tuple[int, Array]]) -> NDArray[Any]:
        """Return what is drawn of final iterates.

        Parameters
        ----------
        iterates : iterable of tuple of (int, ndarray)
            Index of the process, and the iterates of one of its blocks, shape ``(trials, *point)``.

        Returns
        -------
        ndarray
            The sums of each process, or the results one after the other.
        """
        results = []
        shape = (len(self.program.streams), *self.shape)
        total = np.zeros(shape, dtype=np.int64) if self.draw.adds_up else None
        for side, values in iterates:
            result = self.draw(values)
            if total is None:
                results.append(result)
            else:
                total[side] += result
        return np.concatenate(results) if total is None else total
