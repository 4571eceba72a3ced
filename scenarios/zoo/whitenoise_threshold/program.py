"""Count records by group with WhiteNoise's SQL reader, and record its noise and its threshold."""

import json
import math
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from opendp.whitenoise.metadata import CollectionMetadata
from opendp.whitenoise.sql import PandasReader, PrivateReader, private_reader

RECORDS = 100
METADATA = f"""
collection:
  people:
    names:
      rows: {RECORDS}
      id: {{private_id: True, type: int}}
      name: {{type: string}}
engine: pandas
"""
QUERY = "SELECT name, COUNT(*) AS people FROM people.names GROUP BY name"

Path("metadata.yaml").write_text(METADATA)
metadata = CollectionMetadata.from_file("metadata.yaml")
# one record has a name of its own; without it that group does not exist
names = ["common"] * (RECORDS - 1) + ["rare"]
data = pd.DataFrame({"id": range(RECORDS), "name": names})
noise = []


class Recorded(private_reader.Gaussian):
    """The reader's mechanism; its standard deviation is noted."""

    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        noise.append(self.sd * self.max_contrib * self.sensitivity)


private_reader.Gaussian = Recorded
reader = PrivateReader(metadata, PandasReader(metadata, data))
reader.options.use_dpsu = False  # which pandas has and no other engine
print(reader.execute(QUERY))
number, threshold = noise[0], float(reader.tau)
# a group is shown if its noisy number of people exceeds the threshold
shown = 0.5 * math.erfc((threshold - 1) / number / math.sqrt(2))
epsilon = getattr(reader, "epsilon_per_column", None) or reader.epsilon
print("standard deviation", noise, "threshold", threshold, "shown", shown)
claims = [
    {
        "id": "group",
        "laws": {"finite": {"first": [shown, 1 - shown], "second": [0.0, 1.0]}},
        "epsilon": len(noise) * epsilon,
        "delta": len(noise) * reader.delta,
    },
    {
        "id": "count",
        "laws": {"gaussian": {"sensitivity": 1, "noise_std": number}},
        "epsilon": epsilon,
        "delta": reader.delta,
    },
]
told = {"version": version("opendp-whitenoise"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))
