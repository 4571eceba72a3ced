"""Privacy of DP-SGD in the terms of trainings: noise multiplier, sampling rate, steps or epochs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from audit import validate
from audit.adapters.steps import any_dataset_size, batch_is_whole, step
from audit.bounds import calibration
from audit.bounds.registry import tightest
from audit.curves import Order, PrivacyCurve
from audit.curves.brackets import Bracket
from audit.dominating import DominatingCurve, dominating_curve
from audit.mechanism import Batching, NoisySGD, Relation
from audit.numerics import display
from audit.numerics.display import Marks
from audit.numerics.number_format import Rounding, number

_DIGITS = 7  # significant digits of a printed number
_ACCURACY = 1e-5  # relative accuracy of the curves of a calibration
_WHOLE_TOLERANCE = 2.0**-50  # epochs / sampling_rate is whole up to rounding

# Statements about batches without replacement, which no dominating pair is known for.
_COMPOSED = ("bsa24.theorem_4_8", "at22.sampled_gaussian")
_ANY_SIZE = [one for one in Batching if "max_batch_size" not in one.fields]


@dataclass(frozen=True)
class Risk:
    """A number that falls as the noise of a training grows, and the largest one allowed.

    ``bracket`` is that of a dominating pair, ``upper`` what a bound proves.
    """

    text: str
    goal: float
    bracket: Callable[[DominatingCurve], Bracket]
    upper: Callable[[PrivacyCurve], float]


def epsilon_risk(delta: float, goal: float = math.inf) -> Risk:
    """Return epsilon at ``delta``; without a goal where it is asked for."""
    validate.open_unit(delta=delta)
    return Risk(
        f"epsilon at delta {delta:g}",
        goal,
        lambda curve: curve.epsilon_bracket(delta),
        lambda curve: curve.epsilon(delta),
    )


def advantage_risk(goal: float) -> Risk:
    """Return the advantage of the best attack: true minus false positive rate, delta(0)."""
    validate.open_unit(advantage=goal)
    return Risk(
        "the advantage of an attack",
        goal,
        lambda curve: curve.delta_bracket(0.0),
        lambda curve: curve.delta(0.0),
    )


def power_risk(goal: float, fpr: float) -> Risk:
    """Return the true positive rate of the best attack with false positive rate ``fpr``."""
    validate.open_unit(tpr=goal, fpr=fpr)
    if goal <= fpr:
        raise validate.fail("tpr", f"above fpr ({fpr:g}), which guessing attains", goal)

    def bracket(curve: DominatingCurve) -> Bracket:
        both = [curve.power_bracket(fpr, order) for order in Order]
        return max(low for low, _ in both), max(high for _, high in both)

    text = f"the true positive rate of an attack at false positive rate {fpr:.15g}"
    return Risk(text, goal, bracket, lambda curve: 1 - curve.beta(fpr))


@dataclass(frozen=True)
class TrainingEpsilon:
    """Epsilon of a training, proven from both sides."""

    lower: float  #: Some losses and neighbouring datasets have at least this epsilon.
    upper: float  #: No losses and neighbouring datasets have a larger one.
    delta: float  #: The delta.
    bound: str  #: Id of the statement that proves ``upper``, a key of ``audit.bounds.CATALOGUE``.

    def _repr_html_(self) -> str:
        marks = Marks(f"epsilon at delta {self.delta:g}", lower=self.lower, upper=self.upper)
        return display.sandwich(str(self), [marks])

    def __str__(self) -> str:
        inside = _between(self.lower, "epsilon", self.upper)
        return f"{inside} at delta {self.delta:g} ({self.bound})"


@dataclass(frozen=True)
class TrainingNoise:
    """Noise multiplier that a goal needs, proven from both sides."""

    #: With any smaller noise multiplier some losses and neighbouring datasets miss the goal; 0 if
    #: that is not proven for any.
    needed: float
    enough: float  #: With this noise multiplier, or a larger one, all meet the goal.
    goal: str  #: What is to be met.
    bound: str  #: Id of the statement that proves ``enough``, a key of ``audit.bounds.CATALOGUE``.

    def _repr_html_(self) -> str:
        return display.sandwich(
            str(self), [Marks("noise multiplier", lower=self.needed, upper=self.enough)]
        )

    def __str__(self) -> str:
        inside = _between(self.needed, "noise multiplier", self.enough)
        return f"{inside} for {self.goal} ({self.bound})"


def _between(low: float, name: str, high: float) -> str:
    """Return a bracket in words, rounded outward."""
    ends = number(low, _DIGITS, Rounding.DOWN), number(high, _DIGITS, Rounding.UP)
    return f"{ends[0]} <= {name} <= {ends[1]}"


def epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int | None = None,
    epochs: float | None = None,
    delta: float,
    relation: Relation,
    batching: Batching = Batching.POISSON,
) -> TrainingEpsilon:
    """Return the epsilon of a training with DP-SGD, proven from both sides.

    It is the epsilon of all iterates, for the worst losses. The upper end holds for the last
    iterate too; the lower end need not. For trainings whose dataset size matters or that release
    the last iterate only, see `best` and `audit.search.worst_case`.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of a batch's sum over the clipping norm, in every relation.
    sampling_rate : float
        Batch size over dataset size, in (0, 1]; 1 for full batches. It stands for the simplest
        fraction that rounds to it: 0.004 for 1/250.
    steps : int, optional
        Number of steps.
    epochs : float, optional
        Number of passes over the data, instead of ``steps``; a begun step counts.
    delta : float
        A number in (0, 1).
    relation : Relation
        Which datasets are neighbours; accountants mostly assume ``Relation.ADD_REMOVE``.
    batching : Batching, default: Batching.POISSON
        How batches are chosen. Accountants mostly assume Poisson batches; most loaders draw
        ``Batching.RESHUFFLED`` ones.

    Returns
    -------
    TrainingEpsilon
        Lower and upper end.

    Raises
    ------
    ValueError
        If a number is out of range, or the worst pair is not known for these batches and relation.

    References
    ----------
    Koskela, Jälkö and Honkela (2020), Theorem 4, and Zhu, Dong and Wang (2022), Theorem 11, for
    Poisson batches; `audit.dominating` for others.

    Examples
    --------
    >>> import audit
    >>> print(audit.epsilon(noise_multiplier=1.1, sampling_rate=0.004, steps=10_000, delta=1e-5,
    ...                     relation=audit.Relation.ADD_REMOVE))
    1.840960 <= epsilon <= 1.840961 at delta 1e-05 (accounting.poisson)
    """
    risk = epsilon_risk(delta)
    count = _steps(steps, epochs, sampling_rate)
    mechanism = _training(noise_multiplier, sampling_rate, count, relation, batching)
    low, high, statement = _ends(mechanism, risk)
    return TrainingEpsilon(low, high, float(delta), statement)


def noise_multiplier(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    sampling_rate: float,
    steps: int | None = None,
    epochs: float | None = None,
    relation: Relation,
    batching: Batching = Batching.POISSON,
) -> TrainingNoise:
    """Return the noise multiplier that a training with DP-SGD needs, proven from both sides.

    The goal is ``epsilon`` at ``delta``, or a bound on every membership attack: its ``advantage``,
    or its true positive rate ``tpr`` at false positive rate ``fpr``. It is met by all iterates.

    Parameters
    ----------
    epsilon, delta : float, optional
        Epsilon at most this, at a delta in (0, 1).
    advantage : float, optional
        True minus false positive rate at most this, in (0, 1).
    tpr, fpr : float, optional
        True positive rate at most ``tpr`` where the false positive rate is ``fpr``, both in (0, 1).
    sampling_rate : float
        Batch size over dataset size, in (0, 1].
    steps : int, optional
        Number of steps.
    epochs : float, optional
        Number of passes over the data, instead of ``steps``.
    relation : Relation
        Which datasets are neighbours.
    batching : Batching, default: Batching.POISSON
        How batches are chosen, as in `epsilon`.

    Returns
    -------
    TrainingNoise
        Noise multipliers that are needed and that are enough.

    Raises
    ------
    ValueError
        If not exactly one goal is given, a number is out of range, or the worst pair is not known
        for these batches and relation.

    References
    ----------
    Goals other than epsilon: Kulynych et al. (2024), "Attack-aware noise calibration for
    differential privacy".

    Examples
    --------
    >>> import audit
    >>> noise = audit.noise_multiplier(epsilon=2.0, delta=1e-5, sampling_rate=0.01, steps=1000,
    ...                                relation=audit.Relation.ADD_REMOVE)
    >>> round(noise.needed, 4), round(noise.enough, 4)
    (0.9591, 0.9591)
    """
    risk = _goal(epsilon, delta, advantage, tpr, fpr)
    count = _steps(steps, epochs, sampling_rate)
    unit = _training(1.0, sampling_rate, count, relation, batching)

    @cache
    def ends(z: float) -> tuple[float, float, str]:
        return _ends(replace(unit, noise_std=z * unit.noise_std), risk, _ACCURACY)

    name, most = "noise multiplier", float(risk.goal)
    enough = calibration.least_noise(lambda z: ends(z)[1], most, 1.0, name, goal=risk.text)
    needed = calibration.needed_noise(lambda z: ends(z)[0], most, enough)
    return TrainingNoise(needed, enough, f"{risk.text} <= {risk.goal:.15g}", ends(enough)[2])


def _goal(
    epsilon: float | None,
    delta: float | None,
    advantage: float | None,
    tpr: float | None,
    fpr: float | None,
) -> Risk:
    given = {"epsilon": epsilon, "delta": delta, "advantage": advantage, "tpr": tpr, "fpr": fpr}
    given = {name: value for name, value in given.items() if value is not None}
    if epsilon is not None and delta is not None and len(given) == 2:
        validate.positive(epsilon=epsilon)
        return epsilon_risk(delta, epsilon)
    if advantage is not None and len(given) == 1:
        return advantage_risk(advantage)
    if tpr is not None and fpr is not None and len(given) == 2:
        return power_risk(tpr, fpr)
    raise ValueError(
        "the goal must be epsilon and delta, or advantage, or tpr and fpr, "
        f"got {' and '.join(given) or 'nothing'}"
    )


def _steps(steps: int | None, epochs: float | None, sampling_rate: float) -> int:
    if (steps is None) == (epochs is None):
        got = "neither" if steps is None else "both"
        raise ValueError(f"steps or epochs must be given, and not both, got {got}")
    if epochs is not None:
        validate.positive(epochs=epochs, sampling_rate=sampling_rate)
        steps = math.ceil(min(epochs / sampling_rate, 1e300) * (1 - _WHOLE_TOLERANCE))
    validate.integer(1, steps=steps)
    assert steps is not None
    return int(steps)


def _training(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    relation: Relation,
    batching: Batching,
) -> NoisySGD:
    """Return the training, with a dataset size that suits the rate."""
    validate.instance(Batching, batching=batching)
    if batching not in _ANY_SIZE:
        names = ", ".join(one.value for one in _ANY_SIZE)
        raise ValueError(
            f"batching must be one of {names} where no dataset size is given, "
            f"got {batching.value!r}"
        )
    validate.positive(sampling_rate=sampling_rate)
    validate.closed_unit(sampling_rate=sampling_rate)
    # batches of one size divide an epoch
    divides = (batching.repeats or batching.renews) and not batching.drops_rest
    size = round(1 / sampling_rate) if divides else any_dataset_size(sampling_rate)
    full = batching is Batching.FULL
    fits = sampling_rate == 1 if full else batch_is_whole(sampling_rate * size)
    if not fits and "poisson_rate" not in batching.fields:
        rate = "1" if full else "1 over a whole number" if divides else "b/n with n <= 10^9"
        raise validate.fail("sampling_rate", f"{rate} for {batching.value} batches", sampling_rate)
    one = step(
        noise_multiplier,
        sampling_rate,
        dataset_size=size,
        relation=relation,
        clip_norm=1.0,
        batching=Batching.FULL if sampling_rate == 1 else batching,
    )
    return replace(one, steps=steps)


def _ends(
    mechanism: NoisySGD, risk: Risk, accuracy: float | None = None
) -> tuple[float, float, str]:
    """Return a lower and an upper bound on a risk, and the statement that proves the upper one."""
    from audit.bounds import CATALOGUE  # it is made after this module

    options = {} if accuracy is None else {"accuracy": accuracy}
    low, high = risk.bracket(dominating_curve(mechanism, **options))
    # the first that applies is what the upper end computes, others may be tighter; a least noise is
    # only one for which a statement is computed
    ids = [*(id for id in CATALOGUE if id.startswith("accounting.")), *_COMPOSED]
    noisy = replace(mechanism, noise_std=mechanism.noise_std / min(mechanism.noise_multiplier, 1))
    entries = [CATALOGUE[id] for id in ids if not CATALOGUE[id].failures(noisy)]
    proven = {entries[0].id: high}
    for entry in entries[1:]:
        proven[entry.id] = risk.upper(entry.evaluate(mechanism))
    winner = tightest(proven)
    return low, proven[winner], winner
