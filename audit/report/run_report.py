"""The report of one result."""

from __future__ import annotations

from dataclasses import replace

from audit.report import appendix, queries, setting_section, setting_tables, study_section
from audit.report.conclusion import conclusion
from audit.report.document import Document, Gallery, Section, Table
from audit.report.figures import sandwich
from audit.report.figures.style import Look, looks
from audit.results import Result, SettingResult, StudyResult

_OPEN = 4  # settings; where there are more, the reader opens those of interest


def build(result: Result) -> Document:
    """Draw every figure and fill every table of a result."""
    settings = queries.with_stems(result.settings)
    bound_looks = looks(queries.bound_ids(result.settings))
    shown_stem, overview = _overview(result, bound_looks)

    def section(setting: SettingResult, stem: str) -> Section:
        if isinstance(setting, StudyResult):
            return study_section.section(setting, stem, first_shown=stem == shown_stem)
        return setting_section.section(setting, stem, bound_looks)

    folded = len(settings) > _OPEN
    summary, *more = summaries(result)
    scenario = result.scenario
    sentences = [part.rstrip(".") for part in (scenario.summary, scenario.reference) if part]
    return Document(
        title=scenario.title or scenario.name,
        subtitle=" ".join(f"{sentence}." for sentence in sentences),
        conclusion=conclusion(result),
        summary=summary,
        statements=more[0] if more else None,
        overview=overview,
        sections=(
            *(replace(section(*one), folded=folded) for one in settings),
            *appendix.sections(result),
        ),
    )


def _overview(result: Result, bound_looks: dict[str, Look]) -> tuple[str, Gallery]:
    """Return the figure of the first screen, and the stem of the study that it is of."""
    compared = queries.compared(result.settings)
    if compared:
        return "", Gallery((sandwich.draw(compared, bound_looks),))
    for study, stem in queries.with_stems(result.settings):
        if isinstance(study, StudyResult) and study.findings.charts:
            alone = len(result.settings) == 1
            return stem, Gallery((study_section.first_chart(study, stem, alone=alone),))
    return "", Gallery(())


def summaries(result: Result) -> list[Table]:
    """Return the tables of the first screen: epsilons, then statements, where there are any."""
    named = queries.with_stems(result.settings)
    compared = [(one, stem) for one, stem in named if not isinstance(one, StudyResult)]
    studies = [(one, stem) for one, stem in named if isinstance(one, StudyResult)]
    statements = study_section.summary(studies)
    epsilons = [setting_tables.summary(compared)] if compared or not statements.rows else []
    return [*epsilons, *([statements] if statements.rows else [])]
