"""Functions that claims of the tests name. Each worker imports this file, which is quick."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from audit import bounds
from audit.curves import GaussianCurve

GAUSSIAN = GaussianCurve(2.0)  # of four steps with linear losses in `tests.claims.test_judge`


def halved(mechanism, delta):
    return bounds.evaluate("bsa24.theorem_4_1", mechanism).epsilon(delta) / 2


def whole(mechanism, delta):
    return bounds.evaluate("bsa24.theorem_4_1", mechanism).epsilon(delta)


def less(mechanism, order):
    return 0.999 * GAUSSIAN.renyi(order)


def broken(mechanism, delta):
    raise RuntimeError("no\nnumber\x1b[31m")


def leaving(mechanism, delta):
    raise SystemExit(0)


class NumpyLike:
    """A number of another library; what is in it says whether it is one."""

    def __init__(self, dtype="float64", shape=()):
        self.dtype, self.shape = dtype, shape

    def __float__(self):
        return 3.0

    def __repr__(self):
        return "NumpyLike()"


RETURNED = {
    "true": True,
    "text": "1.5",
    "nothing": None,
    "list": [1.5],
    "set": {1.5},
    "array": np.array([1.5]),
    "false_array": np.array(False),
    "complex": 1.5 + 0j,
    "boolean_tensor": NumpyLike("torch.bool"),
    "row": NumpyLike(shape=(3,)),
    "words": "x" * 10_000,
    "integer": 3,
    "fraction": Fraction(3),
    "zero_dimensions": np.array(3.0, dtype=np.float32),
    "tensor": NumpyLike("torch.bfloat16"),
}
