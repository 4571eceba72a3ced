"""Random brackets of dominating curves, judged by references of 200 bits where there are some.

``python -m tests.dominating.random_brackets 0 10000`` counts what becomes of 10,000 of them.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import acb, arb, ctx

from audit import Batching, NoisySGD, Relation
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.dominating import dominating_curve
from audit.mechanism import Composition
from tests.mechanisms import dp_sgd

BITS = 200


@dataclass(frozen=True)
class Setting:
    """A bracket: of epsilon at delta ``at``, or of delta at epsilon ``at``."""

    mechanism: NoisySGD | Composition
    of_epsilon: bool
    at: float
    order: Order

    def bracket(self) -> tuple[float, float]:
        curve = dominating_curve(self.mechanism)
        take = curve.epsilon_bracket if self.of_epsilon else curve.delta_bracket
        return take(self.at, self.order)

    def holds(self, bracket: tuple[float, float]) -> bool | None:
        """Return whether the truth is in a bracket; None if there is no reference."""
        low, high = bracket
        with ctx.workprec(BITS):
            delta = reference(self.mechanism)
            if delta is None:
                return None
            if self.of_epsilon and self.at == 0:
                size, batch = self.mechanism.dataset_size, self.mechanism.batch_size
                largest = arb.pos_inf()
                if self.order is Order.REVERSE and batch < size:
                    largest = -self.mechanism.steps * (arb(size - batch) / size).log()
                return bool(low <= largest <= high)
            if not self.of_epsilon:
                exact = delta(self.at, self.order)  # perhaps a ball that reaches past an end
                return None if exact is None else not (exact < low or exact > high)
            # epsilon is at least low if delta is still reached there, or only just before
            before = math.inf if low == 0 else delta(low * (1 - 1e-14), self.order)
            if before is None or before <= self.at:
                return None if before is None else False
            after = 0 if np.isinf(high) else delta(high, self.order)
            return None if after is None else bool(self.at >= after)


def poisson(
    steps: int, mu: float, size: int, batch: int, relation: Relation = Relation.ADD_REMOVE, **more
) -> NoisySGD:
    """Return steps on Poisson batches with the noise multiplier 1/mu."""
    share = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    fields = {"relation": relation, "noise_std": share / (mu * batch), **more}
    return dp_sgd(steps=steps, dataset_size=size, batch_size=batch, **fields)


Delta = Callable[[float, Order], arb | None]


def reference(mechanism: NoisySGD | Composition) -> Delta | None:
    """Return delta of steps on Poisson batches, for rates that are exactly b/n."""
    if isinstance(mechanism, Composition) or mechanism.batching is not Batching.POISSON:
        return None
    if mechanism.relation is Relation.REPLACE_ONE:
        return None
    q = arb(mechanism.batch_size) / mechanism.dataset_size
    mu = 1 / arb(mechanism.noise_multiplier)
    if mechanism.batch_size == mechanism.dataset_size:
        mu *= arb(mechanism.steps).sqrt()
    elif mechanism.steps == 2:
        return lambda epsilon, order: two_steps(mu, q, arb(epsilon), order)
    elif mechanism.steps > 2:
        return lambda epsilon, order: many_steps(mu, q, mechanism.steps, epsilon, order)
    return lambda epsilon, order: one_step(mu, q, arb(epsilon), order)


def one_step(mu: arb, q: arb, epsilon: arb, order: Order) -> arb:
    """Return delta of (1-q) N(0, 1) + q N(mu, 1) against N(0, 1): the best sets are half-lines."""
    sign = 1 if order is Order.FORWARD else -1
    excess = (sign * epsilon).exp() - (1 - q)
    if not excess > 0:
        return 1 - epsilon.exp() if order is Order.FORWARD else arb(0)
    edge, root = (excess / q).log() / mu + mu / 2, arb(2).sqrt()
    zero, moved = ((sign * z / root).erfc() / 2 for z in (edge, edge - mu))
    if order is Order.FORWARD:
        return q * moved - excess * zero
    return epsilon.exp() * (excess * zero - q * moved)


def two_steps(mu: arb, q: arb, epsilon: arb, order: Order) -> arb:
    """Return the mean of one step's delta at epsilon less the loss of the other step."""
    forward = order is Order.FORWARD
    density = (2 * arb.pi()).sqrt()

    def part(x: arb) -> arb:
        ratio = 1 - q + q * (mu * x - mu * mu / 2).exp()
        loss = ratio.log() if forward else -ratio.log()
        weight = (-x * x / 2).exp() / density * (ratio if forward else 1)
        return (weight * one_step(mu, q, epsilon - loss, order)).mid()

    # where the integrand matters
    turn = mu / 2 - q.log() / mu
    grid = [arb(x) for x in np.arange(-45.0, float(mu) + 46.0)]
    grid += [(turn + k / (4 * mu)).mid() for k in range(-8, 9)]
    heights = [part(x) for x in grid]
    top = max(heights)
    if not top > 0:
        return arb(0)
    kept = [x for x, height in zip(grid, heights, strict=True) if height > top * arb(10) ** -24]
    low, high = min(kept) - 2, max(kept) + 2
    # the integrand flattens within a small part of either width
    width = min(arb(1) / 2, 1 / mu) / 4
    count = int(float((high - low) / width)) + 1
    edges = [low + (high - low) * k / count for k in range(count + 1)]
    # where the other step's best set becomes the line, within ever smaller parts
    limit = ((epsilon if forward else -epsilon).exp() / (1 - q) - (1 - q)) / q
    if limit > 0:
        bend = (limit.log() + mu * mu / 2) / mu
        around = (bend + sign * width / 2**k for k in range(60) for sign in (-1, 1))
        edges += [x for x in (bend, *around) if low < x < high]
    rule = list(zip(*np.polynomial.legendre.leggauss(16), strict=True))
    total = arb(0)
    for left, right in itertools.pairwise(sorted(edge.mid() for edge in edges)):
        half, middle = (right - left) / 2, (right + left) / 2
        total += half * sum((w * part((middle + half * x).mid()) for x, w in rule), arb(0))
    return total


