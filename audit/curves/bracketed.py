"""Privacy curves with certified brackets, and lower bounds on Gaussian parameters."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.brackets import Bracket, checked
from audit.curves.duality import power_bracket
from audit.numerics.normal import gaussian_delta_bracket
from audit.numerics.roots import decreasing_root

Array = NDArray[np.float64]

# Where a Gaussian parameter is looked for: epsilon on both sides of 0, finer where it is small.
EPSILONS = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 36)])


@dataclass(frozen=True)
class MuBracket:
    """Bracket of the least mu for which a pair is mu-GDP.

    Attributes
    ----------
    low, high : float
        Lower and upper bound on mu.
    epsilon : float
        Epsilon at which the pair's delta proves ``low``.
    """

    low: float
    high: float
    epsilon: float

    def __post_init__(self) -> None:
        checked("mu", (self.low, self.high), None)


class BracketedCurve(PrivacyCurve):
    """Privacy curve of one pair of laws, with brackets around every value.

    Brackets include every numerical error: ``low`` is a certified lower bound and, unless a
    subclass says otherwise, ``high`` is a certified upper bound. A bracket that contradicts itself
    raises `audit.curves.brackets.BracketError`.

    Attributes
    ----------
    many_at_once : bool
        Whether evaluating brackets at many points together is much faster than one by one.
    """

    many_at_once: ClassVar[bool] = False
    _cause: ClassVar[str] = "grid"  # of the width of brackets of compositions

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return a bracket of the least epsilon >= 0 at ``delta``.

        Parameters
        ----------
        delta : float
            A number in [0, 1). At 0 epsilon is the largest loss, which may be infinite.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound in nats.

        Raises
        ------
        ValueError
            If ``delta`` is outside [0, 1).
        BracketError
            If the computed bracket contradicts itself or a theorem.
        """
        validate.half_open_unit(delta=delta)
        return self._worse(lambda one: self._epsilon_bracket(float(delta), one), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return a bracket of delta at ``epsilon``.

        Parameters
        ----------
        epsilon : float
            Any real number.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound.

        Raises
        ------
        ValueError
            If ``epsilon`` is not finite.
        BracketError
            If the computed bracket contradicts itself or a theorem.
        """
        validate.finite(epsilon=epsilon)
        return self._worse(lambda one: self._delta_bracket(float(epsilon), one), order)

    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return a bracket of the Renyi divergence of order ``alpha``.

        Parameters
        ----------
        alpha : float
            Renyi order, above 1.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound in nats.

        Raises
        ------
        ValueError
            If ``alpha`` is not above 1.
        BracketError
            If the computed bracket contradicts itself.
        """
        validate.above_one(alpha=alpha)
        return self._worse(lambda one: self._renyi_bracket(float(alpha), one), order)

    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the power 1 - beta of the best test at ``alpha``.

        Parameters
        ----------
        alpha : float
            Type I error, in (0, 1).
        order : Order
            Order of the pair; ``FORWARD`` takes the first law as the null hypothesis.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound.

        Raises
        ------
        ValueError
            If ``alpha`` is outside (0, 1).
        BracketError
            If the computed bracket contradicts itself.
        """
        validate.open_unit(alpha=alpha)
        bracket = power_bracket(lambda e: self.delta_bracket(e, order.other), alpha)
        return checked(f"power at alpha {alpha:g}", bracket, order, most=1.0)

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu for which the pair is mu-GDP, in one order, open above.

        Parameters
        ----------
        order : Order
            Order of the pair.

        Returns
        -------
        MuBracket
            The bracket.
        """
        epsilons = EPSILONS[:25:2]
        deltas = np.array([self.delta_bracket(float(e), order)[0] for e in epsilons])
        low, epsilon = gaussian_mu(deltas, epsilons)
        return MuBracket(low, math.inf, epsilon)

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of.

        Parameters
        ----------
        delta : float
            A number in [0, 1).
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        dict of str to float
            Widths in nats by cause. ``quadrature``, ``rounding`` and ``truncation`` are what the
            bracket would lose without each, and ``cells`` is its width without all of them. That of
            a composition is the width of its ``grid``, whose transforms round, without the
            ``rounding`` of the pairs' masses. ``enclosure`` is the distance of two pairs between
            which the worst one is.

        Examples
        --------
        >>> import audit
        >>> from audit.constructions.explicit import Finite
        >>> law = audit.exact.curve(Finite((0.8, 0.2), (0.2, 0.8)))
        >>> sorted(law.errors(1e-5)), max(law.errors(1e-5).values()) < 1e-12
        (['cells', 'rounding'], True)
        """
        return {self._cause: bracket_width(self.epsilon_bracket(delta, order))}

    @abstractmethod
    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        """Return a bracket that is in order, in one order of the pair."""

    @abstractmethod
    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        """Return a bracket that is in order, in one order of the pair."""

    @abstractmethod
    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket that is in order, in one order of the pair."""

    def _worse(self, ask: Callable[[Order], Bracket], order: Order | None) -> Bracket:
        """Return the bracket of one order, or that of the worse one for None."""
        if order is not None:
            validate.instance(Order, order=order)
            return ask(order)
        first = ask(Order.FORWARD)
        if self.symmetric:
            return first
        second = ask(Order.REVERSE)
        return max(first[0], second[0]), max(first[1], second[1])

    def epsilon_brackets(self, deltas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of epsilon at many deltas.

        Parameters
        ----------
        deltas : ndarray
            Values in [0, 1), shape ``(n,)``.
        order : Order
            Order of the pair.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds in nats, shape ``(n,)`` each.
        """
        return _each(self.epsilon_bracket, deltas, order)

    def renyi_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the Renyi divergences of many orders.

        Parameters
        ----------
        alphas : ndarray
            Renyi orders above 1, shape ``(n,)``.
        order : Order
            Order of the pair.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds in nats, shape ``(n,)`` each.
        """
        return _each(self.renyi_bracket, alphas, order)

    def power_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the power of the best tests at many type I errors.

        Parameters
        ----------
        alphas : ndarray
            Type I errors in (0, 1), shape ``(n,)``.
        order : Order
            Order of the pair.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape ``(n,)`` each.
        """
        return _each(self.power_bracket, alphas, order)

    def epsilon_may_exceed(self, epsilons: Array, deltas: Array, order: Order) -> NDArray[np.bool_]:
        """Return whether epsilon at each delta may exceed a number.

        False is certain; True is not.

        Parameters
        ----------
        epsilons : ndarray
            Numbers to compare with, shape ``(n,)``.
        deltas : ndarray
            Values in [0, 1), shape ``(n,)``.
        order : Order
            Order of the pair.

        Returns
        -------
        ndarray of bool
            False where epsilon is certainly at most the number, shape ``(n,)``.
        """
        found = [self.delta_bracket(float(epsilon), order)[1] for epsilon in epsilons]
        return np.array(found) > deltas

    def power_may_exceed(self, powers: Array, alphas: Array, order: Order) -> NDArray[np.bool_]:
        """Return whether the power at each type I error may exceed a number.

        False is certain; True is not.

        Parameters
        ----------
        powers : ndarray
            Numbers to compare with, shape ``(n,)``.
        alphas : ndarray
            Type I errors in (0, 1), shape ``(n,)``.
        order : Order
            Order of the pair.

        Returns
        -------
        ndarray of bool
            False where the power is certainly at most the number, shape ``(n,)``.
        """
        return self.power_brackets(alphas, order)[1] > powers


def bracket_width(bracket: Bracket) -> float:
    """Return the width of a bracket: 0 where both ends are infinite."""
    low, high = bracket
    return 0.0 if low == high else high - low


def width_beside(whole: float, parts: float) -> float:
    """Return what is left of a width; 0 where it and a part are infinite."""
    return 0.0 if whole == parts else max(whole - parts, 0.0)


def _each(
    bracket: Callable[[float, Order], Bracket], places: Array, order: Order
) -> tuple[Array, Array]:
    lows, highs = np.array([bracket(float(at), order) for at in places]).reshape(-1, 2).T
    return lows, highs


def gaussian_mu(deltas: Array, epsilons: Array) -> tuple[float, float]:
    """Return the largest mu that deltas at ``epsilons`` prove, and the epsilon that proves it.

    A pair is mu-GDP only if its delta(epsilon) is at most that of N(0, 1) against N(mu, 1) at every
    epsilon (Dong, Roth and Su 2022, Corollary 2.13); a larger one refutes that mu. ``deltas`` must
    be certified lower bounds.
    """
    proven = np.where((deltas <= 0) | (deltas >= 1), 0.0, _mus_at(epsilons, deltas))
    mu = float(proven.max())
    return mu, float(epsilons[proven == mu].max())


def _mus_at(epsilons: Array, deltas: Array) -> Array:
    # near delta = 1 the root is ill-conditioned: an error of 1e-16 in delta is 1e-7 in mu, so the
    # error of the profile counts in delta, not in mu
    goals = np.log(np.clip(deltas, 1e-300, 1.0))

    def most(log_mus: Array) -> Array:
        return gaussian_delta_bracket(epsilons, np.exp(log_mus))[1]

    def lack(log_mus: Array) -> Array:
        return goals - np.log(np.maximum(most(log_mus), 1e-300))

    low = np.full(epsilons.shape, math.log(1e-9))
    high = np.full(epsilons.shape, math.log(1e4))
    root = decreasing_root(lack, low, high, xtol=1e-14)
    root = np.where(lack(high) > 0, high, root - 1e-13)
    return np.where(most(root) <= deltas, np.exp(root), 0.0)
