"""The section of one setting that compares bounds, its tables, and that of the first screen."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Sequence

from audit.constructions import Construction, PiecewiseLinear
from audit.estimation import BestColumn, CombinedColumns, LearnedColumns, WeightedColumns
from audit.mechanism import NoisySGD, Relation, Release
from audit.numerics.number_format import Rounding, count, exceeding, number, plain, telling
from audit.report import queries
from audit.report.document import (
    COUNT,
    EXACT,
    FULL,
    LOWER,
    PARAMETER,
    RATIO,
    TEXT,
    UPPER,
    VERDICT,
    Cell,
    ColumnFormat,
    Gallery,
    Part,
    Picture,
    Section,
    Table,
)
from audit.report.figures import curves, laws
from audit.report.figures.style import Look
from audit.report.mechanism_line import SYMBOLS
from audit.report.queries import ComparedResult, shown_claims
from audit.results import AtDelta, BoundRow, Derived, Estimate, Number, PairResult, Verdict

_MAX_WEIGHTS = 6  # listed
_RELATIONS = {
    Relation.REPLACE_ONE: "differ in one record, which is replaced by another",
    Relation.ZERO_OUT: "differ in one record, whose loss is replaced by zero",
    Relation.ADD_REMOVE: "differ in one record, which one of them lacks",
}
_RELEASES = {
    Release.LAST_ITERATE: "Only the last iterate is released.",
    Release.RANDOM_STOP: "Only the iterate after a random step is released.",
    Release.RANDOM_SKIP: "The first records, a random number of them, are left out; only the last "
    "iterate is released.",
    Release.EXPONENTIAL_MECHANISM: "One draw from the exponential mechanism is released.",
    Release.ALL_ITERATES: "Every iterate is released.",
}


def section(setting: ComparedResult, stem: str, looks: dict[str, Look]) -> Section:
    """Return the section of a setting; ``stem`` begins the names of its files."""
    parts: list[Part] = [setting.summary] if setting.summary else []
    parts.append(_subject(setting))
    parts.append(Gallery(_pictures(setting, stem, looks), parameters(setting)))
    parts += [table for table in _tables(setting) if table.rows]
    size = setting.audit.group_size
    mu = number(setting.audit.mu_lower.value / size, 4, Rounding.DOWN)
    whose = "mu-GDP" if size == 1 else "mu-GDP about one record"
    parts.append(
        f"The samples refute every claim of {whose} with mu below {mu}. "
        "This number says nothing of epsilon."
    )
    return Section(ident=f"setting-{stem}", title=queries.title(setting), parts=tuple(parts))


def _tables(setting: ComparedResult) -> list[Table]:
    reasons = (
        (Verdict.INCONCLUSIVE, "Claims that these scores could not have refuted", "Claim"),
        (Verdict.NOT_APPLICABLE, "Bounds that do not apply to this mechanism", "Bound"),
    )
    found = [claims(setting), *(_reasons(setting, *one) for one in reasons)]
    if not isinstance(setting, PairResult):
        return [*found, estimators(setting), per_record(setting)]
    return [*found, *(make(setting) for make in (positions, orders, renyi, found_pair))]


def _pictures(setting: ComparedResult, stem: str, looks: dict[str, Look]) -> tuple[Picture, ...]:
    if not isinstance(setting, PairResult):
        return (laws.draw_scores(setting.scores, setting.trials, stem),)
    unsound = queries.unsound(setting)
    pictures = (
        laws.draw(setting.laws, setting.trials, stem),
        curves.draw_tradeoff(setting.tradeoff, stem, looks, unsound),
        curves.draw_steps(setting.epsilon_against_steps, stem, looks, unsound),
        curves.draw_renyi(setting.renyi, stem, looks),
        curves.draw_positions(setting.positions, stem, looks),
    )
    return tuple(picture for picture in pictures if picture is not None)


def _subject(setting: ComparedResult) -> str:
    if isinstance(setting, PairResult):
        return _mechanism_in_words(setting.mechanism, setting.derived)
    sentences = [
        f"The scores are those of {setting.source}: nothing else is known of the mechanism.",
        columns_in_words(setting.audit.columns),
        group_in_words(setting.audit.group_size),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def columns_in_words(columns: CombinedColumns | None) -> str:
    """Return how several numbers a run became one score; nothing where there was one."""
    if columns is None or columns.number == 1:
        return ""
    choice, weights = columns.choice, columns.weights or ()
    if isinstance(choice, LearnedColumns):
        how = f"by a score that was learned ({choice.learner.kind})"
    elif isinstance(choice, BestColumn):
        how = f"by taking number {weights.index(1.0) + 1}, which tells the laws apart best"
    else:
        listed = ", ".join(number(weight, 3) for weight in weights[:_MAX_WEIGHTS])
        how = f"by a sum with the weights {listed}" + (
            f" and {len(weights) - _MAX_WEIGHTS} more" if len(weights) > _MAX_WEIGHTS else ""
        )
    if isinstance(choice, WeightedColumns):
        chosen = "The weights were given beforehand."
    else:
        first, second = (count(size) for size in columns.choosing)
        chosen = f"This was chosen on {first} runs of X and {second} of X', which certify nothing."
    return f"Each run gives {columns.number} numbers, made into one score {how}. {chosen}"


def group_in_words(size: int) -> str:
    """Return what it means that the datasets differ in several records; nothing for one."""
    if size == 1:
        return ""
    return (
        f"The two datasets differ in {size} records. Claims are about one record: (ε, δ) is held "
        f"against the samples as ({size}ε, δ (e^({size}ε) - 1) / (e^ε - 1)), and certified numbers "
        "are what the samples say of one record."
    )


def _mechanism_in_words(m: NoisySGD, derived: Derived) -> str:
    n, b = plain(m.dataset_size), plain(m.batch_size)
    rate = f"{b}/{n}" if m.poisson_rate is None else plain(m.poisson_rate)
    batches = m.batching.sentence.format(n=n, b=b, q=rate)
    sentences = [
        f"Noisy-SGD takes T = {plain(m.steps)} steps, with {batches}.",
        _noise(m, derived),
        _losses(m),
        _domain(m, derived),
    ]
    if m.relation in _RELATIONS:
        sentences.append(f"Neighbouring datasets {_RELATIONS[m.relation]}.")
    if m.release in _RELEASES:
        sentences.append(_RELEASES[m.release])
    return " ".join(sentences)


def _noise(m: NoisySGD, derived: Derived) -> str:
    if isinstance(m.step_size, tuple):
        sizes = f"Step sizes run from {plain(m.step_size[0])} to {plain(m.step_size[-1])}"
    else:
        sizes = f"The step size is η = {plain(m.step_size)}"
    text = f"{sizes} and the noise has standard deviation σ = {plain(m.noise_std)}"
    if derived.step_std is not None:
        text += (
            f", so a step moves the iterate by noise of deviation ησ = {plain(derived.step_std)}"
        )
    return text + "."


def _losses(m: NoisySGD) -> str:
    if m.strong_convexity:
        traits = [f"{plain(m.strong_convexity)}-strongly convex"]
    else:
        traits = ["convex" if m.convex else "not necessarily convex"]
    if m.lipschitz is not None:
        traits.append(f"{plain(m.lipschitz)}-Lipschitz")
    if m.smoothness is not None:
        traits.append(f"{plain(m.smoothness)}-smooth")
    if m.lipschitz is None and m.gradient_sensitivity is not None:
        traits.append(f"of gradient sensitivity {plain(m.gradient_sensitivity)}")
    listed = traits[0] if len(traits) == 1 else f"{', '.join(traits[:-1])} and {traits[-1]}"
    return f"Losses are {listed}."


def _domain(m: NoisySGD, derived: Derived) -> str:
    if m.diameter is None:
        return "The domain is unconstrained."
    text = f"Iterates are projected onto a domain of diameter D = {plain(m.diameter)}"
    if derived.diameter_in_step_std is not None:
        times = plain(float(number(derived.diameter_in_step_std, 4)))
        text += f", {times} times the noise of a step"
    return text + "."


_MAX_LISTED = 4  # values of a parameter; of more, the first and the last
_LABELS = {
    "noise_std": "noise deviation",
    "lipschitz": "Lipschitz constant",
    "step_std": "noise deviation of a step",
    "diameter_in_step_std": "diameter in noise of a step",
    "holder": "Hölder constant and order",
}
_SYMBOLS = {
    **SYMBOLS,
    "step_std": "ησ",
    "diameter_in_step_std": "D/ησ",
    "sampling_rate": "b/n",
}


def lower_cell(value: float, claimed: float | None) -> Cell:
    """Return a lower bound beside a claim, with the digits that show whether it is larger."""
    digits = 5 if claimed is None else telling(claimed, value, 5)
    return Cell.number(number(value, digits, Rounding.DOWN), value)


def exact_cell(value: Number, claimed: float | None) -> Cell:
    """Return an exact value beside a claim."""
    text = exceeding(value.bracket, math.inf if claimed is None else claimed)
    return Cell.number(text, value.bracket)


def claim_cells(
    value: float | None, ratio: float | None, verdict: Verdict, certain: float, note: str = ""
) -> tuple[Cell, Cell, Verdict]:
    """Return claimed value, ratio and verdict of a claim, beside what is certain.

    The ratio says how tight a claim is, so a refuted claim has none.
    """
    claimed = Cell.missing()
    if value is not None:
        claimed = Cell.number(number(value, telling(value, certain, 5), Rounding.UP), value)
    tightness = Cell(text="") if verdict is Verdict.REFUTED else RATIO.cell(ratio)
    return dataclasses.replace(claimed, note=note), tightness, verdict


def _claim_cells(bound: BoundRow | None, certain: float) -> tuple[Cell, Cell, Verdict]:
    """Return the cells of a claim with its id; without a claim, that none applies."""
    if bound is None:
        return Cell(text="none applies"), Cell.missing(), Verdict.NOT_APPLICABLE
    return claim_cells(bound.value, bound.ratio, bound.verdict, certain, bound.id)


def epsilon_table(caption: str, first: str, exact: str, rows: Iterable[Sequence[object]]) -> Table:
    """Return the table of a first screen: what is certified, exact and claimed.

    Rows end with the cells of `claim_cells`.
    """
    columns = {
        first: TEXT,
        "δ": PARAMETER,
        "Certified lower bound": LOWER,
        exact: EXACT,
        "Tightest claimed upper bound": UPPER,
        "Claimed / exact": RATIO,
        "Verdict": VERDICT,
    }
    return Table.of(caption, columns, rows)


def summary(settings: Sequence[tuple[ComparedResult, str]]) -> Table:
    """Return a row for each setting and delta, and one more for each bound refuted there.

    Each setting comes with its stem, the anchor of its section.
    """
    caption = "Epsilon: certified lower bound, exact value and tightest claim"
    caption += _caption_of_strongest([setting for setting, _ in settings])
    rows: list[tuple[object, ...]] = []
    for setting, stem in settings:
        name = Cell(text=queries.title(setting), target=f"setting-{stem}")
        for row in setting.deltas:
            for bound in shown_claims(row.bounds, row.best):
                claimed = bound.value if bound else None
                lower = lower_cell(row.sampled.epsilon, claimed)
                exact = _exact_and_strongest(row, claimed)
                claim = _claim_cells(bound, queries.strongest(row)[0])
                rows.append((name, row.delta, lower, exact, *claim))
    return epsilon_table(caption, "Setting", "Exact value of the pair", rows)


def _caption_of_strongest(settings: Sequence[ComparedResult]) -> str:
    if queries.any_stronger(settings):
        return "; where another pair is stronger, claims are compared with that"
    return ""


def _exact_and_strongest(row: AtDelta, claimed: float | None) -> Cell:
    if row.exact is None:
        return Cell(text="not computed")
    cell = exact_cell(row.exact.worst, claimed)
    value, name = queries.strongest(row)
    if not name:
        return cell
    digits = 6 if claimed is None else telling(claimed, value, 6)
    return dataclasses.replace(cell, note=f"{name}: {number(value, digits, Rounding.DOWN)}")


def parameters(setting: ComparedResult) -> Table:
    """Return the mechanism's parameters, what follows from them, and the pair."""
    rows: list[tuple[object, ...]]
    if not isinstance(setting, PairResult):
        rows = [("scores of", "", setting.source)]
    else:
        fields = [*_fields(setting.mechanism), *_fields(setting.derived)]
        rows = [
            (_LABELS.get(name, name.replace("_", " ")), _SYMBOLS.get(name, ""), _value_cell(value))
            for name, value in fields
            if value is not None
        ]
        rows.append(("pair", "", in_words(setting.pair)))
    return Table.of(
        "Parameters",
        {"Parameter": TEXT, "Symbol": TEXT, "Value": TEXT},
        [*rows, ("samples of each law", "N", COUNT.cell(setting.trials))],
        stacked=False,
    )


