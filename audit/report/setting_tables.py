"""The tables of one setting that compares bounds, and the table of the first screen."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from audit.constructions import Construction, PiecewiseLinear
from audit.numerics.number_format import MISSING, Rounding, bracket, count, number, plain, ratio
from audit.report import queries
from audit.report.document import Cell, Column, Table
from audit.report.queries import ComparedResult, shown_claims
from audit.results import (
    AtDelta,
    BoundRow,
    Estimate,
    Number,
    OtherPair,
    PairResult,
    PositionAtDelta,
    Verdict,
)

_FULL_DIGITS = 12
_MOST_LISTED = 4  # values of a parameter; of more, the first and the last
_LABELS = {
    "noise_std": "noise deviation",
    "lipschitz": "Lipschitz constant",
    "step_std": "noise deviation of a step",
    "diameter_in_step_std": "diameter in noise of a step",
    "holder": "Hölder constant and order",
}
_SYMBOLS = {
    "steps": "T",
    "dataset_size": "n",
    "batch_size": "b",
    "step_size": "η",
    "noise_std": "σ",
    "lipschitz": "L",
    "smoothness": "M",
    "strong_convexity": "m",
    "diameter": "D",
    "step_std": "ησ",
    "diameter_in_step_std": "D/ησ",
    "sampling_rate": "b/n",
}


def exact_cell(value: Number, digits: int = 6) -> Cell:
    """Return an exact value with the digits that are certain."""
    return Cell.number(bracket(value.bracket, digits), value.bracket)


def lower_cell(value: float) -> Cell:
    """Return a certified lower bound, rounded down."""
    return Cell.number(number(value, 5, Rounding.DOWN), value)


def upper_cell(value: float, note: str = "") -> Cell:
    """Return a claimed upper bound, rounded up."""
    return Cell.number(number(value, 5, Rounding.UP), value, note)


def parameter_cell(value: float) -> Cell:
    """Return a delta, an order or another number that was chosen, as one would type it."""
    return Cell.number(plain(value), value)


def claim_cells(bound: BoundRow | None, note: str = "") -> tuple[Cell, Cell, Cell]:
    """Return claimed value, ratio and verdict of a bound; without one, that none applies.

    The ratio says how tight a claim is, so a refuted claim has none.
    """
    if bound is None:
        return Cell(text="none applies"), Cell.missing(), Cell.verdict(Verdict.NOT_APPLICABLE)
    value = Cell.missing() if bound.value is None else upper_cell(bound.value, note)
    if bound.verdict is Verdict.REFUTED:
        tightness = Cell(text="")
    elif bound.ratio is None:
        tightness = Cell.missing()
    else:
        tightness = Cell.number(ratio(bound.ratio), bound.ratio)
    return value, tightness, Cell.verdict(bound.verdict)


def summary(settings: Sequence[tuple[ComparedResult, str]]) -> Table:
    """Return a row for each setting and delta, and one more for each bound refuted there.

    Each setting comes with its stem, the anchor of its section.
    """
    rows = [
        (
            Cell(text=queries.title(setting), target=f"setting-{stem}"),
            parameter_cell(row.delta),
            lower_cell(row.sampled.epsilon),
            _exact_and_strongest(row),
            *claim_cells(bound, bound.id if bound else ""),
        )
        for setting, stem in settings
        for row in setting.deltas
        for bound in shown_claims(row.bounds, row.best)
    ]
    return Table(
        caption="Epsilon: certified lower bound, exact value and tightest claim"
        + _caption_of_strongest([setting for setting, _ in settings]),
        columns=(
            Column(label="Setting"),
            Column(label="δ", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="Exact value of the pair", numeric=True),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Claimed / exact", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _caption_of_strongest(settings: Sequence[ComparedResult]) -> str:
    named = any(queries.strongest(row)[1] for setting in settings for row in setting.deltas)
    return "; where another pair is stronger, claims are compared with that" if named else ""


def _exact_and_strongest(row: AtDelta) -> Cell:
    if row.exact is None:
        return Cell(text="not computed")
    cell = exact_cell(row.exact.worst)
    value, name = queries.strongest(row)
    if not name:
        return cell
    return dataclasses.replace(cell, note=f"{name}: {number(value, 6, Rounding.DOWN)}")


def parameters(setting: ComparedResult) -> Table:
    """Return the mechanism's parameters, what follows from them, and the pair."""
    trials = Cell.number(count(setting.trials), setting.trials)
    rows = [
        *(_of_pair(setting) if isinstance(setting, PairResult) else _of_scores(setting.source)),
        (Cell(text="samples of each law"), Cell(text="N"), trials),
    ]
    return Table(
        caption="Parameters",
        columns=(Column(label="Parameter"), Column(label="Symbol"), Column(label="Value")),
        rows=tuple(rows),
        stacked=False,
    )


def _of_scores(source: str) -> list[tuple[Cell, ...]]:
    return [(Cell(text="scores of"), Cell(text=""), Cell(text=source))]


