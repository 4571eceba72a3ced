"""Ask SmartNoise's SQL reader for the sum of a column, with and without declared bounds."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from opendp.smartnoise.metadata import CollectionMetadata
from opendp.smartnoise.sql import PandasReader, PrivateReader, private_reader

RUNS = 500
RECORDS = 10
QUERY = "SELECT SUM(income) AS total FROM people.incomes"
METADATA = """
collection:
  people:
    incomes:
      rows: {records}
      id: {{private_id: True, type: int}}
      income: {{type: float{bounds}}}
engine: pandas
"""
noise = []


class Recorded(private_reader.Gaussian):
    """The reader's mechanism; its standard deviation is noted."""

    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        noise.append(self.sd * self.max_contrib * self.sensitivity)


def reader(bounds, income):
    """Return a reader of incomes of 1, of which the first is this one."""
    Path("metadata.yaml").write_text(METADATA.format(records=RECORDS, bounds=bounds))
    metadata = CollectionMetadata.from_file("metadata.yaml")
    data = pd.DataFrame({"id": range(RECORDS), "income": [income] + [1.0] * (RECORDS - 1)})
    return PrivateReader(metadata, PandasReader(metadata, data))


def sums(bounds, income):
    """Return released sums."""
    own = reader(bounds, income)
    found = [float(own.execute(QUERY)[1][0]) for _ in range(RUNS)]
    print("bounds", bounds, "income", income, np.mean(found), np.std(found))
    return found


private_reader.Gaussian = Recorded
np.save("x.npy", sums("", 1.0))
np.save("x_prime.npy", sums("", 0.0))
print("standard deviations of all noise", set(noise))  # of the number of people
noise.clear()
bounded = reader(", lower: 0, upper: 1", 1.0)
print(bounded.execute(QUERY))
_, of_the_sum = noise
budget = {"epsilon": bounded.epsilon_per_column, "delta": bounded.delta}
samples = {"x": "x.npy", "x_prime": "x_prime.npy", "favours": "forward"}
laws = {"gaussian": {"sensitivity": 1, "noise_std": of_the_sum}}
claims = [
    # the budget is one for each noisy column: the sum, and the number of people
    {"id": "without_bounds", "samples": samples} | {key: 2 * budget[key] for key in budget},
    {"id": "with_bounds", "laws": laws} | budget,
]
told = {"version": version("opendp-smartnoise"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))
