"""Ask Opacus for the noise multiplier that keeps a target epsilon."""

import json
import warnings
from pathlib import Path

import opacus
from opacus.accountants.utils import get_noise_multiplier

RECORDS = 1000
DELTA = 1e-5
# name: target epsilon, sample rate, epochs
TARGETS = {"one_step": (45.5, 1.0, 1), "ten_epochs": (2.0, 0.01, 10)}

warnings.filterwarnings("ignore")
mechanisms, claims = {}, []
for name, (target, rate, epochs) in TARGETS.items():
    noise_multiplier = get_noise_multiplier(
        target_epsilon=target, target_delta=DELTA, sample_rate=rate, epochs=epochs
    )
    print(name, noise_multiplier)
    mechanisms[name] = {
        "history": [[noise_multiplier, rate, round(epochs / rate)]],
        "dataset_size": RECORDS,
        "relation": "add remove",
    }
    claims.append({"id": name, "mechanism": name, "epsilon": target, "delta": DELTA})
told = {"version": opacus.__version__, "mechanisms": mechanisms, "claims": claims}
Path("claims.json").write_text(json.dumps(told))
