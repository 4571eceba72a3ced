"""What an audit of two samples has certified, at one confidence for all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.estimation.band import tradeoff_points
from audit.estimation.events import opposite
from audit.estimation.evidence import CountedTest, Evidence, epsilon_limit, evidence_of
from audit.estimation.pilot import PilotSplit
from audit.estimation.regions import Region
from audit.mechanism import Order

Array = NDArray[np.float64]
Corners = NDArray[np.intp]


@dataclass(frozen=True)
class Audit:
    """Lower bounds on privacy loss, certified together from two samples.

    With probability at least ``confidence`` over the samples and the pilot split, the regions of
    all ``tests`` hold their true rates at once (union bound over the tests' errors). Wherever
    they do, every number that any method returns, for any argument, is right: it is a minimum
    over these regions. So one may ask for as many deltas, orders and Renyi orders as one likes.
    Deltas that were named beforehand have tests of their own and are sharper.

    All methods take a float (and return a float) or an array (and return an array of the same
    shape); without ``order`` they give the worse of the two orders of the pair.

    Attributes
    ----------
    confidence
        One number for the whole statement.
    deltas
        The named deltas.
    seed, thresholds
        What drew the pilot split, and the plan that chose the tests.
    pilot_sizes, certifying_sizes
        Scores of ``samples`` and ``samples_prime`` that chose, and that were counted.
    tests
        Every test counted, with its share of the error.
    """

    confidence: float
    deltas: tuple[float, ...]
    seed: int
    thresholds: PilotSplit
    pilot_sizes: tuple[int, int]
    certifying_sizes: tuple[int, int]
    tests: tuple[CountedTest, ...]

    @overload
    def epsilon_lower(self, delta: float, order: Order | None = None) -> float: ...
    @overload
    def epsilon_lower(self, delta: ArrayLike, order: Order | None = None) -> float | Array: ...
    def epsilon_lower(self, delta: ArrayLike, order: Order | None = None) -> float | Array:
        """Return a lower confidence bound on the pair's epsilon at ``delta`` in (0, 1); >= 0.

        It holds for every mechanism, at all deltas together (class docstring); the rates p and q
        of an event S force epsilon >= log((p - delta) / q) (Kairouz, Oh and Viswanath 2015,
        Theorem 2.1). Raises ``ValueError`` if a delta is not in (0, 1).
        """
        d = validate.array_in(0, 1, open_ends=True, delta=delta)
        return _shaped(self._largest(lambda region: region.epsilon(d.ravel()), order)[0], d)

    def evidence(self, delta: float, order: Order | None = None) -> Evidence:
        """Return ``epsilon_lower(delta, order)`` with the counts it rests on."""
        validate.open_unit(delta=delta)
        at = np.asarray([float(delta)])
        counted, corner, value = self._best(lambda region: region.epsilon(at), order)
        limit = epsilon_limit(float(delta), counted.counts.second_total, counted.error)
        return evidence_of(counted, corner, value, limit)

    def mu_lower(self) -> float:
        """Return mu >= 0 such that "the mechanism is m-GDP" is refuted for every m below it.

        It refutes Gaussian claims and nothing else: a mechanism that is not Gaussian may have a
        smaller epsilon than a mu-GDP one, and this number is never turned into an epsilon.
        """
        return self.mu_evidence().value

    def mu_evidence(self) -> Evidence:
        """Return ``mu_lower()`` with the counts it rests on."""
        counted, corner, value = self._best(_mu, None)
        return evidence_of(counted, corner, value)

    @overload
    def renyi_lower(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def renyi_lower(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def renyi_lower(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return a lower confidence bound on the Renyi divergence of order ``alpha`` > 1; >= 0.

        ``FORWARD`` is D(X || X'). By data processing the divergence of an event's two-point laws
        is a lower bound, and it is minimised over the confidence region. Raises ``ValueError``
        if an order is not a finite number above 1.
        """
        a = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
        return _shaped(self._largest(lambda region: region.renyi(a.ravel()), order)[0], a)

    def renyi_evidence(self, alpha: float, order: Order | None = None) -> Evidence:
        """Return ``renyi_lower(alpha, order)`` with the counts it rests on."""
        validate.above_one(alpha=alpha)
        at = np.asarray([float(alpha)])
        counted, corner, value = self._best(lambda region: region.renyi(at), order)
        return evidence_of(counted, corner, value)

    @overload
    def beta_upper(self, alpha: float, order: Order | None = None) -> float: ...
    @overload
    def beta_upper(self, alpha: ArrayLike, order: Order | None = None) -> float | Array: ...
    def beta_upper(self, alpha: ArrayLike, order: Order | None = None) -> float | Array:
        """Return an upper confidence bound on the tradeoff function at ``alpha`` in [0, 1].

        ``FORWARD`` takes the law of ``samples`` as the null hypothesis. The bound holds at all
        alpha together; without an order it is the pointwise minimum of the two orders' bounds.
        Raises ``ValueError`` if an alpha is not in [0, 1].
        """
        a = validate.array_in(0, 1, open_ends=False, alpha=alpha)
        bounds = [np.interp(a.ravel(), *self.beta_points(one)) for one in _orders(order)]
        return _shaped(np.min(bounds, axis=0), a)

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the vertices ``(alpha, beta)`` of ``beta_upper`` in one order, alpha ascending."""
        validate.instance(Order, order=order)
        return self._hulls[order]

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain Python values: plan, budget, counts, bounds, band."""
        return {
            "confidence": self.confidence,
            "seed": self.seed,
            "pilot_fraction": self.thresholds.fraction,
            "pilot_sizes": list(self.pilot_sizes),
            "certifying_sizes": list(self.certifying_sizes),
            "error_spent": sum(counted.error for counted in self.tests),
            "epsilon_lower": [
                {"delta": delta, **self.evidence(delta).to_dict()} for delta in self.deltas
            ],
            "mu_lower": self.mu_evidence().to_dict(),
            "tests": [_test_dict(counted) for counted in self.tests],
            "beta_upper": {
                order.value: {
                    "alpha": self.beta_points(order)[0].tolist(),
                    "beta": self.beta_points(order)[1].tolist(),
                }
                for order in Order
            },
        }

    @cached_property
    def _views(self) -> dict[Order, tuple[CountedTest, ...]]:
        """Every test serves its own order, and the other one through its complement."""
        both = [*self.tests, *(counted.complement() for counted in self.tests)]
        return {o: tuple(c for c in both if c.test.order is o) for o in Order}

    @cached_property
    def _hulls(self) -> dict[Order, tuple[Array, Array]]:
        return {o: tradeoff_points(c.region for c in self._views[o]) for o in Order}

    def _largest(
        self, bound: Callable[[Region], tuple[Array, Corners]], order: Order | None
    ) -> tuple[Array, Corners]:
        """Return the largest bound over the tests, and the test's index, entry by entry."""
        views = [counted for one in _orders(order) for counted in self._views[one]]
        bounds = np.stack([bound(counted.region)[0] for counted in views])
        return np.maximum(np.max(bounds, axis=0), 0.0), np.argmax(bounds, axis=0)

    def _best(
        self, bound: Callable[[Region], tuple[Array, Corners]], order: Order | None
    ) -> tuple[CountedTest, int, float]:
        views = [counted for one in _orders(order) for counted in self._views[one]]
        best = views[int(self._largest(bound, order)[1].ravel()[0])]
        value, corner = bound(best.region)
        return best, int(corner.ravel()[0]), float(value.ravel()[0])


def _mu(region: Region) -> tuple[Array, Corners]:
    value, corner = region.mu()
    return np.atleast_1d(value), np.atleast_1d(corner)


def _orders(order: Order | None) -> tuple[Order, ...]:
    if order is None:
        return (Order.FORWARD, opposite(Order.FORWARD))
    validate.instance(Order, order=order)
    return (order,)


def _shaped(values: Array, like: Array) -> float | Array:
    return float(values[0]) if like.ndim == 0 else np.reshape(values, like.shape)


def _test_dict(counted: CountedTest) -> dict[str, Any]:
    return {
        "order": counted.test.order.value,
        "event": counted.test.tail.value,
        "threshold": counted.test.threshold,
        "first_count": int(counted.counts.first),
        "first_total": counted.counts.first_total,
        "second_count": int(counted.counts.second),
        "second_total": counted.counts.second_total,
        "error_spent": counted.error,
        "planned_delta": counted.planned_delta,
    }
