"""Audits of one training run from the scores of its canaries and their inclusion coins."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from audit import validate
from audit.codec import Tagged
from audit.curves import PrivacyCurve
from audit.estimation.one_run import (
    Canaries,
    GuessCounts,
    OneRunBound,
    one_run_bound,
    one_run_curve_p_value,
)
from audit.estimation.pilot_split import SmoothTail
from audit.estimation.rate_limits import upper_limit
from audit.estimation.scores import part_size
from audit.numerics.arrays import Array, Flags
from audit.numerics.display import ShortRepr

_MIN_PROBABILITY = 1e-10  # of so few canaries on one side, where the coins are fair
_MIN_TELLING = 64  # coins of a run that by no chance are those of another one, or all opposite
_MIN_CANARIES = 4  # two to choose, two to certify
_MIN_PILOT_CANARIES = 2000  # canaries from which on a pilot gains more than it costs
_LARGE_DELTA = 0.02  # as a share of the error
# Shares of the canaries guessed on either side; a pilot chooses a pair of them.
_SHARES = np.append(np.geomspace(0.003, 0.3, 14), [0.35, 0.4, 0.45, 0.5, 0.7, 1.0])


@dataclass(frozen=True)
class Guesses:
    """The numbers of guesses: "in" for the highest scores, "out" for the lowest."""

    included: int
    excluded: int

    def __post_init__(self) -> None:
        validate.integer(0, included=self.included, excluded=self.excluded)
        if not self.included + self.excluded:
            raise validate.fail("guesses", "at least one", 0)

    @property
    def number(self) -> int:
        """Total number of guesses."""
        return self.included + self.excluded


# Each choice returns, for scores and coins in random order, the number of canaries that chose, and
# the guesses about the others.
Chosen = tuple[int, tuple[Guesses, ...]]


@dataclass(frozen=True)
class FixedGuesses(Tagged):
    """Use numbers of guesses that were chosen in advance; the best of them gives the bound."""

    choices: tuple[Guesses, ...]

    def __post_init__(self) -> None:
        if not self.choices or len(set(self.choices)) < len(self.choices):
            raise validate.fail("choices", "one or more distinct Guesses", self.choices)
        validate.instance(Guesses, **{f"choices[{i}]": one for i, one in enumerate(self.choices)})

    def choose(self, scores: Array, coins: Flags, delta: float, error: float) -> Chosen:
        """Return the choices."""
        return 0, self.choices


@dataclass(frozen=True)
class GuessesAtShares(Tagged):
    """Use several numbers of guesses, half "in" and half "out", that share the error equally."""

    shares: tuple[float, ...] = (0.05, 0.2, 0.5, 1.0)

    def __post_init__(self) -> None:
        if not self.shares or len(set(self.shares)) < len(self.shares):
            raise validate.fail("shares", "one or more distinct numbers in (0, 1]", self.shares)
        for share in self.shares:
            if not 0 < share <= 1:
                raise validate.fail("shares", "in (0, 1]", share)

    def choose(self, scores: Array, coins: Flags, delta: float, error: float) -> Chosen:
        """Return the distinct numbers of guesses for the number of canaries."""
        size = scores.size
        numbers = sorted({min(size, max(2, round(share * size))) for share in self.shares})
        return 0, tuple(Guesses(number - number // 2, number // 2) for number in numbers)


@dataclass(frozen=True)
class PilotGuesses(Tagged):
    """Choose the number of guesses on a random part of the canaries, and certify on the others.

    Only for independent canaries. The number of guesses must be fixed given the data it was chosen
    from, and the scores of a pilot carry no information about the other canaries only if the
    canaries are independent.
    """

    fraction: float = 0.2

    def __post_init__(self) -> None:
        validate.open_unit(fraction=self.fraction)

    def choose(self, scores: Array, coins: Flags, delta: float, error: float) -> Chosen:
        """Choose the guesses that are predicted to certify most; a poor plan costs power only."""
        pilot = part_size(self.fraction, scores.size)
        canaries = scores.size - pilot
        scores, coins = scores[:pilot], coins[:pilot]
        sides = scores[coins], scores[~coins]
        if min(side.size for side in sides) == 0:
            return pilot, (Guesses(canaries - canaries // 2, canaries // 2),)
        with np.errstate(over="ignore"):
            top = _sides(*(np.sort(side) for side in sides))
            bottom = _sides(*(np.sort(-side) for side in sides[::-1]))
        i, j = (index.ravel() for index in np.indices((top.shape[1], bottom.shape[1])))
        share, wrong = top[:, i] + bottom[:, j]
        possible = (share > 0) & (share <= 1)
        i, j, share, wrong = (one[possible] for one in (i, j, share, wrong))
        # under the claim about delta * canaries coins are revealed, and these are guessed first
        hidden = share * canaries - delta * canaries - math.sqrt(delta * (1 - delta) * canaries)
        hidden = np.maximum(hidden, 1.0)
        limit = upper_limit(np.minimum(wrong * canaries, hidden), hidden, error)
        best = int(np.argmin(limit))
        counts = np.floor(np.array([top[0, i[best]], bottom[0, j[best]]]) * canaries)
        included, excluded = (int(count) for count in counts)
        return pilot, (Guesses(max(included, 0 if excluded else 1), excluded),)


GuessChoice = FixedGuesses | GuessesAtShares | PilotGuesses


@dataclass(frozen=True)
class CountedGuesses:
    """Guesses, their counts, and their part of the error."""

    guesses: Guesses
    counts: GuessCounts
    error: float


@dataclass(frozen=True)
class OneRunAudit(ShortRepr):
    """Lower bounds on privacy loss from one run, valid simultaneously.

    With probability at least ``confidence`` over coins, mechanism and pilot split, every number
    that any method returns, for any argument, is right, provided that the canaries satisfy
    ``assumption``. For one number of guesses a claim is refuted if there are too many correct
    guesses. Whenever any true claim is refuted, so is the true claim that allows the fewest correct
    guesses. So asking for several deltas costs nothing; several numbers of guesses share the error.
    """

    assumption: Canaries  # on which all bounds rely
    confidence: float
    delta: float  # the delta for which a pilot chose the guesses
    seed: int  # seed of the pilot split and of tie-breaking between scores
    choice: GuessChoice
    pilot: int  # canaries that were used for the choice
    canaries: int  # number of guessed canaries
    counted: tuple[CountedGuesses, ...]

    def epsilon_lower(self, delta: float) -> float:
        """Return a lower confidence bound on the mechanism's epsilon at ``delta``."""
        return self.evidence(delta).value

    def mu_lower(self) -> float:
        """Return mu such that "the mechanism is m-GDP" is refuted for every m below it."""
        return self.evidence(None).value

    def evidence(self, delta: float | None) -> OneRunBound:
        """Return the bound on epsilon at ``delta``, or on mu if it is None, with its counts."""
        return max(self._bounds(delta), key=lambda found: found.value)

    def epsilon_limit(self, delta: float) -> float:
        """Return the bound that only correct guesses would certify."""
        return max(found.sampling_limit for found in self._bounds(delta))

    def refutes(self, curve: PrivacyCurve) -> bool:
        """Return whether a claimed privacy curve is refuted."""
        return any(
            one_run_curve_p_value(one.counts, canaries=self.assumption, curve=curve) < one.error
            for one in self.counted
        )

    def _bounds(self, delta: float | None) -> list[OneRunBound]:
        """Return the bound of each number of guesses."""
        return [
            one_run_bound(
                one.counts, canaries=self.assumption, delta=delta, confidence=1 - one.error
            )
            for one in self.counted
        ]


