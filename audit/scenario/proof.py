"""The statements in the proof of paper 000's lower bound (section 4, appendix A.4), checked.

The proof shows that the symmetric walk omega and the biased walk omega' are distinguishable
through the auxiliary process omega''. Every probability that it estimates on the way is computed
here exactly or bracketed, and sampled.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit import exact, simulation
from audit.claims import Verdict, judge_interval
from audit.constructions import AuxiliaryWalk, BiasedWalk, Wall
from audit.constructions.process import Process
from audit.estimation.intervals import clopper_pearson
from audit.exact import Law, LawCurve
from audit.mechanism import Order
from audit.scenario import threshold
from audit.scenario.progress import Progress

Array = NDArray[np.float64]

# Footnote 9 and appendix A.4.
DIAMETER_CONSTANT, NOISE_CONSTANT, RENYI_CONSTANT, RENYI_ORDER = 1e3, 1e-3, 1e-7, 100.0
CONCENTRATION = 0.15
_POSITIVE = 0.5 * math.exp(0.1) + 0.01  # what (A.2) asks of the biased walk
# Deviations kept below omega'': what is cut off is lighter than 1e-40.
_TAIL = 14.0
_SAMPLED_CONFIDENCE = 0.999  # of each sampled interval, shown beside the exact values


@dataclass(frozen=True)
class ProofInputs:
    """What the checks need: the pair, its exact curve, and samples of both walks."""

    pair: BiasedWalk
    curve: LawCurve
    samples: Array
    samples_prime: Array
    trials: int
    seed: int
    threads: int


def check(inputs: ProofInputs, progress: Progress) -> dict[str, Any]:
    """Check the proof's statements for a biased walk.

    Returns plain data: ``conditions`` of the theorem, ``events`` with their claimed, exact and
    sampled probabilities, ``domination`` of omega'' by omega', the ``renyi_claim``, and the same
    claim ``below_threshold``, order by order.
    """
    walk = AuxiliaryWalk(inputs.pair.mechanism, start=inputs.pair.start)
    auxiliary = walk.processes()[1]
    jobs = [(auxiliary, "omega''"), (_absorbing(auxiliary), "omega'' until it meets the wall")]
    with ThreadPoolExecutor(min(2, inputs.threads)) as pool:
        law, touching = pool.map(lambda job: _computed(job[0], progress, job[1]), jobs)
    counted = simulation.auxiliary_events(
        walk,
        trials=inputs.trials,
        seed=inputs.seed,
        threads=inputs.threads,
        progress=progress.stage(f"omega'': {inputs.trials:,} samples"),
    )
    return {
        "conditions": _conditions(walk),
        "events": _events(inputs, walk, law, touching, counted),
        "domination": _domination(inputs.curve.second, law, walk.direction),
        "renyi_claim": _renyi_claim(inputs.curve, walk),
        "below_threshold": threshold.below(walk, inputs.curve, RENYI_ORDER, claimed_renyi),
    }


def claimed_renyi(walk: BiasedWalk) -> float:
    """Return the Renyi divergence of order 100 that the theorem claims is exceeded, (4.1)."""
    m = walk.mechanism
    steps = min(m.steps, AuxiliaryWalk(m, start=walk.start).burn_in)
    return (
        RENYI_CONSTANT
        * RENYI_ORDER
        * (m.steepest_gradient / (m.dataset_size * m.noise_std)) ** 2
        * steps
    )


def _computed(process: Process, progress: Progress, name: str) -> Law:
    law = exact.law(process, tail=_TAIL, progress=progress.stage(f"exact law of {name}"))
    if not isinstance(law, Law):  # it has one wall, so it is never normal
        raise TypeError(f"{name} must have a computed law, got {type(law).__name__}")
    return law


def _absorbing(process: Process) -> Process:
    return replace(process, lower_wall=Wall.ABSORB, upper_wall=Wall.ABSORB)


def _conditions(walk: AuxiliaryWalk) -> list[dict[str, Any]]:
    m = walk.mechanism
    diameter = float(m.diameter or math.inf)
    travel = m.constant_step_size * m.steepest_gradient
    least = DIAMETER_CONSTANT * travel
    most = math.sqrt(NOISE_CONSTANT / walk.burn_in) * diameter / m.constant_step_size
    rows = [
        ("D >= 1000 eta L", diameter, least, diameter >= least * (1 - 1e-9)),
        ("sigma <= sqrt(0.001/T-bar) D/eta", m.noise_std, most, m.noise_std <= most * (1 + 1e-9)),
        ("T >= T-bar", m.steps, walk.burn_in, m.steps >= walk.burn_in),
    ]
    return [{"condition": c, "value": v, "limit": w, "holds": bool(h)} for c, v, w, h in rows]


def _events(
    inputs: ProofInputs,
    walk: AuxiliaryWalk,
    law: Law,
    touching: Law,
    counted: simulation.AuxiliaryEvents,
) -> list[dict[str, Any]]:
    right = walk.direction > 0
    side = ">=" if right else "<="
    ahead = (0.0, math.inf) if right else (-math.inf, 0.0)
    behind = (-math.inf, -1e-300) if right else (1e-300, math.inf)

    def beyond(sample: Array) -> int:
        return int(np.count_nonzero(sample >= 0 if right else sample <= 0))

    touched = math.exp(touching.log_atoms[1 if right else 0])
    concentrated = _concentration(walk)
    both = (max(0.0, concentrated - touched), concentrated)
    fails = -math.expm1(math.log(concentrated))
    curve, trials = inputs.curve, inputs.trials
    omega = _bracket(curve.first, curve.coarse[0], *ahead)
    omega_prime = _complement(_bracket(curve.second, curve.coarse[1], *behind))
    omega_second = _complement(_bracket(law, law, *behind), law.lost_mass)
    log_behind = curve.second.log_probability(*behind)
    rows = [
        (f"P[omega_T {side} 0]", "= 1/2 (to 8 digits)", (0.5 - 1e-8, 0.5 + 1e-8), omega, "",
         beyond(inputs.samples), len(inputs.samples)),
        (f"P[omega'_T {side} 0]", "> 0.56", (_POSITIVE, 1.0), omega_prime,
         f"1 - e^{log_behind:.1f}", beyond(inputs.samples_prime), len(inputs.samples_prime)),
        (f"P[omega''_T {side} 0]", f">= {_POSITIVE:.4f} (A.2)", (_POSITIVE, 1.0), omega_second,
         f"1 - {law.probability(*behind):.2e}", counted.positive, trials),
        ("P[(i): the bias is within 15% of its mean]", ">= 0.99", (0.99, 1.0),
         (concentrated, concentrated), f"1 - {fails:.3e}", counted.concentrated, trials),
        ("P[(ii): omega'' never reaches the wall]", ">= 0.99", (0.99, 1.0),
         (1 - touched, 1 - touched), f"1 - {touched:.2e}", counted.unprojected, trials),
        ("P[E]: (i) and (ii)", ">= 0.9 (A.1)", (0.9, 1.0), both, f"1 - {1 - both[0]:.3e} or more",
         counted.both, trials),
    ]  # fmt: skip
    return [_event(*row) for row in rows]


def _event(
    name: str,
    claim: str,
    claimed: tuple[float, float],
    bracket: tuple[float, float],
    note: str,
    count: int,
    trials: int,
) -> dict[str, Any]:
    low, high = clopper_pearson(count, trials, confidence=_SAMPLED_CONFIDENCE)
    return {
        "name": name,
        "claim": claim,
        "exact": bracket,
        "note": note,
        "sampled": {"count": count, "trials": trials, "low": float(low), "high": float(high)},
        "verdict": judge_interval(*bracket, *claimed).value,
    }


def _concentration(walk: AuxiliaryWalk) -> float:
    """P[(i)]: the number of jumps, binomial, is within 15% of its mean."""
    m = walk.mechanism
    rate, mean = m.sampling_rate, walk.burn_in * m.sampling_rate
    low = math.ceil((1 - CONCENTRATION) * mean * (1 - 1e-12))
    high = math.floor((1 + CONCENTRATION) * mean * (1 + 1e-12))
    jumps = stats.binom(walk.burn_in, rate)
    return float(1 - (jumps.cdf(low - 1) + jumps.sf(high)))


def _bracket(fine: Law, coarse: Law, low: float, high: float) -> tuple[float, float]:
    """Probability of an interval with its errors, as in `LawCurve`."""
    value, other = fine.probability(low, high), coarse.probability(low, high)
    error = abs(value - other) + value * fine.relative_error
    return max(0.0, value - error), min(1.0, value + error)


def _complement(bracket: tuple[float, float], lost: float = 0.0) -> tuple[float, float]:
    return max(0.0, 1 - bracket[1] - lost), min(1.0, 1 - bracket[0])


def _domination(biased: Law, auxiliary: Law, direction: float) -> dict[str, Any]:
    """Compare distribution functions: omega' must be farther along than omega'' everywhere."""
    x = biased.panels.edges[:: max(1, len(biased.panels.edges) // 200)]
    if direction > 0:
        log_biased = [biased.log_probability(-math.inf, float(v)) for v in x]
        log_auxiliary = [auxiliary.log_probability(-math.inf, float(v)) for v in x]
    else:
        log_biased = [biased.log_probability(float(v), math.inf) for v in x]
        log_auxiliary = [auxiliary.log_probability(float(v), math.inf) for v in x]
    with np.errstate(invalid="ignore"):
        margin = np.nan_to_num(np.subtract(log_auxiliary, log_biased), nan=0.0)  # both empty
    slack = biased.relative_error + auxiliary.relative_error + auxiliary.lost_mass
    holds = bool(np.min(margin) >= -10 * slack)
    return {
        "x": x,
        "cdf_biased": np.exp(log_biased),
        "cdf_auxiliary": np.exp(log_auxiliary),
        "smallest_margin": float(np.min(margin)),
        "verdict": (Verdict.CONSISTENT if holds else Verdict.REFUTED).value,
    }


def brackets(bracket: Any) -> dict[str, tuple[float, float]]:
    """Evaluate a bracket in either order and for the worse of the two."""
    return {
        "forward": bracket(Order.FORWARD),
        "reverse": bracket(Order.REVERSE),
        "worst": bracket(None),
    }


def _renyi_claim(curve: LawCurve, walk: AuxiliaryWalk) -> dict[str, Any]:
    claimed = claimed_renyi(walk)
    values = brackets(lambda order: curve.renyi_bracket(RENYI_ORDER, order))
    verdict = judge_interval(*values["worst"], claimed, math.inf)
    return {"order": RENYI_ORDER, "claimed": claimed, **values, "verdict": verdict.value}
