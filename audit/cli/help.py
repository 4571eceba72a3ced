"""Help texts of the commands that read ``KEY=VALUE`` words.

Hydra's own help composes the configuration first, which takes seconds; these texts are written
from the schemas and the names of the scenarios.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from audit.cli.errors import OneLineParser, guarded
from audit.codec import encode
from audit.codec.hints import MISSING, default_of, hints_of, init_fields
from audit.codec.schemas import about_fields
from audit.constructions import kinds
from audit.mechanism import NoisySGD
from audit.scenario.folders import scenario_files

_WIDTH = 96  # columns of a line, without its indent
_NO_BREAK = "\xa0"  # a space of a choice, which is not broken between lines
_TITLE = re.compile(r"^title: *(.*?) *$", re.MULTILINE)


def asked_for(arguments: Sequence[str]) -> bool:
    """Return whether the command line asks for help."""
    return "--help" in arguments or "-h" in arguments


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Return two columns of text, the first as wide as necessary, the second wrapped."""
    rows = list(rows)
    width = max(len(left) for left, _ in rows) + 2
    lines: list[str] = []
    for left, right in rows:
        for text in textwrap.wrap(right, _WIDTH - width) or [""]:
            lines.append(f"    {left:{width}}{text}".rstrip().replace(_NO_BREAK, " "))
            left = ""
    return "\n".join(lines)


def fields_of(cls: type) -> list[tuple[str, str]]:
    """Return the name and the type of every field of a dataclass."""
    hints = hints_of(cls)
    return [
        (name, _described(hints[name]) + _default(one)) for name, one in init_fields(cls).items()
    ]


def keys_of(cls: type) -> str:
    """Return the keys of a command, as comments at the fields of a dataclass describe them."""
    rows = []
    for name, field in init_fields(cls).items():
        choices = _described(hints_of(cls)[name])
        text = about_fields(cls)[name] + (f": {choices}" if "|" in choices else "")
        rows.append((name, text if field.default is None else text + _default(field)))
    return table(rows)


def _default(field: dataclasses.Field[Any]) -> str:
    value = default_of(field)
    if value is MISSING:
        return " (required)"
    return f" (default: {'none' if value is None else str(encode(value)).lower()})"


