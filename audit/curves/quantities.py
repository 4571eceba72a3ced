"""Quantities: numbers that measure how distinguishable a pair of laws is.

Each is one class, which knows its key in files, its place (a delta, an order, an alpha), its
bracket on an exact curve, its lower confidence bound from samples, and its description in a
witness. All claims, schemas, judges and tables read the registry `QUANTITIES`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeAlias, get_args

import numpy as np

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.bracketed import EPSILONS, BracketedCurve, Number, gaussian_mu
from audit.curves.brackets import Bracket
from audit.numerics.arrays import Array, Flags

# Error of a number interpolated between two vertices of the tradeoff function.
_ROUNDING = 2.0**-50
_TINY_DELTA = 1e-12


class SampledBounds(Protocol):
    """Lower bounds from samples, as `audit.estimation.Audit` gives them."""

    @property
    def group_size(self) -> int:
        """Number of records in which the pair differs."""

    def per_record_evidence(self, delta: float) -> Any:
        """Return the bound on the epsilon of one record, with its evidence."""

    def mu_lower(self) -> float:
        """Return the bound on mu."""

    def renyi_lower(self, alpha: float, order: Order | None = None) -> float:
        """Return the bound on a Renyi divergence."""

    def beta_upper(self, alpha: float, order: Order | None = None) -> float:
        """Return an upper bound on the tradeoff function."""

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the vertices of that bound."""


