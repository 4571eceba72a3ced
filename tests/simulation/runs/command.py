"""The ``audit`` command, for tests that kill it: it keeps samples from the first block on.

With ``PAUSE`` in the environment it waits so many seconds after each block: the whole run takes a
fraction of a second, and a busy machine would not kill it in time.
"""

from __future__ import annotations

import os
import time
from typing import Any

from audit import simulation
from audit.cli import audit as app
from audit.scenario import pair as settings

PAUSE = float(os.environ.get("PAUSE", "0"))
_final_iterates = simulation.final_iterates


def slowly(pair: Any, *, progress: Any, **given: Any) -> Any:
    """Draw samples with a pause after each block."""

    def report(done: int, total: int) -> None:
        progress(done, total)
        time.sleep(PAUSE)

    return _final_iterates(pair, progress=report, **given)


if __name__ == "__main__":
    settings.SECONDS = 0.0
    simulation.final_iterates = slowly  # type: ignore[assignment]
    app.main()
