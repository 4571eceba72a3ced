"""Datasets: one row of numbers per record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Parameters of the records, in order.

    Parameters
    ----------
    records : Floats
        Finite numbers, shape ``(n, width)``; the loss defines the meaning of a row. Copied and made
        read-only.
    zeroed : int, optional
        Index, from 0, of a record whose loss is replaced by zero; its row is not used. None if
        there is none.

    Raises
    ------
    ValueError
        If ``records`` is not a matrix of finite numbers, or ``zeroed`` is out of range.
    """

    records: Floats
    zeroed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", matrix(records=self.records))
        if self.zeroed is not None:
            self._check_index(zeroed=self.zeroed)

    def __len__(self) -> int:
        return int(self.records.shape[0])

    def replacing(self, index: int, record: ArrayLike) -> Dataset:
        """Return the dataset with another record at an index.

        Parameters
        ----------
        index : int
            Index of the record, from 0.
        record : array_like
            The new record, shape ``(width,)``.

        Returns
        -------
        Dataset
            The dataset.

        Raises
        ------
        ValueError
            If the index is out of range or the record has another width.
        """
        self._check_index(index=index)
        row = validate.sample(record=record)
        if row.size != self.records.shape[1]:
            raise ValueError(
                f"record must have {self.records.shape[1]} numbers, got {row.size} numbers"
            )
        records = self.records.copy()
        records[index] = row
        return Dataset(records, self.zeroed)

    def zeroing(self, index: int) -> Dataset:
        """Return the dataset with the loss of one record replaced by zero.

        Parameters
        ----------
        index : int
            Index of the record, from 0.

        Returns
        -------
        Dataset
            The dataset.
        """
        return Dataset(self.records, index)

    def _check_index(self, **named: int) -> None:
        ((name, index),) = named.items()
        validate.integer(0, **named)
        if index >= len(self):
            raise ValueError(f"{name} must be below the {len(self)} records, got {index!r}")


def matrix(**named: ArrayLike) -> Floats:
    """Return the one named value as a read-only copy: a non-empty matrix of finite numbers."""
    ((name, value),) = named.items()
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise validate.fail(name, "a matrix of numbers", value) from None
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty matrix, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        row, column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"{name} must hold finite numbers only, got {array[row, column]} "
            f"in row {row}, column {column}"
        )
    array.setflags(write=False)
    return array
