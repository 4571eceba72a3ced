"""Running a scenario."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from audit.progress import Silent, StageProgress
from audit.results import Result, ScenarioHeading, SettingResult
from audit.results.result import provenance_of
from audit.scenario.definition import RunContext, Scenario
from audit.simulation import Pool


def run(
    scenario: Scenario,
    *,
    progress: StageProgress | None = None,
    command: str = "",
    workers: Pool | None = None,
    folder: Path | None = None,
    finished: Callable[[SettingResult], object] = lambda setting: None,
) -> Result:
    """Compute, sample and bound every setting of a scenario.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    progress : Progress, optional
        Where progress is shown; nowhere by default.
    command : str, default: ""
        Command to record in the provenance.
    workers : Pool, optional
        Workers that draw samples, if already started; by default those of the scenario.
    folder : Path, optional
        Folder of checkpoints, from which a long run goes on; none by default.
    finished : callable, optional
        Called with the result of each setting as it ends.

    Returns
    -------
    Result
        One value per setting, and the provenance; see `audit.results`.

    Examples
    --------
    >>> result = audit.scenario.run(scenario)  # doctest: +SKIP
    >>> result.settings[0].name  # doctest: +SKIP
    'full_batch'
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    settings = []
    for index, setting in enumerate(scenario.settings):
        clock_of_setting = time.perf_counter()
        seed = setting_seed(scenario.seed, index)
        result = setting.run(
            RunContext(
                seed=seed,
                confidence=scenario.confidence,
                threads=scenario.threads,
                bounds=scenario.bounds,
                workers=workers or scenario.backend,
                folder=None if folder is None else folder / str(seed),
                progress=progress or Silent(),
            )
        )
        seconds = round(time.perf_counter() - clock_of_setting, 3)
        settings.append(dataclasses.replace(result, wall_seconds=seconds))
        finished(settings[-1])
    return Result(
        scenario=ScenarioHeading(
            name=scenario.name,
            title=scenario.title,
            summary=scenario.summary,
            reference=scenario.reference,
        ),
        provenance=provenance_of(
            seed=scenario.seed,
            command=command,
            started=started.isoformat(timespec="seconds"),
            wall_seconds=time.perf_counter() - clock,
            threads=scenario.threads,
        ),
        confidence=scenario.confidence,
        settings=tuple(settings),
    )


def setting_seed(seed: int, index: int) -> int:
    """Return the seed of a setting, so that settings draw independent samples."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0])
