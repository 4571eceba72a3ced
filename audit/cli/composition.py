"""Compose configurations with Hydra."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from audit.codec import decode, encode
from audit.codec.hints import default_of, did_you_mean
from audit.mechanism import NoisySGD, decode_mechanism

MISSING = "???"  # OmegaConf's marker of a required value
# Hydra itself writes and logs nothing, so that a run's folder appears completely or not at all.
QUIET = {"output_subdir": None, "run": {"dir": "."}, "sweep": {"dir": ".", "subdir": "."}}
NO_LOGS = [{"override hydra/job_logging": "none"}, {"override hydra/hydra_logging": "none"}]


def read_options(command: str) -> argparse.Namespace:
    """Return Hydra's options, and the other words of the command line as ``overrides``.

    The words are moved behind the options in ``sys.argv``, because Hydra accepts them on one side
    only.
    """
    parser = get_args_parser()
    options, others = parser.parse_known_args()
    for word in others:
        if word.startswith("-"):
            known = [option for action in parser._actions for option in action.option_strings]
            close = did_you_mean(word, known)
            raise ValueError(f"options must be those of {command} --help, got {word!r}{close}")
    options.overrides = [*options.overrides, *others]
    for word in options.overrides:
        if "=" not in word and not word.startswith("~"):
            raise ValueError(f"words must be KEY=VALUE, see {command} --help, got {word!r}")
    flags = list(sys.argv[1:])
    for word in options.overrides:
        flags.remove(word)
    sys.argv[1:] = [*flags, *options.overrides]
    return options


def run_with_hydra(name: str, job: Callable[[DictConfig], Any]) -> None:
    """Compose the stored configuration ``name`` with the command line, and call the job with it."""
    # like a script: for a module, Hydra would treat the package's folders as groups (bounds)
    job.__module__ = "__main__"
    stored = Path("multirun.yaml")  # Hydra stores a sweep's configuration
    kept = stored.exists()
    try:
        hydra.main(version_base="1.3", config_path=None, config_name=name)(job)()
    finally:
        if not kept:
            stored.unlink(missing_ok=True)


def composed(command: str, *classes: type) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the command line, one a class; several times for a sweep."""
    read_options(command)
    defaults = defaults_of(*classes)
    node = {
        "defaults": [*NO_LOGS, "_self_"],
        **defaults,
        "hydra": {**QUIET, "job": {"name": command}},
    }
    ConfigStore.instance().store(name=command, node=node)
    found: list[DictConfig] = []
    # Hydra handles what a job raises or prints, so the work is done afterwards
    run_with_hydra(command, lambda config: found.append(config))
    for config in found:
        values = {**defaults, **plain(config)}  # a deleted key (~delta) gets its default again
        missing = [key for key, value in values.items() if value == MISSING]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} must be given, got nothing; see {command} --help"
            )
        split = [{name: values.pop(name) for name in defaults_of(cls)} for cls in classes]
        split[0] |= values  # unknown keys, which are refused
        yield tuple(
            decode_mechanism(own) if cls is NoisySGD else decode(cls, own)
            for cls, own in zip(classes, split, strict=True)
        )


def defaults_of(*classes: type) -> dict[str, Any]:
    """Return the fields of several dataclasses with their defaults, or ``MISSING``."""
    found = {f.name: default_of(f) for cls in classes for f in dataclasses.fields(cls)}
    return {
        name: MISSING if value is dataclasses.MISSING else encode(value)
        for name, value in found.items()
    }


def plain(config: DictConfig) -> dict[str, Any]:
    """Return a configuration as plain data; missing values are ``MISSING``."""
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def to_yaml(config: Any) -> str:
    """Return plain data as YAML text."""
    return OmegaConf.to_yaml(OmegaConf.create(config))


def is_sweep() -> bool:
    """Return, inside a job, whether it belongs to a sweep."""
    return bool(HydraConfig.get().mode is RunMode.MULTIRUN)


def command_line(command: str) -> str:
    """Return, inside a job, the command that repeats it, quoted for a shell."""
    sources = HydraConfig.get().runtime.config_sources
    own = [source.path for source in sources if source.provider == "command-line"]
    folders = [word for path in own for word in ("--config-dir", path)]
    return shlex.join([command, *folders, *HydraConfig.get().overrides.task])


def values_of(key: str, words: Sequence[str]) -> list[str]:
    """Return the values that the command line gives a key, several in a sweep over it."""
    found: list[str] = []
    for override in OverridesParser.create().parse_overrides(list(words)):
        if override.key_or_group == key and not override.is_delete():
            swept = override.is_sweep_override()
            found = [*override.sweep_string_iterator()] if swept else [str(override.value())]
    return found
