"""Citations as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit.numerics.display import ShortRepr


@dataclass(frozen=True)
class Source(ShortRepr):
    """Citation that prints as text and as BibTeX.

    Parameters
    ----------
    authors : sequence of str
        Names as "Family, Given", or family names only. A single name may be a string.
    year : int
        Year of publication.
    title : str
        Title of the publication.
    place : str, default: ""
        Theorem, equation or section.
    venue : str, default: ""
        Conference or journal, if known.
    doi, arxiv : str, default: ""
        Identifiers, if known.

    Examples
    --------
    >>> source = Source(("Bok, Jinho", "Su, Weijie J."), 2024, "A Title", "Theorem 1")
    >>> print(source)
    Bok, Su (2024), A Title, Theorem 1
    """

    authors: Sequence[str]
    year: int
    title: str
    place: str = ""
    venue: str = ""
    doi: str = ""
    arxiv: str = ""

    def __post_init__(self) -> None:
        names = (self.authors,) if isinstance(self.authors, str) else tuple(self.authors)
        object.__setattr__(self, "authors", names)

    def at(self, place: str) -> Source:
        """Return the citation of a place in the same publication.

        Parameters
        ----------
        place : str
            Theorem, equation or section.

        Returns
        -------
        Source
            The citation.
        """
        return replace(self, place=place)

    @property
    def families(self) -> tuple[str, ...]:
        """Family names of the authors."""
        return tuple(name.split(",")[0] for name in self.authors)

    def __str__(self) -> str:
        text = f"{', '.join(self.families)} ({self.year}), {self.title}"
        return f"{text}, {self.place}" if self.place else text

    @property
    def key(self) -> str:
        """BibTeX key: first author, year, and a word of the title."""
        words = [word for word in re.findall(r"[a-z]+", self.title.lower()) if len(word) > 3]
        family = re.sub(r"[^a-z]", "", self.families[0].lower())
        return f"{family}{self.year}{words[0] if words else ''}"

    def bibtex(self) -> str:
        """Return a BibTeX entry, with the place in the publication as its note.

        Returns
        -------
        str
            The entry, on several lines.
        """
        fields = {
            "author": " and ".join(self.authors),
            "title": f"{{{self.title}}}",
            "booktitle": self.venue,
            "year": str(self.year),
            "doi": self.doi,
            "eprint": self.arxiv,
            "archiveprefix": "arXiv" if self.arxiv else "",
            "note": self.place,
        }
        kind = "inproceedings" if self.venue else "misc"
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])
