"""Judge the claims of papers and accountants: ``python results/claims/make.py``.

Each of the two claims files gets a table; that of the accountants needs dp-accounting. The other
two tables are made by ``mutations.py`` and by ``false_alarms.py``, which takes hours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from audit.claims import formats
from audit.claims.formats import Format
from audit.claims.judge import check

FOLDER = Path(__file__).resolve().parent
CLAIMS = FOLDER.parents[1] / "scenarios" / "claims"
FILES = ("published", "accountants")
_ERROR = 0.01
_BROKEN_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a page for each of ``FILES``; return 1 if a verdict is unexpected."""
    parser = argparse.ArgumentParser(
        prog="python results/claims/make.py",
        description="Judge the claims of papers and accountants and write the tables.",
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the tables go")
    parser.add_argument("files", nargs="*", default=FILES, help="published, accountants")
    options = parser.parse_args(arguments)
    return max(_judge(name, options.out) for name in options.files)


def _judge(name: str, folder: Path) -> int:
    checked = check([CLAIMS / f"{name}.claims.yaml"], error=_ERROR, exhaustive=True)
    for wrong in (*checked.complaints, *(judgement.message for judgement in checked.failures)):
        print(f"error: {wrong}", file=sys.stderr)
    if checked.complaints:
        return _BROKEN_INPUT
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.md"
    page.write_text(formats.write(checked, Format.MARKDOWN), encoding="utf-8")
    print(f"{len(checked.judgements)} claims: {page}")
    return checked.status


if __name__ == "__main__":
    sys.exit(main())
