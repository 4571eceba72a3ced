"""The page of a statement on the panel."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from audit import Batching, NoisySGD, Release
from audit.codec import decode
from audit.curves import Order
from audit.report.mechanism_line import mechanism_line
from audit.report.render import html
from audit.results import Verdict
from audit_panel import page as panel_page
from audit_panel import write as write_panel
from audit_panel.verdicts import PanelPoint, PanelVerdict

MECHANISM = NoisySGD(
    steps=3, dataset_size=4, batch_size=4, step_size=0.1, noise_std=0.5, lipschitz=1.0
)
REGIME = {"length": "several steps, no walls", "push": "strong push", "batches": "full"}


def point(certified: float, claimed: float, competing: float, **fields: object) -> PanelPoint:
    verdict = Verdict.unless(claimed < certified)
    made = PanelPoint(
        number=7,
        mechanism=MECHANISM,
        regime=REGIME,
        verdict=verdict,
        quantity="epsilon",
        at=1e-5,
        claimed=claimed,
        certified=certified,
        order=Order.FORWARD,
        pair="TwoSidedWalk",
        competitor="bsa24.theorem_4_1",
        competing=competing,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


NOTHING = PanelPoint(
    number=8, mechanism=MECHANISM, regime=REGIME, verdict=Verdict.ERROR, message="it <raised>"
)
VERDICT = PanelVerdict(
    id="mine.theorem",
    citation="Me (2030), A Title, Theorem 1",
    bibtex="@misc{me2030title,\n  author = {Me},\n}",
    statement="mu-GDP with mu < 1",
    status="unproven",
    assumptions=("full batches", "convex losses"),
    expected=Verdict.CONSISTENT,
    points=(point(2.0, 4.0, 3.0), point(2.0, 2.001, 3.0), point(2.0, 8.0, 3.0), NOTHING),
)
WITNESS = {"format": 1, "claim": "mine.theorem.7"}
REFUTED = replace(
    VERDICT,
    points=(*VERDICT.points, point(2.0, 1.0, 3.0, witness=WITNESS)),
    verification="verified: refuted",
    confirmed=4,
)


def test_the_conclusion_of_a_consistent_statement() -> None:
    assert panel_page.conclusion(VERDICT) == (
        "Not refuted on any of 3 mechanisms of the panel.",
        "This is no proof: other mechanisms, or other datasets, may refute it.",
        "On 1 it cannot be evaluated: it <raised>.",
        "On 1 of 3 mechanisms it is tight: the claimed number is at most 1.01 times the certified "
        "one.",
        "On 1 of 3 mechanisms it is smaller than every other sound bound of the catalogue.",
    )


def test_the_conclusion_of_a_refuted_statement() -> None:
    assert panel_page.conclusion(REFUTED)[:3] == (
        "Refuted on 1 of 4 mechanisms.",
        "Most clearly, epsilon at delta 1e-5 is certified to be at least 2.0000 and claimed to be "
        "at most 1.0000.",
        "The witness: verified: refuted.",
    )
    unconfirmed = replace(REFUTED, confirmed=None)
    assert unconfirmed.verdict is Verdict.INCONCLUSIVE
    assert panel_page.conclusion(unconfirmed)[0] == (
        "Not decided: once a certified number exceeds the claimed one, and it could not "
        "be verified."
    )


def test_what_the_panel_cannot_reach() -> None:
    empty = replace(VERDICT, points=(), unreached="no mechanism of the panel has 7 steps")
    assert empty.verdict is Verdict.INCONCLUSIVE
    text = "The panel cannot reach this statement: no mechanism of the panel has 7 steps."
    assert panel_page.conclusion(empty) == (text,)
    assert text in html(panel_page.build(empty, "w.json")).decode("utf-8")
    failed = replace(VERDICT, points=(NOTHING,))
    assert failed.verdict is Verdict.ERROR
    assert panel_page.conclusion(failed) == ("Nothing could be judged: error: it <raised>.",)


def test_the_page_and_its_files(tmp_path: Path) -> None:
    written = write_panel(REFUTED, tmp_path)
    assert [path.name for path in written] == [
        "mine.theorem.html",
        "mine.theorem.json",
        "mine.theorem.witness.json",
    ]
    page = written[0].read_text(encoding="utf-8")
    assert "<h1>mine.theorem</h1>" in page
    assert "audit-check verify mine.theorem.witness.json" in page
    assert "it &lt;raised&gt;" in page
    assert "<pre>@misc{me2030title,\n" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)  # nothing is loaded
    sections = re.findall(r"<h2>(.*?)</h2>", page)
    assert sections == [
        "Where it is refuted",
        "Where it is tight",
        "Against the tightest other bounds",
        "The statement",
        "Mechanisms that could not be judged",
        "All judged mechanisms",
    ]
    stored = decode(PanelVerdict, json.loads(written[1].read_text(encoding="utf-8")))
    assert stored == REFUTED
    assert json.loads(written[2].read_text(encoding="utf-8")) == WITNESS


def test_a_mechanism_on_one_line() -> None:
    assert mechanism_line(MECHANISM) == "T=3, n=4, b=4, eta=0.1, sigma=0.5, L=1"
    schedule = replace(MECHANISM, step_size=(0.3, 0.2, 0.1), convex=False)
    assert mechanism_line(schedule) == "T=3, n=4, b=4, eta=0.3/0.2/0.1, sigma=0.5, L=1, not convex"
    steps = tuple(0.1 / t for t in range(1, 11))
    long = replace(MECHANISM, steps=10, step_size=steps)
    assert "eta=0.1 to 0.01," in mechanism_line(long)
    everything = {"batch_size": 1, "release": Release.ALL_ITERATES}
    sampled = replace(MECHANISM, **everything, batching=Batching.POISSON, poisson_rate=0.3)
    assert "L=1, poisson rate=0.3, batching: poisson, " in mechanism_line(sampled)
