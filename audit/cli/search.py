"""The ``audit-search`` command: find the worst pair of datasets for one mechanism."""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audit.cli import help
from audit.codec.atomic import check_place
from audit.mechanism import NoisySGD
from audit.numerics.number_format import Rounding, number

if TYPE_CHECKING:
    from audit.search import Epsilon, Found, RenyiDivergence


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """The objective and the limits of a search; the first limit that is reached ends it."""

    delta: float | None = None  #: maximise epsilon at this delta
    renyi_order: float | None = None  #: or the Renyi divergence of this order
    budget: float | None = None  #: stop after this many seconds
    #: or after this many pairs: the result is the same on every machine (one of the two is
    #: required, and the first that is reached ends the search)
    evaluations: int | None = None
    seed: int  #: whole number
    #: whether domains in many dimensions may cancel a gradient of all records
    many_dimensions: bool = False
    #: whether to print what the width of the bracket consists of
    verbose: bool = False
    output: Path | None = None  #: YAML file for the pair, for use in scenarios and claims

    def __post_init__(self) -> None:
        if (self.delta is None) == (self.renyi_order is None):
            raise ValueError("delta or renyi_order must be given, and not both")


def main() -> None:
    """Run the ``audit-search`` command; all inputs are given as KEY=VALUE."""
    help.keyed("audit-search", _run, SearchRequest)


def _run(options: argparse.Namespace) -> None:
    from audit.cli.composition import composed  # Hydra takes a while to import

    searches = list(composed("audit-search", NoisySGD, SearchRequest))
    outputs = [request.output for _, request in searches if request.output is not None]
    for output in outputs:
        if outputs.count(output) > 1:
            wanted = "another file for each search (output=a.yaml,b.yaml)"
            raise ValueError(f"output must be {wanted}, got {str(output)!r} for several")
        output.parent.mkdir(parents=True, exist_ok=True)
        check_place("output", output)
    for mechanism, request in searches:
        _search(mechanism, request)


def _search(mechanism: NoisySGD, request: SearchRequest) -> None:
    from audit import progress
    from audit.search import Epsilon, to_yaml, worst_case, write_found
    from audit.search.found_pairs import FoundObjective

    objective = FoundObjective(request.delta, request.renyi_order).objective()
    with progress.on_terminal() as bars:
        report = bars.stage("search")

        pairs = itertools.count(1)

        def spent(seconds: float, _: float) -> None:
            done, limit = int(10 * seconds), request.budget
            if limit is None:
                done, total = next(pairs), request.evaluations or 1
            else:
                total = int(10 * limit)
            report(min(done, total), total)

        found = worst_case(
            mechanism,
            objective=objective,
            budget=request.budget,
            seed=request.seed,
            evaluations=request.evaluations,
            many_dimensions=request.many_dimensions,
            progress=spent,
        )
    print(to_yaml(found, objective))
    print(*_summary(found, mechanism, objective), sep="\n")
    if request.verbose and isinstance(objective, Epsilon):
        widths = found.law.errors(objective.delta)
        parts = ", ".join(f"{cause} {width:.2g}" for cause, width in widths.items())
        print(f"Width of the bracket of epsilon: {parts}.")
    if request.output is not None:
        write_found(found, objective, request.output)
        print(f"Written to {request.output}")


def _summary(
    found: Found, mechanism: NoisySGD, objective: Epsilon | RenyiDivergence
) -> tuple[str, ...]:
    from audit.search import tightest_bound

    (low, high), quantity = found.bracket, objective.quantity
    name = f"{quantity.name}{quantity.at_where}"
    lines = [
        f"{found.evaluations} pairs tried in {found.seconds:.1f} s.",
        f"Certified {name}: {number(low, 9, Rounding.DOWN)} "
        f"(at most {number(high, 9, Rounding.UP)} for this pair).",
    ]
    id, value = tightest_bound(mechanism, quantity)
    if not id:
        return (*lines, "No sound bound applies.")
    ratio = f", {value / low:.4g} times as much" if low > 0 else ""
    return (*lines, f"Tightest sound bound: {number(value, 9, Rounding.UP)} ({id}){ratio}.")


if __name__ == "__main__":
    main()
