"""Finite pairs: probabilities of cells of explicit laws, compositions, and the claimed quantities.

A finite pair is a list of cells (P, Q): enclosures of the probabilities of disjoint events under
two laws. By data processing, each quantity of the cells is at most that of the laws. Cells of a law
on a line are the intervals between ascending cuts; those of normal vectors are the products of such
intervals along the coordinates, or the intervals along one direction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flint import arb, ctx, fmpz, fmpz_poly

Plain = Mapping[str, Any]
Cell = tuple[arb, arb]
Normals = Sequence[tuple[arb, arb, arb]]  # weight, mean, standard deviation

_COEFFICIENT = 1.5e-8  # seconds of a product, for each coefficient and bit
_MOST_SECONDS = 600.0


class TooLongError(Exception):
    """The law takes too long to compute; the message says why."""


class Draw(NamedTuple):
    """Cells of independent draws, and their number.

    Beside the cells' own masses, each law has at most the mass ``lost`` in unknown cells.
    """

    cells: Sequence[Cell]
    times: int = 1
    lost: Cell = (arb(0), arb(0))


def normal(z: arb) -> arb:
    """Return the distribution function of the standard normal law."""
    return (-z / arb(2).sqrt()).erfc() / 2


def excess(draw: Draw, epsilon: arb) -> tuple[arb, arb]:
    """Return bounds of the sum of max(P - e^epsilon Q, 0), delta at ``epsilon``.

    Mass in unknown cells may be Q's in the cells that count, or P's in any.
    """
    ratio = epsilon.exp()
    gains = [p - ratio * q for p, q in draw.cells]
    low = sum((gain for gain in gains if gain > 0), arb(0)) - ratio * draw.lost[1]
    high = sum((gain.nonnegative_part() for gain in gains), draw.lost[0])
    return low.lower(), high.upper()


def gaussian_delta(epsilon: arb, mu: arb) -> arb:
    """Return the delta of mu-GDP at ``epsilon`` (Dong, Roth and Su 2022, Corollary 2.13)."""
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


def renyi_sum(draw: Draw, alpha: arb) -> arb:
    """Return a lower bound of the sum of P^alpha Q^(1 - alpha); infinite where Q is 0."""
    total = arb(0)
    for p, q in draw.cells:
        least, most = p.lower(), (q + draw.lost[1]).upper()
        if least > 0 and not most > 0:
            return arb.pos_inf()
        if least > 0:
            total += (alpha * least.log() + (1 - alpha) * most.log()).exp()
    return total.lower()


def power(draw: Draw, alpha: arb) -> arb:
    """Return Q(reject) of a test with P(reject) <= alpha, which rejects where Q/P is large."""

    def ratio(cell: Cell) -> float:
        p, q = (max(0.0, float(mass.mid())) for mass in cell)
        return q / p if p > 0 else (float("inf") if q > 0 else 0.0)

    left, won = (alpha - draw.lost[0]).lower(), arb(0)
    for p, q in sorted(draw.cells, key=ratio, reverse=True):
        if p < left:
            left, won = (left - p).lower(), won + q
        else:
            share = (left / p.upper()).lower() if p.upper() > 0 else arb(1)
            return (won + max(share, arb(0), key=float) * q).lower()
    return won.lower()


def largest_loss(draw: Draw) -> arb:
    """Return a lower bound of the largest log(P/Q); infinite where Q is 0."""
    losses = [arb(0)]
    for p, q in draw.cells:
        least, most = p.lower(), (q + draw.lost[1]).upper()
        if least > 0:
            losses.append((least / most).log().lower() if most > 0 else arb.pos_inf())
    return max(losses, key=float)


def exceeds(quantity: str, at: arb, claimed: arb, draws: Sequence[Draw]) -> tuple[bool, bool, str]:
    """Return whether cells prove that a quantity exceeds a value or that theirs does not; and why.

    The Renyi divergence and epsilon at delta 0 of independent draws add up; for other quantities
    there must be one draw.
    """
    most, draw = arb.pos_inf(), draws[0]
    if quantity == "epsilon" and at == 0:
        left, right = sum((own.times * largest_loss(own) for own in draws), arb(0)), claimed
        sides = "log(P/Q) of one cell", "the claimed epsilon"
    elif quantity == "Renyi divergence":
        left, right = arb(1), ((at - 1) * claimed).exp()
        for own in draws:
            left *= renyi_sum(own, at) ** own.times
        sides = "sum of P^a Q^(1-a)", "e^((a-1) claimed)"
    elif len(draws) > 1 or draw.times > 1:
        raise ValueError("partition.scores must be given for several draws")
    elif quantity == "epsilon":
        (left, most), right = excess(draw, claimed), at
        sides = "sum of max(P - e^claimed Q, 0)", "delta"
    elif quantity == "mu":
        left, most = excess(draw, at)
        right = gaussian_delta(at, claimed) if claimed > 0 else arb(0)
        sides = f"sum of max(P - e^{float(at):.6g} Q, 0)", "the delta of the claimed mu"
    elif quantity == "total variation":
        (left, most), right = excess(draw, arb(0)), claimed
        sides = "sum of max(P - Q, 0)", "the claimed distance"
    else:
        left, right = power(draw, at), claimed
        sides = "Q(reject)", "the claimed power"
    proven = bool(left > right)
    sign = ">" if proven else "is not proven above"
    shown = [side.str(10, radius=False) for side in (left, right)]
    denied = bool(most <= right)
    return proven, denied, f"{sides[0]} = {shown[0]} {sign} {sides[1]} = {shown[1]}"


def composed(draws: Sequence[Draw], scores: Sequence[Sequence[int | None]], modulus: int) -> Draw:
    """Return independent draws as one: the sum of the scores of their cells, mod ``modulus``.

    A draw in a cell without a score is an outcome of its own: that any draw was in such a cell.
    """
    _check_time(draws, modulus)
    laws, lost = [], []
    for side in (0, 1):
        powers, shared = [], arb(1)
        for draw, own in zip(draws, scores, strict=True):
            masses, alone = [arb(0)] * modulus, arb(0)
            for cell, score in zip(draw.cells, own, strict=True):
                if score is None:
                    alone += cell[side]
                else:
                    masses[score % modulus] += cell[side]
            shared *= arb(1) if alone.is_zero() else (1 - alone) ** draw.times
            powers.append((masses, draw.times))
        lower = _law_of_sum(powers, modulus)
        laws.append([*(arb(mass) / 2**ctx.prec for mass in lower), 1 - shared])
        known = arb(sum(lower, fmpz(0))) / 2**ctx.prec
        lost.append((shared - known).nonnegative_part().upper())
    return Draw(list(zip(*laws, strict=True)), lost=(lost[0], lost[1]))


def _check_time(draws: Sequence[Draw], modulus: int) -> None:
    products = sum(2 * draw.times.bit_length() for draw in draws)
    seconds = 2 * products * modulus * ctx.prec * _COEFFICIENT
    if seconds > _MOST_SECONDS:
        raise TooLongError(f"sums of {modulus} scores would take about {seconds:.2g} s")


def _law_of_sum(powers: Sequence[tuple[Sequence[arb], int]], modulus: int) -> list[fmpz]:
    """Return lower bounds of a product of powers of polynomials modulo z^n - 1.

    All integers are rounded down, in units of 2^-precision.
    """

    def times(first: fmpz_poly, second: fmpz_poly) -> fmpz_poly:
        whole = first * second
        folded: fmpz_poly = whole.truncate(modulus) + whole.right_shift(modulus)
        return folded // 2**ctx.prec  # type: ignore[no-any-return]

    product = fmpz_poly([2**ctx.prec])
    for masses, count in powers:
        base = fmpz_poly([(mass.lower() * 2**ctx.prec).floor().unique_fmpz() for mass in masses])
        result = base
        for bit in bin(count)[3:]:
            result = times(result, result)
            result = times(result, base) if bit == "1" else result
        product = times(product, result)
    found = list(product.coeffs())
    return found + [fmpz(0)] * (modulus - len(found))


def between(cuts: Sequence[arb], tail: Callable[[arb], tuple[bool, arb]]) -> list[arb]:
    """Return the masses of the intervals between cuts, of a law whose mass is 1.

    ``tail`` returns whether a cut is left of the centre, and the mass beyond it on that side: the
    smaller mass, so that nothing cancels in the tails.
    """
    masses = []
    left, beyond = True, arb(0)
    for cut in cuts:
        is_left, mass = tail(cut)
        if left and is_left:
            masses.append(mass - beyond)
        else:
            masses.append(1 - beyond - mass if left else beyond - mass)
        left, beyond = is_left, mass
    masses.append(1 - beyond if left else beyond)
    return [mass.nonnegative_part() for mass in masses]


def normal_masses(cuts: Sequence[arb], mean: arb, std: arb) -> list[arb]:
    """Return the masses of the intervals between cuts under a normal law."""

    def tail(cut: arb) -> tuple[bool, arb]:
        z = (cut - mean) / std
        is_left = float(z.mid()) < 0
        return is_left, normal(z if is_left else -z)

    return between(cuts, tail)


def mixture_masses(cuts: Sequence[arb], normals: Normals) -> list[arb]:
    """Return the masses of the intervals between cuts under a mixture of normal laws."""
    parts = [[weight * mass for mass in normal_masses(cuts, m, s)] for weight, m, s in normals]
    return [sum(column, arb(0)) for column in zip(*parts, strict=True)]


def probabilities(weights: Sequence[float]) -> list[arb]:
    """Return weights over their sum, which is 1 but for the rounding of doubles."""
    exact = [arb(weight) for weight in weights]
    total = sum(exact, arb(0))
    return [weight / total for weight in exact]


def explicit_cells(pair: Plain, partition: Plain) -> list[Cell]:
    """Return the cells of one draw of an explicit pair."""
    masses = _MASSES[pair["kind"]]
    return list(zip(*(masses(pair, name, partition) for name in ("first", "second")), strict=True))


def _cuts(partition: Plain) -> list[arb]:
    return [arb(cut) for cut in partition["cuts"]]


def _mixtures(pair: Plain, name: str, partition: Plain) -> list[arb]:
    law = pair[name]
    numbers = ([arb(x) for x in law[key]] for key in ("means", "stds"))
    normals = list(zip(probabilities(law["weights"]), *numbers, strict=True))
    return mixture_masses(_cuts(partition), normals)


def _laplace(pair: Plain, name: str, partition: Plain) -> list[arb]:
    scale, cuts = arb(pair["scale"]), _cuts(partition)
    weights = probabilities(pair[name])
    parts = []
    for weight, mean in zip(weights, map(arb, pair["means"]), strict=True):

        def tail(cut: arb, mean: arb = mean) -> tuple[bool, arb]:
            gap = cut - mean
            return not gap > 0, (-abs(gap) / scale).exp() / 2

        parts.append([weight * mass for mass in between(cuts, tail)])
    return [sum(column, arb(0)) for column in zip(*parts, strict=True)]


def _finite(pair: Plain, name: str, partition: Plain) -> list[arb]:
    return probabilities(pair[name])


def _densities(pair: Plain, name: str, partition: Plain) -> list[arb]:
    slope = arb(pair["slope"]) * (1 if name == "first" else -1)
    low, high = arb(pair["low"]), arb(pair["high"])
    inner = [cut for cut in _cuts(partition) if low < cut < high]
    heights = [((x - high) * slope).exp() for x in (low, *inner, high)]
    total = heights[-1] - heights[0]
    masses = [(b - a) / total for a, b in itertools.pairwise(heights)]
    below = sum(arb(cut) <= low for cut in partition["cuts"])
    above = len(partition["cuts"]) - below - len(inner)
    return [arb(0)] * below + masses + [arb(0)] * above


def _vectors(pair: Plain, name: str, partition: Plain) -> list[arb]:
    """Return the masses of products of intervals, along the coordinates or given directions."""
    strategy = [[arb(x) for x in row] for row in pair["strategy"]]
    noise = arb(pair["noise_std"])
    means = [
        [sum((c * arb(g) for c, g in zip(row, vector, strict=True)), arb(0)) for row in strategy]
        for vector in pair[name]["vectors"]
    ]
    std = noise
    if "direction" in partition:  # any projection is a function of the draw
        line = [arb(x) for x in partition["direction"]]
        means = [[sum((m * x for m, x in zip(mean, line, strict=True)), arb(0))] for mean in means]
        std = noise * sum((x * x for x in line), arb(0)).sqrt()
    total: list[arb] = []
    cuts = _cuts(partition)
    for weight, mean in zip(probabilities(pair[name]["weights"]), means, strict=True):
        products = [weight]
        for coordinate in mean:
            masses = normal_masses(cuts, coordinate, std)
            products = [p * mass for p in products for mass in masses]
        total = [a + b for a, b in zip(total, products, strict=True)] if total else products
    return total


_MASSES: Mapping[str, Callable[[Plain, str, Plain], list[arb]]] = {
    "mixtures": _mixtures,
    "laplacemixtures": _laplace,
    "finite": _finite,
    "densities": _densities,
    "normalvectors": _vectors,
}
