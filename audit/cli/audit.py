"""The ``audit`` command: one scenario, or a sweep."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.cli import help
from audit.cli.errors import BROKEN_RUNS, VERSION, guarded, one_line, print_if_read
from audit.codec import decode, encode
from audit.codec.schemas import json_text

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from audit.progress import StageProgress
    from audit.results import Result, SettingResult
    from audit.scenario import RunFolder, Scenario
    from audit.simulation import Pool

DEFAULT_SCENARIO = "at22_lower_bound"
# keys that affect no number
_NO_NUMBER = ("output", "sweep", "draw", "threads", "parallel")


@dataclass(frozen=True, kw_only=True)
class Output:
    """Folder of a run."""

    output: Path = Path("results/runs")  #: The folder that contains the folder of the run.
    #: The folder inside it that the runs of a sweep share; by default named after the time.
    sweep: str | None = None
    #: Whether the run writes a report; ``audit-report`` can also write it later.
    draw: bool = True


@dataclass(frozen=True)
class Job:
    """One composed configuration: the scenario, its output, and the stored configuration.

    ``config`` is the whole configuration as plain data, with every value in its canonical spelling.
    """

    scenario: Scenario
    output: Output
    config: Mapping[str, Any]


def main() -> None:
    """Run the ``audit`` command: one scenario, or a sweep with ``-m``."""
    guarded(_run)


def _run() -> None:
    if help.asked_for(sys.argv[1:]):
        print(help.of_audit(DEFAULT_SCENARIO, _folder_of_own_scenarios(sys.argv[1:])), end="")
        return
    if "--version" in sys.argv[1:]:
        print(VERSION)
        return
    if "--schema" in sys.argv[1:]:
        from audit.scenario import config  # takes a while to import, as the studies do

        config.load_shipped_studies()
        print(json_text(config.schema(Output)), end="")
        return
    # Hydra takes a while to import
    from audit.cli import composition, scenarios
    from audit.scenario.folders import scenario_files

    options = composition.read_options("audit")
    own = scenarios.own_files(options.config_dir)
    words, names = scenarios.named_scenarios(options.overrides, DEFAULT_SCENARIO, own)
    sys.argv[1:] = [*sys.argv[1 : len(sys.argv) - len(words)], *words]
    swept = options.multirun or "hydra.mode=MULTIRUN" in words
    default = f"sweep-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}" if swept else None
    if options.info or options.shell_completion:
        names = tuple(scenario_files())
    # a sweep over scenarios is composed with the default one before
    shipped = [name for name in dict.fromkeys((*names, DEFAULT_SCENARIO)) if name not in own]
    scenarios.register(shipped, DEFAULT_SCENARIO, default, Output)
    # where modules of the user lie: beside the scenarios
    folders = tuple({own[name].resolve().parent: None for name in names if name in own})
    if options.cfg == "job" and not options.multirun:
        _print_configuration(options, folders)
        return
    outputs = composition.values_of("output", words) or [str(Output.output)]
    sweeps = composition.values_of("sweep", words) or [str(default)]
    # jobs may run in other processes, which store where these words say
    places = {Path(output) / sweep for output in outputs for sweep in sweeps if swept}
    _run_jobs(places, folders)


def _folder_of_own_scenarios(arguments: Sequence[str]) -> Path | None:
    """Return the folder of the user's scenarios, if the command line names one."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    folder: Path | None = parser.parse_known_args(arguments)[0].config_dir
    return None if folder is None else folder / "scenario"


