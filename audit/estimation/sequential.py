"""Anytime-valid tests of privacy claims: look after every sample, stop at any time.

Bets against "epsilon at delta is at most e". Write c = e^epsilon. A bet is an event, a point (y, x)
on the line y - c x = delta, and a stake u >= 0. A new pair of independent draws, with indicators a
and b of falling into the event, multiplies the wealth by

    (1 + u (a - y)) (1 - c u (b - x)),        0 <= u y <= 1, 0 <= c u (1 - x) <= 1.

If the claim is true, the wealth is a nonnegative supermartingale, and exceeds 1 / error at some
time with probability at most ``error`` (Ville 1939; ``docs/explanation/sampled-bounds.md``). For an
alternative (p, q) the point of the line nearest to it in Kullback-Leibler divergence and the stake
u = (p - y) / (y (1 - y)) are growth-optimal (Turner, Ly and Grünwald 2024, Theorem 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.curves import Order
from audit.numerics.arrays import Array, Indices, Integers
from audit.numerics.compiled import compiled
from audit.numerics.display import ShortRepr

# Columns of a table of bets, one row per claim; a row of zeros is no bet.
THRESHOLD, SIGN, REVERSED, IN_FIRST, OUT_FIRST, IN_SECOND, OUT_SECOND = range(7)
COLUMNS = 7
_HALVINGS = 60
_STAKE_SHARE = 1 - 1e-9  # share used of the largest stake that cannot lose everything
_MAX_LOG = math.log(np.finfo(float).max)
_MIN_EXCEEDANCES = 4  # fewest past scores beyond a candidate threshold
_TAIL_RATIO = 0.9  # ratio of the tail masses of successive candidates
_MAX_GRID_EPSILON, _SPACING = 15.0, 0.1  # of a grid that is tested besides the claimed epsilons


@compiled
def _divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


@compiled
def nearest_null(p: float, q: float, ratio: float, delta: float) -> float:
    """Return x of the point (delta + ratio x, x) nearest to (p, q), p - ratio q > delta.

    The Kullback-Leibler divergence is convex along the line.
    """
    low, high = 0.0, min((1 - delta) / ratio, 1.0)
    for _ in range(_HALVINGS):
        x = 0.5 * (low + high)
        y = delta + ratio * x
        slope = -ratio * (p - y) / (y * (1 - y)) - (q - x) / (x * (1 - x))
        if slope > 0:
            high = x
        else:
            low = x
    return 0.5 * (low + high)


@compiled
def choose_bets(
    first: Array,
    second: Array,
    ranks: Indices,
    ratios: Array,
    deltas: Array,
    orders: tuple[bool, bool],
    pseudo_count: float,
    caution: float,
    shrinkage: float,
) -> Array:
    """Choose one bet a claim from ascending past scores of X and X', equally many.

    Candidate thresholds are ``ranks`` of the favouring sample; low tails are upper tails of minus
    the scores. The last three arguments are those of `Betting`. Returns (claims, COLUMNS).
    """
    n = first.size
    bets = np.zeros((ratios.size, COLUMNS))
    best = np.zeros(ratios.size)
    for side in range(4):
        low_tail, reverse = side // 2 == 1, side % 2 == 1
        if not orders[1 if reverse else 0]:
            continue
        lead, other = (second, first) if reverse else (first, second)
        if low_tail:
            lead, other = -lead[::-1], -other[::-1]
        for k in range(ranks.size):
            t = lead[ranks[k]]
            p = (n - np.searchsorted(lead, t) + pseudo_count) / (n + 2 * pseudo_count)
            q = (n - np.searchsorted(other, t) + pseudo_count) / (n + 2 * pseudo_count)
            for j in range(ratios.size):
                ratio, delta = ratios[j], deltas[j]
                if not p - ratio * q > delta:
                    continue
                x = nearest_null(p, q, ratio, delta)
                y = delta + ratio * x
                growth = _divergence(p, y) + _divergence(q, x)
                value = growth - caution * math.sqrt(2 * growth / n)
                if not value > best[j]:
                    continue
                best[j] = value
                stake = (p - y) / (y * (1 - y)) * 2 * n * growth / (2 * n * growth + shrinkage)
                stake = min(stake, _STAKE_SHARE / y, _STAKE_SHARE / (ratio * (1 - x)))
                bets[j, THRESHOLD] = t
                bets[j, SIGN] = -1.0 if low_tail else 1.0
                bets[j, REVERSED] = 1.0 if reverse else 0.0
                bets[j, IN_FIRST] = math.log1p(stake * (1 - y))
                bets[j, OUT_FIRST] = math.log1p(-stake * y)
                bets[j, IN_SECOND] = math.log1p(-ratio * stake * (1 - x))
                bets[j, OUT_SECOND] = math.log1p(ratio * stake * x)
    return bets


@compiled
def play(
    samples: Array,
    samples_prime: Array,
    bets: Array,
    seen: int,
    barrier: float,
    wealth: Array,
    peak: Array,
    crossed: Integers,
) -> None:
    """Play the bets on new pairs, in place.

    ``wealth`` and ``peak`` (running maximum) are logarithms, shape (claims + 1,); the last entry is
    the average of all claims' wealths. ``crossed`` holds the number of pairs, including ``seen``
    earlier ones, after which each first reached ``barrier`` (a logarithm); 0 for never.
    """
    claims = bets.shape[0]
    for i in range(samples.size):
        largest = -np.inf
        for j in range(claims):
            if bets[j, IN_FIRST] > 0.0:
                x, x_prime = samples[i], samples_prime[i]
                if bets[j, REVERSED] != 0.0:
                    x, x_prime = x_prime, x
                t, sign = bets[j, THRESHOLD], bets[j, SIGN]
                inside, inside_prime = sign * x >= t, sign * x_prime >= t
                wealth[j] += bets[j, IN_FIRST] if inside else bets[j, OUT_FIRST]
                wealth[j] += bets[j, IN_SECOND] if inside_prime else bets[j, OUT_SECOND]
                if wealth[j] > peak[j]:
                    peak[j] = wealth[j]
                    if crossed[j] == 0 and wealth[j] >= barrier:
                        crossed[j] = seen + i + 1
            largest = max(largest, wealth[j])
        # The average is at most the largest wealth, so it peaks only if that exceeds its old peak.
        if largest > peak[claims] or i == samples.size - 1:
            total = 0.0
            for j in range(claims):
                total += math.exp(wealth[j] - largest)
            wealth[claims] = largest + math.log(total / claims)
            if wealth[claims] > peak[claims]:
                peak[claims] = wealth[claims]
                if crossed[claims] == 0 and wealth[claims] >= barrier:
                    crossed[claims] = seen + i + 1


@dataclass(frozen=True)
class Betting:
    """Choice of bets from past pairs; affects power, never validity.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    first: int = 10  #: Number of pairs that are only observed before the first bet; at least 4.
    #: Factor, above 1, by which the number of pairs grows before bets are chosen again.
    renewal: float = 1.1
    pseudo_count: float = 1.0  #: Added to the past counts inside and outside of an event.
    caution: float = 0.5  #: Standard errors by which the estimated growth is lowered.
    #: Stakes are multiplied by z^2 / (z^2 + shrinkage), z^2 twice the log likelihood ratio so far.
    shrinkage: float = 3.0

    def __post_init__(self) -> None:
        validate.integer(_MIN_EXCEEDANCES, first=self.first)
        validate.above_one(renewal=self.renewal)
        validate.positive(pseudo_count=self.pseudo_count)
        validate.nonnegative(caution=self.caution, shrinkage=self.shrinkage)


