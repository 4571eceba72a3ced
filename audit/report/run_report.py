"""From a stored result to the parts of its report."""

from __future__ import annotations

from collections.abc import Sequence

from audit.report import appendix, conclusion, figures, proof, setting_tables, stored, study_section
from audit.report.document import Document, Gallery, Heading, Part, Section, Table, Text
from audit.report.figures.style import Look, looks
from audit.report.number_format import Rounding, number, plain
from audit.report.stored import Node


def build(result: Node) -> Document:
    """Draw every figure and fill every table of a checked result."""
    settings = stored.stemmed(result["settings"])
    result = {**result, "settings": settings}
    scenario = result["scenario"]
    known = looks(stored.bound_ids(settings))
    summary, statements = _summaries(settings)
    stem, overview = _overview(settings, known)
    return Document(
        title=str(scenario.get("title") or scenario["name"]),
        subtitle=" ".join(
            str(part).rstrip(".") + "." for part in _both(scenario, "summary", "reference")
        ),
        conclusion=conclusion.conclusion(result),
        summary=summary,
        statements=statements,
        overview=overview,
        sections=(
            *(
                study_section.section(setting, first_shown=stored.stem(setting) == stem)
                if setting.get("study")
                else _setting(setting, known)
                for setting in settings
            ),
            *_end(result),
        ),
    )


def _summaries(settings: Sequence[Node]) -> tuple[Table, Table | None]:
    """Return the first screen's table, and the second where the report mixes both kinds."""
    compared, statements = stored.compared(settings), study_section.summary(settings)
    if statements and not compared:
        return statements, None
    return setting_tables.summary(compared), statements


def _overview(settings: Sequence[Node], known: dict[str, Look]) -> tuple[str, Gallery]:
    """Return the first screen's figure, and the stem of the study that it is of."""
    compared = stored.compared(settings)
    if compared:
        return "", Gallery((figures.sandwich.draw(compared, known),))
    found = study_section.overview(settings)
    return ("", Gallery(())) if found is None else (found[0], Gallery((found[1],)))


def _both(node: Node, *names: str) -> list[str]:
    return [node[name] for name in names if node.get(name)]


def _setting(setting: Node, known: dict[str, Look]) -> Section:
    parts: list[Part] = []
    if setting.get("summary"):
        parts.append(Text(str(setting["summary"])))
    parts.append(Text(conclusion.mechanism(setting)))
    parts.append(_pictures(setting, known))
    parts += _present(setting_tables.claims(setting), setting_tables.inapplicable(setting))
    parts += _present(setting_tables.estimators(setting), setting_tables.positions(setting))
    parts += _present(setting_tables.orders(setting), setting_tables.renyi(setting))
    parts += _present(setting_tables.searched(setting))
    if setting.get("mu_lower") is not None:
        mu = number(setting["mu_lower"], 4, Rounding.DOWN)
        parts.append(
            Text(
                f"The samples refute every claim of mu-GDP with mu below {mu}. "
                "This number says nothing of epsilon."
            )
        )
    parts += _proof(setting.get("diagnostics"), setting)
    return Section(
        ident=f"setting-{stored.stem(setting)}", title=stored.title(setting), parts=tuple(parts)
    )


def _pictures(setting: Node, known: dict[str, Look]) -> Gallery:
    pictures = []
    if setting.get("laws"):
        pictures.append(figures.laws.draw(setting))
    if setting.get("tradeoff"):
        pictures.append(figures.tradeoff.draw(setting, known))
    if len((setting.get("epsilon_against_steps") or {}).get("steps", ())) > 1:
        pictures.append(figures.steps.draw(setting, known))
    if figures.renyi.has_curve(setting):
        pictures.append(figures.renyi.draw(setting, known))
    if setting.get("positions"):
        pictures.append(figures.positions.draw(setting, known))
    if setting.get("scores"):
        pictures.append(figures.scores.draw(setting))
    return Gallery(tuple(pictures), setting_tables.parameters(setting))


def _proof(diagnostics: Node | None, setting: Node) -> list[Part]:
    if not diagnostics:
        return []
    parts: list[Part] = [Heading("What the paper's proof claims")]
    parts += _present(proof.statements(diagnostics))
    if diagnostics.get("domination"):
        parts.append(Gallery((figures.domination.draw(setting),)))
    below = proof.below_threshold(diagnostics)
    if below:
        parts += [Text(proof.below_threshold_words(diagnostics)), below]
    return parts


def _end(result: Node) -> tuple[Section, ...]:
    return (
        Section(ident="methods", title="Methods", parts=appendix.methods(result)),
        Section(
            ident="evidence",
            title="Counts and confidence",
            parts=(
                Text(f"Confidence of the certified numbers: {plain(result['confidence'])}."),
                *_present(appendix.counts(result["settings"])),
            ),
        ),
        Section(ident="provenance", title="Provenance", parts=(appendix.provenance(result),)),
    )


def _present(*found: Table | None) -> list[Table]:
    return [table for table in found if table is not None]
