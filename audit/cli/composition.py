"""Composing configurations with Hydra."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from audit.codec import did_you_mean, encode

MISSING = "???"  # OmegaConf's mark of a value that must be given
# Hydra itself writes and logs nothing: a run's folder appears whole, or not at all.
QUIET = {"output_subdir": None, "run": {"dir": "."}, "sweep": {"dir": ".", "subdir": "."}}
NO_LOGS = [{"override hydra/job_logging": "none"}, {"override hydra/hydra_logging": "none"}]


def run_with_hydra(name: str, job: Callable[[DictConfig], Any]) -> None:
    """Compose the stored configuration ``name`` with the command line, and call the job with it.

    Raises
    ------
    ValueError
        If the command line has an option that Hydra does not know.
    """
    parser = get_args_parser()
    options, others = parser.parse_known_args()
    for word in others:
        if word.startswith("-"):
            known = [option for action in parser._actions for option in action.option_strings]
            close = did_you_mean(word, known)
            raise ValueError(f"options must be those of {name} --help, got {word!r}{close}")
    # Hydra takes words on one side of an option only
    words = [*options.overrides, *others]
    sys.argv[1:] = [*_without(sys.argv[1:], words), *words]
    # as if of a script: of a module, Hydra would take the package's folders for groups (bounds)
    job.__module__ = "__main__"
    hydra.main(version_base="1.3", config_path=None, config_name=name)(job)()


def _without(arguments: Sequence[str], words: Sequence[str]) -> list[str]:
    left = list(arguments)
    for word in words:
        left.remove(word)
    return left


def composed(command: str, defaults: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return what the command line says: one mapping, or one for each run of a sweep.

    Parameters
    ----------
    command
        The name of the command.
    defaults
        Its keys with their defaults; ``MISSING`` for those that must be given. No other keys are
        taken.

    Raises
    ------
    ValueError
        If a key that must be given is not.
    """
    node = {
        "defaults": [*NO_LOGS, "_self_"],
        **defaults,
        "hydra": {**QUIET, "job": {"name": command}},
    }
    ConfigStore.instance().store(name=command, node=node)
    found: list[DictConfig] = []
    # what a job raises or prints goes through Hydra: the work is done after it
    run_with_hydra(command, lambda config: found.append(config))
    return tuple(_complete(plain(config)) for config in found)


def defaults_of(*classes: type) -> dict[str, Any]:
    """Return the fields of some dataclasses with their defaults, if any, else ``MISSING``."""
    return {
        field.name: MISSING if field.default is dataclasses.MISSING else encode(field.default)
        for cls in classes
        for field in dataclasses.fields(cls)
    }


def plain(config: DictConfig) -> dict[str, Any]:
    """Return a configuration as plain data; values that were not given are ``MISSING``."""
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _complete(values: dict[str, Any]) -> dict[str, Any]:
    missing = [key for key, value in values.items() if value == MISSING]
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given, got nothing")
    return values
