"""Run a scenario: from settings to the numbers of its report."""

from __future__ import annotations

import dataclasses
import enum
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import estimation, exact
from audit.constructions import BiasedWalk, Construction, PiecewiseLinear
from audit.mechanism import NoisySGD
from audit.scenario import comparison, pictures, positions, proof
from audit.scenario.definition import Scenario, Setting
from audit.scenario.own import OwnSetting
from audit.scenario.own_audit import audit_own
from audit.scenario.progress import Progress, Silent
from audit.scenario.provenance import provenance
from audit.scenario.sampling import Sampling
from audit.scenario.searched import found_by
from audit.scenario.study import StudySetting, stored_study

FORMAT = 1

# The proof's events are computed exactly; the samples beside them need not be many.
_MOST_PROOF_TRIALS = 200_000


def run(
    scenario: Scenario,
    *,
    progress: Progress | None = None,
    command: str = "",
    sampling: Sampling | None = None,
) -> dict[str, Any]:
    """Compute, sample and bound every setting of a scenario.

    Parameters
    ----------
    scenario
        What to run.
    progress
        Where to show how far it is; nowhere by default.
    command
        The command to note in the provenance.
    sampling
        The workers that draw samples, if they are ready already, and what long runs keep; by
        default those of the scenario, and nothing.

    Returns
    -------
    dict
        Plain data, the content of ``result.json``.
    """
    shown = progress or Silent()
    started, clock = datetime.now(UTC), time.perf_counter()
    settings = [
        _run_setting(setting, scenario, index, shown, sampling or Sampling(scenario.backend))
        for index, setting in enumerate(scenario.settings)
    ]
    return {
        "format": FORMAT,
        "scenario": {
            "name": scenario.name,
            "title": scenario.title,
            "summary": scenario.summary,
            "reference": scenario.reference,
        },
        "provenance": {
            **provenance(),
            "started": started.isoformat(timespec="seconds"),
            "wall_seconds": round(time.perf_counter() - clock, 3),
            "seed": scenario.seed,
            "threads": scenario.threads,
            "command": command,
        },
        "confidence": scenario.confidence,
        "settings": settings,
    }


def _run_setting(
    setting: Setting | OwnSetting | StudySetting,
    scenario: Scenario,
    index: int,
    progress: Progress,
    sampling: Sampling,
) -> dict[str, Any]:
    clock = time.perf_counter()
    seed = setting_seed(scenario.seed, index)
    if isinstance(setting, OwnSetting):
        progress.stage(f"{setting.name}: scores of {setting.source.described}")
        result = audit_own(setting, confidence=scenario.confidence, seed=seed)
    elif isinstance(setting, StudySetting):
        findings = setting.study.find(
            seed=seed,
            threads=scenario.threads,
            confidence=scenario.confidence,
            progress=progress.stage(f"{setting.name}: {setting.kind}"),
        )
        result = stored_study(setting, findings, seed)
    else:
        result = _run_pair(setting, scenario, seed, progress, sampling)
    result["wall_seconds"] = round(time.perf_counter() - clock, 3)
    return result


