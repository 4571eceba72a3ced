"""Tests of several claims that share one error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate


def holm(p_values: ArrayLike, *, error: float) -> NDArray[np.bool_]:
    """Return which hypotheses Holm's step-down procedure rejects.

    The smallest of m p-values is compared with error / m, the next one with error / (m - 1), and so
    on, up to the first that is larger.

    Parameters
    ----------
    p_values : array_like
        One p-value per hypothesis, in [0, 1], shape (m,), dependent in any way.
    error : float
        Probability, in (0, 1), with which any true hypothesis may be rejected.

    Returns
    -------
    numpy.ndarray
        Whether each hypothesis is rejected. With probability at least 1 - ``error`` none of these
        is true. Every hypothesis that an equal split of the error rejects is among them.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Holm (1979). A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> holm([0.01, 0.02, 0.04], error=0.05).tolist()
    [True, True, True]
    >>> holm([0.02, 0.02, 0.04], error=0.05).tolist()
    [False, False, False]
    """
    p = np.atleast_1d(validate.array_in(0, 1, open_ends=False, p_values=p_values))
    validate.open_unit(error=error)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    return np.asarray(multipletests(p, alpha=error, method="holm")[0], dtype=np.bool_)
