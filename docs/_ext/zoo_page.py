"""The directive ``zoo``: the cases of the zoo by package, each with its claims in a table."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from stored_results import RESULTS, ROOT, Stored, raw, rows_of

from audit.numerics.number_format import Rounding, number

Row = Mapping[str, str]

SOURCE = "https://github.com/noisy-sgd-audit/noisy-sgd-audit/blob/main"
HEADINGS = ("release", "claim", "verdict", "claimed", "certified", "quantity", "evidence")
_DIGITS = 5


class Zoo(Stored):
    """Every case as a block that opens."""

    def run(self) -> list[nodes.Node]:
        """Write the blocks, package by package."""
        by_case: dict[str, list[Row]] = {}
        for row in rows_of(self.read(RESULTS / "zoo" / "zoo.csv")):
            by_case.setdefault(row["case"], []).append(row)
        by_package: dict[str, list[str]] = {}
        for name, rows in by_case.items():
            path = self.read(ROOT / "scenarios" / "zoo" / name / "case.yaml")
            case = yaml.safe_load(path.read_text(encoding="utf-8"))
            by_package.setdefault(case["package"], []).append(block(name, case, rows))
        parts = [
            f'<p class="rubric group">{html.escape(package)}</p>{"".join(blocks)}'
            for package, blocks in by_package.items()
        ]
        return [raw("".join(parts))]


def block(name: str, case: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return one case: its title, its counts, its links, and the table of its claims."""
    verdicts = Counter(row["verdict"] for row in rows)
    badges = "".join(
        f' <span class="badge verdict-{html.escape(verdict)}">{count} {html.escape(verdict)}</span>'
        for verdict, count in sorted(verdicts.items(), reverse=True)
    )
    releases = ", ".join(dict.fromkeys(row["version"] for row in rows))
    links = [_link(f"{SOURCE}/scenarios/zoo/{name}/README.md", "what was run, and why")]
    links += [_link(address, _thread(address)) for address in case["upstream"]]
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return (
        f'<details class="entry" id="{html.escape(name)}"><summary>{html.escape(case["title"])}'
        f'<span class="gist">{releases}{badges}</span></summary>'
        f'<p class="links">{"; ".join(links)}</p>'
        f'<div class="pst-scrollable-table-container"><table class="table claims">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _cells(row: Row) -> str:
    evidence = row["evidence"]
    if row["verification"]:
        evidence += f", {row['verification']}"
    texts = (
        row["version"],
        row["claim"],
        row["verdict"],
        _number(row["claimed"], Rounding.UP),
        _number(row["certified"], Rounding.DOWN),
        row["quantity"],
        evidence or row["reason"],
    )
    return "".join(f"<td>{html.escape(text)}</td>" for text in texts)


def _number(text: str, rounding: Rounding) -> str:
    return number(float(text), _DIGITS, rounding) if text else ""


def _thread(address: str) -> str:
    """Return ``owner/name issue 1`` for the address of a thread on GitHub."""
    *_, owner, name, kind, thread = address.split("/")
    return f"{owner}/{name} {'issue' if kind == 'issues' else 'pull request'} {thread}"


def _link(address: str, text: str) -> str:
    return f'<a href="{html.escape(address)}">{html.escape(text)}</a>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("zoo", Zoo)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