def _print_configuration(options: argparse.Namespace, folders: Sequence[Path]) -> None:
    """Print the whole configuration, or a part of it, with canonical spellings."""
    from omegaconf import OmegaConf

    from audit.cli import composition

    names = ("config_dir", "config_name", "config_path")
    flags = [(f"--{name.replace('_', '-')}", getattr(options, name)) for name in names]
    given = [word for flag, value in flags if value is not None for word in (flag, value)]
    sys.argv[1:] = [*given, *options.overrides]
    found: list[DictConfig] = []
    composition.run_with_hydra("audit", lambda config: found.append(config))
    for config in found:
        shown: Any = OmegaConf.create(dict(read_job(config, folders).config))
        if options.package not in (None, "_global_"):
            shown = OmegaConf.select(shown, options.package)
            if shown is None:
                raise ValueError(
                    f"package must be a part of the configuration, got {options.package!r}"
                )
            print(f"# @package {options.package}")
        print(composition.to_yaml(shown) if OmegaConf.is_config(shown) else shown, end="")


def _run_jobs(places: set[Path], folders: Sequence[Path]) -> None:
    """Run the composed jobs; a sweep ends with a joined report in each of its ``places``."""
    from audit.cli import composition

    failures: list[ValueError | OSError | MemoryError] = []

    def job(config: DictConfig) -> None:
        if composition.is_sweep():
            places.add(run_in_sweep(config, folders))
            return
        try:
            _run_alone(read_job(config, folders))
        except (ValueError, OSError, MemoryError) as error:
            failures.append(error)  # raised in a job, Hydra would print a line of its own

    try:
        composition.run_with_hydra("audit", job)
    except BaseException as error:
        for place in sorted(places):
            with contextlib.suppress(Exception):  # an interrupted import leaves half a module
                if join(place) is not None and isinstance(error, KeyboardInterrupt):
                    error.add_note(f"the runs of the sweep that ended are in {place}")
        raise
    broken = [join(place) for place in sorted(places)]
    if failures:
        raise failures[0]
    if any(broken):
        sys.exit(BROKEN_RUNS)


def join(place: Path) -> bool | None:
    """Write the joined report of a sweep beside its runs; return whether a run is broken.

    None if nothing is stored there.
    """
    from audit import report
    from audit.cli.report import tell

    runs = [run for run in report.gather([place]) if run.is_stored]
    if not runs:
        return None
    report.write_joined(runs, place)
    return tell(runs, place) != 0


def read_job(config: DictConfig, folders: Sequence[Path]) -> Job:
    """Return the job of a composed configuration."""
    from audit.cli import composition
    from audit.scenario.config import read_scenario, write_scenario

    values = {k: v for k, v in composition.plain(config).items() if v != composition.MISSING}
    fields = [field.name for field in dataclasses.fields(Output)]
    output: Output = decode(Output, {name: values.pop(name) for name in fields if name in values})
    scenario = read_scenario(values, folders)
    written = write_scenario(scenario)
    written["settings"] = _with_schedules(written["settings"], values["settings"])
    written["threads"] = values.get("threads")
    return Job(scenario, output, {**written, **encode(output)})


