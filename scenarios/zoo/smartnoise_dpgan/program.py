"""Train SmartNoise's DPGAN, and record the noisy steps that its Opacus engine takes."""

import importlib
import json
import math
import sys
import types
import warnings
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import opacus
import torch

# One batch holds all records, so that a step on real data is one release of Gaussian noise.
RECORDS, COLUMNS, DELTA = 64, 9, 1e-5


class Synthesizer:
    """A base class without preprocessing: the network gets the data as they are."""

    def _get_train_data(self, data, **named):
        return data


class Engine(opacus.PrivacyEngine):
    """Opacus' engine; it notes the standard deviation of the noise of each step."""

    last = None

    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.noise_stds = []
        Engine.last = self

    def _generate_noise(self, max_grad_norm, reference):
        self.noise_stds.append((self.steps, self.noise_multiplier * float(max_grad_norm)))
        return super()._generate_noise(max_grad_norm, reference)


def dpgan_of(package):
    """Return the module of DPGAN without the packages above it, which import other libraries."""
    for name in ("snsynth", "snsynth.pytorch", "snsynth.pytorch.nn"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(package.locate_file(name.replace(".", "/")))]
    sys.modules["snsynth.base"] = types.ModuleType("snsynth.base")
    sys.modules["snsynth.base"].Synthesizer = Synthesizer
    return importlib.import_module("snsynth.pytorch.nn.dpgan")


def trained(epsilon):
    """Return the engine of a training with this budget, and the law of its steps on real data."""
    torch.manual_seed(1)
    data = np.random.default_rng(1).random((RECORDS, COLUMNS))
    dpgan.DPGAN(epsilon=epsilon, batch_size=RECORDS, epochs=1000, delta=DELTA).train(data)
    engine = Engine.last
    (std,) = {std for _, std in engine.noise_stds}
    # every second step is on data of the generator, which tell nothing of a record
    steps = len({step for step, _ in engine.noise_stds}) // 2
    print("asked", epsilon, "steps", steps, "noise", std, engine.get_privacy_spent(DELTA))
    # gradients are clipped to norm 1; k steps tell as much as one with 1 / sqrt(k) of the noise
    return engine, {"gaussian": {"sensitivity": 1, "noise_std": std / math.sqrt(steps)}}


warnings.simplefilter("ignore")
package = distribution("smartnoise-synth")
dpgan = dpgan_of(package)
dpgan.PrivacyEngine = Engine
engine, law = trained(0.5)
accounted, _ = engine.get_privacy_spent(DELTA)
_, longer = trained(5.0)
claims = [
    {"id": "0.5.asked", "laws": law, "epsilon": 0.5, "delta": DELTA},
    {"id": "0.5.accounted", "laws": law, "epsilon": float(accounted), "delta": DELTA},
    {"id": "5.asked", "laws": longer, "epsilon": 5.0, "delta": DELTA},
]
Path("claims.json").write_text(json.dumps({"version": package.version, "claims": claims}))
