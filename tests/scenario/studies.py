"""Studies for tests, found by name like those of the package."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from pathlib import Path

from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario.studies import Progress


def unhinted(*, size) -> Findings:  # type: ignore[no-untyped-def]
    return Findings(statements=(size,))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True)
class Everything:
    """One study with a part of every kind; ``wrong`` makes its first statement false."""

    size: int
    wrong: bool = False
    step: float = 0.5
    word: str = "none"
    colour: Colour = Colour.RED
    numbers: tuple[float, ...] = ()
    pair: tuple[int, int] = (1, 2)
    place: Path | None = None
    centre: Point = Point(0.0)

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        progress(1, 1)
        x = tuple(self.step * i for i in range(self.size))
        return Findings(
            statements=(
                Statement(
                    claim="The root of 2 is 1.41421356",
                    citation="Euclid, Elements X",
                    expected=1.41421356,
                    found=2.0 if self.wrong else math.sqrt(2.0),
                    error=1e-8,
                    verdict=Verdict.REFUTED if self.wrong else Verdict.HOLDS,
                ),
                Statement(
                    claim="The seed is even",
                    citation="this package",
                    expected="even",
                    found=float(seed),
                    verdict=Verdict.HOLDS if seed % 2 == 0 else Verdict.INCONCLUSIVE,
                ),
            ),
            tables=(
                FoundTable(
                    caption="Squares grow",
                    columns=("name", "x", "x squared"),
                    rows=(("none", 0.0, 0.0), ("pi", math.pi, math.pi**2), ("all", math.inf, -1.5)),
                ),
            ),
            charts=(
                Chart(
                    name="squares",
                    title="Squares",
                    caption="The band holds the squares at every point that is shown here.",
                    x_label="x",
                    y_label="x squared",
                    series=(
                        Series(name="squares", x=x, y=tuple(v * v for v in x)),
                        Series(
                            name="band",
                            x=x,
                            y=tuple(v * v - 1 for v in x),
                            top=tuple(v * v + 1 for v in x),
                            drawn=Drawn.BAND,
                        ),
                        Series(name="points", x=x, y=tuple(2 * v for v in x), drawn=Drawn.POINTS),
                        Series(name="steps", x=x, y=(math.nan, *x[1:]), drawn=Drawn.STEPS),
                    ),
                ),
                Chart(
                    name="powers",
                    title="Powers",
                    caption="On two logarithmic axes a power is a straight line, as seen here.",
                    x_label="x",
                    y_label="x to the fourth",
                    series=(Series(name="fourth", x=x[1:], y=tuple(v**4 for v in x[1:])),),
                    x_logarithmic=True,
                    y_logarithmic=True,
                ),
            ),
            notes=("The seed makes one statement what it is.",),
            numbers={"threads": threads, "confidence": confidence, "at": (1, math.nan)},
        )
