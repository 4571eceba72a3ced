"""Running every scenario: what is kept, what is run again, and what breaks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from audit import report
from audit.report.document import Picture
from audit.results import Result, to_json
from audit.scenario.folders import scenarios_folder
from results.scenarios import make
from results.scenarios.make import SCENARIOS, main, names, run_all
from results.scenarios.publish import Outcome, fewer_colours, linked, place_of, publish, stable
from tests.report import example
from tests.report.example import bare, draw_one_pixel, pair_settings


class Runner:
    """Stands in for the processes: writes a result, or fails where the name says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        words = dict(word.partition("=")[::2] for word in command[3:])
        self.asked.append(words["scenario"])
        assert options["env"]["OPENBLAS_NUM_THREADS"] == "1"
        assert words["threads"] == "1"
        if words["scenario"] == "slow":
            raise subprocess.TimeoutExpired(command, options["timeout"])
        if words["scenario"] == "broken":
            told = "a warning\naudit: error: steps must be ..., got 0\n"
            return subprocess.CompletedProcess(command, 2, "", told)
        folder = Path(words["output"]) / "made-1"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}", encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    made = Runner()
    monkeypatch.setattr(make.subprocess, "run", made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("good", "broken", "slow"):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / f"{name}.yaml").write_text(f"name: {name}\n", encoding="utf-8")
    return tmp_path / "files"


def outcomes(folder: Path, chosen: tuple[str, ...], *, fresh: bool = False) -> dict[str, Any]:
    lines: list[str] = []
    work = folder.parent / "work"
    found = run_all(chosen, folder, work, jobs=2, fresh=fresh, tell=lines.append)
    assert len(lines) == len(chosen)
    assert [one.name for one in found] == list(chosen)
    return {one.name: one for one in found}


def test_errors_are_outcomes(folder: Path, runner: Runner) -> None:
    found = outcomes(folder, names(folder))
    assert found["good"].error is None
    assert found["good"].folder.name == "made-1"
    assert found["broken"].error == "steps must be ..., got 0"
    assert found["slow"].error == "it took longer than 1200 s"
    assert found["broken"].folder is found["slow"].folder is None


def test_what_the_same_source_ran_is_kept(folder: Path, runner: Runner) -> None:
    assert not outcomes(folder, ("good", "broken"))["good"].kept
    again = outcomes(folder, ("good", "broken"))
    assert again["good"].kept
    assert sorted(runner.asked) == ["broken", "broken", "good"]  # an error is tried again
    (folder / "good.yaml").write_text("name: good\nseed: 1\n", encoding="utf-8")
    assert not outcomes(folder, ("good",))["good"].kept
    assert not outcomes(folder, ("good",), fresh=True)["good"].kept
    # so is a run that was stopped
    (folder.parent / "work" / "good" / "run.json").unlink()  # written after all else
    assert not outcomes(folder, ("good",))["good"].kept
    (folder.parent / "work" / "good" / "run" / "made-1" / "result.json").unlink()
    assert not outcomes(folder, ("good",))["good"].kept


def test_a_mark_holds_what_the_run_took(folder: Path, runner: Runner) -> None:
    first = outcomes(folder, ("good",))["good"]
    mark = json.loads((folder.parent / "work" / "good" / "run.json").read_text(encoding="utf-8"))
    assert mark["seconds"] == round(first.seconds, 1)
    assert outcomes(folder, ("good",))["good"].seconds == mark["seconds"]


def test_a_real_process_that_breaks(tmp_path: Path) -> None:
    """A scenario that the command does not know, since only this folder has it."""
    with pytest.raises(ValueError, match="scenarios must be a folder of YAML files, got"):
        names(tmp_path)
    (tmp_path / "nothing.yaml").write_text("name: nothing\n", encoding="utf-8")
    (one,) = run_all(
        ("nothing",), tmp_path, tmp_path / "work", jobs=1, fresh=False, tell=lambda line: None
    )
    assert one.error is not None
    assert "scenario must be that of a scenario file, got 'nothing'" in one.error


def test_the_folder_that_is_listed_is_the_one_that_is_run() -> None:
    """`audit` knows its scenarios by name: there is no other folder to choose."""
    assert scenarios_folder() == SCENARIOS
    with pytest.raises(SystemExit):
        main(["--scenarios", "elsewhere"])


# ---------------- The committed folders: the same numbers give the same bytes, and nothing is lost


CONFIG = "output: results/runs\nsweep: null\ndraw: false\nthreads: 1\nname: a\nseed: 7\n"


def result(name: str, started: str = "2001-02-03", threads: int = 1) -> Result:
    setting = replace(bare(pair_settings()[0]), wall_seconds=11.25)  # three figures are enough
    made = example.result(setting, name=name)
    environment = made.provenance.environment
    assert environment is not None
    environment = replace(environment, started=started, wall_seconds=12.5, threads=threads)
    return replace(made, provenance=replace(made.provenance, environment=environment))


