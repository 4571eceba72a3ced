"""Read the cases of the zoo: ``scenarios/zoo/<case>/case.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from audit import validate
from audit.claims import Expected
from audit.codec import decode
from audit.codec.hints import did_you_mean
from audit.codec.yaml_text import read_yaml

CASE = "case.yaml"
PROGRAM = "program.py"
PAGE = "README.md"


@dataclass(frozen=True)
class Release:
    """A release of the package, and the expected verdict on each claim of the program.

    ``requires`` replaces that of the case: the other packages of its environment.
    """

    expected: Mapping[str, Expected]
    requires: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Case:
    """A case of the zoo.

    Attributes
    ----------
    title
        One line: what goes wrong.
    package
        The name of the package on PyPI.
    upstream
        Addresses of the public threads about it.
    requires
        All other packages of the environment, one line of a requirements file each. The package
        itself is installed without its dependencies.
    releases
        Its releases by version.
    folder
        The folder of the case.
    """

    title: str
    package: str
    upstream: tuple[str, ...]
    requires: tuple[str, ...]
    releases: Mapping[str, Release]
    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def shared(self) -> Path:
        """The folder of all cases, whose modules the programs may import."""
        return self.folder.parent

    def requirements(self, version: str) -> tuple[str, ...]:
        """Return the requirements of a release, without the package itself."""
        own = self.releases[version].requires
        return self.requires if own is None else own


def read(folder: Path) -> Case:
    """Return the case in a folder.

    Raises
    ------
    ValueError
        If ``case.yaml`` is broken, or a file of the case is missing.
    """
    for name in (CASE, PROGRAM, PAGE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: {name} is missing")
    plain, _ = read_yaml((folder / CASE).read_text(encoding="utf-8"))
    case = decode(Case, plain, str(folder / CASE), given={"folder": folder})
    assert isinstance(case, Case)
    if not case.releases:
        raise validate.fail(f"{folder / CASE}: releases", "at least one", dict(case.releases))
    return case


def read_all(folder: Path, names: tuple[str, ...] = ()) -> tuple[Case, ...]:
    """Return the named cases, or all, in the order of their names.

    Raises
    ------
    ValueError
        If there is no such case, or one is broken.
    """
    known = sorted(file.parent.name for file in folder.glob(f"*/{CASE}"))
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"case must be one of {', '.join(known)}, got {name!r}{hint}")
    return tuple(read(folder / name) for name in names or known)