@dataclass(frozen=True)
class ClaimEvidence:
    """The evidence of the pairs seen so far against one claim, or against all claims together."""

    log_e_value: float  # log of the current wealth: an e-value at every stopping time
    log_peak: float  # log of the largest wealth so far
    refuted_after: int | None  # pairs after which the wealth first reached 1 / (1 - confidence)

    @property
    def e_value(self) -> float:
        """The current wealth, at most the largest float."""
        return math.exp(min(self.log_e_value, _MAX_LOG))

    @property
    def p_value(self) -> float:
        """An anytime-valid p-value: a true claim ever has p <= a with probability at most a."""
        return math.exp(-max(self.log_peak, 0.0))


class SequentialAudit:
    """E-processes against claims "epsilon at delta is at most e", updated pair by pair.

    Each claim has its own wealth, which starts at 1. Bets are chosen from past pairs only, so the
    wealth is a nonnegative supermartingale if the claim is true (see the module):

    - at any stopping time the expectation of ``e_value`` is at most 1;
    - ``refuted_after`` is ever set for a true claim with probability at most 1 - confidence,
      however long the audit runs;
    - averages of wealths are wealths, so ``together`` is an e-process against "all claims are
      true", for example the points of one privacy curve (Vovk and Wang 2021, Proposition 3.1).

    Parameters
    ----------
    claims : sequence of (float, float)
        Pairs (epsilon, delta), epsilon a finite number of at least 0 and delta in [0, 1].
    confidence : float
        Level, in (0, 1); a claim is refuted when its wealth reaches 1 / (1 - confidence).
    order : Order, optional
        FORWARD to test only sup_S P(X in S) - e^epsilon P(X' in S) <= delta, REVERSE for the other
        order; by default each bet uses the order that looks worse on the past pairs.
    betting : Betting, optional
        How bets are chosen.

    Attributes
    ----------
    pairs : int
        Number of pairs seen so far.

    Raises
    ------
    ValueError
        If there is no claim, or a value is out of its range.

    Notes
    -----
    The draws must be independent of each other and of earlier ones, and their scores must come from
    functions that were fixed before. The same pairs give the same numbers, however they are divided
    into calls of `update`.

    Examples
    --------
    ::

        audit = SequentialAudit([(1.0, 1e-5)], confidence=0.95)
        audit.update(scores, scores_prime)
        audit.evidence[0].refuted_after, audit.epsilon_lower(1e-5)
    """

    def __init__(
        self,
        claims: Sequence[tuple[float, float]],
        *,
        confidence: float,
        order: Order | None = None,
        betting: Betting | None = None,
    ) -> None:
        self.claims = _checked(claims)
        validate.open_unit(confidence=confidence)
        if order is not None:
            validate.instance(Order, order=order)
        self._betting = Betting() if betting is None else betting
        validate.instance(Betting, betting=self._betting)
        self.confidence = float(confidence)
        self._orders = order is not Order.REVERSE, order is not Order.FORWARD
        size = len(self.claims)
        with np.errstate(over="ignore"):
            self._ratios = np.exp(np.array([epsilon for epsilon, _ in self.claims]))
        self._deltas = np.array([delta for _, delta in self.claims])
        self._bets = np.zeros((size, COLUMNS))
        self._wealth, self._peak = np.zeros(size + 1), np.zeros(size + 1)
        self._crossed = np.zeros(size + 1, dtype=np.int64)
        self._past: tuple[list[Array], list[Array]] = ([], [])
        self.pairs = 0
        self._renewal = self._betting.first

    @property
    def evidence(self) -> tuple[ClaimEvidence, ...]:
        """Evidence against each claim, in the order of ``claims``."""
        return tuple(self._evidence(j) for j in range(len(self.claims)))

    @property
    def together(self) -> ClaimEvidence:
        """Evidence against "all claims are true": the average of their wealths."""
        return self._evidence(len(self.claims))

    def update(self, samples: ArrayLike, samples_prime: ArrayLike) -> None:
        """Bet on new pairs, the i-th of ``samples`` with the i-th of ``samples_prime``.

        Parameters
        ----------
        samples, samples_prime : array_like
            Scores of the two laws, shape (n,) each, finite.

        Raises
        ------
        ValueError
            If they are empty, not finite, not one-dimensional or of different lengths; no bet is
            made then.
        """
        first = validate.real_sample(samples=samples)
        second = validate.real_sample(samples_prime=samples_prime)
        if first.size != second.size:
            raise ValueError(
                f"samples_prime must hold one score for each of samples ({first.size}), "
                f"got {second.size}"
            )
        done = 0
        while done < first.size:
            if self.pairs == self._renewal:
                self._renew()
            end = min(first.size, done + self._renewal - self.pairs)
            fresh = first[done:end].copy(), second[done:end].copy()
            barrier = -math.log1p(-self.confidence)
            play(*fresh, self._bets, self.pairs, barrier, self._wealth, self._peak, self._crossed)
            for past, part in zip(self._past, fresh, strict=True):
                past.append(part)
            self.pairs += end - done
            done = end

    def epsilon_lower(self, delta: float) -> float:
        """Return an anytime-valid lower confidence bound on epsilon at ``delta``.

        The bound is the largest claimed epsilon at this delta that is refuted together with all
        smaller ones, 0 if the smallest is not refuted. It ever exceeds the true epsilon with
        probability at most 1 - confidence, at one delta, because it then refuted the smallest true
        claim.

        Parameters
        ----------
        delta : float
            The delta of one or more claims.

        Returns
        -------
        float
            The bound, at least 0.

        Raises
        ------
        ValueError
            If no claim has this delta.
        """
        validate.closed_unit(delta=delta)
        named = sorted((e, j) for j, (e, d) in enumerate(self.claims) if d == delta)
        if not named:
            raise validate.fail("delta", "the delta of a claim", delta)
        refuted = itertools.takewhile(lambda claim: self._crossed[claim[1]] > 0, named)
        return max((epsilon for epsilon, _ in refuted), default=0.0)

    def _evidence(self, j: int) -> ClaimEvidence:
        crossed = int(self._crossed[j])
        return ClaimEvidence(float(self._wealth[j]), float(self._peak[j]), crossed or None)

    def _renew(self) -> None:
        for past in self._past:  # stable sort merges sorted runs fast
            past[:] = [np.sort(np.concatenate(past), kind="stable")]
        (first,), (second,) = self._past
        validate.same_precision(samples=first, samples_prime=second)
        b, claims = self._betting, (self._ratios, self._deltas, self._orders)
        how = b.pseudo_count, b.caution, b.shrinkage
        self._bets = choose_bets(first, second, candidate_ranks(self.pairs), *claims, *how)
        self._renewal = max(self.pairs + 2, int(min(self.pairs * b.renewal, 2.0**62)))