def audit_one_run(
    scores: ArrayLike,
    coins: ArrayLike,
    *,
    delta: float,
    confidence: float,
    seed: int,
    canaries: Canaries = Canaries.ARBITRARY,
    guesses: GuessChoice | None = None,
) -> OneRunAudit:
    """Certify a lower bound on privacy loss from one training run with many canaries.

    Parameters
    ----------
    scores : array_like
        One score per canary, shape (n,), n >= 4, finite; high scores should indicate inclusion.
        Scores may depend on the release in any way, but not otherwise on the coins. Several runs
        with independent coins count as one run with all their canaries: shape (runs, n).
    coins : array_like
        Same shape; True or 1 if the canary was included. Each must be an independent fair coin.
    delta : float
        The delta, in [0, 1], for which the bound should be tight. The result answers any other
        delta too.
    confidence : float
        Confidence level of all bounds together, in (0, 1).
    seed : int
        Seed of the pilot split and of tie-breaking between scores; a non-negative integer, chosen
        before looking at the data.
    canaries : Canaries, optional
        `Canaries.ARBITRARY` makes no assumption about the mechanism. `Canaries.INDEPENDENT` gives
        much tighter bounds for delta > 0 and is wrong for mechanisms whose canaries depend on each
        other: see the module `audit.estimation.one_run`.
    guesses : FixedGuesses, GuessesAtShares or PilotGuesses, optional
        How the number of guesses is chosen. By default `PilotGuesses`, which only independent
        canaries allow, for 2,000 or more of these, and otherwise `GuessesAtShares`.

    Returns
    -------
    OneRunAudit
        The bounds and the assumption they rely on.

    Raises
    ------
    ValueError
        If shapes differ, a value is out of its range, there are more guesses than canaries, or a
        pilot is requested for arbitrary canaries.

    Examples
    --------
    >>> generator = np.random.default_rng(1)
    >>> coins = generator.integers(0, 2, 5000)
    >>> scores = coins + generator.normal(size=5000)  # each canary: mu = 1, epsilon(0.01) = 2.32
    >>> for canaries in Canaries:
    ...     found = audit_one_run(
    ...         scores, coins, delta=0.01, confidence=0.95, seed=1, canaries=canaries
    ...     )
    ...     print(canaries.value, round(found.epsilon_lower(0.01), 2))
    arbitrary 0.65
    independent 1.66
    """
    given = validate.real_numbers(scores=scores)
    flat = np.ravel(given) if isinstance(given, np.ndarray) and given.ndim == 2 else given
    seen = validate.real_sample(scores=flat)
    tossed = _coins(coins, np.shape(given))
    sides = {"included": seen[tossed], "excluded": seen[~tossed]}
    validate.same_precision(**{f"scores of {side} canaries": of for side, of in sides.items()})
    validate.closed_unit(delta=delta)
    validate.open_unit(confidence=confidence)
    validate.integer(0, seed=seed)
    validate.instance(Canaries, canaries=canaries)
    members = int(tossed.sum())
    if bdtr(min(members, tossed.size - members), tossed.size, 0.5) < _MIN_PROBABILITY:
        raise ValueError(
            "coins must be those of fair tosses, one for each canary, "
            f"got {members} of {tossed.size} included"
        )
    error = 1 - float(confidence)
    choice = guesses
    if choice is None and canaries is Canaries.INDEPENDENT:
        choice = PilotGuesses() if seen.size >= _MIN_PILOT_CANARIES else GuessesAtShares()
    elif choice is None:
        # a large delta / error then certifies little, and sharing the error even less
        choice = GuessesAtShares((0.5,) if delta > _LARGE_DELTA * error else (0.05, 0.5))
    if not isinstance(choice, GuessChoice):
        requirement = "FixedGuesses, GuessesAtShares or PilotGuesses"
        raise validate.fail("guesses", requirement, choice)
    if isinstance(choice, PilotGuesses) and canaries is not Canaries.INDEPENDENT:
        raise validate.fail("guesses", "chosen in advance for arbitrary canaries", choice)
    if seen.size < _MIN_CANARIES:
        raise validate.fail("scores", f"at least {_MIN_CANARIES}", seen.size)

    # a random order breaks ties, and its first part is the pilot
    order = np.random.default_rng(seed).permutation(seen.size)
    seen, tossed = seen[order], tossed[order]
    pilot, chosen = choice.choose(seen, tossed, float(delta), error)
    left = seen.size - pilot
    for one in chosen:
        if one.number > left:
            raise validate.fail("guesses", f"at most as many as canaries ({left})", one.number)
    by_score = tossed[pilot:][np.argsort(seen[pilot:], kind="stable")]
    share = error / len(chosen)
    return OneRunAudit(
        assumption=canaries,
        confidence=float(confidence),
        delta=float(delta),
        seed=int(seed),
        choice=choice,
        pilot=pilot,
        canaries=left,
        counted=tuple(
            CountedGuesses(one, GuessCounts(_correct(by_score, one), one.number, left), share)
            for one in chosen
        ),
    )


