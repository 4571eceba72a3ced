"""The recorded claims of scenarios/claims/opacus.claims.yaml are those of the installed Opacus."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.adapters import opacus
from audit.claims.claims_file import load
from audit.curves.quantities import RenyiAtOrder

FOLDER = Path(__file__).resolve().parents[3] / "scenarios" / "claims"
CLAIMS = load([FOLDER / "opacus.claims.yaml"]).claims


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_recorded(claim):
    recorded = [number.value for number in claim.statement.numbers]
    places = [quantity.at for quantity in claim.statement.quantities]
    if isinstance(claim.statement.quantities[0], RenyiAtOrder):
        found = opacus.rdp_divergences(claim.mechanism, orders=places)
    else:
        which = "prv" if ".prv." in claim.id else "rdp"
        found = opacus.claimed_epsilons(claim.mechanism, accountant=which, deltas=places)
    # Fourier transforms and sums round differently from machine to machine
    assert found == pytest.approx(recorded, rel=1e-6)


def test_the_accountants_are_judged_live(tmp_path):
    from audit.claims.judge import check
    from audit.results import Verdict

    (tmp_path / "live.claims.yaml").write_text(
        f"include: {FOLDER / 'opacus.claims.yaml'}\n"
        "claims:\n"
        "  - {id: prv, mechanism: h03, accountant: opacus.prv, deltas: [1e-5]}\n"
        "  - {id: rdp, mechanism: h03, accountant: opacus.rdp, orders: [2, 8], deltas: [1e-5]}\n"
        "  - {id: gdp, mechanism: h03, accountant: opacus.gdp, deltas: [1e-5]}\n"
    )
    checked = check([tmp_path / "live.claims.yaml"], error=0.05)
    verdicts = {j.claim.id: j.verdict for j in checked.judgements}
    assert not checked.complaints
    assert verdicts["prv"] is verdicts["rdp"] is Verdict.CONSISTENT
    # a central limit theorem, and no bound
    assert verdicts["gdp"] in (Verdict.CONSISTENT, Verdict.REFUTED)