def _of_pair(setting: PairResult) -> list[tuple[Cell, ...]]:
    fields = [*_fields(setting.mechanism), *_fields(setting.derived)]
    rows = [_parameter(name, value) for name, value in fields if value is not None]
    return [*rows, (Cell(text="pair"), Cell(text=""), Cell(text=in_words(setting.pair)))]


def _fields(value: object) -> list[tuple[str, object]]:
    assert dataclasses.is_dataclass(value)
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _parameter(name: str, value: object) -> tuple[Cell, ...]:
    label = Cell(text=_LABELS.get(name, name.replace("_", " ")))
    symbol = Cell(text=_SYMBOLS.get(name, ""))
    return label, symbol, _value_cell(value)


def _value_cell(value: object) -> Cell:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, tuple) and len(value) > _MOST_LISTED:
        return Cell(text=f"{plain(value[0])} to {plain(value[-1])}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parameter_cell(value)
    return Cell(text=plain(value))


def in_words(pair: Construction) -> str:
    """Return a pair with its own parameters: ``DriftedWalk(drift=-0.02, start=0)``."""
    inside = ", ".join(
        f"{name.replace(' ', '.')}={_typed(value)}"
        for field, content in _own_fields(pair)
        for name, value in _lines(field, content)
    )
    return f"{pair.name}({inside})"


def _typed(value: object) -> str:
    return f"({plain(value)})" if isinstance(value, tuple) else plain(value)


def _own_fields(pair: Construction) -> list[tuple[str, object]]:
    return [
        (name, value) for name, value in _fields(pair) if name != "mechanism" and value is not None
    ]


def claims(setting: ComparedResult) -> Table | None:
    """Return every bound that applies, tightest first at each delta."""
    rows = []
    for row in setting.deltas:
        applied = [claim for claim in queries.judged([setting]) if claim.row is row]
        rows += [
            (
                Cell.code(claim.bound.id, claim.bound.citation),
                Cell(text=claim.bound.status_text),
                parameter_cell(row.delta),
                *claim_cells(claim.bound),
            )
            for claim in sorted(applied, key=lambda claim: (claim.epsilon, claim.bound.id))
        ]
    if not rows:
        return None
    against = "the exact value" if _exact_known(setting) else "what samples certify"
    return Table(
        caption=f"Claimed upper bounds on epsilon, against {against}"
        + _caption_of_strongest([setting]),
        columns=(
            Column(label="Bound"),
            Column(label="Status"),
            Column(label="δ", numeric=True),
            Column(label="Claimed epsilon", numeric=True),
            Column(label="Ratio", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _exact_known(setting: ComparedResult) -> bool:
    return all(row.exact for row in setting.deltas)


def inapplicable(setting: ComparedResult) -> Table | None:
    """Return the bounds whose assumptions the mechanism does not meet, with the reason."""
    return _reasons(
        setting, Verdict.NOT_APPLICABLE, "Bounds that do not apply to this mechanism", "Bound"
    )


def inconclusive(setting: ComparedResult) -> Table | None:
    """Return the claims that the scores could not have refuted, with the reason."""
    return _reasons(
        setting, Verdict.INCONCLUSIVE, "Claims that these scores could not have refuted", "Claim"
    )


def _reasons(setting: ComparedResult, verdict: Verdict, caption: str, label: str) -> Table | None:
    reasons = {
        bound.id: (bound.citation, bound.reason or MISSING)
        for row in setting.deltas
        for bound in row.bounds
        if bound.verdict is verdict
    }
    if not reasons:
        return None
    return Table(
        caption=caption,
        columns=(Column(label=label), Column(label="Reason")),
        rows=tuple(
            (Cell.code(name, citation), Cell(text=reason))
            for name, (citation, reason) in sorted(reasons.items())
        ),
    )


def orders(setting: PairResult) -> Table | None:
    """Return the exact epsilon in both orders, in full, for this pair and the other ones."""
    rows = [
        (
            Cell(text=setting.pair.name),
            parameter_cell(row.delta),
            exact_cell(row.exact.forward, _FULL_DIGITS),
            exact_cell(row.exact.reverse, _FULL_DIGITS),
            exact_cell(row.exact.worst, _FULL_DIGITS),
        )
        for row in setting.deltas
        if row.exact is not None
    ]
    rows += [
        (
            Cell(text=_other_pair(other)),
            parameter_cell(at.delta),
            Cell.missing(),
            Cell.missing(),
            exact_cell(at.epsilon, _FULL_DIGITS),
        )
        for other in setting.other_pairs
        for at in other.epsilons
    ]
    if not rows:
        return None
    return Table(
        caption="Exact epsilon in both orders, to the digits that are certain",
        columns=(
            Column(label="Pair"),
            Column(label="δ", numeric=True),
            Column(label="X against X'", numeric=True),
            Column(label="X' against X", numeric=True),
            Column(label="Worse of the two", numeric=True),
        ),
        rows=tuple(rows),
    )


def _other_pair(other: OtherPair) -> str:
    return f"{other.pair.name}, found by search" if other.found_by else in_words(other.pair)


def renyi(setting: PairResult) -> Table | None:
    """Return Renyi divergences: sampled, exact in both orders, and the tightest claims."""
    rows = []
    for row in setting.renyi:
        known = (
            parameter_cell(row.order),
            lower_cell(row.sampled_lower),
            exact_cell(row.exact.forward),
            exact_cell(row.exact.reverse),
        )
        for bound in shown_claims(row.bounds):
            claim: tuple[Cell, ...] = Cell(text="none"), Cell(text="")
            if bound is not None and bound.value is not None:
                claim = upper_cell(bound.value, bound.id), Cell.verdict(bound.verdict)
            rows.append((*known, *claim))
    if not rows:
        return None
    return Table(
        caption="Renyi divergences",
        columns=(
            Column(label="Order", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="X from X'", numeric=True),
            Column(label="X' from X", numeric=True),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def estimators(setting: ComparedResult) -> Table | None:
    """Return what each estimator certifies, and when the sequential one refuted the claims."""
    rows = [
        (
            Cell(text=estimate.estimator.value),
            parameter_cell(row.delta),
            lower_cell(estimate.epsilon),
            Cell(text=_refuted_after(estimate) or MISSING),
        )
        for row in setting.deltas
        for estimate in row.estimates
    ]
    if not rows:
        return None
    return Table(
        caption="What the first estimator certifies, and two beside, each confident by itself",
        columns=(
            Column(label="Estimator"),
            Column(label="δ", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="Claim refuted"),
        ),
        rows=tuple(rows),
    )


def per_record(setting: ComparedResult) -> Table | None:
    """Return what a pair that differs in several records certifies of one, and where it looks."""
    rows = [
        (
            parameter_cell(row.delta),
            lower_cell(row.epsilon),
            Cell.number(plain(row.group_size), row.group_size),
            Cell.number(number(row.pair_delta, 4, Rounding.UP), row.pair_delta),
            lower_cell(row.evidence.value),
        )
        for row in setting.audit.per_record
    ]
    if not rows:
        return None
    return Table(
        caption="What datasets that differ in several records say of one record",
        columns=(
            Column(label="δ of one record", numeric=True),
            Column(label="Certified lower bound for one record", numeric=True),
            Column(label="Records that differ", numeric=True),
            Column(label="δ of the pair", numeric=True),
            Column(label="Certified lower bound for the pair", numeric=True),
        ),
        rows=tuple(rows),
    )


def _refuted_after(estimate: Estimate) -> str:
    return "; ".join(
        f"{one.claim}: "
        + ("not refuted" if one.pairs is None else f"after {count(one.pairs)} pairs")
        for one in estimate.refuted_after
    )


def found_pair(setting: PairResult) -> Table | None:
    """Return the pair that a search found, by its parameters."""
    other = next((other for other in setting.other_pairs if other.found_by), None)
    if other is None or other.found_by is None:
        return None
    found_by = other.found_by
    rows: list[tuple[Cell, ...]] = [
        (Cell(text="pair"), Cell(text=other.pair.name)),
        (Cell(text="pairs tried"), Cell.number(count(found_by.evaluations), found_by.evaluations)),
        (Cell(text="seed"), Cell.number(str(found_by.seed), found_by.seed)),
    ]
    rows += [
        (Cell(text=name), _value_cell(value))
        for field, content in _own_fields(other.pair)
        for name, value in _lines(field, content)
    ]
    return Table(
        caption=f"A pair found by search, for the largest epsilon at δ = {plain(found_by.delta)}",
        columns=(Column(label="Parameter"), Column(label="Value")),
        rows=tuple(rows),
        stacked=False,
    )


def _lines(name: str, value: object) -> list[tuple[str, object]]:
    """Return a parameter line by line: a gradient that is a constant is one number."""
    if not isinstance(value, PiecewiseLinear):
        return [(name, value)]
    if len(value.values) == 1 and not any(value.slopes):
        return [(name, value.values[0])]
    return [(f"{name} {part}", content) for part, content in _fields(value)]


def positions(setting: PairResult) -> Table | None:
    """Return the exact epsilon of the strongest pair and the tightest claim, record by record."""
    rows = [
        (Cell.number(plain(place.index), place.index), *_at_position(row, bound))
        for place in setting.positions
        for row in place.deltas
        for bound in shown_claims(row.bounds)
    ]
    if not rows:
        return None
    return Table(
        caption="The leak of each record, by its index in the order of use",
        columns=(
            Column(label="Record", numeric=True),
            Column(label="δ", numeric=True),
            Column(label="Exact value of the strongest pair", numeric=True),
            Column(label="Pair"),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _at_position(row: PositionAtDelta, bound: BoundRow | None) -> tuple[Cell, ...]:
    strongest = max(row.pairs, key=lambda pair: pair.epsilon.low)
    claimed, _, verdict = claim_cells(bound, bound.id if bound else "")
    return (
        parameter_cell(row.delta),
        exact_cell(strongest.epsilon),
        Cell(text=strongest.pair),
        claimed,
        verdict,
    )
