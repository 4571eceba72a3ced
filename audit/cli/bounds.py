"""The ``audit-bounds`` command: the values of all published bounds for one mechanism."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.cli import help
from audit.codec import encode
from audit.codec.hints import did_you_mean
from audit.mechanism import Batching, NoisySGD, Relation
from audit.numerics.number_format import Rounding, number

if TYPE_CHECKING:
    from audit.bounds import Row, TrainingEpsilon, TrainingNoise

_NUMBERS = ("epsilon", "ratio")
_COLUMNS = ("id", "status", *_NUMBERS, "reason", "source")


@dataclass(frozen=True, kw_only=True)
class BoundsQuestion:
    """The inputs other than the mechanism."""

    delta: float  #: number in [0, 1)
    slow: bool = False  #: whether to compute bounds that take seconds
    #: instead of the bounds, compare the mechanism (with release=all_iterates) with an accountant
    #: that assumes these batches
    assumed: Batching | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingQuestion:
    """A training with DP-SGD, and the goal if the noise multiplier is asked for."""

    #: noise of a batch's sum over the clipping norm; leave it out to ask for it
    noise_multiplier: float | None = None
    sampling_rate: float  #: batch size over dataset size
    steps: int | None = None  #: number of steps
    epochs: float | None = None  #: or number of epochs
    relation: Relation  #: neighbouring datasets
    batching: Batching = Batching.POISSON  #: how batches are drawn
    delta: float | None = None  #: number in (0, 1)
    epsilon: float | None = None  #: at most this at delta; or one of the goals of an attack:
    advantage: float | None = None  #: true minus false positive rate
    tpr: float | None = None  #: true positive rate, with fpr
    fpr: float | None = None  #: at this false positive rate

    def answer(self) -> TrainingEpsilon | TrainingNoise:
        """Return epsilon, or the noise multiplier that the goal needs."""
        from audit import bounds

        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is not None
        }
        if self.noise_multiplier is None:
            return bounds.noise_multiplier(**values)
        goals = [name for name in ("epsilon", "advantage", "tpr", "fpr") if name in values]
        if goals or self.delta is None:
            raise ValueError(
                "noise_multiplier must be given with delta and no other goal, or left out, "
                f"got {' and '.join(goals) or 'no delta'} with it"
            )
        return bounds.epsilon(**values)


def main() -> None:
    """Run the ``audit-bounds`` command; the mechanism and delta are given as KEY=VALUE."""
    questions = BoundsQuestion, TrainingQuestion
    forms = ("text", "json", "csv")
    help.keyed("audit-bounds", _run, *questions, formats=forms, flags=("--all",))


def _run(options: argparse.Namespace) -> None:
    from audit.cli.composition import composed  # Hydra is slow to import

    answered: list[tuple[object, object]] = []
    if _of_a_training(sys.argv[1:]):
        for (question,) in composed("audit-bounds", TrainingQuestion):
            answer = question.answer()
            answered.append((question, answer))
            if options.format == "text":
                print(answer)
    else:
        for mechanism, question in composed("audit-bounds", NoisySGD, BoundsQuestion):
            found = _show(mechanism, question, options.format, every=options.all)
            if isinstance(found, list) or options.format == "json":
                answered.append(({**encode(mechanism), **encode(question)}, found))
    if options.format == "csv" and answered:
        _write_csv(answered)
    if options.format == "json":
        several = [{"question": asked, "answer": answer} for asked, answer in answered]
        plain = encode(several if len(answered) > 1 else answered[0][1])
        print(json.dumps(plain, indent=1, allow_nan=False))


def _write_csv(answered: Sequence[tuple[object, object]]) -> None:
    """Print all answers as one table; those of a sweep begin with what differs between them."""
    asked: list[dict[str, Any]] = [encode(question) for question, _ in answered]
    swept = [key for key in asked[0] if any(one[key] != asked[0][key] for one in asked)]
    rows: list[dict[str, Any]] = [
        {key: one[key] for key in swept} | encode(line)
        for one, (_, answer) in zip(asked, answered, strict=True)
        for line in (answer if isinstance(answer, list) else [answer])
    ]
    if rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _of_a_training(words: Sequence[str]) -> bool:
    """Return whether a key is one of a training alone; refuse a key that is not known at all."""
    training = {field.name for field in dataclasses.fields(TrainingQuestion)}
    others = {f.name for cls in (NoisySGD, BoundsQuestion) for f in dataclasses.fields(cls)}
    keys = [word.partition("=")[0] for word in words if word[:1].isalpha() and "=" in word]
    for key in keys:
        if key.isidentifier() and key not in training | others:
            close = did_you_mean(key, sorted(training | others))
            requirement = "a known one" if close else "one of those in audit-bounds --help"
            raise ValueError(f"a key must be {requirement}, got {key!r}{close}")
    return any(key in training - others for key in keys)


def _show(mechanism: NoisySGD, question: BoundsQuestion, form: str, *, every: bool) -> object:
    """Return one row per bound, the tightest first, and print them but for JSON.

    Inapplicable bounds are last, or counted.
    """
    from audit import bounds
    from audit.bounds.registry import rank

    if question.assumed is not None:
        gap = bounds.batching_gap(mechanism, assumed=question.assumed, delta=question.delta)
        if form != "json":
            print(gap)
        return gap
    rows = bounds.table(mechanism, question.delta, slow=question.slow)
    rows = tuple(sorted(rows, key=lambda row: rank(math.inf if row.value is None else row.value)))
    shown = [row for row in rows if every or row.value is not None]
    lines = [_line(row) for row in shown]
    if form == "text":
        _print_table(shown, question.delta, every=every)
        if not every:
            print(_counted(rows, mechanism, question))
    return lines


def _line(row: Row) -> dict[str, Any]:
    """Return one bound in its output form; ``reason`` says why it has no epsilon."""
    from audit import bounds

    ratio = None if row.status is bounds.Status.REFUTED else row.ratio
    source = str(bounds.CATALOGUE[row.id].cite)
    values = (row.id, row.status.value, row.value, ratio, row.reason, source)
    return dict(zip(_COLUMNS, values, strict=True))


def _print_table(rows: Sequence[Row], delta: float, *, every: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = ("bound", "status", "epsilon", "ratio", *(["why it does not apply"] * every))
    cells = [_cells(row)[: len(columns)] for row in rows]
    console = Console()
    if not console.is_terminal:
        widths = [max(len(line[i]) for line in (columns, *cells)) for i in range(4)]
        for line in (columns, *cells):
            start = "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=False))
            print("  ".join([start, *line[4:]]).rstrip())
        return
    table = Table(title=f"epsilon at delta = {delta:g}", title_justify="left")
    for column in columns:
        justify: Any = "right" if column in _NUMBERS else "left"
        table.add_column(column, justify=justify)
    for row, line in zip(rows, cells, strict=True):
        style = "dim" if row.value is None else "bold" if row.ratio == 1 else ""
        table.add_row(*(Text(word) for word in line), style=style)
    table.caption = "ratio: to the tightest bound that is sound (as printed, or corrected)"
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    line = _line(row)
    value = "" if row.value is None else number(row.value, 6, Rounding.UP)
    ratio = "" if line["ratio"] is None else f"{line['ratio']:.4g}"
    return row.id, line["status"], value, ratio, row.reason or ""


def _counted(rows: Sequence[Row], mechanism: NoisySGD, question: BoundsQuestion) -> str:
    """Count the bounds that are not listed: inapplicable ones, and slow ones."""
    from audit import bounds

    entries = [bounds.CATALOGUE[row.id] for row in rows if row.value is None]
    slow = sum(e.slow and not question.slow and not e.failures(mechanism) for e in entries)
    line = f"{len(entries) - slow} bounds do not apply (--all lists them with reasons)"
    return f"{line}; {slow} more would take seconds (slow=true)" if slow else line


if __name__ == "__main__":
    main()