def claims(setting: ComparedResult) -> Table:
    """Return every bound that applies, tightest first at each delta."""
    known = all(row.exact for row in setting.deltas)
    against = "the exact value" if known else "what samples certify"
    caption = f"Claimed upper bounds on epsilon, against {against}"
    columns = {
        "Bound": TEXT,
        "Status": TEXT,
        "δ": PARAMETER,
        "Claimed epsilon": UPPER,
        "Ratio": RATIO,
        "Verdict": VERDICT,
    }
    rows = []
    for row in setting.deltas:
        certain, _ = queries.strongest(row)
        applied = sorted(queries.applied(row), key=lambda claim: (claim[1], claim[0].id))
        for bound, epsilon in applied:
            name = Cell.code(bound.id, bound.citation)
            claim = claim_cells(epsilon, bound.ratio, bound.verdict, certain)
            rows.append((name, bound.status_text, row.delta, *claim))
    return Table.of(caption + _caption_of_strongest([setting]), columns, rows)


def _reasons(setting: ComparedResult, verdict: Verdict, caption: str, label: str) -> Table:
    """Return the bounds of one verdict, with the reason of each."""
    reasons = {
        bound.id: (Cell.code(bound.id, bound.citation), bound.reason or None)
        for row in setting.deltas
        for bound in row.bounds
        if bound.verdict is verdict
    }
    rows = (reasons[name] for name in sorted(reasons))
    return Table.of(caption, {label: TEXT, "Reason": TEXT}, rows)


