"""What every privacy curve answers, whatever it is made of."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate

Array = NDArray[np.float64]


class Order(enum.Enum):
    """Which law of the pair (X, X') comes first in a divergence.

    ``FORWARD`` is sup_S P(X in S) - e^eps P(X' in S); ``REVERSE`` exchanges the two.
    """

    FORWARD = "forward"
    REVERSE = "reverse"


class PrivacyCurve(ABC):
    """The distinguishability of one pair of laws (X, X'), or a bound on it for every pair.

    All methods take a float (and return a float) or an array (and return an array of the same
    shape), and give the worse of the two orders of the pair unless ``order`` names one. A curve
    that is only a bound on one side is as tight as its form allows: a Renyi curve's ``beta`` is
    the conversion of its Renyi divergences.
    """

    @overload
    def epsilon(self, delta: float, order: Order | None = None) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike, order: Order | None = None) -> float | Array: ...
    def epsilon(self, delta: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``; delta in [0, 1).

        At delta = 0 that is the largest log-likelihood ratio: pure differential privacy. A bound
        that says nothing there is infinite.

        Parameters
        ----------
        delta : array_like
            In [0, 1).
        order : Order, optional
            Of the pair; None for the worse of both.
        """
        d = validate.array_in(0, 1, open_ends=False, open_high=True, delta=delta)
        return self._worst(self._epsilon_or_pure, d, order, np.maximum)

    @overload
    def delta(self, epsilon: float, order: Order | None = None) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike, order: Order | None = None) -> float | Array: ...
    def delta(self, epsilon: ArrayLike, order: Order | None = None) -> float | Array:
        """Return sup_S P(S) - e^epsilon Q(S), the privacy profile, for any real epsilon.

        Parameters
        ----------
        epsilon : array_like
            Any real number.
        order : Order, optional
            Of the pair; None for the worse of both.
        """
        e = validate.array_in(-np.inf, np.inf, open_ends=True, epsilon=epsilon)
        return self._worst(self._delta, e, order, np.maximum)

    @overload
    def beta(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def beta(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def beta(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the tradeoff function: the least type II error at type I error alpha in [0, 1].

        ``FORWARD`` takes the first law as the null hypothesis. Without an order it is the
        pointwise minimum of the two, which need not be convex.

        Parameters
        ----------
        alpha : array_like
            Type I error, in [0, 1].
        order : Order, optional
            Of the pair; None for the worse of both.
        """
        a = validate.array_in(0, 1, open_ends=False, alpha=alpha)
        return self._worst(self._beta, a, order, np.minimum)

    @overload
    def renyi(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def renyi(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def renyi(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the Renyi divergence of order alpha > 1; ``FORWARD`` is D(X || X').

        Parameters
        ----------
        alpha : array_like
            The Renyi order, above 1.
        order : Order, optional
            Of the pair; None for the worse of both.
        """
        a = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
        return self._worst(self._renyi, a, order, np.maximum)

    def _epsilon_or_pure(self, delta: Array, order: Order) -> Array:
        if np.all(delta > 0):
            return self._epsilon(delta, order)
        result = np.full(delta.shape, self._pure_epsilon(order))
        result[delta > 0] = self._epsilon(delta[delta > 0], order)
        return result

    def _pure_epsilon(self, order: Order) -> float:
        """Return epsilon at delta = 0; infinite is always a valid bound."""
        return math.inf

    @abstractmethod
    def _epsilon(self, delta: Array, order: Order) -> Array: ...

    @abstractmethod
    def _delta(self, epsilon: Array, order: Order) -> Array: ...

    @abstractmethod
    def _beta(self, alpha: Array, order: Order) -> Array: ...

    @abstractmethod
    def _renyi(self, alpha: Array, order: Order) -> Array: ...

    @property
    def symmetric(self) -> bool:
        """Whether both orders are the same, so that one evaluation serves."""
        return False

    def _worst(
        self,
        one_order: Callable[[Array, Order], Array],
        values: Array,
        order: Order | None,
        worse: np.ufunc,
    ) -> float | Array:
        flat = np.atleast_1d(values).ravel()
        if order is not None:
            validate.instance(Order, order=order)
            result = one_order(flat, order)
        elif self.symmetric:
            result = one_order(flat, Order.FORWARD)
        else:
            result = worse(one_order(flat, Order.FORWARD), one_order(flat, Order.REVERSE))
        return float(result[0]) if values.ndim == 0 else np.reshape(result, values.shape)
