"""Records what other packages say, for tests where they are not installed.

``make test-adapters`` checks that the packages still say so; this file writes anew what they say:
``.venv-adapters/bin/python tests/adapters/recorded/make.py``.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OPACUS = FOLDER / "opacus.json"

# Noise multiplier, sample rate, steps, of one entry and of several.
HISTORIES: tuple[list[tuple[float, float, int]], ...] = (
    [(1.1, 0.01, 1000)],
    [(0.6, 0.01, 100)],
    [(4.0, 1 / 235, 2350)],
    [(2.0, 1.0, 5)],
    [(1.0, 1 / 47, 94), (1.5, 1 / 47, 94)],
)
DELTAS = (1e-5, 1e-3)
ORDERS = (2.0, 3.5, 16.0)


def recorded() -> dict[str, Any]:
    """Return what Opacus' own accountants, told step by step, say of the histories."""
    import warnings

    from opacus.accountants import create_accountant
    from opacus.accountants.analysis.rdp import compute_rdp

    warnings.simplefilter("ignore")
    found = []
    for history in HISTORIES:
        claims: dict[str, Any] = {}
        for name in ("rdp", "prv", "gdp"):
            if name == "gdp" and len(history) > 1:
                continue
            accountant = create_accountant(name)
            for noise_multiplier, rate, steps in history:
                for _ in range(steps):
                    accountant.step(noise_multiplier=noise_multiplier, sample_rate=rate)
            claims[name] = [float(accountant.get_epsilon(delta)) for delta in DELTAS]
            claims["state_dict"] = accountant.state_dict()
        claims["renyi"] = [
            float(
                sum(
                    compute_rdp(q=q, noise_multiplier=z, steps=t, orders=order)
                    for z, q, t in history
                )
            )
            for order in ORDERS
        ]
        found.append(claims)
    return {
        "versions": {name: version(name) for name in ("opacus", "torch")},
        "deltas": DELTAS,
        "orders": ORDERS,
        "histories": found,
    }


if __name__ == "__main__":
    OPACUS.write_text(json.dumps(recorded(), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{OPACUS}\n")
