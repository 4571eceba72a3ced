"""Files of scores: one file per dataset, or one table with a membership column.

``attack_result_*.npz`` of Privacy Meter holds ``scores`` and ``memberships``; other tools write one
row per canary to a CSV or Parquet file. Valid conclusions depend on the training runs behind the
rows, which a file does not describe:

- One row per run: scores of members and of others are independent draws. Use
  `audit.estimation.audit_samples` with ``x`` and ``x_prime``.
- Many rows of one run: the scores depend on each other, and `audit_samples` is invalid. Use
  `audit.estimation.audit_one_run` with ``scores`` and ``member`` if an independent fair coin
  decided on the membership of each row. Choosing a fixed half as members is not enough.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.adapters.libraries import load
from audit.numerics.arrays import Array, Flags
from audit.numerics.display import ShortRepr

__all__ = ["CanaryScores", "read_scores", "read_table"]

Columns = Mapping[str, Any]

_MEMBERSHIP = MappingProxyType(
    {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
)
_MIN_ROWS = 7  # up to so many rows, whole scores may ascend by chance, in steps that differ
# of a first score, and no name of a column; pandas writes a missing one alone on a line as ""
_MISSING = ("NA", "N/A", "<NA>", "NULL", "NONE", "-", "?", ".", '""')
_INDEX = "__index_level_"  # the name that pandas gives to row numbers in Parquet files


@dataclass(frozen=True, eq=False)
class CanaryScores(ShortRepr):
    """Scores of canaries, with their membership in the training data.

    Raises
    ------
    ValueError
        If a score is not finite or the shapes differ.
    """

    scores: Array  #: One finite score per canary, shape ``(n,)``, in the order of the source.
    #: Whether the canary was in the training data, shape ``(n,)``: the coins of `audit_one_run`.
    member: Flags

    def __post_init__(self) -> None:
        scores = validate.real_sample(scores=self.scores)
        member = np.asarray(validate.real_numbers(member=self.member))
        if member.dtype != np.bool_ or member.shape != scores.shape:
            raise ValueError(
                f"member must be booleans of shape {scores.shape}, one a score, "
                f"got {member.dtype} of shape {member.shape}"
            )
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "member", member)

    @property
    def x(self) -> Array:
        """Scores of members: draws for the dataset with the canary."""
        return self._side(True, "members")

    @property
    def x_prime(self) -> Array:
        """Scores of non-members: draws for the dataset without the canary."""
        return self._side(False, "others")

    def _side(self, of: bool, called: str) -> Array:
        found: Array = self.scores[self.member == of]
        if not found.size:
            raise ValueError(f"scores must hold {called}, got {self.scores.size} without one")
        return found


def read_scores(path: str | Path, *, name: str = "scores") -> Array:
    r"""Return the scores of one dataset stored in a file, one row per run."""
    path = Path(path)
    found = np.asarray(_read(_SAMPLES.get(path.suffix.lower(), _text), path, name))
    called = f"{name} of {path}"
    if found.ndim == 2 and 1 in found.shape:
        found = found.ravel()
    if found.ndim != 2:
        return validate.real_sample(**{called: found})
    rows: Array = np.asarray(validate.real_numbers(**{called: found}), dtype=np.float64)
    if not np.all(np.isfinite(rows)):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(
            f"{called} must hold finite numbers only, "
            f"got {rows[row, column]} in row {row + 1}, column {column + 1}"
        )
    for column in range(rows.shape[1]) if len(rows) > 2 else ():
        # as pandas writes them beside scores, also of the rows that are left of some
        by = np.diff(rows[:, column])
        whole = len(rows) > _MIN_ROWS and np.all(by > 0) and np.all(rows[:, column] % 1 == 0)
        if whole or np.all(by == 1):
            got = f"row numbers from {rows[0, column]:g} on in column {column + 1}"
            raise ValueError(f"{called} must hold scores in every column, got {got}")
    return rows


def read_table(path: str | Path, *, score: str, member: str) -> CanaryScores:
    r"""Return the scores and the membership stored in a file.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv``; ``.npz`` with one array per name; ``.npy`` with a structured array
        (named fields) or plain columns; or ``.parquet``, which needs PyArrow. Plain columns, and
        those of text without a header line, are named by number, from "0". A first line "0,1" that
        may be names or scores is refused.
    score, member : str
        Names of the columns. Membership is 0 or 1, or false or true.

    Returns
    -------
    CanaryScores
        Scores and membership, in the order of the file.

    Raises
    ------
    ImportError
        If the file is Parquet and PyArrow is not installed.
    ValueError
        If the file or a column does not exist, both names are equal, a score is not a finite
        number, or membership has other values.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "scores.csv"
    ...     _ = file.write_text("loss,in\n0.5,1\n0.75,0\n0.25,1\n")
    ...     found = read_table(file, score="loss", member="in")
    >>> found.x.tolist(), found.x_prime.tolist()
    ([0.5, 0.25], [0.75])
    """
    validate.instance(str, score=score, member=member)
    if score == member:
        raise validate.fail("member", "another column than score", member)
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise validate.fail("file", f"one of {', '.join(_READERS)}", str(path))
    columns = _read(reader, path, "file")
    try:
        return CanaryScores(
            _numbers(score, _column(columns, score, "score")),
            _members(member, _column(columns, member, "member")),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read(reader: Callable[[Path], Any], path: Path, name: str) -> Any:
    """Return what a reader returns; whatever it raises becomes one line."""
    try:
        return reader(path)
    except ImportError:
        raise
    except Exception as error:  # third-party readers raise anything
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ValueError(f"{name} must be readable, got {str(path)!r} ({reason})") from None


def _column(columns: Columns, name: str, role: str) -> NDArray[Any]:
    if name not in columns:
        known = ", ".join(map(repr, columns)) or "none"
        raise ValueError(f"{role} must be one of the columns {known}, got {name!r}")
    found = np.asarray(columns[name])
    if found.ndim != 1:
        raise ValueError(f"column {name!r} must have one dimension, got shape {found.shape}")
    return found


def _numbers(name: str, given: NDArray[Any]) -> Array:
    """Return a column as finite numbers."""
    called = f"column {name!r}"
    if given.dtype.kind not in "US":
        return validate.real_sample(**{called: given})
    for place, word in enumerate(given.tolist()):
        if not _is_number(word):
            raise ValueError(
                f"{called} must hold numbers, got {validate.shown(word)} at position {place}"
            )
    return validate.sample(**{called: given.astype(np.float64)})


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _members(name: str, given: NDArray[Any]) -> Flags:
    """Return a column of 0 and 1, or of false and true, as booleans."""
    found = [_MEMBERSHIP.get(str(word).strip().lower()) for word in given.tolist()]
    if None in found:
        place = found.index(None)
        raise ValueError(
            f"column {name!r} must hold 0 and 1, or false and true, "
            f"got {validate.shown(given.tolist()[place])} at position {place}"
        )
    return np.array(found, dtype=np.bool_)


def _csv(path: Path) -> Columns:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    names, *rest = rows or [[]]
    names = [name.strip() for name in names]
    if all(map(_is_number, names)) and not _is_header(names, rest):
        names, rest = [str(at) for at in range(len(names))], rows
    if len(set(names)) < len(names):
        raise ValueError(f"names of columns must differ, got {', '.join(names)}")
    filled = [row for row in rest if row]
    for row in filled:
        if len(row) != len(names):
            line = rows.index(row) + 1
            raise ValueError(f"line {line} must have {len(names)} entries, got {len(row)}")
    return {name: np.array([row[at] for row in filled]) for at, name in enumerate(names)}


def _is_header(names: list[str], rest: list[list[str]]) -> bool:
    """Return whether numbers name columns, as pandas writes 0, 1, ...; refuse what may be scores.

    They do if all other lines of a column spell its number in another way, such as 1.0.
    """
    if not names or names != [str(at) for at in range(len(names))]:
        return False
    columns = [{row[at].strip() for row in rest if at < len(row)} for at in range(len(names))]
    for name, column in zip(names, columns, strict=True):
        spelt = [word for word in column if _is_number(word) and float(word) == float(name)]
        if spelt and not any(word.strip("-").isdigit() for word in spelt):
            return True
    if len(names) == 1 and all(word.strip("-").isdigit() for word in columns[0]):  # counts or coins
        return False
    got = ", ".join(names)
    raise ValueError(f"line 1 must name columns in words where it may be scores, got {got}")


def _text(path: Path) -> list[list[float]]:
    """Return the numbers of a text file by line, of which the first may be a header."""
    found: list[list[str]] = []
    begun = named = False
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        cells = [cell.strip() for cell in re.split(r"[,;\t]", line.partition("#")[0])]
        words = " ".join(cells).split()
        if not words:
            continue
        first, begun = not begun, True
        if "" in cells[:-1]:
            column = cells.index("") + 1
            problem = f"line {number} must fill every column, got nothing in column {column}"
            if first and column == 1:
                problem += "; pandas leaves out row numbers with index=False"
            raise ValueError(problem)
        if first and not any(map(_is_number, [words[0], *cells])):
            named = words[0].upper() not in _MISSING
            if named:
                continue
        for column, word in enumerate(words, start=1):
            if not (_is_number(word) and math.isfinite(float(word))):
                got = f"{validate.shown(word)} in column {column}"
                raise ValueError(f"line {number} must hold finite numbers only, got {got}")
        if found and len(words) != len(found[0]):
            raise ValueError(
                f"line {number} must hold as many numbers as those before ({len(found[0])}), "
                f"got {len(words)}"
            )
        found.append(words)
    if found and not named and _is_header(found[0], found[1:]):
        del found[0]
    return [[float(word) for word in words] for words in found]


def _one_array(path: Path) -> NDArray[Any]:
    columns = _npz(path)
    if len(columns) != 1:
        raise ValueError(f"one array must be stored, got {', '.join(columns) or 'none'}")
    (found,) = columns.values()
    return np.asarray(found)


def _npz(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def _npy(path: Path) -> Columns:
    array = np.load(path, allow_pickle=False)
    if array.dtype.names is not None:
        return {name: array[name] for name in array.dtype.names}
    if array.ndim != 2:
        raise ValueError(f"an array of scores and membership has two columns, got {array.shape}")
    return {str(at): column for at, column in enumerate(array.T)}


def _parquet(path: Path) -> Columns:
    table = load("pyarrow.parquet", extra="parquet").read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


_READERS: Mapping[str, Callable[[Path], Columns]] = MappingProxyType(
    {".csv": _csv, ".tsv": _csv, ".npz": _npz, ".npy": _npy, ".parquet": _parquet}
)
# files of one dataset; any other suffix is text
_SAMPLES: Mapping[str, Callable[[Path], Any]] = MappingProxyType(
    {
        ".npy": lambda path: np.load(path, allow_pickle=False),
        ".npz": _one_array,
        ".parquet": lambda path: np.column_stack(
            [_numbers(*c) for c in _parquet(path).items() if not c[0].startswith(_INDEX)]
        ),
    }
)
