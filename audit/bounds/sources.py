"""Citations as data, and the papers of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Source:
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


FMTT18 = Source(
    ("Feldman, Vitaly", "Mironov, Ilya", "Talwar, Kunal", "Thakurta, Abhradeep"),
    2018,
    "Privacy Amplification by Iteration",
    venue="IEEE Symposium on Foundations of Computer Science (FOCS)",
    doi="10.1109/FOCS.2018.00056",
    arxiv="1808.06651",
)
AT22 = Source(
    ("Altschuler, Jason M.", "Talwar, Kunal"),
    2022,
    "Privacy of Noisy Stochastic Gradient Descent: More Iterations without More Privacy Loss",
    venue="Advances in Neural Information Processing Systems (NeurIPS)",
    arxiv="2205.13710",
)
CL25 = Source(
    ("Chien, Eli", "Li, Pan"),
    2025,
    "Convergent Privacy Loss of Noisy-SGD without Convexity and Smoothness",
    venue="International Conference on Learning Representations (ICLR)",
    arxiv="2410.01068",
)
SURVEY = Source(
    ("Boninsegna, Fabrizio",),
    2023,
    "The Privacy Analysis of the Differential Private Stochastic Gradient Descent",
)
BSA24 = Source(
    ("Bok, Jinho", "Su, Weijie J.", "Altschuler, Jason M."),
    2024,
    "Shifted Interpolation for Differential Privacy",
    venue="International Conference on Machine Learning (ICML)",
    arxiv="2403.00278",
)
MCSHERRY_TALWAR_07 = Source(
    ("McSherry, Frank", "Talwar, Kunal"),
    2007,
    "Mechanism Design via Differential Privacy",
    venue="IEEE Symposium on Foundations of Computer Science (FOCS)",
    doi="10.1109/FOCS.2007.66",
)
DRS22 = Source(
    ("Dong, Jinshuo", "Roth, Aaron", "Su, Weijie J."),
    2022,
    "Gaussian Differential Privacy",
    venue="Journal of the Royal Statistical Society Series B",
    doi="10.1111/rssb.12454",
    arxiv="1905.02383",
)
KJH20 = Source(
    ("Koskela, Antti", "Jaelkoe, Joonas", "Honkela, Antti"),
    2020,
    "Computing Tight Differential Privacy Guarantees Using FFT",
    venue="International Conference on Artificial Intelligence and Statistics (AISTATS)",
    arxiv="1906.03049",
)
FS25 = Source(
    ("Feldman, Vitaly", "Shenfeld, Moshe"),
    2025,
    "Privacy amplification by random allocation",
    arxiv="2502.08202",
)
KONG24 = Source(
    ("Kong, Weiwei", "Ribero, Monica"),
    2024,
    "Privacy of the last iterate in cyclically-sampled DP-SGD on nonconvex composite losses",
    arxiv="2407.05237",
)
SUN24 = Source(
    ("Sun, Yan", "Shen, Li", "Tao, Dacheng"),
    2024,
    "Convergent Differential Privacy Analysis for General Federated Learning: the f-DP Perspective",
    arxiv="2408.15621",
)
LIANG26 = Source(
    ("Liang, Hao", "Zhang, Wanrong", "He, Xinlei", "Wu, Kaishun", "Xing, Hong"),
    2026,
    "An Improved Privacy and Utility Analysis of Differentially Private SGD with Bounded Domain "
    "and Smooth Losses",
    venue="AAAI Conference on Artificial Intelligence",
    arxiv="2502.17772",
)
EVD26 = Source(
    ("Ertan, Murat Bilgehan", "van Dijk, Marten"),
    2026,
    "Closed-Form Noise Calibration Against Membership Inference for Random-Allocation DP-SGD",
)
OWN = Source(("this package",), 2026, "Upper bounds by couplings")
