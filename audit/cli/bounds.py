"""The ``audit-bounds`` command: what every published bound says about one mechanism."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from audit import bounds
from audit.bounds import Row
from audit.cli.audit import QUIET, guarded
from audit.config import BoundsConfig, to_mechanism

_COLUMNS = ("bound", "status", "epsilon", "ratio", "why it does not apply")


def main() -> None:
    """Run the ``audit-bounds`` command; the mechanism and delta are given as overrides."""
    guarded(_compose_and_show, "audit-bounds")


def _compose_and_show() -> None:
    store = ConfigStore.instance()
    store.store(name="bounds_schema", node=BoundsConfig)
    store.store(
        name="audit-bounds",
        node={
            "defaults": [
                "bounds_schema",
                {"override hydra/job_logging": "none"},
                {"override hydra/hydra_logging": "none"},
                "_self_",
            ],
            "hydra": {
                **QUIET,
                "job": {"name": "audit-bounds"},
                "help": {"app_name": "audit-bounds", "template": _HELP},
            },
        },
    )
    composed: list[DictConfig] = []
    # what a job raises or prints goes through Hydra: the work is done after it
    compose = hydra.main(version_base="1.3", config_path=None, config_name="audit-bounds")
    compose(composed.append)()
    for config in composed:  # none for --help and the like
        values: Any = OmegaConf.to_object(config)
        rows = bounds.table(to_mechanism(values), values.delta)
        try:
            _show(rows, values.delta)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_HELP = """What every published bound says about one Noisy-SGD mechanism.

The fields of audit.NoisySGD and delta are given as name=value, enums by name:

    audit-bounds steps=1000 dataset_size=20 batch_size=20 step_size=0.1 noise_std=0.5 \\
        lipschitz=1 smoothness=1 diameter=1 batching=FULL relation=REPLACE_ONE delta=1e-5

All fields:

$CONFIG
"""


def _show(rows: tuple[Row, ...], delta: float) -> None:
    """Print one row a statement: those with a value first, the tightest on top."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    ordered = sorted(rows, key=lambda row: math.inf if row.value is None else row.value)
    cells = [_cells(row) for row in ordered]
    console = Console()
    if not console.is_terminal:
        widths = [max(len(line[i]) for line in (_COLUMNS, *cells)) for i in range(4)]
        for line in (_COLUMNS, *cells):
            start = "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=False))
            print(f"{start}  {line[4]}".rstrip())
        return
    table = Table(title=f"epsilon at delta = {delta:g}", title_justify="left")
    for column in _COLUMNS:
        justify: Any = "right" if column in ("epsilon", "ratio") else "left"
        table.add_column(column, justify=justify)
    for row, line in zip(ordered, cells, strict=True):
        style = "dim" if row.value is None else "bold" if row.ratio == 1 else ""
        table.add_row(*(Text(word) for word in line), style=style)
    table.caption = "ratio: to the tightest bound that is sound (as printed, or corrected)"
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    value = "" if row.value is None else f"{row.value:.6g}"
    ratio = "" if row.ratio is None else f"{row.ratio:.4g}"
    return row.id, row.status.value, value, ratio, row.reason or ""


if __name__ == "__main__":
    main()
