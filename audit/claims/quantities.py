"""The quantities that claims bound: each measures how distinguishable a pair is.

Each quantity is one class. It provides its certified bracket on an exact curve, its lower
confidence bound from samples, its name, and its description in a witness.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order

if TYPE_CHECKING:
    from audit.curves import PrivacyCurve
    from audit.estimation import Audit
    from audit.exact import BracketedCurve

Array = NDArray[np.float64]
Bracket = tuple[float, float]

# Error of a number interpolated between two vertices of the tradeoff function.
_ROUNDING = 2.0**-50


class Quantity(ABC):
    """A number of a pair of laws, larger for a more distinguishable pair.

    Attributes
    ----------
    name
        Name of the number.
    place
        Name of ``at``.
    rises
        Whether the number of any pair increases or decreases with ``at``; None if there is no
        ``at``.
    """

    name: ClassVar[str]
    place: ClassVar[str] = ""
    rises: ClassVar[bool | None] = None

    @property
    @abstractmethod
    def at(self) -> float | None:
        """The place where the number is taken: delta, the order or alpha; None for mu."""

    @property
    def where(self) -> str:
        """The place in words: ``"delta 1e-05"``; empty for mu."""
        return "" if self.at is None else f"{self.place} {self.at:g}"

    @abstractmethod
    def check(self) -> None:
        """Raise ``ValueError`` if the place is out of its range."""

    @abstractmethod
    def bracket(self, curve: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around the true number of a pair; ``low`` is certified."""

    @classmethod
    def taken_at(cls, places: Array) -> tuple[Quantity, ...]:
        """Return the numbers at several places."""
        return tuple(cls(float(at)) for at in places)  # type: ignore[call-arg]

    @staticmethod
    def brackets(curve: BracketedCurve, places: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) like `bracket`, for numbers at several places."""
        raise NotImplementedError

    @staticmethod
    def may_exceed(
        curve: BracketedCurve, places: Array, levels: Array, order: Order
    ) -> NDArray[np.bool_]:
        """Return whether the number at each place can exceed a level; False is certain."""
        raise NotImplementedError

    def sampled_bound(self, audit: Audit) -> tuple[float, Order]:
        """Return the lower confidence bound from samples, and the order of the pair.

        The bound is for one record, even if the pair differs in several. Raises ``ValueError`` if
        these do not bound one record.
        """
        if audit.group_size > 1:
            raise validate.fail(
                "group_size", f"1 for a claim about the {self.name}", audit.group_size
            )
        bounds = [(self.bound_in_order(audit, order), order) for order in Order]
        return max(bounds, key=lambda bound: bound[0])

    @abstractmethod
    def bound_in_order(self, audit: Audit, order: Order) -> float:
        """Return the lower confidence bound from samples for one order of the pair."""

    def upper_bound(self, curve: PrivacyCurve) -> float | None:
        """Return the value of a bound of the catalogue; None if it gives none."""
        return None

    def witness_at(self, curve: BracketedCurve | None, order: Order) -> float:
        """Return the place at which a witness compares the number; samples have no ``curve``."""
        assert self.at is not None
        return self.at

    @abstractmethod
    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return how to compute the number from laws P and Q, as lines of a witness."""