@dataclass(frozen=True)
class Quantity(ABC):
    """A number of a pair of laws, larger for a more distinguishable pair."""

    kind: ClassVar[str]  # key of the quantity in files
    name: ClassVar[str]  # in sentences and in witnesses
    value: ClassVar[str] = ""  # name of its value in files, where that is not ``kind``
    limits: ClassVar[str] = "at least 0"  # values that it can have, in words
    place: ClassVar[str] = ""  # name of ``at``; empty if there is none
    places: ClassVar[str] = ""  # its plural, where a source may be asked at several
    # Key of a list of values with their places; a value and its place are then keys of a claim,
    # while those of other quantities are a mapping from places to values.
    rows: ClassVar[str] = ""
    exceeds: ClassVar[str] = ""  # key of the claim that the number exceeds a value; "" for none
    written: ClassVar[str]  # an example of the claim in files
    rises: ClassVar[bool | None] = None  # whether the number increases or decreases with ``at``
    asked: ClassVar[str] = ""  # what brackets of a curve are asked for
    in_range: ClassVar[Callable[..., None]]  # raises ``ValueError`` for a place out of its range

    at: float | None = None  # where the number is taken: delta, the order or alpha

    @property
    def where(self) -> str:
        """The place in words: ``"delta 1e-05"``; empty if there is none."""
        return "" if self.at is None else f"{self.place} {self.at:g}"

    @property
    def at_where(self) -> str:
        """The place for the end of a sentence: ``" at delta 1e-05"``; empty if there is none."""
        return "" if self.at is None else f" at {self.where}"

    @property
    def largest(self) -> float:
        """The largest value that it can have."""
        return math.inf if self.limits == "at least 0" else 1.0

    @classmethod
    def check_value(cls, number: float) -> None:
        """Raise ``ValueError`` unless a file may claim the number."""
        check = validate.nonnegative if cls.limits == "at least 0" else validate.closed_unit
        check(**{cls.value or cls.kind: number})

    @classmethod
    def of_value(cls, number: float) -> float:
        """Return the quantity for the number in a file, or the number for the quantity."""
        return number

    @classmethod
    def check_place(cls, at: float) -> None:
        """Raise ``ValueError`` if the place is out of its range, or there is none."""
        if not cls.place:
            raise validate.fail("at", f"left out for {cls.name}", at)
        cls.in_range(**{cls.place: at})

    def check(self) -> None:
        """Raise ``ValueError`` if the place is out of its range."""
        if self.at is not None:
            self.check_place(self.at)

    def bracket(self, law: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around the true number of a pair; ``low`` is certified."""
        assert self.at is not None
        return self.brackets(law, self.at, order)

    @classmethod
    def brackets(
        cls, law: BracketedCurve, places: Number, order: Order | None
    ) -> tuple[Number, Number]:
        """Return (lows, highs) like `bracket`, for numbers at several places."""
        found: tuple[Number, Number] = getattr(law, f"{cls.asked}_bracket")(places, order)
        return found

    @classmethod
    def may_exceed(cls, law: BracketedCurve, places: Array, levels: Array, order: Order) -> Flags:
        """Return whether the number at each place can exceed a level; False is certain."""
        return cls.brackets(law, places, order)[1] > levels

    def sampled_bound(self, audit: SampledBounds) -> tuple[float, Order]:
        """Return the lower confidence bound for one record from samples, and the pair's order.

        Raises ``ValueError`` if the pair differs in several records and these do not bound one.
        """
        if audit.group_size > 1:
            raise validate.fail(
                "group_size", f"1 for a claim about the {self.name}", audit.group_size
            )
        bounds = [(self.bound_in_order(audit, order), order) for order in Order]
        return max(bounds, key=lambda bound: bound[0])

    def bound_in_order(self, audit: SampledBounds, order: Order) -> float:
        """Return the lower confidence bound from samples for one order of the pair."""
        raise NotImplementedError

    def upper_bound(self, curve: PrivacyCurve) -> float | None:
        """Return the value of a bound of the catalogue; None if it gives none."""
        return None

    def witness_at(self, law: BracketedCurve | None, order: Order, claimed: float) -> float:
        """Return the place at which a witness compares the number; samples have no ``law``."""
        return 0.0 if self.at is None else self.at

    def proven_at(self, law: BracketedCurve, order: Order, at: float) -> float:
        """Return the most that a comparison at one place can prove."""
        return math.inf

    def deciding_loss(self, at: float, claimed: float) -> float | None:
        """Return the loss at which the event ends that decides a claim; None without one event.

        ``at`` is the place at which the witness compares.
        """
        return None

    @property
    def adds_up(self) -> bool:
        """Whether the numbers of independent draws add up."""
        return False

    @abstractmethod
    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return how to compute the number from laws P and Q, as lines of a witness."""


@dataclass(frozen=True)
class EpsilonAtDelta(Quantity):
    """The least epsilon with delta(epsilon) <= ``at``."""

    kind = "epsilon"
    name = "epsilon"
    place = "delta"
    places = "deltas"
    rows = "points"
    exceeds = "not_private"
    written = "``epsilon: 1.2`` and ``delta: 1e-5``."
    rises = False
    asked = "epsilon"
    in_range = staticmethod(validate.half_open_unit)

    at: float

    @classmethod
    def may_exceed(cls, law: BracketedCurve, places: Array, levels: Array, order: Order) -> Flags:
        """Return whether epsilon at each delta can exceed a level, without finding a root."""
        return law.unrefined.delta_bracket(levels, order)[1] > places

    def sampled_bound(self, audit: SampledBounds) -> tuple[float, Order]:
        """Return the lower confidence bound on the epsilon of one record, and the pair's order."""
        found = audit.per_record_evidence(self.at)
        return found.epsilon, found.evidence.order

    def upper_bound(self, curve: PrivacyCurve) -> float:
        """Return the epsilon of a bound."""
        return float(curve.epsilon(self.at))

    def deciding_loss(self, at: float, claimed: float) -> float | None:
        """Return the claimed epsilon; at delta 0 no event is the largest."""
        return claimed if at > 0 else None

    @property
    def adds_up(self) -> bool:
        """Whether delta is 0: the largest losses of independent draws add up."""
        return self.at == 0

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
    """The Renyi divergence of order ``at``."""

    kind = "renyi"
    name = "Renyi divergence"
    value = "value"
    place = "order"
    places = "orders"
    exceeds = "not_renyi"
    written = "``renyi: {2: 0.5, 8: 2.1}``."
    rises = True
    asked = "renyi"
    in_range = staticmethod(validate.above_one)

    at: float

    def bound_in_order(self, audit: SampledBounds, order: Order) -> float:
        """Return the lower confidence bound on the divergence."""
        return audit.renyi_lower(self.at, order)

    def upper_bound(self, curve: PrivacyCurve) -> float:
        """Return the Renyi divergence of a bound."""
        return float(curve.renyi(self.at))

    @property
    def adds_up(self) -> bool:
        """True: divergences of independent draws add up."""
        return True

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

    kind = "mu"
    name = "mu"
    written = "``mu: 0.8``."

    def bracket(self, law: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around mu."""
        found = law.mu_bracket(order)
        return found.low, found.high

    def sampled_bound(self, audit: SampledBounds) -> tuple[float, Order]:
        """Return the lower confidence bound on mu of one record, which covers both orders."""
        # k records are k mu-GDP (Dong, Roth and Su 2022, Theorem 2.14)
        low = audit.mu_lower() / audit.group_size
        return (low if audit.group_size == 1 else math.nextafter(low, 0.0)), Order.FORWARD

    def witness_at(self, law: BracketedCurve | None, order: Order, claimed: float) -> float:
        """Return the epsilon at which delta gives the largest bound on mu; 0 for samples.

        Where that delta is tiny, the least epsilon at which delta clearly refutes ``claimed``: the
        fewer digits a verifier needs, the faster it is.
        """
        if law is None:
            return 0.0
        best = law.mu_bracket(order)
        if law.unrefined.delta_bracket(best.epsilon, order)[0] < _TINY_DELTA:
            wanted = min(1.1 * claimed, 0.5 * (claimed + best.low))
            for epsilon in EPSILONS[best.epsilon > EPSILONS].tolist():
                if self.proven_at(law, order, epsilon) > wanted:
                    return float(epsilon)
        return float(best.epsilon)

    def proven_at(self, law: BracketedCurve, order: Order, at: float) -> float:
        """Return the bound on mu that delta proves at one epsilon."""
        low, _ = law.unrefined.delta_bracket(at, order)
        return gaussian_mu(np.array([low]), np.array([at]))[0]

    def deciding_loss(self, at: float, claimed: float) -> float:
        """Return the epsilon at which delta is compared."""
        return at

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
    """1 - beta: the power of the best test with a type I error of ``at``; files hold beta."""

    kind = "tradeoff"
    name = "1 - beta"
    value = "beta"
    limits = "in [0, 1]"
    place = "alpha"
    written = "``tradeoff: {0.05: 0.8}``."
    rises = True
    asked = "power"
    in_range = staticmethod(validate.open_unit)

    at: float

    @classmethod
    def of_value(cls, number: float) -> float:
        """Return the power for beta, or beta for the power."""
        return 1 - number

    def bound_in_order(self, audit: SampledBounds, order: Order) -> float:
        """Return the lower confidence bound on the power."""
        return max(1 - audit.beta_upper(self.at, order) - _ROUNDING, 0.0)

    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return the test whose power refutes the claim."""
        return (
            f"Let a test reject P where q(x)/p(x) is large, with P(reject) = {at:g}.",
            f"The claim says Q(reject) <= {claimed:.12g}; it is larger and lies in 'bracket'.",
        )


@dataclass(frozen=True)
class TotalVariation(Quantity):
    """The total variation distance: delta at epsilon 0, the largest advantage of any attack."""

    kind = "total_variation"
    name = "total variation"
    limits = "in [0, 1]"
    written = "``total_variation: 0.3``."

    def bracket(self, law: BracketedCurve, order: Order) -> Bracket:
        """Return (low, high) around the distance, the same in both orders."""
        return law.delta_bracket(0.0, order)

    def sampled_bound(self, audit: SampledBounds) -> tuple[float, Order]:
        """Return the lower confidence bound on the distance of one record, and the pair's order."""
        bounds = [(self.bound_in_order(audit, order), order) for order in Order]
        low, order = max(bounds, key=lambda bound: bound[0])
        # by the triangle inequality, k records are at most k times as far apart as one
        return low / audit.group_size, order

    def bound_in_order(self, audit: SampledBounds, order: Order) -> float:
        """Return the lower confidence bound on the distance: the largest 1 - alpha - beta."""
        alphas, betas = audit.beta_points(order)
        return max(float(np.max(1 - alphas - betas)) - _ROUNDING, 0.0)

    def upper_bound(self, curve: PrivacyCurve) -> float:
        """Return delta of a bound at epsilon 0."""
        return float(curve.delta(0.0))

    def deciding_loss(self, at: float, claimed: float) -> float:
        """Return 0: the event is where P is larger than Q."""
        return 0.0

    def recipe(self, at: float, claimed: float) -> tuple[str, ...]:
        """Return the event whose probabilities refute the claim."""
        return (
            "Let S = {x : p(x) > q(x)} (atoms and densities alike).",
            f"The claim says P(S) - Q(S) <= {claimed:.12g}; it is larger and lies in 'bracket'.",
        )


AnyQuantity: TypeAlias = EpsilonAtDelta | RenyiAtOrder | Mu | PowerAtAlpha | TotalVariation

QUANTITIES: MappingProxyType[str, type[AnyQuantity]] = MappingProxyType(
    {cls.kind: cls for cls in get_args(AnyQuantity)}
)
"""All quantities, by their keys in files."""


@dataclass(frozen=True)
class ClaimedNumber:
    """The claim that a quantity of every pair of neighbouring datasets is at most a number.

    Parameters
    ----------
    quantity : Quantity
        The quantity and where it is taken.
    value : float
        The number; 1 - beta for a tradeoff function.
    slack : float, optional
        The error of the claimed number itself, which a certified bound must exceed as well.

    Examples
    --------
    >>> ClaimedNumber(EpsilonAtDelta(1e-5), 2.0).refuted_by(2.1)
    True
    """

    quantity: AnyQuantity
    value: float
    slack: float = 0.0

    def refuted_by(self, certified: float) -> bool:
        """Return whether a certified lower bound contradicts the number.

        Parameters
        ----------
        certified : float
            The bound.

        Returns
        -------
        bool
            Whether it exceeds the claimed number.
        """
        return certified > self.value + self.slack

    def ratio(self, certified: float) -> float:
        """Return claimed over certified; infinite if nothing is certified.

        Parameters
        ----------
        certified : float
            The bound.

        Returns
        -------
        float
            The ratio.
        """
        return math.inf if certified <= 0 else self.value / certified
