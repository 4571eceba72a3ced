"""Aggregate one round of updates with Flower's central differential privacy, many times."""

import json
import logging
from importlib.metadata import version
from pathlib import Path

import numpy as np
from flwr.common import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

try:  # later releases need the identity of the process for a message, and account for privacy
    from flwr.supercore.privacy_accounting import (
        NeighboringRelation,
        PrivacyConfig,
        SamplingMethod,
    )
    from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
except ImportError:
    RdpAccountant = None

NOISE_MULTIPLIER, CLIPPING_NORM, CLIENTS = 1.0, 1.0, 10
DELTA = 1e-2
RUNS = 1000
EQUAL, UNEQUAL = [10] * CLIENTS, [910] + [10] * (CLIENTS - 1)
ARRAYS = ArrayRecord([np.zeros(1)])

logging.getLogger("flwr").setLevel(logging.ERROR)


class Grid:
    """The clients of the federation."""

    def get_node_ids(self):
        """Return the numbers of all clients."""
        return range(1, CLIENTS + 1)


def strategy(accountant=None):
    """Return the strategy of a federation in which every client takes part."""
    fedavg = FedAvg(fraction_train=1.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    options = {} if accountant is None else {"accountant": accountant}
    return DifferentialPrivacyServerSideFixedClipping(
        fedavg, NOISE_MULTIPLIER, CLIPPING_NORM, CLIENTS, **options
    )


def aggregate(dp, update, weights):
    """Return the noisy average of one round; the first client sends ``update``."""
    asked = list(dp.configure_train(1, ARRAYS, ConfigRecord(), Grid()))
    replies = [
        Message(
            RecordDict(
                {
                    # not exactly 0, by which the clipping divides
                    "arrays": ArrayRecord([np.array([update if place == 0 else 1e-9])]),
                    "metrics": MetricRecord({"num-examples": weight}),
                }
            ),
            reply_to=message,
        )
        for place, (message, weight) in enumerate(zip(asked, weights, strict=True))
    ]
    return dp.aggregate_train(1, replies)[0].to_numpy_ndarrays()[0][0]


def record(name, weights, seed):
    """Store the average of each run, with and without a large update of the first client."""
    np.random.seed(seed)  # noqa: NPY002  (the library draws from the global generator)
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for file, update in zip(files.values(), (5.0, 1e-9), strict=True):
        np.save(file, [aggregate(strategy(), update, weights) for _ in range(RUNS)])
    return files


samples = {"equal_weights": record("equal_weights", EQUAL, 1)}
samples["unequal_weights"] = record("unequal_weights", UNEQUAL, 2)
claims = [
    {"id": name, "samples": files, "mu": 1 / NOISE_MULTIPLIER} for name, files in samples.items()
]
if RdpAccountant is not None:
    config = PrivacyConfig(
        DELTA,
        CLIENTS,
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        SamplingMethod.NO_AMPLIFICATION,
    )
    accounted = strategy(RdpAccountant(config))
    aggregate(accounted, 5.0, EQUAL)
    epsilon = accounted.privacy_spent().epsilon
    claim = {"id": "accounted", "samples": samples["equal_weights"]}
    claims.append({**claim, "epsilon": epsilon, "delta": DELTA})
    try:
        aggregate(strategy(RdpAccountant(config)), 5.0, UNEQUAL)
    except ValueError as refusal:
        print(f"with an accountant, unequal weights are refused: {refusal}")
Path("claims.json").write_text(json.dumps({"version": version("flwr"), "claims": claims}))
