"""The ``audit-search`` command: the worst pair of datasets found for one mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from audit.cli.audit import QUIET, guarded
from audit.config import SearchConfig, to_mechanism
from audit.mechanism import NoisySGD
from audit.scenario import progress
from audit.search import (
    Epsilon,
    Found,
    RenyiDivergence,
    tightest_bound,
    to_yaml,
    worst_case,
    write_found,
)


def main() -> None:
    """Run the ``audit-search`` command; all that it needs is given as overrides."""
    guarded(_compose_and_search, "audit-search")


def _compose_and_search() -> None:
    store = ConfigStore.instance()
    store.store(name="search_schema", node=SearchConfig)
    store.store(
        name="audit-search",
        node={
            "defaults": [
                "search_schema",
                {"override hydra/job_logging": "none"},
                {"override hydra/hydra_logging": "none"},
                "_self_",
            ],
            "hydra": {
                **QUIET,
                "job": {"name": "audit-search"},
                "help": {"app_name": "audit-search", "template": _HELP},
            },
        },
    )
    composed: list[DictConfig] = []
    compose = hydra.main(version_base="1.3", config_path=None, config_name="audit-search")
    compose(composed.append)()
    for config in composed:  # none for --help and the like
        _search(OmegaConf.to_object(config))


_HELP = """Search for the pair of datasets that is easiest to tell apart under one mechanism.

The fields of audit.NoisySGD are given as name=value, enums by name; delta (or renyi_order) says
what is maximised, budget is in seconds, and output names a YAML file for the pair:

    audit-search steps=100 dataset_size=1000 batch_size=1000 step_size=1 noise_std=0.05 \\
        lipschitz=1.25 smoothness=1 diameter=1 delta=1e-5 budget=20 seed=0 output=found.yaml

All fields:

$CONFIG
"""


def _search(values: Any) -> None:
    mechanism = to_mechanism(values)
    if (values.delta is None) == (values.renyi_order is None):
        raise ValueError("delta or renyi_order must be given, and not both")
    objective: Epsilon | RenyiDivergence = (
        RenyiDivergence(values.renyi_order) if values.delta is None else Epsilon(values.delta)
    )
    with progress.on_terminal() as bars:
        report = bars.stage("search")

        def spent(seconds: float, _: float) -> None:
            report(min(int(10 * seconds), int(10 * values.budget)), int(10 * values.budget))

        found = worst_case(
            mechanism,
            objective=objective,
            budget=values.budget,
            seed=values.seed,
            evaluations=values.evaluations,
            progress=spent,
        )
    if values.output is not None:
        write_found(found, objective, Path(values.output))
    print(to_yaml(found, objective))
    for line in _words(found, mechanism, objective):
        print(line)
    if values.output is not None:
        print(f"Written to {values.output}")


def _words(
    found: Found, mechanism: NoisySGD, objective: Epsilon | RenyiDivergence
) -> tuple[str, ...]:
    low, high = found.bracket
    name = (
        f"epsilon at delta {objective.delta:g}"
        if isinstance(objective, Epsilon)
        else f"Renyi divergence of order {objective.alpha:g}"
    )
    lines = [
        f"{found.evaluations} pairs tried in {found.seconds:.1f} s.",
        f"Certified {name}: {low:.9g} (at most {high:.9g} for this pair).",
    ]
    bound = tightest_bound(mechanism, objective)
    if bound is None:
        return (*lines, "No sound bound applies.")
    value, id = bound
    ratio = f", {value / low:.4g} times as much" if low > 0 else ""
    return (*lines, f"Tightest sound bound: {value:.9g} ({id}){ratio}.")


if __name__ == "__main__":
    main()
