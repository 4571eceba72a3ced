"""Take many independent first steps with Opacus' ghost clipping, on one record and without it."""

import warnings

import torch
from scalar_steps import Inputs, check_law, exact, make_private, noise_free, released, sampled, tell

DELTA = 1e-3
RUNS = 1000
LENGTH = 100


class SequenceBias(torch.nn.Module):
    """One bias, used at each of LENGTH places; the weight is frozen."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.linear.weight.requires_grad = False

    def forward(self, x):
        """Return one prediction a record."""
        return (x * self.linear(torch.ones_like(x)[:, :, None]).squeeze(-1)).sum(1)


# Two records. The gradient of the first is 0; the input of the second is 0 without the record, so
# that the sum is the same as if it were not there.
SETTINGS = {
    "max_grad_norm": {"model": lambda: Inputs(1), "input": [1.0], "max_grad_norm": 0.1},
    "sequence_bias": {"model": SequenceBias, "input": [0.1] * LENGTH, "max_grad_norm": 1.0},
}


def claims(name, mode):
    """Return the claims of the engine about one step: its law, and recorded steps."""
    torch.manual_seed(1)
    setting, found, means = SETTINGS[name], [], []
    empty = [0.0] * len(setting["input"])
    for inputs in ([empty, setting["input"]], [empty, empty]):
        options = {"mode": mode, "max_grad_norm": setting["max_grad_norm"], "accountant": "prv"}
        means.append(noise_free(inputs, model=setting["model"](), **options)[0])
        training = make_private(inputs, model=setting["model"](), noise_multiplier=1.0, **options)
        released(training, 1)
        epsilon = training.engine.get_epsilon(DELTA)
        steps = released(training, RUNS)[:, 0]
        check_law(steps, means[-1], training.step_std())
        found.append(steps[:, 0])
    distance = float((means[0] - means[1])[0])
    print(mode, name, epsilon, distance, training.step_std())
    laws = {"gaussian": {"sensitivity": distance, "noise_std": training.step_std()}}
    name = name if mode == "ghost" else f"{mode}.{name}"
    return [
        sampled(name, *found, epsilon, DELTA),
        exact(f"{name}.law", laws, epsilon, DELTA),
    ]


warnings.filterwarnings("ignore")
tell([claim for mode in ("ghost", "hooks") for name in SETTINGS for claim in claims(name, mode)])
