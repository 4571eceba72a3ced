"""Ask both accountants of dp-accounting about ten steps of the Gaussian mechanism."""

import json
from importlib.metadata import version
from pathlib import Path

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

NOISE_MULTIPLIER, STEPS, RECORDS = 5.0, 10, 10_000
DELTA, ORDER = 1e-5, 8.0
RELATIONS = {
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}

event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(NOISE_MULTIPLIER), STEPS)
mechanisms, claims = {}, []
for name, relation in RELATIONS.items():
    # the sum of gradients of norm at most 1, with noise of standard deviation NOISE_MULTIPLIER
    mechanisms[name] = {
        "steps": STEPS,
        "dataset_size": RECORDS,
        "batch_size": RECORDS,
        "step_size": 1,
        "noise_std": NOISE_MULTIPLIER / RECORDS,
        "clip_norm": 1,
        "convex": False,
        "batching": "full",
        "relation": name,
        "release": "all iterates",
    }
    epsilon = PLDAccountant(relation).compose(event).get_epsilon(DELTA)
    rdp = RdpAccountant([ORDER], relation).compose(event)
    claims += [
        {"id": f"pld.{name}", "mechanism": name, "epsilon": float(epsilon), "delta": DELTA},
        {"id": f"rdp.{name}", "mechanism": name, "epsilon": rdp.get_epsilon(DELTA), "delta": DELTA},
    ]
told = {"version": version("dp-accounting"), "mechanisms": mechanisms, "claims": claims}
Path("claims.json").write_text(json.dumps(told))
