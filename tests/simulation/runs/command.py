"""The ``audit`` command, for tests that kill it: it keeps samples from the first block on."""

from __future__ import annotations

from audit.cli import audit as app
from audit.scenario import sampling

if __name__ == "__main__":
    sampling.SECONDS = 0.0
    app.main()
