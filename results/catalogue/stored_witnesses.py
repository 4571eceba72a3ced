"""Witnesses of refuted statements: stored, and verified."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.claims.judge import Outcome, verify
from audit.claims.witness import Witness
from audit.curves import Order

FOLDER, TABLE = "witnesses", "witnesses.csv"
_ENDING = ".witness.json"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A line of the table of witnesses.

    Attributes
    ----------
    claim
        Id of the refuted claim, which names the file.
    quantity
        What is compared, between which laws.
    claimed
        The claimed number.
    verification
        The answer of ``audit-verify``, and its reason.
    verified
        Whether it confirms the refutation.
    """

    claim: str
    quantity: str
    claimed: str
    verification: str
    verified: bool

    @property
    def file(self) -> str:
        """Path of the witness, from the folder of the catalogue."""
        return f"{FOLDER}/{self.claim}{_ENDING}"


def write(witnesses: Mapping[str, Witness], folder: Path) -> tuple[Stored, ...]:
    """Write the file of each claim and the table, and remove files of other claims."""
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for file in place.glob(f"*{_ENDING}"):
        if file.name.removesuffix(_ENDING) not in witnesses:
            file.unlink()
    found = []
    for claim, witness in witnesses.items():
        (place / f"{claim}{_ENDING}").write_text(witness.to_json(), encoding="utf-8")
        found.append(_stored(claim, witness))
    (folder / TABLE).write_text(_to_csv(found), encoding="utf-8")
    return tuple(found)


def _stored(claim: str, witness: Witness) -> Stored:
    found = verify(witness)
    place = {"mu": "", "1 - beta": f" at alpha {witness.at:g}"}
    place |= {"epsilon": f" at delta {witness.at:g}"}
    place |= {"Renyi divergence": f" of order {witness.at:g}"}
    forward = witness.order is Order.FORWARD
    laws = "first against second law" if forward else "second against first law"
    return Stored(
        claim=claim,
        quantity=f"{witness.quantity}{place[witness.quantity]}, {witness.construction}, {laws}",
        claimed=f"{witness.claimed:.6g}",
        verification=found.line,
        verified=found.outcome is Outcome.VERIFIED,
    )


def _to_csv(rows: list[Stored]) -> str:
    text = io.StringIO()
    columns = ("claim", "quantity", "claimed", "verification")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()
