"""Data sets: those that come with scikit-learn, and MNIST from the user's files."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

CLASSES = 10
_TRAINED_ON = 1440  # of the 1797 pictures of scikit-learn: 40 batches of 36
_DARKEST = 16  # a pixel of theirs is a whole number up to this
_IDX = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Pictures:
    """Pictures as rows of pixels in [0, 1], shapes (n, d), and their digits, shapes (n,)."""

    name: str
    train: Array
    train_labels: Labels
    test: Array
    test_labels: Labels


def load_digits(data: Path | None, seed: int) -> Pictures:
    """Return the digits in a file or folder, or those of scikit-learn where none is named.

    Parameters
    ----------
    data
        An ``.npz`` file with ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or a folder with
        the four files of MNIST in the IDX format (``train-images-idx3-ubyte`` and so on, also with
        ``.gz``). Pixels are bytes, or numbers in [0, 1].
    seed
        Splits scikit-learn's pictures in 1440 for training and 357 for tests. Files have their own
        split.

    Raises
    ------
    ImportError
        If scikit-learn is needed and absent.
    ValueError
        If a file cannot be read or holds something else.
    """
    if data is None:
        return _of_scikit_learn(seed)
    arrays = _read_idx(data) if data.is_dir() else _read_npz(data)
    train, test = (_pixels(name, arrays[name]) for name in ("x_train", "x_test"))
    if train.shape[1] != test.shape[1]:
        raise validate.fail("x_test", f"pictures of {train.shape[1]} pixels", test.shape[1])
    return Pictures(
        name=data.stem,
        train=train,
        train_labels=_labels("y_train", arrays["y_train"], len(train)),
        test=test,
        test_labels=_labels("y_test", arrays["y_test"], len(test)),
    )


def scikit_learn_digits() -> tuple[Array, Labels]:
    """Return all 1797 pictures of 8 by 8 pixels in [0, 1], shape (1797, 64), and their digits."""
    loaded = data_set("digits")
    return np.asarray(loaded.data, np.float64) / _DARKEST, np.asarray(loaded.target, np.int64)


def _of_scikit_learn(seed: int) -> Pictures:
    pixels, digits = scikit_learn_digits()
    order = np.random.default_rng(seed).permutation(len(pixels))
    first, rest = order[:_TRAINED_ON], order[_TRAINED_ON:]
    return Pictures(
        name="digits of scikit-learn",
        train=pixels[first],
        train_labels=digits[first],
        test=pixels[rest],
        test_labels=digits[rest],
    )


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise validate.fail("data", "an .npz file or a folder of IDX files", str(path))
        with np.load(path, allow_pickle=False) as stored:
            missing = [name for name in _IDX if name not in stored]
            if missing:
                raise ValueError(f"data must hold {', '.join(_IDX)}, got no {missing[0]} in {path}")
            return {name: stored[name] for name in _IDX}
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"data must be a readable file, got {str(path)!r} ({reason})") from None


def _read_idx(folder: Path) -> dict[str, NDArray[Any]]:
    return {name: _one_idx(folder, file) for name, file in _IDX.items()}


def _one_idx(folder: Path, file: str) -> NDArray[np.uint8]:
    """Read one file of unsigned bytes: 0, 0, 8, dimensions, their sizes (big-endian), the bytes."""
    plain, packed = folder / file, folder / f"{file}.gz"
    if plain.is_file():
        content = plain.read_bytes()
    elif packed.is_file():
        try:
            content = gzip.decompress(packed.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{packed.name} must be a gzip file, got {error}") from None
    else:
        raise ValueError(f"data must hold {file} or {file}.gz, got neither in {str(folder)!r}")
    dimensions = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    start = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist()) if dimensions else ()
    if not dimensions or len(content) - start != int(np.prod(shape)):
        raise ValueError(f"{file} must be an IDX file of bytes, got another one in {str(folder)!r}")
    return np.frombuffer(content[start:], np.uint8).reshape(shape)


def _pixels(name: str, array: NDArray[Any]) -> Array:
    if array.ndim < 2 or len(array) == 0 or array.dtype.kind not in "uif":
        raise validate.fail(name, "an array of pictures", (array.shape, array.dtype.name))
    rows = array.reshape(len(array), -1)
    if array.dtype == np.uint8:
        return np.asarray(rows / 255.0)
    return validate.array_in(0, 1, open_ends=False, open_high=False, **{name: rows})


def _labels(name: str, array: NDArray[Any], pictures: int) -> Labels:
    if array.shape != (pictures,) or array.dtype.kind not in "ui":
        raise validate.fail(name, f"{pictures} whole numbers", (array.shape, array.dtype.name))
    labels = np.asarray(array, np.int64)
    wrong = labels[(labels < 0) | (labels >= CLASSES)]
    if wrong.size:
        raise validate.fail(name, "digits from 0 to 9", int(wrong[0]))
    return labels


def data_set(name: str) -> Any:
    """Return what ``sklearn.datasets.load_<name>()`` returns; nothing is downloaded.

    Raises
    ------
    ImportError
        If scikit-learn is absent.
    """
    try:
        datasets = import_module("sklearn.datasets")
    except ImportError:
        raise ImportError(
            "these data come with scikit-learn: pip install 'noisy-sgd-audit[learn]'"
        ) from None
    return getattr(datasets, f"load_{name}")()


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread, which gives the same bits on every number of cores.

    The tool for it comes with scikit-learn; without it nothing is changed.
    """
    try:
        limits = import_module("threadpoolctl").threadpool_limits
    except ImportError:
        return nullcontext()
    return limits(limits=1)  # type: ignore[no-any-return]
