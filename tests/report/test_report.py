from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from audit import report
from audit.report import render, setting_tables, stored
from audit.report.conclusion import conclusion
from audit.report.document import Cell, Column, Document, Gallery, Table

from .example import example


class _Page(HTMLParser):
    """Collects tags, attributes, ids and the numbers of ``data`` elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.data: list[tuple[Any, str]] = []
        self._value: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._value = dict(attrs).get("value") if tag == "data" else None

    def handle_data(self, data: str) -> None:
        if self._value is not None:
            self.data.append((json.loads(self._value), data))
            self._value = None


@pytest.fixture(scope="module")
def page(written: Path) -> _Page:
    return _Page((written / "report.html").read_text(encoding="utf-8"))


def _numbers(node: Any) -> Iterator[float]:
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        for item in node:
            yield from _numbers(item)
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield float(node)


def test_files(written: Path) -> None:
    names = {path.relative_to(written).as_posix() for path in written.rglob("*.*")}
    kinds = [
        "sandwich",
        *[f"{s}-{k}" for s in ("full_batch", "sampled", "paper") for k in ("laws", "steps")],
        *[f"{s}-tradeoff" for s in ("full_batch", "sampled", "paper")],
        *[f"{s}-renyi" for s in ("full_batch", "sampled")],  # one order is no curve
        "paper-domination",
    ]
    figures = {f"figures/{kind}.{end}" for kind in kinds for end in ("svg", "png")}
    assert names == {"report.html", "report.md", *figures}


def test_same_input_same_bytes(written: Path, tmp_path: Path) -> None:
    paths = report.write(json.loads(json.dumps(example())), tmp_path)
    assert len(paths) == len(set(paths)) == 2 + 2 * 13
    for path in paths:
        assert path.read_bytes() == (written / path.relative_to(tmp_path)).read_bytes(), path.name


def test_page_loads_nothing(written: Path, page: _Page) -> None:
    text = (written / "report.html").read_text(encoding="utf-8")
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
            assert value.startswith("#"), (name, value)
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert text.count("<svg") == 13


def test_links_and_ids(page: _Page) -> None:
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {v[1:] for name, v in page.attributes if name in ("href", "xlink:href")}
    assert targets <= set(ids)


def test_numbers_on_the_page_are_those_of_the_result(page: _Page) -> None:
    known = set(_numbers(example()))
    assert len(page.data) > 100
    for value, _ in page.data:
        assert set(_numbers(value)) <= known, value
    shown = {json.dumps(value) for value, _ in page.data}
    for setting in example()["settings"]:
        for row in setting["deltas"]:
            expected = [row["sampled"]["epsilon"], *row["exact"].values()]
            expected += [b["epsilon"] for b in row["bounds"] if b["verdict"] != "not applicable"]
            assert {json.dumps(value) for value in expected} <= shown


def test_numbers_read_as_what_they_stand_for(page: _Page) -> None:
    for value, text in page.data:
        first = text.replace(",", "").removeprefix("≥ ").split(" ")[0]
        low = value[0] if isinstance(value, list) else value
        if low is None:
            assert first in ("inf", "–")
        else:
            assert math.isclose(float(first), low, rel_tol=2e-3), (value, text)


def test_conclusion_and_verdicts(written: Path) -> None:
    for name in ("report.html", "report.md"):
        text = (written / name).read_text(encoding="utf-8")
        plain = text.replace("<wbr>", "").replace("\\", "")
        assert "1 of 16 claimed upper bounds is refuted (example.theorem_1 claims 2.950" in plain
        assert "1.213 times the exact value" in plain
        assert "9.329 times where the gap is widest" in plain
        assert "samples certify between 4% and 92% of the exact values" in plain
        assert "bsa24.theorem_4_3 needs batching = full" in plain.replace("&#39;", "'")
        assert "verified" not in text.lower()
        for word in ("consistent", "refuted", "not apply", "1 - e^-180.1", "140625"):
            assert word in plain, word


def test_markdown_links_its_figures(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\((figures/[^)]*\.png)\)", text))
    assert linked == {f"figures/{path.name}" for path in (written / "figures").glob("*.png")}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 50
    assert all(line.endswith("|") for line in rows)


def test_every_figure_has_a_caption(written: Path, page: _Page) -> None:
    assert page.tags.count("figure") == page.tags.count("figcaption") == 13
    text = (written / "report.html").read_text(encoding="utf-8")
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text, flags=re.DOTALL):
        assert len(re.sub(r"<[^>]*>", "", caption)) > 60, caption


def test_words_from_elsewhere_are_escaped(tmp_path: Path) -> None:
    result = example()
    result["settings"] = result["settings"][1:2]
    setting = result["settings"][0]
    for part in ("laws", "tradeoff", "epsilon_against_steps", "renyi"):
        del setting[part]
    evil = "<script>alert('x')</script> | *b* $x$ & c"
    result["scenario"].update(title=evil, summary=evil)
    setting.update(title=evil, summary=evil, name="../a b/ç")
    setting["deltas"][0]["bounds"][2]["reason"] = evil
    setting["deltas"][0]["bounds"][0]["id"] = evil
    report.write(result, tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert re.search(r"(?<!\\)<script", markdown) is None
    assert {path.name for path in tmp_path.iterdir()} == {"figures", "report.html", "report.md"}


def test_optional_parts_may_be_missing(tmp_path: Path) -> None:
    result = example()
    bare = {k: result["settings"][0][k] for k in ("name", "mechanism", "deltas")}
    for row in bare["deltas"]:
        row["sampled"] = None
        row["best"] = None
        row["bounds"] = []
    minimal = {k: result[k] for k in ("format", "confidence")}
    report.write({**minimal, "scenario": {"name": "s"}, "settings": [bare]}, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No claimed upper bound applies." in text
    assert "None" not in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "sandwich.svg",
        "sandwich.png",
    }


def test_half_filled_parts(tmp_path: Path) -> None:
    result = example()
    setting = result["settings"][0]
    result["settings"] = [setting, {**setting, "deltas": setting["deltas"][:1]}]
    del setting["other_pairs"], setting["construction"], setting["derived"], setting["renyi"]
    laws = setting["laws"]
    for key in ("edges", "histogram", "histogram_prime", "atoms", "atoms_prime"):
        del laws[key]
    setting["tradeoff"] = {key: setting["tradeoff"][key] for key in ("alpha", "exact")}
    setting["epsilon_against_steps"]["burn_in"] = None
    setting["deltas"][0]["exact"]["worst"] = [2.0, None]
    setting["deltas"][1]["sampled"]["epsilon"] = 0.0
    setting["diagnostics"] = {"events": [], "domination": None, "renyi_claim": None}
    report.write(result, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "≥ 2.00000" in text
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_counts_stored_by_order_are_put_back(tmp_path: Path) -> None:
    from audit.report import appendix

    row = {
        "value": 1.5,
        "order": "reverse",
        "event": "x <= t",
        "threshold": -0.25,
        "first_count": 7,
        "first_total": 10,
        "second_count": 1,
        "second_total": 20,
        "error_spent": 0.01,
        "sampling_limit": None,
    }
    delta = {"delta": 1e-5, "sampled": row, "exact": {"worst": [2.0, 2.0]}}
    table = appendix.counts([{"name": "s", "deltas": [delta]}])
    assert table is not None
    words = [cell.text.replace("\N{NO-BREAK SPACE}", " ") for cell in table.rows[0]]
    assert words == [
        "s", "1e-5", "1.5000", "X' against X", "x ≤ -0.25", "1 of 20", "7 of 10", "0.0100", "inf",
    ]  # fmt: skip


def test_a_refuted_bound_is_never_the_tightest() -> None:
    row = example()["settings"][0]["deltas"][1]
    row["best"] = {"id": "example.theorem_1", "epsilon": 2.95, "ratio": 0.95}
    best = stored.tightest(row)
    assert best is not None
    assert best["id"] == "bsa24.theorem_4_3"


def test_a_stronger_pair_is_named_and_compared_with() -> None:
    setting = example()["settings"][1]
    row = setting["deltas"][0]
    assert stored.strongest(row)[1] == ""
    row["certified"] = {"epsilon": 23.4567, "by": "DriftedWalk"}
    row["bounds"][0].update(epsilon=20.0, verdict="refuted", ratio=20 / 23.4567)
    assert stored.strongest(row) == (23.4567, "DriftedWalk")
    table = setting_tables.summary([setting])
    assert "where another pair is stronger" in table.caption
    assert [cell.text for cell in table.rows[0]][4:] == ["20.000", "0.853", "refuted"]
    assert table.rows[0][3].note == "DriftedWalk: 23.4567"
    words = conclusion({"settings": [setting]})
    assert "claims 20.00 where DriftedWalk has 23.45 at δ = 0.001" in words
    assert "times the exact value of the strongest pair" in words


def test_a_table_that_fits_a_phone_is_no_stack_of_cards() -> None:
    """Short cells without notes stay rows; a long word, a note or a verdict makes cards."""

    def table(*texts: str, note: str = "", verdict: bool = False) -> Table:
        cells = [Cell(text=text, note=note) for text in texts]
        cells += [Cell.verdict("refuted")] if verdict else []
        columns = tuple(Column(label="two words") for _ in cells)
        return Table(caption="c", columns=columns, rows=(tuple(cells),))

    assert table("1e-5", "2.75338", "4.08923").fits
    assert not table("1e-5", "a word that is much too long for a phone").fits
    assert not table("1e-5", note="a note").fits
    assert not table("1e-5", verdict=True).fits
    for one, kind in ((table("1"), "scrolling"), (table("1", note="n"), "stacked")):
        document = Document(
            title="t", subtitle="s", conclusion="c", summary=one, overview=Gallery(()), sections=()
        )
        assert f'<div class="{kind}"' in render.html(document).decode("utf-8")


def test_a_claim_named_in_words_has_quotes_in_the_sentence() -> None:
    result = example()
    bound = result["settings"][0]["deltas"][1]["bounds"][4]
    bound["id"] = "accountant, delta 1e-5"
    assert "(“accountant, delta 1e-5” claims 2.950 where" in conclusion(result)