def _with_schedules(
    settings: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Store ``step_size: {first: .., power: ..}`` as given, not as one number per step."""
    kept = dict(settings)
    for name, setting in settings.items():
        step_size = (given[name].get("mechanism") or {}).get("step_size")
        if isinstance(step_size, Mapping):
            mechanism = {**setting["mechanism"], "step_size": dict(step_size)}
            kept[name] = {**setting, "mechanism": mechanism}
    return kept


def _digest(config: Mapping[str, Any]) -> str:
    """Return a short hash of everything that the numbers depend on."""
    from audit.cli.composition import to_yaml

    kept = {key: value for key, value in config.items() if key not in _NO_NUMBER}
    return hashlib.sha256(to_yaml(kept).encode()).hexdigest()[:8]


def _run_alone(job: Job) -> None:
    """Run one scenario, write its folder, and print its verdicts."""
    from audit import progress
    from audit.report import terminal
    from audit.scenario import RunFolder

    name = f"{job.scenario.name}-{datetime.now():%Y%m%d-%H%M%S}-{_digest(job.config)}"
    # a bad value fails before the folder is made, a bad folder or cluster before hours of work
    with _workers(job.scenario) as workers:
        folder = RunFolder(job.output.output, name)
        settings = [setting.name for setting in job.scenario.settings]
        rows = terminal.Rows(job.scenario.title, settings, job.scenario.bounds)
        with progress.on_terminal() as bars:

            def finished(setting: SettingResult) -> None:
                # whatever becomes of the rows the run goes on: its result is stored
                with bars.hidden(), contextlib.suppress(Exception):
                    rows.add(setting)

            result = _run_into(folder, job, bars, workers, finished)
    rows.end(result)
    report = "report.html" if job.output.draw else "result.json"
    print(f"Report: {folder.place / report}")


def run_in_sweep(config: DictConfig, folders: Sequence[Path]) -> Path:
    """Run one configuration of a sweep, and return its place; an error is stored there too."""
    from audit.cli.composition import command_line, plain, to_yaml
    from audit.progress import Silent
    from audit.report.runs import status

    command, given = command_line("audit"), plain(config)
    try:
        job = read_job(config, folders)
        given = dict(job.config)
        folder = _folder_in_sweep(given)
        with _workers(job.scenario) as workers:
            words = ["-m", f"sweep={job.output.sweep}"]
            _run_into(folder, job, Silent(), workers, words=words)
    except Exception as error:  # one broken run must not stop the others
        line = one_line(error)
        with _folder_in_sweep(given).write() as draft:
            (draft / "status.json").write_text(status(line, command))
            (draft / "config.yaml").write_text(to_yaml(given))
        print_if_read(f"error: {command}: {line}")
    else:
        print_if_read(f"done: {command}")
    return Path(given["output"]) / str(given["sweep"])


def _folder_in_sweep(config: Mapping[str, Any]) -> RunFolder:
    from audit.scenario import RunFolder

    return RunFolder(
        Path(config["output"]) / str(config["sweep"]), f"{config['name']}-{_digest(config)}"
    )


def _run_into(
    folder: RunFolder,
    job: Job,
    progress: StageProgress,
    workers: Pool,
    finished: Callable[[SettingResult], object] = lambda setting: None,
    words: Sequence[str] = (),
) -> Result:
    """Run a scenario and write its folder; long runs resume after an interruption.

    The command that continues one has ``words`` at its end.
    """
    from audit import report
    from audit.cli.composition import command_line, to_yaml
    from audit.report.runs import status
    from audit.results import to_json
    from audit.scenario import run
    from audit.scenario.folders import unfinished

    command = command_line("audit")
    name = f"{job.scenario.name}-{_digest(job.config)}"
    again, failure = shlex.join([*shlex.split(command), *words]), None
    with unfinished(job.output.output, name, again) as checkpoints:
        result = run(
            job.scenario,
            progress=progress,
            command=command,
            workers=workers,
            folder=checkpoints,
            finished=finished,
        )
        with folder.write() as draft:
            (draft / "result.json").write_text(to_json(result))
            (draft / "status.json").write_text(status(None, command))
            (draft / "config.yaml").write_text(to_yaml(job.config))
            try:
                if job.output.draw:
                    report.write(result, draft)
            except Exception as error:  # a result that took hours outlives its drawing
                failure = error
    if failure is not None:
        kept = f"the result is kept in {folder.place}"
        raise ValueError(f"no report could be drawn ({one_line(failure)}); {kept}") from failure
    return result


@contextlib.contextmanager
def _workers(scenario: Scenario) -> Iterator[Pool]:
    """Yield the workers that the scenario names; an unavailable cluster is an input error."""
    from audit.simulation import pool

    with contextlib.ExitStack() as stack:
        try:
            workers = stack.enter_context(pool(scenario.backend))
        except ConnectionError as error:
            raise ValueError(str(error)) from error
        yield workers


if __name__ == "__main__":
    from audit.cli import audit  # under its own name, by which the workers of a sweep find it

    audit.main()
