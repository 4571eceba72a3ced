"""The ``audit`` command: one scenario, or a sweep."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from audit.config import AuditConfig, to_scenario
from audit.scenario.definition import Scenario
from audit.scenario.progress import Progress
from audit.scenario.run_folder import RunFolder
from audit.scenario.sampling import Sampling, Unfinished
from audit.scenario.shipped import scenario_names, scenarios_folder
from audit.simulation import Kind, Pool, pool

if TYPE_CHECKING:
    from audit.results import Result

DEFAULT_SCENARIO = "at22_lower_bound"
# Hydra itself writes nothing: a run's folder appears whole, or not at all.
QUIET = {"output_subdir": None, "run": {"dir": "."}, "sweep": {"dir": ".", "subdir": "."}}
_BROKEN_RUNS, _BROKEN_INPUT = 1, 2
# What Hydra says of a scenario whose keys it puts under "scenario".
_NO_PACKAGE = re.compile(r"In '(scenario/[^']*)': .*Key 'scenario' not in 'AuditConfig'")
_NO_NUMBER = ("output", "sweep", "draw", "threads", "parallel")  # keys no number depends on


def register(sweep: str | None = None) -> None:
    """Tell Hydra the schema, the shipped scenarios, and the folder that a sweep's runs share."""
    store = ConfigStore.instance()
    store.store(name="schema", node=AuditConfig)
    store.store(
        name="audit",
        node={
            "defaults": [
                "schema",
                {"scenario": DEFAULT_SCENARIO},
                {"parallel": Kind.THREADS.value},
                {"override hydra/job_logging": "none"},
                {"override hydra/hydra_logging": "none"},
                "_self_",
            ],
            "sweep": sweep,
            "hydra": {**QUIET, "job": {"name": "audit"}},
        },
    )
    for kind in Kind:
        store.store(group="parallel", name=kind.value, node={"kind": kind})
    for name in scenario_names():
        group, _, stem = f"scenario/{name}".rpartition("/")
        node = _loaded(scenarios_folder() / f"{name}.yaml")
        store.store(group=group, name=stem, package="_global_", node=node)


def _loaded(file: Path) -> DictConfig:
    loaded = OmegaConf.load(file)
    if not isinstance(loaded, DictConfig):
        raise ValueError(f"{file} must hold a mapping, got {type(loaded).__name__}")
    return loaded


def _job(config: DictConfig) -> None:
    """Run one composed scenario and write its folder."""
    from audit.report import terminal
    from audit.scenario import progress

    composed: Any = OmegaConf.to_object(config)
    name = f"{composed.name}-{datetime.now():%Y%m%d-%H%M%S}-{_digest(config)}"
    # a bad value is told before the folder is made, a bad folder or cluster before hours of work
    scenario = to_scenario(composed)
    with _workers(scenario) as workers:
        folder = RunFolder(Path(composed.output), name)
        with progress.on_terminal() as bars:
            result = _run_into(folder, scenario, config, bars, workers)
    terminal.show(result)
    report = "report.html" if composed.draw else "result.json"
    print(f"Report: {folder.place / report}")


def _sweep_job(config: DictConfig) -> None:
    """Run one configuration of a sweep; whatever breaks it is stored in its folder, too."""
    from audit.report.runs import status
    from audit.scenario.progress import Silent

    composed: Any = OmegaConf.to_object(config)
    name = f"{composed.name}-{_digest(config)}"
    folder = RunFolder(Path(composed.output) / composed.sweep, name)
    try:
        scenario = to_scenario(composed)
        with _workers(scenario) as workers:
            _run_into(folder, scenario, config, Silent(), workers)
    except Exception as error:  # one broken run must not end the others
        line = _one_line(error)
        with folder.write() as draft:
            (draft / "status.json").write_text(status(line, _command()))
            (draft / "config.yaml").write_text(OmegaConf.to_yaml(config))
        print(f"error: {_command()}: {line}", flush=True)
    else:
        print(f"done: {_command()}", flush=True)


def _run_into(
    folder: RunFolder,
    scenario: Scenario,
    config: DictConfig,
    progress: Progress,
    workers: Pool,
) -> Result:
    from audit import report
    from audit.report.runs import status
    from audit.results import to_json
    from audit.scenario import run

    unfinished = Unfinished(Path(config.output), f"{config.name}-{_digest(config)}")
    with unfinished.kept():
        sampling = Sampling(workers, unfinished.folder)
        result = run(scenario, progress=progress, command=_command(), sampling=sampling)
        with folder.write() as draft:
            (draft / "result.json").write_text(to_json(result))
            (draft / "status.json").write_text(status(None, _command()))
            (draft / "config.yaml").write_text(OmegaConf.to_yaml(config))
            if config.draw:
                report.write(result, draft)
    return result


