"""Train with Opacus on Poisson batches, and ask each of its accountants for epsilon."""

import warnings

import torch
from scalar_steps import make_private, released, tell

RECORDS, BATCH, EPOCHS = 1000, 10, 10
NOISE_MULTIPLIER, DELTA = 1.0, 1e-5

warnings.filterwarnings("ignore")
torch.manual_seed(1)
claims = []
for accountant in ("gdp", "rdp"):
    training = make_private(
        [[1.0]] * RECORDS,
        noise_multiplier=NOISE_MULTIPLIER,
        batch_size=BATCH,
        accountant=accountant,
    )
    steps = released(training, EPOCHS)
    epsilon = float(training.engine.get_epsilon(DELTA))
    print(accountant, steps.shape, epsilon)
    claims.append({"id": accountant, "mechanism": "training", "epsilon": epsilon, "delta": DELTA})
training = {
    "history": [[NOISE_MULTIPLIER, BATCH / RECORDS, EPOCHS * RECORDS // BATCH]],
    "dataset_size": RECORDS,
    "relation": "add remove",
}
tell(claims, {"training": training})
