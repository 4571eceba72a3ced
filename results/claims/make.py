"""Judge the claims of the papers and write the table: ``python results/claims/make.py``.

The other two tables have programs of their own beside this one: ``mutations.py`` and
``false_alarms.py``, which takes hours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from audit.claims import formats
from audit.claims.checking import check
from audit.claims.formats import Format

FOLDER = Path(__file__).resolve().parent
CLAIMS = FOLDER.parents[1] / "scenarios" / "claims" / "published.claims.yaml"
_ERROR = 0.01
_BROKEN_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``published.md``; return 1 if a verdict is unexpected."""
    parser = argparse.ArgumentParser(
        prog="python results/claims/make.py",
        description="Judge the claims of the papers and write the table.",
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the table goes")
    options = parser.parse_args(arguments)
    checked = check([CLAIMS], error=_ERROR, exhaustive=True)
    for wrong in (*checked.complaints, *(judgement.message for judgement in checked.failures)):
        print(f"error: {wrong}", file=sys.stderr)
    if checked.complaints:
        return _BROKEN_INPUT
    options.out.mkdir(parents=True, exist_ok=True)
    page = formats.write(checked, Format.MARKDOWN)
    (options.out / "published.md").write_text(page, encoding="utf-8")
    print(f"{len(checked.judgements)} claims: {options.out / 'published.md'}")
    return checked.status


if __name__ == "__main__":
    sys.exit(main())
