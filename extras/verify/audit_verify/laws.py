"""Finite pairs: probabilities of cells of explicit laws, compositions, and the claimed quantities.

A finite pair is a list of cells (P, Q): enclosures of the probabilities of disjoint events under
two laws. By data processing, each quantity of the cells is at most that of the laws. Cells of a law
on a line are the intervals between ascending cuts; those of vectors are the products of such
intervals along the coordinates, or the intervals along one direction. Explicit laws are lists of
outcomes, and mixtures of laws that are known by the masses of their tails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from flint import arb, ctx, fmpz, fmpz_poly

Plain = Mapping[str, Any]
Cell = tuple[arb, arb]
Decision = tuple[bool, bool, arb, str]  # proven, denied, least number of the cells, both in words
Tails = Callable[[arb], Cell]  # the masses below and above a cut
Mixture = Sequence[tuple[arb, Sequence[Tails]]]  # weights, and a law for each coordinate
Number = Callable[[Sequence[Cell]], arb]  # that grows with P and falls with Q

_COEFFICIENT = 1.5e-8  # seconds of a product, for each coefficient and bit
_MAX_SECONDS = 600.0
_MAX_CELLS = 10**6


class NotAWitnessError(ValueError):
    """The content is no witness; the message says why in one line."""


class TooLongError(Exception):
    """The answer takes too long to compute; the message says why."""


def require(holds: bool, requirement: str) -> None:
    """Raise ``NotAWitnessError`` with a requirement unless it holds."""
    if not holds:
        raise NotAWitnessError(requirement)


class Draw(NamedTuple):
    """Cells of independent draws, and their number."""

    cells: Sequence[Cell]
    times: int = 1


# ---------------------------------------------------------------------------- quantities


def exceeds(quantity: str, at: arb, claimed: arb, draws: Sequence[Draw]) -> Decision:
    """Return whether cells prove that a quantity exceeds a value, or show that theirs does not.

    The Renyi divergence and epsilon at delta 0 of independent draws add up; for other quantities
    there must be one draw. Before the power is asked for, the laws must be swapped.
    """
    if not all(mass.is_finite() for own in draws for cell in own.cells for mass in cell):
        return False, False, arb.nan(), "a probability is not known"
    number, right, *sides = _compared(quantity, at, claimed)
    one = len(draws) == draws[0].times == 1
    adds = quantity == "Renyi divergence" or number is largest_loss
    require(one or adds, "partition.scores must be given for several draws")
    left, most = bounds(number, draws)
    if quantity == "Renyi divergence":
        left, most, right = left.exp(), most.exp(), right.exp()
    proven = bool(left > right)
    sign = ">" if proven else "is not proven above"
    shown = [side.str(10, radius=False) for side in (left, right)]
    text = f"{sides[0]} = {shown[0]} {sign} {sides[1]} = {shown[1]}"
    return proven, bool(most <= right), left, text


def _compared(quantity: str, at: arb, claimed: arb) -> tuple[Number, arb, str, str]:
    """Return a number of cells, its largest value under the claim, and words for both."""
    if quantity == "epsilon" and at == 0:
        return largest_loss, claimed, "log(P/Q) of one cell", "the claimed epsilon"
    if quantity == "Renyi divergence":
        moment = partial(log_moment, alpha=at)
        return moment, (at - 1) * claimed, "sum of P^a Q^(1-a)", "e^((a-1) claimed)"
    if quantity == "1 - beta":
        return partial(power, alpha=at), claimed, "Q(reject)", "the claimed power"
    epsilon, delta, *words = {
        "epsilon": (claimed, at, "e^claimed Q", "delta"),
        "mu": (at, gaussian_delta(at, claimed), f"e^{float(at):.6g} Q",
               "the delta of the claimed mu"),
        "total variation": (arb(0), claimed, "Q", "the claimed distance"),
    }[quantity]  # fmt: skip
    return partial(excess, epsilon=epsilon), delta, f"sum of max(P - {words[0]}, 0)", words[1]


def bounds(number: Number, draws: Sequence[Draw]) -> Cell:
    """Return bounds of the sum of a number over draws."""
    low = high = arb(0)
    for draw in draws:
        ends = [(_least(p), _least(q), p.upper(), q.upper()) for p, q in draw.cells]
        low += draw.times * number([(p, q) for p, _, _, q in ends])
        high += draw.times * number([(p, q) for _, q, p, _ in ends])
    return low.lower(), high.upper()


def _least(mass: arb) -> arb:
    return mass.lower().nonnegative_part()


def excess(cells: Sequence[Cell], epsilon: arb) -> arb:
    """Return the sum of max(P - e^epsilon Q, 0), delta at ``epsilon``."""
    ratio = epsilon.exp()
    return sum(((p - ratio * q).nonnegative_part() for p, q in cells), arb(0))


def gaussian_delta(epsilon: arb, mu: arb) -> arb:
    """Return the delta of mu-GDP at ``epsilon`` (Dong, Roth and Su 2022, Corollary 2.13)."""
    if not mu > 0:
        return (1 - epsilon.exp()).nonnegative_part()
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


def log_moment(cells: Sequence[Cell], alpha: arb) -> arb:
    """Return log(sum of P^alpha Q^(1 - alpha))."""
    return sum((p * ((alpha - 1) * loss).exp() for p, loss in _losses(cells)), arb(0)).log()


def largest_loss(cells: Sequence[Cell]) -> arb:
    """Return the largest log(P/Q)."""
    return max([arb(0), *(loss for _, loss in _losses(cells))], key=float)


def _losses(cells: Sequence[Cell]) -> list[Cell]:
    """Return P and log(P/Q) of the cells, infinite if Q is 0."""
    return [(p, (p / q).log() if q > 0 else arb.pos_inf()) for p, q in cells if p > 0]


def power(cells: Sequence[Cell], alpha: arb) -> arb:
    """Return P(reject) of the best test with Q(reject) <= alpha.

    It rejects where P/Q is large, and at random in one cell.
    """

    def ratio(cell: Cell) -> float:
        p, q = map(float, cell)
        return p / q if q > 0 else (math.inf if p > 0 else 0.0)

    left, won = alpha.lower(), arb(0)
    for p, q in sorted(cells, key=ratio, reverse=True):
        if not p > 0 or not left > 0:
            break
        share = (left / q).lower() if q > left else arb(1)
        left, won = (left - share * q).lower(), won + share * p
    return won


# ---------------------------------------------------------------------------- compositions


def composed(draws: Sequence[Draw], scores: Sequence[Sequence[int | None]], modulus: int) -> Draw:
    """Return independent draws as one: the sum of the scores of their cells, mod ``modulus``.

    A draw in a cell without a score is an outcome of its own: that any draw was in such a cell.
    Each sum may have all the mass that was rounded down.
    """
    products = sum(2 * draw.times.bit_length() for draw in draws)
    seconds = 2 * products * modulus * ctx.prec * _COEFFICIENT
    if seconds > _MAX_SECONDS:
        raise TooLongError(f"sums of {modulus} scores would take about {seconds:.2g} s")
    laws = []
    for side in (0, 1):
        powers, shared = [], arb(1)
        for draw, own in zip(draws, scores, strict=True):
            masses, alone = [arb(0)] * modulus, arb(0)
            # sums count from the lowest, so that those of few draws are short
            lowest = min((score for score in own if score is not None), default=0)
            for cell, score in side_by_side(cells=draw.cells, scores=own):
                if score is None:
                    alone += cell[side]
                else:
                    masses[(score - lowest) % modulus] += cell[side]
            shared *= (1 - alone) ** draw.times
            powers.append((masses, draw.times))
        lower = [arb(mass) / 2**ctx.prec for mass in _law_of_sum(powers, modulus)]
        half = (shared - sum(lower, arb(0))).nonnegative_part().upper() / 2
        laws.append([*(mass + arb(half, half) for mass in lower), 1 - shared])
    return Draw(list(zip(*laws, strict=True)))


def _law_of_sum(powers: Sequence[tuple[Sequence[arb], int]], modulus: int) -> list[fmpz]:
    """Return lower bounds of a product of powers of polynomials modulo z^n - 1.

    All integers are rounded down, in units of 2^-precision.
    """

    def times(first: fmpz_poly, second: fmpz_poly) -> fmpz_poly:
        whole = first * second
        folded: fmpz_poly = whole.truncate(modulus) + whole.right_shift(modulus)
        return folded // 2**ctx.prec  # type: ignore[no-any-return]

    result = fmpz_poly([2**ctx.prec])
    for masses, count in powers:
        base = fmpz_poly([(mass.lower() * 2**ctx.prec).floor().unique_fmpz() for mass in masses])
        raised = base
        for bit in bin(count)[3:]:  # products with a factor are with the short one
            raised = times(raised, raised)
            raised = times(raised, base) if bit == "1" else raised
        result = times(result, raised)
    return [result[i] for i in range(modulus)]


# ---------------------------------------------------------------------------- explicit laws


def explicit_cells(pair: Plain, partition: Plain) -> list[Cell]:
    """Return the cells of one draw of an explicit pair."""
    names = "first", "second"
    if pair["kind"] == "finite":
        laws = [probabilities(pair[name], f"pair.{name}") for name in names]
    else:
        cuts = [arb(cut) for cut in partition["cuts"]]
        laws = [mixture_masses(cuts, _mixture(pair, name, partition)) for name in names]
    return side_by_side(**{"pair.first": laws[0], "pair.second": laws[1]})


def mixture_masses(cuts: Sequence[arb], mixture: Mixture) -> list[arb]:
    """Return the masses of the cells between cuts, along each coordinate, under a mixture."""
    total: list[arb] = []
    for weight, law in mixture:
        if (len(cuts) + 1) ** len(law) > _MAX_CELLS:
            raise TooLongError(f"{len(cuts)} cuts of {len(law)} coordinates make many cells")
        products = [weight]
        for tails in law:
            masses = between(cuts, tails)
            products = [p * mass for p in products for mass in masses]
        total = [a + b for a, b in zip(total, products, strict=True)] if total else products
    return total


def between(cuts: Sequence[arb], tails: Tails) -> list[arb]:
    """Return the masses of the intervals between cuts, of a law whose mass is 1.

    They are differences of the smaller tails, so that nothing cancels far from the centre.
    """
    ends = [(arb(0), arb(1)), *map(tails, cuts), (arb(1), arb(0))]
    return [
        (below - low if below < above else high - above).nonnegative_part()
        for (low, high), (below, above) in itertools.pairwise(ends)
    ]


def _tails(is_left: bool, beyond: arb) -> Cell:
    """Return the masses below and above a cut from the smaller one, to its left or right."""
    return (beyond, 1 - beyond) if is_left else (1 - beyond, beyond)


def normal(z: arb) -> arb:
    """Return the distribution function of the standard normal law."""
    return (-z / arb(2).sqrt()).erfc() / 2


def normal_tails(mean: arb, std: arb) -> Tails:
    """Return the tails of a normal law."""
    spread = std * arb(2).sqrt()

    def tails(cut: arb) -> Cell:
        z = (cut - mean) / spread
        is_left = bool(z.mid() < 0)
        return _tails(is_left, (-z if is_left else z).erfc() / 2)

    return tails


def _laplace_tails(mean: arb, scale: arb) -> Tails:
    return lambda cut: _tails(not cut > mean, (-abs(cut - mean) / scale).exp() / 2)


def _density_tails(slope: arb, low: arb, high: arb) -> Tails:
    """Return the tails of a density proportional to exp(slope x) on an interval."""
    require(low < high, f"pair.low must be below pair.high, got {float(low):g}")

    def tails(cut: arb) -> Cell:
        x = min(max(cut, low), high)
        is_left = bool(x - low < high - x)
        gap, rate = (x - low, slope) if is_left else (high - x, -slope)
        # exponents are at most 0: e to a large one may be in no ball
        part, whole = ((-abs(rate) * length).expm1() for length in (gap, high - low))
        return _tails(is_left, (max(rate, arb(0)) * (gap - (high - low))).exp() * part / whole)

    return tails


def probabilities(weights: Sequence[float], name: str) -> list[arb]:
    """Return weights over their sum, which must be 1 but for the rounding of doubles."""
    total = sum(map(arb, weights), arb(0))
    wanted = f"{name} must be probabilities that sum to 1, got {float(total)!r}"
    require(abs(total - 1) < 1e-12, wanted)
    return [arb(weight) / total for weight in weights]


def side_by_side(**lists: Sequence[Any]) -> list[Any]:
    """Return the entries of lists side by side; the lists must be equally long."""
    sizes = [len(own) for own in lists.values()]
    got = ", ".join(map(str, sizes))
    require(len(set(sizes)) == 1, f"{' and '.join(lists)} must be equally long, got {got}")
    return list(zip(*lists.values(), strict=True))


def _mixture(pair: Plain, name: str, partition: Plain) -> Mixture:
    """Return a law of an explicit pair as a mixture."""
    kind, law = pair["kind"], pair.get(name, {})
    if kind == "densities":
        slope = arb(pair["slope"]) * (1 if name == "first" else -1)
        return [(arb(1), [_density_tails(slope, arb(pair["low"]), arb(pair["high"]))])]
    if kind == "laplacemixtures":
        weights, scale = probabilities(law, f"pair.{name}"), arb(pair["scale"])
        rows = side_by_side(weights=weights, means=pair["means"])
        return [(weight, [_laplace_tails(arb(mean), scale)]) for weight, mean in rows]
    weights = probabilities(law["weights"], f"pair.{name}.weights")
    if kind == "mixtures":
        rows = side_by_side(weights=weights, means=law["means"], stds=law["stds"])
        return [(weight, [normal_tails(arb(mean), arb(std))]) for weight, mean, std in rows]
    # normal vectors, or their projections on a direction: these are functions of them
    found, std, line = [], arb(pair["noise_std"]), partition.get("direction")
    for weight, vector in side_by_side(weights=weights, vectors=law["vectors"]):
        mean = [_product(row, vector) for row in pair["strategy"]]
        found.append((weight, [_product(mean, line)] if line else mean))
    std *= _product(line, line).sqrt() if line else 1
    return [(weight, [normal_tails(x, std) for x in mean]) for weight, mean in found]


def _product(row: Sequence[Any], vector: Sequence[Any]) -> arb:
    pairs = side_by_side(rows=row, vectors=vector)
    return sum((arb(x) * arb(y) for x, y in pairs), arb(0))
