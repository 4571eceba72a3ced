"""Ask the PLD accountant of dp-accounting for epsilon at smaller and smaller deltas."""

import json
from importlib.metadata import version
from pathlib import Path

import dp_accounting
from dp_accounting.pld import PLDAccountant

NOISE_MULTIPLIER, RATE, STEPS, RECORDS = 6.0, 0.01, 10_000, 10_000

once = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(NOISE_MULTIPLIER))
accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
accountant.compose(dp_accounting.SelfComposedDpEvent(once, STEPS))
batch = round(RATE * RECORDS)
training = {
    "steps": STEPS,
    "dataset_size": RECORDS,
    "batch_size": batch,
    "step_size": 1,
    "noise_std": NOISE_MULTIPLIER / batch,
    "clip_norm": 1,
    "convex": False,
    "batching": "poisson",
    "relation": "add remove",
    "release": "all iterates",
}
claims = [
    {
        "id": f"delta_{delta:.0e}",
        "mechanism": "training",
        "epsilon": float(accountant.get_epsilon(delta)),
        "delta": delta,
    }
    for delta in (1e-13, 1e-12, 1e-10, 1e-5)
]
told = {"version": version("dp-accounting"), "mechanisms": {"training": training}, "claims": claims}
Path("claims.json").write_text(json.dumps(told))
