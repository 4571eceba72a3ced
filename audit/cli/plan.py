"""The ``audit-plan`` command: the number of runs that refute a claim about a known mechanism."""

from __future__ import annotations

import argparse
import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit import validate
from audit.cli import help
from audit.codec import encode

if TYPE_CHECKING:
    from audit.curves import PrivacyCurve
    from audit.estimation import TrialPlan


class AssumedLaw(enum.Enum):
    """The assumed mechanism."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    RANDOMISED_RESPONSE = "randomised response"
    SAMPLED_GAUSSIAN = "sampled gaussian"


_NEEDED = {
    AssumedLaw.GAUSSIAN: ("mu",),
    AssumedLaw.LAPLACE: ("pure_epsilon",),
    AssumedLaw.RANDOMISED_RESPONSE: ("pure_epsilon",),
    AssumedLaw.SAMPLED_GAUSSIAN: ("sampling_rate", "noise_multiplier"),
}


@dataclass(frozen=True, kw_only=True)
class PlanQuestion:
    """The claim, the planned audit, and the assumed law."""

    epsilon: float  #: the claim, a number of at least 0
    delta: float  #: the claim, a number in [0, 1)
    confidence: float  #: confidence level of the audit, in (0, 1)
    power: float = 0.8  #: probability of refuting the claim
    largest: int = 10**8  #: largest number of runs to consider
    #: whether it is known in advance which dataset has the higher scores
    directed: bool = False
    law: AssumedLaw  #: the assumed mechanism
    mu: float | None = None  #: gaussian: distance of the two means over the standard deviation
    #: laplace: sensitivity over scale; randomised response: log odds of the true answer
    pure_epsilon: float | None = None
    sampling_rate: float | None = None  #: sampled gaussian: of one step
    noise_multiplier: float | None = None  #: sampled gaussian: of one step

    def __post_init__(self) -> None:
        needed = _NEEDED[self.law]
        for name in dict.fromkeys(name for names in _NEEDED.values() for name in names):
            value = getattr(self, name)
            if (value is not None) == (name in needed):
                continue
            word = "given" if name in needed else "left out"
            raise validate.fail(name, f"{word} for law={self.law.value}", value)

    @property
    def described(self) -> str:
        """The assumed law in words."""
        values = ", ".join(f"{name} {getattr(self, name):g}" for name in _NEEDED[self.law])
        return f"{self.law.value} with {values}"

    def curve(self) -> PrivacyCurve:
        """Return the privacy curve of the assumed law."""
        from audit.curves import GaussianCurve, LaplaceCurve, PureCurve

        if self.mu is not None:
            return GaussianCurve(self.mu)
        if self.pure_epsilon is not None:
            pure = LaplaceCurve if self.law is AssumedLaw.LAPLACE else PureCurve
            return pure(self.pure_epsilon)
        from audit import exact
        from audit.constructions.explicit import Mixture, Mixtures

        assert self.sampling_rate is not None  # __post_init__
        assert self.noise_multiplier is not None
        validate.open_unit(sampling_rate=self.sampling_rate)
        validate.positive(noise_multiplier=self.noise_multiplier)
        rate, std = float(self.sampling_rate), float(self.noise_multiplier)
        moved = Mixture((1 - rate, rate), (0.0, 1.0), (std, std))
        return exact.curve(Mixtures(moved, Mixture((1.0,), (0.0,), (std,))))

    def planned(self) -> TrialPlan:
        """Return the number of runs, or what the largest number reaches."""
        from audit.estimation import plan

        names = ("epsilon", "delta", "confidence", "power", "directed", "largest")
        return plan(self.curve(), **{name: getattr(self, name) for name in names})


def main() -> None:
    """Run the ``audit-plan`` command; the claim and the assumed law are given as KEY=VALUE."""
    help.keyed("audit-plan", _run, PlanQuestion, formats=("text", "json"))


def _run(options: argparse.Namespace) -> None:
    from audit.cli.composition import composed  # Hydra takes a while to import

    plans = [(one, one.planned()) for (one,) in composed("audit-plan", PlanQuestion)]
    if options.format == "json":
        written = [{"law": one.described, **encode(plan)} for one, plan in plans]
        print(json.dumps(written, indent=1, allow_nan=False))
        return
    for question, plan in plans:
        print(_sentence(question, plan))


def _sentence(question: PlanQuestion, plan: TrialPlan) -> str:
    from audit.numerics.number_format import Rounding, count, plain, short

    claim = f'"epsilon <= {plain(plan.epsilon)} at delta {plain(plan.delta)}"'
    law = f"{question.described}, where epsilon is {plan.true_epsilon:.6g}"
    if not plan.refutable:
        return f"No number of runs refutes {claim} for {law}: the claim is true."
    confidence = short(plan.confidence, 6, Rounding.DOWN)
    chance = f"with probability {plan.reached:.3g} at confidence {confidence}"
    if plan.trials is None:
        runs = f"{count(question.largest)} runs of each dataset"
        return f"{runs} refute {claim} only {chance}, for {law}."
    return f"{count(plan.trials)} runs of each dataset refute {claim} {chance}, for {law}."


if __name__ == "__main__":
    main()