class EProcesses(SequentialAudit, ShortRepr):
    """Anytime-valid tests of claims (epsilon, delta) at once; deltas share the error equally.

    At each delta a grid of claims that ends at ``farthest`` is tested together with the given ones.
    """

    def __init__(
        self,
        claims: Sequence[tuple[float, float]],
        confidence: float,
        *,
        farthest: float = _MAX_GRID_EPSILON,
    ) -> None:
        self.given = tuple((float(epsilon), float(delta)) for epsilon, delta in claims)
        self.deltas = tuple(sorted({delta for _, delta in self.given}, reverse=True))
        self.error = (1 - confidence) / len(self.deltas)
        grid = np.arange(0.0, farthest, _SPACING).tolist()
        tested = {*self.given, *((epsilon, delta) for delta in self.deltas for epsilon in grid)}
        super().__init__(sorted(tested), confidence=1 - self.error)
        self._places = {claim: j for j, claim in enumerate(self.claims)}

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound at a delta of the claims.

        "At most e" is refuted, so epsilon is above e: the bound is the next floating-point number.
        """
        bound = super().epsilon_lower(delta)
        refuted = self._crossed[self._places[0.0, delta]] > 0
        return math.nextafter(bound, math.inf) if refuted else bound

    @property
    def all_refuted(self) -> bool:
        """Whether every claim is refuted."""
        return all(self.epsilon_lower(delta) > epsilon for epsilon, delta in self.given)

    @property
    def log_e_values(self) -> tuple[float, ...]:
        """The logarithm of the current e-value against each claim."""
        return tuple(float(self._wealth[self._places[claim]]) for claim in self.given)


def candidate_ranks(size: int) -> Indices:
    """Return ascending ranks of candidate thresholds with geometrically falling mass above them."""
    levels = max(1, math.ceil(math.log(size / _MIN_EXCEEDANCES) / -math.log(_TAIL_RATIO)))
    masses = np.maximum(size * _TAIL_RATIO ** np.arange(1, levels + 1), _MIN_EXCEEDANCES)
    return np.unique(np.asarray(size - masses, dtype=np.intp))


def _checked(claims: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    try:
        pairs = tuple((epsilon, delta) for epsilon, delta in claims)
    except (TypeError, ValueError):
        raise validate.fail("claims", "a sequence of pairs (epsilon, delta)", claims) from None
    if not pairs:
        raise validate.fail("claims", "at least one pair (epsilon, delta)", claims)
    for epsilon, delta in pairs:
        validate.nonnegative(epsilon=epsilon)
        validate.closed_unit(delta=delta)
    return tuple((float(epsilon), float(delta)) for epsilon, delta in pairs)
