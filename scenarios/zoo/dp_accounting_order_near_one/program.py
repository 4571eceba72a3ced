"""Ask the RDP accountant of dp-accounting with one order next to 1 among the usual ones."""

import json
from importlib.metadata import version
from pathlib import Path

import dp_accounting
from dp_accounting.rdp import RdpAccountant

NOISE_MULTIPLIER, RATE, STEPS, RECORDS, DELTA = 1.0, 0.01, 1000, 10_000, 1e-5
USUAL = list(range(2, 64))

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
event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(NOISE_MULTIPLIER))
orders = {
    "order_1e-14": [1 + 1e-14, *USUAL],
    "order_1e-08": [1 + 1e-8, *USUAL],
    "usual_orders": USUAL,
}
claims = [
    {
        "id": name,
        "mechanism": "training",
        "epsilon": float(RdpAccountant(chosen).compose(event, STEPS).get_epsilon(DELTA)),
        "delta": DELTA,
    }
    for name, chosen in orders.items()
]
told = {"version": version("dp-accounting"), "mechanisms": {"training": training}, "claims": claims}
Path("claims.json").write_text(json.dumps(told))