@dataclass(frozen=True)
class EpsilonAtDelta(Quantity):
    """The least epsilon with delta(epsilon) <= ``delta``."""

    delta: float

    name = "epsilon"
    place = "delta"
    rises = False

    @property
    def at(self) -> float:
        """The delta."""
        return self.delta

    def check(self) -> None:
        """Raise ``ValueError`` unless delta is in [0, 1)."""
        validate.half_open_unit(delta=self.delta)

    def bracket(self, curve: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around epsilon."""
        return curve.epsilon_bracket(self.delta, order)

    @staticmethod
    def brackets(curve: BracketedCurve, places: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around epsilon at several deltas."""
        return curve.epsilon_brackets(places, order)

    @staticmethod
    def may_exceed(
        curve: BracketedCurve, places: Array, levels: Array, order: Order
    ) -> NDArray[np.bool_]:
        """Return whether epsilon at each delta can exceed a level, without finding a root."""
        return curve.epsilon_may_exceed(levels, places, order)

    def sampled_bound(self, audit: Audit) -> tuple[float, Order]:
        """Return the lower confidence bound on the epsilon of one record, and the pair's order."""
        if audit.group_size == 1:
            return super().sampled_bound(audit)
        found = audit.per_record_evidence(self.delta)
        at = min(found.pair_delta, 1 - 2.0**-53)
        return found.epsilon, max(Order, key=lambda order: audit.epsilon_lower(at, order))

    def bound_in_order(self, audit: Audit, order: Order) -> float:
        """Return the lower confidence bound on epsilon."""
        return audit.epsilon_lower(self.delta, order)

    def upper_bound(self, curve: PrivacyCurve) -> float:
        """Return the epsilon of a bound."""
        return float(curve.epsilon(self.delta))

    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return the event whose probabilities refute the claim."""
        return (
            f"Let S = {{x : log p(x) - log q(x) > {claimed:.12g}}} (atoms and densities alike).",
            f"The claim says P(S) - exp({claimed:.12g}) Q(S) <= {at:g}.",
            f"It is larger; the epsilon at which the largest such difference falls to {at:g} lies"
            " in 'bracket'.",
        )


@dataclass(frozen=True)
class RenyiAtOrder(Quantity):
    """The Renyi divergence of order ``alpha``."""

    alpha: float

    name = "Renyi divergence"
    place = "order"
    rises = True

    @property
    def at(self) -> float:
        """The order."""
        return self.alpha

    def check(self) -> None:
        """Raise ``ValueError`` unless the order is finite and above 1."""
        validate.above_one(order=self.alpha)

    def bracket(self, curve: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around the divergence."""
        return curve.renyi_bracket(self.alpha, order)

    @staticmethod
    def brackets(curve: BracketedCurve, places: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around the divergences of several orders."""
        return curve.renyi_brackets(places, order)

    @staticmethod
    def may_exceed(
        curve: BracketedCurve, places: Array, levels: Array, order: Order
    ) -> NDArray[np.bool_]:
        """Return whether the divergence of each order can exceed a level."""
        return curve.renyi_brackets(places, order)[1] > levels

    def bound_in_order(self, audit: Audit, order: Order) -> float:
        """Return the lower confidence bound on the divergence."""
        return audit.renyi_lower(self.alpha, order)

    def upper_bound(self, curve: PrivacyCurve) -> float:
        """Return the Renyi divergence of a bound."""
        return float(curve.renyi(self.alpha))

    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return the integral of the divergence, and what samples can show of it."""
        return (
            f"With a = {at:.12g}: D = log(sum of p(x)^a q(x)^(1-a) over atoms, plus its integral)"
            " / (a - 1).",
            f"The claim says D <= {claimed:.12g}; D lies in 'bracket'.",
            "By Hoelder, any h > 0 gives D >= a/(a-1) log E_P[h] - log E_Q[h^(a/(a-1))], so that"
            " samples of both laws suffice to check it.",
        )


@dataclass(frozen=True)
class Mu(Quantity):
    """The least mu for which the pair is mu-GDP."""

    name = "mu"

    @property
    def at(self) -> None:
        """None: mu is one number of the whole pair."""
        return None

    def check(self) -> None:
        """Do nothing, because there is no place."""

    def bracket(self, curve: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around mu."""
        found = curve.mu_bracket(order)
        return found.low, found.high

    def sampled_bound(self, audit: Audit) -> tuple[float, Order]:
        """Return the lower confidence bound on mu of one record, which covers both orders."""
        # k records are k mu-GDP (Dong, Roth and Su 2022, Theorem 2.14)
        low = audit.mu_lower() / audit.group_size
        return (low if audit.group_size == 1 else math.nextafter(low, 0.0)), Order.FORWARD

    def bound_in_order(self, audit: Audit, order: Order) -> float:
        """Return the lower confidence bound on mu, which covers both orders."""
        return audit.mu_lower()

    def witness_at(self, curve: BracketedCurve | None, order: Order) -> float:
        """Return the epsilon at which delta gives the largest bound on mu; 0 for samples."""
        return 0.0 if curve is None else curve.mu_bracket(order).epsilon

    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return the comparison of delta at one epsilon with what mu-GDP allows."""
        return (
            f"Let S = {{x : log p(x) - log q(x) > {at:.12g}}} and d = P(S) - exp({at:.12g}) Q(S).",
            f"The claim of mu = {claimed:.12g} says"
            " d <= Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2)"
            f" with e = {at:.12g}; d is larger.",
        )


@dataclass(frozen=True)
class PowerAtAlpha(Quantity):
    """1 - beta: the power of the best test with a type I error of ``alpha``."""

    alpha: float

    name = "1 - beta"
    place = "alpha"
    rises = True

    @property
    def at(self) -> float:
        """The type I error."""
        return self.alpha

    def check(self) -> None:
        """Raise ``ValueError`` unless alpha is in (0, 1)."""
        validate.open_unit(alpha=self.alpha)

    def bracket(self, curve: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around the power."""
        return curve.power_bracket(self.alpha, order)

    @staticmethod
    def brackets(curve: BracketedCurve, places: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around the power at several alphas."""
        return curve.power_brackets(places, order)

    @staticmethod
    def may_exceed(
        curve: BracketedCurve, places: Array, levels: Array, order: Order
    ) -> NDArray[np.bool_]:
        """Return whether the power at each alpha can exceed a level, from one supporting line."""
        return curve.power_may_exceed(levels, places, order)

    def bound_in_order(self, audit: Audit, order: Order) -> float:
        """Return the lower confidence bound on the power."""
        return max(1 - audit.beta_upper(self.alpha, order) - _ROUNDING, 0.0)

    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return the test whose power refutes the claim."""
        return (
            f"Let a test reject P where q(x)/p(x) is large, with P(reject) = {at:g}.",
            f"The claim says Q(reject) <= {claimed:.12g}; it is larger and lies in 'bracket'.",
        )
