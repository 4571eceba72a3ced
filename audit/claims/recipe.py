"""The recipe of a witness: how anyone computes the refutation, in words and formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.claims.points import Quantity
from audit.mechanism import Order

_LAWS: Mapping[str, tuple[str, ...]] = {
    "process": (
        "Each law is that of X_T in a chain: draw one of 'paths' by its probability, set X = start,"
        " and run its segments in order, each 'times' times through its steps.",
        "A step draws one of its maps by its weight, and sets X = clip(phi(X) + noise_std Z, lower,"
        " upper) with Z standard normal; null means no wall, and 'absorb' that X stays there.",
        "phi is the broken line through (points[i], values[i]), with slopes[0] to the left of them"
        " and slopes[1] to the right.",
        "Without walls and with straight lines, mean <- a mean + b and var <- a^2 var + std^2.",
        "Else discretise: hold the density on a fine grid and the mass at either wall; one step is"
        " a product with the normal kernel, the mass beyond a wall goes to the wall.",
    ),
    "mixtures": ("Each law is a mixture of normals: weights[i] of N(means[i], stds[i]^2).",),
    "finite": (
        "Each law is that of 'times' independent draws from the listed probabilities; only the"
        " counts of the outcomes matter (multinomial).",
    ),
    "densities": (
        "On [low, high] the first density is proportional to exp(slope x), the second to"
        " exp(-slope x).",
    ),
}


def recipe(
    quantity: Quantity, at: float, claimed: float, order: Order, pair: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the lines of a recipe for one refuted number."""
    names = ("first", "second") if order is Order.FORWARD else ("second", "first")
    head = f"Let P be the law called '{names[0]}' under 'pair', and Q the one called '{names[1]}'."
    return (head, *_LAWS[str(pair["kind"])], *_test(quantity, at, claimed))


def _test(quantity: Quantity, at: float, claimed: float) -> tuple[str, ...]:
    if quantity is Quantity.EPSILON:
        return (
            f"Let S = {{x : log p(x) - log q(x) > {claimed:.12g}}} (atoms and densities alike).",
            f"The claim says P(S) - exp({claimed:.12g}) Q(S) <= {at:g}.",
            f"It is larger; the epsilon at which the largest such difference falls to {at:g} lies"
            " in 'bracket'.",
        )
    if quantity is Quantity.RENYI:
        return (
            f"With a = {at:.12g}: D = log(sum of p(x)^a q(x)^(1-a) over atoms, plus its integral)"
            " / (a - 1).",
            f"The claim says D <= {claimed:.12g}; D lies in 'bracket'.",
            "By Hoelder, any h > 0 gives D >= a/(a-1) log E_P[h] - log E_Q[h^(a/(a-1))], so that"
            " samples of both laws suffice to check it.",
        )
    if quantity is Quantity.POWER:
        return (
            f"Let a test reject P where q(x)/p(x) is large, with P(reject) = {at:g}.",
            f"The claim says Q(reject) <= {claimed:.12g}; it is larger and lies in 'bracket'.",
        )
    return (
        f"Let S = {{x : log p(x) - log q(x) > {at:.12g}}} and d = P(S) - exp({at:.12g}) Q(S).",
        f"The claim of mu = {claimed:.12g} says d <= Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2)"
        f" with e = {at:.12g}; d is larger.",
    )
