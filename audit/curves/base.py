"""The interface of privacy curves."""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.numerics import display
from audit.numerics.arrays import Array
from audit.numerics.display import Marks, Plotted, ShortRepr


class Order(enum.Enum):
    """Order of the pair (X, X') in a divergence.

    ``FORWARD`` is sup_S P(X in S) - e^eps P(X' in S); ``REVERSE`` exchanges the two.
    """

    FORWARD = "forward"
    REVERSE = "reverse"

    @property
    def other(self) -> Order:
        """The other order."""
        return Order.REVERSE if self is Order.FORWARD else Order.FORWARD


class PrivacyCurve(ShortRepr, Plotted):
    """Distinguishability of a pair of laws (X, X'), or an upper bound on it for every pair.

    Every method takes a float and returns a float, or takes an array and returns an array of the
    same shape. It returns the worse of the two orders of the pair unless ``order`` is given. Curves
    known in one form only are converted, and conversions can lose: the ``beta`` of a Renyi curve,
    for example, is a bound derived from its Renyi divergences.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> curve = GaussianCurve(1.0)
    >>> round(curve.epsilon(1e-5), 4), curve.renyi(4.0)
    (4.3772, 2.0)
    >>> curve.delta([0.0, 1.0]).round(4)
    array([0.3829, 0.1269])
    """

    @overload
    def epsilon(self, delta: float, order: Order | None = None) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike, order: Order | None = None) -> float | Array: ...
    def epsilon(self, delta: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``.

        At delta = 0 this is the largest log-likelihood ratio: pure differential privacy. It is
        infinite for a bound that does not cover pure differential privacy.

        Parameters
        ----------
        delta : array_like
            Values in [0, 1).
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        float or ndarray
            Epsilon in nats, shape of ``delta``.

        Raises
        ------
        ValueError
            If a delta is outside [0, 1).
        """
        d = validate.array_in(0, 1, open_ends=False, open_high=True, delta=delta)
        return self._worst(self._epsilon_or_pure, d, order, np.maximum)

    @overload
    def delta(self, epsilon: float, order: Order | None = None) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike, order: Order | None = None) -> float | Array: ...
    def delta(self, epsilon: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the privacy profile, sup_S P(S) - e^epsilon Q(S).

        Parameters
        ----------
        epsilon : array_like
            Any real numbers.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        float or ndarray
            Delta in [0, 1], shape of ``epsilon``.

        Raises
        ------
        ValueError
            If an epsilon is NaN or infinite.
        """
        e = validate.array_in(-np.inf, np.inf, open_ends=True, epsilon=epsilon)
        return self._worst(self._delta, e, order, np.maximum)

    @overload
    def beta(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def beta(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def beta(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the tradeoff function: the least type II error at type I error alpha.

        ``FORWARD`` takes the first law as the null hypothesis. Without an order this is the
        pointwise minimum of the two, which need not be convex.

        Parameters
        ----------
        alpha : array_like
            Type I errors, in [0, 1].
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        float or ndarray
            Type II errors in [0, 1], shape of ``alpha``.

        Raises
        ------
        ValueError
            If an alpha is outside [0, 1].
        """
        a = validate.array_in(0, 1, open_ends=False, alpha=alpha)
        return self._worst(self._beta, a, order, np.minimum)

    @overload
    def renyi(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def renyi(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def renyi(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return the Renyi divergence of order alpha; ``FORWARD`` is D(X || X').

        Parameters
        ----------
        alpha : array_like
            Renyi orders above 1.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        float or ndarray
            Divergences in nats, shape of ``alpha``.

        Raises
        ------
        ValueError
            If an order is not a finite number above 1.
        """
        a = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
        return self._worst(self._renyi, a, order, np.maximum)

    def _draw(self, ax: Any, **style: Any) -> None:
        brackets = [self._ends(delta) for delta in display.DELTAS]
        low, high = np.transpose(brackets)
        (line,) = ax.plot(display.DELTAS, high, **style)
        ax.fill_between(display.DELTAS, low, high, color=line.get_color(), alpha=0.3, lw=0)

    def _marks(self, delta: float) -> Marks:
        """Return epsilon at ``delta`` for a picture: an exact bracket, or an upper bound."""
        label = f"epsilon at delta {delta:g}"
        try:
            ends = self._ends(delta)
        except ValueError as error:
            return Marks(label, note=str(error))
        return Marks(label, exact=ends) if self._bracketed else Marks(label, upper=ends[1])

    def _repr_html_(self) -> str:
        return display.sandwich(repr(self), [self._marks(delta) for delta in display.FEW_DELTAS])

    @property
    def _bracketed(self) -> bool:
        return hasattr(self, "epsilon_bracket")

    def _ends(self, delta: float) -> tuple[float, float]:
        """Return a bracket of epsilon; the upper end twice if there is no lower one."""
        if self._bracketed:
            low, high = self.epsilon_bracket(delta)  # type: ignore[attr-defined]
            return low, high
        return (self.epsilon(delta),) * 2

    def _epsilon_or_pure(self, delta: Array, order: Order) -> Array:
        if np.all(delta > 0):
            return self._epsilon(delta, order)
        result = np.full(delta.shape, self._pure_epsilon(order))
        result[delta > 0] = self._epsilon(delta[delta > 0], order)
        return result

    def _pure_epsilon(self, order: Order) -> float:
        """Return epsilon at delta = 0; infinity is always a valid bound."""
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
        """Whether both orders have the same values, so that one evaluation suffices."""
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
