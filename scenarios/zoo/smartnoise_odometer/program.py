"""Ask SmartNoise's odometers what many uses of one mechanism cost."""

import json
import math
from importlib.metadata import version
from pathlib import Path

from snsql import Privacy
from snsql.sql.odometer import Odometer, OdometerHeterogeneous

EPSILON, DELTA = 0.1, 1e-5
QUERIES = 1000

# The worst (epsilon, delta)-private mechanism: it tells the dataset with probability delta, and is
# randomised response otherwise.
LIKELY = (1 - DELTA) / (1 + math.exp(-EPSILON))
RARE = (1 - DELTA) / (1 + math.exp(EPSILON))
LAWS = {
    "pure": {"randomised_response": {"epsilon": EPSILON, "outcomes": 2, "times": QUERIES}},
    "leaking": {
        "finite": {
            "first": [DELTA, 0.0, LIKELY, RARE],
            "second": [0.0, DELTA, RARE, LIKELY],
            "times": QUERIES,
        }
    },
}


def homogeneous():
    """Return what the odometer for equal queries reports."""
    odometer = Odometer(Privacy(epsilon=EPSILON, delta=DELTA))
    odometer.spend(QUERIES)
    return odometer.spent


def heterogeneous():
    """Return what the odometer for any queries reports."""
    odometer = OdometerHeterogeneous(None)
    for _ in range(QUERIES):
        odometer.spend(Privacy(epsilon=EPSILON, delta=DELTA))
    return odometer.spent


claims = []
for odometer in (homogeneous, heterogeneous):
    epsilon, delta = map(float, odometer())
    print(odometer.__name__, epsilon, delta)
    claims += [
        {"id": f"{odometer.__name__}.{name}", "laws": laws, "epsilon": epsilon, "delta": delta}
        for name, laws in LAWS.items()
    ]
told = {"version": version("smartnoise-sql"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))
