"""Run the client of a federation through Flower's LocalDpMod, and record the noise that it adds."""

import json
import logging
from importlib.metadata import version
from pathlib import Path

import numpy as np
from flwr.clientapp.mod import LocalDpMod
from flwr.common import ArrayRecord, Message, RecordDict

CLIPPING_NORM, DELTA = 1.0, 1e-5
SENSITIVITY = 2 * CLIPPING_NORM  # of a clipped update, if another client stands in its place

logging.getLogger("flwr").setLevel(logging.ERROR)
message = Message(
    RecordDict({"arrays": ArrayRecord([np.zeros(1)])}), message_type="train", dst_node_id=1
)


def client(received, context):
    """Return an update of norm 5."""
    return Message(RecordDict({"arrays": ArrayRecord([np.array([5.0])])}), reply_to=received)


def noise_std(epsilon):
    """Return the standard deviation of the noise of one message."""
    found, normal = [], np.random.normal

    def recording(mean, std, size):
        found.append(float(std))
        return normal(mean, std, size)

    np.random.normal = recording
    try:
        LocalDpMod(CLIPPING_NORM, SENSITIVITY, epsilon, DELTA)(message, None, client)
    finally:
        np.random.normal = normal
    (std,) = found
    return std


claims = [
    {
        "id": f"epsilon_{epsilon}",
        "laws": {"gaussian": {"sensitivity": SENSITIVITY, "noise_std": noise_std(epsilon)}},
        "epsilon": epsilon,
        "delta": DELTA,
    }
    for epsilon in (1, 10, 50)
]
Path("claims.json").write_text(json.dumps({"version": version("flwr"), "claims": claims}))
