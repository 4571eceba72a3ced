"""The report of one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from audit.curves import Order
from audit.numerics.number_format import Rounding, count, duration, number, plain, short
from audit.report import queries, setting_section, study_section
from audit.report.conclusion import conclusion
from audit.report.document import (
    LOWER,
    PARAMETER,
    TEXT,
    Cell,
    ColumnFormat,
    Document,
    Gallery,
    Section,
    Table,
)
from audit.report.figures import charts, sandwich
from audit.report.figures.style import Look, looks
from audit.results import Result, SampledEvidence, SettingResult, StudyResult

_MAX_OPEN_SETTINGS = 4  # settings; where there are more, the reader opens those of interest


def build(result: Result) -> Document:
    """Draw every figure and fill every table of a result."""
    settings = queries.with_stems(result.settings)
    bound_looks = looks(queries.bound_ids(result.settings))
    shown_stem, overview = _overview(result, bound_looks)
    sections = []
    for setting, stem in settings:
        if isinstance(setting, StudyResult):
            section = study_section.section(setting, stem, first_shown=stem == shown_stem)
        else:
            section = setting_section.section(setting, stem, bound_looks)
        sections.append(replace(section, folded=len(settings) > _MAX_OPEN_SETTINGS))
    scenario = result.scenario
    sentences = [part.rstrip(".") for part in (scenario.summary, scenario.reference) if part]
    return Document(
        title=scenario.title or scenario.name,
        subtitle=" ".join(f"{sentence}." for sentence in sentences),
        conclusion=conclusion(result),
        tables=tuple(summaries(result)),
        overview=overview,
        sections=(*sections, *_closing(result)),
    )


def _overview(result: Result, bound_looks: dict[str, Look]) -> tuple[str, Gallery]:
    """Return the figure of the first screen, and the stem of the study that it is of."""
    compared = queries.compared(result.settings)
    if compared:
        return "", Gallery((sandwich.draw(compared, bound_looks),))
    for study, stem in queries.with_stems(result.settings):
        if isinstance(study, StudyResult) and study.findings.charts:
            chart = charts.draw(study.findings.charts[0], stem)
            if len(result.settings) > 1:
                chart = replace(chart, title=f"{queries.title(study)}: {chart.title}")
            return stem, Gallery((chart,))
    return "", Gallery(())


def summaries(result: Result) -> list[Table]:
    """Return the tables of the first screen: epsilons, then statements, where there are any."""
    named = queries.with_stems(result.settings)
    compared = [(one, stem) for one, stem in named if not isinstance(one, StudyResult)]
    studies = [(one, stem) for one, stem in named if isinstance(one, StudyResult)]
    statements = study_section.summary(studies)
    epsilons = [setting_section.summary(compared)] if compared or not statements.rows else []
    return [*epsilons, *([statements] if statements.rows else [])]


_SPACE = "\N{NO-BREAK SPACE}"
_ORDERS = {
    Order.FORWARD: f"X{_SPACE}against{_SPACE}X'",
    Order.REVERSE: f"X'{_SPACE}against{_SPACE}X",
}
_COMPARISONS = (
    "Exact value of the pair. The laws of the last iterate under the two neighbouring datasets are "
    "computed, not sampled, and every numerical error widens the bracket that is stored; only "
    "digits on which both ends of the bracket agree are printed. Epsilon is the worse of both "
    "orders of the pair: X against X', and X' against X.",
    "Certified lower bound. One part of the samples chooses the events, the rest counts them. "
    "Whatever was chosen from is paid for, so that all certified numbers of one setting hold "
    "together with confidence {confidence}. They are rounded down. Samples cannot certify more "
    "than their number allows, however far apart the two laws are.",
    "Claimed upper bound. Each theorem is evaluated at the mechanism's public parameters and "
    "rounded up. A pair gives a lower bound on the privacy loss of the mechanism, so a claim below "
    "it is refuted. Where a claim is far above, either the claim is loose or the pair is not the "
    "worst one.",
    "Verdicts. Refuted: the claim is contradicted even after every error is taken in its favour. "
    "Consistent: it is not, which is no proof of it. Inconclusive: the bracket is too wide to "
    "tell. Not applicable: the mechanism does not meet the assumptions.",
)
_STATEMENTS = (
    "Statements. A study checks statements one by one, each against a value that was computed or "
    "sampled; the error that is allowed for stands beside it. Where samples decide, the study's "
    "own words say which share of the error of {error} is spent on them. Refuted: what was found "
    "contradicts the statement even after every error is taken in its favour. Holds: it does not, "
    "and what was found agrees within the error. Inconclusive: the error is too large to tell."
)


def _closing(result: Result) -> tuple[Section, ...]:
    """Return the sections that end every report."""
    confidence = (
        f"Confidence of the certified numbers: {short(result.confidence, 6, Rounding.DOWN)}."
    )
    counted = counts(result.settings)
    evidence = (confidence, counted) if counted.rows else (confidence,)
    return (
        Section(ident="methods", title="Methods", parts=_methods(result)),
        Section(ident="evidence", title="Counts and confidence", parts=evidence, folded=True),
        Section(ident="provenance", title="Provenance", parts=(_provenance(result),), folded=True),
    )


def _methods(result: Result) -> tuple[str, ...]:
    """Return how the numbers were found and what a verdict means."""
    texts = [
        *(_COMPARISONS if queries.compared(result.settings) else ()),
        *([_STATEMENTS] if queries.studies(result.settings) else ()),
    ]
    share = 100 * Decimal(str(result.confidence))
    confidence = f"{short(float(share), 4, Rounding.DOWN)}%"
    error = f"{short(float(100 - share), 3, Rounding.UP)}%"
    return tuple(text.format(confidence=confidence, error=error) for text in texts)


def counts(settings: Sequence[SettingResult]) -> Table:
    """Return the event, the counts and the error spent behind each certified lower bound."""
    share = ColumnFormat(lambda pair: Cell.number(f"{count(pair[0])} of {count(pair[1])}", pair[0]))
    spent = ColumnFormat(lambda value: Cell.number(number(value, 3), value))
    most = ColumnFormat(lambda value: Cell.number(number(value, 4, Rounding.UP), value))
    columns = {
        "Setting": TEXT,
        "δ": PARAMETER,
        "Certified lower bound": LOWER,
        "Order": TEXT,
        "Event": TEXT,
        "X in it": share,
        "X' in it": share,
        "Error spent": spent,
        "Most these samples could certify": most,
    }
    rows = [
        (
            queries.title(setting),
            row.delta,
            row.sampled.epsilon,
            _ORDERS[row.sampled.order],
            _event(row.sampled),
            (row.sampled.count, row.sampled.total),
            (row.sampled.count_prime, row.sampled.total_prime),
            row.sampled.error_spent,
            row.sampled.largest_certifiable,
        )
        for setting in queries.compared(settings)
        for row in setting.deltas
    ]
    return Table.of("What each certified lower bound rests on", columns, rows)


def _event(sampled: SampledEvidence) -> str:
    """Return the event, such as ``x ≥ 0.3125``."""
    tail = sampled.tail.value.replace(">=", "≥").replace("<=", "≤")
    return f"{tail.removesuffix('t')}{plain(sampled.threshold)}".replace(" ", _SPACE)


def _provenance(result: Result) -> Table:
    """Return where the run comes from: versions, commit, seed, time."""
    source, environment = result.provenance, result.provenance.environment
    rows = {
        "scenario": result.scenario.name,
        "version": source.version,
        "seed": plain(source.seed),
        "random numbers": f"stream {source.stream}",
        "command": source.command,
    }
    if environment is not None:
        commit = environment.commit or "none"
        rows |= {
            "started": environment.started,
            "threads": plain(environment.threads),
            "python": environment.python,
            "commit": f"{commit}, with changes" if environment.commit_dirty else commit,
            "wall time": duration(environment.wall_seconds),
        }
    timed = [
        (f"wall time of “{queries.title(setting)}”", duration(setting.wall_seconds))
        for setting in result.settings
        if setting.wall_seconds is not None
    ]
    packages = environment.packages if environment is not None else {}
    listed = [("packages", ", ".join(f"{name} {v}" for name, v in packages.items()))]
    return Table.of(
        "Where these numbers come from",
        {"What": TEXT, "Value": TEXT},
        [*rows.items(), *timed, *(listed if environment is not None else [])],
        stacked=False,
    )