@contextlib.contextmanager
def _workers(scenario: Scenario) -> Iterator[Pool]:
    """Yield the workers that the scenario names; a cluster that is not there is bad input."""
    with contextlib.ExitStack() as stack:
        try:
            workers = stack.enter_context(pool(scenario.backend))
        except ConnectionError as error:
            raise ValueError(str(error)) from error
        yield workers


def _command() -> str:
    own = [s.path for s in HydraConfig.get().runtime.config_sources if s.provider == "command-line"]
    folder = [f"--config-dir {shlex.quote(path)}" for path in own]
    return " ".join(["audit", *folder, *HydraConfig.get().overrides.task])


def _digest(config: DictConfig) -> str:
    """Return a short hash of all that the numbers depend on."""
    kept = {key: value for key, value in config.items() if key not in _NO_NUMBER}
    return hashlib.sha256(OmegaConf.to_yaml(OmegaConf.create(kept)).encode()).hexdigest()[:8]


def _one_line(error: BaseException) -> str:
    """Reduce an error to what it says, in one line, with what was noted on it."""
    return "; ".join([_said(error), *getattr(error, "__notes__", ())])


def _said(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(error, HydraException) and isinstance(cause, OmegaConfBaseException):
        error = cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if found := _NO_PACKAGE.match(" ".join(lines)):
        return f"{found[1]}.yaml must begin with the line '# @package _global_', got another one"
    if isinstance(error, OmegaConfBaseException):
        keys = [line.removeprefix("full_key: ") for line in lines if line.startswith("full_key:")]
        return lines[0] + (f" (at {keys[0]})" if keys and keys[0] not in lines[0] else "")
    return " ".join(lines) if lines else type(error).__name__


def guarded(command: Callable[[], None], name: str = "audit") -> None:
    """Run a command; bad input ends in one line and exit status 2, an interrupt in 130.

    With HYDRA_FULL_ERROR=1 in the environment the traceback is shown instead.
    """
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        command()
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise instead of printing several lines
    try:
        command()
    except KeyboardInterrupt as error:
        print(f"{name}: interrupted; {_left(error)}", file=sys.stderr)
        sys.exit(130)
    except MemoryError as error:
        print(f"{name}: error: too little memory: {_said(error)}; {_left(error)}", file=sys.stderr)
        sys.exit(1)
    except (ValueError, HydraException, OmegaConfBaseException) as error:
        print(f"{name}: error: {_one_line(error)}", file=sys.stderr)
        sys.exit(_BROKEN_INPUT)
    except OSError as error:
        print(f"{name}: error: {_said(error)}; {_left(error)}", file=sys.stderr)
        sys.exit(1)


def _left(error: BaseException) -> str:
    """Return what was noted on an error: what a run that ended early has left behind."""
    return "; ".join(getattr(error, "__notes__", ())) or "nothing was written"


def main() -> None:
    """Run the ``audit`` command: one scenario, or a sweep with ``-m``."""
    guarded(_compose_and_run)


def _compose_and_run() -> None:
    sweep = _argument("sweep") or f"sweep-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
    register(sweep)
    failures: list[ValueError | OSError | MemoryError] = []
    swept: list[bool] = []

    def job(config: DictConfig) -> None:
        if HydraConfig.get().mode is RunMode.MULTIRUN:
            _sweep_job(config)
            return
        try:
            _job(config)
        except (ValueError, OSError, MemoryError) as error:
            failures.append(error)  # raised in a job, Hydra would print a line of its own

    # as if of a script: of a module, Hydra would take the package's folders for groups (bounds)
    job.__module__ = "__main__"
    place = Path(_argument("output") or AuditConfig.output) / sweep
    try:
        hydra.main(version_base="1.3", config_path=None, config_name="audit")(job)()
    except KeyboardInterrupt as error:
        if place.is_dir():
            error.add_note(f"the runs of the sweep that ended are in {place}")
        raise
    finally:
        # jobs may have run in other processes: what they stored is what there is
        if place.is_dir():
            swept.append(_joined(place))
    if failures:
        raise failures[0]
    if any(swept):
        sys.exit(_BROKEN_RUNS)


def _joined(place: Path) -> bool:
    """Write the joined report of a sweep beside its runs; tell whether one of them is broken."""
    from audit import report
    from audit.cli.report import tell

    runs = report.gather([place])
    report.write_joined(runs, place)
    return tell(runs, place) != 0


def _argument(name: str) -> str | None:
    """Return the value that the command line gives a key of the configuration, if it does."""
    values = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith(f"{name}=")]
    return values[-1] if values else None


if __name__ == "__main__":
    main()
