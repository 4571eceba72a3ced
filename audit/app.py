"""The ``audit`` command; only modules named ``*app`` know Hydra."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from audit.config import AuditConfig, to_scenario
from audit.scenario.store import RunFolder, to_json

DEFAULT_SCENARIO = "at22_lower_bound"
# Hydra itself writes nothing: a run's folder appears whole, or not at all.
QUIET = {"output_subdir": None, "run": {"dir": "."}, "sweep": {"dir": ".", "subdir": "."}}
_BROKEN_INPUT = 2


def scenarios_folder() -> Path:
    """Return the folder of shipped scenarios: in a checkout at the top, else in the package."""
    package = Path(__file__).resolve().parent
    bundled = package / "_scenarios"
    return bundled if bundled.is_dir() else package.parent / "scenarios"


def _register() -> None:
    store = ConfigStore.instance()
    store.store(name="schema", node=AuditConfig)
    store.store(
        name="audit",
        node={
            "defaults": [
                "schema",
                {"scenario": DEFAULT_SCENARIO},
                {"override hydra/job_logging": "none"},
                {"override hydra/hydra_logging": "none"},
                "_self_",
            ],
            "hydra": {**QUIET, "job": {"name": "audit"}},
        },
    )
    for file in sorted(scenarios_folder().glob("*.yaml")):
        store.store(
            group="scenario",
            name=file.stem,
            package="_global_",
            node=_loaded(file),
        )


def _loaded(file: Path) -> DictConfig:
    loaded = OmegaConf.load(file)
    if not isinstance(loaded, DictConfig):
        raise ValueError(f"{file} must hold a mapping, got {type(loaded).__name__}")
    return loaded


def _job(config: DictConfig) -> None:
    """Run one composed scenario and write its folder."""
    from audit import report
    from audit.report import terminal
    from audit.scenario import progress, run

    composed: Any = OmegaConf.to_object(config)
    scenario = to_scenario(composed)
    folder = RunFolder(Path(composed.output), _folder_name(scenario.name, config))
    sweeping = HydraConfig.get().mode is RunMode.MULTIRUN
    command = " ".join(["audit", *HydraConfig.get().overrides.task])
    if sweeping:
        result = run(scenario, command=command)
    else:
        with progress.on_terminal() as bars:
            result = run(scenario, progress=bars, command=command)
    with folder.write() as draft:
        (draft / "result.json").write_text(to_json(result))
        (draft / "config.yaml").write_text(OmegaConf.to_yaml(config))
        report.write(report.load(draft), draft)
    terminal.show(report.load(folder.place))
    print(f"Report: {folder.place / 'report.html'}")


def _folder_name(name: str, config: DictConfig) -> str:
    digest = hashlib.sha256(OmegaConf.to_yaml(config).encode()).hexdigest()[:8]
    return f"{name}-{datetime.now():%Y%m%d-%H%M%S}-{digest}"


def _one_line(error: BaseException) -> str:
    """Reduce an error to what it says, in one line."""
    cause = error.__cause__
    if isinstance(error, HydraException) and isinstance(cause, OmegaConfBaseException):
        error = cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
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
    except KeyboardInterrupt:
        print(f"{name}: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    except (ValueError, HydraException, OmegaConfBaseException) as error:
        print(f"{name}: error: {_one_line(error)}", file=sys.stderr)
        sys.exit(_BROKEN_INPUT)
    except OSError as error:
        print(f"{name}: error: {_one_line(error)}; nothing was written", file=sys.stderr)
        sys.exit(1)


def main() -> None:
    """Run the ``audit`` command: one scenario, or a sweep with ``-m``."""
    guarded(_compose_and_run)


def _compose_and_run() -> None:
    _register()
    failures: list[ValueError | OSError] = []

    def job(config: DictConfig) -> None:
        try:
            _job(config)
        except (ValueError, OSError) as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise
            failures.append(error)  # raised in a job, Hydra would print a line of its own

    hydra.main(version_base="1.3", config_path=None, config_name="audit")(job)()
    if failures:
        raise failures[0]


if __name__ == "__main__":
    main()
