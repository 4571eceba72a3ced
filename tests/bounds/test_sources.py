from audit import bounds
from audit.bounds import Source


def test_a_source_prints_as_text_and_as_bibtex():
    source = bounds.CATALOGUE["bsa24.theorem_4_3"].cite
    assert str(source) == (
        "Bok, Su, Altschuler (2024), Shifted Interpolation for Differential Privacy, Theorem 4.3"
    )
    assert source.bibtex() == "\n".join(
        [
            "@inproceedings{bok2024shifted,",
            "  author = {Bok, Jinho and Su, Weijie J. and Altschuler, Jason M.},",
            "  title = {{Shifted Interpolation for Differential Privacy}},",
            "  booktitle = {International Conference on Machine Learning (ICML)},",
            "  year = {2024},",
            "  eprint = {2403.00278},",
            "  archiveprefix = {arXiv},",
            "  note = {Theorem 4.3},",
            "}",
        ]
    )


def test_what_is_not_known_is_left_out():
    assert Source("You", 2026, "An example").bibtex() == "\n".join(
        [
            "@misc{you2026example,",
            "  author = {You},",
            "  title = {{An example}},",
            "  year = {2026},",
            "}",
        ]
    )
    assert str(Source("You", 2026, "An example")) == "You (2026), An example"


def test_every_source_names_a_place_and_no_internal_label():
    for entry in bounds.CATALOGUE.values():
        assert entry.cite.place
        assert "paper 00" not in str(entry.cite) + entry.statement
        assert entry.cite.bibtex().count("{") == entry.cite.bibtex().count("}")
    keys = {entry.cite.key: entry.cite.title for entry in bounds.CATALOGUE.values()}
    assert len(keys) == len(set(keys.values()))
