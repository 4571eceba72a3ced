r"""Tables of a report for LaTeX, in the style of the booktabs package.

The text needs ``\usepackage{booktabs,longtable}`` and any engine that reads UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from audit.report.document import Cell, Style, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # with a star, an option of the end of the row before
    "*": "{*}",
    "\u201c": "``",
    "\u201d": "''",
    "\u2013": "--",
    "\u2026": r"\ldots{}",
    "\u2265": r"$\geq$",
    "\u2264": r"$\leq$",
    "\u00d7": r"$\times$",
    "\u2212": r"$-$",
    "\u221e": r"$\infty$",
    "\u221a": r"$\surd$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "η": r"$\eta$",
    "σ": r"$\sigma$",
    "μ": r"$\mu$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "κ": r"$\kappa$",
}
_PACKAGES = "% needs \\usepackage{booktabs,longtable}\n"
_MAX_LINE = 24  # letters of a column beyond which its lines are broken
_IDENTIFIER = re.compile(r"[a-z0-9]+(\.[a-z0-9_]+)+")


def document(tables: Sequence[Table]) -> bytes:
    r"""Return tables as one file for ``\input``; numbers and words are those of the report."""
    return ("\n".join([_PACKAGES, *(table(one) for one in tables)])).encode(
        "utf-8", "backslashreplace"
    )


def table(content: Table) -> str:
    """Return one table as a ``longtable``, which breaks over pages."""
    names = " & ".join(escaped(label) for label, _ in content.columns)
    head = [r"\toprule", rf"{names} \\", r"\midrule"]
    lines = [
        rf"\begin{{longtable}}{{{_widths(content)}}}",
        rf"\caption{{{escaped(content.caption)}}} \\",
        *head,
        r"\endfirsthead",
        *head,
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *(" & ".join(_cell(cell) for cell in row) + r" \\" for row in content.rows),
        r"\end{longtable}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it is, on one line."""
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def _cell(cell: Cell) -> str:
    text = _word(cell.text, code=cell.style is Style.CODE)
    if cell.style is Style.VERDICT and cell.text in ("refuted", "error"):
        text = rf"\textbf{{{text}}}"
    if not cell.note:
        return text
    note = _word(cell.note, code=_IDENTIFIER.fullmatch(cell.note) is not None)
    return rf"{text} {{\footnotesize {note}}}".strip()


def _word(text: str, *, code: bool) -> str:
    """Return text, an identifier in a fixed width that may break after its dots."""
    if not code:
        return escaped(text)
    pieces = (escaped(piece) for piece in text.split("."))
    return r"\texttt{" + r".\allowbreak{}".join(pieces) + "}"


def _widths(content: Table) -> str:
    """Return the column types: numbers to the right, long text in lines of a quarter's width."""
    found = []
    for i, (_, column) in enumerate(content.columns):
        longest = max((len(row[i].text) + len(row[i].note) for row in content.rows), default=0)
        short = "r" if column.numeric else "l"
        found.append(short if longest <= _MAX_LINE else r"p{0.2\linewidth}")
    return "@{}" + "".join(found) + "@{}"