def many_steps(mu: arb, q: arb, steps: int, epsilon: float, order: Order) -> arb | None:
    """Return delta of T steps: the integral of M(z)^T e^(-z epsilon)/(z (z + 1)) over Re z = c.

    M is the moment of order z of e^loss, which the trapezoidal rule integrates, as it does the
    contour (Trefethen and Weideman 2014). None where the moments do not fall within the contour's
    points, or two rules of different c and steps differ.
    """
    with ctx.workprec(160):
        first, second = (contour(mu, q, steps, epsilon, order, finer) for finer in (1.0, 1.37))
        if first is None or second is None or abs(first - second) > abs(first) * arb(10) ** -17:
            return None
        return first


def contour(mu: arb, q: arb, steps: int, epsilon: float, order: Order, finer: float) -> arb | None:
    sign, shift = (1, 1) if order is Order.FORWARD else (-1, 0)
    m = float(mu)
    # fewer steps need moments of larger z, which turn faster
    width = min(0.12 if steps > 100 else 0.03, 0.2 / m) / finer
    if (m + 30) / width > 6000:
        return None
    places = [arb(width) * k for k in range(int(-15 / width), int((m + 15) / width) + 1)]
    losses = [(1 - q + q * (mu * x - mu**2 / 2).exp()).log() for x in places]
    heights = [-(x**2) / 2 + (arb(width) / (2 * arb.pi()).sqrt()).log() for x in places]
    loss, log = np.array(losses, dtype=float), np.array(heights, dtype=float)

    def cumulants(c: float) -> tuple[float, float]:
        logs = log + (sign * c + shift) * loss
        weights = np.exp(logs - logs.max())
        mean = weights @ loss / weights.sum()
        return sign * steps * mean, steps * float(weights @ (loss - mean) ** 2 / weights.sum())

    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if cumulants(middle)[0] < epsilon else (low, middle)
    deviation = cumulants(low)[1] ** 0.5
    if not 1e-6 < low < 1e5 or deviation == 0:
        return None
    c = max(low, 1 / deviation) * finer**0.5
    if sign > 0 and c * m > 10:
        return None  # the moments' integrands leave the range of places
    # t = sinh(u) over the deviation, since few steps' moments fall slowly
    gap, total, top = 0.04 / finer, acb(0), 0.0
    for k in range(400):
        u = arb(gap) * k
        z = acb(c, u.sinh() / deviation)
        s = sign * z + shift
        moment = sum(((s * x + h).exp() for x, h in zip(losses, heights, strict=True)), acb(0))
        term = (steps * moment.log() - z * arb(epsilon)).exp() / (z * (z + 1)) * u.cosh()
        total += term if k else term / 2
        size = float(abs(term).log().mid())
        top = size if not k else max(top, size)
        if size < top - 55:
            found = total.real * arb(gap) / (arb.pi() * deviation)
            return found.mid()
    return None