def _described(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_described(part) for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        each = ["number", "..."] if inner[-1] is Ellipsis else [_described(part) for part in inner]
        return f"[{', '.join(each)}]"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " | ".join(str(encode(member)).replace(" ", _NO_BREAK) for member in hint)
    words: Mapping[Any, str] = {
        int: "whole number",
        float: "number",
        bool: f"true{_NO_BREAK}|{_NO_BREAK}false",
    }
    return words.get(hint, "text")


def _own_fields(cls: type) -> list[str]:
    """Return the fields of a pair, required ones first."""
    fields = {name: default_of(one) for name, one in init_fields(cls).items()}
    needed = [name for name, default in fields.items() if default is MISSING]
    others = [name for name in fields if name not in needed]
    return [f"{name} (required)" for name in needed if name != "mechanism"] + others


def scenario_titles(folder: Path | None) -> list[tuple[str, str]]:
    """Return the names of the scenarios in a folder, or the shipped ones, with their titles."""
    found = []
    for name, file in scenario_files(folder).items():
        title = _TITLE.search(file.read_text(encoding="utf-8"))
        found.append((name, title[1].strip("'\"") if title else ""))
    return found


def of_audit(default: str, own_folder: Path | None) -> str:
    """Return the help of ``audit``."""
    scenarios = table(scenario_titles(None))
    if own_folder is not None and (own := scenario_titles(own_folder)):
        scenarios += f"\n\nscenarios in {own_folder}:\n{table(own)}"
    return _filled(_AUDIT, default=default, scenarios=scenarios)


def _filled(text: str, *keys: str, **parts: str) -> str:
    """Return a help text with the parts that are read from the types."""
    return text.format(
        *keys,
        mechanism=table(fields_of(NoisySGD)),
        pairs=table((kind, ", ".join(_own_fields(cls))) for kind, cls in kinds().items()),
        values=_VALUES,
        **parts,
    )


_VALUES = """\
choices accept any spelling (without_replacement, "without replacement", WITHOUT_REPLACEMENT);
a schedule of step sizes is [0.2,0.1,...] or {first: 0.2, power: -0.5}"""

_AUDIT = """\
usage: audit [scenario=NAME] [KEY=VALUE ...] [OPTION ...]

Audit the privacy of Noisy-SGD: run a scenario, print the verdicts, and write a report.
Every value of a scenario can be changed on the command line, and -m sweeps over several.

examples:
    audit                                             # the scenario {default}
    audit scenario=drifted_walk seed=3 settings.full_batch.trials=100000
    audit scenario=poisson_batches --cfg job          # print the configuration, run nothing
    audit -m scenario=drifted_walk settings.full_batch.mechanism.steps=30,100,300
    audit -m scenario=drifted_walk seed=1,2 hydra/launcher=joblib hydra.launcher.n_jobs=2
    audit --config-dir my_scenarios scenario=mine     # your my_scenarios/scenario/mine.yaml

scenarios (the default is {default}):
{scenarios}

keys:
    seed, confidence       seed and confidence level of all samples of the scenario
    bounds                 a list of ids of the catalogue; audit-bounds prints them
    threads                number of threads that draw samples (default: one per core)
    parallel               threads | loky | dask | ray | cuda: where samples are drawn; does
                           not affect any number
    parallel.workers       number of threads or processes (threads and loky)
    parallel.address       address of the running cluster (dask and ray)
    output                 the folder that contains the run's folder (default: results/runs)
    sweep                  the folder inside it that the runs of a sweep share (default: its time)
    draw                   true | false: whether a run writes a report (or audit-report later)
    settings.NAME.KEY      title, summary, mechanism, pair, other_pairs, search, deltas,
                           renyi_orders, trials, steps_shown, positions; or own and claims (scores
                           of a user-defined mechanism); or training; or study (a function that
                           returns findings)
    ~settings.NAME         remove a setting

settings.NAME.mechanism.KEY, the fields of audit.NoisySGD:
{mechanism}

settings.NAME.pair.KEY, the kind of the pair and the fields of that kind:
{pairs}

{values}

sweeps (-m):
    KEY=A,B,C              one run per value; with several such keys one run per combination
    KEY=range(1,10,3)      a range; KEY=choice(A,B) a list
    scenario=glob(*)       all scenarios; glob(papers/*), glob([a*,b*],exclude=ab)
    hydra/launcher=joblib  on several cores (hydra-joblib-launcher); hydra.launcher.n_jobs=2
    hydra/launcher=submitit_slurm  on SLURM (the extra slurm); hydra.launcher.partition=NAME

options:
    -h, --help             print this help
    -m, --multirun         sweep
    -cd, --config-dir DIR  a folder whose scenario/*.yaml are additional scenarios
    -c, --cfg job          print the configuration and run nothing; --package settings.NAME for a
                           part of it; --cfg hydra or all for Hydra's
    -i, --info WHAT        Hydra's information: searchpath, plugins, defaults, defaults-tree, config
    --schema               print the JSON Schema of scenario files, for editors
    --hydra-help           Hydra's own options; HYDRA_FULL_ERROR=1 shows tracebacks

exit status: 0 done; 1 a run of a sweep failed; 2 bad input; 130 interrupted
"""


_BOUNDS = """\
usage: audit-bounds KEY=VALUE ... [--all] [--format text|json|csv]

Print the epsilon at delta of every published bound for one Noisy-SGD mechanism; or the epsilon of a
training with DP-SGD, or the noise multiplier that it needs, from both sides.

examples:
    audit-bounds noise_multiplier=1.1 sampling_rate=.004 steps=10000 delta=1e-5 relation=add_remove
    audit-bounds epsilon=2 delta=1e-5 sampling_rate=.01 epochs=50 relation=add_remove
    audit-bounds advantage=.1 sampling_rate=.01 epochs=50 relation=add_remove
    audit-bounds steps=1000 dataset_size=20 batch_size=20 step_size=0.1 noise_std=0.5 \\
        lipschitz=1 smoothness=1 diameter=1 batching=full relation=replace_one delta=1e-5

keys:
{0}

keys of a training with DP-SGD, all iterates released (audit.epsilon, audit.noise_multiplier):
{1}

the fields of audit.NoisySGD:
{mechanism}

{values}

options:
    -h, --help        print this help
    --all             also list the bounds that do not apply, with the reasons
    --format FORMAT   text (default), json (a list of objects with id, status, epsilon, ratio,
                      reason and source) or csv (the same columns)
    -m, --multirun    several mechanisms: KEY=A,B,C; json is then a list of {{question, answer}}
    -c, --cfg job     print the configuration, compute nothing

columns: bounds "refuted as printed", "unproven" or "asymptotic" are not guarantees; ratio is the
ratio to the tightest sound bound.
"""


_SEARCH = """\
usage: audit-search KEY=VALUE ...

Search for the neighbouring pair that is easiest to distinguish under one mechanism.

example:
    audit-search steps=100 dataset_size=1000 batch_size=1000 step_size=1 noise_std=0.05 \\
        lipschitz=1.25 smoothness=1 diameter=1 delta=1e-5 budget=20 seed=0 output=found.yaml

keys:
{0}

the fields of audit.NoisySGD:
{mechanism}

{values}

options:
    -h, --help        print this help
    -c, --cfg job     print the configuration, search nothing
"""


_PLAN = """\
usage: audit-plan KEY=VALUE ... [--format text|json]

Print how many runs on each of two neighbouring datasets refute "epsilon <= X at delta" for a known
mechanism, with the audit of audit.estimation.audit_samples and its default choice of thresholds.

examples:
    audit-plan law=gaussian mu=1 epsilon=2 delta=1e-5 confidence=0.95
    audit-plan law=laplace pure_epsilon=1 epsilon=0.5 delta=0 confidence=0.99 power=0.9

keys:
{0}

The score of a run is assumed to rank outcomes by their likelihood ratio. For other laws, such as
audit.exact.curve(pair), call audit.estimation.plan.

options:
    -h, --help        print this help
    --format FORMAT   text (default), or json (a list of objects with law, epsilon, delta,
                      confidence, power, true_epsilon, trials, reached and strategy)
    -m, --multirun    several questions: KEY=A,B,C
"""

_TEXTS = {"audit-bounds": _BOUNDS, "audit-plan": _PLAN, "audit-search": _SEARCH}


def keyed(
    name: str,
    command: Callable[[argparse.Namespace], None],
    *questions: type,
    formats: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> None:
    """Run a command whose inputs are ``KEY=VALUE`` words, or print its help.

    ``questions`` are the dataclasses of its keys.
    """

    def run() -> None:
        if asked_for(sys.argv[1:]):
            print(_filled(_TEXTS[name], *map(keys_of, questions)), end="")
            return
        parser = OneLineParser(prog=name, add_help=False, allow_abbrev=False)
        if formats:
            parser.add_argument("--format", choices=formats, default=formats[0])
        for flag in flags:
            parser.add_argument(flag, action="store_true")
        options, sys.argv[1:] = parser.parse_known_args(sys.argv[1:])
        command(options)

    guarded(run, name)
