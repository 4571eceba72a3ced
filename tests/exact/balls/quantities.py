"""The claimed quantities on a finite pair, and compositions of one draw.

A finite pair is a list of cells (P, Q): enclosures of the probabilities of disjoint events under
two laws. By data processing, each quantity of the cells is at most that of the laws.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb, ctx, fmpz_poly

Cell = tuple[arb, arb]
Score = int | None


def normal(z: arb) -> arb:
    """Return the distribution function of the standard normal law."""
    return (-z / arb(2).sqrt()).erfc() / 2


def excess(cells: Sequence[Cell], epsilon: arb) -> tuple[arb, arb]:
    """Return bounds of the sum of max(P - e^epsilon Q, 0), delta at ``epsilon``."""
    ratio = epsilon.exp()
    gains = [p - ratio * q for p, q in cells]
    low = sum((gain for gain in gains if gain > 0), arb(0))
    return low.lower(), sum((gain.nonnegative_part() for gain in gains), arb(0)).upper()


def gaussian_delta(epsilon: arb, mu: arb) -> arb:
    """Return the delta of mu-GDP at ``epsilon`` (Dong, Roth and Su 2022, Corollary 2.13)."""
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


def renyi_sum(cells: Sequence[Cell], alpha: arb) -> arb:
    """Return a lower bound of the sum of P^alpha Q^(1 - alpha); infinite where Q is 0."""
    total = arb(0)
    for p, q in cells:
        least, most = p.lower(), q.upper()
        if least > 0 and not most > 0:
            return arb.pos_inf()
        if least > 0:
            total += (alpha * least.log() + (1 - alpha) * most.log()).exp()
    return total.lower()


def power(cells: Sequence[Cell], alpha: arb) -> arb:
    """Return Q(reject) of a test with P(reject) <= alpha, which rejects where Q/P is large."""

    def ratio(cell: Cell) -> float:
        p, q = (max(0.0, float(mass.mid())) for mass in cell)
        return q / p if p > 0 else (float("inf") if q > 0 else 0.0)

    left, won = alpha, arb(0)
    for p, q in sorted(cells, key=ratio, reverse=True):
        if p < left:
            left, won = (left - p).lower(), won + q
        else:
            share = (left / p.upper()).lower() if p.upper() > 0 else arb(1)
            return (won + share * q).lower()
    return won.lower()


def largest_loss(cells: Sequence[Cell]) -> arb:
    """Return a lower bound of the largest log(P/Q); infinite where Q is 0."""
    losses = [arb(0)]
    for p, q in cells:
        if p.lower() > 0:
            losses.append((p.lower() / q.upper()).log().lower() if q.upper() > 0 else arb.pos_inf())
    return max(losses, key=float)


def exceeds(
    quantity: str, at: arb, claimed: arb, cells: Sequence[Cell], times: int = 1
) -> tuple[bool, bool, str]:
    """Return whether cells prove that a quantity exceeds a value or that theirs does not; and why.

    With ``times`` draws, the cells are those of one draw, and the partition is that into their
    products. Only the Renyi divergence and epsilon at delta 0 are then known: both add up.
    """
    most = arb.pos_inf()
    if quantity == "epsilon" and at == 0:
        left, right = times * largest_loss(cells), claimed
        sides = "log(P/Q) of one cell", "the claimed epsilon"
    elif times > 1 and quantity != "Renyi divergence":
        raise ValueError("partition.scores must be given for several draws")
    elif quantity == "epsilon":
        (left, most), right = excess(cells, claimed), at
        sides = "sum of max(P - e^claimed Q, 0)", "delta"
    elif quantity == "mu":
        left, most = excess(cells, at)
        right = gaussian_delta(at, claimed) if claimed > 0 else arb(0)
        sides = f"sum of max(P - e^{float(at):.6g} Q, 0)", "the delta of the claimed mu"
    elif quantity == "total variation":
        (left, most), right = excess(cells, arb(0)), claimed
        sides = "sum of max(P - Q, 0)", "the claimed distance"
    elif quantity == "Renyi divergence":
        left, right = renyi_sum(cells, at) ** times, ((at - 1) * claimed).exp()
        sides = "sum of P^a Q^(1-a)", "e^((a-1) claimed)"
    else:
        left, right = power(cells, at), claimed
        sides = "Q(reject)", "the claimed power"
    proven = bool(left > right)
    sign = ">" if proven else "is not proven above"
    values = (side.str(10, radius=False) for side in (left, right))
    return (
        proven,
        bool(most <= right),
        f"{sides[0]} = {next(values)} {sign} {sides[1]} = {next(values)}",
    )


def composed(
    cells: Sequence[Cell], scores: Sequence[Score], modulus: int, times: int
) -> list[Cell]:
    """Return the cells of independent draws: the sum of the scores of their cells, mod ``modulus``.

    A draw in a cell without a score is an outcome of its own: that any draw was in such a cell.
    """
    laws = []
    for law in zip(*cells, strict=True):
        masses = [arb(0)] * modulus
        for mass, score in zip(law, scores, strict=True):
            if score is not None:
                masses[score % modulus] += mass
        alone = sum((m for m, score in zip(law, scores, strict=True) if score is None), arb(0))
        shared = arb(1) if alone.is_zero() else (1 - alone) ** times
        laws.append([*_law_of_sum(masses, times, shared), 1 - shared])
    return list(zip(*laws, strict=True))


def _law_of_sum(masses: Sequence[arb], times: int, total: arb) -> list[arb]:
    """Return a power of a polynomial modulo z^n - 1, of coefficients that sum to ``total``.

    All integers are rounded down, in units of 2^-precision, so that every coefficient is a lower
    bound; what their sum lacks is added to the upper ends.
    """
    bits = int(ctx.prec)
    base = [int((mass.lower() * 2**bits).floor().unique_fmpz()) for mass in masses]
    result = [1 << bits, *[0] * (len(base) - 1)]
    for bit in bin(times)[2:]:
        result = _product(result, result, bits)
        if bit == "1":
            result = _product(result, base, bits)
    lower = [arb(mass) / 2**bits for mass in result]
    half = ((total - sum(lower, arb(0))) / 2).nonnegative_part().upper()
    return [mass + arb(half, half) for mass in lower]


def _product(first: list[int], second: list[int], bits: int) -> list[int]:
    size, left = len(first), fmpz_poly(first)
    right = left if first is second else fmpz_poly(second)  # squares are faster
    found = [int(c) for c in (left * right).coeffs()]
    found += [0] * (2 * size - len(found))
    return [(a + b) >> bits for a, b in zip(found[:size], found[size:], strict=True)]
