"""Assumptions of theorems, each checked separately against a mechanism.

The table of statements names the constants of this module in lower case, with spaces, and samplers
by their spelling.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from audit.mechanism import Batching, Divisor, NoisySGD, Relation, Release
from audit.numerics.display import ShortRepr

ROUNDING = 1e-12
"""Relative tolerance of comparisons, for parameters rounded to double precision."""
_MIN_NOISE = 0.06  # noise multiplier from which the tight accountants are computed


class NotApplicable(ValueError):
    """Error for a mechanism that violates an assumption of a bound.

    The message names the assumption and the value.
    """


@dataclass(frozen=True)
class Assumption(ShortRepr):
    """One condition of a theorem.

    Parameters
    ----------
    name : str
        The condition in words, so that "needs " + name is a sentence.
    holds : callable
        Returns whether a mechanism meets it.
    found : callable
        Returns what the mechanism has instead, as "name=value".

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=4, step_size=1.0, noise_std=1.0,
    ...                    lipschitz=1.0)
    >>> bounded = Assumption("a bounded domain", lambda m: m.diameter is not None,
    ...                      lambda m: f"diameter={m.diameter}")
    >>> bounded.failure(m)
    'needs a bounded domain, got diameter=None'
    """

    name: str
    holds: Callable[[NoisySGD], bool]
    found: Callable[[NoisySGD], str]

    def failure(self, mechanism: NoisySGD) -> str | None:
        """Return why the assumption fails.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.

        Returns
        -------
        str or None
            ``"needs ..., got ..."``; None if the assumption holds.
        """
        if self.holds(mechanism):
            return None
        return f"needs {self.name}, got {self.found(mechanism)}"

    def require(self, mechanism: NoisySGD, who: str) -> None:
        """Raise `NotApplicable` unless the assumption holds.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.
        who : str
            Start of the message: what needs the assumption.

        Raises
        ------
        NotApplicable
            If the assumption fails.
        """
        failure = self.failure(mechanism)
        if failure is not None:
            raise NotApplicable(f"{who} {failure}")


def fields(*names: str) -> Callable[[NoisySGD], str]:
    """Return a function that lists attributes of a mechanism: "a=1, b=2 and c=3"."""

    def found(m: NoisySGD) -> str:
        values = [getattr(m, name) for name in names]
        plain = [v.value if isinstance(v, enum.Enum) else v for v in values]
        texts = [f"{name}={value!r}" for name, value in zip(names, plain, strict=True)]
        return " and ".join([", ".join(texts[:-1]), texts[-1]]) if texts[1:] else texts[0]

    return found


def known(number: float | None) -> float:
    """Return a number of a mechanism that the assumptions of an entry require."""
    assert number is not None
    return number


def domain(m: NoisySGD) -> float:
    """Return the diameter of the domain; infinite if it is unbounded."""
    return math.inf if m.diameter is None else float(m.diameter)


_BATCHING = fields("batching")
_BATCHING_AND_RELATION = fields("batching", "relation")
_RELEASE = fields("release")


def constant_step_size(m: NoisySGD) -> bool:
    """Return whether every step has the same step size."""
    return not isinstance(m.step_size, tuple) or len(set(m.step_size)) == 1


def _largest_step(m: NoisySGD) -> float:
    return max(m.step_size) if isinstance(m.step_size, tuple) else float(m.step_size)


def _step_size(m: NoisySGD) -> str:
    if constant_step_size(m):
        return repr(m.constant_step_size)
    return f"a schedule from {min(m.step_sizes):g} to {max(m.step_sizes):g}"


def _step_and_smoothness(m: NoisySGD) -> str:
    if m.smoothness is None:
        return "smoothness=None"
    return f"step_size={_step_size(m)} and smoothness={m.smoothness!r}"


def _full_batches(m: NoisySGD) -> bool:
    # a batch of all n records is the full batch for every scheme with fixed batch sizes
    return m.batch_size == m.dataset_size and not m.batching.is_poisson


def _batching(m: NoisySGD) -> str:
    text = f"batching={m.batching.value!r}"
    if m.batch_size < m.dataset_size:
        text += f" with batch_size={m.batch_size} of dataset_size={m.dataset_size}"
    return text


# ------------------------------------------------------------------------------------- batches


def _drawn_by(sampler: Batching) -> Assumption:
    return Assumption(sampler.batches, lambda m: m.batching is sampler, _BATCHING)


SAMPLERS = {one.value: _drawn_by(one) for one in Batching}
"""For each sampler that its batches are drawn by it, under its spelling."""

FULL_BATCHES = Assumption("full batches", _full_batches, _batching)
FIXED_SIZE = Assumption(
    "batches of a fixed size, because steps on larger ones need not contract",
    lambda m: not m.batching.has_random_size,
    _BATCHING,
)
FIXED_ORDER = Assumption(
    "fixed batches in a fixed order",
    lambda m: m.batching is Batching.CYCLIC or _full_batches(m),
    _batching,
)
FIXED_BATCHES = Assumption(
    "batches that are fixed before the run",
    lambda m: m.batching.repeats or _full_batches(m),
    _BATCHING,
)
SAMPLED_BATCHES = Assumption(
    "batches sampled without replacement, or Poisson batches at a rate below 1",
    lambda m: (
        m.batching is Batching.WITHOUT_REPLACEMENT
        or (m.batching is Batching.POISSON and m.batch_size < m.dataset_size)
    ),
    lambda m: f"batching={m.batching.value!r} and sampling_rate={m.sampling_rate:g}",
)
SAME_BATCHES = Assumption(
    "full batches, or fixed batches in a fixed order with equally many records in both datasets",
    lambda m: (
        m.batching is Batching.FULL
        or (m.batching is Batching.CYCLIC and m.relation is not Relation.ADD_REMOVE)
    ),
    _BATCHING_AND_RELATION,
)
SHUFFLED_OF_SAME_SIZE = Assumption(
    "shuffled batches with equally many records in both datasets",
    lambda m: m.batching.is_random and m.batching.cuts and m.relation is not Relation.ADD_REMOVE,
    _BATCHING_AND_RELATION,
)
SAME_SIZE_OR_POISSON = Assumption(
    "equally many records in both datasets, or Poisson batches",
    lambda m: m.relation is not Relation.ADD_REMOVE or m.batching is Batching.POISSON,
    fields("relation", "batching"),
)
ALLOCATION_ZERO_OUT = Assumption(
    "random allocation, and a record that is removed or zeroed out",
    lambda m: m.batching is Batching.RANDOM_ALLOCATION and m.relation is not Relation.REPLACE_ONE,
    _BATCHING_AND_RELATION,
)
POISSON_ZERO_OUT = Assumption(
    "Poisson batches and a record that is removed or zeroed out",
    lambda m: m.batching is Batching.POISSON and m.relation is not Relation.REPLACE_ONE,
    _BATCHING_AND_RELATION,
)
FULL_OR_POISSON = Assumption(
    "full batches, or Poisson batches and a record that is removed or zeroed out",
    lambda m: FULL_BATCHES.holds(m) or POISSON_ZERO_OUT.holds(m),
    _BATCHING_AND_RELATION,
)
TRUNCATED_ADD_REMOVE = Assumption(
    "truncated Poisson batches, and a record that is added or removed",
    lambda m: m.batching is Batching.TRUNCATED_POISSON and m.relation is Relation.ADD_REMOVE,
    _BATCHING_AND_RELATION,
)
ACTUAL_DIVISOR = Assumption(
    "division by the actual size of the batch, at a rate below 1",
    lambda m: m.divisor is Divisor.ACTUAL and m.sampling_rate < 1,
    lambda m: f"divisor={m.divisor.value!r} and sampling_rate={m.sampling_rate:g}",
)

# --------------------------------------------------------------------------------------- steps

ONE_STEP = Assumption("one step", lambda m: m.steps == 1, fields("steps"))
TWO_STEPS = Assumption(
    "two steps or more, so that 1 <= tau <= t - 1", lambda m: m.steps >= 2, fields("steps")
)
WHOLE_EPOCHS = Assumption(
    "a whole number of epochs",
    lambda m: (
        m.dataset_size % m.batch_size == 0 and m.steps % (m.dataset_size // m.batch_size) == 0
    ),
    lambda m: f"steps={m.steps} with dataset_size={m.dataset_size} and batch_size={m.batch_size}",
)
ONE_PASS = Assumption(
    "one pass over the records, one at a time in a fixed order",
    lambda m: FIXED_ORDER.holds(m) and m.batch_size == 1 and m.steps == m.dataset_size,
    lambda m: f"steps={m.steps}, dataset_size={m.dataset_size} and {_batching(m)}",
)
N_PASSES = Assumption(
    "n passes over the n records, one at a time in a fixed order",
    lambda m: FIXED_ORDER.holds(m) and m.batch_size == 1 and m.steps == m.dataset_size**2,
    fields("steps", "dataset_size", "batch_size"),
)
CONSTANT_STEP_SIZE = Assumption(
    "one step size for all steps", constant_step_size, lambda m: f"step_size={_step_size(m)}"
)
# no tolerance, as an expansion adds up over the steps; the product of eta and 2/eta rounds to 2
CONTRACTIVE_STEPS = Assumption(
    "eta <= 2/M with M the smoothness",
    lambda m: m.smoothness is not None and _largest_step(m) * m.smoothness <= 2,
    _step_and_smoothness,
)
STRICTLY_CONTRACTIVE_STEPS = Assumption(
    "eta < 2/M with M the smoothness",
    lambda m: m.smoothness is not None and _largest_step(m) * m.smoothness < 2 * (1 - ROUNDING),
    _step_and_smoothness,
)
CONTRACTING_STEPS = Assumption(
    "steps that contract by c < 1", lambda m: m.contraction < 1, lambda m: f"c={m.contraction:g}"
)
CONTRACTIVE_BATCHES = Assumption(
    "eta M n/b <= 2 for Poisson batches, which may hold all n records",
    lambda m: (
        not m.batching.has_random_size
        or m.smoothness is None
        or _largest_step(m) * m.smoothness * m.dataset_size <= 2 * m.batch_size
    ),
    fields("step_size", "smoothness", "dataset_size", "batch_size"),
)
SMALL_STEPS = Assumption(
    "eta <= 2/(M + m) with M the smoothness and m the strong convexity",
    lambda m: (
        m.smoothness is not None
        and constant_step_size(m)
        and m.constant_step_size * (m.smoothness + m.strong_convexity) <= 2 * (1 + ROUNDING)
    ),
    lambda m: (
        f"step_size={m.step_sizes[0]:g}, smoothness={m.smoothness} and "
        f"strong_convexity={m.strong_convexity:g}"
    ),
)
SOME_NOISE = Assumption(
    f"a noise multiplier of at least {_MIN_NOISE:g}",
    lambda m: m.noise_multiplier >= _MIN_NOISE,
    lambda m: f"noise_multiplier={m.noise_multiplier:g}",
)

# -------------------------------------------------------------------------- losses and domains

CONVEX = Assumption("convex losses", lambda m: m.convex, fields("convex"))
STRONGLY_CONVEX = Assumption(
    "strongly convex losses",
    lambda m: m.convex and m.strong_convexity > 0,
    fields("strong_convexity"),
)
SMOOTH = Assumption("smooth losses", lambda m: m.smoothness is not None, fields("smoothness"))
HOLDER = Assumption(
    "Hoelder continuous gradients of an order above 0",
    lambda m: m.holder is not None and m.holder[1] > 0,
    fields("holder"),
)
SMOOTH_OR_HOLDER = Assumption(
    "smooth losses, or Hoelder continuous gradients of an order above 0",
    lambda m: SMOOTH.holds(m) or HOLDER.holds(m),
    fields("smoothness", "holder"),
)
LIPSCHITZ = Assumption("Lipschitz losses", lambda m: m.lipschitz is not None, fields("lipschitz"))
UNCLIPPED = Assumption(
    "unclipped gradients, because clipped ones need not be those of a convex loss",
    # what is clipped has the regulariser of strongly convex losses in it, which nothing bounds
    lambda m: (
        m.clip_norm is None
        or (m.lipschitz is not None and m.lipschitz <= m.clip_norm and m.strong_convexity == 0)
    ),
    fields("clip_norm"),
)
GRADIENT_BOUND = Assumption(
    "a bound on each record's gradient",
    lambda m: m.gradient_bound is not None,
    fields("lipschitz", "clip_norm"),
)
LAST_STEP_BOUNDED = Assumption(
    "a bound on the last update: smoothness, holder, lipschitz or clip_norm",
    lambda m: m.smoothness is not None or HOLDER.holds(m) or m.gradient_bound is not None,
    fields("smoothness", "holder", "lipschitz", "clip_norm"),
)
BOUNDED_DOMAIN = Assumption(
    "a bounded domain", lambda m: m.diameter is not None, fields("diameter")
)
UNCONSTRAINED = Assumption(
    "iterates without a domain", lambda m: m.diameter is None, fields("diameter")
)
BOUNDED_OR_CONTRACTING = Assumption(
    "a bounded domain, or strongly convex losses with steps that contract by c < 1",
    lambda m: m.diameter is not None or (m.contraction < 1 and m.batching is not Batching.POISSON),
    lambda m: (
        f"diameter={m.diameter} and c={1.0 if m.batching is Batching.POISSON else m.contraction:g}"
    ),
)


def _sensitivity_from_bound(m: NoisySGD, share: float) -> bool:
    bound = m.gradient_bound
    return bound is not None and m.sensitivity >= share * bound * (1 - ROUNDING)


def _gradient_bound_sets_sensitivity(m: NoisySGD) -> bool:
    replaced = m.relation is Relation.REPLACE_ONE
    if m.sampling_rate == 1 or (m.divisor is Divisor.NOMINAL and not replaced):
        return True
    return _sensitivity_from_bound(m, 2.0 if replaced else 1.0)


GRADIENT_BOUND_SETS_SENSITIVITY = Assumption(
    "gradients whose bound alone gives the sensitivity, for replace-one or an actual divisor",
    _gradient_bound_sets_sensitivity,
    fields("gradient_bound", "gradient_sensitivity"),
)
GRADIENT_BOUND_FOR_POISSON = Assumption(
    "gradients whose bound alone gives the sensitivity, for Poisson batches and replace-one",
    lambda m: (
        m.batching is not Batching.POISSON
        or m.relation is not Relation.REPLACE_ONE
        or _sensitivity_from_bound(m, 2.0)
    ),
    fields("gradient_bound", "gradient_sensitivity"),
)

# ------------------------------------------------------------------------------------- releases


def _releases(name: str, *released: Release) -> Assumption:
    return Assumption(f"the release of {name}", lambda m: m.release in released, _RELEASE)


LAST_ITERATE = _releases("the last iterate", Release.LAST_ITERATE)
LAST_OR_ALL_ITERATES = _releases(
    "the last iterate or of all", Release.LAST_ITERATE, Release.ALL_ITERATES
)
SOME_ITERATES = _releases(
    "some or all iterates of the whole run",
    Release.LAST_ITERATE,
    Release.RANDOM_STOP,
    Release.ALL_ITERATES,
)
AN_ITERATE = Assumption(
    "the release of an iterate",
    lambda m: m.release is not Release.EXPONENTIAL_MECHANISM,
    _RELEASE,
)
RANDOM_STOP = _releases("the iterate after a random number of steps", Release.RANDOM_STOP)
RANDOM_SKIP = Assumption(
    "a random number of first records to be skipped",
    lambda m: m.release is Release.RANDOM_SKIP,
    _RELEASE,
)
EXPONENTIAL_MECHANISM = _releases("the exponential mechanism", Release.EXPONENTIAL_MECHANISM)
LAST_ITERATE_OR_EXPONENTIAL = _releases(
    "the last iterate or of the exponential mechanism",
    Release.LAST_ITERATE,
    Release.EXPONENTIAL_MECHANISM,
)