def orders(setting: PairResult) -> Table:
    """Return the exact epsilon in both orders, in full, for this pair and the other ones."""
    rows: list[tuple[object, ...]] = [
        (setting.pair.name, row.delta, one.forward, one.reverse, one.worst, _widths(row))
        for row in setting.deltas
        if (one := row.exact)
    ]
    for other in setting.other_pairs:
        name = f"{other.pair.name}, found by search" if other.found_by else in_words(other.pair)
        rows += [(name, at.delta, None, None, at.epsilon, None) for at in other.epsilons]
    columns = {
        "Pair": TEXT,
        "δ": PARAMETER,
        "X against X'": FULL,
        "X' against X": FULL,
        "Worse of the two": FULL,
        "Width of its bracket": TEXT,
    }
    return Table.of("Exact epsilon in both orders, to the digits that are certain", columns, rows)


def _widths(row: AtDelta) -> str:
    """Return the parts of a bracket's width; those that are exactly 0 are left out."""
    parts = [f"{cause} {width:.1e}" for cause, width in row.errors.items() if width]
    return ", ".join(parts) or "0"


def renyi(setting: PairResult) -> Table:
    """Return Renyi divergences: sampled, exact in both orders, and the tightest claims."""
    rows = []
    for row in setting.renyi:
        for bound in shown_claims(row.bounds):
            claimed = bound.value if bound else None
            both = [exact_cell(one, claimed) for one in (row.exact.forward, row.exact.reverse)]
            claim = _claim_cells(bound, row.exact.worst.low)[::2]
            rows.append((row.order, row.sampled_lower, *both, *claim))
    columns = {
        "Order": PARAMETER,
        "Certified lower bound": LOWER,
        "X from X'": EXACT,
        "X' from X": EXACT,
        "Tightest claimed upper bound": UPPER,
        "Verdict": VERDICT,
    }
    return Table.of("Renyi divergences", columns, rows)


