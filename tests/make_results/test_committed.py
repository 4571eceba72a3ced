"""The committed results fit their configurations, the index and the pages.

``tests/test_stored_numbers.py`` computes a sample of their numbers again.
"""

from __future__ import annotations

import csv
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from scipy import stats

import digits_canary as digits
from audit import Relation, exact, report
from audit.cli.audit import read_job
from audit.report import joined_rows
from audit.results import PairResult
from audit.scenario.pair import PairSetting
from results.scenarios.make import names
from results.scenarios.publish import SHOWN, place_of
from results.trainings import make
from tests.mechanisms import dp_sgd

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
INDEX = RESULTS / "scenarios"
FOLDERS = {
    name: place_of(name, RESULTS)
    for name in names(ROOT / "scenarios")
    if (place_of(name, RESULTS) / "result.json").is_file()
}
_MEGABYTES = 15.0


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_results_are_of_the_committed_configuration(name: str) -> None:
    config = OmegaConf.load(FOLDERS[name] / "config.yaml")
    assert isinstance(config, DictConfig)
    scenario, stored = read_job(config, []).scenario, report.load(FOLDERS[name])
    assert [one.name for one in scenario.settings] == [one.name for one in stored.settings]
    for setting, result in zip(scenario.settings, stored.settings, strict=True):
        if isinstance(setting, PairSetting) and setting.search is None:
            assert isinstance(result, PairResult)
            assert result.pair == setting.pair
            assert {row.delta for row in result.deltas} == set(setting.deltas)


def test_every_scenario_is_in_the_index_without_an_error_and_with_its_numbers() -> None:
    """Nothing is skipped: without its results a scenario says nothing to a reader."""
    known = names(ROOT / "scenarios")
    missing = sorted(set(known) - set(FOLDERS))
    assert not missing, f"make results has to be run: {', '.join(missing)}"
    content = json.loads((INDEX / "results.json").read_text(encoding="utf-8"))
    assert content["errors"] == 0
    assert {row["scenario"] for row in content["rows"]} == {Path(name).name for name in known}
    page = (INDEX / "index.html").read_text(encoding="utf-8")
    assert all(f"scenario={name}" in page for name in known)
    rows = joined_rows.rows(report.gather([RESULTS / SHOWN, INDEX]))
    assert content["rows"] == [row.columns for row in rows]


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in (RESULTS / "catalogue" / "catalogue.md", INDEX / "index.md", INDEX / "README.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        assert links
        for link in links:
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_dates_are_in_the_provenance_alone_and_the_results_are_small() -> None:
    details = json.loads((INDEX / "provenance.json").read_text(encoding="utf-8"))
    assert set(details) == set(FOLDERS)
    for name, folder in FOLDERS.items():
        assert report.load(folder).provenance.environment is None, name
        assert details[name]["started"], name
    files = [f for place in (INDEX, RESULTS / SHOWN) for f in place.rglob("*") if f.is_file()]
    assert sum(file.stat().st_size for file in files) < _MEGABYTES * 1e6


# ------------- The committed audits of trainings: verdicts, accountants, and the law of the scores


Array = NDArray[np.float64]


@cache
def table() -> list[dict[str, str]]:
    with (make.HERE / "trainings.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def recorded(script: str, training: str) -> tuple[Array, Array]:
    name = f"{script}/{'_'.join(training.lower().split())}"
    with np.load(make.HERE / "scores.npz") as stored:
        return stored[f"{name}/scores"], stored[f"{name}/scores_prime"]


def test_the_right_ones_are_consistent_and_each_mistake_is_refuted() -> None:
    verdicts: dict[tuple[str, str], set[str]] = {}
    for row in table():
        verdicts.setdefault((row["script"], row["training"]), set()).add(row["verdict"])
    for (_, training), found in verdicts.items():
        assert (found == {"consistent"}) == (training == "Right")
        assert ("refuted" in found) == (training != "Right")


def test_accountants_claim_the_exact_epsilon_of_the_right_training() -> None:
    claimed = dp_sgd(
        steps=digits.EPOCHS * digits.STEPS_PER_EPOCH,
        dataset_size=digits.PICTURES,
        batch_size=digits.BATCH_SIZE,
        noise_std=digits.NOISE_MULTIPLIER * digits.CLIP_NORM / digits.BATCH_SIZE,
        clip_norm=digits.CLIP_NORM,
        relation=Relation.ZERO_OUT,
    )
    exactly = exact.dominating_curve(claimed)
    for row in table():
        if row["training"] != "Right":
            continue
        low, high = exactly.epsilon_bracket(float(row["delta"]))
        assert low <= float(row["claimed"]) <= 1.01 * high
        assert float(row["certified"]) < low
        assert float(row["jax_privacy"]) < low


def simulated(rate: float, noise_multiplier: float, seed: int) -> Array:
    """Scores if batches are Poisson samples at a rate, with so much noise."""
    rng = np.random.default_rng(seed)
    shape = 1500, digits.EPOCHS * digits.STEPS_PER_EPOCH, 1
    products = rng.binomial(1, rate, shape) + noise_multiplier * rng.normal(size=shape)
    return np.array([digits.scores(-digits.CLIP_NORM * one)[0] for one in products])


@pytest.mark.parametrize(
    "script", [pytest.param(s, marks=pytest.mark.slow if "jax" in s else []) for s in make.SCRIPTS]
)
def test_recorded_scores_have_the_law_that_the_accountant_assumes(script: str) -> None:
    sides = zip(recorded(script, "Right"), (digits.SAMPLING_RATE, 0.0), strict=True)
    for seed, (scores, rate) in enumerate(sides):
        right = simulated(rate, digits.NOISE_MULTIPLIER, seed)
        assert stats.ks_2samp(scores, right).pvalue > 1e-3
        wrong = simulated(rate, 0.8 * digits.NOISE_MULTIPLIER, seed)
        assert stats.ks_2samp(scores, wrong).pvalue < 1e-3