def outcome(folder: Path, name: str, **other: Any) -> Outcome:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(to_json(result(name, **other)), encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return Outcome(name, folder, None, 13.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    folder = tmp_path_factory.mktemp("runs")
    return [outcome(folder / name, name) for name in ("a", "b")]


@pytest.fixture(scope="module", autouse=True)
def _one_pixel() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        draw_one_pixel(patch)
        yield


@pytest.fixture(scope="module")
def published(runs: list[Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("published")
    publish(runs, ["a", "b"], results)
    return results


@pytest.fixture
def results(published: Path, tmp_path: Path) -> Path:
    """A copy of the published folder."""
    return shutil.copytree(published, tmp_path / "results")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_only_the_provenance_changes_from_run_to_run(tmp_path: Path) -> None:
    for time, place in (("2001-02-03", "one"), ("2026-05-06", "two")):
        made = outcome(tmp_path / "runs" / place, "a", started=time, threads=len(time) % 3)
        publish([made], ["a"], tmp_path / place)
    one, two = (contents(tmp_path / place) for place in ("one", "two"))
    assert set(one) == set(two)
    assert {name for name in one if one[name] != two[name]} == {"scenarios/provenance.json"}
    for name, text in one.items():
        if name != "scenarios/provenance.json" and not name.endswith(".png"):
            assert b"2001-02-03" not in text, name
    told = json.loads(one["scenarios/provenance.json"])["a"]
    assert told["started"] == "2001-02-03"
    assert set(told["seconds_of_settings"].values()) == {11.25}
    assert told["seconds_of_process"] == 13.0


def test_numbers_are_those_of_the_run(published: Path) -> None:
    place = place_of("a", published)
    kept, was = report.load(place), result("a")
    assert replace(kept.settings[0], wall_seconds=11.25) == was.settings[0]
    assert kept.confidence == was.confidence
    assert (place / "config.yaml").read_text(encoding="utf-8") == "name: a\nseed: 7\n"
    page = (place / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<svg" not in page
    shown = re.findall(r'src="([^"]+)"', page)
    assert shown
    assert all((place / name).is_file() for name in shown)
    assert {name.name for name in (place / "figures").iterdir()} == {Path(n).name for n in shown}


def test_errors_are_rows_and_folders_of_unknown_scenarios_go(results: Path) -> None:
    told = publish([Outcome("a", None, "steps must be ..., got 0", 1.0)], ["a"], results)
    assert [(run.name, run.error) for run in told] == [("a", "steps must be ..., got 0")]
    assert not place_of("b", results).exists()
    rows = json.loads((results / "scenarios" / "results.json").read_text(encoding="utf-8"))["rows"]
    assert [row["verdict"] for row in rows] == ["error"]
    assert json.loads((results / "scenarios" / "provenance.json").read_text("utf-8")) == {}


def test_what_was_not_run_stays(runs: list[Outcome], published: Path, results: Path) -> None:
    told = publish(runs[:1], ["a", "b"], results)
    assert [run.name for run in told] == ["a", "b"]
    assert contents(results) == contents(published)


def test_the_shown_example_has_a_place_of_its_own(tmp_path: Path) -> None:
    made = outcome(tmp_path / "run", "at22_lower_bound")
    publish([made], ["at22_lower_bound"], tmp_path / "results")
    place = tmp_path / "results" / "at22_lower_bound"
    assert "figures/" in (place / "report.html").read_text(encoding="utf-8")
    index = (tmp_path / "results" / "scenarios" / "index.html").read_text(encoding="utf-8")
    assert 'href="../at22_lower_bound/report.html"' in index


def test_nothing_but_the_provenance_is_taken_out() -> None:
    was = result("a")
    kept = stable(was, "a")
    assert kept.provenance.command == "audit scenario=a"
    assert kept.provenance.environment is None
    assert replace(kept, provenance=was.provenance, settings=was.settings) == was
    assert replace(kept.settings[0], wall_seconds=11.25) == was.settings[0]


def test_drawings_are_linked_in_their_order() -> None:
    pictures = [
        Picture(name=name, title=title, caption="", svg=b"", png=b"")
        for name, title in (("a", 'one & "two"'), ("b", "three"))
    ]
    text = linked("x<svg one></svg>y<svg>\n</svg>z", iter(pictures))
    assert text.index("figures/a.png") < text.index("y") < text.index("figures/b.png")
    assert 'alt="one &amp; &#34;two&#34;"' in text
    with pytest.raises(ValueError, match="got fewer"):
        linked("<svg></svg><svg></svg>", iter(pictures[:1]))
    with pytest.raises(ValueError, match="got more"):
        linked("<svg></svg>", iter(pictures))


def test_fewer_colours_look_the_same() -> None:
    shades = np.linspace(0, 255, 300).astype(np.uint8)
    pixels = np.stack([np.tile(shades, (60, 1))] * 3, axis=-1)
    pixels[20:40] = (0, 90, 160)
    written = BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    small = fewer_colours(written.getvalue())
    seen = np.asarray(Image.open(BytesIO(small)).convert("RGB")).astype(int)
    # 64 colours for 256 greys and a blue: four shades share one, a few more where boxes are split
    assert np.max(np.abs(seen - pixels.astype(int))) <= 8
