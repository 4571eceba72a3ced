"""The claims of the accountants of dp-accounting and Opacus, and of trainings with less noise."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.optimize import brentq
from scipy.special import ndtr

from audit.claims.checking import check_file
from audit.claims.claim import Expected
from audit.claims.judgement import Judgement

pytest.importorskip("dp_accounting")
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scenarios" / "claims"
FILES = {name: yaml.safe_load((FOLDER / f"{name}.claims.yaml").read_text(encoding="utf-8"))
         for name in ("dp_accounting", "opacus", "less_noise")}  # fmt: skip
CLAIMS = {claim["id"]: claim for file in FILES.values() for claim in file["claims"]}
# judged here; results/claims/make.py judges all
QUICK = {"dp_accounting": ("03",), "opacus": ("12",)}
# tight claims of each library, which less noise must refute
TIGHT = ("dp_accounting.pld", "dp_accounting.rdp", "opacus.prv", "opacus.rdp")


def is_quick(id: str) -> bool:
    library, _, setting = id.removeprefix("less_noise.").split(".")
    return setting in (*QUICK[library], "replace_one", "without_replacement")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """The quick claims, without reading the events of the others."""
    folder = tmp_path_factory.mktemp("quick")
    shutil.copy(FOLDER / "dp_accounting_events.py", folder)
    found: list[Judgement] = []
    for name, file in FILES.items():
        path = folder / f"{name}.claims.yaml"
        quick = [claim for claim in file["claims"] if is_quick(claim["id"])]
        path.write_text(yaml.safe_dump({**file, "claims": quick}), encoding="utf-8")
        found += check_file(path)
    return {judgement.claim.id: judgement for judgement in found}


def test_there_are_twelve_settings_of_each_accountant() -> None:
    kinds = Counter(id.rpartition(".")[0] for id in CLAIMS if re.search(r"\.\d\d$", id))
    assert set(kinds) == {
        f"{head}{kind}"
        for head in ("", "less_noise.")
        for kind in (*TIGHT, "dp_accounting.rdp_epsilon", "opacus.rdp_epsilon")
    }
    assert set(kinds.values()) == {12}


def test_accountants_are_consistent(judged: dict[str, Judgement]) -> None:
    for id, judgement in judged.items():
        assert judgement.as_expected, judgement.message
        if not id.startswith("less_noise.") and judgement.claim.expected is not Expected.REFUTED:
            assert judgement.tightness is not None
            assert judgement.tightness >= 1


def test_two_percent_less_noise_is_refuted(judged: dict[str, Judgement]) -> None:
    found = {id: j for id, j in judged.items() if id.startswith("less_noise.")}
    assert len(found) == 6
    for id, judgement in found.items():
        tight = id.removeprefix("less_noise.").rpartition(".")[0] in TIGHT
        # what is expected is written by hand, so that it is checked here too
        assert (judgement.claim.expected is Expected.REFUTED) is tight
        # an epsilon that is made of Renyi divergences still holds: nothing can refute it
        assert ((judgement.tightness or 0) < 1) is tight, judgement.message


def test_the_stored_table_is_of_these_claims() -> None:
    table = (ROOT / "results" / "claims" / "accountants.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\w\\.]+) \| (\w+) \|", table, flags=re.MULTILINE)
    assert [id for _, id, _ in rows] == list(CLAIMS)
    assert {mark for mark, _, _ in rows} == {"ok"}


def test_the_truth_at_a_tiny_delta_in_a_second_way() -> None:
    """Fourier transforms lose what is below 1e-16; those of a law tilted to the place do not."""
    z, q, steps, interval, tilt = 6.0, 0.01, 10_000, 4e-5, 30.0
    x = np.linspace(-14 * z, 14 * z + 1, 800_001)
    middle = (x[1:] + x[:-1]) / 2

    def masses(mean: float) -> np.ndarray:
        left, right = (x[:-1] - mean) / z, (x[1:] - mean) / z
        return np.where(middle > mean, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))

    p = (1 - q) * masses(0.0) + q * masses(1.0)
    place = np.log1p(q * np.expm1((2 * middle - 1) / (2 * z * z))) / interval
    low = np.floor(place).astype(int)
    first, share = int(low.min()), place - low
    once = np.bincount(low - first, p * (1 - share), low.max() - first + 2)
    once += np.bincount(low - first + 1, p * share, once.size)
    tilted = once * np.exp(tilt * (np.arange(once.size) + first) * interval)
    scale = tilted.sum()
    # losses as distances from the mean of a step, which is about 0 on the grid
    wheel = np.zeros(1 << 18)
    np.add.at(wheel, (np.arange(once.size) + first) % wheel.size, tilted / scale)
    composed = np.fft.irfft(np.fft.rfft(wheel) ** steps, wheel.size)
    losses = np.arange(wheel.size) * interval  # the tilted law is around 2

    def log_delta(epsilon: float) -> float:
        above = losses > epsilon
        terms = composed[above] * np.exp(steps * np.log(scale) - tilt * losses[above])
        return float(np.log(np.sum(terms * -np.expm1(epsilon - losses[above]))))

    for point in CLAIMS["dp_accounting.pld.tiny_delta"]["points"]:
        claimed, delta = point["epsilon"], float(point["delta"])
        true = brentq(lambda e, d=delta: log_delta(e) - np.log(d), 0.5, 2.0)
        # rounding losses to the grid adds about 5e-5 at this interval
        assert claimed < true - 2e-4
        assert true == pytest.approx({1e-12: 1.1102925, 1e-13: 1.1665957}[delta], abs=1e-4)
