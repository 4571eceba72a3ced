"""Judge every statement of the papers and write the table: ``python results/catalogue/make.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from audit.claims.judge import check
from results.catalogue import page, statements, stored_witnesses
from results.catalogue.printed import printed
from results.catalogue.rows import rows

FOLDER = Path(__file__).resolve().parent
CLAIMS = FOLDER.parents[1] / "scenarios" / "claims"
FILES = ("published.claims.yaml", "own.claims.yaml", "accounting.claims.yaml", "recent.claims.yaml")
SIDE = "statements.yaml"
_ERROR = 0.01
_BROKEN_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, the table and the witnesses; return 1 if a verdict is unexpected."""
    parser = argparse.ArgumentParser(
        prog="python results/catalogue/make.py",
        description="Judge every statement of the papers and write the table.",
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the table goes")
    options = parser.parse_args(arguments)
    checked = check([CLAIMS / name for name in FILES], error=_ERROR, exhaustive=True)
    for wrong in (*checked.complaints, *(judgement.message for judgement in checked.failures)):
        print(f"error: {wrong}", file=sys.stderr)
    if checked.complaints:
        return _BROKEN_INPUT
    numbers = printed()
    found = rows(checked.judgements, statements.load(CLAIMS / SIDE), numbers)
    options.out.mkdir(parents=True, exist_ok=True)
    known = {j.claim.id: j.witness for j in checked.judgements if j.witness is not None}
    known |= {one.id: one.witness for one in numbers if one.witness is not None}
    stored = stored_witnesses.write(known, options.out)
    denied = [one for one in stored if not one.verified]
    for one in denied:
        print(f"error: witness of {one.claim}: {one.verification}", file=sys.stderr)
    (options.out / "catalogue.md").write_text(page.to_markdown(found, stored), encoding="utf-8")
    (options.out / "catalogue.csv").write_text(page.to_csv(found), encoding="utf-8")
    print(f"{len(found)} rows: {options.out / 'catalogue.md'}")
    return 1 if denied else checked.status


if __name__ == "__main__":
    sys.exit(main())
