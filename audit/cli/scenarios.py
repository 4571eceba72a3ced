"""The scenarios that a command line can name, and their registration with Hydra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob
from omegaconf import DictConfig, OmegaConf

from audit import validate
from audit.cli.composition import NO_LOGS, QUIET, defaults_of
from audit.codec.hints import did_you_mean
from audit.scenario.definition import Scenario
from audit.scenario.folders import FIRST_LINE, scenario_files
from audit.simulation import Backend


def named_scenarios(
    words: Sequence[str], default: str, own: Mapping[str, Path]
) -> tuple[list[str], tuple[str, ...]]:
    """Expand every ``scenario=glob(...)``; return the words and the named scenarios."""
    known = dict.fromkeys([*scenario_files(), *own])
    names: tuple[str, ...] = (default,)
    written: list[str] = []
    for word in words:
        if word.startswith("scenario="):
            names = _names(word, list(known))
            word = f"scenario={','.join(names)}"
        written.append(word)
    for name in names:
        if name not in known:
            close = did_you_mean(name, known) or " (audit --help lists them)"
            raise ValueError(f"scenario must be that of a scenario file, got {name!r}{close}")
        if name in own and not _has_first_line(own[name]):
            raise ValueError(
                f"scenario/{name}.yaml must begin with the line '{FIRST_LINE}', got another one"
            )
    return written, names


def _names(word: str, known: Sequence[str]) -> tuple[str, ...]:
    override = OverridesParser.create().parse_override(word)
    value: Any = override.value()
    if isinstance(value, Glob):
        found = tuple(value.filter(list(known)))
        if not found:
            raise ValueError(f"scenario must match a scenario, got {word.partition('=')[2]!r}")
        return found
    if isinstance(value, ChoiceSweep):
        return tuple(str(one) for one in value.list)
    return (str(value),)


def own_files(config_dir: str | None) -> Mapping[str, Path]:
    """Return the scenario files in ``--config-dir`` by name."""
    if config_dir is None:
        return {}
    if not Path(config_dir).is_dir():
        raise validate.fail("--config-dir", "a folder", config_dir)
    return scenario_files(Path(config_dir) / "scenario")


def _has_first_line(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file} must be UTF-8 text, got another encoding") from None
    for line in text.splitlines():
        if line.strip() == FIRST_LINE:
            return True
        if line.strip() and not line.lstrip().startswith("#"):
            return False
    return False


def register(names: Iterable[str], default: str, sweep: str | None, *output: type) -> None:
    """Register the schema of a scenario, and the shipped scenarios of these names, with Hydra."""
    store = ConfigStore.instance()
    fields = {**defaults_of(Scenario, *output), "settings": {}, "threads": None}
    schema = OmegaConf.create({"title": "", **fields})
    OmegaConf.set_struct(schema.settings, False)  # its keys are checked when it is read
    store.store(name="audit_schema", node=schema)
    root = {
        "defaults": [
            "audit_schema",
            {"scenario": default},
            {"parallel": Backend.THREADS.value},
            *NO_LOGS,
            "_self_",
        ],
        "sweep": sweep,
        "hydra": {**QUIET, "job": {"name": "audit"}},
    }
    store.store(name="audit", node=root)
    for kind in Backend:
        store.store(group="parallel", name=kind.value, node={"kind": kind.value})
    shipped = scenario_files()
    for name in names:
        if name in shipped:
            group, _, own_name = f"scenario/{name}".rpartition("/")
            store.store(group=group, name=own_name, package="_global_", node=_loaded(shipped[name]))


def _loaded(file: Path) -> DictConfig:
    loaded = OmegaConf.load(file)
    if not isinstance(loaded, DictConfig):
        raise ValueError(f"{file} must hold a mapping, got {type(loaded).__name__}")
    return loaded
