"""The section of one setting that compares bounds: its mechanism in words, figures and tables."""

from __future__ import annotations

from audit.estimation import BestColumn, CombinedColumns, LearnedColumns, WeightedColumns
from audit.mechanism import NoisySGD, Relation, Release
from audit.numerics.number_format import Rounding, count, number, plain
from audit.report import queries, setting_tables
from audit.report.document import Gallery, Part, Picture, Section, Table, Text
from audit.report.figures import laws, places, steps, tradeoff
from audit.report.figures.style import Look
from audit.report.queries import ComparedResult
from audit.results import Derived, PairResult

_MOST_WEIGHTS = 6  # listed
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
    parts: list[Part] = [Text(setting.summary)] if setting.summary else []
    parts.append(Text(_subject(setting)))
    parts.append(Gallery(_pictures(setting, stem, looks), setting_tables.parameters(setting)))
    parts += [table for table in _tables(setting) if table.rows]
    size = setting.audit.group_size
    mu = number(setting.audit.mu_lower.value / size, 4, Rounding.DOWN)
    whose = "mu-GDP" if size == 1 else "mu-GDP about one record"
    parts.append(
        Text(
            f"The samples refute every claim of {whose} with mu below {mu}. "
            "This number says nothing of epsilon."
        )
    )
    return Section(ident=f"setting-{stem}", title=queries.title(setting), parts=tuple(parts))


def _tables(setting: ComparedResult) -> list[Table]:
    tables = setting_tables
    found = [make(setting) for make in (tables.claims, tables.inconclusive, tables.inapplicable)]
    if not isinstance(setting, PairResult):
        return [*found, tables.estimators(setting), tables.per_record(setting)]
    of_pairs = (tables.positions, tables.orders, tables.renyi, tables.found_pair)
    return [*found, *(make(setting) for make in of_pairs)]


def _pictures(setting: ComparedResult, stem: str, looks: dict[str, Look]) -> tuple[Picture, ...]:
    if not isinstance(setting, PairResult):
        return (laws.draw_scores(setting.scores, setting.trials, stem),)
    unsound = queries.unsound(setting)
    pictures = [
        laws.draw(setting.laws, setting.trials, stem),
        tradeoff.draw(setting.tradeoff, stem, looks, unsound),
    ]
    if steps.has_curve(setting.epsilon_against_steps):
        pictures.append(steps.draw(setting.epsilon_against_steps, stem, looks, unsound))
    if places.has_renyi(setting.renyi):
        pictures.append(places.draw_renyi(setting.renyi, stem, looks))
    if setting.positions:
        pictures.append(places.draw_positions(setting.positions, stem, looks))
    return tuple(pictures)


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
        listed = ", ".join(number(weight, 3) for weight in weights[:_MOST_WEIGHTS])
        how = f"by a sum with the weights {listed}" + (
            f" and {len(weights) - _MOST_WEIGHTS} more" if len(weights) > _MOST_WEIGHTS else ""
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
