"""Comparison of a mechanism with an accountant that assumes other batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from audit import validate
from audit.bounds import calibration
from audit.bounds.assumptions import NotApplicable
from audit.dominating import dominating_curve
from audit.mechanism import Batching, NoisySGD, Release
from audit.numerics import display
from audit.numerics.display import Marks, ShortRepr
from audit.numerics.number_format import Rounding, number, telling

_ACCURACY = 1e-4  # relative accuracy of the curves, and of noise multipliers
_DIGITS = 4  # digits of a printed noise multiplier


@dataclass(frozen=True)
class BatchingGap(ShortRepr):
    """Privacy of all iterates, compared with an accountant that assumes other batches."""

    mechanism: NoisySGD
    assumed: Batching | NoisySGD  # batches, or the whole mechanism, that the accountant assumes
    delta: float
    claimed: float  # epsilon of the assumed batches, exact up to 1e-4 (relative), rounded up
    certified: float  # epsilon that some losses have with the actual ones
    proven: float  # upper bound on the epsilon of the actual ones
    needed: float | None  # the claim is false below this noise multiplier; None if none is known
    enough: float | None  # a noise multiplier for which it is proven; None if none is known

    def _repr_html_(self) -> str:
        marks = [
            Marks(f"claimed for {self._assumed.value} batches", upper=self.claimed),
            Marks(f"{self.mechanism.batching.value} batches", self.certified, upper=self.proven),
        ]
        return display.sandwich(str(self), marks)

    @property
    def _assumed(self) -> Batching:
        return self.assumed if isinstance(self.assumed, Batching) else self.assumed.batching

    @property
    def refuted(self) -> bool:
        """True if some losses are certainly less private than claimed."""
        return self.certified > self.claimed

    def __str__(self) -> str:
        name = self.mechanism.batching.value
        digits = telling(self.claimed, self.certified, 6)
        epsilon, proven = (number(x, digits, Rounding.UP) for x in (self.claimed, self.proven))
        certified = number(self.certified, digits, Rounding.DOWN)
        claim = f"epsilon {epsilon} at delta {self.delta:g} for {self._assumed.value} batches"
        if self.refuted:
            verdict = f"false for {name} batches, where it is at least {certified}"
        elif self.proven <= self.claimed:
            verdict = f"true for {name} batches, where it is at most {proven}"
        else:
            verdict = f"open for {name} batches, where it is between {certified} and {proven}"
        noise = [f"noise multiplier {self.mechanism.noise_multiplier:.4g}"]
        if self.needed is not None:
            low = number(self.needed, _DIGITS, Rounding.DOWN)
            noise.append(f"below {low} the claim is false")
        if self.enough is not None:
            noise.append(f"from {number(self.enough, _DIGITS, Rounding.UP)} on it is true")
        return f"{claim}: {verdict} ({'; '.join(noise)})"


def batching_gap(mechanism: NoisySGD, *, assumed: Batching | NoisySGD, delta: float) -> BatchingGap:
    """Return how private a training is whose batches differ from those an accountant assumes.

    A common case is a loader that shuffles, with an accountant for Poisson batches. Both numbers
    are for all iterates and the worst losses.

    Parameters
    ----------
    mechanism : NoisySGD
        The actual mechanism, with ``release=Release.ALL_ITERATES``.
    assumed : Batching or NoisySGD
        Batches that the accountant assumes, with all other parameters from ``mechanism``; or the
        whole mechanism that it assumes.
    delta : float
        A number in (0, 1).

    Returns
    -------
    BatchingGap
        The accountant's epsilon, certified lower and proven upper bounds on the true one, and the
        noise multipliers that the claim needs.

    Raises
    ------
    NotApplicable
        If the privacy of one of the two is unknown.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(
    ...     steps=100, dataset_size=1000, batch_size=10, step_size=0.1, noise_std=0.05,
    ...     clip_norm=1.0, convex=False, batching=audit.Batching.CYCLIC,
    ...     relation=audit.Relation.ZERO_OUT, release=audit.Release.ALL_ITERATES,
    ... )
    >>> gap = batching_gap(m, assumed=audit.Batching.POISSON, delta=1e-6)
    >>> gap.refuted, round(gap.claimed, 3), round(gap.certified, 3)
    (True, 7.916, 10.997)
    """
    validate.instance(NoisySGD, mechanism=mechanism)
    validate.open_unit(delta=delta)
    if isinstance(assumed, NoisySGD):
        assumed_run = assumed
    else:
        validate.instance(Batching, assumed=assumed)
        assumed_run = replace(mechanism, batching=assumed, max_batch_size=None, participations=1)
    for m in (mechanism, assumed_run):
        if m.release is not Release.ALL_ITERATES:
            raise NotApplicable(
                "a comparison of batches needs release='all iterates', "
                f"got release={m.release.value!r}"
            )

    def bracket(m: NoisySGD) -> tuple[float, float]:
        try:
            return dominating_curve(m, accuracy=_ACCURACY).epsilon_bracket(delta)
        except ValueError as reason:
            raise NotApplicable(str(reason)) from None

    claimed = bracket(assumed_run)[1]
    certified, proven = bracket(mechanism)

    z = mechanism.noise_multiplier

    def epsilon(end: int) -> Callable[[float], float]:
        return lambda noise: bracket(replace(mechanism, noise_std=mechanism.noise_std * noise / z))[
            end
        ]

    try:
        enough = calibration.least_noise(epsilon(1), claimed, z, tolerance=_ACCURACY)
    except ValueError:  # no noise is known to be enough
        enough = None
    known = z if enough is None else enough
    needed = calibration.needed_noise(epsilon(0), claimed, known, _ACCURACY)
    return BatchingGap(
        mechanism=mechanism,
        assumed=assumed,
        delta=float(delta),
        claimed=claimed,
        certified=certified,
        proven=proven,
        needed=needed or None,
        enough=enough,
    )