def _run_pair(
    setting: Setting, scenario: Scenario, seed: int, progress: Progress, sampling: Sampling
) -> dict[str, Any]:
    mechanism, threads = setting.pair.mechanism, scenario.threads
    steps = sorted({*setting.steps_shown, mechanism.steps})
    curves = pictures.curves_against_steps(
        setting.pair, steps, threads, progress.stage(f"{setting.name}: exact laws")
    )
    curve = curves[steps.index(mechanism.steps)]
    drawing = progress.stage(f"{setting.name}: {setting.trials:,} samples a side", "steps")
    x, x_prime = sampling.final_iterates(setting.pair, setting.trials, seed, drawing)
    audited = estimation.audit_samples(
        x, x_prime, confidence=scenario.confidence, deltas=setting.deltas, seed=seed
    )
    claims = comparison.claimed_bounds(mechanism, scenario.bounds)
    others = [(pair, exact.curve(pair, threads=threads)) for pair in setting.other_pairs]
    pairs = [(setting.pair, curve), *others]
    described = [_other_pair(*other, setting.deltas) for other in others]
    compared = list(pairs)
    if setting.search is not None:
        report = progress.stage(f"{setting.name}: search")
        found = setting.search.find(mechanism, seed, report)
        best = (found.construction, found.law)
        compared.append(best)
        how = {"found_by": found_by(setting.search, found)}
        described.append({**_other_pair(*best, setting.deltas), **how})
    result: dict[str, Any] = {
        "name": setting.name,
        "title": setting.title,
        "summary": setting.summary,
        "mechanism": plain_fields(mechanism),
        "derived": _derived(mechanism),
        "construction": _described(setting.pair),
        "trials": setting.trials,
        "seed": seed,
        "deltas": [comparison.at_delta(d, compared, audited, claims) for d in setting.deltas],
        "other_pairs": described,
        "renyi": [comparison.at_order(a, curve, audited, claims) for a in setting.renyi_orders],
        "mu_lower": audited.mu_lower(),
        "audit": audited.to_dict(),
        "laws": pictures.laws(curve, x, x_prime),
        "tradeoff": pictures.tradeoff(curve, audited, claims),
        "epsilon_against_steps": pictures.epsilon_against_steps(
            setting.pair,
            steps,
            curves,
            setting.deltas[-1],
            scenario.bounds,
            progress.stage(f"{setting.name}: bounds against steps"),
        ),
        "positions": positions.leak_by_position(
            [pair for pair, _ in pairs],
            setting.positions,
            setting.deltas,
            scenario.bounds,
            threads,
        ),
        "diagnostics": None,
    }
    if setting.check_proof:
        inputs = _proof_inputs(setting, curve, x, x_prime, seed, threads)
        result["diagnostics"] = proof.check(inputs, progress)
    return result


def _proof_inputs(
    setting: Setting,
    curve: comparison.ExactCurve,
    x: NDArray[np.float64],
    x_prime: NDArray[np.float64],
    seed: int,
    threads: int,
) -> proof.ProofInputs:
    if not isinstance(setting.pair, BiasedWalk) or not isinstance(curve, exact.LawCurve):
        raise ValueError(
            "check_proof must be false but for a BiasedWalk on a bounded domain, "
            f"got {setting.pair.name} with diameter={setting.pair.mechanism.diameter!r}"
        )
    trials = min(setting.trials, _MOST_PROOF_TRIALS)
    return proof.ProofInputs(setting.pair, curve, x, x_prime, trials, seed, threads)


def setting_seed(seed: int, index: int) -> int:
    """Return the seed of a setting, so that settings draw independent samples."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0])


def plain_fields(value: Any) -> dict[str, Any]:
    """Fields of a dataclass as plain data, enums by their value."""
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return {k: v.value if isinstance(v, enum.Enum) else v for k, v in fields.items()}


def _derived(mechanism: NoisySGD) -> dict[str, Any]:
    stds = mechanism.step_sizes * mechanism.noise_std
    return {
        "step_std": float(stds[0]) if np.ptp(stds) == 0 else None,
        "sensitivity": mechanism.sensitivity,
        "diameter_in_step_std": (
            None if mechanism.diameter is None else mechanism.diameter / float(stds.min())
        ),
        "sampling_rate": mechanism.sampling_rate,
        "epochs": mechanism.epochs,
    }


def _described(pair: Construction) -> dict[str, Any]:
    parameters = {
        name: plain_fields(value) if isinstance(value, PiecewiseLinear) else value
        for name, value in plain_fields(pair).items()
        if name != "mechanism"
    }
    return {"name": pair.name, "citation": pair.citation, "parameters": parameters}


def _other_pair(
    pair: Construction, curve: comparison.ExactCurve, deltas: tuple[float, ...]
) -> dict[str, Any]:
    epsilons = [{"delta": d, "worst": curve.epsilon_bracket(d)} for d in deltas]
    return {**_described(pair), "epsilon": epsilons}