def _coins(coins: ArrayLike, shape: tuple[int, ...]) -> Flags:
    array = np.asarray(validate.real_numbers(coins=coins))
    if array.shape != shape:
        raise ValueError(f"coins must have the shape of scores {shape}, got {array.shape}")
    if array.dtype.kind not in "biuf" or not np.all((array == 0) | (array == 1)):
        raise ValueError("coins must be True or False (or 1 or 0), one per canary")
    tossed = array.astype(np.bool_)
    if tossed.ndim == 2 and tossed.shape[1] >= _MIN_TELLING:
        distinct = np.unique(tossed ^ tossed[:, :1], axis=0).shape[0]
        if distinct < tossed.shape[0]:
            raise validate.fail("coins", f"tossed for each of {tossed.shape[0]} runs", distinct)
    return tossed.ravel()


def _correct(by_score: Flags, guesses: Guesses) -> int:
    """Return the number of correct guesses, given the coins by ascending score."""
    excluded, included = by_score[: guesses.excluded], by_score[by_score.size - guesses.included :]
    return int(np.sum(~excluded) + np.sum(included))


def _sides(right: Array, wrong: Array) -> Array:
    """Predict shares of canaries guessed, and guessed wrong, for thresholds of high scores."""
    tails = SmoothTail.fit(right), SmoothTail.fit(wrong)
    both = np.sort(np.concatenate([right, wrong]))
    ranks = np.unique(np.round(_SHARES[1:] * both.size).astype(np.intp))
    reach = np.linspace(both[-1], max(tail.horizon for tail in tails), 4)
    threshold = np.unique(np.concatenate([both[both.size - ranks[ranks > 0]], reach]))
    weights = np.array([right.size, wrong.size]) / both.size
    p, q = (tail.rate(threshold)[0] for tail in tails)
    shares = np.array([p * weights[0] + q * weights[1], q * weights[1]])
    return np.append(np.zeros((2, 1)), shares, axis=1)
