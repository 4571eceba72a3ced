"""Calibrate Gaussian noise with autodp's analytic Gaussian mechanism."""

import json
from importlib.metadata import version
from pathlib import Path

from autodp.calibrator_zoo import ana_gaussian_calibrator
from autodp.mechanism_zoo import GaussianMechanism

claims = []
for epsilon, delta in ((8, 1e-14), (1, 1e-15), (8, 1e-12), (40, 1e-6)):
    sigma = ana_gaussian_calibrator()(GaussianMechanism, epsilon, delta).params["sigma"]
    claims.append(
        {
            "id": f"{epsilon}_{delta:g}",
            "laws": {"gaussian": {"sensitivity": 1, "noise_std": float(sigma)}},
            "epsilon": epsilon,
            "delta": delta,
        }
    )
told = {"version": version("autodp"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))