RATES = (
    *((10**k, 1) for k in range(1, 13)),
    *((10**k, 10**k - 1) for k in range(1, 13)),
    *((10, 3), (10, 5), (1, 1)),
)
KINDS = (
    "one step",
    "two steps",
    "ten steps",
    "many steps",
    "replaced",
    "without replacement",
    "allocated",
    "shuffled",
    "truncated",
    "composed",
)
SHARES = (0.25, 0.15, 0.15, 0.1, 0.1, 0.08, 0.05, 0.05, 0.03, 0.04)


def random_setting(number: int) -> tuple[str, Setting]:
    """Return the kind and the setting of a number."""
    rng = np.random.default_rng([34, number])
    kind = str(rng.choice(KINDS, p=SHARES))
    mu = 10 ** rng.uniform(-3, np.log10(50))
    size, batch = RATES[rng.integers(len(RATES))]
    steps = {"one step": 1, "two steps": 2, "ten steps": 10, "many steps": 10_000}.get(
        kind, int(rng.choice([1, 2, 10, 1000]))
    )
    m: NoisySGD | Composition
    if kind == "replaced":
        m = poisson(steps, mu, size, batch, Relation.REPLACE_ONE)
    elif kind == "without replacement":
        batching = Batching.WITHOUT_REPLACEMENT
        m = poisson(steps, mu, size, batch, Relation.REPLACE_ONE, batching=batching)
    elif kind == "truncated":
        size = int(10 ** rng.uniform(1, 4))
        batch = int(rng.integers(1, size // 2 + 1))
        largest = int(batch * rng.uniform(1, 2)) + 1
        more = {"batching": Batching.TRUNCATED_POISSON, "max_batch_size": largest}
        m = poisson(min(steps, 10), min(mu, 3.0), size, batch, **more)
    elif kind in ("allocated", "shuffled"):
        batching = Batching.RANDOM_ALLOCATION if kind == "allocated" else Batching.RESHUFFLED
        per_epoch = int(10 ** rng.uniform(0, 3))
        steps = per_epoch * int(rng.integers(1, 4))
        more = {"batching": batching, "relation": Relation.ZERO_OUT}
        m = poisson(steps, min(mu, 5.0), 2 * per_epoch, 2, **more)
    elif kind == "composed":
        batches = 1, batch, max(size // 3, 1)
        scales = 10 ** rng.uniform(-2, 1, size=3)
        m = Composition(
            tuple(
                poisson(count, float(mu), size, b)
                for count, mu, b in zip((1, 5, 2), scales, batches, strict=True)
            )
        )
    else:
        m = poisson(steps, mu, size, batch)
    order = Order.FORWARD if rng.random() < 0.5 else Order.REVERSE
    if rng.random() < 0.3:
        return kind, Setting(m, False, float(10 ** rng.uniform(-12, 3)), order)
    exponent = [(-300, -12), (-12, 0), (-0.3, 0)][rng.choice(3, p=(0.45, 0.45, 0.1))]
    delta = 0.0 if rng.random() < 0.1 else float(10 ** rng.uniform(*exponent))
    return kind, Setting(m, True, min(delta, 1 - 2.0**-53), order)


def outcome(setting: Setting, *, judged: bool = True) -> tuple[str, str]:
    """Return what became of a bracket: a word, and details if it is not "true" or "passed"."""
    return judgement(setting, judged=judged)[:2]


def judgement(setting: Setting, *, judged: bool = True) -> tuple[str, str, float]:
    """Return the outcome, and the relative width of the bracket; NaN if there is none."""
    try:
        bracket = setting.bracket()
    except BracketError as error:
        return "bracket error", str(error), math.nan
    except ValueError as error:
        return "refused", str(error), math.nan
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}", math.nan
    low, high = bracket
    width = 0.0 if low == high else 1 - low / high
    holds = setting.holds(bracket) if judged else None
    if holds is None:
        return "passed", "", width
    return ("true", "", width) if holds else ("wrong", repr(bracket), width)


def main() -> None:
    """Count the outcomes of a range of numbers, and list the widths of each kind."""
    first, last = (int(number) for number in sys.argv[1:3])
    found: Counter[tuple[str, str]] = Counter()
    widths: dict[str, list[float]] = {}
    for number in range(first, last):
        kind, setting = random_setting(number)
        # two steps take the reference several seconds
        word, details, width = judgement(setting, judged=kind != "two steps" or number % 8 == 0)
        found[kind, word] += 1
        if not math.isnan(width):
            widths.setdefault(kind, []).append(width)
        if details:
            print(number, kind, word, details, flush=True)
    print({f"{kind}: {word}": count for (kind, word), count in sorted(found.items())})
    for kind, all_widths in sorted(widths.items()):
        print(kind, "median", f"{np.median(all_widths):.1e}", "maximum", f"{max(all_widths):.1e}")


if __name__ == "__main__":
    main()
