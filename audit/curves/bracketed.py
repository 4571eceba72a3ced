"""Privacy curves with certified brackets, and lower bounds on Gaussian parameters."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.brackets import Bracket, checked, checked_all
from audit.curves.duality import power_bracket
from audit.numerics.arrays import Array
from audit.numerics.normal import gaussian_delta_bracket
from audit.numerics.roots import decreasing_root

Brackets = tuple[Array, Array]  # lower and upper bounds
Number = TypeVar("Number", float, Array)

# Epsilons at which a Gaussian parameter is looked for, denser where they are small.
EPSILONS = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 36)])
# How far below its root log mu is tried, until it is proven: near delta = 1 rounding moves it most.
_MARGINS = (1e-13, *10.0 ** np.arange(-12.0, 0.0, 0.5))


@dataclass(frozen=True)
class MuBracket:
    """Bracket of the least mu for which a pair is mu-GDP; delta at ``epsilon`` proves ``low``."""

    low: float
    high: float
    epsilon: float

    def __post_init__(self) -> None:
        checked("mu", (self.low, self.high), None)


class Measure(enum.Enum):
    """Quantity of a bracket, with the name of its place and its largest value."""

    EPSILON = ("epsilon at delta", math.inf)
    DELTA = ("delta at epsilon", 1.0)
    RENYI = ("Renyi divergence of order", math.inf)
    POWER = ("power at alpha", 1.0)
    BETA = ("type II error at alpha", 1.0)

    @property
    def most(self) -> float:
        """The largest value."""
        return self.value[1]


class BracketedCurve(PrivacyCurve):
    """Privacy curve of one pair of laws, with brackets around every value.

    Brackets include every numerical error: ``low`` is a certified lower bound and, unless a
    subclass says otherwise, ``high`` is a certified upper bound. A bracket that contradicts itself
    raises `audit.curves.brackets.BracketError`. Places are numbers or arrays, and so are the ends.

    Subclasses define ``_brackets``, or ``_epsilon_bracket``, ``_delta_bracket`` and
    ``_renyi_bracket``, at one place each; all in one order of the pair.

    Attributes
    ----------
    many_at_once : bool
        Whether evaluating brackets at many points together is much faster than one by one.
    """

    many_at_once: ClassVar[bool] = False
    _cause: ClassVar[str] = "grid"  # cause of the width of a composition's brackets

    def epsilon_bracket(self, delta: Number, order: Order | None = None) -> tuple[Number, Number]:
        """Return a bracket of the least epsilon >= 0 at ``delta``.

        Parameters
        ----------
        delta : float or ndarray
            Numbers in [0, 1). At 0 epsilon is the largest loss, which may be infinite.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        tuple of (float or ndarray, float or ndarray)
            Lower and upper bounds in nats.
        """
        at = validate.array_in(0, 1, open_ends=False, open_high=True, delta=delta)
        return self._asked(Measure.EPSILON, at, order)

    def delta_bracket(self, epsilon: Number, order: Order | None = None) -> tuple[Number, Number]:
        """Return a bracket of delta at ``epsilon``.

        Parameters
        ----------
        epsilon : float or ndarray
            Any real numbers.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        tuple of (float or ndarray, float or ndarray)
            Lower and upper bounds.
        """
        at = validate.array_in(-np.inf, np.inf, open_ends=True, epsilon=epsilon)
        return self._asked(Measure.DELTA, at, order)

    def renyi_bracket(self, alpha: Number, order: Order | None = None) -> tuple[Number, Number]:
        """Return a bracket of the Renyi divergence of order ``alpha``.

        Parameters
        ----------
        alpha : float or ndarray
            Renyi orders, above 1.
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        tuple of (float or ndarray, float or ndarray)
            Lower and upper bounds in nats.
        """
        at = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
        return self._asked(Measure.RENYI, at, order)

    def power_bracket(self, alpha: Number, order: Order) -> tuple[Number, Number]:
        """Return a bracket of the power 1 - beta of the best test at ``alpha``.

        Parameters
        ----------
        alpha : float or ndarray
            Type I errors, in (0, 1).
        order : Order
            Order of the pair; ``FORWARD`` takes the first law as the null hypothesis.

        Returns
        -------
        tuple of (float or ndarray, float or ndarray)
            Lower and upper bounds.
        """
        at = validate.array_in(0, 1, open_ends=True, alpha=alpha)
        return self._asked(Measure.POWER, at, order)

    def beta_bracket(self, alpha: Number, order: Order) -> tuple[Number, Number]:
        """Return a bracket of the type II error of the best test at ``alpha``.

        Parameters
        ----------
        alpha : float or ndarray
            Type I errors, in (0, 1).
        order : Order
            Order of the pair; ``FORWARD`` takes the first law as the null hypothesis.

        Returns
        -------
        tuple of (float or ndarray, float or ndarray)
            Lower and upper bounds.
        """
        at = validate.array_in(0, 1, open_ends=True, alpha=alpha)
        return self._asked(Measure.BETA, at, order)

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
        epsilons = EPSILONS if self.many_at_once else EPSILONS[:25:2]
        low, epsilon = gaussian_mu(self.delta_bracket(epsilons, order)[0], epsilons)
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

    def _asked(self, asked: Measure, at: Array, order: Order | None) -> tuple[Any, Any]:
        """Return brackets of one order, or of the worse one for None, each checked."""
        if order is not None:
            validate.instance(Order, order=order)
        if order is None and not self.symmetric:
            lows, highs = self._worse(asked, at.ravel())
        else:
            lows, highs = self._checked(asked, at.ravel(), order or Order.FORWARD)
        if at.ndim == 0:
            return float(lows[0]), float(highs[0])
        return lows.reshape(at.shape), highs.reshape(at.shape)

    def _worse(self, asked: Measure, at: Array) -> Brackets:
        """Return brackets of the worse order at several places."""
        lows, highs = np.max([self._checked(asked, at, one) for one in Order], axis=0)
        return lows, highs

    @property
    def unrefined(self) -> Self:
        """The curve for where many deltas are asked; its brackets may be wider."""
        return self

    def _checked(self, asked: Measure, at: Array, order: Order) -> Brackets:
        quantity, most = asked.value
        return checked_all(quantity, at, self._brackets(asked, at, order), order, most=most)

    def _brackets(self, asked: Measure, at: Array, order: Order) -> Brackets:
        """Return brackets at several places, in one order; no grid is refined for many deltas."""
        many = asked in (Measure.POWER, Measure.BETA) or (asked is Measure.DELTA and at.size > 1)
        ask = getattr(self.unrefined if many else self, f"_{asked.name.lower()}_bracket")
        lows, highs = np.array([ask(float(place), order) for place in at]).reshape(-1, 2).T
        return lows, highs

    def _power_bracket(self, alpha: float, order: Order) -> Bracket:
        return power_bracket(lambda e: self.delta_bracket(e, order.other), alpha)

    def _beta_bracket(self, alpha: float, order: Order) -> Bracket:
        low, high = self._power_bracket(alpha, order)
        return max(1 - high - 2.0**-53, 0.0), min(1 - low + 2.0**-53, 1.0)


def bracket_width(bracket: Bracket) -> float:
    """Return the width of a bracket: 0 where both ends are infinite."""
    low, high = bracket
    return 0.0 if low == high else high - low


def width_beside(whole: float, parts: float) -> float:
    """Return what is left of a width; 0 where it and a part are infinite."""
    return 0.0 if whole == parts else max(whole - parts, 0.0)


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
    beyond, found = lack(high) > 0, np.zeros(epsilons.shape)
    for margin in _MARGINS:
        tried = np.where(beyond, high, root - margin)
        proven = (found == 0) & (most(tried) <= deltas)
        found = np.where(proven, np.exp(tried), found)
        if np.all((found > 0) | (deltas <= 0) | (deltas >= 1)):
            break
    return found