def estimators(setting: ComparedResult) -> Table:
    """Return what each estimator certifies, and when the sequential one refuted the claims."""
    return Table.of(
        "What the first estimator certifies, and two beside, each confident by itself",
        {"Estimator": TEXT, "δ": PARAMETER, "Certified lower bound": LOWER, "Claim refuted": TEXT},
        (
            (one.estimator.value, row.delta, one.epsilon, "; ".join(_refuted_after(one)) or None)
            for row in setting.deltas
            for one in row.estimates
        ),
    )


def _refuted_after(estimate: Estimate) -> list[str]:
    return [
        f"{one.claim}: {'not refuted' if one.pairs is None else f'after {count(one.pairs)} pairs'}"
        for one in estimate.refuted_after
    ]


def per_record(setting: ComparedResult) -> Table:
    """Return what a pair that differs in several records certifies of one, and where it looks."""
    return Table.of(
        "What datasets that differ in several records say of one record",
        {
            "δ of one record": PARAMETER,
            "Certified lower bound for one record": LOWER,
            "Records that differ": PARAMETER,
            "δ of the pair": ColumnFormat(lambda d: Cell.number(number(d, 4, Rounding.UP), d)),
            "Certified lower bound for the pair": LOWER,
        },
        (
            (row.delta, row.epsilon, row.group_size, row.pair_delta, row.evidence.value)
            for row in setting.audit.per_record
        ),
    )


