"""Folders of the scenarios that ship with the package, of runs, and of their checkpoints."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from audit.simulation.journal import UnusableFolderError, held

FIRST_LINE = "# @package _global_"  # in every scenario file, for Hydra
_OTHERS = ("claims", "found", "zoo")
_UNFINISHED = ".unfinished"  # no run's name begins with a dot


@contextlib.contextmanager
def unfinished(output: Path, name: str, command: str) -> Iterator[Path]:
    """Yield the folder, in that of all runs, for the checkpoints of one configuration's run.

    It exists only for a long run, until the end. After an error it is kept, and a note is added to
    the error: ``command`` continues the run.
    """
    folder = output / _UNFINISHED / name
    try:
        yield folder
    except BaseException as error:
        if folder.is_dir() and not isinstance(error, UnusableFolderError):
            error.add_note(f"what is finished is kept in {folder}; to go on from it: {command}")
        raise
    for samples in folder.glob("*"):
        # another run of the same configuration may be at work in there
        with contextlib.suppress(OSError, ValueError), held(samples):
            shutil.rmtree(samples)
    with contextlib.suppress(OSError):  # others are unfinished, or none ever was
        folder.rmdir()
        folder.parent.rmdir()


class RunFolder:
    """Folder of a run, which appears in ``parent`` either complete or not at all.

    A number is appended to the name if it is taken. Whether ``parent`` can be written to is checked
    at once, before hours of work.
    """

    def __init__(self, parent: Path, name: str) -> None:
        self.parent, self.name = Path(parent), name
        with _one_line_errors(self.parent):
            self.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.parent):
                pass

    @contextlib.contextmanager
    def write(self) -> Iterator[Path]:
        """Yield an empty folder to fill; without an error it gets its final name at the end.

        The final folder is `place` afterwards.
        """
        with _one_line_errors(self.parent):
            draft = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=self.parent))
            draft.chmod(0o755)
        try:
            yield draft
            with _one_line_errors(self.parent):
                names = (f"{self.name}-{number}" for number in itertools.count(2))
                places = (self.parent / name for name in itertools.chain([self.name], names))
                self.place = next(place for place in places if not place.exists())
                os.rename(draft, self.place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _one_line_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        got = f"{str(folder)!r} ({error.strerror or error})"
        raise ValueError(f"output must be a folder that can be written to, got {got}") from None


def scenarios_folder() -> Path:
    """Return the folder of shipped scenarios: in a checkout at the top, else in the package."""
    package = Path(__file__).resolve().parents[1]
    bundled = package / "_scenarios"
    return bundled if bundled.is_dir() else package.parent / "scenarios"


def scenario_files(folder: Path | None = None) -> Mapping[str, Path]:
    """Return the scenario files in a folder and its subfolders by name, in order.

    Names are those after ``audit scenario=``, paths without a suffix such as ``papers/langevin``.
    """
    folder = scenarios_folder() if folder is None else folder
    names = {}
    for file in folder.rglob("*.yaml"):
        path = file.relative_to(folder)
        if path.parts[0] not in _OTHERS:
            names[path.with_suffix("").as_posix()] = file
    return dict(sorted(names.items()))
