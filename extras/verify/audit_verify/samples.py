"""Confidence bounds from counted samples, recomputed with incomplete beta functions in balls.

A claim bounds the rate p of an event under one law by an increasing function f of its rate q under
the other. It is rejected at an error if every p <= f(q) is excluded by the counts at that error:

- two rates: K of n draws of the first law and K' of n' of the second one are in an event that other
  draws chose. U = P(Bin(n, p) >= K) and U' = P(Bin(n', q) <= K') are independent and at most u with
  probability u at most. A pair (p, q) is excluded if U or U' is at most its own share of the error,
  or if the normal scores of both, added with given weights, exceed the quantile of the rest
  (Clopper and Pearson 1934; Stouffer's sum).
- one rank: the event holds what lies beyond the k-th of m draws of the second law, so that its rate
  q has the law Beta(k, m - k + 1). C of n draws of the first law are in it, and the claim is
  rejected if E[P(Bin(n, f(q)) >= C)] is at most the error.

U falls and f(q) rises with q: on an interval of q, the ends give the largest U' and U.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from flint import arb

from audit_verify.laws import Decision, Plain, TooLongError, normal, require

Curve = Callable[[arb], arb]
Place = tuple[float, arb, arb]  # log odds of q, P(rate <= q), largest p-value there

_MAX_CELLS = 5000


def rejects(quantity: str, at: arb, claimed: arb, samples: Plain) -> Decision:
    """Return whether counts reject a claim at their share of the error, and why."""
    errors = [arb(error) for error in samples["errors"]]
    allowed, test = arb(samples["error"]), samples["test"]
    # shares of doubles may add up to more than the error by rounding
    divided = sum(errors, arb(0)) <= allowed * (1 + arb(2) ** -40) and allowed < 1
    require(divided, "samples.errors must add up to the error at most")
    require(test["index"] < len(errors), "samples.test.index must be that of one of the errors")
    certifying = samples["certifying"][:: 1 if test["order"] == "forward" else -1]
    for law, drawn in zip(("first", "second"), certifying, strict=True):
        name, count, total = f"samples.test.{law}", test[f"{law}_count"], test[f"{law}_total"]
        require(count <= total, f"{name}_count must be at most its total")
        require(total == drawn, f"{name}_total must be that of the certifying draws")
    error = errors[test["index"]]
    bound = _claim(quantity, at, claimed, samples.get("group_size", 1))
    counts = [test[f"{law}_{what}"] for law in ("first", "second") for what in ("count", "total")]
    if "angle" in test:
        proven = _two_rates(bound, counts, error, test)
        sides = f"every rate that the claim allows is excluded at error {float(error):.6g}"
    else:
        value = _one_rank(bound, counts, error)
        proven = bool(value <= error)
        shown = value.upper().str(6, radius=False)
        sides = f"p-value of the claim <= {shown}, error {float(error):.6g}"
    allocation = f"1 of {len(errors)} tests at error {float(allowed):.6g} together"
    pilot = f"{samples['pilot'][0]} and {samples['pilot'][1]} draws of a pilot chose it"
    said = sides if proven else f"not {sides}" if "angle" in test else f"{sides} or more"
    return proven, True, arb(0), f"{said}; {allocation}, {pilot}"


def _claim(quantity: str, at: arb, claimed: arb, size: int) -> Curve:
    """Return the largest rate under one law that a claim allows, in both orders of the pair."""
    known = quantity in ("epsilon", "mu", "total variation")
    require(known, f"quantity must be epsilon, mu or total variation for samples, got {quantity}")
    if quantity == "mu":
        return lambda q: normal(_score(q) + claimed * size).upper() if q < 1 else arb(1)
    # at an epsilon, of a pair that differs in several records (Vadhan 2017, Lemma 2.2)
    epsilon, delta = claimed * size, sum((at * (i * claimed).exp() for i in range(size)), arb(0))
    if quantity == "total variation":
        epsilon, delta = arb(0), claimed * size

    def largest(q: arb) -> arb:
        steep = (delta + epsilon.exp() * q).upper()
        flat = (1 - (-epsilon).exp() * (1 - delta - q)).upper()
        return min(steep, flat, arb(1), key=float)

    return largest


def _score(p: arb) -> arb:
    """Return the least normal score that is certainly not below Phi^-1(p); NaN if p may be 1."""
    return (-arb(2).sqrt() * (2 * p).erfcinv()).upper()


def _at_least(count: int, total: int, rate: arb) -> arb:
    """Return P(Bin(total, rate) >= count)."""
    if count == 0 or rate >= 1:
        return arb(1)
    if rate <= 0:
        return arb(0)
    if rate * total < count:
        return rate.beta_lower(count, total - count + 1, True)
    return 1 - (1 - rate).beta_lower(total - count + 1, count, True)


def _two_rates(bound: Curve, counts: list[int], error: arb, test: Plain) -> bool:
    """Return whether every pair of rates that a claim allows is excluded."""
    first, first_total, second, second_total = counts
    angle, guards = test["angle"], [test["first_guard"] * error, test["second_guard"] * error]
    flat, shares = angle == math.pi / 2, guards[0] + guards[1] < error
    wanted = "samples.test must have an angle in (0, pi/2] and guards below 1 together"
    require(0 < angle <= math.pi / 2 and shares, wanted)
    if flat:  # two limits: the second one has what the first one leaves
        guards[1] = error - guards[0]
    rest = error - guards[0] - guards[1]
    weights = arb(angle).cos(), arb(angle).sin()

    def excluded(low: arb, high: arb, room: float = 1.0) -> bool:
        """Return whether all rates with q in an interval are excluded, at errors times ``room``."""
        u = _at_least(first, first_total, bound(high))
        v = _at_least(second_total - second, second_total, 1 - low)
        alone = u <= guards[0] * room or v <= guards[1] * room
        if alone or flat or not (0 < u < 1 and 0 < v < 1):
            return bool(alone)
        return bool(normal(weights[0] * _score(u) + weights[1] * _score(v)) <= rest * room)

    waiting = [(arb(0), arb(1))]
    for _ in range(_MAX_CELLS):
        if not waiting:
            return True
        low, high = waiting.pop()
        if excluded(low, high):
            continue
        middle = arb(((low + high) / 2 if low > 0 else high / 64).mid())
        if not low < middle < high or not excluded(middle, middle):
            if excluded(middle, middle, 1.0001):
                break  # scores, and the limits that were compared with the claim, are rounded
            return False  # the claim allows a rate that is not excluded
        waiting += [(low, middle), (middle, high)]
    raise TooLongError("the counts exceed the claim by too little")


def _one_rank(bound: Curve, counts: list[int], error: arb) -> arb:
    """Return an upper bound of the p-value of a claim, close enough to decide if it can be.

    Intervals of q whose ends give p-values far apart are halved.
    """
    first, first_total, second, second_total = counts
    rank = second + 1
    require(rank <= second_total, "samples.test.second_count must be below its total")

    def place(odds: float) -> Place:
        rate = arb(1 / (1 + math.exp(-odds)))
        below = _at_least(rank, second_total, rate)
        return odds, below, _at_least(first, first_total, bound(rate))

    def part(low: Place, high: Place) -> tuple[arb, float]:
        """Return the p-value between two places at most, and how much less it may be."""
        mass = (high[1] - low[1]).nonnegative_part()
        return mass * high[2], float((mass * (high[2] - low[2])).upper())

    middle = rank / (second_total + 1)
    centre, reach = math.log(middle / (1 - middle)), 9 / math.sqrt(rank * (1 - middle)) + 1
    places = [place(centre + reach * (i / 16 - 1)) for i in range(33)]
    outside = places[0][1] * places[0][2] + (1 - places[-1][1])
    while len(places) < _MAX_CELLS:
        rows = list(itertools.pairwise(places))
        most, gaps = zip(*(part(*row) for row in rows), strict=True)
        value, mean = sum(most, outside), sum(gaps) / len(gaps)
        if value <= error or value > error + sum(gaps):
            return value
        wide = [row for row, gap in zip(rows, gaps, strict=True) if gap >= mean]
        places = sorted([*places, *(place((low[0] + high[0]) / 2) for low, high in wide)])
    raise TooLongError("the counts exceed the claim by too little")