def found_pair(setting: PairResult) -> Table:
    """Return the pair that a search found, by its parameters; without rows if there is none."""
    caption, rows = "", list[tuple[object, ...]]()
    found = [(other.pair, other.found_by) for other in setting.other_pairs if other.found_by]
    for pair, by in found[:1]:
        caption = f"A pair found by search, for the largest epsilon at δ = {plain(by.delta)}"
        rows = [
            ("pair", pair.name),
            ("pairs tried", COUNT.cell(by.evaluations)),
            ("seed", PARAMETER.cell(by.seed)),
            *((name, _value_cell(value)) for name, value in _own_values(pair)),
        ]
    return Table.of(caption, {"Parameter": TEXT, "Value": TEXT}, rows, stacked=False)


def positions(setting: PairResult) -> Table:
    """Return the exact epsilon of the strongest pair and the tightest claim, record by record."""
    rows = []
    for place in setting.positions:
        for row in place.deltas:
            strongest = max(row.pairs, key=lambda pair: pair.epsilon.low)
            for bound in shown_claims(row.bounds):
                exact = exact_cell(strongest.epsilon, bound.value if bound else None)
                claim = _claim_cells(bound, strongest.epsilon.low)[::2]
                rows.append((place.index, row.delta, exact, strongest.pair, *claim))
    columns = {
        "Record": PARAMETER,
        "δ": PARAMETER,
        "Exact value of the strongest pair": EXACT,
        "Pair": TEXT,
        "Tightest claimed upper bound": UPPER,
        "Verdict": VERDICT,
    }
    return Table.of("The leak of each record, by its index in the order of use", columns, rows)


def _fields(value: object) -> list[tuple[str, object]]:
    assert dataclasses.is_dataclass(value)
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _value_cell(value: object) -> Cell:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, tuple) and len(value) > _MAX_LISTED:
        return Cell(text=f"{plain(value[0])} to {plain(value[-1])}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return PARAMETER.cell(value)
    return Cell(text=plain(value))


def in_words(pair: Construction) -> str:
    """Return a pair with its own parameters: ``DriftedWalk(drift=-0.02, start=0)``."""
    inside = ", ".join(
        f"{name.replace(' ', '.')}=" + (f"({plain(v)})" if isinstance(v, tuple) else plain(v))
        for name, v in _own_values(pair)
    )
    return f"{pair.name}({inside})"


def _own_values(pair: Construction) -> list[tuple[str, object]]:
    """Return a pair's parameters; a gradient that is constant is one number, others are several."""
    found: list[tuple[str, object]] = []
    for name, value in _fields(pair):
        if name == "mechanism" or value is None:
            continue
        if not isinstance(value, PiecewiseLinear):
            found.append((name, value))
        elif len(value.values) == 1 and not any(value.slopes):
            found.append((name, value.values[0]))
        else:
            found += [(f"{name} {part}", content) for part, content in _fields(value)]
    return found
